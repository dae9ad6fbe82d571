//! The caller and its rights: from a certificate, from the kernel, or from the configuration.

use crate::problem::{Answer, Problem};
use crate::web::WebSession;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use booking::policy::rights::{Call, Right, Seat, Whose};
use documents::links::CallerDoc;
use linux::clock::Clock;
use std::sync::Arc;
use terms::Time;
use terms::book::{Caller, CallerRole as Seen};
use trust::token::MAX_TOKEN_TEXT;
use trust::{CertificateRole, Identity, TrustGate};

/// The header in which a request shows a token.
const TOKEN: HeaderName = HeaderName::from_static("sluice-token");

/// The header in which a request names the user of this machine for whom it is made, and that user's groups.
const FOR: HeaderName = HeaderName::from_static("sluice-for");
/// The most groups of a caller, as agents take them.
const MAX_GROUPS: usize = 64;

/// The peer of a connection.
#[derive(Clone, Debug)]
pub enum ConnectionPeer {
    /// A certificate that passed the gate when the connection was made.
    Certificate {
        /// The holder of the certificate.
        identity: Identity,
        /// The gate, which is asked again at every request.
        gate: Arc<TrustGate>,
    },
    /// A process of this machine, on the Unix socket.
    Local {
        /// The process, as the kernel reports it.
        peer: Arc<linux::process::PeerProcess>,
        /// True if it is a member of the operators' group.
        operator: bool,
        /// True if it may ask for other users.
        speaks: bool,
    },
    /// A browser, which stands for the caller that took its ticket.
    Browser {
        /// The session, which is asked again at every request.
        session: Arc<WebSession>,
        /// The clock that ends it.
        clock: Clock,
    },
    /// A peer on the loopback, without proof of identity.
    Plain {
        /// The name that the configuration gives to such peers.
        name: Arc<str>,
        /// The port that it called.
        port: u16,
    },
}

/// The user ID of this process.
pub fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
}

impl ConnectionPeer {
    /// The seat in the table of rights. A peer that the configuration names on the loopback is a requester.
    pub fn seat(&self) -> Seat {
        match self {
            ConnectionPeer::Certificate { identity, .. } => match identity.role {
                CertificateRole::Requester => Seat::Requester,
                CertificateRole::Auditor => Seat::Auditor,
                CertificateRole::Operator => Seat::FarOperator,
                CertificateRole::Agent => Seat::Agent,
                CertificateRole::Broker => Seat::Broker,
            },
            ConnectionPeer::Local { peer, .. } if peer.uid == 0 || peer.uid == own_uid() => Seat::Root,
            ConnectionPeer::Local { operator: true, .. } => Seat::Operator,
            ConnectionPeer::Local { .. } => Seat::Member,
            ConnectionPeer::Browser { session, .. } => session.peer().seat(),
            ConnectionPeer::Plain { .. } => Seat::Requester,
        }
    }

    /// Checks that the peer may make this call at all; the content of the request is not examined.
    ///
    /// # Errors
    /// 401: the certificate is not valid any more; 403: the table refuses.
    pub fn may(&self, call: Call) -> Answer<()> {
        self.is_good()?;
        let seat = self.seat();
        match call.at_most(seat) {
            Right::No => Err(Problem::forbidden(call.refusal(seat, Whose::Any, &self.named()))),
            Right::Yes | Right::Rule => Ok(()), // rules are the agents'
        }
    }

