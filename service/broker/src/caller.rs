//! The caller and its rights: from a certificate, from the kernel, or from the configuration.

use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use booking::policy::rights::{Call, Right, Seat, Whose};
use documents::links::CallerDoc;
use std::sync::Arc;
use terms::book::{Caller, CallerRole as Seen};
use trust::{CertificateRole, Identity, TrustGate};

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
        let Caller { name, groups, role } = self.named();
        let role = match role {
            Seen::Owner => "owner",
            Seen::Auditor => "auditor",
            Seen::Operator => "operator",
            Seen::Broker => "broker",
        };
        Ok(CallerDoc { name, groups, role: role.to_owned() })
    }

    /// Checks the certificate at every request: it may be revoked or expired.
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
