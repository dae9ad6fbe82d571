//! A real video over RTP: sent by one ffmpeg, decoded by another, counted on the wire and on the screen.
//!
//! Three counts are kept apart:
//! - **loss**: gaps in the RTP sequence at the receiver's interface ([`rtp`], [`tap`]), not in the application;
//! - **frames**: pictures that the receiving decoder shows *whole*: pixel for pixel what a decoder shows that was never
//!   disturbed, told by a 128-bit fingerprint of the decoded picture. This needs no reading of a decoder's complaints;
//! - **damaged frames**: pictures of the time that were not shown whole: spoilt ones (the decoder concealed a loss, or
//!   built on a picture that it had concealed) and ones that it never showed.

pub mod bucket;
pub mod rtp;
pub mod show;
pub mod source;
pub mod stream;
pub mod tap;
