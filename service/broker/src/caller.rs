//! Who calls, and what they may: from a certificate, from the kernel's word, or as the configuration says.

use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use booking::policy::rights::{Call, Right, Seat, Whose};
use rpc::links::CallerDoc;
use std::sync::Arc;
use terms::book::{Caller, CallerRole as Seen};
use trust::{CertificateRole, Identity, TrustGate};

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub enum ConnectionPeer {
    /// A certificate that passed the gate when the connection was made.
    Certificate {
        /// Whose.
        identity: Identity,
        /// Asked again at every request.
        gate: Arc<TrustGate>,
    },
    /// A process of this machine, on the Unix socket.
    Local {
        /// Who the kernel says that it is.
        peer: Arc<linux::process::PeerProcess>,
        /// Whether it is a member of the operators' group.
        operator: bool,
    },
    /// Somebody on the loopback.
    Plain {
        /// For whom they are taken.
        name: Arc<str>,
        /// The port that they called.
        port: u16,
    },
}

/// The user of whom this process is.
pub fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
}

impl ConnectionPeer {
    /// Where it sits in the table of rights. Whom the configuration names on the loopback is a requester.
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
            ConnectionPeer::Plain { .. } => Seat::Requester,
        }
    }

    /// Whether it may ask this at all, before anybody looks at what it asks.
    ///
    /// # Errors
    /// 401: the certificate is good no more; 403: the table says no.
    pub fn may(&self, call: Call) -> Answer<()> {
        self.is_good()?;
        let seat = self.seat();
        match call.at_most(seat) {
            Right::No => Err(Problem::forbidden(call.refusal(seat, Whose::Any, &self.named()))),
            Right::Yes | Right::Rule => Ok(()), // rules are the agents'
        }
    }

    /// Who asks, as agents are told; asked for every request.
    ///
    /// # Errors
    /// 401: the certificate is good no more.
    pub fn caller(&self) -> Answer<CallerDoc> {
        self.is_good()?;
        let Caller { name, groups, role } = self.named();
        let role = match role {
            Seen::Owner => "owner",
            Seen::Auditor => "auditor",
            Seen::Operator => "operator",
            Seen::Broker => "broker",
        };
        Ok(CallerDoc { name, groups, role: role.to_owned() })
    }

    /// A certificate is asked for at every request: it may be revoked, or over.
    fn is_good(&self) -> Answer<()> {
        let ConnectionPeer::Certificate { identity, gate } = self else { return Ok(()) };
        gate.admit(identity).map_err(|error| {
            Problem::new(StatusCode::UNAUTHORIZED, "certificate", "Certificate not good", error.to_string())
        })
    }

    fn named(&self) -> Caller {
        let role = match self.seat() {
            Seat::Root | Seat::Operator | Seat::FarOperator => Seen::Operator,
            Seat::Auditor => Seen::Auditor,
            Seat::Member | Seat::Requester | Seat::Agent | Seat::Broker => Seen::Owner,
        };
        match self {
            ConnectionPeer::Certificate { identity, .. } => {
                Caller { name: identity.known_as(), groups: identity.groups(), role }
            }
            ConnectionPeer::Local { peer, .. } => {
                let others = peer.groups.iter().filter(|group| **group != peer.gid);
                let groups = std::iter::once(&peer.gid).chain(others).map(|group| format!("gid:{group}")).collect();
                Caller { name: format!("uid:{}", peer.uid), groups, role }
            }
            ConnectionPeer::Plain { name, .. } => Caller { name: name.to_string(), groups: Vec::new(), role },
        }
    }
}
