//! A scenario file: TOML to `sim::scenario`.

use daemon::document::{Document, Mistake, read};
use serde::Deserialize;
use sim::map::Map;
use sim::scenario::{LinkSpec, NodeId, NodeSpec, Pattern, Scenario, SourceId, SourceSpec};
use std::collections::BTreeMap;
use std::path::Path;
use terms::{Bytes, FlowKey, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Time, Tspec};
use toml::Spanned;
use traffic::port::SchedulerKind;

/// Most points of a sweep.
pub const MAX_POINTS: usize = 10_000;
const MAX_NODES: usize = 1_000;
const MAX_SOURCES: usize = 10_000;
const UDP: u8 = 17;

/// A scenario, its sources' names and reservations, and what is swept.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioFile {
    /// What it is about.
    pub name: String,
    /// Nodes, links and sources; no script.
    pub scenario: Scenario,
    /// Names of the sources.
    pub sources: Vec<String>,
    /// Reservations, for when they are made.
    pub reservations: Vec<Reservation>,
    /// Points of the sweep: a rate for `swept` (`None`: as it stands), and whether reservations are made.
    pub points: Vec<(Option<Rate>, bool)>,
    /// Whose rate is swept.
    pub swept: Option<SourceId>,
}

/// A reservation for a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// For which source.
    pub source: SourceId,
    /// Who sends.
    pub sender: NodeId,
    /// Who receives.
    pub receiver: NodeId,
    /// When both ends speak up.
    pub at: Time,
    /// What the sender says it sends.
    pub tspec: Tspec,
    /// What the receiver asks for.
    pub flowspec: FlowSpec,
    /// The session.
    pub session: Session,
    /// The sender's end.
    pub template: SenderTemplate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    seed: u64,
    scheduler: Option<Spanned<String>>,
    refresh: Option<Spanned<String>>,
    measure: Spanned<[String; 2]>,
    #[serde(default)]
    node: Vec<NodeText>,
    #[serde(default)]
    link: Vec<LinkText>,
    #[serde(default)]
    source: Vec<SourceText>,
    sweep: Option<SweepText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    name: Spanned<String>,
    #[serde(default = "yes")]
    agent: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    between: Spanned<[String; 2]>,
    rate: Spanned<String>,
    delay: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceText {
    name: Spanned<String>,
    from: Spanned<String>,
    to: Spanned<String>,
    packet: Spanned<String>,
    during: Spanned<[String; 2]>,
    cbr: Option<Spanned<String>>,
    #[serde(default)]
    jitter: u32,
    on_off: Option<Spanned<OnOffText>>,
    frames: Option<Spanned<FramesText>>,
    reserve: Option<Spanned<ReserveText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnOffText {
    rate: String,
    on: String,
    off: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FramesText {
    interval: String,
    packets: u32,
    spread: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReserveText {
    service: String,
    rate: String,
    burst: String,
    min_unit: Option<String>,
    at: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepText {
    pub(super) source: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) rates: Vec<Spanned<String>>,
    pub(super) reserve: Option<Vec<bool>>,
}

/// A reader at work: the document, and what is known by name so far.
pub(super) struct Reader<'a> {
    pub(super) document: Document<'a>,
    pub(super) nodes: BTreeMap<String, NodeId>,
}

impl ScenarioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<ScenarioFile, Mistake> {
        ScenarioFile::parse(file, &read(file)?)
    }

    /// Reads a text that came from `file`.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<ScenarioFile, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let mut reader = Reader { document, nodes: BTreeMap::new() };
        let measured = reader.window(&found.measure)?;
        let refresh = found.refresh.as_ref().map_or(Ok(Span::from_secs(30)), |text| reader.span(text))?;
        let scheduler = found.scheduler.as_ref().map_or(Ok(SchedulerKind::Htb), |text| reader.scheduler(text))?;
        let nodes = reader.nodes(&found.node, refresh)?;
        let links = found.link.iter().map(|link| reader.link(link, scheduler)).collect::<Result<Vec<_>, _>>()?;
        let mut scenario = Scenario { seed: found.seed, nodes, links, measured, ..Scenario::default() };
        let map = Map::new(&scenario);
        let (mut names, mut reservations) = (Vec::new(), Vec::new());
        if found.source.is_empty() || found.source.len() > MAX_SOURCES {
            return Err(reader.document.whole(format!("there must be 1 to {MAX_SOURCES} [[source]] entries")));
        }
        for text in &found.source {
            if names.contains(text.name.get_ref()) {
                let message = format!("the source {:?} is there twice", text.name.get_ref());
                return Err(reader.document.at(text.name.span(), message));
            }
            let (source, receiver) = reader.source(text, &map)?;
            let id = SourceId(names.len());
            reservations.extend(reader.reservation(text, id, &source, receiver)?);
            scenario.sources.push(source);
            names.push(text.name.get_ref().clone());
        }
        let (swept, points) = reader.sweep(found.sweep.as_ref(), &names, &scenario, !reservations.is_empty())?;
        Ok(ScenarioFile { name: found.name, scenario, sources: names, reservations, points, swept })
    }
}

