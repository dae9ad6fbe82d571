//! `[boomerang]` in the agent's file.
//!
//! ```toml
//! [boomerang]                          # without it the agent leaves Boomerang's messages alone
//! replies = "known"                    # when a reply makes state: "known", "authenticated" (the default with keys), "any"
//! keys = "boomerang-keys.toml"         # for AUTH (see keys.rs; hmac-sha-256 alone), from here if relative
//! require_auth = false                 # whether only who proves who it is may reserve
//! lock = false                         # whether a new session waits until its initiating node has shown that it hears
//! most_refresh = "60s"                 # a longer refresh interval in a message is shortened to it; 1s to 255s
//! max_sessions = 1048576               # limits; the defaults
//! max_masks = 1024
//! per_source = 100000                  # messages a second of one source; a new session counts as ten
//! fast_path = false                    # whether the kernel admits by itself (docs/boomerang.md): true, false, "auto"
//! fast_sessions = 48000                # sessions that the kernel's table has room for, at half a kilobyte each; to 12000000
//! burst = "100ms"                      # a session's bucket holds what its rate brings in this time, and at least
//! least_burst = "8kb"                  # so much
//!
//! [[boomerang.gather]]                 # sessions that go on as a part of one: RESV_AGGREGATION
//! interface = "eth1"                   # that leave here
//! to = "10.0.2.2"                      # for this address
//! rate = "6mbit"                       # all of them together, forward
//! ```

use crate::document::{Document, Mistake};
use crate::fields::unit;
use boomerang::Replies;
use boomerang::auth::AuthKey;
use documents::units;
use rsvp::integrity::Algorithm;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;
use terms::Span;
use toml::Spanned;

/// The `[boomerang]` section of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoomerangConfig {
    /// The replies that create state.
    pub replies: Replies,
    /// Keys for AUTH.
    pub keys: Vec<AuthKey>,
    /// If true, only authenticated requests may reserve.
    pub require_auth: bool,
    /// If true, new sessions are locked.
    pub lock: bool,
    /// The longest refresh interval, s.
    pub most_refresh: u8,
    /// The most session blocks.
    pub max_sessions: usize,
    /// The most masks.
    pub max_masks: usize,
    /// The most messages of one source, per second.
    pub per_source: u32,
    /// The depth of a bucket, as time at its rate.
    pub burst: Span,
    /// The smallest depth of a bucket, bytes.
    pub least_burst: u32,
    /// Groups of sessions that continue as a part of one.
    pub gather: Vec<GatherConfig>,
    /// Admission by the kernel itself.
    pub fast_path: FastPathUse,
    /// The number of sessions for which the kernel's table has room.
    pub fast_sessions: u32,
}

/// Admission by the kernel itself (the fast path).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FastPathUse {
    /// Every message comes to the agent.
    #[default]
    No,
    /// The kernel must admit; it is an error if it cannot.
    Yes,
    /// The kernel admits if it can.
    Auto,
}

/// A group of sessions that continue as a part of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatherConfig {
    /// The interface by which they leave.
    pub interface: String,
    /// The destination.
    pub to: IpAddr,
    /// The rate of all of them together, bit/s.
    pub rate: u32,
}

