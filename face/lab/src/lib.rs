//! The laboratory: the experiments of the documents that Sluice is built from, on real packets.
//!
//! [`figure`] draws what they find.
#![forbid(unsafe_code)]

pub mod figure;
