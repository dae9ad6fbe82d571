//! Static senders and reservations: set up by an operator on behalf of hosts that do not signal (the interactive mode
//! of the first RSVP implementations). Each is an application of its own to the engine, one that never ends: it outlives
//! the connection that asked for it, and is kept in the state directory so that it outlives the agent.

pub(crate) mod turn;

use crate::calls::{self, problem};
use crate::file_writer::Clerk;
use crate::statics_file::MOST;
use documents::agent::{EventDoc, Problem, Request, StaticDoc, StaticRow};
use documents::statics::StaticState;
use linux::error::SystemError;
use linux::notifier::Notifier;
use rsvp::io::AppId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use terms::{Span, Time};

/// The most calls that wait for the disk.
const MOST_WAITING: usize = 256;
/// The first application number of a static, above any connection's.
const FIRST_APP: u64 = 1 << 48;
/// The time after a refusal until the next attempt.
const TRY_AGAIN: Span = Span::from_secs(30);

/// The static's number, if the application is a static; `None`: it is a connection.
pub fn number(app: AppId) -> Option<u64> {
    app.0.checked_sub(FIRST_APP)
}

/// All statics.
#[derive(Debug)]
pub struct Statics {
    file: PathBuf,
    next: u64,
    all: BTreeMap<u64, Static>,
    clerk: Clerk<Kept>,
    /// Requests that are not being written yet.
    waiting: VecDeque<Asked>,
    /// Requests that are being written.
    under_way: Vec<Asked>,
}

#[derive(Debug)]
struct Static {
    what: StaticDoc,
    from_file: bool,
    state: StaticState,
    said: Option<String>,
    /// The time of the last request for it.
    told: Time,
}

/// The file in the state directory: the statics that are not the configuration's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    statics: BTreeMap<u64, StaticDoc>,
}

impl Kept {
    /// Writes a second file, synchronises it and renames it, so that at any instant the file is whole.
    fn write(&self, file: &Path) -> io::Result<()> {
        replace(file, &serde_json::to_vec_pretty(self)?)
    }
}

impl Statics {
    /// Those that were kept in `state`, and those of the configuration.
    ///
    /// # Errors
    /// The file is there and cannot be understood: it is left alone, and nothing is started without what it says.
    pub fn load(state: &Path, from_file: &[StaticDoc]) -> Result<Statics, SystemError> {
        let file = state.join("statics.json");
        let what = || format!("read the static reservations in {} (repair or remove it)", file.display());
        let kept = match fs::read(&file) {
            Ok(bytes) => {
                serde_json::from_slice::<Kept>(&bytes)
                    .map_err(|error| SystemError::because(what(), io::Error::new(io::ErrorKind::InvalidData, error)))?
                    .statics
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(SystemError::because(what(), error)),
        };
        let next = kept.keys().next_back().map_or(1, |last| last + 1);
        let theirs = file.clone();
        let clerk = Clerk::start("statics", move |kept: Kept| kept.write(&theirs).map_err(|error| error.to_string()))?;
        let (all, waiting, under_way) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        let mut statics = Statics { file, next, all, clerk, waiting, under_way };
        statics.all.extend(kept.into_iter().map(|(number, what)| (number, Static::new(what, false))));
        for what in from_file {
            if statics.same(what).is_none() {
                statics.all.insert(statics.next, Static::new(what.clone(), true));
                statics.next += 1;
            }
        }
        Ok(statics)
    }

    /// The notifier to watch: it fires when something has been written.
    pub fn notifier(&self) -> &Notifier {
        self.clerk.notifier()
    }

    /// Starts to write the waiting changes. Those that are refused are not written, and returned.
    fn keep(&mut self) -> Vec<(Asked, Problem)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let all = self.all.iter();
        let mut then: BTreeMap<u64, (StaticDoc, bool)> =
            all.map(|(&number, one)| (number, (one.what.clone(), one.from_file))).collect();
        let mut refused = Vec::new();
        for mut asked in std::mem::take(&mut self.waiting) {
            match self.judge(&mut then, &mut asked.change) {
                Ok(()) => self.under_way.push(asked),
                Err(problem) => refused.push((asked, problem)),
            }
        }
        if !self.under_way.is_empty() {
            let ours = then.into_iter().filter(|(_, (_, from_file))| !from_file);
            self.clerk.ask(Kept { statics: ours.map(|(number, (what, _))| (number, what)).collect() });
        }
        refused
    }

