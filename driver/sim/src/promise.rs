//! The delay bound of guaranteed service as an invariant of every run (RFC 2212). Once a receiver's
//! guaranteed reservation is confirmed, no packet that the source sends within the Tspec may come later than
//! a bound. The bound is given by the path's error terms, the reserved rate and the propagation delay of the
//! links.
//!
//! A bucket at the source decides if a packet is within the Tspec. It begins *empty* and every packet is
//! charged to it, so it never holds more than the policer's bucket on the way: packets that conform here
//! conform there. Each packet carries the bound that held when it was sent. Any action on the net or the
//! reservation ends the promise until the next confirmation. The invariant does not say how soon a changed
//! path keeps its bound again.

use crate::map::{RouteMap, position};
use crate::net::Net;
use crate::packet::SimPacket;
use crate::run::{Broken, Run};
use crate::scenario::{NodeId, Scenario, ScenarioAction, SourceSpec};
use node::io::Upcall;
use rsvp::Rsvp;
use terms::guaranteed::delay_bound;
use terms::{FlowKey, FlowSpec, SenderTemplate, Session, Span, Time, Tspec};

/// The bound promised to a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Promise {
    tspec: Tspec,
    bound: Span,
    /// Level of the bucket, in units of 1 bit x 1 ns/s, at the time `at`.
    level: u128,
    at: Time,
}

/// Units of the bucket in one byte.
const BYTE: u128 = 8 * 1_000_000_000;

/// The words of a packet that carry its bound, ns; zero for none.
const WORDS: [usize; 2] = [2, 3];

impl Promise {
    /// Charges a packet sent at `now` to the bucket. Returns true if it is within the Tspec.
    fn conforms(&mut self, now: Time, len: u32) -> bool {
        let filled = u128::from(self.tspec.r.as_bps()) * u128::from(now.since(self.at).as_nanos());
        let full = u128::from(self.tspec.b.get()) * BYTE;
        let level = (self.level + filled).min(full);
        self.at = now;
        // A packet counts as m at least, and above M it is none of the flow's (RFC 2212, "Traffic Specification").
        let charge = u128::from(len.max(self.tspec.m)) * BYTE;
        let conforms = len <= self.tspec.M && charge <= level;
        self.level = level.saturating_sub(charge);
        conforms
    }
}

/// A source, and the bound promised to it.
struct Promised {
    flow: FlowKey,
    /// True if its node has an agent. No promise is made to others.
    agent: bool,
    promise: Option<Promise>,
}

/// The promises to all sources, and whether they were kept.
pub(crate) struct Promises {
    /// By number of the source.
    sources: Vec<Promised>,
    /// The number of actions that changed the net. Bounds promised before no longer hold.
    faults: u32,
    /// The number of packets that arrived with a valid bound, and the first that came later than its bound.
    bounded: u64,
    overdue: Option<Broken>,
}

impl Promises {
    /// No promise to any source of a scenario yet.
    pub(crate) fn new(scenario: &Scenario) -> Promises {
        let promised = |source: &SourceSpec| Promised {
            flow: source.flow,
            agent: scenario.nodes[source.node.0].agent,
            promise: None,
        };
        Promises { sources: scenario.sources.iter().map(promised).collect(), faults: 0, bounded: 0, overdue: None }
    }

    /// The number of packets that arrived with a valid bound.
    pub(crate) fn bounded(&self) -> u64 {
        self.bounded
    }

    /// The first packet that came later than its bound.
    pub(crate) fn overdue(&self) -> Option<Broken> {
        self.overdue
    }

    /// Handles a receiver's upcall: a confirmation makes a promise, an error or a lost state ends it.
    pub(crate) fn hear(&mut self, now: Time, net: &Net, rsvp: &Rsvp, upcall: &Upcall) {
        match upcall {
            Upcall::Confirm { session, template, flowspec, .. } => {
                let made = made(now, net, rsvp, (session, template), flowspec);
                for source in self.sources_of(session, template) {
                    source.promise = made.filter(|_| source.agent);
                }
            }
            Upcall::ResvGone { session, template } | Upcall::PathGone { session, template } => {
                self.sources_of(session, template).for_each(|source| source.promise = None);
            }
            Upcall::Error { session, template, .. } => match template {
                Some(template) => self.sources_of(session, template).for_each(|source| source.promise = None),
                None => self.end_all(),
            },
            _ => {}
        }
    }

