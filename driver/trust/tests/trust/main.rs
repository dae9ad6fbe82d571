//! The authority, handshakes, and partners' domains.

mod authority;
mod handshake;
mod partners;
