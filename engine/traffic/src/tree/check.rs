//! Checks of a tree: names, parents, shares. The parts of a leaf are [`crate::conditioner`]'s.

use super::fault::{TreeFault, Unworkable};
use super::rules::{MAX_EXACT_RULES, MAX_RULES, RuleCount};
use super::spec::{LeafSpec, MultiFieldRule, NodeKind, TreeSpec};
use crate::conditioner::{self, ConditionerFault, number};
use crate::path::{MAX_QUANTUM, TreeShare};
use crate::scheduler::SchedulerKind;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Rate, ServiceCurve, Span};

/// The most nodes below the link.
pub const MAX_NODES: usize = 1 << 18;
/// The most levels below the link.
pub const MAX_DEPTH: usize = 16;
/// The fastest link.
pub const MAX_RATE: Rate = Rate::from_bps(400_000_000_000);
/// The most bytes that a link adds to a packet.
pub const MAX_OVERHEAD: u32 = 256;
/// The results of a check.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    /// Each node's parent; `None`: the link.
    pub(super) parents: Vec<Option<usize>>,
    /// Nodes, each after its parent.
    pub(super) order: Vec<usize>,
    /// Each node's guaranteed rate of the link, or its rate if no other node sends, in wire bytes.
    pub(super) rates: Vec<Rate>,
}

/// Refuses a tree that cannot work.
///
/// # Errors
/// The first [`Unworkable`]: the node, the error, and the allowed range.
pub fn check(spec: &TreeSpec) -> Result<(), Unworkable> {
    survey(spec).map(|_| ())
}

pub(super) fn survey(spec: &TreeSpec) -> Result<Survey, Unworkable> {
    let link = |fault| Unworkable { path: "link".into(), node: None, part: "", fault };
    let least = Rate::from_bps(1);
    if spec.link.rate < least || spec.link.rate > MAX_RATE {
        return Err(link(TreeFault::Part(ConditionerFault::Rate {
            what: "rate",
            rate: spec.link.rate,
            least,
            most: MAX_RATE,
        })));
    }
    number("overhead", u64::from(spec.link.overhead), 0, u64::from(MAX_OVERHEAD))
        .map_err(|wrong| link(wrong.into()))?;
    number("the number of nodes", spec.nodes.len() as u64, 1, MAX_NODES as u64).map_err(|wrong| link(wrong.into()))?;
    let parents = parents(spec)?;
    let order = order(spec, &parents)?;
    let mut survey = Survey { parents, order, rates: alloc::vec![spec.link.rate; spec.nodes.len()] };
    for &node in &survey.order {
        let above = survey.parents[node];
        let parent = above.map_or(spec.link.rate, |p| survey.rates[p]);
        let fault = |fault| at(spec, &survey.parents, node, "", fault);
        survey.rates[node] = share(spec, above, node, parent).map_err(fault)?;
    }
    children(spec, &survey)?;
    leaves(spec, &survey)?;
    Ok(survey)
}

/// The error at a node.
pub(super) fn at(
    spec: &TreeSpec,
    parents: &[Option<usize>],
    node: usize,
    part: &'static str,
    fault: TreeFault,
) -> Unworkable {
    let mut names = Vec::new();
    let mut step = Some(node);
    while let Some(at) = step.filter(|_| names.len() <= MAX_DEPTH) {
        names.push(spec.nodes[at].name.as_str());
        step = parents.get(at).copied().flatten();
    }
    let mut path = String::from("link");
    for name in names.iter().rev() {
        path.push('/');
        path.push_str(name);
    }
    Unworkable { path, node: Some(node), part, fault }
}

