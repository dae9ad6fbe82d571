//! The status of an agent: *asked* from RSVP, *admitted* from the ledger, *installed* as read back from the
//! kernel, *measured* from its counters.

use crate::agent::Agent;
use crate::boomerang::BoomerangHost;
use crate::boomerang::turn::BoomerangTurn;
use crate::news::name_of;
use crate::planes::bound_exceeded;
use crate::read_back::{ReadBack, class_name, installed};
use crate::role::InterfaceRole;
use control::status::{LinkView, ReservationView};
use documents::agent::{ClassRow, CounterRow, InterfaceRow, ReservationRow, SenderRow, SessionRow, Status};
use documents::rows::NeighbourRole;
use documents::show::PAGE;
use rsvp::overload::IntakeClass;
use rsvp::views::ResvView;
use rsvp::{NextHop, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{Fault, FlowKey, IfIndex, Rate, SenderTemplate, Style, Time};
use traffic::plan::{ClassId, ClassSpec, Counters, LinkPlan};
use traffic::scheduler::SchedulerKind;

/// The whole status.
pub fn status(agent: &mut Agent) -> Result<Status, Fault> {
    let read = ReadBack::of(&mut agent.drive.plane)?;
    let links: BTreeMap<IfIndex, LinkView> = agent.drive.node.links().map(|link| (link.oif, link)).collect();
    let slots = slots(agent);
    let interfaces = agent.drive.node.interfaces().map(|state| {
        let link = links.get(&state.index);
        InterfaceRow {
            name: state.name.clone(),
            index: state.index.0,
            addresses: state.addresses.clone(),
            mtu: state.mtu,
            rsvp: state.rsvp,
            role: role(agent, &state.name),
            rate_wire_bps: link.map(|link| link.rate.as_bps()),
            reserved_wire_bps: link.map_or(0, |link| link.reserved.as_bps()),
            booked_wire_bps: link.map_or(0, booked),
            free_wire_bps: link.map_or(0, |link| link.free.as_bps()),
            slots: slots.get(&state.index).copied().unwrap_or(0),
            plane: read.link(state.index).map(|link| plane(agent, state.index, link.link.scheduler)),
            services: link.map(services).unwrap_or_default(),
            classes: read.link(state.index).map(|link| classes(state.index, link, &read)).unwrap_or_default(),
        }
    });
    let interfaces = interfaces.collect();
    let mut reservations = rows(agent, &read)?;
    let mut notes = notes(agent, &read);
    if let Some(more @ 1..) = reservations.len().checked_sub(PAGE) {
        reservations.truncate(PAGE);
        notes.push(format!("{more} more reservations: `sluice rsvp show reservation` and `sluice list` find them"));
    }
    Ok(Status { agent: agent.hello(), interfaces, reservations, notes, turns: agent.turns().doc() })
}

/// Who queues, in a word.
fn plane(agent: &Agent, oif: IfIndex, scheduler: SchedulerKind) -> String {
    if agent.drive.plane.is_user(oif) { "user" } else { scheduler.name() }.to_owned()
}

/// Only the reservations.
pub fn reservations(agent: &mut Agent) -> Result<Vec<ReservationRow>, Fault> {
    let read = ReadBack::of(&mut agent.drive.plane)?;
    rows(agent, &read)
}

fn slots(agent: &Agent) -> BTreeMap<IfIndex, usize> {
    let mut slots = BTreeMap::new();
    // Those that were admitted by measurement share a grant.
    for held in agent.drive.node.reservations().filter(|held| held.class != ClassId::MEASURED) {
        *slots.entry(held.oif).or_insert(0) += 1;
    }
    slots
}

/// Signalled reservations have no end: so of what can be reserved, all that is neither signalled nor free is booked.
fn booked(link: &LinkView) -> u64 {
    link.reservable.as_bps().saturating_sub(link.reserved.as_bps()).saturating_sub(link.free.as_bps())
}

fn services(link: &LinkView) -> Vec<String> {
    let guaranteed = link.guaranteed.map(|_| "guaranteed".to_owned());
    std::iter::once("controlled-load".to_owned()).chain(guaranteed).collect()
}

/// The configured role of an interface, if it has one.
fn role(agent: &Agent, name: &str) -> Option<NeighbourRole> {
    let named = agent.drive.config.interfaces.iter().find(|named| named.name == name)?;
    named.role.map(|role| match role {
        InterfaceRole::Edge => NeighbourRole::Edge,
        InterfaceRole::Core => NeighbourRole::Core,
        InterfaceRole::Peer => NeighbourRole::Peer,
    })
}

fn notes(agent: &Agent, read: &ReadBack) -> Vec<String> {
    let mut notes = Vec::new();
    let beyond = |oif: IfIndex| agent.drive.plane.beyond_bound(oif);
    let broken = agent.drive.node.links().filter(|link| beyond(link.oif) > 0);
    notes.extend(broken.map(|link| bound_exceeded(&name_of(link.oif, &agent.drive.names), beyond(link.oif))));
    if agent.drive.node.links().any(|link| link.guaranteed.is_none() && beyond(link.oif) == 0) {
        notes.push(
            "this plane keeps no delay bound that was ever measured, so guaranteed service is refused; controlled load \
             is offered"
                .to_owned(),
        );
    }
    let there = |name: &String| agent.drive.interfaces.values().any(|state| state.name == *name);
    for wanted in agent.drive.config.interfaces.iter().filter(|wanted| !there(&wanted.name)) {
        notes.push(format!("{} is down or gone: nothing is reserved there", wanted.name));
    }
    notes.extend(agent.drive.plane.silence().map(|fault| fault.to_string()));
    notes.extend(crate::standing::undeclared_of(&agent.drive.config).map(|(_, text)| text));
    for oif in agent.foreign() {
        let name = agent.drive.names.get(oif).cloned().unwrap_or_default();
        notes.push(format!("another program took the traffic control of {name}: nothing is guaranteed there"));
    }
    match agent.drive.node.reservations().filter(|held| held.adopted_until.is_some()).count() {
        0 => {}
        n => notes.push(format!(
            "adopting: {n} flows of the agent's life before keep their classes and capacity until they are refreshed, or \
             their lifetime ends"
        )),
    }
    match agent.drive.echo.as_ref().map_or(0, BoomerangHost::rows_left_out) {
        0 => {}
        n => notes.push(format!("{n} more sessions in Boomerang's fast path: `sluice boomerang sessions` lists them")),
    }
    let gone = |held: &ReservationView| held.installed && read.flow(&(held.oif, held.flow)).is_none();
    match agent.drive.node.reservations().filter(gone).count() {
        0 => {}
        n => notes.push(format!("{n} reservations are not in the kernel any more: another program removed them")),
    }
    notes
}

/// One row per reservation state, one per adopted flow that has not been asked for again, and one per session
/// of Boomerang's table in the kernel, up to a limit.
fn rows(agent: &mut Agent, read: &ReadBack) -> Result<Vec<ReservationRow>, Fault> {
    let now = agent.drive.clock.now();
    let tc = agent.drive.node.tc();
    let flows = |held: ReservationView| tc.flows(held.handle).iter().map(move |flow| ((held.oif, *flow), held));
    let held: BTreeMap<(IfIndex, FlowKey), ReservationView> = agent.drive.node.reservations().flat_map(flows).collect();
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    let asked: Vec<ResvView> = agent.drive.node.rsvp().reservations().collect();
    for (view, sender) in asked.iter().flat_map(|view| named(view).into_iter().map(move |sender| (view, sender))) {
        let flow = match view.style {
            Style::Wf => FlowKey::of_any_sender(&view.session),
            Style::Ff | Style::Se => FlowKey::of(&view.session, &sender),
        };
        let key = view.next_hop.oif().map(|oif| (oif, flow));
        seen.extend(key);
        let mut row = asked_row(view, sender, now);
        if let Some(key) = key {
            fill(agent, &mut row, key, held.get(&key), read, now);
        }
        rows.push(row);
    }
    for (key, held) in held.iter().filter(|(key, _)| !seen.contains(*key)) {
        let mut row = held_row(held, now);
        fill(agent, &mut row, *key, Some(held), read, now);
        rows.push(row);
    }
    agent.drive.meter.keep(|key| read.flow(key).is_some());
    rows.extend(BoomerangTurn(&mut agent.drive).fast_rows(read, now)?);
    Ok(rows)
}

/// The senders of a request; for a wildcard request the wildcard address.
fn named(view: &ResvView) -> Vec<SenderTemplate> {
    if view.style != Style::Wf {
        return view.filters.clone();
    }
    let src = match view.session.dst {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    vec![SenderTemplate { src, src_port: 0 }]
}

fn asked_row(view: &ResvView, sender: SenderTemplate, now: Time) -> ReservationRow {
    ReservationRow {
        session: view.session.into(),
        sender: sender.into(),
        prefixes: None,
        oif: None,
        nhop: match view.next_hop {
            NextHop::Hop { addr, .. } => Some(addr),
            NextHop::App(_) => None,
        },
        style: Some(view.style.into()),
        asked: view.flowspec.into(),
        admitted_wire_bps: None,
        installed: None,
        measured: None,
        expires_in_ms: left(view.expires, now),
    }
}

/// The row of an adopted flow: the ledger holds it, and no request has named it in this life of the agent.
fn held_row(held: &ReservationView, now: Time) -> ReservationRow {
    ReservationRow {
        session: held.session.into(),
        sender: held.flow.sender(&held.session).into(),
        prefixes: held.flow.is_masked().then(|| crate::news::packets(&held.flow)),
        oif: None,
        nhop: None,
        style: None,
        asked: held.asked.into(),
        admitted_wire_bps: None,
        installed: None,
        measured: None,
        expires_in_ms: held.adopted_until.and_then(|until| left(until, now)),
    }
}

/// Adds the state of a flow on an interface from the ledger, the kernel and its counters.
fn fill(
    agent: &mut Agent,
    row: &mut ReservationRow,
    key: (IfIndex, FlowKey),
    held: Option<&ReservationView>,
    read: &ReadBack,
    now: Time,
) {
    row.oif = Some(name_of(key.0, &agent.drive.names));
    row.admitted_wire_bps = held.map(|held| held.admitted.as_bps());
    row.installed = read.flow(&key).map(|entry| installed(held, entry));
    let counted = read.counters(&key);
    row.measured = counted.map(|counters| agent.drive.meter.read(now, key.0, &key.1, counters));
}

/// The link's own class, then the others, as the kernel has them.
fn classes(oif: IfIndex, link: &LinkPlan, read: &ReadBack) -> Vec<ClassRow> {
    let whole = link.link.rate;
    let counted = |class: ClassId| read.class(oif, class);
    let rates =
        |spec: &ClassSpec| (spec.real_time.map_or(Rate::ZERO, |curve| curve.m2), spec.upper_limit.unwrap_or(whole));
    let root = std::iter::once((ClassId::LINK, (whole, whole)));
    let all = root.chain(link.classes.iter().map(|(&class, spec)| (class, rates(spec))));
    all.map(|(class, (rate, ceil))| class_row(class, rate, ceil, counted(class))).collect()
}

fn class_row(class: ClassId, rate: Rate, ceil: Rate, counted: Counters) -> ClassRow {
    let name = match class {
        ClassId::LINK => "link",
        ClassId::BEST_EFFORT => "best-effort",
        ClassId::CONTROL => "control",
        ClassId::CONTROLLED_LOAD => "controlled-load",
        ClassId::PREMIUM => "premium",
        ClassId::BACKGROUND => "background",
        ClassId::MEASURED => "measured",
        _ => "guaranteed",
    };
    ClassRow {
        class: class_name(class),
        name: name.to_owned(),
        rate_wire_bps: rate.as_bps(),
        ceil_wire_bps: ceil.as_bps(),
        packets: counted.packets,
        bytes: counted.bytes,
        drops: counted.over_packets,
    }
}

fn left(until: Time, now: Time) -> Option<u64> {
    (until != Time::FOREVER).then(|| until.since(now).as_millis())
}

/// Sessions.
pub fn sessions(agent: &Agent) -> impl Iterator<Item = SessionRow> + '_ {
    let row = |view: rsvp::views::SessionView| SessionRow {
        session: view.session.into(),
        senders: view.senders,
        reservations: view.requests,
        receivers: view.receivers,
    };
    agent.drive.node.rsvp().sessions().map(row)
}

/// Path states.
pub fn senders(agent: &Agent) -> impl Iterator<Item = SenderRow> + '_ {
    let now = agent.drive.clock.now();
    let name = |index: IfIndex| name_of(index, &agent.drive.names);
    let row = move |view: rsvp::views::PathView| {
        let phop = match view.origin {
            Origin::Hop(phop) => Some(phop),
            Origin::Local(_) => None,
        };
        SenderRow {
            session: view.session.into(),
            sender: view.template.into(),
            tspec: view.tspec.into(),
            phop: phop.map(|phop| phop.addr),
            iif: phop.map(|phop| name(phop.iif)),
            oif: view.out.oifs().first().copied().map(name),
            expires_in_ms: left(view.expires, now),
            non_rsvp_hop: phop.is_some_and(|phop| phop.non_rsvp),
        }
    };
    agent.drive.node.rsvp().paths().map(row)
}

