//! Events of the engines in words: a name, a sentence and a level; upcalls as documents.

use crate::boomerang::news as boomerang;
use crate::log::Level;
use documents::agent::EventDoc;
use node::io::{ControlEvent, Event};
use rsvp::io::{ErrorReport, Gone, NeighbourNews, Upcall};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use terms::{Adspec, FlowKey, GuaranteedTerms, IfIndex, SenderTemplate, Session, Style};

/// Names of interfaces, by index.
pub type Names = BTreeMap<IfIndex, String>;

/// An event in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventLine {
    /// The importance to an operator.
    pub level: Level,
    /// A stable name for programs.
    pub name: &'static str,
    /// The sentence, for people.
    pub text: String,
}

/// A warning if the flow map's mount is private (a start under `ip netns exec`): the map ends with the agent.
pub(crate) fn private_mounts(state: &Path) -> Option<String> {
    let pins = state.join(crate::pins::NAME);
    let private = linux::bpf::sys::outlives_us(&pins) == Some(false);
    private.then(|| {
        format!(
            "{} is mounted in a mount namespace of our own (ip netns exec makes one): if this agent is killed, \
             reserved flows lose their classes until it is back; enter the network namespace by nsenter --net",
            pins.display()
        )
    })
}

/// True for events that every reservation causes, all of [`Level::Info`].
pub fn is_routine(event: &Event) -> bool {
    use rsvp::io::Event as E;
    match event {
        Event::Control(
            ControlEvent::Admitted { .. } | ControlEvent::Released { .. } | ControlEvent::Enforced { .. },
        ) => true,
        Event::Boomerang(event) => boomerang::is_routine(event),
        Event::Rsvp(event) => matches!(
            event,
            E::PathCreated { .. } | E::PathRemoved { .. } | E::ResvCreated { .. } | E::ResvRemoved { .. }
        ),
        _ => false,
    }
}

/// The words for an event.
pub fn news(event: &Event, names: &Names) -> EventLine {
    let (level, name, text) = match event {
        Event::Rsvp(event) => return rsvp_news(event, names),
        Event::Boomerang(event) => return boomerang::news(event, names),
        Event::Control(ControlEvent::Admitted { oif, flow, rate }) => {
            (Level::Info, "admitted", format!("{} on {}: {rate} wire", packets(flow), at(*oif, names)))
        }
        Event::Control(ControlEvent::Released { oif, flow, rate }) => {
            (Level::Info, "released", format!("{} on {}: {rate} wire", packets(flow), at(*oif, names)))
        }
        Event::Control(ControlEvent::Adopted { oif, flow, rate }) => {
            (Level::Info, "adopted", format!("{} on {}: {rate} wire", packets(flow), at(*oif, names)))
        }
        Event::Control(ControlEvent::AdoptedExpired { oif, flow }) => {
            (Level::Info, "adopted_expired", format!("{} on {}: nobody refreshed it", packets(flow), at(*oif, names)))
        }
        Event::Control(ControlEvent::Displaced { oif, flow, rate, by }) => {
            let whose =
                by.map_or_else(|| "a booking".to_owned(), |by| format!("a request of priority {}", by.preempting));
            let text = format!("{} on {}: {rate} wire made way for {whose}", packets(flow), at(*oif, names));
            (Level::Warn, "displaced", text)
        }
        Event::Control(ControlEvent::Opens { oif, slot, rate }) => {
            (Level::Info, "opens", format!("booked slot {slot} on {}: {rate} wire", at(*oif, names)))
        }
        Event::Control(ControlEvent::Closes { oif, slot, rate }) => {
            (Level::Info, "closes", format!("booked slot {slot} on {}: {rate} wire", at(*oif, names)))
        }
        Event::Control(ControlEvent::Enforced { handle, part, rate }) => {
            (Level::Info, "enforced", format!("part {part} of {}: {rate} at its edge", handle.text()))
        }
        Event::Booking(event) => (Level::Info, "booking", format!("{}: {}", event.handle.text(), event.what.name())),
        Event::Group(group) => {
            let whose = format!("part {} of {}: {}", group.part, group.handle.text(), group.path);
            match group.there {
                true => (Level::Warn, "group_again", format!("{whose} was made again, and is bound again")),
                false => (Level::Warn, "group_gone", format!("{whose} is not there: nobody has its packets")),
            }
        }
        Event::Control(ControlEvent::Resource { resource }) => {
            (Level::Info, "resource", format!("resource {} has come, gone or changed", resource.0))
        }
        Event::Control(ControlEvent::PlaneFault { id, fault }) => {
            (Level::Error, "plane_fault", format!("batch {}: {fault}", id.0))
        }
    };
    EventLine { level, name, text }
}

