//! Legs of a reservation across domains, and the acceptances of the domains that take them.
//!
//! Each domain answers for its own leg only, and promises nothing before it has the acceptance of the domain
//! after it. So acceptances come back as a chain, the nearest domain's first: each has the digest of the one
//! after it, and is signed by its domain's broker. Who has checked the signature of the first, and the digests
//! of the others, has what every domain on the way has said.

use alloc::string::String;
use alloc::vec::Vec;
use commit::TransactionId;
use core::fmt;
use sha2::{Digest, Sha256};
use terms::Time;

/// The most domains on the way of one reservation.
pub const MOST_DOMAINS: usize = 16;

/// A digest of a signed acceptance.
pub type AcceptanceDigest = [u8; 32];

/// A domain's acceptance of its leg.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// The transaction of the domain that asked first. It is the same on the whole way, and never used again.
    pub transaction: TransactionId,
    /// The domain that accepts.
    pub domain: String,
    /// The domain from which packets come; `None`: they begin here.
    pub entry: Option<String>,
    /// The domain to which packets go on; `None`: they end here.
    pub exit: Option<String>,
    /// The rate from the first host to the second, bit/s of IP bytes; 0: none.
    pub forward: u64,
    /// The rate back, bit/s of IP bytes; 0: none.
    pub reverse: u64,
    /// The windows, each from its start to its end.
    pub windows: Vec<(Time, Time)>,
    /// The instant at which it expires: it supports no vote from then on.
    pub expires: Time,
    /// The digest of the next domain's signed acceptance; `None`: packets end here.
    pub next: Option<AcceptanceDigest>,
}

/// An acceptance as it was heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeardAcceptance {
    /// Its content.
    pub content: Acceptance,
    /// Its digest.
    pub digest: AcceptanceDigest,
    /// The domain whose broker signed it, if its signature could be checked: only neighbours' can.
    pub signer: Option<String>,
}

/// The request, and the domain that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedLeg<'a> {
    /// The transaction of the domain that asked first.
    pub transaction: TransactionId,
    /// The domain from which packets come to it: our own; in a tree, the one before it.
    pub entry: &'a str,
    /// The domain that was asked.
    pub domain: &'a str,
    /// The rate from the first host to the second, bit/s.
    pub forward: u64,
    /// The rate back, bit/s.
    pub reverse: u64,
    /// The windows.
    pub windows: &'a [(Time, Time)],
}

/// The reason why acceptances are not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptanceFault {
    /// There is none.
    Missing,
    /// There are more than domains can be on a way.
    TooMany,
    /// The domain that was asked has not signed it.
    NotSigned,
    /// It is about another transaction: perhaps it was heard before, and is sent again.
    OtherTransaction,
    /// It is another domain's.
    OtherDomain,
    /// It is about other borders.
    OtherBorders,
    /// It is about other rates.
    OtherRates,
    /// It is about other windows.
    OtherWindows,
    /// It is too old to rely on.
    Expired,
    /// The next one is not the one that it names, or is missing.
    Broken,
}

impl fmt::Display for AcceptanceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcceptanceFault::Missing => "there is none",
            AcceptanceFault::TooMany => "there are more than domains can be on a way",
            AcceptanceFault::NotSigned => "the domain that was asked has not signed it",
            AcceptanceFault::OtherTransaction => "it is about another transaction",
            AcceptanceFault::OtherDomain => "it is another domain's",
            AcceptanceFault::OtherBorders => "it is about other borders",
            AcceptanceFault::OtherRates => "it is about other rates",
            AcceptanceFault::OtherWindows => "it is about other windows",
            AcceptanceFault::Expired => "it has expired",
            AcceptanceFault::Broken => "the next domain's is not the one that it names",
        })
    }
}

impl core::error::Error for AcceptanceFault {}

