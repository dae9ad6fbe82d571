//! A thread of its own for a file that is written durably, so that a slow disk stops nothing else. One thing is asked at a
//! time; the notifier says so when it has been written, or could not be.

use linux::error::SystemError;
use linux::notifier::Notifier;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

/// A handle of the thread that writes each `Ask`.
#[derive(Debug)]
pub(crate) struct Clerk<Ask> {
    asks: Sender<Ask>,
    mailbox: Arc<Tray>,
}

/// It is on the disk, or what the disk said.
pub(crate) type Written = Result<(), String>;

#[derive(Debug)]
struct Tray {
    answers: Mutex<Vec<Written>>,
    notifier: Notifier,
}

impl Tray {
    fn put(&self, answer: Written) {
        if let Ok(mut answers) = self.answers.lock() {
            answers.push(answer);
        }
        self.notifier.notify();
    }
}

impl<Ask: Send + 'static> Clerk<Ask> {
    /// Starts the thread.
    ///
    /// # Errors
    /// Out of descriptors or threads.
    pub fn start(
        name: &str,
        mut write: impl FnMut(Ask) -> Written + Send + 'static,
    ) -> Result<Clerk<Ask>, SystemError> {
        let mailbox = Arc::new(Tray { answers: Mutex::default(), notifier: Notifier::new()? });
        let (asks, asked) = mpsc::channel();
        let theirs = mailbox.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let work = move || {
            while let Ok(ask) = asked.recv() {
                // A panic is one more failure: it is told, and the next is tried.
                let written = catch_unwind(AssertUnwindSafe(|| write(ask)));
                theirs.put(written.unwrap_or_else(|_| Err("the thread that writes it panicked".to_owned())));
            }
        };
        thread.spawn(work).map_err(SystemError::doing("start a thread"))?;
        Ok(Clerk { asks, mailbox })
    }

    /// The notifier to watch: it fires when there is an answer.
    pub fn notifier(&self) -> &Notifier {
        &self.mailbox.notifier
    }

    /// Has it written.
    pub fn ask(&self, ask: Ask) {
        if self.asks.send(ask).is_err() {
            self.mailbox.put(Err("the thread that writes it is gone".to_owned()));
        }
    }

    /// Takes the answers that have come since the last call.
    pub fn answers(&self) -> Vec<Written> {
        self.mailbox.notifier.clear();
        self.mailbox.answers.lock().map(|mut answers| std::mem::take(&mut *answers)).unwrap_or_default()
    }
}
