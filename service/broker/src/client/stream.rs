//! A broker's events as they come: server-sent events (HTML standard, section 9.2), each with its place.

use super::Error;
use super::endpoint::BrokerEndpoint;
use super::http::Reply;
use documents::rest::Event;
use std::io::{self, BufRead, Read};
use std::time::Duration;

/// The longest silence of a broker: it sends a sign of life every 15 s.
pub(super) const SILENCE: Duration = Duration::from_secs(45);
/// The longest line, octets.
const MAX_LINE: u64 = 1 << 20;

/// An item of the event stream.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamItem {
    /// From here on the stream has all events of an agent.
    Begins,
    /// An event.
    Event(Box<Event>),
    /// Events of an agent between the last one seen and the next are no longer kept.
    Lost {
        /// The agent.
        agent: String,
    },
}

/// An open stream.
pub struct Listener {
    lines: Box<dyn BufRead + Send>,
    door: BrokerEndpoint,
    place: String,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("door", &self.door).field("place", &self.place).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) fn new(reply: Reply, door: BrokerEndpoint) -> Listener {
        Listener { lines: Box::new(reply.lines()), door, place: String::new() }
    }

    /// The place of the last event. A listener that resumes from it misses nothing. Empty: there was no event
    /// yet.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The next item; `None`: a sign of life only.
    ///
    /// # Errors
    /// [`Error::Away`] when the stream broke off; [`Error::Nonsense`].
    pub fn hear(&mut self) -> Result<Option<StreamItem>, Error> {
        let (mut kind, mut data) = (String::new(), String::new());
        loop {
            let line = self.line()?;
            if let Some(id) = line.strip_prefix("id:") {
                self.place = id.trim().to_owned();
            } else if let Some(name) = line.strip_prefix("event:") {
                kind = name.trim().to_owned();
            } else if let Some(text) = line.strip_prefix("data:") {
                data += text.trim();
            } else if line.is_empty() {
                return if data.is_empty() { Ok(None) } else { heard(&kind, &data).map(Some) };
            }
        }
    }

    fn line(&mut self) -> Result<String, Error> {
        let away = |error: io::Error| Error::Away { door: Box::new(self.door.clone()), error };
        let mut line = String::new();
        match (&mut self.lines).take(MAX_LINE).read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
            Ok(_) => Err(away(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(away(error)),
        }
    }
}

fn heard(kind: &str, data: &str) -> Result<StreamItem, Error> {
    let nonsense = |error: serde_json::Error| Error::Nonsense(error.to_string());
    match kind {
        "begins" => Ok(StreamItem::Begins),
        "lost" => {
            let doc: serde_json::Value = serde_json::from_str(data).map_err(nonsense)?;
            Ok(StreamItem::Lost { agent: doc["agent"].as_str().unwrap_or_default().to_owned() })
        }
        _ => serde_json::from_str(data).map(|event| StreamItem::Event(Box::new(event))).map_err(nonsense),
    }
}
