//! The simulator: nodes, sources, TCP, faults, and the experiments that run on it.

mod book;
mod boomerang;
mod capture;
mod conservation;
mod faults;
mod guaranteed;
mod mace;
mod pipe;
mod recognition;
mod recovery;
mod reservations;
mod rfc2963;
mod scoreboard;
mod shares;
mod soft_state;
mod tcp;
mod topology;
mod torture;
mod transactions;
mod tree;
mod video;
