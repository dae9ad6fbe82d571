//! Many meters at once.
//!
//! A million meters do not fit a cache, so one packet at a time waits for memory at each. A batch knows its states in
//! advance and prefetches them a few packets ahead; the result is the same as one by one, also for a repeated flow.

use super::{Color, PackedState, PackedTrTcm, Rfc4115, SrTcm, TokenCounts, TrTcm, TswState, TswTcm};
use terms::Time;

/// A packet for a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The index of the meter's state.
    pub meter: u32,
    /// The length of the IP packet, in bytes.
    pub len: u32,
}

/// A profile of two buckets.
pub trait BatchProfile {
    /// The credit of one flow.
    type State;
    /// Full buckets.
    fn start(&self, now: Time) -> Self::State;
    /// Colours one packet.
    fn meter(&self, state: &mut Self::State, now: Time, len: u32, color: Color) -> Color;
}

macro_rules! profile {
    ($($name:ty: $state:ty),*) => {$(
        impl BatchProfile for $name {
            type State = $state;
            fn start(&self, now: Time) -> $state {
                <$name>::start(self, now)
            }
            #[inline(always)]
            fn meter(&self, state: &mut $state, now: Time, len: u32, color: Color) -> Color {
                <$name>::meter(self, state, now, len, color)
            }
        }
    )*};
}
profile!(SrTcm: TokenCounts, TrTcm: TokenCounts, Rfc4115: TokenCounts, PackedTrTcm: PackedState);

/// The distance of the prefetch, in packets.
const AHEAD: usize = 32;

/// Asks the processor for a value that will be needed soon. The instruction depends on the machine, so a
/// driver supplies it (`linux::cache::prefetch`); doing nothing is correct too, only slower.
pub trait Prefetch<S> {
    /// Starts to fetch; returns at once.
    fn fetch(&self, state: &S);
}

impl<S, F: Fn(&S)> Prefetch<S> for F {
    #[inline(always)]
    fn fetch(&self, state: &S) {
        self(state);
    }
}

/// Meters `jobs` in order; `colors` holds the incoming colours ([`Color::Green`] for colour-blind metering)
/// and receives the new ones. A job without a state becomes red. The shorter of the two slices counts.
#[inline]
pub fn meter_batch<P: BatchProfile>(
    profile: &P,
    states: &mut [P::State],
    now: Time,
    jobs: &[Job],
    colors: &mut [Color],
    prefetch: &impl Prefetch<P::State>,
) {
    each(states, jobs, colors, prefetch, |state, job, color| profile.meter(state, now, job.len, color));
}

/// As [`meter_batch`], but colour-blind: the old contents of `colors` are not read.
#[inline]
pub fn blind_batch<P: BatchProfile>(
    profile: &P,
    states: &mut [P::State],
    now: Time,
    jobs: &[Job],
    colors: &mut [Color],
    prefetch: &impl Prefetch<P::State>,
) {
    each(states, jobs, colors, prefetch, |state, job, _| profile.meter(state, now, job.len, Color::Green));
}

/// As [`meter_batch`], for time sliding windows; `chance` draws a uniform `u32` at each call.
#[inline]
pub fn tsw_batch(
    profile: &TswTcm,
    states: &mut [TswState],
    now: Time,
    jobs: &[Job],
    colors: &mut [Color],
    mut chance: impl FnMut() -> u32,
    prefetch: &impl Prefetch<TswState>,
) {
    each(states, jobs, colors, prefetch, |state, job, _| profile.meter(state, now, job.len, chance()));
}

#[inline(always)]
fn each<S>(
    states: &mut [S],
    jobs: &[Job],
    colors: &mut [Color],
    prefetch: &impl Prefetch<S>,
    mut meter: impl FnMut(&mut S, &Job, Color) -> Color,
) {
    let fetch = |states: &[S], job: &Job| {
        if let Some(state) = states.get(job.meter as usize) {
            prefetch.fetch(state);
        }
    };
    jobs.iter().take(AHEAD).for_each(|job| fetch(states, job));
    let (with, without) = colors.split_at_mut(colors.len().min(jobs.len().saturating_sub(AHEAD)));
    let rest = jobs.get(with.len()..).unwrap_or(&[]);
    let mut one = |states: &mut [S], job: &Job, color: &mut Color| {
        *color = match states.get_mut(job.meter as usize) {
            Some(state) => meter(state, job, *color),
            None => Color::Red,
        };
    };
    for ((job, color), ahead) in jobs.iter().zip(with).zip(jobs.iter().skip(AHEAD)) {
        fetch(states, ahead);
        one(states, job, color);
    }
    rest.iter().zip(without).for_each(|(job, color)| one(states, job, color));
}
