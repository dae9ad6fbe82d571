//! The sequence numbers of INTEGRITY that may have been used, on disk: RFC 2747 section 3.1. The engine uses
//! a number only after its block is written here. So no number is used in two lives of the agent, whatever
//! the clock does between them.

use crate::alive::Done;
use linux::error::SystemError;
use linux::notifier::Notifier;
use std::fs::File;
use std::io::{Result, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The least count of numbers in a block.
const BLOCK: u64 = 1 << 20;
/// The longest time that a start waits for the disk. If there is no answer by then, only signed messages
/// wait.
const AT_START: Duration = Duration::from_secs(5);

/// The result of one reservation: the first number and the one after the last, or the error of the disk.
pub(crate) type Reserved = std::result::Result<(u64, u64), String>;

/// A handle of the thread that writes, so that a slow disk stops nothing else.
#[derive(Debug)]
pub struct Sequences {
    asks: Sender<u64>,
    mailbox: Arc<Tray>,
    /// The number of requests without an answer.
    waiting: usize,
    /// The number of requests with an answer.
    answered: u64,
}

#[derive(Debug)]
struct Tray {
    answers: Mutex<Vec<Reserved>>,
    notifier: Notifier,
}

impl Tray {
    fn put(&self, answer: Reserved) {
        if let Ok(mut answers) = self.answers.lock() {
            answers.push(answer);
        }
        self.notifier.notify();
    }
}

impl Sequences {
    /// Reads what an earlier life left, and starts the thread that writes.
    ///
    /// # Errors
    /// Out of descriptors or threads.
    pub fn open(folder: &Path) -> std::result::Result<Sequences, SystemError> {
        let mailbox = Arc::new(Tray { answers: Mutex::default(), notifier: Notifier::new()? });
        let (asks, asked) = mpsc::channel();
        let (theirs, record) = (mailbox.clone(), Record::read(folder));
        let thread = std::thread::Builder::new().name("sequences".to_owned());
        thread.spawn(move || write_all(&record, &asked, &theirs)).map_err(SystemError::doing("start a thread"))?;
        Ok(Sequences { asks, mailbox, waiting: 0, answered: 0 })
    }

    /// The notifier to watch: it fires when there is an answer.
    pub fn notifier(&self) -> &Notifier {
        &self.mailbox.notifier
    }

    /// Has it written that numbers below `upto` may be used.
    pub fn ask(&mut self, upto: u64) {
        self.waiting += 1;
        if self.asks.send(upto).is_err() {
            self.mailbox.put(Err("the thread that writes them is gone".to_owned()));
        }
    }

    /// Takes the answers that have come since the last call.
    pub(crate) fn answers(&mut self) -> Vec<Reserved> {
        self.mailbox.notifier.clear();
        let answers = self.mailbox.answers.lock().map(|mut answers| std::mem::take(&mut *answers)).unwrap_or_default();
        self.waiting = self.waiting.saturating_sub(answers.len());
        self.answered += answers.len() as u64;
        answers
    }

    /// The progress of the thread.
    pub(crate) fn done(&self) -> Done {
        Done { count: self.answered, all: self.waiting == 0 }
    }

    /// The first numbers, which are there before the first message is sent, unless the disk is slow.
    pub(crate) fn first(&mut self) -> Vec<Reserved> {
        self.wait(AT_START)
    }

    /// The answers as soon as nothing is without one, or after a time.
    fn wait(&mut self, most: Duration) -> Vec<Reserved> {
        let (begun, mut answers) = (Instant::now(), self.answers());
        while self.waiting > 0 && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
            answers.extend(self.answers());
        }
        answers
    }
}

fn write_all(record: &Record, asked: &Receiver<u64>, mailbox: &Tray) {
    while let Ok(upto) = asked.recv() {
        // A panic is one more failure: it is told, and tried again.
        let reserved = catch_unwind(AssertUnwindSafe(|| record.reserve(upto).map_err(|error| error.to_string())));
        mailbox.put(reserved.unwrap_or_else(|_| Err("the thread that writes them panicked".to_owned())));
    }
}

/// The file.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    from: u64,
}

impl Record {
    /// Reads what an earlier life left. No file, or one that cannot be read as a number, says nothing: the clock, and the
    /// neighbours' challenges, must do then.
    fn read(folder: &Path) -> Record {
        let path = folder.join("sequences");
        let from = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        Record { path, from: from.unwrap_or(0) }
    }

    /// Writes durably that numbers below `upto` may be used; returns the block for the engine: from, up to.
    ///
    /// # Errors
    /// The error of the file system; no number of the block may be used then.
    fn reserve(&self, upto: u64) -> Result<(u64, u64)> {
        let upto = upto.max(self.from.saturating_add(BLOCK));
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        writeln!(file, "{upto}")?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok((self.from, upto))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_life_begins_where_an_earlier_one_could_have_ended() {
        let folder = std::env::temp_dir().join(format!("sluice-sequences-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = Record::read(&folder);
        assert_eq!(first.reserve(5_000_000).unwrap(), (0, 5_000_000));
        assert_eq!(first.reserve(6_000_000).unwrap(), (0, 6_000_000));
        // The clock went back.
        let second = Record::read(&folder);
        assert_eq!(second.reserve(1_000_000).unwrap(), (6_000_000, 6_000_000 + BLOCK));
        std::fs::write(folder.join("sequences"), "nonsense").unwrap();
        assert_eq!(Record::read(&folder).reserve(9).unwrap(), (0, BLOCK));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(first.reserve(7).is_err(), "nothing may be used when it cannot be written");
    }

    /// Each ask has its answer, also where the disk says no, and again when it can.
    #[test]
    fn the_thread_answers_after_a_failure_too() {
        let folder = std::env::temp_dir().join(format!("sluice-sequences-thread-{}", std::process::id()));
        let mut sequences = Sequences::open(&folder).unwrap();
        sequences.ask(9);
        assert!(matches!(sequences.wait(AT_START)[..], [Err(_)]), "there is no such directory");
        std::fs::create_dir_all(&folder).unwrap();
        sequences.ask(9);
        assert_eq!(sequences.wait(AT_START), [Ok((0, BLOCK))]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
