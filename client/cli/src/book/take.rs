//! The command that takes an alternative: the typed command, with the offered window or amount.

use super::show::kind_of;
use super::times::Calendar;
use documents::book::{AlternativeDoc, StepDoc};
use terms::book::ResourceKind;

/// Options of `sluice reserve` that stand alone.
const FLAGS: [&str; 3] = ["--earliest", "--some", "--json"];

/// The typed command, without the program's name.
pub fn typed() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// The command that takes the alternative; `None`: no command can. `path`: it is between two hosts.
pub fn command(typed: &[String], offered: &AlternativeDoc, path: bool, calendar: &Calendar) -> Option<String> {
    let steps: Vec<&StepDoc> = offered.parts.iter().map(|part| part.first()).collect::<Option<_>>()?;
    if offered.parts.iter().any(|part| part.len() != 1) || steps.is_empty() {
        return None;
    }
    let words = match offered.sort.as_str() {
        "later" | "shorter" => timed(typed, steps[0], calendar)?,
        "slower" => slower(typed, &steps, path)?,
        _ => return None,
    };
    let all: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(format!("sluice {}", all.join(" ")))
}

/// An option with its value, or a word alone.
struct Word<'a> {
    name: &'a str,
    value: Option<&'a str>,
    /// The words as typed.
    all: &'a [String],
}

fn words(typed: &[String]) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = typed.get(at) {
        let long = word.strip_prefix("--").and_then(|_| word.split_once('='));
        let short = (word.len() > 2 && word.starts_with("-w")).then(|| word.split_at(2));
        let (name, value, takes) = match long.or(short) {
            Some((name, value)) => (name, Some(value), 1),
            None if word.starts_with('-') && !FLAGS.contains(&word.as_str()) => {
                (word.as_str(), typed.get(at + 1).map(String::as_str), 2)
            }
            None => (word.as_str(), None, 1),
        };
        found.push(Word { name, value, all: &typed[at..(at + takes).min(typed.len())] });
        at += takes;
    }
    found
}

/// The command with another window, in place of the typed one.
fn timed(typed: &[String], step: &StepDoc, calendar: &Calendar) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for word in words(typed) {
        let says_when = match word.name {
            "--for" | "--window" | "-w" | "--by" | "--earliest" => true,
            "--from" => word.value.is_some_and(|value| super::args::end(value).is_err()),
            _ => false,
        };
        if !says_when {
            all.extend(word.all.iter().cloned());
        }
    }
    let start = if step.start <= calendar.now() { "now".to_owned() } else { calendar.typed(step.start)? };
    let end = step.end.map_or(Some(String::new()), |end| calendar.typed(end))?;
    all.extend(["-w".to_owned(), format!("{start}..{end}")]);
    Some(all)
}

/// The command with other amounts.
fn slower(typed: &[String], steps: &[&StepDoc], path: bool) -> Option<Vec<String>> {
    let words = words(typed);
    let least = steps.iter().map(|step| step.amount).reduce(f64::min)?;
    let mut next = steps.iter();
    let ways = words.iter().filter(|word| matches!(word.name, "--forward" | "--reverse")).count();
    if path && ways != 1 {
        return None; // the offer does not say which way is meant
    }
    let mut all: Vec<String> = Vec::new();
    for word in &words {
        match (word.name.split_once('='), word.value) {
            (Some((resource, _)), None) if !path && !word.name.starts_with('-') => {
                all.push(format!("{resource}={}", amount(kind_of(resource), next.next()?.amount)));
            }
            (_, Some(_)) if path && matches!(word.name, "--forward" | "--reverse") => {
                all.extend([word.name.to_owned(), amount(ResourceKind::Network, least)]);
            }
            _ => all.extend(word.all.iter().cloned()),
        }
    }
    Some(all)
}

