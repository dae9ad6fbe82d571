//! The ledger against an oracle that counts tick by tick: small scope completely, large scope at random.

mod differential;
mod exhaustive;
mod oracle;
