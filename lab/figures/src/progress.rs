//! The progress of a long experiment on standard error: one line that is rewritten on a terminal, plain lines
//! elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A progress display by time.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    total: Duration,
    done: Duration,
    terminal: bool,
    silent: bool,
}

impl Progress {
    /// Creates a display for work that takes about `total`.
    pub fn new(total: Duration) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { begun: Instant::now(), total, done: Duration::ZERO, terminal, silent: false }
    }

    /// Creates a display that prints nothing.
    pub fn silent() -> Progress {
        Progress { silent: true, ..Progress::new(Duration::ZERO) }
    }

    /// Announces a step that takes about `share` of the total.
    pub fn begin(&mut self, what: &str, share: Duration) {
        if self.terminal {
            let percent = (self.done.as_secs_f64() / self.total.as_secs_f64().max(1e-9) * 100.0).min(99.0);
            let left = self.total.saturating_sub(self.done).as_secs();
            self.write(&format!("\r\x1b[K{percent:3.0} %  {}:{:02} left  {what}", left / 60, left % 60));
        }
        self.done += share;
    }

    /// Prints a line that stays.
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

/// A progress display by the number of finished runs.
#[derive(Debug)]
pub struct Steps {
    begun: Instant,
    total: usize,
    done: usize,
    /// Runs that were finished before this began. They do not count in the estimate of the time left.
    skipped: usize,
    shown: usize,
    terminal: bool,
    silent: bool,
}

impl Steps {
    /// Creates a display for `total` runs; prints nothing unless `shown`.
    pub fn new(total: usize, shown: bool) -> Steps {
        let terminal = std::io::stderr().is_terminal();
        Steps { begun: Instant::now(), total, done: 0, skipped: 0, shown: 0, terminal, silent: !shown }
    }

    /// Counts runs that an earlier attempt finished.
    pub fn skip(&mut self, count: usize) {
        self.skipped += count;
        self.done += count;
        self.say(&format!("{count} of {} are finished from an earlier run\n", self.total));
    }

    /// Counts one more finished run.
    pub fn step(&mut self) {
        self.done += 1;
        let percent = self.done * 100 / self.total.max(1);
        let spent = self.begun.elapsed().as_secs_f64();
        // What is over within a second needs no progress.
        if percent == self.shown || spent < 1.0 {
            return;
        }
        self.shown = percent;
        let left = spent / (self.done - self.skipped).max(1) as f64 * (self.total - self.done) as f64;
        let text = format!("{percent:3} %  {} of {}, {left:.0} s left", self.done, self.total);
        if self.terminal {
            self.say(&format!("\r\x1b[K{text}"));
        } else if percent.is_multiple_of(10) {
            self.say(&format!("{text}\n"));
        }
    }

    fn say(&self, text: &str) {
        if !self.silent {
            let mut out = std::io::stderr().lock();
            // A terminal that went away is no reason to stop.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.terminal && self.shown > 0 {
            self.say("\r\x1b[K");
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
