//! The real-time criterion: eligible times and deadlines of leaves (section IV of the paper).

use super::curve::Curve;
use super::{Criterion, Hfsc, Place, RealTime, instant, nanos};
use crate::scheduler::SchedulerClass;
use crate::work::{self, Work};
use terms::{ServiceCurve, Time};

impl Hfsc {
    /// Starts a backlogged period of the leaf: its deadline curve is the minimum of the old one and a fresh one.
    pub(super) fn begin_real_time(&mut self, now: Time, at: u32) {
        let class = &mut self.classes[at as usize];
        let Some(spec) = class.curves.real_time else { return };
        let done = class.real.done;
        let curve = class.real.deadline_curve.get_or_insert_with(|| Curve::start(&spec, nanos(now), done));
        curve.begin_period(&spec, nanos(now), done);
        class.real.schedule(true);
        self.enter_real_time(at);
    }

    /// The eligible leaf with the least deadline.
    pub(super) fn choose_due(&mut self, now: Time) -> Option<SchedulerClass> {
        while let Some((when, at)) = self.early.first() {
            if when > now.as_nanos() {
                break;
            }
            self.early.remove(&mut self.real_places, at);
            let real = &mut self.classes[at as usize].real;
            real.place = Place::Ready;
            self.due.insert(&mut self.real_places, real.deadline, at);
        }
        self.due.first().map(|(_, at)| SchedulerClass(at))
    }

    /// Accounts for a packet that was sent. Only a packet sent by this criterion counts against the curve;
    /// after any packet the deadline is that of the new head.
    pub(super) fn serve_real_time(&mut self, at: u32, done: Work, next: Option<u32>) {
        let by_right = self.chosen == Criterion::RealTime;
        let real = &mut self.classes[at as usize].real;
        if by_right {
            real.done += done;
        }
        let Some(head) = next else {
            self.leave_real_time(at);
            return;
        };
        if !by_right && head == real.head {
            return;
        }
        real.head = head;
        if real.place == Place::Out {
            return;
        }
        real.schedule(by_right);
        match real.place {
            Place::Ready if real.eligible <= self.now.as_nanos() => {
                self.due.update(&mut self.real_places, real.deadline, at);
            }
            Place::Ready => {
                self.leave_real_time(at);
                self.enter_real_time(at);
            }
            Place::Waiting | Place::Out => {}
        }
    }

    /// Removes the leaf from both heaps.
    pub(super) fn leave_real_time(&mut self, at: u32) {
        let real = &mut self.classes[at as usize].real;
        match real.place {
            Place::Out => {}
            Place::Waiting => self.early.remove(&mut self.real_places, at),
            Place::Ready => self.due.remove(&mut self.real_places, at),
        }
        real.place = Place::Out;
    }

    fn enter_real_time(&mut self, at: u32) {
        let real = &mut self.classes[at as usize].real;
        real.place = Place::Waiting;
        self.early.insert(&mut self.real_places, real.eligible, at);
    }

    /// Changes, removes or adds the real-time curve.
    pub(super) fn change_real_time(&mut self, now: Time, at: u32, spec: Option<ServiceCurve>) {
        self.leave_real_time(at);
        let class = &mut self.classes[at as usize];
        class.curves.real_time = spec;
        let real = &mut class.real;
        real.deadline_curve = match (spec, real.deadline_curve) {
            (None, _) => None,
            (Some(spec), None) => Some(Curve::start(&spec, nanos(now), real.done)),
            (Some(spec), Some(old)) => {
                let owed = old.work_at(nanos(now));
                let y = if class.backlogged { owed } else { owed.min(real.done) };
                Some(old.reshaped(&spec, nanos(now), y))
            }
        };
        if class.backlogged && real.deadline_curve.is_some() {
            real.schedule(true);
            self.enter_real_time(at);
        }
    }
}

impl RealTime {
    /// Sets the eligible time (if the work done has changed) and the deadline of the packet at the head.
    fn schedule(&mut self, eligible_too: bool) {
        let Some(curve) = &mut self.deadline_curve else { return };
        if eligible_too {
            curve.approach(self.done);
            self.eligible = instant(curve.eligible_of(self.done));
        }
        self.deadline = instant(curve.time_of(self.done + work::of_bytes(self.head)));
    }
}
