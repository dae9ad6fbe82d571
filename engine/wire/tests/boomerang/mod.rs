//! The Boomerang codec's tests, one program: golden bytes, what is written is read back, what is rewritten stays right, every
//! truncation and mutation (`FAULTS` B and the parser rules of P).

mod exhaustive;
mod faults;
mod golden;
mod rewrite;
mod round_trip;
mod seeds;
