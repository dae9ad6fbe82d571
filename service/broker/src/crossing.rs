//! Reservations that go on in another domain: the next domain for a destination, the border by which packets
//! leave to it or come from it, and the leg that it is asked for.

use crate::broker::Broker;
use crate::domain_client::DomainClient;
use crate::id::MemberRole;
use crate::paths::LinkMap;
use crate::plan::{self, AgentRequest};
use crate::problem::{Answer, Problem};
use documents::book::{AskDoc, Instant, PartDoc, WhenDoc, WindowDoc};
use documents::legs::LegDoc;
use documents::links::CallerDoc;
use documents::rest::{PathWish, Wish};
use std::collections::BTreeSet;
use std::net::IpAddr;
use terms::{Rate, Span, Time};

/// The place at which packets leave a domain or come to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrossingPoint {
    /// The index of the neighbour.
    pub domain: usize,
    /// The network of the link.
    pub network: String,
    /// An address on it that is none of ours.
    pub beyond: IpAddr,
    /// The agreement about what comes in here from the neighbour: the agent's index, and the resource there.
    pub agreement: Option<(usize, String)>,
}

/// True if a host is in another domain: one that has published its network, or to which our file says the way.
pub fn is_elsewhere(broker: &Broker, host: IpAddr) -> bool {
    match broker.domains.home(broker.clock.today(), host) {
        Some(home) => broker.domains.own() != Some(&home),
        None => !configured(broker, host, &[]).is_empty(),
    }
}

/// The neighbours by which a leg goes on, the best first: over the paths that have room for it by what domains have
/// published, then over the others, then as our file says. `via`: the domains that the question has come through
/// already, which are none. Empty: it ends in this domain, or nowhere.
pub fn next(broker: &Broker, leg: &LegDoc, via: &[String]) -> Vec<usize> {
    let now = broker.clock.today();
    let Some(own) = broker.domains.own() else { return configured(broker, leg.to, via) };
    if broker.domains.home(now, leg.to).as_deref() == Some(own) {
        return Vec::new();
    }
    let windows: Vec<(Time, Time)> = leg.windows.iter().map(|window| (window.start.0, window.end.0)).collect();
    let mut found = Vec::new();
    for rate in [Rate::from_bps(leg.forward.max(leg.reverse)), Rate::ZERO] {
        for path in broker.domains.paths(now, (leg.from, leg.to), rate, &windows) {
            let names: Vec<&str> = path.hops.iter().map(|hop| &*hop.domain).collect();
            let Some(place) = names.iter().position(|name| *name == own) else { continue };
            if names[place..].iter().any(|name| via.iter().any(|before| before == name)) {
                continue;
            }
            let after = names.get(place + 1);
            let is = |one: &DomainClient| after == Some(&&*one.name) && !one.neighbour.distant;
            found.extend(broker.transactions.domains().iter().position(is));
        }
    }
    found.extend(configured(broker, leg.to, via));
    let mut seen = BTreeSet::new();
    found.retain(|domain| seen.insert(*domain));
    found
}

/// The neighbours through which our file says that an address is reached, the narrowest network first.
fn configured(broker: &Broker, to: IpAddr, via: &[String]) -> Vec<usize> {
    let leads = |domain: &DomainClient| {
        let networks = domain.neighbour.networks.iter().filter(|network| network.holds(to));
        networks.map(|network| network.prefix()).max().filter(|_| !via.iter().any(|name| *name == *domain.name))
    };
    let all = broker.transactions.domains().iter().enumerate();
    let mut found: Vec<(u8, usize)> = all.filter_map(|(number, domain)| Some((leads(domain)?, number))).collect();
    // Of equals the first in the file.
    found.sort_by_key(|(prefix, number)| (u8::MAX - prefix, *number));
    found.into_iter().map(|(_, number)| number).collect()
}

/// The border to a neighbour: the first of its links, or the one with this network.
///
/// # Errors
/// 503: the agents of these links do not answer; 422: there is no such link.
pub fn border(
    broker: &Broker,
    map: &LinkMap,
    domain: usize,
    network: Option<&str>,
    like: IpAddr,
) -> Answer<CrossingPoint> {
    let neighbour = &broker.transactions.domains()[domain].neighbour;
    let point = |link: &String| {
        let (network, beyond) = map.border(link, like)?;
        let agreement = map.agreement(link, &neighbour.name);
        Some(CrossingPoint { domain, network: network.to_string(), beyond, agreement })
    };
    let mut borders = neighbour.links.iter().filter_map(point);
    if let Some(border) = borders.find(|border| network.is_none_or(|network| border.network == network)) {
        return Ok(border);
    }
    match (map.away(), network) {
        ([], None) => Err(Problem::misuse(format!("the links to {} have no address of this family", neighbour.name))),
        ([], Some(network)) => Err(Problem::misuse(format!("no link to {} has the network {network}", neighbour.name))),
        (away, _) => Err(Problem::unavailable(format!("these agents do not answer: {}", away.join(", ")))),
    }
}