/// Messages by type, then drops by reason.
pub fn counters(agent: &Agent) -> Vec<CounterRow> {
    let counters = agent.drive.node.rsvp().counters();
    let mut rows: Vec<CounterRow> = counters
        .received
        .iter()
        .zip(counters.sent.iter())
        .map(|((kind, received), (_, sent))| CounterRow { name: format!("{kind:?}"), received, sent })
        .collect();
    rows.extend(counters.dropped.iter().map(|(&why, &received)| CounterRow {
        name: format!("dropped: {why}"),
        received,
        sent: 0,
    }));
    rows.push(CounterRow { name: "refused".to_owned(), received: counters.refused, sent: 0 });
    let shed =
        IntakeClass::ALL.into_iter().map(|class| (class, agent.intake().counted(class).shed)).filter(|(_, n)| *n > 0);
    rows.extend(shed.map(|(class, received)| CounterRow {
        name: format!("shed: {}", class.name()),
        received,
        sent: 0,
    }));
    let full = agent.dropped_by_kernel();
    let (link, rest) = agent.drive.messages.dropped();
    for (name, received) in [
        ("dropped by the kernel: its queue was full", full),
        ("dropped before the queue: between neighbours", link),
        ("dropped before the queue: not of a reservation", rest),
    ] {
        rows.extend((received > 0).then(|| CounterRow { name: name.to_owned(), received, sent: 0 }));
    }
    rows.push(CounterRow { name: "not sent".to_owned(), received: 0, sent: agent.drive.messages.unsent() });
    rows
}