fn amount(kind: ResourceKind, amount: f64) -> String {
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => format!("{}bit", amount as u64),
        ResourceKind::Disk => format!("{}bps", amount as u64),
        ResourceKind::Cpu => format!("{}", (amount * 1e6).floor() / 1e6),
        ResourceKind::Countable => format!("{}", amount as u64),
    }
}

/// A word in the quoting of a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::book::Instant;
    use jiff::tz::TimeZone;
    use terms::Time;

    const NOW: u64 = 1_795_269_600; // 2026-11-21 14:00:00 UTC

    fn offered(sort: &str, amounts: &[f64], start: u64, end: u64) -> AlternativeDoc {
        let at = |seconds: u64| Instant(Time::from_nanos((NOW + seconds) * 1_000_000_000));
        let part = |amount: &f64| vec![StepDoc { start: at(start), end: Some(at(end)), amount: *amount }];
        AlternativeDoc { sort: sort.to_owned(), parts: amounts.iter().map(part).collect(), resources: Vec::new() }
    }

    fn said(typed: &str, offered: &AlternativeDoc, path: bool) -> Option<String> {
        let typed: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let calendar = Calendar::at(NOW * 1_000_000_000 + 5_000_000, TimeZone::UTC);
        command(&typed, offered, path, &calendar)
    }

    #[test]
    fn what_was_typed_with_what_was_offered() {
        let later = offered("later", &[4e7], 337, 937);
        for (typed, expected) in [
            ("reserve net/eth1=40mbit --for 10m", "sluice reserve net/eth1=40mbit -w 14:05:37..14:15:37"),
            (
                "reserve --for=10m net/eth1=40mbit --key a",
                "sluice reserve net/eth1=40mbit --key a -w 14:05:37..14:15:37",
            ),
            (
                "reserve net/eth1=40mbit -w now..+10m --json",
                "sluice reserve net/eth1=40mbit --json -w 14:05:37..14:15:37",
            ),
            (
                "reserve --for 10m --earliest --by 14:09 --from 14:01 --from 10.0.0.1 net/eth1=40mbit",
                "sluice reserve --from 10.0.0.1 net/eth1=40mbit -w 14:05:37..14:15:37",
            ),
        ] {
            assert_eq!(said(typed, &later, false).as_deref(), Some(expected), "{typed}");
        }
        let tomorrow = offered("later", &[4e7], 86_400, 90_000);
        let text = said("reserve net/eth1=40mbit --for 1h", &tomorrow, false).unwrap();
        assert_eq!(text, "sluice reserve net/eth1=40mbit -w '2026-11-22 14:00:00..2026-11-22 15:00:00'");
        let shorter = offered("shorter", &[4e7], 0, 60);
        let text = said("reserve net/eth1=40mbit --for 1h", &shorter, false).unwrap();
        assert_eq!(text, "sluice reserve net/eth1=40mbit -w now..14:01:00");
        let slower = offered("slower", &[26_630_123.0, 0.25], 0, 60);
        let text = said("reserve net/eth1=40mbit:1mbit cpu=0.5 --for 1h --label a=b", &slower, false).unwrap();
        assert_eq!(text, "sluice reserve net/eth1=26630123bit cpu=0.25 --for 1h --label a=b");
    }

    #[test]
    fn between_two_hosts_and_what_no_command_says() {
        let slower = offered("slower", &[3e6, 2e6], 0, 60);
        let typed = "reserve --from 10.0.0.1 --to 10.0.2.2 --forward 6mbit --for 1h";
        let text = said(typed, &slower, true).unwrap();
        assert_eq!(text, "sluice reserve --from 10.0.0.1 --to 10.0.2.2 --forward 2000000bit --for 1h");
        assert_eq!(said(&format!("{typed} --reverse 1mbit"), &slower, true), None);
        assert_eq!(said(typed, &offered("other_path", &[3e6], 0, 60), true), None);
        assert_eq!(said(typed, &offered("later", &[], 0, 60), true), None);
    }
}
