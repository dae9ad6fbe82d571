//! A queue tree on a capture: the implementation of `sluice plane`.
//!
//! [`file`] reads the tree; [`run()`] plays the capture's packets through it in the capture's own time;
//! [`report`] counts; [`charts`] draws. On real packets the same tree runs in [`user_plane`]; [`live`] shows its counters.

pub mod charts;
pub mod file;
pub(crate) mod leaf_text;
pub mod live;
pub mod packet;
pub mod report;
pub mod run;
pub(crate) mod words;

pub use file::TreeFile;
pub use report::PlaneReport;
pub use run::{Played, Wrong, run};
pub use traffic::tree::NodeKind;
