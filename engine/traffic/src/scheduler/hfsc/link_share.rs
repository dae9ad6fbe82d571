//! The link-sharing criterion: virtual times down the tree (section V of the paper), and the upper limit.

use super::curve::Curve;
use super::{Class, Hfsc, Place, ROOT, instant, nanos};
use crate::scheduler::SchedulerClass;
use crate::work::Work;
use core::cmp::Reverse;
use terms::{ServiceCurve, Time};

impl Hfsc {
    /// Activates the leaf, and every ancestor that was not active.
    pub(super) fn begin_sharing(&mut self, now: Time, leaf: u32) {
        let mut at = leaf;
        while at != ROOT {
            let class = &self.classes[at as usize];
            let Some(spec) = class.curves.link_share else { return };
            let parent = class.parent;
            let start = self.start_of(at);
            let fit = self.begin_limit(now, at);
            let share = &mut self.classes[at as usize].share;
            share.virtual_time = start;
            share.skipped = 0;
            let total = share.total;
            if let Some(curve) = &mut share.virtual_curve {
                curve.begin_period(&spec, start, total);
                curve.approach(total);
            }
            share.fit = fit;
            let others = !self.below[parent as usize].is_idle();
            self.enter_sharing(now, at);
            if others {
                self.refit(now, parent);
                return;
            }
            at = parent;
        }
    }

    /// The start of a class in its parent's virtual time: between the least and the greatest of its active siblings
    /// (so that neither is far), and never before its own. The first active class starts after all earlier ones.
    fn start_of(&self, at: u32) -> u128 {
        let class = &self.classes[at as usize];
        let siblings = &self.below[class.parent as usize];
        let system = match siblings.highest.first() {
            Some((Reverse(high), _)) => {
                let low = siblings.fit.first().map_or(siblings.low, |(least, _)| least.max(siblings.low));
                u128::midpoint(low, high.max(low))
            }
            None => siblings.high,
        };
        system.max(class.share.virtual_time)
    }

    /// Starts a new period of the upper limit; returns the time at which the class fits.
    fn begin_limit(&mut self, now: Time, at: u32) -> u64 {
        let class = &mut self.classes[at as usize];
        class.share.own_fit = 0;
        if let (Some(spec), Some(curve)) = (class.curves.upper_limit, &mut class.share.limit_curve) {
            curve.begin_period(&spec, nanos(now), class.share.total);
            class.share.own_fit = instant(curve.time_of(class.share.total));
        }
        let own = class.share.own_fit;
        self.below[at as usize].fit_time().max(own)
    }

    /// The leaf that link sharing selects.
    pub(super) fn choose_share(&mut self, now: Time) -> Option<SchedulerClass> {
        let mut at = ROOT;
        loop {
            self.release_held(now, at);
            let below = &mut self.below[at as usize];
            let (virtual_time, child) = below.fit.first()?;
            below.low = below.low.max(virtual_time);
            at = child;
            if self.classes[at as usize].children == 0 {
                return Some(SchedulerClass(at));
            }
        }
    }

    /// Moves the children whose fit time has come to the competing ones.
    fn release_held(&mut self, now: Time, parent: u32) {
        loop {
            let below = &mut self.below[parent as usize];
            let Some((when, child)) = below.held.first() else { return };
            if when > now.as_nanos() {
                return;
            }
            below.held.remove(&mut self.share_places, child);
            let share = &mut self.classes[child as usize].share;
            share.place = Place::Ready;
            let virtual_time = share.virtual_time;
            self.below[parent as usize].fit.insert(&mut self.share_places, virtual_time, child);
        }
    }

    /// Accounts for `done`, which `leaf` sent (by either criterion); its queue is now `empty` or not.
    pub(super) fn serve_sharing(&mut self, now: Time, leaf: u32, done: Work, empty: bool) {
        let mut at = leaf;
        let mut goes_idle = empty;
        while at != ROOT {
            let parent = self.classes[at as usize].parent;
            self.charge(now, at, done);
            if self.classes[at as usize].share.place == Place::Out {
                // Served in real time only: nothing above goes idle with it.
                goes_idle = false;
            } else {
                goes_idle = goes_idle && self.below[at as usize].is_idle();
                if goes_idle {
                    self.leave_sharing(at);
                    let last = self.classes[at as usize].share.virtual_time;
                    let below = &mut self.below[parent as usize];
                    below.high = below.high.max(last);
                } else {
                    self.settle_sharing(now, at);
                }
            }
            at = parent;
        }
    }

