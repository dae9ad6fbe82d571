//! `role = "edge"` of an `[[interface]]`: the kind of neighbour behind it, and so whether premium code points
//! that come in there are trusted.
//!
//! ```toml
//! role = "edge"    # hosts: what they mark premium (EF, AF1x) without a booking loses the mark
//! role = "core"    # a node of this domain, which has seen to its marks: they are believed
//! role = "peer"    # another domain: wiped as at an edge, beyond what is booked on an agreement with it (`sla_file`)
//! ```
//!
//! An interface without a role is an edge, and causes a warning. Whatever the role, packets of this host
//! without a booking lose their premium mark, and so do packets that came in by an interface that the
//! configuration does not name.

use crate::document::{Document, Mistake};
use toml::Spanned;

/// The kind of neighbour behind an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterfaceRole {
    /// Hosts.
    Edge,
    /// Nodes of this domain.
    Core,
    /// Another domain.
    Peer,
}

impl InterfaceRole {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            InterfaceRole::Edge => "edge",
            InterfaceRole::Core => "core",
            InterfaceRole::Peer => "peer",
        }
    }
}

/// Reads the role of an interface; `None` if the file names none.
///
/// # Errors
/// There is no such role.
pub fn read(document: &Document<'_>, text: Option<&Spanned<String>>) -> Result<Option<InterfaceRole>, Mistake> {
    let Some(text) = text else { return Ok(None) };
    let found = [InterfaceRole::Edge, InterfaceRole::Core, InterfaceRole::Peer]
        .into_iter()
        .find(|role| role.name() == text.get_ref());
    let wrong = || document.at(text.span(), format!("{:?} is no role: edge, core or peer", text.get_ref()));
    found.ok_or_else(wrong).map(Some)
}
