//! One file for each call.

mod bind;
mod cancel;
mod commit;
mod create;
mod enquire;
mod instead;
mod may;
mod modify;
mod permit;
mod show;
