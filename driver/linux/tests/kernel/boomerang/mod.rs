//! Boomerang's fast path: the program run on messages of our own making, its table and grants read beside it.

mod allowance;
mod bed;
mod both;
mod differ;
mod policing;
mod program;
mod router;
mod stories;
mod theirs;
