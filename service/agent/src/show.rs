//! The operator's tables: rows of RSVP's state, the ledger and the kernel, filtered, at most a line's worth.

use crate::agent::Agent;
use crate::keys;
use crate::news::name_of;
use crate::read_back::{self, ReadBack};
use crate::status;
use control::status::ReservationView;
use documents::agent::{ReservationRow, RowFilter, Rows, SenderRow, SessionId, TableDoc, View};
use documents::rows::InstalledState;
use documents::show::{
    HelloStateDoc, InstalledRow, NeighbourKeyDoc, NeighbourRow, RequestRow, RsvpInterfaceRow, SignallingRow,
};
use rsvp::Origin;
use rsvp::integrity::AuthMode;
use rsvp::views::HelloState;
use terms::{Fault, IfIndex, Time};
use wire::MessageType;

/// One table.
pub fn show(agent: &mut Agent, view: View, filter: &RowFilter) -> Result<TableDoc, Fault> {
    Ok(match view {
        View::Interfaces => cut(filter, interfaces(agent, filter), Rows::Interfaces),
        View::Neighbours => cut(filter, neighbours(agent, filter), Rows::Neighbours),
        View::Sessions => {
            let rows = status::sessions(agent).filter(|row| filter.wants_session(&row.session));
            cut(filter, rows, Rows::Sessions)
        }
        View::Senders => {
            let on = |row: &SenderRow| filter.wants_interface([row.iif.as_deref(), row.oif.as_deref()]);
            let rows = status::senders(agent).filter(|row| filter.wants_session(&row.session) && on(row));
            cut(filter, rows, Rows::Senders)
        }
        View::Requests => cut(filter, requests(agent, filter), Rows::Requests),
        View::Reservations => {
            let on = |row: &ReservationRow| filter.wants_interface([row.oif.as_deref()]);
            let rows = status::reservations(agent)?.into_iter();
            cut(filter, rows.filter(|row| filter.wants_session(&row.session) && on(row)), Rows::Reservations)
        }
        View::Installed => {
            let rows = installed(agent, filter)?;
            cut(filter, rows.into_iter(), Rows::Installed)
        }
        View::Counters => cut(filter, status::counters(agent).into_iter(), Rows::Counters),
        View::Signalling => cut(filter, signalling(agent, filter), Rows::Signalling),
        View::Mace => cut(filter, crate::mace::show(&agent.drive, filter.limit()).into_iter(), Rows::Mace),
    })
}

/// As many rows as fit, and how many more there are.
fn cut<T>(filter: &RowFilter, mut rows: impl Iterator<Item = T>, to: impl FnOnce(Vec<T>) -> Rows) -> TableDoc {
    let kept = rows.by_ref().take(filter.limit()).collect();
    TableDoc { rows: to(kept), more: rows.count() }
}

fn interfaces<'a>(agent: &'a Agent, filter: &'a RowFilter) -> impl Iterator<Item = RsvpInterfaceRow> + 'a {
    let wanted = agent.drive.config.interfaces.iter().filter(|i| filter.wants_interface([Some(i.name.as_str())]));
    let neighbours = agent.drive.node.rsvp().neighbours();
    wanted.map(move |wanted| {
        let state = agent.drive.interfaces.values().find(|state| state.name == wanted.name);
        let index = state.map(|state| state.index);
        let link = agent.drive.node.links().find(|link| Some(link.oif) == index);
        let (received, sent) = index.map_or((0, 0), |index| agent.drive.messages.signalling().total(index));
        RsvpInterfaceRow {
            name: wanted.name.clone(),
            up: state.is_some(),
            addresses: state.map(|state| state.addresses.clone()).unwrap_or_default(),
            allocated_wire_bps: link.map_or(0, |link| link.reserved.as_bps()),
            reservable_wire_bps: link.map(|link| link.reservable.as_bps()),
            reservations: agent.drive.node.reservations().filter(|held| Some(held.oif) == index).count(),
            neighbours: neighbours.iter().filter(|(interface, ..)| Some(*interface) == index).count(),
            auth: crate::auth::words(agent.drive.auth.get(&wanted.name)),
            refresh_ms: agent.drive.config.rsvp.refresh.as_millis(),
            received,
            sent,
        }
    })
}

