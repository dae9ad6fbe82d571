//! Policy for signalling through the local socket (RSVP, Boomerang): who may signal how much, for which
//! addresses, at which priority. It counts each caller's signalled claims, so that sums hold over all
//! connections of one caller.

use crate::policy::rights::Seat;
use crate::policy::rule::{Effect, Rule, words};
use crate::policy::{Policy, nearest};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::book::Caller;
use terms::ports::book::PolicyDecision;
use terms::{SenderTemplate, Session, Time};

/// An address prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddressPrefix {
    /// Its first address.
    pub addr: IpAddr,
    /// The length of the prefix, bits: at most 32 for IPv4, 128 for IPv6.
    pub length: u8,
}

/// A rule's scope for signalled requests: the packets, and the highest priority.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SignalScope {
    /// The sources; empty: any.
    pub sources: Vec<AddressPrefix>,
    /// The destinations; empty: any.
    pub destinations: Vec<AddressPrefix>,
    /// The highest priority, preempting and defending (RFC 3181), that it allows; `None`: no priority may be
    /// stated.
    pub priority: Option<u16>,
}

/// An end of signalled packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndPoint {
    /// These addresses.
    Of(AddressPrefix),
    /// Any address at all.
    Anywhere,
    /// Not stated yet: a receiver that only registers names no sender.
    Unsaid,
}

/// One claim of a caller who wants to signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalClaim {
    /// The interface as a resource, `net/eth1`; empty: not known; `None`: not stated yet.
    pub resource: Option<String>,
    /// True if the packets come in there (a receiver's claim), false if they leave.
    pub inward: bool,
    /// The source.
    pub src: EndPoint,
    /// The destination.
    pub dst: EndPoint,
    /// The rate, bit/s of IP bytes; zero: nothing is reserved.
    pub amount: u64,
}

/// The caller of a signalling request, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The caller's role and way of connecting.
    pub seat: Seat,
    /// The priority of the request: the higher of preempting and defending.
    pub priority: Option<u16>,
    /// The present; calendar time.
    pub now: Time,
}

/// The key of a set of claims; a later call with the same key replaces the earlier claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SignalKey {
    /// A sender that a connection offered.
    Sender(u64, Session, SenderTemplate),
    /// The reservation of a connection for a session.
    Reserve(u64, Session),
    /// A session of Boomerang.
    Boomerang(u64),
}

impl SignalKey {
    fn connection(&self) -> Option<u64> {
        match self {
            SignalKey::Sender(connection, ..) | SignalKey::Reserve(connection, _) => Some(*connection),
            SignalKey::Boomerang(_) => None,
        }
    }
}

/// The present claims of all callers.
#[derive(Clone, Debug, Default)]
pub struct Signalled {
    all: BTreeMap<SignalKey, (String, Vec<SignalClaim>)>,
}

impl AddressPrefix {
    /// The prefix of one address.
    pub fn host(addr: IpAddr) -> AddressPrefix {
        AddressPrefix { addr, length: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// True if all addresses of `other` lie in it.
    pub fn contains(&self, other: &AddressPrefix) -> bool {
        self.length <= other.length && self.meets(other)
    }

    /// True if an address lies in both: the first bits of the shorter length are the same.
    pub fn meets(&self, other: &AddressPrefix) -> bool {
        let length = u32::from(self.length.min(other.length));
        match (self.addr, other.addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
            _ => false,
        }
    }
}

impl core::fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self == AddressPrefix::host(self.addr) {
            true => write!(f, "{}", self.addr),
            false => write!(f, "{}/{}", self.addr, self.length),
        }
    }
}

impl core::fmt::Display for EndPoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            EndPoint::Of(prefix) => write!(f, "{prefix}"),
            EndPoint::Anywhere => f.write_str("anywhere"),
            EndPoint::Unsaid => f.write_str("nobody in particular"),
        }
    }
}

/// True if a rule's prefixes are about an end. The prefix of a rule that allows must contain all of the end;
/// for a rule that denies, a part of it is enough.
pub(crate) fn about(prefixes: &[AddressPrefix], end: &EndPoint, denies: bool) -> bool {
    prefixes.is_empty()
        || match end {
            EndPoint::Of(whose) if denies => prefixes.iter().any(|prefix| prefix.meets(whose)),
            EndPoint::Of(whose) => prefixes.iter().any(|prefix| prefix.contains(whose)),
            EndPoint::Anywhere => denies,
            EndPoint::Unsaid => !denies,
        }
}