/// The windows of a request that goes over several domains: all of them are told the same instants.
///
/// # Errors
/// 422: it leaves time or amount open.
pub fn windows(broker: &Broker, wish: &Wish, path: &PathWish) -> Answer<Vec<WindowDoc>> {
    let when = &wish.when;
    let open = when.earliest || when.volume.is_some() || !when.may_fail.is_empty();
    if open || path.forward_at_least.is_some() || path.reverse_at_least.is_some() {
        return Err(Problem::misuse("over several domains name one rate, and one start and end or duration"));
    }
    if wish.hold_s.is_some() {
        return Err(Problem::misuse("over several domains nothing is held: reserve it, and cancel it if need be"));
    }
    if path.background.is_some() || !wish.parts.is_empty() {
        return Err(Problem::misuse("over several domains reserve the path alone, in the foreground"));
    }
    if !when.windows.is_empty() {
        return Ok(when.windows.clone());
    }
    let start = when.start.map_or_else(|| broker.clock.today(), |start| start.0);
    let end = match (when.end, when.duration_s) {
        (Some(end), _) => end.0,
        (None, Some(seconds)) if seconds.is_finite() && seconds > 0.0 && seconds < 4e9 => {
            start.saturating_add(Span::from_nanos((seconds * 1e9) as u64))
        }
        _ => return Err(Problem::misuse("for how long? give duration_s or end")),
    };
    Ok(vec![WindowDoc { start: Instant(start), end: Instant(end) }])
}

/// The leg of a request.
pub fn leg(wish: &Wish, path: &PathWish, windows: Vec<WindowDoc>) -> LegDoc {
    LegDoc {
        from: path.from,
        to: path.to,
        forward: path.forward.unwrap_or(0),
        reverse: path.reverse.unwrap_or(0),
        windows,
        label: wish.label.clone(),
        flow: path.flow,
        packet_bytes: path.packet_bytes,
        rtt_ms: path.rtt_ms,
    }
}

/// The request to our own agents that a leg comes to.
pub fn wish(leg: &LegDoc) -> Wish {
    let amount = |rate: u64| Some(rate).filter(|rate| *rate > 0);
    let path = PathWish {
        from: leg.from,
        to: leg.to,
        forward: amount(leg.forward),
        reverse: amount(leg.reverse),
        forward_at_least: None,
        reverse_at_least: None,
        background: None,
        packet_bytes: leg.packet_bytes,
        rtt_ms: leg.rtt_ms,
        flow: leg.flow,
        tree: false,
    };
    let when = match &leg.windows[..] {
        [window] => WhenDoc { start: Some(window.start), end: Some(window.end), ..WhenDoc::default() },
        windows => WhenDoc { windows: windows.to_vec(), ..WhenDoc::default() },
    };
    Wish { path: Some(path), parts: Vec::new(), when, label: leg.label.clone(), hold_s: None, notify_s: None }
}

/// Adds to our own part what comes in from a neighbour: its share of the agreement with that domain, if there is one.
pub fn agreed(choices: &mut [Vec<AgentRequest>], border: &CrossingPoint, leg: &LegDoc, way: MemberRole) {
    let rate = if way == MemberRole::Reverse { leg.reverse } else { leg.forward };
    let Some((agent, resource)) = border.agreement.as_ref().filter(|_| rate > 0) else { return };
    let part = PartDoc { resource: resource.clone(), rate: Some(rate), ..PartDoc::default() };
    for pieces in choices {
        match pieces.iter_mut().find(|piece| piece.agent == *agent && piece.way == way) {
            Some(piece) => piece.ask.parts.push(part.clone()),
            None => {
                let ask = AskDoc { parts: vec![part.clone()], ..plan::asked(&wish(leg)) };
                pieces.push(AgentRequest { agent: *agent, way, ask, asked: true });
                pieces.sort_by_key(|piece| (piece.agent, piece.way));
            }
        }
    }
}

/// The end of the last window.
pub fn until(leg: &LegDoc) -> Time {
    leg.windows.iter().map(|window| window.end.0).max().unwrap_or(Time::ZERO)
}

/// The caller's name as the next domain is told: one that our own machine's kernel gave has our name before it.
pub fn told_as(broker: &Broker, caller: &CallerDoc) -> String {
    match caller.name.contains(':') && !caller.name.contains('/') {
        true => format!("{}/{}", broker.transactions.name(), caller.name),
        false => caller.name.clone(),
    }
}

/// The caller's groups as the next domain is told: those of certificates.
pub fn told_groups(caller: &CallerDoc) -> Vec<String> {
    caller.groups.iter().filter(|group| !group.contains([':', '/'])).cloned().collect()
}
