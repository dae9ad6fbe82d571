//! The experiments of seed 002 (GARA, section 5) on real packets: a premium channel of 45 Mb/s in a network
//! of 100 Mb/s, an edge that polices and marks, a core that knows code points, and applications that book
//! through the agent's socket.
//!
//! [`fig4`] is its Figure 4, [`fig5`] its Figure 5, [`fig6`] its Figure 6, [`deadline`] the transfer by a deadline
//! of its section 2.1, [`sla`] the agreement between two domains of its section 4.2; [`garnet`] is the testbed with its programs, [`meter`] measures the premium interface,
//! [`booking`] is the applications' access to the bookings.

pub mod booking;
pub mod deadline;
mod digest;
pub mod fig4;
pub mod fig5;
pub mod fig6;
mod foreground;
pub mod garnet;
pub mod meter;
pub mod sla;
mod tcp_flow;
pub mod timeline;