impl Rule {
    /// True if it is about signalled requests at all.
    pub(crate) fn is_for_signals(&self) -> bool {
        self.signal.unwrap_or(self.effect == Effect::Deny)
    }

    /// True if it is about this claim. A rule for holders of a token never is: signalled requests carry none.
    fn is_about_claim(&self, caller: &Caller, claim: &SignalClaim) -> bool {
        let denies = self.effect == Effect::Deny;
        let named = |name: &String| self.resources.iter().any(|pattern| pattern.matches(name));
        self.is_for_signals()
            && self.vos.is_empty()
            && self.labels.is_empty()
            && self.background != Some(true)
            && self.who.iter().any(|who| who.is(caller))
            && (self.resources.is_empty() || claim.resource.as_ref().map_or(!denies, named))
            && about(&self.signals.sources, &claim.src, denies)
            && about(&self.signals.destinations, &claim.dst, denies)
    }

    /// The reason if it denies a claim that it is about. `together` and `count` are the caller's sum and
    /// number of claims at that interface, this one included.
    fn denies_claim(&self, asker: &Asker<'_>, claim: &SignalClaim, together: u64, count: usize) -> Option<String> {
        let limits = match &self.effect {
            Effect::Deny => return Some(String::from("denied")),
            Effect::Allow(limits) => limits,
        };
        let amount = |amount: u64| words("net/", amount);
        if let Some(most) = limits.amount.filter(|most| claim.amount > *most) {
            return Some(format!("{} is asked, {} at once are allowed", amount(claim.amount), amount(most)));
        }
        if let Some(most) = limits.together.filter(|most| together > *most) {
            return Some(format!("it would be {} together, {} are allowed", amount(together), amount(most)));
        }
        if let Some(most) = limits.reservations.filter(|most| count > *most) {
            return Some(format!("{most} reservations of one owner are allowed"));
        }
        if let Some(hours) = limits.hours.as_ref().filter(|hours| !hours.contain(asker.now)) {
            return Some(format!("these are not the hours in which it is allowed: {hours}"));
        }
        if limits.from.is_some_and(|from| asker.now < from) {
            return Some(String::from("it is not allowed yet"));
        }
        if limits.until.is_some_and(|until| asker.now >= until) {
            return Some(String::from("it is allowed no more"));
        }
        match (asker.priority, self.signals.priority) {
            (Some(_), None) => Some(String::from("no priority is allowed")),
            (Some(asked), Some(most)) if asked > most => {
                Some(format!("the priority {asked} is asked, {most} is allowed"))
            }
            _ => None,
        }
    }
}

impl Policy {
    /// Decides a claim. The first rule that is about it answers; without one only operators may signal.
    pub fn decide_claim(&self, asker: &Asker<'_>, claim: &SignalClaim, together: u64, count: usize) -> PolicyDecision {
        if let Some(rule) = self.rules().iter().find(|rule| rule.is_about_claim(asker.caller, claim)) {
            return PolicyDecision {
                rule: rule.name.clone(),
                denied: rule.denies_claim(asker, claim, together, count),
                above: Vec::new(),
            };
        }
        let is_operator = matches!(asker.seat, Seat::Root | Seat::Operator);
        let denied = (!is_operator).then(|| nearest::of_claim(self, asker.caller, claim));
        PolicyDecision { rule: String::new(), denied, ..PolicyDecision::default() }
    }
}

impl Signalled {
    /// Decides claims in place of the earlier ones of the key, and counts them if they are allowed.
    ///
    /// # Errors
    /// The rule (empty: none is about it), and the reason. The state is unchanged then.
    pub fn ask(
        &mut self,
        policy: &Policy,
        asker: &Asker<'_>,
        key: SignalKey,
        claims: Vec<SignalClaim>,
    ) -> Result<(), (String, String)> {
        self.may(policy, asker, Some(key), &claims).map(|_| ())?;
        self.count(key, asker.caller.name.clone(), claims);
        Ok(())
    }

