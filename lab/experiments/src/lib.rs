//! The laboratory: experiments from the documents behind Sluice, on real packets.
//!
//! [`demo`] runs the video against the flood on a testbed ([`bed`]). It uses [`video`], which sends and judges a real
//! video, and [`reserve`], the two applications that reserve. [`setup`] measures set-up times, [`trial`] kills agents and lets senders cheat; [`experiment`]s run on the
//! simulator and compare with published results; [`gara`] books premium flows on real packets, [`guaranteed`] holds
//! every packet against its bound, [`agree`] plays one script to three planes, [`web`] fetches from a web server under a
//! flood, [`mace`] sends flows that never signalled, [`fft`] computes on three nodes; [`pictures`] draws the pages of the algorithms; [`plane`] runs a queue tree on a [`capture`].
#![forbid(unsafe_code)]

pub mod agree;
pub mod anomalies;
pub mod capture;
pub mod crash;
pub mod demo;
pub mod experiment;
pub mod fft;
pub mod gara;
pub mod guaranteed;
pub mod load;
mod looping;
pub mod mace;
pub mod pictures;
pub mod plane;
pub mod reserve;
pub mod rfc2963;
pub mod scenario;
pub mod setup;
pub mod torture;
pub mod transactions;
pub mod trial;
pub mod video;
pub mod web;