/// Each node's parent, found by name.
fn parents(spec: &TreeSpec) -> Result<Vec<Option<usize>>, Unworkable> {
    let lone = |node, fault| at(spec, &[], node, "", fault);
    let mut names = BTreeMap::new();
    for (i, node) in spec.nodes.iter().enumerate() {
        if node.name.is_empty() || node.name.len() > 64 || node.name.contains('/') {
            return Err(lone(i, TreeFault::BadName));
        }
        if names.insert(node.name.as_str(), i).is_some() {
            return Err(lone(i, TreeFault::NameTwice));
        }
    }
    let mut parents = Vec::with_capacity(spec.nodes.len());
    for (i, node) in spec.nodes.iter().enumerate() {
        let Some(name) = &node.parent else {
            parents.push(None);
            continue;
        };
        let &parent = names.get(name.as_str()).ok_or_else(|| lone(i, TreeFault::UnknownParent(name.clone())))?;
        if matches!(spec.nodes[parent].kind, NodeKind::Leaf(_)) {
            return Err(lone(i, TreeFault::ParentIsLeaf(name.clone())));
        }
        parents.push(Some(parent));
    }
    Ok(parents)
}

/// The nodes, parents before children; refuses circles and trees that are too deep.
fn order(spec: &TreeSpec, parents: &[Option<usize>]) -> Result<Vec<usize>, Unworkable> {
    let mut depths = alloc::vec![0usize; parents.len()];
    for node in 0..parents.len() {
        let mut step = parents[node];
        while let Some(above) = step {
            depths[node] += 1;
            if above == node {
                return Err(at(spec, &[], node, "", TreeFault::Circle));
            }
            step = parents[above];
            // A circle that the node hangs below is found at one of the circle's own nodes.
            if depths[node] > MAX_DEPTH * 2 {
                break;
            }
        }
    }
    if let Some(node) = depths.iter().position(|&depth| depth >= MAX_DEPTH) {
        return Err(at(spec, parents, node, "", TreeFault::TooDeep(MAX_DEPTH)));
    }
    let mut order: Vec<usize> = (0..parents.len()).collect();
    order.sort_by_key(|&node| depths[node]);
    Ok(order)
}

/// The rate of the node's share; refuses a share that is not of its parent's kind.
fn share(spec: &TreeSpec, above: Option<usize>, node: usize, parent: Rate) -> Result<Rate, TreeFault> {
    let scheduler = sharing(spec, above);
    let least = Rate::from_bps(1);
    let rate = |what, rate: Rate| {
        if rate < least || rate > parent {
            return Err(TreeFault::Part(ConditionerFault::Rate { what, rate, least, most: parent }));
        }
        Ok(rate)
    };
    let inner = match spec.nodes[node].kind {
        NodeKind::Inner(SchedulerKind::Hfsc) => return Err(TreeFault::HfscBelowRoot),
        NodeKind::Inner(SchedulerKind::Htb) => return Err(TreeFault::HtbInTree),
        NodeKind::Inner(_) => true,
        NodeKind::Leaf(_) => false,
    };
    match (scheduler, spec.nodes[node].share) {
        (SchedulerKind::Priority, TreeShare::Priority(_)) => Ok(parent),
        (SchedulerKind::Wf2q, TreeShare::Rate(stated)) => rate("rate", stated),
        (SchedulerKind::Drr, TreeShare::Quantum(quantum)) => {
            number("quantum", u64::from(quantum), 1, u64::from(MAX_QUANTUM))?;
            Ok(parent)
        }
        (SchedulerKind::Hfsc, TreeShare::Curves(curves)) => {
            let some = |curve: Option<ServiceCurve>| curve.filter(|c| c.m1.max(c.m2) > Rate::ZERO);
            if some(curves.real_time).is_none() && some(curves.link_share).is_none() {
                return Err(TreeFault::NoCurve);
            }
            if inner && some(curves.link_share).is_none() {
                return Err(TreeFault::InnerNeedsLinkShare);
            }
            if let Some(limit) = curves.upper_limit {
                rate("upper_limit", limit.m2)?;
            }
            for curve in [curves.real_time, curves.link_share].into_iter().flatten() {
                let most = MAX_RATE;
                if curve.m1.max(curve.m2) > most {
                    return Err(TreeFault::Part(ConditionerFault::Rate {
                        what: "a curve's slope",
                        rate: curve.m1.max(curve.m2),
                        least: Rate::ZERO,
                        most,
                    }));
                }
            }
            let slope = |curve: Option<ServiceCurve>| curve.map_or(Rate::ZERO, |c| c.m2);
            Ok(slope(curves.real_time).max(slope(curves.link_share)).clamp(least, parent))
        }
        (SchedulerKind::Htb, _) => Err(TreeFault::HtbInTree),
        (scheduler, share) => Err(TreeFault::WrongShare { scheduler, stated: share.name() }),
    }
}

