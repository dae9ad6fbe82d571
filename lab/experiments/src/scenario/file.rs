//! Reads a scenario file: TOML to `sim::scenario`. Each mistake has its file and line.

use super::names::{MAX_NODES, Reader, window};
use super::sweep::ScenarioSweep;
use super::text::{File, NodeText};
use rpc::document::{Document, Mistake, read};
use sim::map::RouteMap;
use sim::scenario::{NodeId, Queue, Scenario, SimNodeSpec, SourceId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terms::{FlowSpec, SenderTemplate, Session, Span, Time, Tspec};

/// A scenario with the names of its parts, its reservations, and its sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioFile {
    /// The file's path. Traces and queue trees are relative to its folder.
    pub path: PathBuf,
    /// The file's text, in which a sweep replaces values.
    pub text: String,
    /// The scenario's name.
    pub name: String,
    /// The scenario without its reservations.
    pub scenario: Scenario,
    /// Names of the sources.
    pub sources: Vec<GroupMember>,
    /// Names of the connections.
    pub connections: Vec<GroupMember>,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Names of the links.
    pub links: Vec<String>,
    /// The reservations, for the runs that make them.
    pub reservations: Vec<ReservationSpec>,
    /// The sweep.
    pub sweep: ScenarioSweep,
}

/// A source or connection with a name, possibly in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// Its name.
    pub name: String,
    /// The number of its group.
    pub group: Option<u32>,
}

/// A reservation for a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationSpec {
    /// The source.
    pub source: SourceId,
    /// The sending node.
    pub sender: NodeId,
    /// The receiving node.
    pub receiver: NodeId,
    /// The time at which both ends register.
    pub at: Time,
    /// The Tspec that the sender announces.
    pub tspec: Tspec,
    /// The flowspec that the receiver requests.
    pub flowspec: FlowSpec,
    /// The session.
    pub session: Session,
    /// The sender template.
    pub template: SenderTemplate,
}

impl ScenarioFile {
    /// Reads a file, and every value of its sweep.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<ScenarioFile, Mistake> {
        ScenarioFile::parse(file, &read(file)?)
    }

    /// Reads a text that came from `file`, and every value of its sweep.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<ScenarioFile, Mistake> {
        let found = ScenarioFile::once(file, text)?;
        found.sweep.try_each_value(&found)?;
        Ok(found)
    }

    /// Reads a text as it is, without its sweep.
    pub(super) fn once(file: &Path, text: &str) -> Result<ScenarioFile, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let (nodes, links, groups) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut reader = Reader { document, nodes, links, groups };
        let refresh = found.refresh.map_or(Span::from_secs(30), |span| span.0);
        let measured = window(*found.measure.get_ref());
        let nodes = reader.nodes(&found.node, found.agents, refresh)?;
        let mut scenario = Scenario { seed: found.seed, nodes, measured, ..Scenario::default() };
        let default = reader.links(&found, &mut scenario)?;
        scenario.queue = default;
        let map = RouteMap::new(&scenario);
        let (mut sources, mut connections, mut reservations) = (Vec::new(), Vec::new(), Vec::new());
        for text in &found.source {
            reader.sources(text, &map, &mut scenario, &mut sources, &mut reservations)?;
        }
        for text in &found.tcp {
            reader.connections(text, &map, &mut scenario, &mut connections)?;
        }
        if sources.is_empty() && connections.is_empty() {
            return Err(reader.document.whole("nothing is sent: add a [[source]] or a [[tcp]] entry"));
        }
        for text in &found.at {
            reader.happens(text, &mut scenario)?;
        }
        let mut links: Vec<String> = vec![String::new(); scenario.links.len()];
        for ((a, b), id) in &reader.links {
            links[id.0] = format!("{a}-{b}");
        }
        let sweep = ScenarioSweep::read(&reader.document, text, &found, reservations.is_empty())?;
        let (path, text, name, groups) = (file.to_owned(), text.to_string(), found.name, reader.groups);
        Ok(ScenarioFile { path, text, name, scenario, sources, connections, groups, links, reservations, sweep })
    }
}

impl Reader<'_> {
    fn nodes(&mut self, found: &[NodeText], agents: bool, refresh: Span) -> Result<Vec<SimNodeSpec>, Mistake> {
        let mut nodes = Vec::new();
        for text in found {
            let at = text.name.span();
            for counters in self.copies(&text.repeat)? {
                let name = self.fill(text.name.get_ref(), &counters, at.clone())?;
                nodes.push(SimNodeSpec { agent: text.agent.unwrap_or(agents), ..SimNodeSpec::new(&name, refresh) });
                if self.nodes.insert(name.clone(), NodeId(nodes.len() - 1)).is_some() {
                    return Err(self.wrong(at, format!("the node {name:?} is there twice")));
                }
            }
        }
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            let count = nodes.len();
            return Err(self
                .document
                .whole(format!("{count} nodes: there must be 1 to {MAX_NODES} by [[node]] entries")));
        }
        Ok(nodes)
    }
}

/// Returns the default queue of directions: an agent's data plane, unless the file states another.
pub(super) fn usual_queue() -> Queue {
    Queue::Port
}
