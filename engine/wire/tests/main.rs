//! The codecs of RSVP and of Boomerang, and that reading allocates nothing.

mod boomerang;
mod codec;
mod no_allocation;
