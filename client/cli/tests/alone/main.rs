//! What measures, as a user runs it. It is a program of its own, because it wants the machine for itself: cargo runs one program at
//! a time.

mod fft;
mod gara;
mod lab;
mod mace;
mod onlooker;
#[path = "../place.rs"]
mod place;
mod plane_serve;
mod profile;
mod ras;
mod web;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The machine, for the test that holds this.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
