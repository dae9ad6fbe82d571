//! The RSVP engine of RFC 2205, by the processing rules of RFC 2209: told and says, never acts.
//!
//! The driver tells it what came ([`io::Input`]), drains what it says ([`io::Output`]), and comes back at
//! [`Rsvp::wake_at`]. It asks two ports at once, from memory: the way out and traffic control ([`terms::ports`]).
//!
//! | file | RFC 2209 procedure or RFC 2205 message |
//! |---|---|
//! | `receive` | message arrives: RFC 2209 section 2, the checks before any procedure |
//! | `heard` | a refresh that is byte for byte what was heard last |
//! | `overload` | what waits for the engine when it cannot keep up, and what is shed |
//! | `path` `path_tear` `path_err` | Path, PathTear, PathErr arrives |
//! | `resv` `resv_tear` `resv_err` `resv_conf` | Resv, ResvTear, ResvErr, ResvConf arrives |
//! | `update_traffic_control` `installed` | UPDATE TRAFFIC CONTROL, and what its outcome sets off |
//! | `path_refresh` `resv_refresh` | PATH REFRESH, RESV REFRESH |
//! | `sender` `receiver` | the upcalls of RFC 2205 section 3.11.1 |
//! | `repair` | route and interface changes: local repair, RFC 2205 section 3.6 |
//! | `wake` `lifetime` | soft state: RFC 2205 section 3.7 |
//! | `session` `psb` `rsb` `tcsb` | state blocks |
//! | `integrity` | who said it: RFC 2747, before anything else looks at a message |
//! | `neighbour` | what neighbours say to each other: refresh reduction (RFC 2961), Hello (RFC 3209 section 5) |
//! | `table` `timers` `pcg` | where blocks lie, when they are due, chance |
//!
//! **Scope.** Unicast sessions, fixed filter, controlled load and guaranteed service, IPv4 and IPv6. Rooms kept for
//! what comes next: SE and WF widen the filter in [`rsb`] and [`tcsb`] keys and add a merge in `resv_refresh`; the
//! blockade state (`bsb`) hangs on the path state, where `resv_err` has its place for it; multicast adds the incoming
//! interface to the path state's key and a list to [`psb::Out`]; refresh reduction (RFC 2961) sits between `receive`
//! and the procedures.
//!
//! **Order of a reservation.** A Resv is admitted by traffic control at once, installed by the plane, and goes on
//! upstream only when the plane has read it back: a ResvConf means that every hop carries the flow.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bsb;
pub mod counters;
mod engine;
mod few;
mod heard;
mod installed;
pub mod integrity;
pub mod io;
pub mod lifetime;
mod matching;
mod neighbour;
pub mod overload;
mod path;
mod path_err;
mod path_multicast;
mod path_refresh;
mod path_tear;
mod pcg;
mod psb;
mod receive;
mod receiver;
mod refusal;
mod repair;
mod resv;
mod resv_conf;
mod resv_err;
mod resv_refresh;
mod resv_refresh_shared;
mod resv_shared;
mod resv_tear;
mod rsb;
mod sender;
mod session;
mod table;
mod tcsb;
mod timers;
mod update_traffic_control;
pub mod views;
mod wake;

pub use engine::Rsvp;
pub use psb::{Origin, Out, Phop};
pub use rsb::NextHop;
