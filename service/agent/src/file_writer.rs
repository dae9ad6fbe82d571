//! A thread for a file that is written durably, so that a slow disk stops nothing else. It writes one request
//! at a time; the notifier fires when it has succeeded or failed.

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

/// The result of a write, or the error of the disk.
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
    /// No more descriptors or threads.
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

    /// Starts a write.
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
