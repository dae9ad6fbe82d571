//! HFSC, the hierarchical fair service curve scheduler of Stoica, Zhang and Ng (SIGCOMM 1997).
//!
//! Two criteria. **Real time**: a leaf with a real-time curve has an eligible time and a deadline for its next packet;
//! if any leaf is eligible, the one with the least deadline sends. So every leaf gets its curve, to within one packet
//! of the largest size, whenever the curves sum to at most the link's rate. **Link sharing**: otherwise bandwidth
//! goes down the tree, at each class to the active child with the least virtual time, so that what is left is shared
//! in proportion to the link-sharing curves. Service by the second criterion does not count against the first: a
//! class is not punished for having used idle bandwidth. The **upper-limit** curve (not in the paper) keeps a class
//! out of link sharing until its fit time; here it holds in *every* window, so unused allowance is lost.
//!
//! Arithmetic: service is exact ([`crate::work`]); curves are exact ([`curve`]); eligible times, deadlines, virtual
//! and fit times are rounded **up** to a whole ns from the exact curve each time, so that errors stay below 1 ns and
//! never add up. Virtual time is 128 bits wide, so it neither wraps nor needs periods.
//!
//! Cost: O(log n) per level. Eligible classes lie in a heap by deadline, the others in one by eligible time; the
//! children of each class likewise, by virtual time and by fit time, and in a third heap that knows the largest
//! virtual time. Nothing allocates but [`Hfsc::add`].

pub mod curve;
mod link_share;
mod real_time;

use self::curve::Curve;
use super::heap::{ABSENT, Heap};
use super::{Misplaced, Scheduler, SchedulerClass};
use crate::work::{self, Work};
use alloc::vec::Vec;
use core::cmp::Reverse;
use terms::{ServiceCurve, Time};

/// Levels of classes below the root.
pub const MAX_DEPTH: u32 = 16;

/// The three curves of a class, on the wire. A curve of rate zero counts as none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Curves {
    /// The guarantee of a leaf, independent of its parents. Ignored while the class has children.
    pub real_time: Option<ServiceCurve>,
    /// Its share of its parent's bandwidth, in proportion to its siblings'. Without it, the class gets only real-time
    /// service.
    pub link_share: Option<ServiceCurve>,
    /// The limit for link sharing. Real-time service is counted but not limited. A convex curve counts as a
    /// line of its first slope, because only that holds in every window.
    pub upper_limit: Option<ServiceCurve>,
}

/// The criterion that chose a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Criterion {
    /// It was eligible, and its deadline was the least.
    RealTime,
    /// Its virtual time, and its ancestors', were the least.
    LinkShare,
}

/// The state of a class, for tables, tests and people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassState {
    /// The eligible time and the deadline of the packet at the head.
    pub real_time: Option<(Time, Time)>,
    /// The virtual time, if the class takes part in link sharing now.
    pub virtual_time: Option<u128>,
    /// The time until which its upper limit, or those of all its children, exclude it; in the past: not excluded.
    pub fit: Time,
    /// The work received, by both criteria.
    pub total: Work,
    /// The work received by the real-time criterion.
    pub guaranteed: Work,
}

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Hfsc {
    classes: Vec<Class>,
    /// The same classes as parents.
    below: Vec<Children>,
    free: Vec<u32>,
    /// Leaves that are not eligible yet, by eligible time.
    early: Heap<u64>,
    /// Eligible leaves, by deadline.
    due: Heap<u64>,
    /// Places in `early` or `due`.
    real_places: Vec<u32>,
    /// Places in the parent's `fit` or `held`.
    share_places: Vec<u32>,
    /// Places in the parent's `highest`.
    highest_places: Vec<u32>,
    chosen: Criterion,
    now: Time,
}

#[derive(Clone, Debug)]
struct Class {
    known: bool,
    parent: u32,
    depth: u32,
    children: u32,
    curves: Curves,
    /// True if its queue has packets.
    backlogged: bool,
    real: RealTime,
    share: LinkShare,
}

/// The real-time side of a leaf.
#[derive(Clone, Debug)]
struct RealTime {
    deadline_curve: Option<Curve>,
    /// The work received by this criterion.
    done: Work,
    eligible: u64,
    deadline: u64,
    head: u32,
    place: Place,
}

