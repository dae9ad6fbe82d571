//! The errors in a description: the place, the error, and the allowed range.

use crate::conditioner::{ConditionerFault, Said};
use crate::scheduler::SchedulerKind;
use alloc::string::String;
use core::fmt;
use terms::{Rate, Span};

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
    /// A value, or a part of a leaf, that cannot work.
    Part(ConditionerFault),
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
        scheduler: SchedulerKind,
        /// The stated kind of share.
        stated: &'static str,
    },
    /// HFSC below the root.
    HfscBelowRoot,
    /// HTB, which runs the classes of a plan and no tree.
    HtbInTree,
    /// An HFSC class with neither a real-time nor a link-sharing curve.
    NoCurve,
    /// An inner node below HFSC without a link-sharing curve.
    InnerNeedsLinkShare,
    /// No leaf, or more than one, takes packets without a rule.
    Defaults(usize),
    /// A rule with contradictory ports or prefixes.
    BadRule(&'static str),
    /// [`super::Tree::change`] of a leaf that does not exist.
    UnknownLeaf,
    /// [`super::Tree::change_share`] of a node that does not exist.
    UnknownNode,
}

impl From<ConditionerFault> for TreeFault {
    fn from(fault: ConditionerFault) -> TreeFault {
        TreeFault::Part(fault)
    }
}

impl fmt::Display for TreeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TreeFault as F;
        match self {
            F::Part(fault) => fault.fmt(f),
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
            F::HtbInTree => f.write_str("htb runs the classes of a plan: use hfsc, wf2q, drr or priority here"),
            F::NoCurve => f.write_str("it has neither a real-time nor a link-sharing curve: at least one is needed"),
            F::InnerNeedsLinkShare => f.write_str("an inner node below hfsc needs a link-sharing curve"),
            F::Defaults(0) => f.write_str("no leaf takes what no rule matches: exactly one leaf must be without rules"),
            F::Defaults(n) => write!(f, "{n} leaves are without rules: exactly one takes what no rule matches"),
            F::BadRule(what) => f.write_str(what),
            F::UnknownLeaf => f.write_str("there is no leaf of this name"),
            F::UnknownNode => f.write_str("there is no node of this name"),
        }
    }
}

fn needed(scheduler: SchedulerKind) -> &'static str {
    match scheduler {
        SchedulerKind::Priority => "priority",
        SchedulerKind::Wf2q => "rate",
        SchedulerKind::Drr => "quantum",
        SchedulerKind::Hfsc => "set of curves (real_time, link_share, upper_limit)",
        SchedulerKind::Htb => "token bucket",
    }
}
