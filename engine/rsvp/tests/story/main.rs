//! Stories: engines in a small network in virtual time, one test for each thing that a person would want to be sure of.

mod hostile;
mod loss;
mod modify;
mod net;
mod refusal;
mod repair;
mod restart;
mod set_up;
mod soft_state;
mod worst_legal;
mod wrong;
