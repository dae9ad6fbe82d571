//! Changes that several agents must make as one, written down before the first agent is asked.
//!
//! A change over several agents must not stop halfway because this process ends or an agent is away. So the
//! whole change lies in a file of the state folder until every agent has answered. It is carried out forward,
//! and backward if an agent refuses. An agent that does not answer is asked again, by this broker or the next
//! one that uses the folder. Commits are written here only if something goes wrong: the members at agents
//! show how far they came ([`crate::recover`]).

use crate::agents::OWN_NAME;
use crate::broker::{Broker, own_voice};
use crate::gather;
use crate::id::ReservationId;
use crate::problem::{Answer, Problem};
use documents::agent::Request;
use documents::book::{BookAnswer, BookFilter, ReservationDoc};
use documents::links::CallerDoc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most intents that may be open at once.
const MOST: usize = 10_000;
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;
/// The pauses between attempts at agents that do not answer, while the caller waits.
const PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(400)];

/// An action at one agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberAction {
    /// Send this request.
    Ask(Box<Request>),
    /// Cancel all reservations with this group name.
    GiveBack(String),
}

/// One agent's step of an intent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberStep {
    /// The agent, by name.
    pub agent: String,
    /// The action.
    pub forward: MemberAction,
    /// The action that undoes it; none: it cannot be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<MemberAction>,
}

/// A change over several agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Intent {
    /// The reservation.
    pub id: String,
    /// `commit`, `cancel`, `modify` or `bind`.
    pub what: String,
    /// The caller.
    pub caller: CallerDoc,
    /// True if an agent refused: all steps are undone.
    #[serde(default)]
    pub back: bool,
    /// The steps, in order.
    pub steps: Vec<MemberStep>,
}

/// The result of an attempt.
#[derive(Debug)]
pub enum Carried {
    /// Every agent has done it: the reservations as they are now.
    Done(Vec<(String, ReservationDoc)>),
    /// An agent refused, and all is as it was.
    Refused(Box<Problem>),
    /// An agent refused, and another did not undo its step.
    Stuck(Box<Problem>),
    /// An agent has not answered: its name and the error.
    Open(Box<Problem>),
}

/// The open intents, and their folder.
#[derive(Debug)]
pub struct Intents {
    dir: PathBuf,
    open: Mutex<BTreeMap<String, Intent>>,
}

