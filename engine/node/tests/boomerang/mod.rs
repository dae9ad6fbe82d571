//! Boomerang on whole nodes (engine, ledger, plan) in a net of hosts that answer ping and routers that know nothing: one
//! story a promise, and one for each of `FAULTS` B1 to B15.

mod allowance;
mod authentic;
mod chaos;
mod faults;
mod gathering;
mod group;
mod locks;
mod net;
mod promises;
mod replies;
mod sites;