fn rsvp_news(event: &rsvp::io::Event, names: &Names) -> EventLine {
    use rsvp::io::Event as E;
    let (level, name, text) = match event {
        E::PathCreated { session, template, phop } => {
            let from = phop.map_or_else(|| "a local application".to_owned(), |phop| phop.to_string());
            (Level::Info, "path_created", format!("{} by {from}", flow(session, template)))
        }
        E::PathRemoved { session, template, why } => {
            (Level::Info, "path_removed", format!("{}: {}", flow(session, template), gone(*why)))
        }
        E::ResvCreated { session, template, style, oif, flowspec } => {
            let whose = whose(session, template.as_ref(), *style);
            let text = format!("{whose} {}: {}", on(*oif, names), flowspec.rate());
            (Level::Info, "resv_created", text)
        }
        E::ResvRemoved { session, template, style, oif, why } => {
            let whose = whose(session, template.as_ref(), *style);
            (Level::Info, "resv_removed", format!("{whose} {}: {}", on(*oif, names), gone(*why)))
        }
        E::Refused { session, template, error } => {
            let whose = template.map_or_else(|| destination(session), |template| flow(session, &template));
            (Level::Warn, "refused", format!("{whose}: {}", error_text(error)))
        }
        E::Dropped { iif, src, why } => {
            (Level::Warn, "dropped", format!("a message from {src} on {}: {why}", at(*iif, names)))
        }
        E::AwaitingPath { session, nhop } => {
            let text = format!("{}: a Resv of {nhop} came before the Path after a restart", destination(session));
            (Level::Info, "awaiting_path", text)
        }
        E::PhopChanged { session, template, from, to } => {
            (Level::Info, "phop_changed", format!("{}: {from} -> {to}", flow(session, template)))
        }
        E::Rerouted { session, template, oif } => {
            let way = oif.map_or_else(
                || "ends here, or has no way".to_owned(),
                |oif| format!("leaves on {} now", at(oif, names)),
            );
            (Level::Info, "rerouted", format!("{} {way}", flow(session, template)))
        }
        E::NonRsvpHop { session, phop } => {
            let text = format!("{}: a router between {phop} and here does not speak RSVP", destination(session));
            (Level::Warn, "non_rsvp_hop", text)
        }
        E::Neighbour { interface, addr, news } => {
            let (level, name, what) = neighbour(news);
            (level, name, format!("{addr} on {}: {what}", at(*interface, names)))
        }
    };
    EventLine { level, name, text }
}

fn neighbour(news: &NeighbourNews) -> (Level, &'static str, String) {
    match news {
        NeighbourNews::Authenticated { key_id } => {
            (Level::Info, "authenticated", format!("has shown that it has key {key_id}"))
        }
        NeighbourNews::KeyOverdue { key_id } => {
            (Level::Warn, "key_overdue", format!("key {key_id} is over and there is no other: it is used on"))
        }
        NeighbourNews::Restarted => {
            (Level::Info, "neighbour_restarted", "has started anew, and is told everything again".to_owned())
        }
        NeighbourNews::Silent => (Level::Warn, "neighbour_silent", "does not answer".to_owned()),
    }
}

/// `10.0.0.1:5004 -> 10.0.2.2:5004/17`.
pub fn flow(session: &Session, sender: &SenderTemplate) -> String {
    format!("{}:{} -> {}", sender.src, sender.src_port, destination(session))
}

/// One sender's flow, or those that share a reservation of the session.
fn whose(session: &Session, template: Option<&SenderTemplate>, style: Style) -> String {
    match (template, style) {
        (Some(template), _) => flow(session, template),
        (None, Style::Wf) => format!("every sender -> {}", destination(session)),
        (None, _) => format!("several senders -> {}", destination(session)),
    }
}

/// `10.0.0.1:5004 -> 10.0.2.2:5004/17`; of prefixes `10.1.0.0/16:* -> 10.2.0.0/16:*/any`.
pub(crate) fn packets(flow: &FlowKey) -> String {
    if !flow.is_masked() {
        return format!("{}:{} -> {}:{}/{}", flow.src, flow.src_port, flow.dst, flow.dst_port, flow.protocol);
    }
    let any = |number: u16, any: &str| if number == 0 { any.to_owned() } else { number.to_string() };
    let end = |address: IpAddr, wild: u8, port: u16| {
        let length = if address.is_ipv4() { 32 } else { 128 } - u32::from(wild);
        format!("{address}/{length}:{}", any(port, "*"))
    };
    let (src, dst) = (end(flow.src, flow.wild.src, flow.src_port), end(flow.dst, flow.wild.dst, flow.dst_port));
    format!("{src} -> {dst}/{}", any(flow.protocol.into(), "any"))
}

