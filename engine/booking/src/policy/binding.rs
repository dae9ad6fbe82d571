//! The packets and processes that a rule lets its callers bind (GARA section 3.1, `bind`). Without such
//! limits, a reservation of one bit a second could be bound to any flow or process, and hold it up.
//!
//! If the rule is silent, both ends of a flow must be hosts, and a process must be the caller's own.
//! Operators may bind all of them, except those that would stop the machine or the agent: see [`check`].

use crate::policy::pattern::NamePattern;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::str::FromStr;
use terms::book::{Binding, BoundFlow, Caller, CallerRole};
use terms::ports::book::{BindQuestion, PolicyDecision};

/// A rule's limits on bindings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bindings {
    /// The flows that may be bound; `None`: both ends must be hosts.
    pub flows: Option<Vec<FlowPattern>>,
    /// The control groups that may be bound, and so may their processes, by path without the first slash.
    pub cgroups: Vec<NamePattern>,
}

/// A pattern of flows: `10.0.0.0/24 > *:5000-5100 udp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowPattern {
    src: End,
    dst: End,
    /// The protocol; `None`: any, or none in the flow.
    protocol: Option<u8>,
}

/// One end of a [`FlowPattern`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct End {
    address: Address,
    /// The first and the last port, both included; `None`: any, or none in the flow.
    ports: Option<(u16, u16)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Address {
    /// Any address, or none in the flow.
    Any,
    /// Any address of one host.
    Host,
    /// Hosts in the prefix of this many bits.
    Prefix(IpAddr, u8),
}

/// The error for a text that is no [`FlowPattern`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFlows;

impl FlowPattern {
    /// `host > host`: the flows that may be bound if a rule is silent.
    pub const HOSTS: FlowPattern = FlowPattern {
        src: End { address: Address::Host, ports: None },
        dst: End { address: Address::Host, ports: None },
        protocol: None,
    };
    /// `* > *`.
    pub const ANY: FlowPattern = FlowPattern {
        src: End { address: Address::Any, ports: None },
        dst: End { address: Address::Any, ports: None },
        protocol: None,
    };

    /// True if every packet of the flow matches.
    pub fn covers(&self, flow: &BoundFlow) -> bool {
        self.protocol.is_none_or(|protocol| flow.protocol == Some(protocol))
            && self.src.covers(flow.src, flow.src_port)
            && self.dst.covers(flow.dst, flow.dst_port)
    }
}

impl End {
    fn covers(&self, address: Option<IpAddr>, port: Option<u16>) -> bool {
        let there = match (self.address, address) {
            (Address::Any, _) | (Address::Host, Some(_)) => true,
            (Address::Prefix(prefix, bits), Some(address)) => is_in(address, prefix, bits),
            (_, None) => false,
        };
        there && self.ports.is_none_or(|(from, to)| port.is_some_and(|port| (from..=to).contains(&port)))
    }
}

