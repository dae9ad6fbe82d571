//! What every class of an interface gets, from the link and the sum of what the ledger granted on it.
//!
//! Pure arithmetic in wire rates. The law that holds for every load the ledger can admit: the guaranteed rates of the
//! classes sum to exactly the link (RFC 2211 and RFC 2212 need no more; HFSC, section II of the 1997 paper, and HTB
//! keep their promise only then), and best effort is guaranteed whatever nobody reserved.

use crate::io::Reservable;
use terms::{Bytes, FlowSpec, Rate, ServiceCurve, Session, Span, Tspec};
use traffic::plan::{BucketSpec, ClassSpec, LinkSpec, QueueSpec};

/// Controlled load's guaranteed rate while it is empty, so that the class is there, with its counters, from the start.
const CONTROLLED_LOAD_FLOOR: Rate = Rate::from_kbps(8);

/// How much later than another a packet of a flow may be that kept to its bucket some hops ago.
const JITTER: Span = Span::from_millis(50);
/// Packets of a flow that may catch up with each other, one a hop.
const PACKETS_MERGED: u64 = 4;
/// The time that a full best-effort queue takes to drain.
const BEST_EFFORT_QUEUE: Span = Span::from_millis(75);
/// The fewest full packets that any queue holds.
const QUEUE_FLOOR: u64 = 32;
/// Signalling comes in bursts when many sessions refresh after an outage.
const CONTROL_QUEUE: QueueSpec = QueueSpec { packets: 1_000, bytes: Bytes::new(256 << 10) };

/// What an interface's reservations hold together. Wire rates, wire bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReservedLoad {
    /// Sum of the controlled-load rates.
    pub shared: Rate,
    /// Sum of their bucket depths.
    pub shared_depth: Bytes,
    /// Most packets that those buckets let through at once.
    pub shared_packets: u64,
    /// Sum of the rates of the classes that belong to one flow each.
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

/// What a premium class has to serve, of all its flows together. Wire rates, wire bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PremiumDemand {
    /// What they were promised.
    pub rate: Rate,
    /// Sum of the bursts that the edge lets through.
    pub depth: Bytes,
    /// Most packets that those are.
    pub packets: u64,
}

impl PremiumDemand {
    /// With one more flow that the edge polices to this bucket, of IP bytes.
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

    /// The same, but at most so fast.
    fn at_most(&self, rate: Rate) -> PremiumDemand {
        PremiumDemand { rate: self.rate.min(rate), ..*self }
    }
}

/// The premium classes of an interface (seed 002 section 4.1): each is there only while it serves something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Premium {
    /// Foreground flows, which are exact.
    pub foreground: PremiumDemand,
    /// Background flows, which share what the foreground leaves.
    pub background: PremiumDemand,
}

impl Premium {
    /// As much of it as the link has beside what else is guaranteed, foreground first: the classes never sum over the
    /// link, whatever was told.
    fn within(&self, link: &LinkSpec, load: &ReservedLoad) -> Premium {
        let left = link.rate.saturating_sub(others(link, load));
        let foreground = self.foreground.at_most(left);
        Premium { foreground, background: self.background.at_most(left.saturating_sub(foreground.rate)) }
    }
}

/// What the ledger keeps back of a link: what the configuration says, and never less than signalling, best effort's
/// floor and the empty controlled-load class need.
pub fn kept_back(terms: &Reservable) -> Rate {
    let link = &terms.spec;
    let needs = control_rate(link).saturating_add(best_effort_floor(link)).saturating_add(shared_floor(link));
    terms.kept_back.max(needs)
}

/// Signalling: small, guaranteed, first to borrow.
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

/// The one class of all controlled-load flows (RFC 2211). Each flow is policed to its bucket, so letting the class
/// borrow first only empties bursts sooner.
pub fn controlled_load(link: &LinkSpec, load: &ReservedLoad) -> ClassSpec {
    let rate = shared_rate(link, load);
    ClassSpec {
        real_time: Some(ServiceCurve::linear(rate)),
        link_share: rate,
        upper_limit: None,
        priority: 2,
        queue: burst_queue(link, load.shared_depth, load.shared_packets),
    }
}

/// The class of all premium foreground flows: served before all but signalling (RFC 3246). Each is policed where it
/// enters, and what exceeds it is dropped there. `None`: there are none.
pub fn premium(link: &LinkSpec, load: &ReservedLoad, premium: &Premium) -> Option<ClassSpec> {
    aggregate(link, &premium.within(link, load).foreground, 1)
}

/// The class of all premium background flows (RFC 2597), behind what is signalled.
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

/// What is guaranteed to all but premium and best effort.
fn others(link: &LinkSpec, load: &ReservedLoad) -> Rate {
    control_rate(link).saturating_add(shared_rate(link, load)).saturating_add(load.own)
}

/// Best effort: guaranteed what is left.
pub fn best_effort(link: &LinkSpec, load: &ReservedLoad, premium: &Premium) -> ClassSpec {
    let fits = premium.within(link, load);
    let taken = others(link, load).saturating_add(fits.foreground.rate).saturating_add(fits.background.rate);
    let rate = link.rate.saturating_sub(taken);
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
/// good, so the line costs nobody anything, and what the flow leaves unused is lent as ever.
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

/// A flowspec as it is charged: whatever its minimum policed unit says, no packet of the session is shorter than its
/// headers, which `m` includes (RFC 2215 section 3.6): 20 octets of IPv4 or 40 of IPv6, and 20 more of TCP. Some
/// senders say `m` = 0 and mean that they do not know; packets of one octet would cost them 15 times their rate.
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

/// What the ledger counts for a flowspec on this link: demand, so it rounds up.
pub fn demand(link: &LinkSpec, flowspec: &FlowSpec) -> Rate {
    flowspec.rate().with_overhead(link.overhead, flowspec.tspec().m)
}

/// The most that a class is guaranteed at any instant.
pub fn guaranteed(spec: &ClassSpec) -> Rate {
    spec.real_time.map_or(Rate::ZERO, |curve| if curve.d == Span::ZERO { curve.m2 } else { curve.m1.max(curve.m2) })
}

/// 1 % of the link, at least 64 kbit/s and at most 1 Mbit/s, but never more than a quarter of a very slow link.
fn control_rate(link: &LinkSpec) -> Rate {
    link.rate.share(1, 100).clamp(Rate::from_kbps(64), Rate::from_mbps(1)).min(link.rate.share(1, 4))
}

/// Best effort is never starved altogether: ICMP and the like must live.
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

/// Room for every bucket emptied at once, and some full packets for what upstream queues pushed together.
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
