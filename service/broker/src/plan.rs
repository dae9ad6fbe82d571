//! The agents' requests that a request of a caller comes to: one for each agent and role.

use crate::id::{GroupId, MemberRole};
use crate::paths::LinkMap;
use crate::problem::{Answer, Problem};
use booking::path::Path;
use documents::book::{AskDoc, BindingDoc, FlowDoc, PartDoc};
use documents::rest::{PathWish, Ports, Wish};
use std::net::IpAddr;

/// The most parts of a request.
const MAX_PARTS: usize = 64;

/// The request to one agent in one role.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentRequest {
    /// The agent's index.
    pub agent: usize,
    /// The role.
    pub way: MemberRole,
    /// The request.
    pub ask: AskDoc,
    /// True if the caller gave an amount: an enquiry also asks for resources without one.
    pub asked: bool,
}

/// The names of all agents, in their order.
pub type Names<'a> = &'a [&'a str];

/// The agent of a resource, and the resource's name there.
///
/// # Errors
/// 422: there is no such agent, or its name must be given.
pub fn place<'a>(names: Names<'_>, resource: &'a str) -> Answer<(usize, &'a str)> {
    if let Some((first, rest)) = resource.split_once('/')
        && let Some(agent) = names.iter().position(|name| *name == first)
    {
        return Ok((agent, rest));
    }
    match names {
        [_] => Ok((0, resource)),
        _ => Err(Problem::misuse(format!("{resource:?}: write AGENT/RESOURCE, with one of {}", names.join(", ")))),
    }
}

/// The pieces of single resources, in the order of agents.
///
/// # Errors
/// 422: the request is wrong.
pub fn parts(names: Names<'_>, wish: &Wish) -> Answer<Vec<AgentRequest>> {
    if wish.parts.len() > MAX_PARTS {
        return Err(Problem::misuse(format!("more than {MAX_PARTS} parts")));
    }
    let mut pieces: Vec<AgentRequest> = Vec::new();
    for part in &wish.parts {
        let (agent, resource) = place(names, &part.resource)?;
        let part = PartDoc { resource: resource.to_owned(), ..part.clone() };
        match pieces.iter_mut().find(|piece| piece.agent == agent) {
            Some(piece) => piece.ask.parts.push(part),
            None => pieces.push(AgentRequest {
                agent,
                way: MemberRole::Alone,
                ask: AskDoc { parts: vec![part], ..asked(wish) },
                asked: true,
            }),
        }
    }
    pieces.sort_by_key(|piece| piece.agent);
    Ok(pieces)
}

/// The pieces of one direction of a path over these interfaces.
///
/// # Errors
/// 422: nothing can be reserved on one of them.
pub fn over(
    names: Names<'_>,
    map: &LinkMap,
    legs: &Path,
    wish: &Wish,
    path: &PathWish,
    way: MemberRole,
) -> Answer<Vec<AgentRequest>> {
    let (rate, least) = match way {
        MemberRole::Reverse => (path.reverse, path.reverse_at_least),
        _ => (path.forward, path.forward_at_least),
    };
    let rate = rate.unwrap_or(0);
    let mut pieces: Vec<AgentRequest> = Vec::new();
    for leg in map.legs(legs) {
        let Some(resource) = leg.resource else {
            let what =
                format!("{}: nothing can be reserved on {}, which is on the way", names[leg.agent], leg.interface);
            return Err(Problem::misuse(what));
        };
        let part = PartDoc {
            resource: resource.to_owned(),
            // An enquiry without an amount asks for the least; its answer includes the amount that is free.
            rate: Some(rate.max(1)),
            at_least: least.map(|least| least as f64),
            background: path.background,
            packet_bytes: path.packet_bytes,
            rtt_ms: path.rtt_ms,
            binding: path.flow.map(|ports| BindingDoc::Flow(flow((path.from, path.to), ports, way))),
            ..PartDoc::default()
        };
        pieces.push(AgentRequest {
            agent: leg.agent,
            way,
            ask: AskDoc { parts: vec![part], ..asked(wish) },
            asked: rate > 0,
        });
    }
    pieces.sort_by_key(|piece| piece.agent);
    Ok(pieces)
}

/// The packets of one direction: those back have ends and ports swapped.
pub fn flow(ends: (IpAddr, IpAddr), ports: Ports, way: MemberRole) -> FlowDoc {
    let (src, dst) = (Some(ends.0), Some(ends.1));
    let Ports { protocol, from_port, to_port } = ports;
    match way {
        MemberRole::Reverse => FlowDoc { src: dst, dst: src, protocol, src_port: to_port, dst_port: from_port },
        _ => FlowDoc { src, dst, protocol, src_port: from_port, dst_port: to_port },
    }
}

/// The fields that all pieces share.
pub fn asked(wish: &Wish) -> AskDoc {
    let (when, label, notify_s) = (wish.when.clone(), wish.label.clone(), wish.notify_s);
    AskDoc { parts: Vec::new(), when, label, notify_s, ..AskDoc::default() }
}

/// Gives every piece the group's name, the names of all its members, and its own key if there is one.
/// `attempt` differs from that of an earlier one with the same key that came to nothing; 0: there was none.
pub fn name(names: Names<'_>, pieces: &mut [AgentRequest], group: &GroupId, key: &str, attempt: u64) {
    let members: Vec<String> = pieces.iter().map(|piece| GroupId::member_name(names[piece.agent], piece.way)).collect();
    for (number, piece) in pieces.iter_mut().enumerate() {
        // One tells the owner of the end, for all.
        piece.ask.notify_s = piece.ask.notify_s.filter(|_| number == 0);
        piece.ask.group = group.member(piece.way);
        piece.ask.members = members.clone();
        if !key.is_empty() {
            let again = if attempt == 0 { String::new() } else { format!(".{attempt}") };
            piece.ask.key = format!("{key}.{}{again}", piece.ask.group);
        }
    }
}
