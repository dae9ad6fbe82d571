//! Stories: engines in a small network in virtual time, one test for each thing that a person would want to be sure of.

mod net;
mod set_up;