    /// Counts the work in the class's curves.
    fn charge(&mut self, now: Time, at: u32, done: Work) {
        let low = self.below[class_parent(&self.classes, at)].low;
        let class = &mut self.classes[at as usize];
        let share = &mut class.share;
        if let (Some(spec), Some(curve)) = (class.curves.upper_limit, &mut share.limit_curve) {
            // What it did not use before now is lost.
            curve.begin_period(&spec, nanos(now), share.total);
            curve.approach(share.total);
            share.own_fit = instant(curve.time_of(share.total + done));
        }
        share.total += done;
        if share.place == Place::Out {
            // What it gets while it takes no part in sharing does not count against its share.
            if let Some(curve) = &mut share.virtual_curve {
                curve.lift(done);
            }
            return;
        }
        if let Some(curve) = &mut share.virtual_curve {
            curve.approach(share.total);
            share.virtual_time = curve.time_of(share.total).saturating_add(share.skipped);
        }
        if share.virtual_time < low {
            // It was passed over because it did not fit: that is its own loss.
            share.skipped += low - share.virtual_time;
            share.virtual_time = low;
        }
        share.fit = self.below[at as usize].fit_time().max(share.own_fit);
    }

    /// Adds the class to the heaps of its parent.
    fn enter_sharing(&mut self, now: Time, at: u32) {
        let share = &mut self.classes[at as usize].share;
        let fits = share.fit <= now.as_nanos();
        share.place = if fits { Place::Ready } else { Place::Waiting };
        let (virtual_time, fit) = (share.virtual_time, share.fit);
        let parent = class_parent(&self.classes, at);
        let below = &mut self.below[parent];
        if fits {
            below.fit.insert(&mut self.share_places, virtual_time, at);
        } else {
            below.held.insert(&mut self.share_places, fit, at);
        }
        below.highest.insert(&mut self.highest_places, Reverse(virtual_time), at);
    }

    /// Updates the heaps after a change of the class's virtual time, and perhaps its fit time.
    fn settle_sharing(&mut self, now: Time, at: u32) {
        let share = &self.classes[at as usize].share;
        if share.place == Place::Ready && share.fit <= now.as_nanos() {
            let virtual_time = share.virtual_time;
            let below = &mut self.below[class_parent(&self.classes, at)];
            below.fit.update(&mut self.share_places, virtual_time, at);
            below.highest.update(&mut self.highest_places, Reverse(virtual_time), at);
        } else {
            self.leave_sharing(at);
            self.enter_sharing(now, at);
        }
    }

    /// Removes the class from the heaps of its parent.
    fn leave_sharing(&mut self, at: u32) {
        let place = core::mem::replace(&mut self.classes[at as usize].share.place, Place::Out);
        let parent = class_parent(&self.classes, at);
        let below = &mut self.below[parent];
        match place {
            Place::Out => return,
            Place::Ready => below.fit.remove(&mut self.share_places, at),
            Place::Waiting => below.held.remove(&mut self.share_places, at),
        }
        below.highest.remove(&mut self.highest_places, at);
    }

    /// Updates the fit time of a class and its ancestors after a child's has changed.
    fn refit(&mut self, now: Time, from: u32) {
        let mut at = from;
        while at != ROOT {
            let class = &mut self.classes[at as usize];
            let fit = self.below[at as usize].fit_time().max(class.share.own_fit);
            if fit == class.share.fit || class.share.place == Place::Out {
                return;
            }
            class.share.fit = fit;
            self.leave_sharing(at);
            self.enter_sharing(now, at);
            at = self.classes[at as usize].parent;
        }
    }

    /// Changes, removes or adds the link-sharing curve.
    pub(super) fn change_link_share(&mut self, now: Time, at: u32, spec: Option<ServiceCurve>) {
        let class = &mut self.classes[at as usize];
        class.curves.link_share = spec;
        let share = &mut class.share;
        let was_active = share.place != Place::Out;
        match spec {
            None => {
                if was_active {
                    self.serve_sharing(now, at, 0, true);
                }
                self.classes[at as usize].share.virtual_curve = None;
            }
            Some(spec) => {
                let (at_time, total) = (share.virtual_time, share.total);
                share.virtual_curve = Some(match share.virtual_curve {
                    Some(old) => old.reshaped(&spec, at_time, total),
                    None => Curve::start(&spec, at_time, total),
                });
                share.skipped = 0;
                if class.backlogged && !was_active {
                    self.begin_sharing(now, at);
                }
            }
        }
    }

    /// Changes, removes or adds the upper limit. Unused allowance is lost.
    pub(super) fn change_upper_limit(&mut self, now: Time, at: u32, spec: Option<ServiceCurve>) {
        let class = &mut self.classes[at as usize];
        class.curves.upper_limit = spec;
        let share = &mut class.share;
        share.limit_curve = match (spec, share.limit_curve) {
            (None, _) => None,
            (Some(spec), None) => Some(Curve::start(&spec, nanos(now), share.total)),
            (Some(spec), Some(old)) => Some(old.reshaped(&spec, nanos(now), old.work_at(nanos(now)).min(share.total))),
        };
        share.own_fit = share.limit_curve.map_or(0, |curve| instant(curve.time_of(share.total)));
        self.refit(now, at);
    }
}

impl super::Children {
    /// The time at which some child fits; in the past if one fits already or there is none.
    fn fit_time(&self) -> u64 {
        match self.held.first() {
            Some((when, _)) if self.fit.is_empty() => when,
            _ => 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.highest.is_empty()
    }
}

fn class_parent(classes: &[Class], at: u32) -> usize {
    classes[at as usize].parent as usize
}