impl Reader<'_> {
    fn nodes(&mut self, found: &[NodeText], refresh: Span) -> Result<Vec<NodeSpec>, Mistake> {
        if found.is_empty() || found.len() > MAX_NODES {
            return Err(self.document.whole(format!("there must be 1 to {MAX_NODES} [[node]] entries")));
        }
        for (number, text) in found.iter().enumerate() {
            if self.nodes.insert(text.name.get_ref().clone(), NodeId(number)).is_some() {
                let message = format!("the node {:?} is there twice", text.name.get_ref());
                return Err(self.document.at(text.name.span(), message));
            }
        }
        Ok(found
            .iter()
            .map(|text| NodeSpec { agent: text.agent, ..NodeSpec::new(text.name.get_ref(), refresh) })
            .collect())
    }

    fn link(&self, text: &LinkText, scheduler: SchedulerKind) -> Result<LinkSpec, Mistake> {
        let at = text.between.span();
        let end = |name: &String| {
            let known = self.nodes.get(name).copied();
            known.ok_or_else(|| self.document.at(at.clone(), format!("there is no node {name:?}")))
        };
        let [a, b] = text.between.get_ref();
        let (a, b) = (end(a)?, end(b)?);
        if a == b {
            return Err(self.document.at(at, "a link from a node to itself"));
        }
        let rate = self.rate(&text.rate)?;
        if rate == Rate::ZERO {
            return Err(self
                .document
                .at(text.rate.span(), "a link of rate zero carries nothing: give it a rate, or leave it out"));
        }
        let delay = text.delay.as_ref().map_or(Ok(Span::ZERO), |text| self.span(text))?;
        let scheduler = text.scheduler.as_ref().map_or(Ok(scheduler), |text| self.scheduler(text))?;
        Ok(LinkSpec::ethernet(a, b, rate, delay, scheduler))
    }

    fn source(&self, text: &SourceText, map: &Map) -> Result<(SourceSpec, NodeId), Mistake> {
        let (node, src_port) = self.end(&text.from)?;
        let (receiver, dst_port) = self.end(&text.to)?;
        let address = |node: NodeId, text: &Spanned<String>| {
            let message = "that node has no link, so it has no address";
            map.address(node).ok_or_else(|| self.document.at(text.span(), message))
        };
        let (src, dst) = (address(node, &text.from)?, address(receiver, &text.to)?);
        if node != receiver && map.way_out(node, dst).is_none() {
            return Err(self.document.at(text.to.span(), "there is no way there from the source: add a link"));
        }
        let packet = api::units::parse_bytes(text.packet.get_ref());
        let packet = match packet.map(|bytes| u32::try_from(bytes.get())) {
            Ok(Ok(packet)) if (28..=65_535).contains(&packet) => packet,
            Ok(_) => {
                return Err(self
                    .document
                    .at(text.packet.span(), "a packet is 28b to 65535b, IP and UDP headers included"));
            }
            Err(wrong) => return Err(self.document.at(text.packet.span(), wrong)),
        };
        let (from, until) = self.window(&text.during)?;
        let flow = FlowKey { src, dst, protocol: UDP, src_port, dst_port };
        Ok((SourceSpec { node, flow, packet, pattern: self.pattern(text)?, from, until }, receiver))
    }

    fn pattern(&self, text: &SourceText) -> Result<Pattern, Mistake> {
        if text.jitter > 100 {
            return Err(self.document.at(text.name.span(), "jitter is 0 to 100 percent of an interval"));
        }
        match (&text.cbr, &text.on_off, &text.frames) {
            (Some(rate), None, None) => Ok(Pattern::Cbr { rate: self.rate(rate)?, jitter_percent: text.jitter }),
            (None, Some(spanned), None) => {
                let wrong = |message| self.document.at(spanned.span(), message);
                let on_off = spanned.get_ref();
                let rate = api::units::parse_rate(&on_off.rate).map_err(wrong)?;
                let on = api::units::parse_span(&on_off.on).map_err(wrong)?;
                let off = api::units::parse_span(&on_off.off).map_err(wrong)?;
                Ok(Pattern::OnOff { rate, on, off })
            }
            (None, None, Some(spanned)) => {
                let frames = spanned.get_ref();
                let wrong = |message| self.document.at(spanned.span(), message);
                let interval = api::units::parse_span(&frames.interval).map_err(wrong)?;
                if interval == Span::ZERO || frames.packets == 0 || frames.spread > 100 {
                    return Err(wrong(
                        "a frame needs an interval, at least one packet, and a spread of 0 to 100 percent".to_string(),
                    ));
                }
                Ok(Pattern::Video { interval, packets: frames.packets, spread_percent: frames.spread })
            }
            _ => Err(self.document.at(text.name.span(), "a source has exactly one of cbr, on_off and frames")),
        }
    }

    fn reservation(
        &self,
        text: &SourceText,
        source: SourceId,
        spec: &SourceSpec,
        receiver: NodeId,
    ) -> Result<Option<Reservation>, Mistake> {
        let Some(spanned) = &text.reserve else { return Ok(None) };
        let wrong = |message: String| self.document.at(spanned.span(), message);
        let reserve = spanned.get_ref();
        let r = api::units::parse_rate(&reserve.rate).map_err(wrong)?;
        let b = api::units::parse_bytes(&reserve.burst).map_err(wrong)?;
        let at = api::units::parse_span(&reserve.at).map_err(wrong)?;
        if r == Rate::ZERO {
            return Err(wrong("a rate of zero reserves nothing".to_string()));
        }
        let min = reserve.min_unit.as_deref().map_or(Ok(Bytes::new(64)), api::units::parse_bytes).map_err(wrong)?;
        let m = u32::try_from(min.get()).map_err(|_| wrong("min_unit is too large".to_string()))?;
        let tspec = Tspec { r, b, p: Rate::INFINITE, m, M: spec.packet.max(m) };
        let flowspec = match reserve.service.as_str() {
            "controlled-load" => FlowSpec::ControlledLoad(tspec),
            "guaranteed" => FlowSpec::Guaranteed(tspec, Rspec { R: r, S: Span::ZERO }),
            other => return Err(wrong(format!("{other:?} is no service: controlled-load or guaranteed"))),
        };
        let flow = spec.flow;
        Ok(Some(Reservation {
            source,
            sender: spec.node,
            receiver,
            at: Time::ZERO + at,
            tspec,
            flowspec,
            session: Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port },
            template: SenderTemplate { src: flow.src, src_port: flow.src_port.into() },
        }))
    }
}
