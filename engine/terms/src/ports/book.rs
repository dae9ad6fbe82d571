//! Ports of the bookings: the ledger (how much of a resource is free, and when) and policy (who may have it).

use crate::book::{Binding, Caller, Guarantee, ResourceId, ResourceKind, VoToken};
use crate::{Misuse, Span, Time, Window};
use alloc::string::String;
use alloc::vec::Vec;

/// A slot that a [`Ledger`] counts, by a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotKey(pub u64);

/// The description of a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its name: `net/eth1`, `cpu`, `disk/sda`, `licence/NAME`, `sla/PEER`.
    pub name: String,
    /// The kind, and so the unit of an amount.
    pub kind: ResourceKind,
    /// The strength of its promise.
    pub guarantee: Guarantee,
    /// The most that can be booked at this instant.
    pub capacity: u64,
    /// The sum that foreground and background may have while there is a background part (GARA: 0.9 of
    /// premium); zero: it takes no background parts.
    pub shared: u64,
}

/// An amount, and the least packet size where that makes a difference (network).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Demand {
    /// The amount, in the unit of the resource's [`ResourceKind`].
    pub amount: u64,
    /// The least packet size, bytes of IP; zero if there are no packets.
    pub packet: u32,
}

/// The reason for a ledger's refusal. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NoRoom {
    /// More was asked than is free at some instant of the window.
    Full {
        /// The amount that is free at every instant of the window.
        free: u64,
    },
    /// A table is full.
    Limit {
        /// The table's size, in entries.
        limit: usize,
    },
    /// The resource does not exist (any more).
    Gone,
    /// The window is over, or the amount is zero.
    Meaningless(Misuse),
}

/// More has been promised than there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Missing {
    /// The first instant of the shortage.
    pub first: Time,
    /// The largest shortage at any instant.
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

    /// The description of a resource; `None`: it has gone.
    fn offer(&self, resource: ResourceId) -> Option<Offer>;

    /// Books an amount over a window; the part of the window before `now` is cut off.
    ///
    /// # Errors
    /// [`NoRoom`].
    fn book(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom>;

    /// Holds an amount over a window, as [`Ledger::book`], until it is promised and committed, or released. It has
    /// no timer here: the caller has one, or none.
    ///
    /// # Errors
    /// [`NoRoom`].
    fn hold(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom>;

    /// A held slot is promised: only a decision ends it. It is no mistake if the slot is promised, committed, or over.
    fn promise(&mut self, now: Time, resource: ResourceId, slot: SlotKey);

    /// A promised slot is booked. It is no mistake if the slot is committed or over.
    fn commit(&mut self, now: Time, resource: ResourceId, slot: SlotKey);

    /// Counts a promise of an earlier run, even if it does not fit today ([`Ledger::missing`] reports that).
    ///
    /// # Errors
    /// [`NoRoom`], but never [`NoRoom::Full`].
    fn adopt(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom>;

    /// Gives a slot back. It is no mistake if the slot is over or its resource has gone.
    fn release(&mut self, now: Time, resource: ResourceId, slot: SlotKey);

    /// The amount that could be booked over the whole of a window, for packets of this least size.
    fn free(&self, resource: ResourceId, window: Window, packet: u32) -> u64;

    /// The amount that no slot uses at this instant, for packets of this least size: less than
    /// [`Ledger::free`] if a booking would displace a user.
    fn spare(&self, now: Time, resource: ResourceId, packet: u32) -> u64 {
        let instant = Window::new(now, now.saturating_add(Span::from_nanos(1)));
        instant.map_or(0, |instant| self.free(resource, instant, packet))
    }

    /// Gives background one slot for the amount that it divides, from now on while no booking needs it, and
    /// at most until `by`. `None`: this resource promises background nothing, so nothing is counted; or the
    /// slot does not fit.
    fn lend(&mut self, now: Time, resource: ResourceId, by: Time, want: Demand) -> Option<SlotKey> {
        let _ = (now, resource, by, want);
        None
    }

    /// The earliest start, not before `earliest`, at which the demand fits for `span` and ends by `latest`.
    fn find(&self, resource: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time>;

    /// The free amount in each stretch of a window, in order and without gaps, at most `most` of them (the
    /// last may then end before the window does).
    fn stretches(&self, resource: ResourceId, window: Window, packet: u32, most: usize) -> Vec<(Window, u64)>;

    /// The shortage from now on, if more has been promised than there is.
    fn missing(&self, resource: ResourceId) -> Option<Missing>;
}

/// A request as policy sees it: one question for each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The name of the resource.
    pub resource: &'a str,
    /// The label of the request, such as a project's name.
    pub label: &'a str,
    /// The most that it wants at any instant.
    pub amount: u64,
    /// From the start of its first window to the end of its last; calendar time.
    pub window: Window,
    /// The total length of its windows.
    pub length: Span,
    /// The present; calendar time.
    pub now: Time,
    /// True if the part only shares the amount that others leave.
    pub background: bool,
    /// The owner's sum of this resource at the fullest instant of these windows, this request included. It
    /// leaves out the owner's other reservations if policy does not need the sum ([`PolicyPort::sums`]).
    pub together: u64,
    /// The number of the owner's reservations, this one included.
    pub reservations: usize,
}

/// A request to bind a part to packets or processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindQuestion<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The name of the part's resource.
    pub resource: &'a str,
    /// The label of the reservation.
    pub label: &'a str,
    /// True if the part only shares the amount that others leave.
    pub background: bool,
    /// The packets or processes.
    pub binding: &'a Binding,
}

/// Policy's answer, and the rule that gave it; both go into the audit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyDecision {
    /// The name of the rule that decided; empty: no rule did, and the default is to deny.
    pub rule: String,
    /// `None`: allowed. Otherwise the reason, for people.
    pub denied: Option<String>,
    /// The layers that allowed it before this rule: a token, the domain's rule.
    pub above: Vec<String>,
}

/// The sums over all users of a rule that the rule limits, beside the owner's own. See
/// [`PolicyPort::shared`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedLimits {
    /// The caller's groups by which the rule applies.
    pub groups: Vec<String>,
    /// The most that all users of the rule may have of the resource together, at any instant.
    pub in_all: Option<u64>,
    /// The most that all users of the rule by one of these groups may have of it.
    pub in_group: Option<u64>,
    /// The most that all reservations may have of the resource, by whatever rule: an agreement that this rule may not
    /// make grow.
    pub agreed: Option<u64>,
}

/// The checks that tokens carry. A token is code of strangers: an answer takes bounded time.
pub trait TokenPort {
    /// Checks a part of a request against a token that was verified when it was shown.
    ///
    /// # Errors
    /// The check that fails, for people.
    fn check(&self, token: &VoToken, question: &Question<'_>) -> Result<(), String>;
}

/// Policy: who may reserve which resource, how much, when, for how long and how far ahead. A policy answers every
/// question, in bounded time and without side effects.
pub trait PolicyPort {
    /// True if an answer may depend on [`Question::together`] or on a limit of [`SharedLimits`]; if not, the
    /// sums are not needed.
    fn sums(&self) -> bool {
        true
    }

    /// Answers a question.
    fn decide(&self, question: &Question<'_>) -> PolicyDecision;

    /// The shared limits of the rule that decides. The bookings engine counts the amounts that each rule
    /// granted, and compares them with these limits.
    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        let _ = question;
        SharedLimits::default()
    }

    /// Answers a request to bind.
    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision;
}
