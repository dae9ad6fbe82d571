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
