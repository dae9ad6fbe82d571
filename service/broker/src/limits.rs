//! The limits of a broker: defaults, and `[limits]` of its file.

use documents::units;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;

/// The limits of a broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most connections of each listener.
    pub connections: usize,
    /// The most connections from one source, and of one certificate's name.
    pub connections_of_one: usize,
    /// The most connections whose TLS handshake is not done.
    pub handshakes: usize,
    /// The largest body of a request, bytes.
    pub body: usize,
    /// The longest time of a handshake, a head or a body, each.
    pub head_time: Duration,
    /// The longest time for which a client may leave data unread.
    pub unread_time: Duration,
    /// The most event streams.
    pub streams: usize,
    /// The most event streams of one caller.
    pub streams_of_one: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            connections_of_one: 64,
            handshakes: 256,
            body: 256 << 10,
            head_time: Duration::from_secs(10),
            unread_time: Duration::from_secs(30),
            streams: 256,
            streams_of_one: 16,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsFile {
    connections: Option<Spanned<usize>>,
    connections_of_one: Option<Spanned<usize>>,
    handshakes: Option<Spanned<usize>>,
    body: Option<Spanned<String>>,
    head_time: Option<Spanned<String>>,
    streams: Option<Spanned<usize>>,
    streams_of_one: Option<Spanned<usize>>,
}

/// Reads the limits.
///
/// # Errors
/// The first [`Mistake`] in them.
pub(crate) fn read(document: &Document<'_>, found: Option<LimitsFile>) -> Result<Limits, Mistake> {
    let mut limits = Limits::default();
    let Some(found) = found else { return Ok(limits) };
    let counts = [
        (&found.connections, &mut limits.connections),
        (&found.connections_of_one, &mut limits.connections_of_one),
        (&found.handshakes, &mut limits.handshakes),
        (&found.streams, &mut limits.streams),
        (&found.streams_of_one, &mut limits.streams_of_one),
    ];
    for (count, to) in counts {
        let Some(count) = count else { continue };
        if !(1..=65_536).contains(count.get_ref()) {
            return Err(document.at(count.span(), "a limit is 1 to 65536"));
        }
        *to = *count.get_ref();
    }
    if let Some(body) = &found.body {
        let size = units::parse_bytes(body.get_ref()).map_err(|wrong| document.at(body.span(), wrong))?.get();
        if !(1 << 10..=1 << 20).contains(&size) {
            return Err(document.at(body.span(), "a body is 1kb to 1mb, which is what an agent takes"));
        }
        limits.body = size as usize;
    }
    if let Some(time) = &found.head_time {
        let span = units::parse_span(time.get_ref()).map_err(|wrong| document.at(time.span(), wrong))?;
        limits.head_time = Duration::from_nanos(span.as_nanos());
        if limits.head_time < Duration::from_millis(100) || limits.head_time > Duration::from_secs(300) {
            return Err(document.at(time.span(), "head_time is 100ms to 5m"));
        }
    }
    Ok(limits)
}
