//! The RSVP engine of RFC 2205, by the processing rules of RFC 2209: told and says, never acts.
//!
//! The driver gives it inputs ([`io::Input`]), drains its outputs ([`io::Output`]), and comes back at
//! [`Rsvp::wake_at`]. It calls two ports synchronously: the route and traffic control ([`terms::ports`]).
//!
//! | file | RFC 2209 procedure or RFC 2205 message |
//! |---|---|
//! | `engine` | the three entry points |
//! | `receive` | message arrives: RFC 2209 section 2, the checks before any procedure |
//! | `overload` | the queue in front of the engine, and load shedding |
//! | `path` `path_tear` `path_err` | Path, PathTear, PathErr arrives |
//! | `resv` `resv_tear` `resv_err` `resv_conf` | Resv, ResvTear, ResvErr, ResvConf arrives |
//! | `refuse` `refusal` | our own PathErr and ResvErr |
//! | `path_life` | a path state is made, changed, rerouted, remembered, ended |
//! | `update_traffic_control` `installed` | UPDATE TRAFFIC CONTROL, and the procedures after its outcome |
//! | `path_refresh` `resv_refresh` | PATH REFRESH, RESV REFRESH |
//! | `sender` `receiver` | the upcalls of RFC 2205 section 3.11.1 |
//! | `repair` | route and interface changes: local repair, RFC 2205 section 3.6 |
//! | `wake` `lifetime` | soft state: RFC 2205 section 3.7 |
//!
//! The procedures borrow parts, each of which keeps its own invariant:
//!
//! | file | part |
//! |---|---|
//! | `state` `index` | state blocks, their tables, indexes and alarms |
//! | `signalling` | messages between this node, its neighbours and its applications, by way of: |
//! | `neighbour` | refresh reduction (RFC 2961), Hello (RFC 3209 section 5) |
//! | `transport` `integrity` | messages in and out, signed: RFC 2747, before any other check of a message |
//! | `links` `outbox` `set_up` `catch_up` `applications` | interfaces; outputs; limits; refreshes owed; standings |
//!
//! **Scope.** Unicast and multicast sessions, all three styles, controlled load and guaranteed service, IPv4 and IPv6,
//! protocols without ports and generalised port identifiers (RFC 2207), pre-emption priorities (RFC 3181, merged by "take
//! the highest"), sender and receiver proxies. Not there: tunnels (RFC 2746), aggregation (RFC 3175), senders by IPv6 flow
//! label, shared multicast trees as a reason to leave SCOPE out (it is harmless there).
//!
//! **What the RFCs leave open**, and what is done here:
//! - *Strictly greater* (RFC 2205 section 3.5) is the greater rate, if its flowspec serves the other: see
//!   `bsb`.
//! - A wildcard request that came with a SCOPE goes on with one, even to a single previous hop (section 3.4
//!   allows to leave it out there): a sender that a scope excluded stays excluded.
//! - In the shared styles the request to a previous hop is the largest request for any of its senders (RFC
//!   2209 section 2.10), so that a sender may have more reserved than was asked for it. On a topology with
//!   cycles, shared requests for different senders can hold one another at a size that no receiver asks for
//!   any more, as long as they last.
//! - A multicast sender on a router sends along the branches of its tree and by the interface that has its address.
//! - A local receiver's request goes to the interface that packets come in by; the application does not
//!   choose one (section 3.9).
//!
//! **Order of a reservation.** A Resv is admitted by traffic control at once, installed by the plane, and goes on
//! upstream only when the plane has read it back: a ResvConf means that every hop carries the flow.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod applications;
mod arrival;
mod catch_up;
pub mod counters;
mod engine;
mod index;
mod installed;
pub mod integrity;
pub mod io;
pub mod lifetime;
mod links;
mod neighbour;
mod outbox;
pub mod overload;
mod passed_on;
mod path;
mod path_err;
mod path_life;
mod path_refresh;
mod path_tear;
mod procedure;
mod receive;
mod receiver;
mod refusal;
mod refuse;
mod repair;
mod resv;
mod resv_conf;
mod resv_err;
mod resv_refresh;
mod resv_tear;
mod sender;
mod set_up;
mod short_list;
mod signalling;
mod state;
mod transport;
mod update_traffic_control;
pub mod views;
mod wake;

pub use engine::Rsvp;
pub use state::psb::{Origin, OutgoingInterfaces, Phop};
pub use state::rsb::NextHop;