fn neighbours<'a>(agent: &'a Agent, filter: &'a RowFilter) -> impl Iterator<Item = NeighbourRow> + 'a {
    let now = agent.drive.clock.now();
    let all = agent.drive.node.rsvp().neighbours().into_iter().map(move |(interface, address, known)| {
        let counted = agent.drive.messages.signalling().of_peer(interface, address);
        NeighbourRow {
            interface: name_of(interface, &agent.drive.names),
            address,
            paths: known.paths,
            reservations: known.reservations,
            direct: known.direct,
            refresh_reduction: known.capable,
            hello: match known.hello {
                HelloState::Unheard => HelloStateDoc::Unheard,
                HelloState::Up => HelloStateDoc::Up,
                HelloState::Silent => HelloStateDoc::Silent,
            },
            keys: known.keys.iter().map(|id| key_of(agent, interface, *id)).collect(),
            received: counted.received,
            sent: counted.sent,
            heard_ms_ago: counted.heard.map(|heard| now.since(heard).as_millis()),
        }
    });
    all.filter(|row| filter.wants_interface([Some(row.interface.as_str())]))
}

/// A key that a neighbour signed with, as the interface's file of keys has it.
fn key_of(agent: &Agent, interface: IfIndex, id: u64) -> NeighbourKeyDoc {
    let auth = agent.drive.names.get(&interface).and_then(|name| agent.drive.auth.get(name));
    let algorithm = match auth {
        Some(AuthMode::Keys(table)) => {
            table.keys().iter().find(|key| key.id == id).map(|key| keys::name(key.algorithm))
        }
        _ => None,
    };
    NeighbourKeyDoc { id, algorithm: algorithm.map(str::to_owned) }
}

fn requests<'a>(agent: &'a Agent, filter: &'a RowFilter) -> impl Iterator<Item = RequestRow> + 'a {
    let now = agent.drive.clock.now();
    let all = agent.drive.node.rsvp().paths().filter_map(move |path| {
        let (flowspec, refresh_at) = path.request?;
        let phop = match path.origin {
            Origin::Hop(phop) => Some(phop),
            Origin::Local(_) => None,
        };
        let session = SessionId::from(path.session);
        filter.wants_session(&session).then(|| RequestRow {
            session,
            sender: path.template.into(),
            phop: phop.map(|phop| phop.addr),
            interface: phop.map(|phop| name_of(phop.iif, &agent.drive.names)),
            style: path.request_style.map(Into::into),
            asked: flowspec.into(),
            refresh_in_ms: left(refresh_at, now),
        })
    });
    all.filter(|row| filter.wants_interface([row.interface.as_deref()]))
}

fn installed(agent: &mut Agent, filter: &RowFilter) -> Result<Vec<InstalledRow>, Fault> {
    let read = ReadBack::of(&mut agent.drive.plane)?;
    let now = agent.drive.clock.now();
    let row = |held: ReservationView| {
        let entry = read.flow(&(held.oif, held.flow));
        let counted = read.counted(&(held.oif, held.flow));
        let state = match entry {
            None if held.installed => InstalledState::Missing,
            _ if held.adopted_until.is_some() => InstalledState::Adopted,
            _ if held.installed => InstalledState::Installed,
            _ => InstalledState::Pending,
        };
        InstalledRow {
            interface: name_of(held.oif, &agent.drive.names),
            session: held.session.into(),
            sender: held.flow.sender(&held.session).into(),
            asked: held.asked.into(),
            tspec: held.sender_tspec.into(),
            admitted_wire_bps: held.admitted.as_bps(),
            state,
            class: read_back::class_name(held.class),
            shared: read_back::is_shared(held.class),
            bucket_bps: entry.map(|entry| entry.bucket.rate.as_bps()),
            bucket_bytes: entry.map(|entry| entry.bucket.depth.get()),
            packets: counted.packets,
            excess_packets: counted.over_packets,
            adopted_for_ms: held.adopted_until.and_then(|until| left(until, now)),
        }
    };
    let wanted = |row: &InstalledRow| {
        filter.wants_session(&row.session) && filter.wants_interface([Some(row.interface.as_str())])
    };
    Ok(agent.drive.node.reservations().map(row).filter(wanted).collect())
}

fn signalling<'a>(agent: &'a Agent, filter: &'a RowFilter) -> impl Iterator<Item = SignallingRow> + 'a {
    let now = agent.drive.clock.now();
    let all = agent.drive.messages.signalling().by_type().map(move |(interface, kind, both)| SignallingRow {
        interface: interface
            .map_or_else(|| "(by route)".to_owned(), |interface| name_of(interface, &agent.drive.names)),
        message: MessageType::from_number(kind).map_or_else(|| format!("type {kind}"), |kind| kind.name().to_owned()),
        received: both.received.total,
        sent: both.sent.total,
        received_per_s: both.received.rate(now),
        sent_per_s: both.sent.rate(now),
        received_peak_per_s: both.received.peak,
        sent_peak_per_s: both.sent.peak,
    });
    all.filter(|row| filter.wants_interface([Some(row.interface.as_str())]))
}

fn left(until: Time, now: Time) -> Option<u64> {
    (until != Time::FOREVER).then(|| until.since(now).as_millis())
}
