//! Reservations for receivers of this host that do not signal: a Path that matches a rule of the configuration is
//! answered with a Resv for what it announces (the Path-triggered receiver proxy of RFC 5945 section 4.1).
//!
//! ```toml
//! [[receiver_proxy]]
//! from = "10.0.0.0/24"           # senders whose announcements are believed: addresses, or 0.0.0.0/0
//! protocol = "tcp"               # the default; or udp, or a number
//! rate = "50mbit"                # the most for one sender; what announces more is not reserved
//! ```
//!
//! Without rules nothing is reserved for anybody. Sessions of other hosts and of groups are not answered. The reservation
//! is of distinct senders (FF) and controlled load, and ends with the Path.

use crate::document::{Document, Mistake};
use crate::fields::unit;
use booking::policy::AddressPrefix;
use documents::boomerang::SitePrefix;
use documents::units;
use rsvp::io::{AppId, Upcall};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use terms::{FlowSpec, Rate, SenderTemplate, Session, Tspec};
use toml::Spanned;

/// The proxy's number as an application: that of no connection, and of no static.
pub(crate) const APP: AppId = AppId((1 << 48) - 1);
/// The most rules in a file.
const MOST_RULES: usize = 256;
/// The most senders of one session, and of all, that are reserved.
const MOST_OF_SESSION: usize = 64;
const MOST: usize = 65_536;

/// A rule of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverProxyRule {
    from: AddressPrefix,
    protocol: u8,
    most: Rate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiverProxyFile {
    from: Spanned<String>,
    protocol: Option<Spanned<String>>,
    rate: Spanned<String>,
}

/// Reads the rules of a file.
pub(crate) fn read(document: &Document<'_>, found: &[ReceiverProxyFile]) -> Result<Vec<ReceiverProxyRule>, Mistake> {
    if found.len() > MOST_RULES {
        return Err(document.whole(format!("more than {MOST_RULES} receiver proxies")));
    }
    found
        .iter()
        .map(|entry| {
            let prefix: SitePrefix =
                entry.from.get_ref().parse().map_err(|wrong: String| document.at(entry.from.span(), wrong))?;
            let protocol = match &entry.protocol {
                None => 6,
                Some(text) => unit(document, text, units::parse_protocol)?,
            };
            let from = AddressPrefix { addr: prefix.addr, length: prefix.length };
            Ok(ReceiverProxyRule { from, protocol, most: unit(document, &entry.rate, units::parse_rate)? })
        })
        .collect()
}

impl ReceiverProxyRule {
    fn is_for(&self, session: &Session, sender: &SenderTemplate) -> bool {
        self.protocol == session.protocol && self.from.contains(&AddressPrefix::host(sender.src))
    }
}

/// Calls to tell the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProxyCall {
    /// Register for the paths of this session.
    Register(Session),
    /// Reserve for these senders.
    Reserve(Session, Vec<SenderTemplate>, Vec<FlowSpec>),
    /// Give the reservation up, and the registration.
    Release(Session),
}

/// The proxy: the senders that are reserved for, and what the node has yet to be told.
#[derive(Default, Debug)]
pub(crate) struct ReceiverProxy {
    rules: Vec<ReceiverProxyRule>,
    sessions: BTreeMap<Session, BTreeMap<SenderTemplate, Tspec>>,
    senders: usize,
    calls: VecDeque<ProxyCall>,
}

impl ReceiverProxy {
    /// With the rules of the configuration.
    pub(crate) fn new(rules: &[ReceiverProxyRule]) -> ReceiverProxy {
        ReceiverProxy { rules: rules.to_vec(), ..ReceiverProxy::default() }
    }

    /// Path state came from another node. The node itself tells sessions of other hosts.
    pub(crate) fn path_came(&mut self, session: &Session, sender: &SenderTemplate) {
        let is_wanted = !session.dst.is_multicast() && self.rules.iter().any(|rule| rule.is_for(session, sender));
        if is_wanted && self.senders < MOST {
            self.calls.push_back(ProxyCall::Register(*session));
        }
    }

    /// An upcall for it.
    pub(crate) fn hear(&mut self, upcall: &Upcall) {
        match upcall {
            Upcall::Path { session, template, tspec, .. } => self.announced(session, template, tspec),
            Upcall::PathGone { session, template } if self.forget(session, template) => self.ask(session),
            _ => {}
        }
    }

    /// A sender is new, or has changed.
    fn announced(&mut self, session: &Session, sender: &SenderTemplate, tspec: &Tspec) {
        let mut rules = self.rules.iter().filter(|rule| rule.is_for(session, sender));
        if !rules.any(|rule| tspec.r <= rule.most) {
            if self.forget(session, sender) {
                self.ask(session);
            } else if !self.sessions.contains_key(session) {
                self.calls.push_back(ProxyCall::Release(*session));
            }
            return;
        }
        let of = self.sessions.entry(*session).or_default();
        if !of.contains_key(sender) {
            if of.len() >= MOST_OF_SESSION || self.senders >= MOST {
                return;
            }
            self.senders += 1;
        }
        of.insert(*sender, *tspec);
        self.ask(session);
    }

