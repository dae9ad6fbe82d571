//! One question to a broker, by a process without rights: `GET /v1/transactions/{id}` over mutual TLS.
//!
//! The agent starts it with the question on its standard input and reads one line of its standard output. Before it
//! reads a byte from the broker it has given up every capability, and opens no file but those of the question and
//! what names of hosts need.

use commit::{Decision, Epoch, TransactionId};
use documents::book::EpochDoc;
use linux::clock::Clock;
use linux::landlock::{self, Use};
use linux::privilege::give_up_capabilities;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trust::{CertificateRole, Files, Speaks};

/// The command by which this program asks.
pub const COMMAND: &str = "ask-broker";
/// The longest answer of a broker, bytes, and the longest question of the agent.
const MOST: u64 = 64 << 10;

/// Files with which a program finds other hosts, beside those of the question.
const SYSTEM: [&str; 9] = [
    "/run/systemd/resolve",
    "/run/nscd",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/usr",
    "/lib",
];

/// A question of the agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrokerQuestion {
    files: Files,
    name: String,
    host: String,
    port: u16,
    /// 32 hexadecimal digits.
    transaction: String,
    epoch: u64,
}

/// The fields of a broker's answer that the agent needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Heard {
    transaction: String,
    epoch: EpochDoc,
    outcome: String,
    #[serde(default)]
    commit: Option<u64>,
}

impl BrokerQuestion {
    /// The question about a transaction of the broker of this name, at this place; `files` are the agent's own certificate
    /// and key.
    pub(super) fn new(
        files: &Files,
        (name, (host, port)): (&str, &(String, u16)),
        transaction: TransactionId,
        epoch: u64,
    ) -> BrokerQuestion {
        BrokerQuestion {
            files: files.clone(),
            name: name.to_owned(),
            host: host.clone(),
            port: *port,
            transaction: transaction.to_string(),
            epoch,
        }
    }

    /// Reads an answer, one line of JSON; `None` if it is no answer, or an answer to another question.
    pub(super) fn answer(&self, line: &str) -> Option<Heard> {
        let heard: Heard = serde_json::from_str(line.trim()).ok()?;
        (heard.transaction == self.transaction).then_some(heard)
    }
}

/// The state of a transaction at its broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BrokerOutcome {
    /// Decided.
    Decided(Decision),
    /// Its journal has lost the transaction.
    Unknown,
    /// Not yet decided, or an answer that this agent does not understand.
    Open,
}

impl Heard {
    /// The outcome.
    pub(super) fn outcome(&self) -> BrokerOutcome {
        match (self.outcome.as_str(), self.commit) {
            ("committed", Some(number)) => BrokerOutcome::Decided(Decision::Commit { number }),
            ("aborted", None) => BrokerOutcome::Decided(Decision::Abort),
            ("unknown", _) => BrokerOutcome::Unknown,
            _ => BrokerOutcome::Open,
        }
    }

    /// The epoch in which the broker answers.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch { number: self.epoch.number, decisions: self.epoch.decisions, nonce: self.epoch.nonce }
    }
}

/// Reads a question from standard input, and writes the answer to standard output.
///
/// # Errors
/// There is no question, no broker, or no answer: a sentence.
pub fn run() -> Result<(), String> {
    let mut text = Vec::new();
    io::stdin().lock().take(MOST).read_to_end(&mut text).map_err(|error| error.to_string())?;
    let question: BrokerQuestion = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    confine(&question.files)?;
    let heard = ask(&question).map_err(|error| error.to_string())?;
    let line = serde_json::to_string(&heard).map_err(|error| error.to_string())?;
    writeln!(io::stdout().lock(), "{line}").map_err(|error| error.to_string())
}

fn confine(files: &Files) -> Result<(), String> {
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.extend(files.paths().into_iter().map(Path::to_owned));
    let places: Vec<(&Path, Use)> = read.iter().map(|path| (path.as_path(), Use::Read)).collect();
    give_up_capabilities().map_err(|failed| failed.to_string())?;
    // A kernel without Landlock leaves it the files of its user.
    landlock::only(&places).map(drop).map_err(|failed| failed.to_string())
}

fn ask(question: &BrokerQuestion) -> io::Result<Heard> {
    let clock = Clock::start();
    let now: trust::Now = Arc::new(move || clock.now());
    let config = trust::client(&question.files, now, Speaks::Http).map_err(io::Error::other)?;
    let mut stream = trust::dial(&question.host, question.port, config, CertificateRole::Broker)?;
    let shown = trust::is_a(CertificateRole::Broker, stream.conn.peer_certificates()).map_err(io::Error::other)?;
    if shown.name != question.name {
        return Err(io::Error::other(format!("{} answers there, not {}", shown.name, question.name)));
    }
    let BrokerQuestion { host, transaction, epoch, .. } = question;
    let head = format!(
        "GET /v1/transactions/{transaction}?epoch={epoch} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    let ended = stream.take(MOST).read_to_end(&mut answer);
    read(&answer).ok_or_else(|| ended.err().unwrap_or_else(|| io::Error::other("no answer of a broker")))
}

/// Reads an answer of HTTP/1.1 that states its length. A broker's always do, and a question is repeated.
fn read(answer: &[u8]) -> Option<Heard> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]);
    let mut lines = head.split("\r\n");
    if !lines.next()?.starts_with("HTTP/1.1 200 ") {
        return None;
    }
    let length =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    let length: usize = length.1.trim().parse().ok()?;
    serde_json::from_slice(body.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_whole_and_others() {
        let body = r#"{"transaction":"00","coordinator":"main","epoch":{"number":3,"decisions":2,"nonce":1},"outcome":"committed","commit":2}"#;
        let whole = format!("HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let heard = read(whole.as_bytes()).unwrap();
        assert_eq!((heard.outcome.as_str(), heard.commit, heard.epoch.number), ("committed", Some(2), 3));
        for len in 0..whole.len() {
            assert_eq!(read(&whole.as_bytes()[..len]), None, "{len}");
        }
        for wrong in [
            whole.replace("200 OK", "404 Not Found"),
            whole.replace("content-length", "x-length"),
            whole.replace("content-length: ", "content-length: -"),
            whole.replace("content-length: ", "content-length: 9"),
            whole.replace("\"number\":3", "\"number\":-3"),
        ] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
