//! The reservation that a command names: its handle, the first letters of it, or the newest.

use super::booking_client::{BookingClient, BookingError, Told};
use super::kept::ListedReservation;
use crate::complain::Complaint;
use clap::Args;
use documents::book::BookFilter;

/// The least length of a whole handle, of an agent or a broker, in letters.
const WHOLE: usize = 26;
/// The fewest letters that may stand for a handle.
const FEWEST: usize = 3;
/// The most handles that are listed where the letters fit several.
const MOST_LISTED: usize = 5;

/// A reservation on the command line.
#[derive(Args, Clone, Debug)]
pub struct WhichArgs {
    /// The reservation's handle, or the first letters of it
    #[arg(required_unless_present = "last")]
    pub handle: Option<String>,
    /// The newest reservation that we may see
    #[arg(long, conflicts_with = "handle")]
    pub last: bool,
}

impl WhichArgs {
    /// The whole handle.
    pub fn handle(&self, desk: &mut BookingClient) -> Told<String> {
        match &self.handle {
            Some(text) => whole(desk, text),
            None => newest(desk),
        }
    }
}

/// The letters that count: groups and the case do not, nor does the mark of what a table has cut.
fn letters(text: &str) -> String {
    text.trim_end_matches('…').chars().filter(|c| *c != '-').flat_map(char::to_lowercase).collect()
}

fn misuse<T>(text: String) -> Told<T> {
    Err(BookingError::World(Complaint::usage(text)))
}

/// The handle that begins like this; a whole one as it is.
pub fn whole(desk: &mut BookingClient, text: &str) -> Told<String> {
    let wanted = letters(text);
    if wanted.len() >= WHOLE || !wanted.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(text.to_owned());
    }
    if wanted.len() < FEWEST {
        return misuse(format!("{text:?} is too short: write at least {FEWEST} letters of a handle"));
    }
    let fits = |rows: Vec<ListedReservation>| -> Vec<String> {
        let handles = rows.iter().map(|row| row.handle().to_owned());
        handles.filter(|handle| letters(handle).starts_with(&wanted)).collect()
    };
    // What is not over comes first: most commands mean that.
    let mut found = fits(desk.list(BookFilter::default())?);
    if found.is_empty() {
        found =
            fits(desk.list(BookFilter { states: super::STATES.map(str::to_owned).to_vec(), ..Default::default() })?);
    }
    match found.len() {
        // The answer is the agent's or the broker's: the same as for what is another caller's.
        0 => Ok(text.to_owned()),
        1 => Ok(found.remove(0)),
        count => {
            let more = if count > MOST_LISTED { ", ..." } else { "" };
            found.truncate(MOST_LISTED);
            misuse(format!("{count} reservations begin with {text}: {}{more}", found.join(", ")))
        }
    }
}

/// The newest reservation that is not over.
fn newest(desk: &mut BookingClient) -> Told<String> {
    let rows = desk.list(BookFilter::default())?;
    let newest = rows.iter().max_by_key(|row| row.doc().created).map(|row| row.handle().to_owned());
    newest.map_or_else(|| misuse("there is no reservation".to_owned()), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_case_do_not_count() {
        assert_eq!(letters("XHX4ccw-zqm"), "xhx4ccwzqm");
        assert_eq!(letters("xhx4ccw…"), "xhx4ccw");
    }
}
