//! Views of the engine for people and tests: plain values, read from the state blocks.

use crate::state::State;
use crate::state::psb::{Origin, OutgoingInterfaces};
use crate::state::rsb::{Confirm, NextHop};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use terms::ports::{Police, Preemption, RHandle};
use terms::{Adspec, FilterSpec, FlowSpec, IfIndex, SenderTemplate, Session, Span, Style, Time, Tspec};

/// A session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Senders known.
    pub senders: usize,
    /// Requests for reservations, of neighbours and of local applications.
    pub requests: usize,
    /// Local applications that receive.
    pub receivers: usize,
    /// The time until which flows of an earlier life of this node wait for their Path.
    pub adopted_until: Option<Time>,
}

/// A path state.
#[derive(Clone, PartialEq, Debug)]
pub struct PathView {
    /// The session.
    pub session: Session,
    /// The sender.
    pub template: SenderTemplate,
    /// The origin of its Paths.
    pub origin: Origin,
    /// The outgoing interfaces of its packets.
    pub out: OutgoingInterfaces,
    /// Multicast: true if its Paths come in by an interface that packets do not use; it is only remembered.
    pub remembered: bool,
    /// The flowspec that failed upstream, and the end of its blockade (RFC 2205 section 3.5).
    pub blockade: Option<(FlowSpec, Time)>,
    /// The sender's traffic.
    pub tspec: Tspec,
    /// The properties of the path up to here.
    pub adspec: Option<Adspec>,
    /// R of the previous hop.
    pub refresh: Span,
    /// End of its life unless refreshed.
    pub expires: Time,
    /// The time of our next refresh downstream.
    pub refreshed_at: Time,
    /// Our request to the previous hop for it, and the time of its next refresh.
    pub request: Option<(FlowSpec, Time)>,
    /// The style of that request.
    pub request_style: Option<Style>,
}

/// A request for a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvView {
    /// The session.
    pub session: Session,
    /// The senders: one for FF, those listed for SE, none for WF, which is for all.
    pub filters: Vec<FilterSpec>,
    /// The SCOPE of a wildcard request, if it came with one.
    pub scope: Option<Vec<IpAddr>>,
    /// Its pre-emption priority.
    pub priority: Option<Preemption>,
    /// The requester.
    pub next_hop: NextHop,
    /// Style.
    pub style: Style,
    /// The flowspec asked for.
    pub flowspec: FlowSpec,
    /// True if a confirmation for it is outstanding.
    pub confirm: bool,
    /// R of the requester.
    pub refresh: Span,
    /// End of its life unless refreshed.
    pub expires: Time,
}

/// The reservation of an outgoing interface: asked for, admitted, installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcView {
    /// The session.
    pub session: Session,
    /// Reservation style.
    pub style: Style,
    /// The senders: one for FF, those listed for SE, none for WF, which is for all.
    pub filters: Vec<FilterSpec>,
    /// The outgoing interface.
    pub oif: IfIndex,
    /// The places at which it is policed.
    pub police: Police,
    /// The sum of the senders' traffic (`Path_Te`).
    pub path_te: Tspec,
    /// Traffic control's handle of it.
    pub handle: RHandle,
    /// The flowspec last asked for.
    pub asked: FlowSpec,
    /// The flowspec that traffic control admitted.
    pub admitted: FlowSpec,
    /// The flowspec in the plane, as last read back.
    pub installed: Option<FlowSpec>,
}

/// The answers of a neighbour to Hello (RFC 3209 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HelloState {
    /// It has said no Hello yet.
    #[default]
    Unheard,
    /// It says Hello.
    Up,
    /// It said Hello before, and has been silent for three and a half intervals.
    Silent,
}

/// A neighbour, and the number of states that come from it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NeighbourView {
    /// Path states of which it is the previous hop.
    pub paths: usize,
    /// Reservation states that it asked for.
    pub reservations: usize,
    /// True if it is on the link, by its TTLs.
    pub direct: bool,
    /// True if its last message had the Refresh-Reduction-Capable flag (RFC 2961); `None`: refresh reduction is
    /// off here, or it was not heard.
    pub capable: Option<bool>,
    /// Its Hellos.
    pub hello: HelloState,
    /// The identifiers of the keys that it has signed with since we started.
    pub keys: Vec<u64>,
}

impl NeighbourView {
    /// A neighbour on the link that no state comes from.
    pub(crate) fn on_link() -> NeighbourView {
        NeighbourView { direct: true, ..NeighbourView::default() }
    }
}

/// All sessions.
pub(crate) fn sessions(state: &State) -> impl Iterator<Item = SessionView> + '_ {
    state.sessions().map(|(_, session, s)| SessionView {
        session: *session,
        senders: s.paths(),
        requests: s.requests(),
        receivers: s.receivers.len(),
        adopted_until: s.adopted_until(),
    })
}