    /// True if the sender was reserved for.
    fn forget(&mut self, session: &Session, sender: &SenderTemplate) -> bool {
        let gone = self.sessions.get_mut(session).is_some_and(|of| of.remove(sender).is_some());
        self.senders -= usize::from(gone);
        gone
    }

    /// Asks for what is known of a session now.
    fn ask(&mut self, session: &Session) {
        let of = self.sessions.get(session).filter(|of| !of.is_empty());
        let call = match of {
            Some(of) => {
                let flowspecs = of.values().map(|tspec| FlowSpec::ControlledLoad(*tspec)).collect();
                ProxyCall::Reserve(*session, of.keys().copied().collect(), flowspecs)
            }
            None => {
                self.sessions.remove(session);
                ProxyCall::Release(*session)
            }
        };
        self.calls.push_back(call);
    }

    /// The next thing to tell the node.
    pub(crate) fn take(&mut self) -> Option<ProxyCall> {
        self.calls.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn rules(text: &str) -> Result<Vec<ReceiverProxyRule>, String> {
        #[derive(Deserialize)]
        struct All {
            receiver_proxy: Vec<ReceiverProxyFile>,
        }
        let document = Document::new(Path::new("a.toml"), text);
        let found: All = document.parse().map_err(|wrong| wrong.to_string())?;
        read(&document, &found.receiver_proxy).map_err(|wrong| wrong.to_string())
    }

    fn session(port: u16) -> Session {
        Session { dst: "10.0.2.2".parse().unwrap(), protocol: 6, dst_port: port }
    }

    fn sender(address: &str) -> SenderTemplate {
        SenderTemplate { src: address.parse().unwrap(), src_port: 80 }
    }

    fn path(address: &str, kbit: u64) -> Upcall {
        let (r, session) = (Rate::from_kbps(kbit), session(5000));
        let tspec = Tspec { r, b: terms::Bytes::new(8_000), p: Rate::INFINITE, m: 64, M: 1_500 };
        Upcall::Path { session, template: sender(address), tspec, adspec: None, own_mtu: None }
    }

    const RULE: &str = "[[receiver_proxy]]\nfrom = \"10.0.0.0/24\"\nrate = \"2mbit\"\n";

    #[test]
    fn only_what_a_rule_names_is_reserved_and_ends_with_its_path() {
        let mut proxy = ReceiverProxy::new(&rules(RULE).unwrap());
        let udp = Session { protocol: 17, ..session(5000) };
        for (session, from) in [(udp, "10.0.0.1"), (session(5000), "10.0.1.1"), (session(5000), "fd00::1")] {
            proxy.path_came(&session, &sender(from));
            assert_eq!(proxy.take(), None, "{from}");
        }
        proxy.path_came(&session(5000), &sender("10.0.0.1"));
        assert_eq!(proxy.take(), Some(ProxyCall::Register(session(5000))));
        proxy.hear(&path("10.0.0.1", 1_000));
        proxy.hear(&path("10.0.0.2", 2_000));
        let both = |call| match call {
            Some(ProxyCall::Reserve(_, senders, flowspecs)) => (senders.len(), flowspecs.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!((both(proxy.take()), both(proxy.take())), ((1, 1), (2, 2)));
        // Another of the session sends too, which no rule names; one asks for more than its rule allows.
        proxy.hear(&path("10.0.1.1", 1_000));
        assert_eq!(proxy.take(), None);
        proxy.hear(&path("10.0.0.2", 2_001));
        assert_eq!(both(proxy.take()), (1, 1));
        proxy.hear(&Upcall::PathGone { session: session(5000), template: sender("10.0.0.1") });
        assert_eq!((proxy.take(), proxy.senders), (Some(ProxyCall::Release(session(5000))), 0));
        assert!(proxy.sessions.is_empty());
    }

    #[test]
    fn a_session_has_a_limit_of_senders() {
        let mut proxy = ReceiverProxy::new(&rules(RULE).unwrap());
        for n in 1..=100 {
            proxy.hear(&path(&format!("10.0.0.{n}"), 16));
        }
        assert_eq!(proxy.senders, MOST_OF_SESSION);
    }

    #[test]
    fn mistakes_are_named() {
        for (wrong, word) in [
            (RULE.replace("10.0.0.0/24", "10.0.0.1/24"), "10.0.0.1/24"),
            (RULE.replace("2mbit", "2"), "2"),
            (format!("{RULE}protocol = \"tpc\"\n"), "tpc"),
            (RULE.replace("rate = \"2mbit\"\n", ""), "rate"),
        ] {
            let said = rules(&wrong).expect_err(&wrong);
            assert!(said.contains(word), "{said}");
        }
    }
}
