//! The agent's log: one line an event on standard error, `key=value`, so that both eyes and programs can read it.
//!
//! The number of lines is limited, because a flood of bad messages must not fill a disk or slow the loop. A
//! thread of its own writes them, so that a slow or absent reader of standard error stops nothing else. Lines
//! without room are counted.

use serde::Deserialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;
use terms::{Span, Time};

/// The most lines per second below the level of errors.
const MAX_LINES_PER_SECOND: u32 = 500;

/// The most lines that wait to be written, and the time that the end of the agent waits for them.
const MOST_WAITING: usize = 4096;
const AT_END: Duration = Duration::from_secs(1);

/// A level of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Failures.
    Error,
    /// Events that need an operator's attention.
    Warn,
    /// Changes.
    Info,
    /// Every message.
    Debug,
}

impl std::str::FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Level, String> {
        match text {
            "error" => Ok(Level::Error),
            "warn" => Ok(Level::Warn),
            "info" => Ok(Level::Info),
            "debug" => Ok(Level::Debug),
            _ => Err(format!("{text:?} is no log level: error, warn, info or debug")),
        }
    }
}

impl Level {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// The log of an agent.
#[derive(Debug)]
pub struct Log {
    node: String,
    level: Level,
    second: Time,
    lines: u32,
    suppressed: u64,
    writer: Option<Writer>,
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    lines: SyncSender<String>,
    /// Carries no data; closes when all is written.
    done: Receiver<()>,
}

impl Writer {
    /// Starts the thread; `None`: there is none to be had, and lines are written where they are made.
    fn start(mut to: impl std::io::Write + Send + 'static) -> Option<Writer> {
        let (lines, written) = mpsc::sync_channel::<String>(MOST_WAITING);
        let (closes, done) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || {
            for line in written {
                // Where not even the log can be written there is nobody left to tell.
                let _ = to.write_all(line.as_bytes());
            }
            drop(closes);
        });
        started.ok().map(|_| Writer { lines, done })
    }
}

impl Drop for Log {
    /// Writes the queued lines, as far as the reader takes them in time.
    fn drop(&mut self) {
        if let Some(Writer { lines, done }) = self.writer.take() {
            drop(lines);
            let _ = done.recv_timeout(AT_END);
        }
    }
}

impl Log {
    /// The log of a node; events below `level` are left out.
    pub fn new(node: &str, level: Level) -> Log {
        Log::to(Writer::start(std::io::stderr()), node, level)
    }

    fn to(writer: Option<Writer>, node: &str, level: Level) -> Log {
        Log { node: node.to_owned(), level, second: Time::ZERO, lines: 0, suppressed: 0, writer }
    }

    /// True if a line of this level would be written.
    pub fn wants(&self, level: Level) -> bool {
        level <= self.level
    }

    /// True if a line of this level would be written now. If only room is missing, it counts as suppressed.
    pub fn has_room_for(&mut self, now: Time, level: Level) -> bool {
        let full = now.since(self.second) < Span::from_secs(1) && self.lines >= MAX_LINES_PER_SECOND;
        self.suppressed += u64::from(self.wants(level) && full);
        self.wants(level) && !full
    }

    /// Writes one event with its fields.
    pub fn line(&mut self, now: Time, level: Level, event: &str, fields: &[(&str, &dyn std::fmt::Display)]) {
        if !self.wants(level) || !self.has_room(now, level) {
            return;
        }
        self.write(now, level, event, fields);
    }

    fn has_room(&mut self, now: Time, level: Level) -> bool {
        if now.since(self.second) >= Span::from_secs(1) {
            let lost = std::mem::take(&mut self.suppressed);
            (self.second, self.lines) = (now, 0);
            if lost > 0 {
                self.write(now, Level::Warn, "log_lines_suppressed", &[("lines", &lost)]);
            }
        }
        self.lines += 1;
        let room = level == Level::Error || self.lines <= MAX_LINES_PER_SECOND;
        self.suppressed += u64::from(!room);
        room
    }

    fn write(&mut self, now: Time, level: Level, event: &str, fields: &[(&str, &dyn std::fmt::Display)]) {
        let mut line = String::with_capacity(160);
        let _ = write!(line, "time={} level={} node={} event={event}", stamp(now), level.name(), self.node);
        for (key, value) in fields {
            let _ = write!(line, " {key}={}", quoted(&value.to_string()));
        }
        line.push('\n');
        match &self.writer {
            Some(writer) => self.suppressed += u64::from(writer.lines.try_send(line).is_err()),
            None => drop(std::io::stderr().lock().write_all(line.as_bytes())),
        }
    }
}

/// The value, in quotes if it holds spaces, quotes or control characters.
fn quoted(value: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=');
    if !value.is_empty() && value.chars().all(plain) { value.to_owned() } else { format!("{value:?}") }
}

/// The time as RFC 3339, UTC, microseconds.
pub fn stamp(at: Time) -> String {
    let at = jiff::Timestamp::from_nanosecond(at.as_nanos().into()).unwrap_or_default();
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_795_237_200, "2026-11-21T05:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(stamp(Time::from_nanos(seconds * Span::NANOS_PER_SEC)), text);
        }
    }

    #[test]
    fn values_are_quoted_where_needed() {
        assert_eq!(quoted("10.0.0.1:5004"), "10.0.0.1:5004");
        assert_eq!(quoted("no such link"), "\"no such link\"");
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert_eq!(quoted(""), "\"\"");
    }

    /// A reader that never reads: the agent goes on, and lines without room are counted.
    #[test]
    fn a_reader_that_stands_still_stops_nobody() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut log = Log::to(Writer::start(writer), "a", Level::Info);
        let begun = std::time::Instant::now();
        for n in 0..20_000 {
            let now = Time::from_nanos(n * Span::NANOS_PER_SEC);
            log.line(now, Level::Info, "news", &[("text", &"x".repeat(1_000))]);
        }
        assert!(log.suppressed > 0 || log.lines > 0);
        drop(log);
        assert!(begun.elapsed() < Duration::from_secs(20), "neither the lines nor the end wait for the reader");
        drop(reader);
    }

    #[test]
    fn a_flood_is_cut_and_errors_are_not() {
        let mut log = Log::new("a", Level::Info);
        let now = Time::from_nanos(5 * Span::NANOS_PER_SEC);
        let written = (0..2000).filter(|_| log.has_room(now, Level::Warn)).count();
        assert_eq!(written as u32, MAX_LINES_PER_SECOND);
        assert!(log.has_room(now, Level::Error));
        assert!(log.has_room(now + Span::from_secs(1), Level::Info));
        assert!(!log.wants(Level::Debug));
    }
}
