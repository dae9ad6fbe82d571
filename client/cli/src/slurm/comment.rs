//! The comment of a job: `sluice: to=dtn2 forward=2gbit reverse=100mbit from=10.0.0.5`.
//!
//! The owner of the job writes it. What begins with the word must be right to the last letter, so that no job runs
//! without what it has asked for; every other comment is the user's own affair.

use documents::units;
use std::fmt;
use std::net::IpAddr;

/// The beginning of a comment for us.
pub const BEGIN: &str = "sluice:";
/// The longest comment, bytes.
const LONGEST: usize = 512;
/// The longest name of a host (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 253;

/// The request of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobWish {
    /// The host that it speaks with: a name or an address.
    pub to: String,
    /// Its own address, unless it is that of its node.
    pub from: Option<IpAddr>,
    /// The rate at which each node of the job sends.
    pub forward: Option<JobRate>,
    /// The rate at which each receives.
    pub reverse: Option<JobRate>,
}

/// A rate, bit/s, and the least that will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobRate {
    /// The most.
    pub most: u64,
    /// The least; `None`: all of it.
    pub least: Option<u64>,
}

/// Reads a comment; `None`: it asks for nothing.
///
/// # Errors
/// The mistake, for its author.
pub fn parse(comment: &str) -> Result<Option<JobWish>, String> {
    let text = comment.trim();
    let head: String = text.chars().take(BEGIN.len()).collect::<String>().to_ascii_lowercase();
    if !head.starts_with(&BEGIN[..BEGIN.len() - 1]) {
        return Ok(None);
    }
    let wrong = |what: &str| Err(format!("{what}: write {BEGIN} to=HOST forward=RATE, for instance forward=2gbit"));
    let Some(words) = text.strip_prefix(BEGIN) else {
        return wrong(
            "a comment that begins with the word sluice asks for a reservation, and a colon follows the word",
        );
    };
    if text.len() > LONGEST {
        return Err(format!("the comment has more than {LONGEST} letters"));
    }
    let mut wish = JobWish::default();
    for word in words.split_ascii_whitespace() {
        let Some((key, value)) = word.split_once('=') else { return wrong(&format!("{word:?} is no KEY=VALUE")) };
        let twice = match key {
            "to" => !std::mem::replace(&mut wish.to, host(value)?).is_empty(),
            "from" => {
                let address = value.parse().map_err(|_| format!("from={value}: {value:?} is no address"))?;
                wish.from.replace(address).is_some()
            }
            "forward" => wish.forward.replace(rate(key, value)?).is_some(),
            "reverse" => wish.reverse.replace(rate(key, value)?).is_some(),
            other => return Err(format!("{other:?} is no key: there are to, from, forward and reverse")),
        };
        if twice {
            return Err(format!("{key} is there twice"));
        }
    }
    match (wish.to.is_empty(), wish.forward.or(wish.reverse)) {
        (true, _) => wrong("to which host? to= is missing"),
        (_, None) => wrong("how much? forward= or reverse= is missing"),
        (false, Some(_)) => Ok(Some(wish)),
    }
}

/// A name or an address. A name cannot be taken for an option, or for anything but a name.
fn host(text: &str) -> Result<String, String> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let is_name = text.len() <= LONGEST_NAME && text.starts_with(|c: char| c.is_ascii_alphanumeric());
    match text.parse::<IpAddr>().is_ok() || is_name && text.chars().all(name) {
        true => Ok(text.to_owned()),
        false => Err(format!("to={text}: {text:?} is neither the name of a host nor an address")),
    }
}

fn rate(key: &str, text: &str) -> Result<JobRate, String> {
    let (most, least) = text.split_once(':').map_or((text, None), |(most, least)| (most, Some(least)));
    let read = |text: &str| match units::parse_rate(text) {
        Ok(rate) if rate.as_bps() > 0 => Ok(rate.as_bps()),
        Ok(_) => Err(format!("{key}={text}: nothing is no rate")),
        Err(wrong) => Err(format!("{key}={text}: {wrong}")),
    };
    let found = JobRate { most: read(most)?, least: least.map(read).transpose()? };
    match found.least.is_some_and(|least| least > found.most) {
        true => Err(format!("{key}={text}: the least is more than the most")),
        false => Ok(found),
    }
}

impl fmt::Display for JobWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}:", self.from.map_or("each node".to_owned(), |from| from.to_string()), self.to)?;
        for (name, rate) in [("forward", self.forward), ("reverse", self.reverse)] {
            let Some(JobRate { most, least }) = rate else { continue };
            write!(f, " {name} {}", terms::Rate::from_bps(most))?;
            if let Some(least) = least {
                write!(f, ", at least {}", terms::Rate::from_bps(least))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_that_ask() {
        let wish = parse(" sluice: to=dtn2 forward=2gbit:500mbit  reverse=10mbit from=fd00::1 ").unwrap().unwrap();
        let forward = JobRate { most: 2_000_000_000, least: Some(500_000_000) };
        let reverse = JobRate { most: 10_000_000, least: None };
        let from = Some("fd00::1".parse().unwrap());
        assert_eq!(wish, JobWish { to: "dtn2".into(), from, forward: Some(forward), reverse: Some(reverse) });
        assert!(parse("sluice:to=10.0.0.2 reverse=1mbit").unwrap().is_some());
        for own in ["", "(null)", "run 7 of the big one", "slui", "a job for sluice: to=x forward=1mbit", "é"] {
            assert_eq!(parse(own), Ok(None), "{own:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_never_left_out() {
        for (text, why) in [
            ("sluice", "a colon follows"),
            ("Sluice: to=a forward=1mbit", "a colon follows"),
            ("SLUICE to=a forward=1mbit", "a colon follows"),
            ("sluice:", "to= is missing"),
            ("sluice: forward=1mbit", "to= is missing"),
            ("sluice: to= forward=1mbit", "neither the name"),
            ("sluice: to=a", "how much?"),
            ("sluice: to=a forward", "no KEY=VALUE"),
            ("sluice: to=a forward=", "forward="),
            ("sluice: to=a forward=0", "has no unit"),
            ("sluice: to=a forward=0bit", "nothing is no rate"),
            ("sluice: to=a forward=fast", "forward=fast"),
            ("sluice: to=a forward=1mbit:2mbit", "more than the most"),
            ("sluice: to=a forward=1mbit forward=2mbit", "twice"),
            ("sluice: to=a to=b forward=1mbit", "twice"),
            ("sluice: to=a forward=1mbit job=7", "\"job\" is no key"),
            ("sluice: to=a forward=1mbit uid=0", "\"uid\" is no key"),
            ("sluice: to=a;reboot forward=1mbit", "neither the name"),
            ("sluice: to=$(reboot) forward=1mbit", "neither the name"),
            ("sluice: to=-x forward=1mbit", "neither the name"),
            ("sluice: to=a, forward=1mbit", "neither the name"),
            ("sluice: to=a forward=1mbit from=b", "no address"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{text:?}: {said}");
        }
        assert!(parse(&format!("sluice: to={} forward=1mbit", "a".repeat(LONGEST_NAME + 1))).is_err());
        assert!(
            parse(&format!("sluice: to=a forward=1mbit{}", " ".repeat(LONGEST) + "x")).unwrap_err().contains("letters")
        );
    }
}
