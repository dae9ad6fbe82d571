//! A link behind a scheduler: packets arrive at given times and leave one at a time.

use super::in_ms;
use std::collections::VecDeque;
use terms::{Bytes, Rate, Span, Time};
use traffic::scheduler::{Scheduler, SchedulerClass};

/// The rate of every link here: 1,250 bytes take 1 ms.
pub const RATE: Rate = Rate::from_mbps(10);

/// An arriving packet.
#[derive(Clone, Copy)]
pub struct Arrival {
    at: Time,
    node: SchedulerClass,
    len: u32,
}

/// A packet that was sent.
pub struct SentPacket {
    /// Its class.
    pub node: SchedulerClass,
    /// Its length, bytes.
    pub len: u32,
    /// The time at which its transmission begins.
    pub start: Time,
    /// The time at which its transmission ends.
    pub end: Time,
}

/// Returns `count` packets of `len` bytes that arrive together.
pub fn burst(node: SchedulerClass, len: u32, count: usize, at: Time) -> Vec<Arrival> {
    vec![Arrival { at, node, len }; count]
}

/// Returns `count` packets of `len` bytes, one every `gap` from 0 on.
pub fn steady(node: SchedulerClass, len: u32, count: u64, gap: Span) -> Vec<Arrival> {
    let at = |i| Time::from_nanos(gap.as_nanos() * i);
    (0..count).map(|i| Arrival { at: at(i), node, len }).collect()
}

/// Returns the packets sent by `until`. A packet that arrives when the link becomes free can be chosen.
pub fn run(mut scheduler: impl Scheduler, sources: &[Vec<Arrival>], until: Time) -> Vec<SentPacket> {
    let mut arrivals = sources.concat();
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut arrivals = arrivals.into_iter().peekable();
    let classes = sources.iter().flatten().map(|a| a.node.0 as usize + 1).max().unwrap_or(0);
    let mut queues = vec![VecDeque::new(); classes];
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    while now < until {
        while let Some(Arrival { at, node, len }) = arrivals.next_if(|arrival| arrival.at <= now) {
            let queue = &mut queues[node.0 as usize];
            queue.push_back(len);
            if queue.len() == 1 {
                scheduler.backlogged(at, node, len);
            }
        }
        let Some(node) = scheduler.choose(now) else {
            match arrivals.peek().map(|arrival| arrival.at).into_iter().chain(scheduler.wake_at()).min() {
                Some(next) => now = next,
                None => break,
            }
            continue;
        };
        let queue = &mut queues[node.0 as usize];
        let len = queue.pop_front().expect("a scheduler chooses only among those that hold packets");
        scheduler.served(now, node, len, queue.front().copied());
        let end = now + RATE.span_for(Bytes::new(u64::from(len)));
        out.push(SentPacket { node, len, start: now, end });
        now = end;
    }
    out
}

/// Returns a class's kilobytes sent by `until`, against ms. During transmission a packet counts
/// proportionally.
pub fn service(sent: &[SentPacket], node: SchedulerClass, until: Time) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, 0.0)];
    let mut total = 0.0;
    for departure in sent.iter().filter(|departure| departure.node == node) {
        let start = (in_ms(departure.start), total);
        if points.last() != Some(&start) {
            points.push(start);
        }
        let end = departure.end.min(until);
        let gone = in_ms(end) - in_ms(departure.start);
        total += f64::from(departure.len) / 1e3 * gone / (in_ms(departure.end) - in_ms(departure.start));
        points.push((in_ms(end), total));
    }
    let last = (in_ms(until), total);
    if points.last() != Some(&last) {
        points.push(last);
    }
    points
}
