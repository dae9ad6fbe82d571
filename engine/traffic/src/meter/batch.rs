//! Many meters at once.
//!
//! A million meters do not fit a cache, so one packet at a time waits for memory at each. A batch first reads a word of
//! every state it will need, which lets the processor fetch them side by side, and then meters in order; the result is the
//! same as one by one, also when a flow occurs twice.

use super::{Color, Rfc4115, SrTcm, State, TrTcm};
use terms::Time;

/// A packet to be metered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Which state.
    pub meter: u32,
    /// Bytes of IP packet.
    pub len: u32,
    /// The colour it came with; [`Color::Green`] for colour-blind metering.
    pub color: Color,
}

/// A profile of two buckets.
pub trait Profile {
    /// Full buckets.
    fn start(&self, now: Time) -> State;
    /// Colours one packet.
    fn meter(&self, state: &mut State, now: Time, len: u32, color: Color) -> Color;
}

macro_rules! profile {
    ($($name:ty),*) => {$(
        impl Profile for $name {
            fn start(&self, now: Time) -> State {
                <$name>::start(self, now)
            }
            #[inline(always)]
            fn meter(&self, state: &mut State, now: Time, len: u32, color: Color) -> Color {
                <$name>::meter(self, state, now, len, color)
            }
        }
    )*};
}
profile!(SrTcm, TrTcm, Rfc4115);

/// How many states are fetched side by side: about as many misses as a core keeps in flight.
const AHEAD: usize = 16;

/// Replaces each job's colour by the meter's. A job whose state does not exist becomes red.
pub fn meter_batch<P: Profile>(profile: &P, states: &mut [State], now: Time, jobs: &mut [Job]) {
    for group in jobs.chunks_mut(AHEAD) {
        let mut touched = 0;
        for job in group.iter() {
            touched ^= states.get(job.meter as usize).map_or(0, |state| state.first);
        }
        // The reads above are wanted for their effect on the cache alone.
        core::hint::black_box(touched);
        for job in group {
            job.color = match states.get_mut(job.meter as usize) {
                Some(state) => profile.meter(state, now, job.len, job.color),
                None => Color::Red,
            };
        }
    }
}
