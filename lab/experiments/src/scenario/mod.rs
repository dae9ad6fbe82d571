//! Scenarios of the simulator as files: topology, queues, sources, TCP, reservations, faults, a sweep.
//!
//! `text` is the file as it is written; [`file`] reads one with `names`, `link`, `source`, `tcp` and `fault`,
//! and reports each mistake with its line; [`sweep`] puts other values into fields; [`mod@play`] runs it,
//! [`outcome`] has the results, and [`capture`] the packets on a link. The format is in `docs/simulator.md`
//! and in `examples`.

pub mod capture;
mod fault;
pub mod file;
mod link;
mod mace;
mod names;
pub mod outcome;
pub mod play;
mod source;
pub mod sweep;
mod tcp;
mod text;

pub use file::ScenarioFile;
pub use outcome::{ScenarioOutcome, SeedMeans};
pub use play::{PlayOptions, play};