    /// Checks one more change, and applies it to `then` if it is allowed.
    fn judge(&mut self, then: &mut BTreeMap<u64, (StaticDoc, bool)>, change: &mut Change) -> Result<(), Problem> {
        match change {
            Change::Put(number, what) => {
                let same = then.iter().find(|(_, (other, _))| other.is_of_same(what));
                if let Some((_, (one, true))) = same {
                    let dst = one.session().dst;
                    let message = format!("the configuration file sets up another for {dst}: change it there");
                    return Err(problem("refused", message));
                }
                let same = same.map(|(&number, _)| number);
                if same.is_none() && then.len() >= MOST {
                    return Err(problem("refused", format!("there are {MOST} already: the limit")));
                }
                let free = (self.next..).find(|number| !then.contains_key(number));
                let at = same.or(free).unwrap_or(self.next);
                self.next = self.next.max(at + 1);
                then.insert(at, (what.clone(), false));
                *number = Some(at);
            }
            Change::Remove(number) => match then.get(number) {
                None => {
                    let message = format!("there is no static sender or reservation number {number}");
                    return Err(problem("refused", message));
                }
                Some((_, true)) => {
                    return Err(problem("refused", "the configuration file sets it up: take it out there"));
                }
                Some(_) => drop(then.remove(number)),
            },
        }
        Ok(())
    }

    /// Takes a call that changes them, if it is one; its answer comes when the change is on the disk.
    ///
    /// # Errors
    /// The call is invalid, or too many wait.
    fn ask(&mut self, client: u64, id: u64, asked: &Request) -> Result<bool, Problem> {
        let change = match asked {
            Request::AddStatic { what } => {
                calls::static_request(what)?;
                Change::Put(None, what.clone())
            }
            Request::RemoveStatic { number } => Change::Remove(*number),
            _ => return Ok(false),
        };
        if self.waiting.len() >= MOST_WAITING {
            return Err(problem("refused", "too many calls about static reservations wait for the disk: try again"));
        }
        self.waiting.push_back(Asked { client, id, change });
        Ok(true)
    }

    /// The numbers of the refused ones that were told before a time.
    fn refused(&self, before: Time) -> Vec<u64> {
        let refused = self.all.iter().filter(|(_, one)| one.state == StaticState::Refused && one.told <= before);
        refused.map(|(&number, _)| number).collect()
    }

    /// All statics as rows.
    pub fn rows(&self) -> impl Iterator<Item = StaticRow> + '_ {
        self.all.iter().map(|(&number, one)| one.row(number))
    }

    /// The static for the same sender, or for a reservation of the same session.
    fn same(&self, what: &StaticDoc) -> Option<u64> {
        self.all.iter().find(|(_, one)| one.what.is_of_same(what)).map(|(&number, _)| number)
    }

    /// Takes an event of the engine for one of them.
    pub fn hear(&mut self, number: u64, event: &EventDoc) {
        let Some(one) = self.all.get_mut(&number) else { return };
        let sends = matches!(one.what, StaticDoc::Sender { .. });
        let (state, said) = match event {
            EventDoc::Resv { .. } if sends => (StaticState::Held, None),
            EventDoc::ResvGone { .. } if sends => (StaticState::Waiting, None),
            EventDoc::Confirm { node, .. } if !sends => (StaticState::Held, Some(format!("confirmed by {node}"))),
            EventDoc::PathGone { .. } if !sends => (StaticState::Waiting, None),
            EventDoc::Error { node, meaning, code, value, text, .. } => {
                let words = text.as_ref().map_or(String::new(), |text| format!(": {text}"));
                (StaticState::Refused, Some(format!("{meaning} (code {code}, value {value}) at {node}{words}")))
            }
            _ => return,
        };
        (one.state, one.said) = (state, said);
    }
}

