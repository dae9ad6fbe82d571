//! Peer identity: X.509 certificates over mutual TLS, and a small authority that issues them.
//!
//! A remote peer is known by its certificate only (RFC 5280). [`TrustGate`] checks the chain against our own
//! authority or a partner's ([`Domain`]), its length, its dates and that authority's revocation list.
//! [`Identity`] reads the role, the name and the groups. A name belongs to the authority that signed it. Each
//! refusal states its reason. A broker signs what others must believe later ([`StatementSigner`]). [`Authority`]
//! makes all files of a site in one step. Virtual organisations give their people rights by [`token`]s. The caller passes in the time against which dates are checked.
#![forbid(unsafe_code)]

mod authority;
mod crowd;
mod dial;
mod error;
mod gate;
mod identity;
mod pem;
mod source;
mod statement;
mod tls;
pub mod token;

pub use authority::{Authority, CertificateRequest, Issued, IssuedCertificate};
pub use crowd::{displaced, source_of};
pub use dial::{Dialled, dial, is_a};
pub use error::Error;
pub use gate::{Domain, HOME, MAX_CHAIN, TrustGate};
pub use identity::{CertificateRole, Identity};
pub use source::{CertificateSource, DiskSource, Handed, MAX_FILE, Stamp, take};
pub use statement::{MAX_STATEMENT, SignedStatement, StatementSigner};
pub use tls::{Files, Speaks, client, client_from, server, server_for_all, server_from};

use std::sync::Arc;
use terms::Time;

/// The clock against which the dates of certificates are checked.
pub type Now = Arc<dyn Fn() -> Time + Send + Sync>;
