//! The guarantees of every class of an interface, from the link and the sum of the ledger's grants on it.
//!
//! Pure arithmetic in wire rates. The law for every load that the ledger can admit: the guaranteed rates of
//! the classes sum to exactly the link (RFC 2211 and RFC 2212 need no more; HFSC, section II of the 1997
//! paper, and HTB keep their promise only then), and best effort is guaranteed the rest, at least its floor.
//! The controlled-load class alone may be guaranteed more than its reservations need ([`crate::growth`]).

use crate::growth;
use crate::io::Reservable;
use terms::{Bytes, FlowSpec, Rate, ServiceCurve, Session, Span, Tspec};
use traffic::plan::{BucketSpec, ClassSpec, LinkSpec, QueueSpec};

/// The guaranteed rate of the empty controlled-load class, so that it exists, with its counters, from the start.
const CONTROLLED_LOAD_FLOOR: Rate = Rate::from_kbps(8);

/// The delay variation of a flow that kept to its bucket some hops upstream.
const JITTER: Span = Span::from_millis(50);
/// The packets of a flow that may arrive together after such hops, one per hop.
const PACKETS_MERGED: u64 = 4;
/// The time that a full best-effort queue takes to drain.
const BEST_EFFORT_QUEUE: Span = Span::from_millis(75);
/// The fewest full packets that any queue holds.
const QUEUE_FLOOR: u64 = 32;
/// Signalling comes in bursts when many sessions refresh after an outage.
const CONTROL_QUEUE: QueueSpec = QueueSpec { packets: 1_000, bytes: Bytes::new(256 << 10) };

/// The sum of an interface's reservations, in wire rates and wire bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReservedLoad {
    /// Sum of the controlled-load rates.
    pub shared: Rate,
    /// Sum of their bucket depths.
    pub shared_depth: Bytes,
    /// The most packets that those buckets let through at once.
    pub shared_packets: u64,
    /// The sum of the rates of the classes for one flow each.
    pub own: Rate,
}

impl ReservedLoad {
    /// The load with one more reservation of `rate`.
    pub fn plus(&self, flowspec: &FlowSpec, rate: Rate, link: &LinkSpec) -> ReservedLoad {
        match flowspec {
            FlowSpec::ControlledLoad(t) => ReservedLoad {
                shared: self.shared.saturating_add(rate),
                shared_depth: self.shared_depth + wire_depth(link, t),
                shared_packets: self.shared_packets.saturating_add(burst_packets(link, t)),
                own: self.own,
            },
            FlowSpec::Guaranteed(..) => ReservedLoad { own: self.own.saturating_add(rate), ..*self },
        }
    }

    /// The load without a reservation that was added before.
    pub fn minus(&self, flowspec: &FlowSpec, rate: Rate, link: &LinkSpec) -> ReservedLoad {
        match flowspec {
            FlowSpec::ControlledLoad(t) => ReservedLoad {
                shared: self.shared.saturating_sub(rate),
                shared_depth: self.shared_depth.saturating_sub(wire_depth(link, t)),
                shared_packets: self.shared_packets.saturating_sub(burst_packets(link, t)),
                own: self.own,
            },
            FlowSpec::Guaranteed(..) => ReservedLoad { own: self.own.saturating_sub(rate), ..*self },
        }
    }
}

/// The load of a premium class, over all its flows, in wire rates and wire bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PremiumDemand {
    /// The sum of the promised rates.
    pub rate: Rate,
    /// The sum of the bursts that the edge lets through.
    pub depth: Bytes,
    /// The most packets in those bursts.
    pub packets: u64,
}

impl PremiumDemand {
    /// The load with one more flow that the edge polices to this bucket, of IP bytes.
    pub fn plus(&self, link: &LinkSpec, bucket: &BucketSpec) -> PremiumDemand {
        let on_the_wire = |rate: Rate| rate.with_overhead(link.overhead, bucket.min_unit);
        let depth = on_the_wire(Rate::from_bps(bucket.depth.get())).as_bps();
        let packets = bucket.depth.get() / u64::from(bucket.min_unit.max(1)) + 1;
        PremiumDemand {
            rate: self.rate.saturating_add(on_the_wire(bucket.rate)),
            depth: self.depth + Bytes::new(depth),
            packets: self.packets.saturating_add(packets),
        }
    }

