//! What the book may ask of the memory beside it: how much there is of a resource and when, and who may have it.

use crate::book::{Binding, Caller, Guarantee, ResourceId, ResourceKind};
use crate::{Misuse, Span, Time, Window};
use alloc::string::String;
use alloc::vec::Vec;

/// A slot that a [`Ledger`] counts, by a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotKey(pub u64);

/// What a resource offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its name: `net/eth1`, `cpu`, `disk/sda`, `licence/NAME`.
    pub name: String,
    /// What an amount counts.
    pub kind: ResourceKind,
    /// What a promise is worth.
    pub guarantee: Guarantee,
    /// The most that can be booked at all, at this instant.
    pub capacity: u64,
    /// What foreground and background may have together while there is a background part (GARA: 0.9 of premium);
    /// zero: takes no background parts.
    pub shared: u64,
}

/// How much of what: an amount, and the least size of its packets where that makes a difference (network).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Demand {
    /// In the unit of the resource's [`ResourceKind`].
    pub amount: u64,
    /// Bytes of IP; zero where there are none.
    pub packet: u32,
}

/// Why a ledger says no. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NoRoom {
    /// More was asked than is free at some instant of the window.
    Full {
        /// What is free at every instant of it.
        free: u64,
    },
    /// A table is full.
    Limit {
        /// Its size.
        limit: usize,
    },
    /// No such resource (any more).
    Gone,
    /// The window is over, or the amount is zero.
    Meaningless(Misuse),
}

/// More has been given away than there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Missing {
    /// From when on, the first time.
    pub first: Time,
    /// The most that is missing at any instant.
    pub worst: u64,
}

/// The slot tables of an agent's resources. All times are the agent's own clock ([`Time`]), windows are half-open.
///
/// It keeps two promises exactly: at no instant is more given away than there is, and nothing is refused that fits at
/// every instant. A booked slot is never displaced.
pub trait Ledger {
    /// The resource of this name.
    fn resource(&self, name: &str) -> Option<ResourceId>;

    /// Every resource, in order of their numbers.
    fn resources(&self) -> Vec<ResourceId>;

    /// What a resource offers; `None`: it has gone.
    fn offer(&self, resource: ResourceId) -> Option<Offer>;

    /// Books an amount over a window; what lies before `now` is cut off.
    ///
    /// # Errors
    /// [`NoRoom`].
    fn book(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom>;

    /// Counts what was promised in an earlier life, whether or not it fits today ([`Ledger::missing`] tells).
    ///
    /// # Errors
    /// [`NoRoom`], but never [`NoRoom::Full`].
    fn adopt(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom>;

    /// Gives a slot back. One that is over already, or whose resource has gone, is no mistake.
    fn release(&mut self, now: Time, resource: ResourceId, slot: SlotKey);

    /// What could be booked over the whole of a window, for packets of this least size.
    fn free(&self, resource: ResourceId, window: Window, packet: u32) -> u64;

    /// What nobody has at this instant, for packets of this least size: less than [`Ledger::free`] where a booking would
    /// displace somebody.
    fn spare(&self, now: Time, resource: ResourceId, packet: u32) -> u64 {
        let instant = Window::new(now, now.saturating_add(Span::from_nanos(1)));
        instant.map_or(0, |instant| self.free(resource, instant, packet))
    }

    /// Gives background as one slot what it divides, from now on for as long as nobody has booked it, and at most until
    /// `by`. `None`: nothing is promised to background here, so it is counted nowhere; or it does not fit.
    fn lend(&mut self, now: Time, resource: ResourceId, by: Time, want: Demand) -> Option<SlotKey> {
        let _ = (now, resource, by, want);
        None
    }

    /// The earliest start, not before `earliest`, at which it fits for `span` and is over by `latest`.
    fn find(&self, resource: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time>;

    /// What is free in each stretch of a window, in order and without gaps, at most so many of them (the last then
    /// ends before the window does).
    fn stretches(&self, resource: ResourceId, window: Window, packet: u32, most: usize) -> Vec<(Window, u64)>;

    /// Where more is given away than there is, from now on.
    fn missing(&self, resource: ResourceId) -> Option<Missing>;
}

/// What somebody wants to do, as policy sees it: one question for each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question<'a> {
    /// Who.
    pub caller: &'a Caller,
    /// With which resource.
    pub resource: &'a str,
    /// The label of the request, such as a project's name.
    pub label: &'a str,
    /// The most that it wants at any instant.
    pub amount: u64,
    /// From the start of its first window to the end of its last; calendar time.
    pub window: Window,
    /// How long all its windows are together.
    pub length: Span,
    /// What day it is; calendar time.
    pub now: Time,
    /// Whether it shares what others leave.
    pub background: bool,
    /// What the owner has of this resource at the fullest instant of these windows, this request included; without what
    /// the owner has already if policy does not ask ([`PolicyPort::sums`]).
    pub together: u64,
    /// How many reservations the owner has, this one included.
    pub reservations: usize,
}

/// Whose packets or processes somebody says that a part is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindQuestion<'a> {
    /// Who says so.
    pub caller: &'a Caller,
    /// Of which resource the part is.
    pub resource: &'a str,
    /// The label of the reservation.
    pub label: &'a str,
    /// Whether the part shares what others leave.
    pub background: bool,
    /// Whose it is to be.
    pub binding: &'a Binding,
}

/// What policy says, and which rule said it; both go into the audit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyDecision {
    /// The name of the rule that decided; empty: none did, and what nobody allows is denied.
    pub rule: String,
    /// `None`: allowed. Otherwise why not, for people.
    pub denied: Option<String>,
}

/// What a rule limits beside what one owner has: sums over all who use it. See [`PolicyPort::shared`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedLimits {
    /// The groups of the caller by which the rule is about them.
    pub groups: Vec<String>,
    /// The most that all who use the rule have of the resource together, at any instant.
    pub in_all: Option<u64>,
    /// The most that all who use the rule by one of these groups have of it.
    pub in_group: Option<u64>,
}

/// Who may reserve what, how much, when, for how long and how far ahead. Total, bounded and without side effects.
pub trait PolicyPort {
    /// Whether anything that it says depends on [`Question::together`] or is a limit of [`SharedLimits`]; if not, nobody need know.
    fn sums(&self) -> bool {
        true
    }

    /// May they?
    fn decide(&self, question: &Question<'_>) -> PolicyDecision;

    /// What the rule that decides limits beside. The book counts what was granted by each rule, and holds it against this.
    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        let _ = question;
        SharedLimits::default()
    }

    /// May they say that it is for these packets or processes?
    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision;
}
