//! Scenarios of the simulator as files: topology, sources, reservations, a sweep.
//!
//! [`file`] reads one, each mistake with its line; [`play`] runs it and tabulates what arrived. The format is that of
//! `examples/video.toml`.

pub mod file;
pub mod play;
mod values;

pub use file::ScenarioFile;
pub use play::{Outcome, Row, play};