    /// The sum of two loads.
    pub(crate) fn with(self, other: PremiumDemand) -> PremiumDemand {
        PremiumDemand {
            rate: self.rate.saturating_add(other.rate),
            depth: self.depth + other.depth,
            packets: self.packets.saturating_add(other.packets),
        }
    }

    /// The load without a part of it.
    pub(crate) fn without(self, part: PremiumDemand) -> PremiumDemand {
        PremiumDemand {
            rate: self.rate.saturating_sub(part.rate),
            depth: Bytes::new(self.depth.get().saturating_sub(part.depth.get())),
            packets: self.packets.saturating_sub(part.packets),
        }
    }

    /// The larger of two loads, in each respect.
    pub(crate) fn at_least(self, other: PremiumDemand) -> PremiumDemand {
        PremiumDemand {
            rate: self.rate.max(other.rate),
            depth: self.depth.max(other.depth),
            packets: self.packets.max(other.packets),
        }
    }

    /// The same load with at most this rate.
    fn at_most(&self, rate: Rate) -> PremiumDemand {
        PremiumDemand { rate: self.rate.min(rate), ..*self }
    }
}

/// The premium classes of an interface (seed 002 section 4.1): each exists only while it has flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Premium {
    /// Foreground flows, which are exact.
    pub foreground: PremiumDemand,
    /// Background flows, which share what the foreground leaves.
    pub background: PremiumDemand,
}

impl Premium {
    /// The part of the load that fits beside the other guarantees, foreground first: the sum of the classes
    /// never exceeds the link, whatever the input.
    fn within(&self, link: &LinkSpec, load: &ReservedLoad) -> Premium {
        let left = link.rate.saturating_sub(others(link, load));
        let foreground = self.foreground.at_most(left);
        Premium { foreground, background: self.background.at_most(left.saturating_sub(foreground.rate)) }
    }
}

/// The rate that the ledger keeps back from a link: the configured one, but at least the sum for signalling,
/// best effort's floor and the empty controlled-load class.
pub fn kept_back(terms: &Reservable) -> Rate {
    let link = &terms.spec;
    let needs = control_rate(link).saturating_add(best_effort_floor(link)).saturating_add(shared_floor(link));
    terms.kept_back.max(needs)
}

/// The class of signalling: small, guaranteed, first to borrow.
pub fn control(link: &LinkSpec) -> ClassSpec {
    let rate = control_rate(link);
    ClassSpec {
        real_time: Some(ServiceCurve::linear(rate)),
        link_share: rate,
        upper_limit: None,
        priority: 0,
        queue: CONTROL_QUEUE,
    }
}

/// The one class of all controlled-load flows (RFC 2211), after what it `has` in the plane: it grows in steps. Each
/// flow is policed to its bucket, so letting the class borrow first only empties bursts sooner.
pub fn controlled_load(link: &LinkSpec, load: &ReservedLoad, premium: &Premium, has: Option<&ClassSpec>) -> ClassSpec {
    let empty = load.shared == Rate::ZERO;
    let fits = premium.within(link, load);
    let rest = [control_rate(link), load.own, fits.foreground.rate, fits.background.rate, best_effort_floor(link)];
    let room = rest.into_iter().fold(link.rate, Rate::saturating_sub);
    let rate = growth::rate(link.rate, shared_rate(link, load), room, has.map(guaranteed), empty);
    let queue = burst_queue(link, load.shared_depth, load.shared_packets);
    ClassSpec {
        real_time: Some(ServiceCurve::linear(rate)),
        link_share: rate,
        upper_limit: None,
        priority: 2,
        queue: growth::queue(queue, has.map(|has| has.queue), empty),
    }
}

/// The class of all premium foreground flows: served before all but signalling (RFC 3246). Each is policed at
/// the edge, which drops the excess. `None`: there are none.
pub fn premium(link: &LinkSpec, load: &ReservedLoad, premium: &Premium) -> Option<ClassSpec> {
    aggregate(link, &premium.within(link, load).foreground, 1)
}