/// The link-sharing side of a class.
#[derive(Clone, Debug)]
struct LinkShare {
    virtual_curve: Option<Curve>,
    limit_curve: Option<Curve>,
    /// The whole work received.
    total: Work,
    virtual_time: u128,
    /// The amount by which the virtual time was moved ahead while the class did not fit.
    skipped: u128,
    /// The fit time of its own limit, and that of the class with its children.
    own_fit: u64,
    fit: u64,
    place: Place,
}

/// A class as parent: its active children.
#[derive(Clone, Debug, Default)]
struct Children {
    fit: Heap<u128>,
    held: Heap<u64>,
    highest: Heap<Reverse<u128>>,
    /// The virtual time of the last chosen child, and the largest of a child that went idle.
    low: u128,
    high: u128,
}

/// The heap of a pair that holds a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Out,
    /// `early`, or `held`.
    Waiting,
    /// `due`, or `fit`.
    Ready,
}

const ROOT: u32 = 0;

impl Default for Hfsc {
    fn default() -> Self {
        Hfsc::new()
    }
}

impl Hfsc {
    /// A scheduler with no classes but the root.
    pub fn new() -> Hfsc {
        Hfsc {
            classes: alloc::vec![Class::new(ROOT, 0, Curves::default(), Time::ZERO)],
            below: alloc::vec![Children::default()],
            free: Vec::new(),
            early: Heap::default(),
            due: Heap::default(),
            real_places: alloc::vec![ABSENT],
            share_places: alloc::vec![ABSENT],
            highest_places: alloc::vec![ABSENT],
            chosen: Criterion::LinkShare,
            now: Time::ZERO,
        }
    }

    /// Adds a class below `parent`.
    ///
    /// # Errors
    /// [`Misplaced`]; the scheduler is unchanged.
    pub fn add(&mut self, now: Time, parent: SchedulerClass, curves: Curves) -> Result<SchedulerClass, Misplaced> {
        let above = self.known(parent)?;
        if above.backlogged {
            return Err(Misplaced::Backlogged(parent));
        }
        if parent != SchedulerClass::ROOT && above.curves.link_share.is_none() {
            return Err(Misplaced::NoLinkShare(parent));
        }
        if above.depth >= MAX_DEPTH {
            return Err(Misplaced::TooDeep(MAX_DEPTH));
        }
        let class = Class::new(parent.0, above.depth + 1, curves.normal(), now);
        let at = match self.free.pop() {
            Some(at) => {
                self.classes[at as usize] = class;
                self.below[at as usize] = Children::default();
                at
            }
            None => {
                self.classes.push(class);
                self.below.push(Children::default());
                for places in [&mut self.real_places, &mut self.share_places, &mut self.highest_places] {
                    places.push(ABSENT);
                }
                self.classes.len() as u32 - 1
            }
        };
        self.early.reserve(self.classes.len());
        self.due.reserve(self.classes.len());
        let above = &mut self.classes[parent.index()];
        above.children += 1;
        let siblings = above.children as usize;
        let below = &mut self.below[parent.index()];
        below.fit.reserve(siblings);
        below.held.reserve(siblings);
        below.highest.reserve(siblings);
        Ok(SchedulerClass(at))
    }

    /// Changes a class's curves in place, also while it sends. Its lead or lag against the old curves, in
    /// work, carries over to the new ones; the change itself gives it neither a new burst nor a new delay.
    ///
    /// # Errors
    /// [`Misplaced`]; the scheduler is unchanged.
    pub fn change(&mut self, now: Time, node: SchedulerClass, curves: Curves) -> Result<(), Misplaced> {
        let curves = curves.normal();
        let class = self.known(node)?;
        if node == SchedulerClass::ROOT {
            return Err(Misplaced::Unknown(node));
        }
        if class.children > 0 && curves.link_share.is_none() {
            return Err(Misplaced::NoLinkShare(node));
        }
        let old = class.curves;
        if old.real_time != curves.real_time {
            self.change_real_time(now, node.0, curves.real_time);
        }
        if old.link_share != curves.link_share {
            self.change_link_share(now, node.0, curves.link_share);
        }
        if old.upper_limit != curves.upper_limit {
            self.change_upper_limit(now, node.0, curves.upper_limit);
        }
        Ok(())
    }

    /// Forgets a class. Its queue must have been purged.
    ///
    /// # Errors
    /// [`Misplaced`]; the scheduler is unchanged.
    pub fn remove(&mut self, node: SchedulerClass) -> Result<(), Misplaced> {
        let class = self.known(node)?;
        if node == SchedulerClass::ROOT {
            return Err(Misplaced::Unknown(node));
        }
        if class.children > 0 {
            return Err(Misplaced::HasChildren(node));
        }
        if class.backlogged {
            return Err(Misplaced::Backlogged(node));
        }
        let parent = class.parent;
        self.classes[node.index()].known = false;
        self.classes[parent as usize].children -= 1;
        self.free.push(node.0);
        Ok(())
    }