impl Static {
    fn new(what: StaticDoc, from_file: bool) -> Static {
        Static { what, from_file, state: StaticState::Waiting, said: None, told: Time::ZERO }
    }

    fn row(&self, number: u64) -> StaticRow {
        let (what, said) = (self.what.clone(), self.said.clone());
        StaticRow { number, what, from_file: self.from_file, state: self.state, said }
    }
}

/// Replaces a file by one with other contents, as one step: after a crash it is the old or the new one, whole.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("new");
    let mut new = File::create(&beside)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    match file.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// A request that waits until its change is on the disk.
#[derive(Debug)]
struct Asked {
    client: u64,
    /// The number that the client gave its call.
    id: u64,
    change: Change,
}

#[derive(Debug)]
enum Change {
    /// Adds a static, or replaces the one for the same sender or session; the number is set once it is known.
    Put(Option<u64>, StaticDoc),
    Remove(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::agent::{SenderId, SessionId, TspecDoc};

    fn sender(port: u16) -> StaticDoc {
        StaticDoc::Sender {
            session: SessionId { dst: "10.0.2.2".parse().unwrap(), protocol: 17, dst_port: port },
            sender: SenderId { src: "10.0.0.1".parse().unwrap(), src_port: 5004 },
            tspec: TspecDoc { r_bps: 1_000_000, b_bytes: 8000, p_bps: None, m_bytes: 64, max_bytes: 1500 },
            ttl: 64,
        }
    }

    fn dir() -> PathBuf {
        let dir = std::env::temp_dir().join(format!(
            "agent-statics-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn what_was_kept_is_there_again_and_numbers_go_on() {
        let dir = dir();
        let mut statics = Statics::load(&dir, &[]).unwrap();
        statics.all.insert(8, Static::new(sender(5005), true));
        statics.next = 7;
        let ask = |id, change| Asked { client: 1, id, change };
        statics.waiting.push_back(ask(1, Change::Put(None, sender(5004))));
        statics.waiting.push_back(ask(2, Change::Remove(8)));
        statics.waiting.push_back(ask(3, Change::Put(None, sender(5007))));
        statics.waiting.push_back(ask(4, Change::Remove(9)));
        statics.waiting.push_back(ask(5, Change::Put(None, sender(5005))));
        let refused: Vec<_> = statics.keep().into_iter().map(|(asked, _)| asked.id).collect();
        assert_eq!(refused, [2, 5], "what the configuration sets up stays");
        let begun = std::time::Instant::now();
        let written = loop {
            match &statics.clerk.answers()[..] {
                [] => assert!(begun.elapsed().as_secs() < 10, "it is written"),
                some => break some.to_vec(),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        assert_eq!((written, statics.under_way.len()), (vec![Ok(())], 3));
        let again = Statics::load(&dir, &[sender(5004), sender(5006)]).unwrap();
        let told: Vec<_> = again.rows().map(|row| (row.number, row.what, row.from_file)).collect();
        assert_eq!(told, [(7, sender(5004), false), (8, sender(5006), true)], "one that is kept is not there twice");
        assert!(!dir.join("statics.new").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_is_broken_is_named_and_left_alone() {
        let dir = dir();
        let file = dir.join("statics.json");
        for broken in ["", "{", "{\"statics\":{\"1\":{\"kind\":\"dancer\"}}}", "[]"] {
            fs::write(&file, broken).unwrap();
            let told = Statics::load(&dir, &[]).unwrap_err().to_string();
            assert!(told.contains(&*file.to_string_lossy()) && told.contains("repair or remove"), "{told}");
            assert_eq!(fs::read_to_string(&file).unwrap(), broken);
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
