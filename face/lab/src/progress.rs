//! How far a long experiment is, on standard error: one line that is rewritten on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Tells how far it is.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    total: Duration,
    done: Duration,
    terminal: bool,
    silent: bool,
}

impl Progress {
    /// For something that takes about `total`.
    pub fn new(total: Duration) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { begun: Instant::now(), total, done: Duration::ZERO, terminal, silent: false }
    }

    /// Says nothing.
    pub fn silent() -> Progress {
        Progress { silent: true, ..Progress::new(Duration::ZERO) }
    }

    /// Something begins that takes about `share` of the total.
    pub fn begin(&mut self, what: &str, share: Duration) {
        if self.terminal {
            let percent = (self.done.as_secs_f64() / self.total.as_secs_f64().max(1e-9) * 100.0).min(99.0);
            let left = self.total.saturating_sub(self.done).as_secs();
            self.write(&format!("\r\x1b[K{percent:3.0} %  {}:{:02} left  {what}", left / 60, left % 60));
        }
        self.done += share;
    }

    /// A line that stays.
    pub fn say(&mut self, what: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{clear}{}:{:02}  {what}\n", seconds / 60, seconds % 60));
    }

    fn write(&self, text: &str) {
        if !self.silent {
            let mut out = std::io::stderr().lock();
            // A terminal that went away is no reason to stop.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            self.write("\r\x1b[K");
        }
    }
}