    /// The criterion of the last choice.
    pub fn criterion(&self) -> Criterion {
        self.chosen
    }

    /// The state of a class.
    pub fn state(&self, node: SchedulerClass) -> Option<ClassState> {
        let class = self.known(node).ok()?;
        let real = &class.real;
        Some(ClassState {
            real_time: (real.place != Place::Out)
                .then(|| (Time::from_nanos(real.eligible), Time::from_nanos(real.deadline))),
            virtual_time: (class.share.place != Place::Out).then_some(class.share.virtual_time),
            fit: Time::from_nanos(class.share.fit),
            total: class.share.total,
            guaranteed: real.done,
        })
    }

    fn known(&self, node: SchedulerClass) -> Result<&Class, Misplaced> {
        self.classes.get(node.index()).filter(|c| c.known).ok_or(Misplaced::Unknown(node))
    }
}

impl Curves {
    /// Curves with only a share of this rate's weight.
    pub fn share(rate: terms::Rate) -> Curves {
        Curves { link_share: Some(ServiceCurve::linear(rate)), ..Curves::default() }
    }

    fn normal(self) -> Curves {
        let some = |c: &ServiceCurve| c.m2.as_bps() > 0 || (c.m1.as_bps() > 0 && !c.is_linear());
        Curves {
            real_time: self.real_time.filter(some),
            link_share: self.link_share.filter(some),
            upper_limit: self
                .upper_limit
                .map(|c| if c.m1 < c.m2 && !c.is_linear() { ServiceCurve::linear(c.m1) } else { c }),
        }
    }
}

impl Class {
    fn new(parent: u32, depth: u32, curves: Curves, now: Time) -> Class {
        let now = nanos(now);
        Class {
            known: true,
            parent,
            depth,
            children: 0,
            curves,
            backlogged: false,
            real: RealTime {
                deadline_curve: curves.real_time.map(|c| Curve::start(&c, now, 0)),
                done: 0,
                eligible: 0,
                deadline: 0,
                head: 0,
                place: Place::Out,
            },
            share: LinkShare {
                virtual_curve: curves.link_share.map(|c| Curve::start(&c, 0, 0)),
                limit_curve: curves.upper_limit.map(|c| Curve::start(&c, now, 0)),
                total: 0,
                virtual_time: 0,
                skipped: 0,
                own_fit: 0,
                fit: 0,
                place: Place::Out,
            },
        }
    }
}

impl Scheduler for Hfsc {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32) {
        self.now = now;
        let class = &mut self.classes[leaf.index()];
        debug_assert!(class.known && !class.backlogged && class.children == 0);
        class.backlogged = true;
        class.real.head = head;
        self.begin_real_time(now, leaf.0);
        self.begin_sharing(now, leaf.0);
    }

    fn choose(&mut self, now: Time) -> Option<SchedulerClass> {
        self.now = now;
        if let Some(leaf) = self.choose_due(now) {
            self.chosen = Criterion::RealTime;
            return Some(leaf);
        }
        self.chosen = Criterion::LinkShare;
        self.choose_share(now)
    }

    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        let done = work::of_bytes(len);
        self.classes[leaf.index()].backlogged = next.is_some();
        self.serve_real_time(leaf.0, done, next);
        self.serve_sharing(now, leaf.0, done, next.is_none());
    }

    fn purged(&mut self, now: Time, leaf: SchedulerClass) {
        let class = &mut self.classes[leaf.index()];
        if class.backlogged {
            class.backlogged = false;
            self.leave_real_time(leaf.0);
            self.serve_sharing(now, leaf.0, 0, true);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let root = &self.below[ROOT as usize];
        if !self.due.is_empty() || !root.fit.is_empty() {
            return Some(self.now);
        }
        let eligible = self.early.first().map(|(when, _)| when);
        let fits = root.held.first().map(|(when, _)| when);
        eligible.into_iter().chain(fits).min().filter(|when| *when != u64::MAX).map(Time::from_nanos)
    }
}

fn nanos(time: Time) -> u128 {
    u128::from(time.as_nanos())
}

/// A curve's time as a heap's key; a time above the key's range is never.
fn instant(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}
