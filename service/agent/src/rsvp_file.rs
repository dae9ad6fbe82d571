//! Timing and limits of RSVP in the agent's file: `[rsvp]`.

use crate::document::{Document, Mistake};
use crate::fields::unit;
use documents::units;
use serde::Deserialize;
use terms::Span;
use toml::Spanned;

/// The largest limit of a table of states.
const MAX_STATES: usize = 1 << 24;
/// The default limit of senders without a reservation, for each second of the refresh period: the rate of
/// Paths per second for them.
const UNRESERVED_PER_S: usize = 2_048;
/// The default interval of Hello requests, to neighbours that know Hello.
const HELLO: Span = Span::from_secs(10);

/// The section `[rsvp]` as it is written.
#[derive(Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RsvpFile {
    refresh: Option<Spanned<String>>,
    longest_refresh: Option<Spanned<String>>,
    keep: Option<Spanned<u32>>,
    repair_wait: Option<Spanned<String>>,
    blockade: Option<Spanned<u32>>,
    max_sessions: Option<Spanned<usize>>,
    max_paths: Option<Spanned<usize>>,
    max_senders: Option<Spanned<usize>>,
    max_reservations: Option<Spanned<usize>>,
    max_unreserved: Option<Spanned<usize>>,
    refresh_reduction: Option<bool>,
    hello: Option<Spanned<String>>,
}

/// The default limit of senders without a reservation.
fn unreserved(refresh: Span) -> usize {
    let ms = usize::try_from(refresh.as_millis()).unwrap_or(usize::MAX);
    (ms.saturating_mul(UNRESERVED_PER_S) / 1_000).clamp(UNRESERVED_PER_S, MAX_STATES)
}

/// Sets another refresh period, and the limit of senders without a reservation that goes with it.
pub fn set_refresh(config: &mut rsvp::io::Config, refresh: Span) {
    config.refresh = refresh;
    config.max_unreserved = unreserved(refresh);
}

/// Reads the section; without it the defaults hold.
///
/// # Errors
/// A value is out of its limits, or has no such unit.
pub fn rsvp_config(document: &Document<'_>, found: Option<&RsvpFile>) -> Result<rsvp::io::Config, Mistake> {
    // Both are for neighbours that do them too; Hello goes with refresh reduction.
    let mut config = rsvp::io::Config { refresh_reduction: true, hello: Some(HELLO), ..rsvp::io::Config::default() };
    config.max_unreserved = unreserved(config.refresh);
    let Some(found) = found else { return Ok(config) };
    if let Some(refresh) = &found.refresh {
        config.refresh = unit(document, refresh, units::parse_span)?;
        let (least, most) = (Span::from_millis(100), Span::from_secs(3600));
        if config.refresh < least || config.refresh > most {
            return Err(document.at(refresh.span(), "a refresh period is 100ms to 1h (RFC 2205 proposes 30s)"));
        }
    }
    config.max_unreserved = unreserved(config.refresh);
    if let Some(longest) = &found.longest_refresh {
        config.longest_refresh = unit(document, longest, units::parse_span)?;
        if config.longest_refresh < Span::from_secs(1) || config.longest_refresh > Span::from_secs(50 * 86_400) {
            let what =
                "longest_refresh is 1s to 50d: the longest refresh period of a neighbour that its state lives by";
            return Err(document.at(longest.span(), what));
        }
    }
    if let Some(keep) = &found.keep {
        config.keep = *keep.get_ref();
        if !(1..=100).contains(&config.keep) {
            return Err(document.at(keep.span(), "keep is 1 to 100 (RFC 2205 proposes 3)"));
        }
    }
    if let Some(wait) = &found.repair_wait {
        config.repair_wait = unit(document, wait, units::parse_span)?;
        if config.repair_wait > Span::from_secs(60) {
            return Err(document.at(wait.span(), "repair_wait is at most 1m (RFC 2205 proposes 2s)"));
        }
    }
    if let Some(blockade) = &found.blockade {
        config.blockade = *blockade.get_ref();
        if !(1..=100).contains(&config.blockade) {
            return Err(document.at(blockade.span(), "blockade is 1 to 100 refresh periods (RFC 2205 proposes 3)"));
        }
    }
    config.refresh_reduction = found.refresh_reduction.unwrap_or(config.refresh_reduction);
    if !config.refresh_reduction {
        config.hello = None;
    }
    if let Some(hello) = &found.hello {
        let every = unit(document, hello, units::parse_span)?;
        config.hello = Some(every).filter(|every| *every != Span::ZERO);
        if config.hello.is_some_and(|every| every < Span::from_millis(100) || !config.refresh_reduction) {
            let what = "hello is 100ms or more, or 0s (never), and goes with refresh reduction, which refresh_reduction = false turns off";
            return Err(document.at(hello.span(), what));
        }
    }
    let limits = [
        (&found.max_sessions, &mut config.max_sessions),
        (&found.max_paths, &mut config.max_paths),
        (&found.max_senders, &mut config.max_senders),
        (&found.max_reservations, &mut config.max_resvs),
        (&found.max_unreserved, &mut config.max_unreserved),
    ];
    for (limit, to) in limits {
        let Some(limit) = limit else { continue };
        if !(1..=MAX_STATES).contains(limit.get_ref()) {
            return Err(document.at(limit.span(), format!("a limit is 1 to {MAX_STATES}")));
        }
        *to = *limit.get_ref();
    }
    Ok(config)
}
