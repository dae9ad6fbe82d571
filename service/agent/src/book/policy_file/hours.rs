//! The days and hours of a rule.

use super::RuleFile;
use crate::document::{Document, Mistake};
use booking::policy::Hours;
use toml::Spanned;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

pub(super) fn hours(document: &Document<'_>, entry: &RuleFile) -> Result<Option<Hours>, Mistake> {
    let (days, at) = match (&entry.days, &entry.hours) {
        (None, None) => return Ok(None),
        (Some(days), _) => {
            let days = days.get_ref().iter().map(|one| day(document, one)).collect::<Result<Vec<u8>, _>>()?;
            (days, entry.days.as_ref().map_or(0..0, Spanned::span))
        }
        (None, Some(hours)) => ((0..7).collect(), hours.span()),
    };
    let (from, until) = match &entry.hours {
        None => (0, 86_400),
        Some(text) => stretch(text.get_ref()).ok_or_else(|| {
            let wrong = format!("{:?} are no hours: write them as 08:00-18:00, up to 24:00", text.get_ref());
            document.at(text.span(), wrong)
        })?,
    };
    let all: Vec<(u8, u64, u64)> = days.into_iter().map(|day| (day, from, until)).collect();
    Hours::new(&all).map(Some).map_err(|_| document.at(at, "these days and hours are none at all"))
}

fn day(document: &Document<'_>, text: &Spanned<String>) -> Result<u8, Mistake> {
    let found = (0..).zip(DAYS).find(|(_, name)| name == text.get_ref());
    found
        .map(|(number, _)| number)
        .ok_or_else(|| document.at(text.span(), format!("{:?} is no day: {}", text.get_ref(), DAYS.join(", "))))
}

/// Reads a window of hours: its start and end, seconds after midnight.
fn stretch(text: &str) -> Option<(u64, u64)> {
    let clock = |text: &str| -> Option<u64> {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute) = (hour.parse::<u64>().ok()?, minute.parse::<u64>().ok()?);
        (hour < 24 && minute < 60 || (hour, minute) == (24, 0)).then_some(hour * 3_600 + minute * 60)
    };
    let (from, until) = text.split_once('-')?;
    Some((clock(from)?, clock(until)?))
}
