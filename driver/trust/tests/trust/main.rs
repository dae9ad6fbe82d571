//! The authority, handshakes, partners' domains, signed statements, and tokens of virtual organisations.

mod authority;
mod handshake;
mod partners;
mod statements;
mod tokens;
