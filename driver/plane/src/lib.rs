//! A data plane in user space: frames that come in at one interface leave by another, and on their way they pass the one
//! packet path of the house ([`traffic::tree`]): every scheduler, shaper, meter and dropper on real packets.
//!
//! [`pair::FramePair`] is the loop over two interfaces: it is told the time and never waits, so it runs over sockets and over
//! memory alike. [`live::LivePair`] gives it a clock and sleep. [`way`] is one direction: a tree, then a wire with delay
//! and loss ([`link`]). [`packet`] reads a packet's fields and writes its code point, [`segment`] cuts what a sender left to
//! its device.
//!
//! [`serve::PlaneServer`] is a process of its own that runs the plan of an agent ([`port`]) on any number of pairs; [`client`]
//! is the agent's end of its socket, [`protocol`] what they say, [`delays`] how long packets stay, held against what was
//! promised, [`recognition`] looks for flows that never signalled. One thread for packets, no lock, no allocation for a packet, one copy in and one out.
#![forbid(unsafe_code)]

pub mod client;
pub mod delays;
pub mod link;
pub mod live;
pub mod packet;
pub mod pair;
mod pool;
pub mod port;
pub mod protocol;
pub mod recognition;
pub mod segment;
pub mod serve;
mod shaping;
pub mod way;