/// True if both addresses are of one family and their first bits are the same.
fn is_in(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let shift = |width: u32| width.saturating_sub(u32::from(bits));
    match (address, prefix) {
        (IpAddr::V4(a), IpAddr::V4(p)) => (a.to_bits() ^ p.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0,
        (IpAddr::V6(a), IpAddr::V6(p)) => (a.to_bits() ^ p.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0,
        _ => false,
    }
}

impl FromStr for FlowPattern {
    type Err = BadFlows;
    /// Reads `SOURCE > DESTINATION [PROTOCOL]`. An end is `*`, `host`, an address or a prefix, and may have
    /// `:PORT` or `:PORT-PORT` behind it (IPv6 in brackets then); a protocol is `udp`, `tcp`, `sctp`, `icmp`,
    /// `icmp6` or a number.
    fn from_str(text: &str) -> Result<FlowPattern, BadFlows> {
        let (src, rest) = text.split_once('>').ok_or(BadFlows)?;
        let mut words = rest.split_ascii_whitespace();
        let (dst, protocol) = (words.next().ok_or(BadFlows)?, words.next());
        if words.next().is_some() {
            return Err(BadFlows);
        }
        let found = FlowPattern { src: end(src.trim())?, dst: end(dst)?, protocol: protocol.map(named).transpose()? };
        let ported = found.src.ports.is_some() || found.dst.ports.is_some();
        match (found.src.address, found.dst.address) {
            (Address::Prefix(a, _), Address::Prefix(b, _)) if a.is_ipv4() != b.is_ipv4() => Err(BadFlows),
            _ if ported && found.protocol.is_some_and(|n| !matches!(n, 6 | 17 | 33 | 132 | 136)) => Err(BadFlows),
            _ => Ok(found),
        }
    }
}

fn named(text: &str) -> Result<u8, BadFlows> {
    Ok(match text {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "icmp6" => 58,
        "sctp" => 132,
        // RSVP belongs to no reservation.
        other => other.parse().ok().filter(|n| !matches!(n, 0 | 46)).ok_or(BadFlows)?,
    })
}

fn end(text: &str) -> Result<End, BadFlows> {
    let bracketed = text.strip_prefix('[').map(|rest| rest.split_once(']').ok_or(BadFlows)).transpose()?;
    let (place, ports) = match bracketed {
        Some((place, "")) => (place, None),
        Some((place, ports)) => (place, Some(ports.strip_prefix(':').ok_or(BadFlows)?)),
        // More than one colon: an IPv6 address, without ports.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(place, ports)| (place, Some(ports))),
    };
    Ok(End { address: place_of(place)?, ports: ports.map(range).transpose()? })
}

fn place_of(text: &str) -> Result<Address, BadFlows> {
    match (text, text.split_once('/')) {
        ("*", _) => Ok(Address::Any),
        ("host", _) => Ok(Address::Host),
        (_, None) => text.parse().map(|one: IpAddr| Address::Prefix(one, width(one))).map_err(|_| BadFlows),
        (_, Some((address, bits))) => {
            let address: IpAddr = address.parse().map_err(|_| BadFlows)?;
            let bits = bits.parse().ok().filter(|bits| *bits <= width(address)).ok_or(BadFlows)?;
            Ok(Address::Prefix(address, bits))
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn range(text: &str) -> Result<(u16, u16), BadFlows> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| BadFlows);
    let (from, to) = match text.split_once('-') {
        Some((from, to)) => (port(from)?, port(to)?),
        None => (port(text)?, port(text)?),
    };
    if from <= to { Ok((from, to)) } else { Err(BadFlows) }
}

/// The kind of a process, for the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessKind {
    /// None of the following.
    Ordinary,
    /// A thread of the kernel.
    Kernel,
    /// Process 1, or a thread of it.
    First,
    /// The agent or one of its children.
    Agent,
}

/// Facts from the machine about a process, a thread or a control group that a caller wants to bind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessFacts {
    /// Its kind; for a control group, the worst kind in it.
    pub sort: ProcessKind,
    /// Its user; `None`: a control group, or a program that runs with the rights of several users (setuid).
    pub uid: Option<u32>,
    /// Its control groups, by path below the roots of the hierarchies that reservations use, without the
    /// first slash; for a control group, its own path.
    pub cgroups: Vec<String>,
}

/// Checks that a caller may bind a process, thread or control group with these facts. `seen` is `None` if it
/// does not exist.
///
/// # Errors
/// The reason, for people.
pub fn check(caller: &Caller, cgroups: &[NamePattern], seen: Option<&ProcessFacts>) -> Result<(), String> {
    let seen = seen.ok_or("it is not there: it has ended, or is another's namespace's")?;
    match seen.sort {
        ProcessKind::Ordinary => {}
        ProcessKind::Kernel => return Err("threads of the kernel belong to no reservation".into()),
        ProcessKind::First => return Err("process 1 belongs to no reservation".into()),
        ProcessKind::Agent => return Err("the agent and its children belong to no reservation".into()),
    }
    // A certificate's name has no colon, so this is a user whom the kernel of this machine knows.
    let uid: Option<u32> = caller.name.strip_prefix("uid:").and_then(|uid| uid.parse().ok());
    let own = uid.is_some() && uid == seen.uid;
    let named = || seen.cgroups.iter().all(|path| cgroups.iter().any(|pattern| pattern.matches(path)));
    if own || caller.role == CallerRole::Operator || !seen.cgroups.is_empty() && named() {
        return Ok(());
    }
    let whose = match (seen.uid, uid) {
        (Some(owner), Some(_)) => format!("it is user {owner}'s"),
        (None, Some(_)) => String::from("it is not only theirs"),
        (_, None) => String::from("they are no user of this machine"),
    };
    Err(format!("{whose}, and no control group that the rule names holds it"))
}

impl crate::policy::Policy {
    /// Policy's answer to a request to bind a part; `seen` are the machine's facts about a process.
    pub fn binding(&self, question: &BindQuestion<'_>, seen: Option<&ProcessFacts>) -> PolicyDecision {
        let BindQuestion { caller, resource, label, background, binding } = *question;
        let operator = caller.role == CallerRole::Operator;
        let rule = self.rules.iter().find(|rule| rule.concerns(caller, resource, label, background));
        let denied = match (rule, operator) {
            (None, false) => Some("what nobody allows is denied".into()),
            (Some(rule), false) if rule.effect == crate::policy::Effect::Deny => Some("denied".into()),
            _ => rule.map_or(&Bindings::default(), |rule| &rule.bindings).denies(caller, binding, seen),
        };
        PolicyDecision {
            rule: rule.map(|rule| rule.name.clone()).unwrap_or_default(),
            denied,
            ..PolicyDecision::default()
        }
    }
}

impl Bindings {
    /// Bindings of any kind.
    pub fn any() -> Bindings {
        Bindings { flows: Some([FlowPattern::ANY].into()), cgroups: NamePattern::new("*").into_iter().collect() }
    }

    /// The reason for a refusal of this binding, if any.
    fn denies(&self, caller: &Caller, binding: &Binding, seen: Option<&ProcessFacts>) -> Option<String> {
        let no = |what: String| move |why: String| format!("{what} cannot be bound: {why}");
        match binding {
            Binding::Flow(_) if caller.role == CallerRole::Operator => None,
            Binding::Flow(flow) => match &self.flows {
                None if FlowPattern::HOSTS.covers(flow) => None,
                None => Some("both ends of a flow are hosts, unless the rule names other flows".into()),
                Some(flows) if flows.iter().any(|pattern| pattern.covers(flow)) => None,
                Some(_) => Some("that is none of the flows that may be bound".into()),
            },
            Binding::Process(task) => {
                check(caller, &self.cgroups, seen).err().map(no(format!("process {}", task.number)))
            }
            Binding::Thread(task) => {
                check(caller, &self.cgroups, seen).err().map(no(format!("thread {}", task.number)))
            }
            Binding::Cgroup(path) => {
                check(caller, &self.cgroups, seen).err().map(no(format!("the control group {path}")))
            }
        }
    }
}

impl core::fmt::Display for BadFlows {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "flows are written SOURCE > DESTINATION [PROTOCOL], an end as *, host, an address or a prefix, with :PORT or \
             :PORT-PORT behind it, as in \"10.0.0.0/24 > *:5000-5100 udp\"",
        )
    }
}

impl core::error::Error for BadFlows {}
