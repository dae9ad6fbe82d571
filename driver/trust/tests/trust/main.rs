//! The authority, handshakes, partners' domains, and signed statements.

mod authority;
mod handshake;
mod partners;
mod statements;
