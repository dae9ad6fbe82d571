//! RSVP engines in simulated time: stories in a small network, and nodes that get more than they can take.

mod overload;
mod story;