impl Intents {
    /// Reads the intents that an earlier broker left in the folder.
    ///
    /// # Errors
    /// A file cannot be read: its name and the error.
    pub fn open(state: &Path) -> Result<Intents, String> {
        let dir = state.join("intents");
        let wrong = |path: &Path, what: String| format!("{}: {what}", path.display());
        let mut open = BTreeMap::new();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&dir, error.to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(wrong(&dir, error.to_string())),
        };
        for path in entries.into_iter().map(|entry| entry.path()) {
            // A file that was not fully written belongs to a change that never began.
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let size = fs::metadata(&path).map_err(|error| wrong(&path, error.to_string()))?.len();
            if size > MAX_FILE {
                return Err(wrong(&path, format!("{size} bytes: no broker wrote that")));
            }
            let text = fs::read(&path).map_err(|error| wrong(&path, error.to_string()))?;
            let mut intent: Intent = serde_json::from_slice(&text).map_err(|error| wrong(&path, error.to_string()))?;
            // Earlier brokers wrote their own name as agents of their domain know it.
            if intent.caller == (CallerDoc { name: OWN_NAME.to_owned(), ..own_voice() }) {
                intent.caller = own_voice();
            }
            open.insert(intent.id.clone(), intent);
        }
        Ok(Intents { dir, open: Mutex::new(open) })
    }

    /// All open intents.
    pub fn all(&self) -> Vec<Intent> {
        self.locked().values().cloned().collect()
    }

    /// The number of open intents.
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// The open intent of a reservation.
    pub fn of(&self, id: &str) -> Option<Intent> {
        self.locked().get(id).cloned()
    }

    /// Writes an intent to the disk; it then survives a power loss. It replaces an earlier one of the same
    /// reservation.
    ///
    /// # Errors
    /// 503: it could not be written, or too many are open. No agent has been asked.
    pub async fn begin(&self, intent: &Intent) -> Answer<()> {
        if self.locked().len() >= MOST {
            return Err(Problem::unavailable("too many changes wait for agents that do not answer: try again"));
        }
        let text = serde_json::to_vec(intent).map_err(|error| Problem::misuse(error.to_string()))?;
        let (dir, file) = (self.dir.clone(), self.file(&intent.id));
        let written = tokio::task::spawn_blocking(move || write(&dir, &file, &text)).await;
        match written.unwrap_or_else(|_| Err(io::Error::other("the thread that writes is gone"))) {
            Ok(()) => {
                self.locked().insert(intent.id.clone(), intent.clone());
                Ok(())
            }
            Err(error) => Err(Problem::unavailable(format!(
                "{}: {error}: what is changed at several agents is written down first, so nothing has changed",
                self.dir.display()
            ))),
        }
    }

    /// Closes an intent after all answers. A file that stays is carried out once more, which changes nothing.
    pub async fn end(&self, id: &str) {
        self.locked().remove(id);
        let file = self.file(id);
        let _ = tokio::task::spawn_blocking(move || fs::remove_file(file)).await;
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Intent>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a file so that it is whole and on the disk, or absent.
fn write(dir: &Path, file: &Path, text: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let new = file.with_extension("new");
    let mut to = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    to.write_all(text)?;
    to.sync_all()?;
    fs::rename(&new, file)?;
    fs::File::open(dir)?.sync_all()
}

/// Writes an intent down and carries it out, with some patience for agents that do not answer at once.
/// Afterwards [`crate::recover`] takes over. The caller holds the lock of the reservation.
///
/// # Errors
/// 503: it could not be written; no agent has been asked.
pub async fn undertake(broker: &Broker, mut intent: Intent) -> Answer<Carried> {
    broker.intents.begin(&intent).await?;
    let mut carried = carry_out(broker, &mut intent).await;
    for pause in PAUSES {
        let Carried::Open(_) = carried else { break };
        tokio::time::sleep(pause).await;
        carried = carry_out(broker, &mut intent).await;
    }
    if matches!(carried, Carried::Open(_)) {
        broker.nudge.notify_one();
    }
    Ok(carried)
}

/// Asks every agent of it once; a finished step is not repeated.
pub async fn carry_out(broker: &Broker, intent: &mut Intent) -> Carried {
    if !intent.back {
        let mut docs = Vec::new();
        let mut open = None;
        let mut refused = None;
        for step in &intent.steps {
            match act(broker, &intent.caller, &step.agent, &step.forward).await {
                Ok(doc) => docs.extend(doc.map(|doc| (step.agent.clone(), doc))),
                Err(problem) if is_open(&problem) => open = open.or(Some(problem)),
                Err(problem) if step.back.is_some() => {
                    refused = Some(problem);
                    break;
                }
                // The reservation is over there already, as it should be.
                Err(problem) if is_over(&problem) => {}
                Err(problem) => open = open.or(Some(problem)),
            }
        }
        match (refused, open) {
            (Some(problem), _) => {
                intent.back = true;
                // The direction must be written before the first step back.
                if let Err(unwritten) = broker.intents.begin(intent).await {
                    intent.back = false;
                    return Carried::Open(unwritten);
                }
                return match go_back(broker, intent).await {
                    Carried::Done(_) => Carried::Refused(problem),
                    Carried::Stuck(stuck) => {
                        let mut problem = problem;
                        problem.detail += &format!("; and what was done before could not be undone: {}", stuck.detail);
                        Carried::Stuck(problem)
                    }
                    _ => {
                        let mut problem = problem;
                        problem.detail += "; what was done before is undone as soon as all agents answer";
                        Carried::Open(problem)
                    }
                };
            }
            (None, Some(problem)) => return Carried::Open(problem),
            (None, None) => {}
        }
        broker.intents.end(&intent.id).await;
        return Carried::Done(docs);
    }
    go_back(broker, intent).await
}

/// Undoes every step, also those that may not have been done: to undo twice is harmless.
async fn go_back(broker: &Broker, intent: &Intent) -> Carried {
    let (mut open, mut stuck) = (None, None);
    for step in intent.steps.iter().rev() {
        let Some(back) = &step.back else { continue };
        match act(broker, &intent.caller, &step.agent, back).await {
            Ok(_) => {}
            Err(problem) if is_open(&problem) => open = Some(problem),
            Err(problem) if is_over(&problem) => {}
            // A cancellation cannot be refused for good.
            Err(problem) if matches!(back, MemberAction::GiveBack(_)) => open = Some(problem),
            Err(problem) => stuck = Some(problem),
        }
    }
    if let Some(problem) = open {
        return Carried::Open(problem);
    }
    broker.intents.end(&intent.id).await;
    stuck.map_or(Carried::Done(Vec::new()), Carried::Stuck)
}

/// True if an agent has neither agreed nor refused.
fn is_open(problem: &Problem) -> bool {
    matches!(problem.status, 429 | 503)
}

/// True if the reservation can no longer be changed.
fn is_over(problem: &Problem) -> bool {
    problem.status == 404 || problem.kind.ends_with("wrong_state")
}

/// Asks one agent. A second commit or a second cancellation counts as done.
async fn act(broker: &Broker, caller: &CallerDoc, agent: &str, act: &MemberAction) -> Answer<Option<ReservationDoc>> {
    let Some(agent) = broker.agents.iter().find(|known| *known.name == *agent) else {
        let what = format!("the agent {agent} is not in this broker's configuration any more");
        return Err(Problem::unavailable(what));
    };
    match act {
        MemberAction::Ask(request) => match agent.ask(caller, request.as_ref().clone()).await {
            Ok(BookAnswer::Reservation(doc)) => Ok(Some(doc)),
            Ok(_) => Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
            Err(problem) => Err(problem),
        },
        MemberAction::GiveBack(group) => {
            let mut conversation = agent.speak(caller).await?;
            let filter = BookFilter { group: Some(group.clone()), ..BookFilter::default() };
            let (rows, _) = gather::list(&mut conversation, filter).await?;
            let mut last = None;
            for row in rows {
                let request = Request::BookCancel { handle: row.handle };
                if let BookAnswer::Reservation(doc) = conversation.book(request).await? {
                    last = Some(doc);
                }
            }
            conversation.end();
            Ok(last)
        }
    }
}

/// The intent that cancels these members, and any that agents that are away keep under these names.
pub fn giving_back(id: &ReservationId, caller: &CallerDoc, members: Vec<(String, String)>) -> Intent {
    let step = |(agent, group)| MemberStep { agent, forward: MemberAction::GiveBack(group), back: None };
    Intent {
        id: id.to_string(),
        what: "cancel".to_owned(),
        caller: caller.clone(),
        back: false,
        steps: members.into_iter().map(step).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that an earlier broker left open in its own name is done in ours; a person's work stays theirs.
    #[test]
    fn an_older_brokers_own_voice_is_ours() {
        let state = std::env::temp_dir().join(format!("sluice-intents-{}", std::process::id()));
        let dir = state.join("intents");
        fs::create_dir_all(&dir).unwrap();
        for (id, name, role) in [("a", "broker", "operator"), ("b", "broker", "owner"), ("c", "alice", "owner")] {
            let text = format!(
                r#"{{"id":"{id}","what":"cancel","caller":{{"name":"{name}","groups":[],"role":"{role}"}},"steps":[]}}"#
            );
            fs::write(dir.join(format!("{id}.json")), text).unwrap();
        }
        let open = Intents::open(&state);
        fs::remove_dir_all(&state).unwrap();
        let open = open.unwrap();
        let own = |id: &str| open.of(id).unwrap().caller == own_voice();
        assert_eq!((own("a"), own("b"), own("c")), (true, false, false));
    }
}