/// The sharing of the parent.
pub(super) fn sharing(spec: &TreeSpec, node: Option<usize>) -> SchedulerKind {
    match node.map(|n| &spec.nodes[n].kind) {
        Some(NodeKind::Inner(sharing)) => *sharing,
        _ => spec.link.scheduler,
    }
}

/// Checks that every inner node has children, and that they fit.
fn children(spec: &TreeSpec, survey: &Survey) -> Result<(), Unworkable> {
    let mut sums = alloc::vec![(0usize, Rate::ZERO); spec.nodes.len() + 1];
    let root = spec.nodes.len();
    for (node, parent) in survey.parents.iter().enumerate() {
        let sum = &mut sums[parent.unwrap_or(root)];
        sum.0 += 1;
        if let TreeShare::Rate(rate) = spec.nodes[node].share {
            sum.1 = sum.1.saturating_add(rate);
        }
    }
    for (node, &(count, sum)) in sums.iter().enumerate() {
        let own = survey.rates.get(node).copied().unwrap_or(spec.link.rate);
        let fault = |fault| match node {
            n if n == root => Unworkable { path: "link".into(), node: None, part: "", fault },
            n => at(spec, &survey.parents, n, "", fault),
        };
        if count == 0 && (node == root || matches!(spec.nodes[node].kind, NodeKind::Inner(_))) {
            return Err(fault(TreeFault::NoChildren));
        }
        if sum > own {
            return Err(fault(TreeFault::ChildrenOverParent { sum, parent: own }));
        }
    }
    let curves = spec.nodes.iter().filter_map(|n| match n.share {
        TreeShare::Curves(curves) => curves.real_time,
        _ => None,
    });
    real_time(&curves.collect::<Vec<_>>(), spec.link.rate).map_err(|fault| Unworkable {
        path: "link".into(),
        node: None,
        part: "",
        fault,
    })
}

/// Checks that the real-time curves together never exceed the link. Their sum is linear between the ends of first
/// pieces.
fn real_time(curves: &[ServiceCurve], link: Rate) -> Result<(), TreeFault> {
    let mut ends: Vec<Span> = curves.iter().filter(|c| !c.is_linear()).map(|c| c.d).collect();
    ends.sort_unstable();
    ends.dedup();
    let work = |rate: Rate, t: Span| u128::from(rate.as_bps()).saturating_mul(u128::from(t.as_nanos()));
    for at in ends {
        let owed = curves.iter().fold(0u128, |sum, c| {
            let own = work(c.m1, at.min(c.d)).saturating_add(work(c.m2, at.saturating_sub(c.d)));
            sum.saturating_add(own)
        });
        if owed > work(link, at) {
            return Err(TreeFault::CurvesOverLink { at: Some(at), link });
        }
    }
    let long_run = curves.iter().fold(Rate::ZERO, |sum, c| sum.saturating_add(c.m2));
    if long_run > link { Err(TreeFault::CurvesOverLink { at: None, link }) } else { Ok(()) }
}

