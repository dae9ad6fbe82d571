//! Who a peer is: X.509 identities over mutual TLS, and the small authority that makes them.
//!
//! A peer off the local socket is known by its certificate alone (RFC 5280): [`TrustGate`] checks the chain against our own
//! authority or a partner's ([`Domain`]), its length, its dates and that authority's revocation list, and [`Identity`] reads the role, the
//! name and the groups out of it. A name belongs to the authority that signed it. Each refusal has its reason. [`Authority`] makes all that a site needs in one go. Time is handed in: a certificate's dates are held
//! against our own clock.
#![forbid(unsafe_code)]

mod authority;
mod crowd;
mod dial;
mod error;
mod gate;
mod identity;
mod pem;
mod source;
mod tls;

pub use authority::{Authority, CertificateRequest, Issued, IssuedCertificate};
pub use crowd::{displaced, source_of};
pub use dial::{Dialled, dial, is_a};
pub use error::Error;
pub use gate::{Domain, HOME, MAX_CHAIN, TrustGate};
pub use identity::{CertificateRole, Identity};
pub use source::{CertificateSource, DiskSource, Handed, MAX_FILE, Stamp, take};
pub use tls::{Files, Speaks, client, client_from, server, server_from};

use std::sync::Arc;
use terms::Time;

/// What tells the time: certificates begin and end by it.
pub type Now = Arc<dyn Fn() -> Time + Send + Sync>;