/// All path states.
pub(crate) fn paths(state: &State) -> impl Iterator<Item = PathView> + '_ {
    state.psbs().map(|(_, key, p)| PathView {
        session: state.key(key.0),
        template: key.1,
        origin: p.origin,
        out: p.out.clone(),
        remembered: key.2.is_some(),
        blockade: p.blockade.as_ref().map(|b| (b.flowspec, b.until)),
        tspec: p.tspec,
        adspec: p.adspec,
        refresh: p.refresh,
        expires: p.expires,
        refreshed_at: p.path_refresh_at,
        request: p.request.map(|r| (r.flowspec, r.refresh_at)),
        request_style: p.request.map(|r| r.style),
    })
}

/// All requests for reservations.
pub(crate) fn reservations(state: &State) -> impl Iterator<Item = ResvView> + '_ {
    state.rsbs().map(|(_, key, r)| ResvView {
        session: state.key(key.0),
        filters: key.2.map_or_else(|| r.listed().collect(), |f| alloc::vec![f]),
        scope: r.scope().map(<[IpAddr]>::to_vec),
        priority: r.priority,
        next_hop: key.1,
        style: r.style,
        flowspec: r.flowspec,
        confirm: r.confirm.is_some_and(|c| c != Confirm::Answered),
        refresh: r.refresh,
        expires: r.expires,
    })
}

/// All reservations of outgoing interfaces.
pub(crate) fn traffic_control(state: &State) -> impl Iterator<Item = TcView> + '_ {
    state.tcsbs().map(|(_, key, t)| TcView {
        session: state.key(key.0),
        style: t.style,
        filters: key.2.map_or_else(|| t.filters.to_vec(), |f| alloc::vec![f]),
        police: t.told.police,
        path_te: t.told.path_te,
        oif: key.1,
        handle: t.handle,
        asked: t.asked(),
        admitted: t.admitted(),
        installed: t.installed(),
    })
}

/// The neighbours that any state comes from, by interface and address; of messages between neighbours nothing.
pub(crate) fn neighbours(state: &State) -> BTreeMap<(IfIndex, IpAddr), NeighbourView> {
    let mut all: BTreeMap<(IfIndex, IpAddr), NeighbourView> = BTreeMap::new();
    for (_, _, psb) in state.psbs() {
        if let Some(phop) = psb.phop() {
            let one = all.entry((phop.iif, phop.addr)).or_default();
            one.paths += 1;
            one.direct = !phop.non_rsvp;
        }
    }
    for (_, key, rsb) in state.rsbs() {
        if let NextHop::Hop { oif, addr } = key.1 {
            let one = all.entry((oif, addr)).or_default();
            one.reservations += 1;
            one.direct = rsb.direct;
        }
    }
    all
}

/// A digest of all state, without lifetimes, refresh times and counters: equal before and after a message
/// that was refused or dropped. It does not depend on the order in which states came.
pub(crate) fn digest(state: &State) -> u64 {
    let mut sum = 0u64;
    let mut add = |block: &dyn Fn(&mut Digest)| {
        let mut one = Digest(0xcbf2_9ce4_8422_2325);
        block(&mut one);
        sum = sum.wrapping_add(one.finish());
    };
    for (_, session, s) in state.sessions() {
        add(&|d| (0u8, session, &s.receivers, s.adopted_until()).hash(d));
    }
    for (_, key, p) in state.psbs() {
        let session = state.key(key.0);
        add(&|d| {
            (1u8, session, key.1, key.2, p.origin, p.tspec, p.ttl, &p.out, &p.forward, p.confirm, p.entry).hash(d);
            (
                p.request.map(|r| (r.flowspec, r.style)),
                p.other.as_ref().map(|o| o.phop),
                p.adspec.map(|a| alloc::format!("{a:?}")),
            )
                .hash(d);
        });
    }
    for (_, key, r) in state.rsbs() {
        let session = state.key(key.0);
        let confirm = match r.confirm {
            None | Some(Confirm::Answered) => None,
            Some(Confirm::Application) => Some(None),
            Some(Confirm::Receiver(addr)) => Some(Some(addr)),
        };
        let listed: Vec<_> = r.listed().collect();
        add(&|d| {
            (2u8, session, key.1, key.2, r.style, r.flowspec, &r.earlier, &r.forward, confirm).hash(d);
            (&listed, r.scope(), r.priority).hash(d);
        });
    }
    for (_, key, t) in state.tcsbs() {
        let session = state.key(key.0);
        add(&|d| (3u8, session, key.1, key.2, t.handle, t.admitted(), t.installed(), t.told, &t.filters).hash(d));
    }
    sum
}

/// FNV-1a, 64 bits: the same on every machine.
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
