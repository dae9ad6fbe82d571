//! How long packets stay in each class, held against what the interface exports (RFC 2212).
//!
//! A class with a guaranteed rate `R` is watched as a server of that rate: packet `k` that came at `a` would have gone at
//! `F(k) = max(a, F(k-1)) + L/R`. The interface exports error terms `C` and `D`: no packet goes later than `F + C/R + D`.
//! Every packet is held against that, whatever made it late: the scheduler, the thread, or the machine.

use terms::{Bytes, Rate, Span, Time};
use traffic::plan::{ClassId, ClassSpec};

/// The error terms that an interface exports (RFC 2212 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorTerms {
    /// `C`, bytes.
    pub c: u32,
    /// `D`, microseconds.
    pub d: u32,
}

/// Delays in one leaf, from a packet's coming in to its leaving the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafDelay {
    /// Packets.
    pub packets: u64,
    /// Their delays together, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub most_ns: u64,
}

impl LeafDelay {
    /// One more packet.
    pub(crate) fn add(&mut self, waited: Span) {
        self.packets += 1;
        self.sum_ns = self.sum_ns.saturating_add(waited.as_nanos());
        self.most_ns = self.most_ns.max(waited.as_nanos());
    }
}

/// The delays of a class, and how late its packets were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassDelay {
    /// Delays from coming in to leaving the queue.
    pub delay: LeafDelay,
    /// The longest time after `F` of a packet, ns.
    pub late_ns: u64,
    /// `C/R + D`, ns: the most that was promised; 0: nothing is promised.
    pub bound_ns: u64,
    /// Packets that went later than promised.
    pub beyond: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    seen: ClassDelay,
    rate: Rate,
    finish: Time,
}

/// The delays of all classes of an interface.
#[derive(Debug)]
pub(crate) struct DelayWatch {
    terms: Option<ErrorTerms>,
    classes: Vec<Option<Watched>>,
    /// By buffer: `F` of the packet in it.
    due: Box<[Time]>,
    /// Packets that went later than promised, in all classes that ever were.
    beyond: u64,
}

impl DelayWatch {
    pub(crate) fn new(terms: Option<ErrorTerms>, buffers: usize) -> DelayWatch {
        DelayWatch { terms, classes: Vec::new(), due: vec![Time::FOREVER; buffers].into_boxed_slice(), beyond: 0 }
    }

    /// A class is there, or has changed.
    pub(crate) fn set(&mut self, now: Time, class: ClassId, spec: &ClassSpec) {
        let at = usize::from(class.0);
        if self.classes.len() <= at {
            self.classes.resize(at + 1, None);
        }
        let rate = spec.real_time.map_or(Rate::ZERO, |curve| if curve.is_linear() { curve.m2 } else { Rate::ZERO });
        let own = class >= ClassId::FIRST_OWN;
        let terms = self.terms.filter(|_| own && rate > Rate::ZERO);
        let bound = |terms: ErrorTerms| {
            rate.span_for(Bytes::new(u64::from(terms.c))).saturating_add(Span::from_micros(u64::from(terms.d)))
        };
        let watched = self.classes[at].get_or_insert(Watched { seen: ClassDelay::default(), rate, finish: now });
        watched.rate = rate;
        watched.seen.bound_ns = terms.map_or(0, |terms| bound(terms).as_nanos());
    }

    /// A class is gone.
    pub(crate) fn remove(&mut self, class: ClassId) {
        if let Some(slot) = self.classes.get_mut(usize::from(class.0)) {
            *slot = None;
        }
    }

    /// All classes are gone.
    pub(crate) fn clear(&mut self) {
        self.classes.clear();
    }

    /// A packet of so many bytes on the wire waits in a class, in this buffer.
    pub(crate) fn came(&mut self, now: Time, class: ClassId, buffer: u32, wire: u32) {
        let due = match self.classes.get_mut(usize::from(class.0)) {
            Some(Some(watched)) if watched.seen.bound_ns > 0 => {
                watched.finish = watched.finish.max(now) + watched.rate.span_for(Bytes::new(u64::from(wire)));
                watched.finish
            }
            _ => Time::FOREVER,
        };
        if let Some(slot) = self.due.get_mut(buffer as usize) {
            *slot = due;
        }
    }

    /// A packet that came at `arrival` has left its class.
    pub(crate) fn left(&mut self, now: Time, class: ClassId, buffer: u32, arrival: Time) {
        let Some(Some(watched)) = self.classes.get_mut(usize::from(class.0)) else { return };
        let seen = &mut watched.seen;
        seen.delay.add(now.since(arrival));
        let due = self.due.get(buffer as usize).copied().unwrap_or(Time::FOREVER);
        if seen.bound_ns > 0 && due != Time::FOREVER {
            let late = now.since(due).as_nanos();
            seen.late_ns = seen.late_ns.max(late);
            let beyond = u64::from(late > seen.bound_ns);
            seen.beyond += beyond;
            self.beyond += beyond;
        }
    }

    /// Packets that went later than promised, in all classes that ever were.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Every class with its delays.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClassId, ClassDelay)> {
        let there = |(at, slot): (usize, &Option<Watched>)| Some((ClassId(at as u16), slot.as_ref()?.seen));
        self.classes.iter().enumerate().filter_map(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::ServiceCurve;
    use traffic::plan::QueueSpec;

    #[test]
    fn a_late_packet_is_counted_and_one_in_time_is_not() {
        let class = ClassId::FIRST_OWN;
        let rate = Rate::from_mbps(8);
        let spec = ClassSpec {
            real_time: Some(ServiceCurve::linear(rate)),
            link_share: rate,
            upper_limit: None,
            priority: 1,
            queue: QueueSpec { packets: 10, bytes: Bytes::MAX },
        };
        let mut watch = DelayWatch::new(Some(ErrorTerms { c: 1_000, d: 5_000 }), 4);
        let at = |us: u64| Time::from_nanos(us * 1_000);
        watch.set(at(0), class, &spec);
        // 1,000 bytes at 8 Mb/s are 1 ms: F is 1 and 2 ms, the bound 1 + 5 ms after it.
        watch.came(at(0), class, 0, 1_000);
        watch.came(at(0), class, 1, 1_000);
        watch.left(at(7_000), class, 0, at(0));
        watch.left(at(8_001), class, 1, at(0));
        let (_, seen) = watch.iter().next().unwrap();
        assert_eq!((seen.bound_ns, seen.late_ns, seen.beyond), (6_000_000, 6_001_000, 1));
        assert_eq!((seen.delay.packets, seen.delay.most_ns), (2, 8_001_000));
        watch.remove(class);
        assert_eq!((watch.iter().count(), watch.beyond()), (0, 1), "the class is gone, what happened is not");
    }
}