    /// The user for whom this request is made, if its header `Sluice-For` names one (`uid:1000 gid:1000 gid:27`): a
    /// user of this machine, who is no operator, whatever the groups.
    ///
    /// # Errors
    /// 400: the header cannot be read; 403: the peer may not, or not for this user, or not this call.
    pub fn instead(&self, call: Call, headers: &HeaderMap) -> Answer<Option<ConnectionPeer>> {
        let mut all = headers.get_all(FOR).iter();
        let Some(value) = all.next() else { return Ok(None) };
        let seat = self.seat();
        match self {
            ConnectionPeer::Local { speaks: true, .. } => {}
            ConnectionPeer::Local { .. } if Call::ForUser.at_most(seat) == Right::Rule => {
                let what = "Sluice-For is for root, and for users whom the broker's file names: speakers = [\"NAME\"]";
                return Err(Problem::forbidden(what));
            }
            _ => return Err(Problem::forbidden(Call::ForUser.refusal(seat, Whose::Any, &self.named()))),
        }
        if !call.is_for_users() {
            return Err(Problem::forbidden(format!("{} is not done for others", call.name())));
        }
        let text = value.to_str().ok().filter(|_| all.next().is_none());
        let Some((uid, groups)) = text.and_then(user) else {
            let what = format!("Sluice-For: uid:N gid:N, and at most {} more gid:N", MAX_GROUPS - 1);
            return Err(Problem::malformed(what));
        };
        if uid == 0 || uid == own_uid() {
            return Err(Problem::forbidden("nobody asks for root, or for the broker's own user"));
        }
        let peer = linux::process::PeerProcess { pid: 0, uid, gid: groups[0], groups };
        Ok(Some(ConnectionPeer::Local { peer: Arc::new(peer), operator: false, speaks: false }))
    }

    /// The caller, as agents are told; asked for every request.
    ///
    /// # Errors
    /// 401: the certificate is not valid any more.
    pub fn caller(&self) -> Answer<CallerDoc> {
        self.is_good()?;
        let Caller { name, groups, role, .. } = self.named();
        let role = match role {
            Seen::Owner => "owner",
            Seen::Auditor => "auditor",
            Seen::Operator => "operator",
            Seen::Broker => "broker",
        };
        Ok(CallerDoc { name, groups, role: role.to_owned(), token: None })
    }

    /// The caller, with the token of a virtual organisation that the request shows in the header
    /// `Sluice-Token`. Agents verify it, and ask its checks.
    ///
    /// # Errors
    /// 400: the header is no text, or too long; 401 as [`ConnectionPeer::caller`].
    pub fn caller_showing(&self, headers: &HeaderMap) -> Answer<CallerDoc> {
        let text = headers.get(TOKEN).map(|value| value.to_str().map(str::trim));
        let token = match text {
            None | Some(Ok("")) => None,
            Some(Ok(text)) if text.len() <= MAX_TOKEN_TEXT => Some(text.to_owned()),
            Some(_) => {
                let what = format!("Sluice-Token: a token, at most {MAX_TOKEN_TEXT} characters of base64");
                return Err(Problem::malformed(what));
            }
        };
        Ok(CallerDoc { token, ..self.caller()? })
    }

    /// The end of a browser's session; `None`: it is no browser.
    pub fn until(&self) -> Option<Time> {
        match self {
            ConnectionPeer::Browser { session, .. } => Some(session.until()),
            _ => None,
        }
    }

    /// True if this is the caller's name; whether the caller is still good is not asked.
    pub fn is_called(&self, name: &str) -> bool {
        self.named().name == name
    }

    /// Checks the certificate or session at every request: it may be revoked, expired or ended.
    fn is_good(&self) -> Answer<()> {
        match self {
            ConnectionPeer::Certificate { identity, gate } => gate.admit(identity).map_err(|error| {
                Problem::new(StatusCode::UNAUTHORIZED, "certificate", "Certificate not good", error.to_string())
            }),
            ConnectionPeer::Browser { session, clock } if session.is_over(clock.now()) => {
                let what = "this browser is not signed in any more: `sluice web` prints a link that signs it in";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "session", "Not signed in", what))
            }
            ConnectionPeer::Browser { session, .. } => session.peer().is_good(),
            ConnectionPeer::Local { .. } | ConnectionPeer::Plain { .. } => Ok(()),
        }
    }

    fn named(&self) -> Caller {
        let role = match self.seat() {
            Seat::Root | Seat::Operator | Seat::FarOperator => Seen::Operator,
            Seat::Auditor => Seen::Auditor,
            Seat::Member | Seat::Requester | Seat::Agent | Seat::Broker => Seen::Owner,
        };
        match self {
            ConnectionPeer::Certificate { identity, .. } => {
                Caller { name: identity.known_as(), groups: identity.groups(), role, token: None }
            }
            ConnectionPeer::Local { peer, .. } => {
                let others = peer.groups.iter().filter(|group| **group != peer.gid);
                let groups = std::iter::once(&peer.gid).chain(others).map(|group| format!("gid:{group}")).collect();
                Caller { name: format!("uid:{}", peer.uid), groups, role, token: None }
            }
            ConnectionPeer::Browser { session, .. } => session.peer().named(),
            ConnectionPeer::Plain { name, .. } => {
                Caller { name: name.to_string(), groups: Vec::new(), role, token: None }
            }
        }
    }
}