/// The packets of the queue of flows that are admitted by measurement: the seed's queue holds 50 in all.
const MEASURED_QUEUE: u32 = 50;

/// The class of flows that are admitted by measurement, with this rate granted to all of them together. It borrows before
/// all that is not exact, as the seed's controlled load goes before best effort.
pub fn measured(link: &LinkSpec, rate: Rate) -> ClassSpec {
    let bytes = u64::from(MEASURED_QUEUE) * full_packet(link);
    ClassSpec {
        real_time: (rate > Rate::ZERO).then(|| ServiceCurve::linear(rate)),
        link_share: rate.max(Rate::from_bps(1)),
        upper_limit: None,
        priority: 2,
        queue: QueueSpec { packets: MEASURED_QUEUE, bytes: Bytes::new(bytes) },
    }
}

/// The class of all premium background flows (RFC 2597), served after signalled flows.
pub fn background(link: &LinkSpec, load: &ReservedLoad, premium: &Premium) -> Option<ClassSpec> {
    aggregate(link, &premium.within(link, load).background, 3)
}

fn aggregate(link: &LinkSpec, all: &PremiumDemand, priority: u8) -> Option<ClassSpec> {
    (all.rate > Rate::ZERO).then(|| ClassSpec {
        real_time: Some(ServiceCurve::linear(all.rate)),
        link_share: all.rate,
        upper_limit: None,
        priority,
        queue: burst_queue(link, all.depth, all.packets),
    })
}

/// The sum of the guarantees of all classes but premium and best effort.
fn others(link: &LinkSpec, load: &ReservedLoad) -> Rate {
    control_rate(link).saturating_add(shared_rate(link, load)).saturating_add(load.own)
}

/// The best-effort class: its guarantee is the rest of the link, beside controlled load's of `shared`.
pub fn best_effort(link: &LinkSpec, load: &ReservedLoad, premium: &Premium, shared: Rate) -> ClassSpec {
    let fits = premium.within(link, load);
    let taken = [control_rate(link), shared, load.own, fits.foreground.rate, fits.background.rate];
    let rate = taken.into_iter().fold(link.rate, Rate::saturating_sub);
    let full = full_packet(link);
    let bytes = link.rate.supplies(BEST_EFFORT_QUEUE).get().max(QUEUE_FLOOR * full);
    ClassSpec {
        real_time: Some(ServiceCurve::linear(rate)),
        link_share: rate.max(Rate::from_bps(1)),
        upper_limit: None,
        priority: 7,
        queue: QueueSpec { packets: narrow(bytes / full), bytes: Bytes::new(bytes) },
    }
}

/// The class of one guaranteed flow (RFC 2212) that the ledger counts at `admitted`.
///
/// Its curve is the line of the reserved rate, not [`FlowSpec::service_curve`] (seed 000 section 3.3): that one falls
/// back to `min(r)` after `b / m1`, while a source whose peak is bounded is backlogged until `(b - M) / (R - r)`, and
/// the bits of that time would see up to `b / R` where RFC 2212 section 5 promises less. The ledger counts `R` for
/// good, so the line has no cost, and the flow's unused rate is lent as ever.
pub fn own(link: &LinkSpec, flowspec: &FlowSpec, admitted: Rate) -> ClassSpec {
    let tspec = flowspec.tspec();
    ClassSpec {
        real_time: Some(ServiceCurve::linear(admitted)),
        link_share: admitted,
        upper_limit: None,
        priority: 1,
        queue: burst_queue(link, wire_depth(link, tspec), burst_packets(link, tspec)),
    }
}

/// The policer of a flow where it enters the network: its token bucket, in IP bytes.
pub fn bucket(tspec: &Tspec) -> BucketSpec {
    BucketSpec { rate: tspec.r, depth: tspec.b, min_unit: tspec.m }
}

