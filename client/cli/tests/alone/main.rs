//! What measures, as a user runs it. It is a program of its own, because it wants the machine for itself: cargo runs one program at
//! a time.

mod gara;
mod lab;
mod profile;