/// Checks the replacement of a leaf, `(old, new)`, in a tree that works and has this many rules.
pub(super) fn replacement(
    spec: &TreeSpec,
    survey: &Survey,
    rules: RuleCount,
    node: usize,
    (old, new): (&LeafSpec, &LeafSpec),
) -> Result<(), Unworkable> {
    let fault = |(part, fault): (&'static str, TreeFault)| at(spec, &survey.parents, node, part, fault);
    leaf_alone(new, spec.link.rate).map_err(fault)?;
    let rules = rules.minus(RuleCount::of(&old.rules)).plus(RuleCount::of(&new.rules));
    number_of_rules(rules).map_err(|f| fault(("rules", f)))?;
    match (old.rules.is_empty(), new.rules.is_empty()) {
        (true, false) => Err(Unworkable { path: "link".into(), node: None, part: "", fault: TreeFault::Defaults(0) }),
        (false, true) => Err(fault(("rules", TreeFault::Defaults(2)))),
        _ => Ok(()),
    }
}

/// Checks a leaf's new share beside its siblings', in a tree that worked with the old one.
pub(super) fn beside(spec: &TreeSpec, survey: &Survey, node: usize) -> Result<(), Unworkable> {
    let above = survey.parents[node];
    let parent = above.map_or(spec.link.rate, |p| survey.rates[p]);
    share(spec, above, node, parent).map_err(|fault| at(spec, &survey.parents, node, "", fault))?;
    let siblings = spec.nodes.iter().zip(&survey.parents).filter(|(_, parent)| **parent == above);
    let sum = siblings.fold(Rate::ZERO, |sum, (sibling, _)| match sibling.share {
        TreeShare::Rate(rate) => sum.saturating_add(rate),
        _ => sum,
    });
    if sum <= parent {
        return Ok(());
    }
    let fault = TreeFault::ChildrenOverParent { sum, parent };
    Err(match above {
        Some(above) => at(spec, &survey.parents, above, "", fault),
        None => Unworkable { path: "link".into(), node: None, part: "", fault },
    })
}

/// Checks the number of rules of either kind.
fn number_of_rules(rules: RuleCount) -> Result<(), TreeFault> {
    let open = "the number of rules in the tree that leave something of the five-tuple open";
    number(open, rules.open, 0, MAX_RULES)?;
    Ok(number("the number of rules in the tree", rules.exact, 0, MAX_EXACT_RULES)?)
}

/// Checks every leaf by itself; and that exactly one of them takes packets without a rule.
fn leaves(spec: &TreeSpec, survey: &Survey) -> Result<(), Unworkable> {
    let (mut defaults, mut rules, mut second) = (0, RuleCount::default(), None);
    for (node, found) in spec.nodes.iter().enumerate() {
        let NodeKind::Leaf(leaf) = &found.kind else { continue };
        let fault = |(part, fault): (&'static str, TreeFault)| at(spec, &survey.parents, node, part, fault);
        leaf_alone(leaf, spec.link.rate).map_err(fault)?;
        rules = rules.plus(RuleCount::of(&leaf.rules));
        number_of_rules(rules).map_err(|f| fault(("rules", f)))?;
        if leaf.rules.is_empty() {
            defaults += 1;
            second = Some(node).filter(|_| defaults == 2).or(second);
        }
    }
    match (defaults, second) {
        (1, _) => Ok(()),
        (n, Some(node)) => Err(at(spec, &survey.parents, node, "rules", TreeFault::Defaults(n))),
        (n, None) => Err(Unworkable { path: "link".into(), node: None, part: "", fault: TreeFault::Defaults(n) }),
    }
}

/// Checks a leaf by itself, on a link of this rate. The error names the part.
fn leaf_alone(leaf: &LeafSpec, link: Rate) -> Result<(), (&'static str, TreeFault)> {
    leaf.rules.iter().try_for_each(rule).map_err(|what| ("rules", TreeFault::BadRule(what)))?;
    conditioner::check(&leaf.conditioner(), &leaf.queue, link).map_err(|(part, fault)| (part, fault.into()))
}

fn rule(rule: &MultiFieldRule) -> Result<(), &'static str> {
    for (net, length) in [rule.src, rule.dst].into_iter().flatten() {
        match net {
            IpAddr::V4(_) if length > 32 => return Err("an IPv4 prefix is 0 to 32 bits long"),
            IpAddr::V6(_) if length > 128 => return Err("an IPv6 prefix is 0 to 128 bits long"),
            _ => {}
        }
    }
    if let (Some((a, _)), Some((b, _))) = (rule.src, rule.dst)
        && a.is_ipv4() != b.is_ipv4()
    {
        return Err("source and destination are of different IP versions: no packet matches");
    }
    if [rule.src_ports, rule.dst_ports].into_iter().flatten().any(|(from, to)| from > to) {
        return Err("a range of ports goes from the lower to the higher");
    }
    if rule.dscp.is_some_and(|dscp| dscp.0 > 63) {
        return Err("a code point is 0 to 63");
    }
    Ok(())
}