fn destination(session: &Session) -> String {
    format!("{}:{}/{}", session.dst, session.dst_port, session.protocol)
}

/// An interface's name, or its number once it is gone.
pub(crate) fn name_of(interface: IfIndex, names: &Names) -> String {
    names.get(&interface).cloned().unwrap_or_else(|| interface.0.to_string())
}

pub(crate) fn at(interface: IfIndex, names: &Names) -> String {
    names.get(&interface).cloned().unwrap_or_else(|| format!("interface {}", interface.0))
}

fn on(interface: Option<IfIndex>, names: &Names) -> String {
    interface.map_or_else(|| "here".to_owned(), |interface| format!("on {}", at(interface, names)))
}

fn gone(why: Gone) -> &'static str {
    match why {
        Gone::Torn => "torn down",
        Gone::Expired => "its lifetime is over",
        Gone::PathGone => "its path went",
        Gone::Replaced => "replaced, or the plane failed",
        Gone::RouteGone => "the interface or the route went",
        Gone::Refused => "refused upstream",
    }
}

fn error_text(error: &ErrorReport) -> String {
    let words = error.text.clone().unwrap_or_default();
    let sep = if words.is_empty() { "" } else { ": " };
    format!("{} (code {}, value {}) at {}{sep}{words}", meaning(error.code), error.code, error.value, error.node)
}

/// Error codes of RFC 2205 appendix B in words.
pub fn meaning(code: u8) -> &'static str {
    match code {
        0 => "confirmation",
        1 => "admission control refused",
        2 => "policy refused",
        3 => "no path information for this Resv",
        4 => "no sender information for this Resv",
        5 => "conflicting reservation style",
        6 => "unknown reservation style",
        7 => "conflicting destination ports",
        8 => "conflicting sender ports",
        12 => "service preempted",
        13 => "unknown object class",
        14 => "unknown object C-Type",
        20 => "API error",
        21 => "traffic control error",
        22 => "traffic control system error",
        23 => "RSVP system error",
        _ => "unknown error code",
    }
}

/// An upcall as the socket's document.
pub fn upcall(upcall: Upcall) -> EventDoc {
    match upcall {
        Upcall::Path { session, template, tspec, adspec, own_mtu } => EventDoc::Path {
            session: session.into(),
            sender: template.into(),
            tspec: tspec.into(),
            path_bps: adspec.map(|a| a.bandwidth).filter(|bandwidth| !bandwidth.is_infinite()).map(|b| b.as_bps()),
            path_mtu: adspec.map(|a| a.path_mtu),
            own_mtu,
            guaranteed: adspec.and_then(guaranteed).is_some(),
            c_tot_bytes: adspec.and_then(guaranteed).map(|terms| terms.c_tot),
            d_tot_us: adspec.and_then(guaranteed).map(|terms| terms.d_tot),
            adspec: adspec.map(Into::into),
        },
        Upcall::PathGone { session, template } => {
            EventDoc::PathGone { session: session.into(), sender: template.into() }
        }
        Upcall::Resv { session, template, style, flowspec } => EventDoc::Resv {
            session: session.into(),
            sender: template.into(),
            style: Some(style.into()),
            flowspec: flowspec.into(),
        },
        Upcall::ResvGone { session, template } => {
            EventDoc::ResvGone { session: session.into(), sender: template.into() }
        }
        Upcall::Confirm { session, template, flowspec, node } => {
            EventDoc::Confirm { session: session.into(), sender: template.into(), flowspec: flowspec.into(), node }
        }
        Upcall::Error { session, template, resv, error } => EventDoc::Error {
            session: session.into(),
            sender: template.map(Into::into),
            answers: if resv { "resv" } else { "path" }.to_owned(),
            node: error.node,
            code: error.code,
            value: error.value,
            meaning: meaning(error.code).to_owned(),
            text: error.text,
            in_place: error.in_place,
            not_guilty: error.not_guilty,
            flowspec: error.flowspec.map(Into::into),
        },
    }
}

/// The terms of guaranteed service on the path, if every hop offers it.
fn guaranteed(adspec: Adspec) -> Option<GuaranteedTerms> {
    adspec.guaranteed.filter(|terms| !terms.break_bit)
}