impl Default for BoomerangConfig {
    fn default() -> BoomerangConfig {
        let engine = boomerang::Config::default();
        BoomerangConfig {
            replies: engine.replies,
            keys: Vec::new(),
            require_auth: engine.require_auth,
            lock: engine.lock,
            most_refresh: engine.most_refresh,
            max_sessions: 1 << 20,
            max_masks: engine.most_masks,
            per_source: engine.per_source,
            burst: engine.burst,
            least_burst: engine.least_burst,
            gather: Vec::new(),
            fast_path: FastPathUse::default(),
            fast_sessions: FAST_SESSIONS,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoomerangFile {
    replies: Option<Spanned<String>>,
    keys: Option<Spanned<PathBuf>>,
    require_auth: Option<Spanned<bool>>,
    lock: Option<bool>,
    most_refresh: Option<Spanned<String>>,
    max_sessions: Option<Spanned<usize>>,
    max_masks: Option<Spanned<usize>>,
    per_source: Option<Spanned<u32>>,
    burst: Option<Spanned<String>>,
    least_burst: Option<Spanned<String>>,
    fast_path: Option<Spanned<FastPathWord>>,
    fast_sessions: Option<Spanned<usize>>,
    #[serde(default)]
    gather: Vec<GatherFile>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FastPathWord {
    Sure(bool),
    Word(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatherFile {
    interface: Spanned<String>,
    to: IpAddr,
    rate: Spanned<String>,
}

/// The largest `max_sessions` in a file.
const MOST_SESSIONS: usize = 1 << 24;
/// The default size of the kernel's table, sessions.
const FAST_SESSIONS: u32 = 48_000;
/// The largest size of the kernel's table, sessions.
const MOST_FAST_SESSIONS: usize = 12_000_000;

/// The use of the fast path that the file asks for.
fn fast_path(document: &Document<'_>, found: &BoomerangFile) -> Result<FastPathUse, Mistake> {
    let Some(word) = &found.fast_path else { return Ok(FastPathUse::default()) };
    match word.get_ref() {
        FastPathWord::Sure(true) => Ok(FastPathUse::Yes),
        FastPathWord::Sure(false) => Ok(FastPathUse::No),
        FastPathWord::Word(text) if text == "auto" => Ok(FastPathUse::Auto),
        FastPathWord::Word(text) => {
            Err(document.at(word.span(), format!("fast_path is true, false or \"auto\", not {text:?}")))
        }
    }
}

/// The reason why a configuration rules out the fast path; every message then goes to the engine.
pub(super) fn against(config: &BoomerangConfig) -> Option<&'static str> {
    match config {
        BoomerangConfig { fast_path: FastPathUse::No, .. } => Some("fast_path is false"),
        BoomerangConfig { require_auth: true, .. } => Some("the kernel checks no AUTH (require_auth)"),
        BoomerangConfig { lock: true, .. } => Some("the kernel locks no sessions (lock)"),
        BoomerangConfig { gather, .. } if !gather.is_empty() => Some("the kernel gathers no sessions (gather)"),
        _ => None,
    }
}

/// Reads the section.
pub(crate) fn read(document: &Document<'_>, found: &BoomerangFile) -> Result<BoomerangConfig, Mistake> {
    let keys = match &found.keys {
        None => Vec::new(),
        Some(file) => keys(document, file)?,
    };
    let mut config = BoomerangConfig { lock: found.lock.unwrap_or(false), ..BoomerangConfig::default() };
    config.replies = match found.replies.as_ref().map(|text| (text, text.get_ref().as_str())) {
        None if keys.is_empty() => Replies::Known,
        None | Some((_, "authenticated")) => Replies::Authenticated,
        Some((_, "known")) => Replies::Known,
        Some((_, "any")) => Replies::Any,
        Some((text, other)) => {
            let wrong = format!("replies is \"known\", \"authenticated\" or \"any\", not {other:?}");
            return Err(document.at(text.span(), wrong));
        }
    };
    if let Some(required) = &found.require_auth {
        config.require_auth = *required.get_ref();
        if config.require_auth && keys.is_empty() {
            return Err(document.at(required.span(), "require_auth without keys: nobody could reserve"));
        }
    }
    if let Some(text) = &found.most_refresh {
        let seconds = unit(document, text, units::parse_span)?.as_nanos() / Span::NANOS_PER_SEC;
        config.most_refresh = u8::try_from(seconds).unwrap_or(0);
        if config.most_refresh == 0 {
            return Err(document.at(text.span(), "most_refresh is 1s to 255s"));
        }
    }
    let limit = |value: &Option<Spanned<usize>>, default: usize, most: usize| match value {
        None => Ok(default),
        Some(value) if (1..=most).contains(value.get_ref()) => Ok(*value.get_ref()),
        Some(value) => Err(document.at(value.span(), format!("a limit is 1 to {most}"))),
    };
    config.max_sessions = limit(&found.max_sessions, config.max_sessions, MOST_SESSIONS)?;
    config.max_masks = limit(&found.max_masks, config.max_masks, 65_535)?;
    config.fast_sessions = limit(&found.fast_sessions, FAST_SESSIONS as usize, MOST_FAST_SESSIONS)? as u32;
    if let Some(rate) = &found.per_source {
        config.per_source = *rate.get_ref();
        if config.per_source < 10 {
            return Err(document.at(rate.span(), "per_source is at least 10: a new session counts as ten"));
        }
    }
    if let Some(text) = &found.burst {
        config.burst = unit(document, text, units::parse_span)?;
        if config.burst < Span::from_millis(1) || config.burst > Span::from_secs(4) {
            return Err(document.at(text.span(), "burst is 1ms to 4s"));
        }
    }
    if let Some(text) = &found.least_burst {
        let bytes = unit(document, text, units::parse_bytes)?.get();
        config.least_burst = u32::try_from(bytes).unwrap_or(0);
        if !(1_500..=1 << 24).contains(&config.least_burst) {
            return Err(document.at(text.span(), "least_burst is 1500b to 16mb: a bucket must hold a packet"));
        }
    }
    config.fast_path = fast_path(document, found)?;
    config.gather = found.gather.iter().map(|entry| gather(document, entry)).collect::<Result<_, _>>()?;
    config.keys = keys;
    if let (FastPathUse::Yes, Some(word), Some(why)) = (config.fast_path, &found.fast_path, against(&config)) {
        return Err(document.at(word.span(), format!("fast_path = true cannot be: {why}")));
    }
    Ok(config)
}

fn gather(document: &Document<'_>, entry: &GatherFile) -> Result<GatherConfig, Mistake> {
    let rate = unit(document, &entry.rate, units::parse_rate)?.as_bps();
    match u32::try_from(rate) {
        Ok(rate) if rate > 0 => Ok(GatherConfig { interface: entry.interface.get_ref().clone(), to: entry.to, rate }),
        _ => Err(document.at(entry.rate.span(), "a rate of Boomerang is 1bit to 4294967295bit")),
    }
}

fn keys(document: &Document<'_>, file: &Spanned<PathBuf>) -> Result<Vec<AuthKey>, Mistake> {
    let path = document.file().parent().map_or_else(|| file.get_ref().clone(), |dir| dir.join(file.get_ref()));
    let table = crate::keys::load(&path)?;
    let key = |key: &rsvp::integrity::IntegrityKey| {
        let id = u32::try_from(key.id).ok().filter(|_| key.algorithm == Algorithm::HmacSha256);
        let wrong = format!("key {} is none for Boomerang: hmac-sha-256, and a number below 2^32", key.id);
        id.map(|id| AuthKey { id, secret: key.secret.clone() }).ok_or_else(|| document.at(file.span(), wrong))
    };
    table.keys().iter().map(key).collect()
}
