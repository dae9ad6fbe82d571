//! Who calls, and what they may: from a certificate, from the kernel's word, or as the configuration says.

use crate::problem::{Answer, Problem};
use api::links::CallerDoc;
use axum::http::StatusCode;
use std::sync::Arc;
use trust::{Gate, Identity, Role};

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A certificate that passed the gate when the connection was made.
    Certificate {
        /// Whose.
        identity: Identity,
        /// Asked again at every request.
        gate: Arc<Gate>,
    },
    /// A process of this machine, on the Unix socket.
    Local {
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Somebody on the loopback, taken for this name.
    Plain(Arc<str>),
}

/// The user of whom this process is.
pub fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
}

impl Peer {
    /// Who asks, as agents are told; asked for every request.
    ///
    /// # Errors
    /// 401: the certificate is good no more; 403: a certificate of an agent or broker is not for asking.
    pub fn caller(&self) -> Answer<CallerDoc> {
        let doc = |name: String, groups: Vec<String>, role: &str| CallerDoc { name, groups, role: role.to_owned() };
        match self {
            Peer::Certificate { identity, gate } => {
                gate.admit(identity).map_err(|error| {
                    Problem::new(StatusCode::UNAUTHORIZED, "certificate", "Certificate not good", error.to_string())
                })?;
                let role = match identity.role {
                    Role::Requester => "owner",
                    Role::Auditor => "auditor",
                    Role::Operator => "operator",
                    Role::Agent | Role::Broker => {
                        let what = format!("a certificate of the role {} is not for asking", identity.role);
                        return Err(Problem::forbidden(what));
                    }
                };
                Ok(doc(identity.known_as(), identity.groups(), role))
            }
            Peer::Local { uid, gid } => {
                let role = if *uid == 0 || *uid == own_uid() { "operator" } else { "owner" };
                Ok(doc(format!("uid:{uid}"), vec![format!("gid:{gid}")], role))
            }
            Peer::Plain(name) => Ok(doc(name.to_string(), Vec::new(), "owner")),
        }
    }
}