/// The policer of a flow inside the network (RFC 2211 section 5, RFC 2212 section 8): deeper by what queues upstream
/// may have pushed together. A flow that keeps to `(r, b)` where it enters comes out of a hop with up to
/// `b + Csum + r * Dsum` at once; policed to `b` again it would lose packets that it was promised. The sums are not told
/// to traffic control, so 50 ms and four packets stand for them. The rate is what protects the others, and that
/// is exact everywhere.
pub fn inner_bucket(link: &LinkSpec, tspec: &Tspec) -> BucketSpec {
    let packet = if tspec.M == 0 { link.mtu } else { tspec.M.min(link.mtu) };
    let pushed = tspec.r.demands(JITTER) + Bytes::new(PACKETS_MERGED * u64::from(packet));
    BucketSpec { rate: tspec.r, depth: tspec.b + pushed, min_unit: tspec.m }
}

/// The flowspec for charging: whatever its minimum policed unit, no packet of the session is shorter than its
/// headers, which `m` includes (RFC 2215 section 3.6): 20 octets of IPv4 or 40 of IPv6, and 20 more of TCP.
/// Some senders set `m` = 0 for unknown; packets of one octet would cost them 15 times their rate.
pub fn charged(session: &Session, flowspec: &FlowSpec) -> FlowSpec {
    const TCP: u8 = 6;
    let ip = if session.dst.is_ipv6() { 40 } else { 20 };
    let least = if session.protocol == TCP { ip + 20 } else { ip };
    let raised = |tspec: Tspec| Tspec { m: tspec.m.max(least), ..tspec };
    match *flowspec {
        FlowSpec::ControlledLoad(tspec) => FlowSpec::ControlledLoad(raised(tspec)),
        FlowSpec::Guaranteed(tspec, rspec) => FlowSpec::Guaranteed(raised(tspec), rspec),
    }
}

/// The rate that the ledger counts for a flowspec on this link: demand, so it rounds up.
pub fn demand(link: &LinkSpec, flowspec: &FlowSpec) -> Rate {
    flowspec.rate().with_overhead(link.overhead, flowspec.tspec().m)
}

/// The highest guaranteed rate of a class at any instant.
pub fn guaranteed(spec: &ClassSpec) -> Rate {
    spec.real_time.map_or(Rate::ZERO, |curve| if curve.d == Span::ZERO { curve.m2 } else { curve.m1.max(curve.m2) })
}

/// Signalling's rate: 1 % of the link, 64 kbit/s to 1 Mbit/s, and at most a quarter of a very slow link.
fn control_rate(link: &LinkSpec) -> Rate {
    link.rate.share(1, 100).clamp(Rate::from_kbps(64), Rate::from_mbps(1)).min(link.rate.share(1, 4))
}

/// The rate that best effort always keeps, for ICMP and the like.
fn best_effort_floor(link: &LinkSpec) -> Rate {
    control_rate(link)
}

fn shared_rate(link: &LinkSpec, load: &ReservedLoad) -> Rate {
    load.shared.max(shared_floor(link))
}

fn shared_floor(link: &LinkSpec) -> Rate {
    CONTROLLED_LOAD_FLOOR.min(link.rate.share(1, 4))
}

/// A bucket's depth on the wire: packets of the least size carry the most overhead.
fn wire_depth(link: &LinkSpec, tspec: &Tspec) -> Bytes {
    let depth = inner_bucket(link, tspec).depth.get();
    Bytes::new(Rate::from_bps(depth).with_overhead(link.overhead, tspec.m).as_bps())
}

fn burst_packets(link: &LinkSpec, tspec: &Tspec) -> u64 {
    (inner_bucket(link, tspec).depth.get() / u64::from(tspec.m.max(1))).saturating_add(1)
}

/// A queue with room for every bucket emptied at once, and for some full packets together from upstream queues.
fn burst_queue(link: &LinkSpec, depth: Bytes, packets: u64) -> QueueSpec {
    QueueSpec {
        packets: narrow(packets.saturating_add(QUEUE_FLOOR)),
        bytes: depth + Bytes::new(QUEUE_FLOOR * full_packet(link)),
    }
}

fn full_packet(link: &LinkSpec) -> u64 {
    (u64::from(link.mtu) + u64::from(link.overhead)).max(1)
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
