//! The rate adaptive shapers of RFC 2963: srRAS, trRAS and their green forms.
//!
//! A shaper is a tail-drop FIFO that is emptied at `max(EAR(t), F(occupancy))`: the average rate of arrivals, or a
//! rate that grows with the queue ([`RateCurve`], figures 2 and 3 of the RFC), whichever is more. The green forms
//! also ask the next meter when it would colour the head packet green, and release then if that is earlier; asking
//! takes no tokens.
//!
//! Points that the RFC leaves open are decided here: packets are spaced by the length of the next packet over the
//! shaping rate since the last release; the shaping rate is computed when a packet becomes the head and again at each
//! arrival while it waits.

mod curve;
mod estimator;
mod exp;
mod ras;

pub use curve::{BadShaper, RateCurve};
pub use estimator::{Exponential, RateEstimator};
pub use ras::{Greener, NeverGreen, Ras};
