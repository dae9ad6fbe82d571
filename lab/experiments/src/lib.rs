//! The laboratory: experiments from the documents behind Sluice, on real packets.
//!
//! [`demo`] runs the video against the flood. It uses [`video`], which sends and judges a real video,
//! [`cbr`], the cross traffic, [`bed`], the testbed, and [`reserve`], the two applications that reserve.
//! [`setup`] measures set-up times, [`trial`] kills agents and lets senders cheat; [`experiment`]s run on the
//! simulator and compare with published results; [`gara`] books premium flows on real packets; [`figure`]
//! draws, [`pictures`] the pages of the algorithms; [`plane`] runs a queue tree on a [`capture`].
#![forbid(unsafe_code)]

pub mod anomalies;
pub mod bed;
pub mod capture;
pub mod cbr;
pub mod crash;
pub mod demo;
pub mod error;
pub mod experiment;
pub mod figure;
pub mod gara;
pub mod host;
pub mod load;
mod looping;
pub mod patience;
pub mod pictures;
pub mod plane;
pub mod profile;
pub mod program;
pub mod progress;
pub mod reserve;
pub mod rfc2963;
pub mod scenario;
pub mod scratch;
pub mod setup;
pub mod torture;
pub mod trial;
pub mod udp_echo;
pub mod video;