/// A user and the groups, the first of which is the user's own.
fn user(text: &str) -> Option<(u32, Vec<u32>)> {
    // A number has one way to be written.
    let number = |word: &str, kind: &str| {
        let digits = word.strip_prefix(kind)?;
        digits.parse().ok().filter(|number: &u32| number.to_string() == digits && *number != u32::MAX)
    };
    let mut words = text.split(' ');
    let uid = number(words.next()?, "uid:")?;
    let groups: Vec<u32> = words.take(MAX_GROUPS + 1).map(|word| number(word, "gid:")).collect::<Option<_>>()?;
    (1..=MAX_GROUPS).contains(&groups.len()).then_some((uid, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_in_one_way() {
        assert_eq!(user("uid:1000 gid:1000 gid:27"), Some((1000, vec![1000, 27])));
        let many = format!("uid:7{}", " gid:8".repeat(MAX_GROUPS + 1));
        for odd in [
            "",
            "uid:7",
            "uid:7 ",
            "uid:7  gid:8",
            "uid:07 gid:8",
            "uid:+7 gid:8",
            "gid:8 uid:7",
            "uid:4294967295 gid:8",
            &many,
        ] {
            assert_eq!(user(odd), None, "{odd:?}");
        }
        assert!(user(&format!("uid:7{}", " gid:8".repeat(MAX_GROUPS))).is_some());
    }

    /// Speakers ask for other users, not for root, and only what a job needs.
    #[test]
    fn speakers_ask_for_users_and_for_nobody_else() {
        let local = |uid: u32, speaks: bool| {
            let peer = linux::process::PeerProcess { pid: 1, uid, gid: uid, groups: Vec::new() };
            ConnectionPeer::Local { peer: Arc::new(peer), operator: false, speaks }
        };
        let header = |text: &str| HeaderMap::from_iter([(FOR, text.parse().unwrap())]);
        let ask = |peer: &ConnectionPeer, call, text: &str| {
            peer.instead(call, &header(text)).map(|peer| peer.map(|peer| peer.named().name)).map_err(|no| no.status)
        };
        let slurm = local(64_030, true);
        let call = Call::PostReservation;
        assert_eq!(slurm.instead(call, &HeaderMap::new()).unwrap().map(|_| ()), None);
        assert_eq!(ask(&slurm, call, "uid:5 gid:60"), Ok(Some("uid:5".to_owned())));
        assert_eq!(ask(&slurm, call, "uid:0 gid:0"), Err(403));
        assert_eq!(ask(&slurm, call, &format!("uid:{} gid:0", own_uid())), Err(403));
        assert_eq!(ask(&slurm, call, "alice"), Err(400));
        assert_eq!(ask(&slurm, Call::PostTicket, "uid:5 gid:60"), Err(403), "no browser is signed in as another");
        assert_eq!(ask(&local(65_002, false), call, "uid:5 gid:60"), Err(403));
        let plain = ConnectionPeer::Plain { name: "demo".into(), port: 1 };
        assert_eq!(ask(&plain, call, "uid:5 gid:60"), Err(403));
        let twice = HeaderMap::from_iter([(FOR, "uid:5 gid:60".parse().unwrap())]);
        let mut more = twice.clone();
        more.append(FOR, "uid:6 gid:60".parse().unwrap());
        assert_eq!(slurm.instead(call, &more).map(|_| ()).map_err(|no| no.status), Err(400));
        let instead = slurm.instead(call, &twice).unwrap().unwrap();
        assert_eq!(instead.seat(), Seat::Member);
        assert_eq!(ask(&instead, call, "uid:6 gid:60"), Err(403), "who is spoken for speaks for nobody");
    }
}