/// The digest of an acceptance: of its text and its signature.
pub fn digest(text: &str, signature: &[u8]) -> AcceptanceDigest {
    // A text has no octet 0, so no other pair gives the same bytes.
    Sha256::new().chain_update(text).chain_update([0]).chain_update(signature).finalize().into()
}

/// Checks a chain of acceptances, the nearest domain's first, against what that domain was asked for.
///
/// # Errors
/// The first [`AcceptanceFault`].
pub fn check(chain: &[HeardAcceptance], expected: &ExpectedLeg<'_>, now: Time) -> Result<(), AcceptanceFault> {
    let first = chain.first().ok_or(AcceptanceFault::Missing)?;
    if chain.len() >= MOST_DOMAINS {
        return Err(AcceptanceFault::TooMany);
    }
    if first.signer.as_deref() != Some(expected.domain) {
        return Err(AcceptanceFault::NotSigned);
    }
    let mut before = expected.entry;
    let mut domain = Some(expected.domain);
    for (place, heard) in chain.iter().enumerate() {
        let said = &heard.content;
        if said.transaction != expected.transaction {
            return Err(AcceptanceFault::OtherTransaction);
        }
        if domain != Some(&said.domain) {
            return Err(AcceptanceFault::OtherDomain);
        }
        if said.entry.as_deref() != Some(before) {
            return Err(AcceptanceFault::OtherBorders);
        }
        if (said.forward, said.reverse) != (expected.forward, expected.reverse) {
            return Err(AcceptanceFault::OtherRates);
        }
        if said.windows != expected.windows {
            return Err(AcceptanceFault::OtherWindows);
        }
        if said.expires <= now {
            return Err(AcceptanceFault::Expired);
        }
        if said.next != chain.get(place + 1).map(|next| next.digest) || said.next.is_some() != said.exit.is_some() {
            return Err(AcceptanceFault::Broken);
        }
        (before, domain) = (&said.domain, said.exit.as_deref());
    }
    Ok(())
}

/// The name here of a caller for whom the last of these domains asks. The name says by whose word: a broker can
/// name people of its own domain only, and those of a domain that asked it, by that domain's word. A name from
/// the kernel of a broker's machine comes with the broker's: `main/uid:0`.
///
/// `None`: that domain cannot speak for anybody of this name.
pub fn vouched<S: AsRef<str>>(via: &[S], name: &str) -> Option<String> {
    let (domain, before) = via.split_last()?;
    let good = match before.last() {
        None => is_own(name),
        Some(asked) => name
            .strip_prefix(asked.as_ref())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| vouched(before, rest).as_deref() == Some(name)),
    };
    (good && via.len() < MOST_DOMAINS && is_plain(domain.as_ref()))
        .then(|| alloc::format!("{}/{name}", domain.as_ref()))
}

fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(allowed)
}

