//! Mail as the target of a webhook: `mailto:NAME@HOST`. Addresses are plain, so that none can be an option of a program or
//! another line of a header; and what goes to one is counted.

use documents::rest::Event;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The scheme of such targets.
pub const SCHEME: &str = "mailto:";
/// The longest address (RFC 5321, section 4.5.3.1.3, without its angle brackets).
const MAX: usize = 254;
/// The longest name before the @ (section 4.5.3.1.1).
const MAX_NAME: usize = 64;
/// The most events that one mail lists; the others are counted.
const MOST: usize = 20;
/// The most owners whose mails are counted apart.
const OWNERS: usize = 4_096;
/// The time in which mails are counted.
const HOUR: Duration = Duration::from_secs(3_600);

/// A plain address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailAddress(String);

impl MailAddress {
    /// Parses `NAME@HOST`: letters, digits and `. _ + -` before the @, a host name behind it.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<MailAddress, String> {
        let wrong = || format!("{text:?} is no plain address: NAME@HOST, of letters, digits and . _ + -");
        let (name, host) = text.split_once('@').filter(|_| text.len() <= MAX).ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let named = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(plain)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !name.ends_with('.')
            && !name.contains("..");
        let label = |label: &str| {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '-';
            (1..=63).contains(&label.len())
                && label.chars().all(inside)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match named && host.split('.').all(label) {
            true => Ok(MailAddress(format!("{name}@{}", host.to_ascii_lowercase()))),
            false => Err(wrong()),
        }
    }

    /// The address.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The addresses that a pattern of the configuration allows: one, or `*@HOST`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailPattern {
    /// This address.
    One(MailAddress),
    /// Every address of this host.
    Host(String),
}

impl MailPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<MailPattern, String> {
        match text.strip_prefix("*@") {
            Some(host) => MailAddress::parse(&format!("a@{host}")).map(|one| MailPattern::Host(one.0[2..].to_owned())),
            None => MailAddress::parse(text).map(MailPattern::One),
        }
    }

    /// True if it allows this address.
    pub fn allows(&self, address: &MailAddress) -> bool {
        match self {
            MailPattern::One(one) => one == address,
            MailPattern::Host(host) => address.0.split_once('@').is_some_and(|(_, at)| at == host),
        }
    }
}

/// The mails of the last hour, of all and of each owner.
#[derive(Debug)]
pub struct MailCount {
    most: usize,
    most_of_one: usize,
    all: VecDeque<Instant>,
    of_one: BTreeMap<String, VecDeque<Instant>>,
}

impl MailCount {
    /// So many an hour, of all and of one owner.
    pub fn new(most: usize, most_of_one: usize) -> MailCount {
        MailCount { most, most_of_one, all: VecDeque::new(), of_one: BTreeMap::new() }
    }

    /// Counts a mail of this owner.
    ///
    /// # Errors
    /// A sentence: there were too many.
    pub fn take(&mut self, owner: &str, now: Instant) -> Result<(), String> {
        let old = |at: &Instant| now.saturating_duration_since(*at) >= HOUR;
        let forget = |times: &mut VecDeque<Instant>| {
            while times.front().is_some_and(old) {
                times.pop_front();
            }
        };
        forget(&mut self.all);
        self.of_one.retain(|_, times| {
            forget(times);
            !times.is_empty()
        });
        let of_one = self.of_one.get(owner).map_or(0, VecDeque::len);
        let many = self.of_one.len() >= OWNERS && of_one == 0;
        if self.all.len() >= self.most || of_one >= self.most_of_one || many {
            let (most, of_one) = (self.most, self.most_of_one);
            return Err(format!("at most {of_one} mails an hour of one owner, {most} of all: this one comes later"));
        }
        self.all.push_back(now);
        self.of_one.entry(owner.to_owned()).or_default().push_back(now);
        Ok(())
    }
}

/// The text of a mail, headers and body, to one address.
pub fn written(from: &MailAddress, to: &MailAddress, broker: &str, events: &[Event]) -> String {
    let first = events.first();
    let subject = match first {
        Some(one) if one.event.event == "ends_soon" && events.len() == 1 => {
            format!("reservation ends at {}", plain(one.event.text.as_deref().unwrap_or("a time that is not known")))
        }
        Some(one) if events.len() == 1 => format!("reservation: {}", plain(&one.event.event)),
        _ => format!("{} events of reservations", events.len()),
    };
    // Nobody answers a program (RFC 3834).
    let mut text = format!(
        "From: {}\nTo: {}\nSubject: [sluice] {subject}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n",
        from.text(),
        to.text()
    );
    for one in events.iter().take(MOST) {
        let _ = match (one.event.event.as_str(), &one.event.text) {
            ("ends_soon", Some(end)) => {
                writeln!(text, "The reservation {} ends at {}.", plain(&one.reservation), plain(end))
            }
            (event, more) => writeln!(
                text,
                "{}: {} of the reservation {} {}",
                one.event.at,
                plain(event),
                plain(&one.reservation),
                plain(more.as_deref().unwrap_or(""))
            ),
        };
    }
    if events.len() > MOST {
        let _ = writeln!(text, "And {} more events.", events.len() - MOST);
    }
    let _ = writeln!(
        text,
        "\nShow it: sluice list HANDLE. Make it longer: sluice modify HANDLE --end +1h.\n-- \nbroker {}",
        plain(broker)
    );
    text
}

