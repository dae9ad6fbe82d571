//! The broker over stub agents: what it answers, what it refuses, what it survives.

mod bad;
mod bed;
mod domains;
mod events;
mod halves;
mod hooks;
mod hooks_tls;
mod kills;
mod life;
mod lists;
mod path;
mod promised;
mod python;
mod shared;
mod stub;
mod tls;
mod web;
