//! The query of a request, the part behind the question mark; and its idempotency key.

use crate::id::ReservationId;
use crate::problem::{Answer, Problem};
use axum::http::HeaderMap;
use std::collections::BTreeMap;

/// The longest idempotency key, characters.
const MAX_KEY: usize = 96;

/// The parsed query: each name once, and only known names.
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn read(text: Option<String>, known: &[&str]) -> Answer<Query> {
        let mut all = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).ok_or_else(|| Problem::malformed(format!("{name:?} is encoded wrongly")))?;
            if !known.contains(&name) {
                return Err(Problem::malformed(format!("{name:?} is not known here: {}", known.join(", "))));
            }
            if all.insert(name.to_owned(), value).is_some() {
                return Err(Problem::malformed(format!("{name:?} is there twice")));
            }
        }
        Ok(Query(all))
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    pub(crate) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let parse =
            |text: &String| text.parse().map_err(|_| Problem::malformed(format!("{name}: {text:?} is no such thing")));
        self.0.get(name).map(parse).transpose()
    }
}

/// Percent-decoding; a plus is a plus, as in an RFC 3339 offset.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |b: &u8| char::from(*b).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The idempotency key; empty: none.
pub(crate) fn key(headers: &HeaderMap) -> Answer<String> {
    let mut all = headers.get_all("idempotency-key").iter();
    let (Some(key), None) = (all.next(), all.next()) else {
        return match headers.contains_key("idempotency-key") {
            true => Err(Problem::malformed("more than one Idempotency-Key")),
            false => Ok(String::new()),
        };
    };
    let text = key.to_str().unwrap_or_default();
    if text.is_empty() || text.len() > MAX_KEY || !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Problem::malformed(format!("an Idempotency-Key has 1 to {MAX_KEY} visible ASCII characters")));
    }
    Ok(text.to_owned())
}

/// Parses a name in an address; a malformed one is as unknown as one that does not exist.
pub(crate) fn named(text: &str) -> Answer<ReservationId> {
    ReservationId::parse(text).ok_or_else(Problem::not_found)
}