    /// Counts claims from now on; a key that exists keeps its owner.
    pub fn count(&mut self, key: SignalKey, owner: String, claims: Vec<SignalClaim>) {
        let owner = self.all.remove(&key).map_or(owner, |(before, _)| before);
        self.all.insert(key, (owner, claims));
    }

    /// Decides claims without a change of state. The decisions, claim by claim.
    ///
    /// # Errors
    /// The first rule that denies a claim, and the reason.
    pub fn may(
        &self,
        policy: &Policy,
        asker: &Asker<'_>,
        key: Option<SignalKey>,
        claims: &[SignalClaim],
    ) -> Result<Vec<PolicyDecision>, (String, String)> {
        let verdicts = self.verdicts(policy, asker, key, claims);
        match verdicts.iter().find_map(|verdict| Some((verdict.rule.clone(), verdict.denied.clone()?))) {
            Some(refused) => Err(refused),
            None => Ok(verdicts),
        }
    }

    /// The decisions of the rules, claim by claim, beside the caller's other claims.
    pub fn verdicts(
        &self,
        policy: &Policy,
        asker: &Asker<'_>,
        key: Option<SignalKey>,
        claims: &[SignalClaim],
    ) -> Vec<PolicyDecision> {
        let name = &asker.caller.name;
        let others = self.all.iter().filter(|(other, (owner, _))| owner == name && Some(**other) != key);
        let others: Vec<&SignalClaim> = others.flat_map(|(_, (_, claims))| claims).collect();
        let decide = |claim: &SignalClaim| {
            let same = |other: &&SignalClaim| other.resource == claim.resource && other.inward == claim.inward;
            let beside = others.iter().copied().filter(same);
            let (sum, count) = beside.fold((0_u64, 1), |(sum, n), other| (sum.saturating_add(other.amount), n + 1));
            let asked = claims.iter().filter(same).fold(0_u64, |sum, one| sum.saturating_add(one.amount));
            policy.decide_claim(asker, claim, sum.saturating_add(asked), count)
        };
        claims.iter().map(decide).collect()
    }

    /// Decides if a connection may state this priority from now on. Its present claims are decided again,
    /// and, except for operators, a rule about the caller must allow the priority.
    ///
    /// # Errors
    /// As [`Signalled::may`].
    pub fn may_be_urgent(&self, policy: &Policy, asker: &Asker<'_>, connection: u64) -> Result<(), (String, String)> {
        for (key, (_, claims)) in self.all.iter().filter(|(key, _)| key.connection() == Some(connection)) {
            self.may(policy, asker, Some(*key), claims)?;
        }
        let Some(asked) = asker.priority else { return Ok(()) };
        if matches!(asker.seat, Seat::Root | Seat::Operator) {
            return Ok(());
        }
        let rules = policy.rules().iter().filter(|rule| {
            rule.is_for_signals() && rule.effect != Effect::Deny && rule.who.iter().any(|who| who.is(asker.caller))
        });
        let most = rules.filter_map(|rule| Some((rule.signals.priority?, &rule.name))).max();
        match most {
            Some((most, _)) if most >= asked => Ok(()),
            Some((most, name)) => {
                Err((name.clone(), format!("the priority {asked} is asked, {most} is the highest allowed")))
            }
            None => {
                let who = crate::policy::rights::named(asker.caller);
                Err((String::new(), format!("you are {who}: no rule with a `priority` is about you")))
            }
        }
    }

    /// Drops the claims of a key.
    pub fn gone(&mut self, key: SignalKey) {
        self.all.remove(&key);
    }

    /// Drops the claims of a connection for a session; `None`: all its claims.
    pub fn released(&mut self, connection: u64, session: Option<Session>) {
        self.all.retain(|key, _| match (key, session) {
            (SignalKey::Sender(of, one, _) | SignalKey::Reserve(of, one), Some(session)) => {
                *of != connection || *one != session
            }
            (SignalKey::Sender(of, ..) | SignalKey::Reserve(of, _), None) => *of != connection,
            (SignalKey::Boomerang(_), _) => true,
        });
    }

    /// The owner of a session of Boomerang.
    pub fn owner(&self, number: u64) -> Option<&str> {
        self.all.get(&SignalKey::Boomerang(number)).map(|(owner, _)| owner.as_str())
    }
}
