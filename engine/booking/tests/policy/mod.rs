//! The policy of an agent: rules, bindings, signalled reservations and the table of rights.

mod binding;
mod layers;
mod rights;
mod rules;
mod signal;