/// True for people of one domain, as its own broker knows them.
fn is_own(name: &str) -> bool {
    match name.split_once('/') {
        None => is_plain(name),
        Some((broker, rest)) => {
            is_plain(broker) && rest.split_once(':').is_some_and(|(kind, number)| is_plain(kind) && is_plain(number))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    const NOW: Time = Time::from_nanos(1_000);
    const WINDOWS: [(Time, Time); 1] = [(Time::from_nanos(5_000), Time::from_nanos(9_000))];

    fn heard(domain: &str, entry: &str, exit: Option<&str>, next: Option<&HeardAcceptance>) -> HeardAcceptance {
        let content = Acceptance {
            transaction: TransactionId([7; 16]),
            domain: domain.into(),
            entry: Some(entry.into()),
            exit: exit.map(Into::into),
            forward: 6,
            reverse: 1,
            windows: WINDOWS.to_vec(),
            expires: Time::from_nanos(2_000),
            next: next.map(|next| next.digest),
        };
        HeardAcceptance {
            digest: digest(&alloc::format!("{content:?}"), b"signed"),
            content,
            signer: Some(domain.into()),
        }
    }

    /// ESnet and LBNL, as ANL hears them.
    fn chain() -> Vec<HeardAcceptance> {
        let lbnl = HeardAcceptance { signer: None, ..heard("lbnl", "esnet", None, None) };
        vec![heard("esnet", "anl", Some("lbnl"), Some(&lbnl)), lbnl]
    }

    fn checked(change: impl FnOnce(&mut Vec<HeardAcceptance>), now: Time) -> Result<(), AcceptanceFault> {
        let (transaction, windows) = (TransactionId([7; 16]), &WINDOWS[..]);
        let expected = ExpectedLeg { transaction, entry: "anl", domain: "esnet", forward: 6, reverse: 1, windows };
        let mut chain = chain();
        change(&mut chain);
        check(&chain, &expected, now)
    }

    #[test]
    fn a_chain_is_believed_as_a_whole_only() {
        use AcceptanceFault::*;
        assert_eq!(checked(|_| {}, NOW), Ok(()));
        assert_eq!(checked(Vec::clear, NOW), Err(Missing));
        assert_eq!(checked(|chain| chain[0].signer = None, NOW), Err(NotSigned));
        assert_eq!(checked(|chain| chain[0].signer = Some("lbnl".into()), NOW), Err(NotSigned));
        assert_eq!(checked(|chain| chain[0].content.transaction.0[3] = 0, NOW), Err(OtherTransaction));
        assert_eq!(checked(|chain| chain[1].content.transaction.0[3] = 0, NOW), Err(OtherTransaction));
        assert_eq!(checked(|chain| chain[0].content.domain = "mren".into(), NOW), Err(OtherDomain));
        assert_eq!(checked(|chain| chain[1].content.entry = Some("anl".into()), NOW), Err(OtherBorders));
        assert_eq!(checked(|chain| chain[1].content.forward = 5, NOW), Err(OtherRates));
        assert_eq!(checked(|chain| chain[0].content.windows[0].1 = NOW, NOW), Err(OtherWindows));
        assert_eq!(checked(|_| {}, Time::from_nanos(2_000)), Err(Expired));
        assert_eq!(checked(|chain| drop(chain.pop()), NOW), Err(Broken));
        assert_eq!(checked(|chain| chain[1].digest[0] ^= 1, NOW), Err(Broken));
        assert_eq!(checked(|chain| chain[0].content.exit = None, NOW), Err(Broken));
        let many = |chain: &mut Vec<HeardAcceptance>| chain.extend(vec![chain[1].clone(); MOST_DOMAINS]);
        assert_eq!(checked(many, NOW), Err(TooMany));
    }

    #[test]
    fn a_domain_speaks_for_its_own_people_and_for_those_it_was_asked_for() {
        assert_eq!(vouched(&["anl"], "alice").as_deref(), Some("anl/alice"));
        assert_eq!(vouched(&["anl"], "main/uid:0").as_deref(), Some("anl/main/uid:0"));
        assert_eq!(vouched(&["anl", "esnet"], "anl/alice").as_deref(), Some("esnet/anl/alice"));
        assert_eq!(vouched(&["anl", "esnet"], "anl/main/uid:0").as_deref(), Some("esnet/anl/main/uid:0"));
        for bad in ["", "/", "uid:0", "a//b", "lbnl/bob", "a b", "ü", "a/uid:", "a/b/uid:0", &"a".repeat(65)] {
            assert_eq!(vouched(&["anl"], bad), None, "{bad}");
        }
        for bad in ["alice", "erin", "lbnl/bob", "anl/lbnl/bob", "anl/", "anlalice", "anl/uid:0"] {
            assert_eq!(vouched(&["anl", "esnet"], bad), None, "{bad}");
        }
        assert_eq!(vouched::<&str>(&[], "alice"), None);
        assert_eq!(AcceptanceFault::Expired.to_string(), "it has expired");
    }
}