/// Text of others without what could end a line, at most so long.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::book::{BookEvent, Instant as At};
    use terms::Time;

    #[test]
    fn plain_addresses_only() {
        for (text, form) in [
            ("alice@example.org", "alice@example.org"),
            ("a.b+c_d-e@Mail.Example.ORG", "a.b+c_d-e@mail.example.org"),
            ("root@localhost", "root@localhost"),
        ] {
            assert_eq!(MailAddress::parse(text).unwrap().text(), form);
        }
        for wrong in [
            "",
            "@",
            "alice",
            "alice@",
            "@example.org",
            "-f@example.org",
            "-oQ/tmp@example.org",
            "a b@example.org",
            "a@b@c",
            "a@example.org\nBcc: x@example.org",
            "a@example.org\r",
            "a\n@example.org",
            "\"a\"@example.org",
            "<a@example.org>",
            "a@example..org",
            "a@-example.org",
            "a@example.org,b@example.org",
            "a@[10.0.0.1]",
            ".a@example.org",
            "a.@example.org",
            "a..b@example.org",
            "a|b@example.org",
            "a`b@example.org",
            "\u{e4}@example.org",
            "a@ex\u{e4}mple.org",
            "a%b@example.org",
            "a!b@example.org",
            "a@example.org ",
        ] {
            assert!(MailAddress::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(MailAddress::parse(&format!("{}@example.org", "a".repeat(65))).is_err());
    }

    #[test]
    fn patterns_allow_what_they_say() {
        let address = |text: &str| MailAddress::parse(text).unwrap();
        let pattern = |text: &str| MailPattern::parse(text).unwrap();
        assert!(pattern("*@example.org").allows(&address("alice@Example.org")));
        assert!(!pattern("*@example.org").allows(&address("alice@mail.example.org")));
        assert!(!pattern("*@example.org").allows(&address("alice@badexample.org")));
        assert!(pattern("ops@example.org").allows(&address("ops@example.org")));
        assert!(!pattern("ops@example.org").allows(&address("alice@example.org")));
        for wrong in ["*", "*@", "al*@example.org", "*@*"] {
            assert!(MailPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn so_many_an_hour() {
        let mut count = MailCount::new(3, 2);
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        assert!(count.take("ann", at(0)).is_ok() && count.take("ann", at(1)).is_ok());
        assert!(count.take("ann", at(2)).unwrap_err().contains("2 mails an hour of one owner"));
        assert!(count.take("bob", at(3)).is_ok());
        assert!(count.take("cat", at(4)).is_err(), "3 of all");
        assert!(count.take("ann", at(3_600)).is_ok(), "the first is an hour ago");
        assert!(count.take("bob", at(3_600)).is_err());
    }

    #[test]
    fn no_text_of_others_is_a_header_or_an_end() {
        let at = At(Time::from_nanos(1_795_269_600_000_000_000));
        let event = |event: &str, text: &str| Event {
            reservation: "abc\nBcc: x@example.org".to_owned(),
            agent: "maui".to_owned(),
            way: None,
            event: BookEvent {
                seq: 1,
                at,
                handle: "h".to_owned(),
                owner: "ann".to_owned(),
                group: String::new(),
                event: event.to_owned(),
                part: None,
                from: None,
                to: None,
                binding: None,
                text: Some(text.to_owned()),
            },
        };
        let (from, to) =
            (MailAddress::parse("sluice@example.org").unwrap(), MailAddress::parse("ann@example.org").unwrap());
        let text = written(&from, &to, "main", &[event("ends_soon", "2026-11-21T14:00:00Z\r\nBcc: y@example.org")]);
        let (head, body) = text.split_once("\n\n").unwrap();
        assert!(
            head.contains("Subject: [sluice] reservation ends at 2026-11-21T14:00:00ZBcc: y@example.org\n"),
            "{head}"
        );
        assert!(!text.contains("\nBcc"), "{text}");
        assert!(body.starts_with("The reservation abcBcc: x@example.org ends at"), "{body}");
        let many: Vec<Event> = (0..30).map(|_| event("failing", "why")).collect();
        let text = written(&from, &to, "main", &many);
        assert!(text.contains("And 10 more events."), "{text}");
    }
}
