//! The errors in a description: the place, the error, and the allowed range.

use super::spec::Sharing;
use crate::dropper::BadDropper;
use crate::meter::BadProfile;
use crate::shaper::BadShaper;
use alloc::string::String;
use core::fmt;
use terms::{Bytes, Rate, Span};

/// A description that cannot work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unworkable {
    /// The offending node from the link down: `link/data/gold`.
    pub path: String,
    /// Its index in [`super::TreeSpec::nodes`]; `None`: the link, or the tree as a whole.
    pub node: Option<usize>,
    /// The part of a leaf: `rules`, `shaper`, `meter`, `marker`, `dropper` or `queue`; empty: the node itself.
    pub part: &'static str,
    /// The error, and the allowed range.
    pub fault: TreeFault,
}

impl fmt::Display for Unworkable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.part.is_empty() { "" } else { ": " };
        write!(f, "{}: {}{colon}{}", self.path, self.part, self.fault)
    }
}

impl core::error::Error for Unworkable {}

/// An error in a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeFault {
    /// A rate outside its range.
    Rate {
        /// The name of the rate.
        what: &'static str,
        /// The stated rate.
        rate: Rate,
        /// The least.
        least: Rate,
        /// The most.
        most: Rate,
    },
    /// A size outside its range.
    Size {
        /// The name of the size.
        what: &'static str,
        /// The stated size.
        size: Bytes,
        /// The least.
        least: Bytes,
        /// The most.
        most: Bytes,
    },
    /// A number outside its range.
    Number {
        /// The name of the number.
        what: &'static str,
        /// The stated number.
        number: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A time outside its range.
    Time {
        /// The name of the time.
        what: &'static str,
        /// The stated time.
        time: Span,
        /// The least.
        least: Span,
        /// The most.
        most: Span,
    },
    /// The children's rates exceed the node's.
    ChildrenOverParent {
        /// The sum of their rates.
        sum: Rate,
        /// The node's rate.
        parent: Rate,
    },
    /// The children's real-time curves exceed the link at this time after all start together.
    CurvesOverLink {
        /// The time; `None`: in the long run.
        at: Option<Span>,
        /// The link's rate.
        link: Rate,
    },
    /// The name is empty or has a `/`.
    BadName,
    /// Another node has the name.
    NameTwice,
    /// No node has the parent's name.
    UnknownParent(String),
    /// The parent is a leaf.
    ParentIsLeaf(String),
    /// The node is its own ancestor.
    Circle,
    /// The levels below the link exceed this limit.
    TooDeep(usize),
    /// An inner node without children.
    NoChildren,
    /// The share is not of the parent scheduler's kind.
    WrongShare {
        /// The parent's scheduler.
        scheduler: Sharing,
        /// The stated kind of share.
        stated: &'static str,
    },
    /// HFSC below the root.
    HfscBelowRoot,
    /// An HFSC class with neither a real-time nor a link-sharing curve.
    NoCurve,
    /// An inner node below HFSC without a link-sharing curve.
    InnerNeedsLinkShare,
    /// No leaf, or more than one, takes packets without a rule.
    Defaults(usize),
    /// A rule with contradictory ports or prefixes.
    BadRule(&'static str),
    /// An error in the meter's own values.
    Meter(BadProfile),
    /// An error in the shaper's own values.
    Shaper(BadShaper),
    /// An error in the dropper's own values.
    Dropper(BadDropper),
    /// A green shaper without srTCM or trTCM behind it.
    GreenNeedsMeter,
    /// A colour-aware meter without a marker that defines the code points.
    AwareNeedsMarker,
    /// TSWTCM has no colour-aware mode here.
    TswIsBlind,
    /// [`super::Tree::change`] of a leaf that does not exist.
    UnknownLeaf,
    /// [`super::Tree::change_share`] of a node that does not exist.
    UnknownNode,
}

impl fmt::Display for TreeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TreeFault as F;
        match self {
            F::Rate { what, rate, least, most } => write!(f, "{what} is {rate}: allowed is {least} to {most}"),
            F::Size { what, size, least, most } => write!(f, "{what} is {size}: allowed is {least} to {most}"),
            F::Number { what, number, least, most } => write!(f, "{what} is {number}: allowed is {least} to {most}"),
            F::Time { what, time, least, most } => {
                write!(f, "{what} is {}: allowed is {} to {}", Said(*time), Said(*least), Said(*most))
            }
            F::ChildrenOverParent { sum, parent } => {
                write!(f, "its children's rates sum to {sum}: allowed is at most its own {parent}")
            }
            F::CurvesOverLink { at: Some(at), link } => {
                write!(
                    f,
                    "its children's real-time curves ask for more than {link} carries in {}: lower them",
                    Said(*at)
                )
            }
            F::CurvesOverLink { at: None, link } => {
                write!(f, "its children's real-time curves rise faster than {link} in the end: lower m2")
            }
            F::BadName => f.write_str("a name is 1 to 64 characters without `/`"),
            F::NameTwice => f.write_str("the name is there twice: each node needs its own"),
            F::UnknownParent(name) => write!(f, "there is no node {name:?} to be its parent"),
            F::ParentIsLeaf(name) => {
                write!(f, "its parent {name:?} is a leaf: only a node with a scheduler has children")
            }
            F::Circle => f.write_str("the node is its own ancestor: its parents must lead to the link"),
            F::TooDeep(most) => write!(f, "more than {most} levels below the link"),
            F::NoChildren => f.write_str("it has a scheduler but no children: at least one is needed"),
            F::WrongShare { scheduler, stated } => write!(
                f,
                "it states a {}, its parent's scheduler {} needs a {}",
                stated,
                scheduler.name(),
                needed(*scheduler)
            ),
            F::HfscBelowRoot => f.write_str("hfsc is allowed at the link only: use wf2q, drr or priority here"),
            F::NoCurve => f.write_str("it has neither a real-time nor a link-sharing curve: at least one is needed"),
            F::InnerNeedsLinkShare => f.write_str("an inner node below hfsc needs a link-sharing curve"),
            F::Defaults(0) => f.write_str("no leaf takes what no rule matches: exactly one leaf must be without rules"),
            F::Defaults(n) => write!(f, "{n} leaves are without rules: exactly one takes what no rule matches"),
            F::BadRule(what) => f.write_str(what),
            F::Meter(bad) => bad.fmt(f),
            F::Shaper(bad) => bad.fmt(f),
            F::Dropper(bad) => bad.fmt(f),
            F::GreenNeedsMeter => f.write_str("a green shaper asks the meter behind it: allowed are srtcm and trtcm"),
            F::AwareNeedsMarker => {
                f.write_str("a colour-aware meter needs a marker that says which code points mean which colour")
            }
            F::TswIsBlind => f.write_str("tswtcm is colour-blind: leave `aware` out"),
            F::UnknownLeaf => f.write_str("there is no leaf of this name"),
            F::UnknownNode => f.write_str("there is no node of this name"),
        }
    }
}

fn needed(scheduler: Sharing) -> &'static str {
    match scheduler {
        Sharing::Priority => "priority",
        Sharing::Wf2q => "rate",
        Sharing::Drr => "quantum",
        Sharing::Hfsc => "set of curves (real_time, link_share, upper_limit)",
    }
}

/// A span, written in the largest unit that divides it.
struct Said(Span);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            0 => f.write_str("0s"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}
