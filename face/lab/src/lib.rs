//! The laboratory: the experiments of the documents that Sluice is built from, on real packets.
//!
//! [`video`] sends and judges a real video, [`flood`] is the cross traffic, [`figure`] draws what was found.
#![forbid(unsafe_code)]

pub mod error;
pub mod figure;
pub mod flood;
pub mod host;
pub mod patience;
pub mod program;
pub mod video;