    fn sources_of(&mut self, session: &Session, template: &SenderTemplate) -> impl Iterator<Item = &mut Promised> {
        self.sources.iter_mut().filter(move |source| {
            let flow = source.flow;
            let to = (flow.dst, flow.protocol, flow.dst_port) == (session.dst, session.protocol, session.dst_port);
            to && flow.src == template.src && u32::from(flow.src_port) == template.src_port
        })
    }

    fn end_all(&mut self) {
        self.sources.iter_mut().for_each(|source| source.promise = None);
    }

    /// Ends all promises before an action that changes the net.
    pub(crate) fn end_with(&mut self, action: &ScenarioAction) {
        let harmless = matches!(
            action,
            ScenarioAction::Send { .. } | ScenarioAction::Receive { .. } | ScenarioAction::ClockStep { .. }
        );
        // Packets on their way carry their bound; faults may make them late.
        if !harmless {
            self.end_all();
            self.faults += 1;
        }
    }

    /// Writes the promised bound into a packet that the source sends.
    pub(crate) fn mark(&mut self, n: usize, now: Time, packet: &mut SimPacket) {
        let Some(promise) = &mut self.sources[n].promise else { return };
        if promise.conforms(now, u32::from(packet.len)) {
            let bound = promise.bound.as_nanos();
            (packet.words[WORDS[0]], packet.words[WORDS[1]]) = (bound as u32, (bound >> 32) as u32);
            packet.words[4] = self.faults;
        }
    }

    /// Checks that a packet has arrived within the bound that it carries.
    pub(crate) fn check(&mut self, run: &Run, at: usize, packet: &SimPacket) {
        let bound = u64::from(packet.words[WORDS[0]]) | u64::from(packet.words[WORDS[1]]) << 32;
        if bound == 0 || packet.words[4] != self.faults {
            return;
        }
        self.bounded += 1;
        let late = run.now().as_nanos() - packet.sent > bound;
        if late && self.overdue.is_none() {
            self.overdue = Some(run.broke(Some(NodeId(at)), "a packet of a guaranteed flow came later than its bound"));
        }
    }
}

/// The promise of a confirmed request: none, unless the service is guaranteed and every hop exports its error
/// terms.
fn made(
    now: Time,
    net: &Net,
    rsvp: &Rsvp,
    (session, template): (&Session, &SenderTemplate),
    flowspec: &FlowSpec,
) -> Option<Promise> {
    let FlowSpec::Guaranteed(tspec, rspec) = flowspec else { return None };
    let path = rsvp.paths().find(|path| (path.session, path.template) == (*session, *template))?;
    let terms = path.adspec?.guaranteed.filter(|terms| !terms.break_bit)?;
    // The source sends what it says in its Path; the bound is for what the receiver reserved. Both must hold.
    let tspec = if path.tspec == *tspec { *tspec } else { return None };
    let wires = wires(net.map(), net.links(), template, session)?;
    let bound = delay_bound(&tspec, rspec.R, terms.c_tot, terms.d_tot).saturating_add(wires);
    Some(Promise { tspec, bound, level: 0, at: now })
}

/// The propagation delay of the route; `None` if a link on it has random faults.
fn wires(map: &RouteMap, links: &[crate::link::SimLink], template: &SenderTemplate, session: &Session) -> Option<Span> {
    let (mut at, end) = (map.owner(template.src)?, map.owner(session.dst)?);
    let mut sum = Span::ZERO;
    while at != end {
        let attachment = map.attachments(at)[position(map.way_out(at, session.dst)?)];
        let link = &links[attachment.link.0];
        // Where packets are lost, doubled or held up by chance nothing is promised.
        if link.spoils_data() {
            return None;
        }
        sum = sum.saturating_add(link.spec().delay);
        at = map.end(attachment.link, 1 - attachment.side).0;
    }
    Some(sum)
}
