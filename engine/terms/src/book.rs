//! Types for bookings: an amount of a resource, now or later, its owner, and its binding.
//!
//! GARA (Foster, Roy, Sander, Winkler, section 3.1): one opaque handle for reservations of any kind of resource, and
//! the same calls for all of them. Amounts are one integer whatever the resource: see [`ResourceKind`].
//! Windows here are calendar time: nanoseconds since 1970 in UTC, written as [`Time`].

mod binding;
mod handle;
mod meter;

use crate::{Amount, Bytes, Rate, Span, Time, Unit, Window};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub use binding::{Binding, BoundFlow, Task};
pub use handle::{BadHandle, Handle};
pub use meter::{MeterForm, MeterTerms};

/// A resource of this agent, by a number that its ledger gives out; `u32::MAX` is never one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceId(pub u32);

/// The kind of a resource. It decides the unit of an amount.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResourceKind {
    /// `net/IFACE`: the packets that leave the interface; bit/s of IP bytes.
    Network,
    /// `cpu`: millionths of a core.
    Cpu,
    /// `disk/NAME`: bit/s (bytes a second times 8).
    Disk,
    /// `licence/NAME`: pieces.
    Countable,
    /// `sla/PEER`: what a neighbouring domain may send us as premium, by agreement; bit/s of IP bytes.
    Sla,
    /// `measured/IFACE`: packets that leave the interface, of flows that are admitted when their window begins, by what is
    /// measured; bit/s of IP bytes.
    Measured,
}

impl ResourceKind {
    /// All kinds.
    pub const ALL: [ResourceKind; 6] = [
        ResourceKind::Network,
        ResourceKind::Cpu,
        ResourceKind::Disk,
        ResourceKind::Countable,
        ResourceKind::Sla,
        ResourceKind::Measured,
    ];

    /// The kind of the resource of this name, by the part before the slash. Any other name is a countable.
    pub fn of(name: &str) -> ResourceKind {
        match name.split('/').next() {
            Some("net") => ResourceKind::Network,
            Some("cpu") => ResourceKind::Cpu,
            Some("disk") => ResourceKind::Disk,
            Some("sla") => ResourceKind::Sla,
            Some("measured") => ResourceKind::Measured,
            _ => ResourceKind::Countable,
        }
    }

    /// The unit of an amount.
    pub const fn unit(self) -> Unit {
        match self {
            ResourceKind::Network => Unit::NetworkBits,
            ResourceKind::Cpu => Unit::CoreMillionths,
            ResourceKind::Disk => Unit::DiskBits,
            ResourceKind::Countable => Unit::Pieces,
            ResourceKind::Sla => Unit::SlaBits,
            ResourceKind::Measured => Unit::MeasuredBits,
        }
    }

    /// The amount that a bare number stands for, in a request or a journal.
    pub const fn amount(self, count: u64) -> Amount {
        Amount::new(count, self.unit())
    }

    /// True if an amount is a rate at which a volume is moved.
    pub const fn is_rate(self) -> bool {
        matches!(self, ResourceKind::Network | ResourceKind::Disk | ResourceKind::Sla | ResourceKind::Measured)
    }

    /// The kind whose amounts are written alike: an SLA's and a measured part's are rates, as a network part's are.
    pub const fn written_as(self) -> ResourceKind {
        match self {
            ResourceKind::Sla | ResourceKind::Measured => ResourceKind::Network,
            other => other,
        }
    }

    /// True if its parts are packets, which have a least size and a round-trip time.
    pub const fn has_packets(self) -> bool {
        matches!(self, ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured)
    }

    /// True if nothing is enforced before the part is bound to packets or processes.
    pub const fn needs_binding(self) -> bool {
        !matches!(self, ResourceKind::Countable | ResourceKind::Sla)
    }
}

/// The strength of a resource's promise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guarantee {
    /// It is kept against greedy users: unreserved traffic or work makes way.
    Reserved,
    /// Only a cap is possible here: the holder gets no more, others are not held back.
    Cap,
}

/// An amount in a window. A part has one or more, in order, none overlapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RateStep {
    /// The time in which the amount holds.
    pub window: Window,
    /// The amount, in the unit of the resource's [`ResourceKind`].
    pub amount: u64,
}

/// A background part has no amount of its own: it shares what foreground leaves (GARA section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Background {
    /// Its share against other background parts; at least 1.
    pub weight: u32,
    /// With less than this it is suspended, and gets nothing.
    pub floor: u64,
}

/// How a network part's packets travel; the ledger and the policer need this beside the rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketShape {
    /// The least size of its packets, bytes of IP; the ledger adds the link's overhead for each.
    pub packet: u32,
    /// The longest round-trip time, from which the policer's burst is computed: [`burst`].
    pub rtt: Span,
    /// The meter that colours its packets, of background parts alone; `None`: a bucket drops what exceeds the rate.
    pub meter: Option<MeterTerms>,
}

impl Default for PacketShape {
    /// 1,000 octets and 100 ms.
    fn default() -> PacketShape {
        PacketShape { packet: 1_000, rtt: Span::from_millis(100), meter: None }
    }
}

/// The depth of the policer's bucket (GARA section 5.1). For TCP it is the volume of the longest round-trip
/// time, from 8 KB to 2 MB; for the rest a quarter of that, at least 8 KB.
pub fn burst(rate: Rate, rtt: Span, tcp: bool) -> Bytes {
    let least = Bytes::new(8 << 10);
    let round_trip = rate.demands(rtt).clamp(least, Bytes::new(2 << 20));
    if tcp { round_trip } else { Bytes::new(round_trip.get() / 4).max(least) }
}

/// A caller, as the driver read it from a peer's credentials or certificate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Caller {
    /// The caller's one name, such as `uid:1000` or a certificate's subject.
    pub name: String,
    /// The groups that vouch for them.
    pub groups: Vec<String>,
    /// The caller's rights beyond those of every owner.
    pub role: CallerRole,
    /// The token of a virtual organisation that the caller shows, if any.
    pub token: Option<Arc<VoToken>>,
}

/// A token of a virtual organisation. The driver has verified that it is signed, whole, not revoked, and this
/// caller's. It takes rights away (its checks) and, under rules that name the organisation, it gives them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VoToken {
    /// The organisation.
    pub vo: String,
    /// The holder's groups in the organisation.
    pub groups: Vec<String>,
    /// The number by which this token can be revoked, hexadecimal.
    pub id: String,
    /// The token as it was shown; its checks are asked about each part of a request.
    pub bytes: Arc<[u8]>,
}

impl VoToken {
    /// The names by which rules mean the holder: `atlas`, and `atlas/physics` for each group.
    pub fn memberships(&self) -> impl Iterator<Item = String> + '_ {
        let groups = self.groups.iter().map(|group| alloc::format!("{}/{group}", self.vo));
        core::iter::once(self.vo.clone()).chain(groups)
    }

    /// Its name in audits: the organisation, and the beginning of its number.
    pub fn title(&self) -> String {
        alloc::format!("token {}:{}", self.vo, self.id.get(..12).unwrap_or(&self.id))
    }
}

impl Caller {
    /// The partner's domain that the caller belongs to; `None`: this one. See [`foreign`].
    pub fn domain(&self) -> Option<&str> {
        foreign(&self.name)
    }
}

/// The partner's domain in the name of a caller or group: `anl` of `anl/alice`. Our own names have no slash.
/// A name that the kernel of a broker's machine gave (`main/uid:0`) comes from our own broker; it has a colon
/// after its only slash.
pub fn foreign(name: &str) -> Option<&str> {
    let (first, rest) = name.split_once('/')?;
    (!rest.contains(':') || rest.contains('/')).then_some(first)
}

/// A caller's rights to the reservations of others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CallerRole {
    /// Their own reservations only; those of others are invisible.
    #[default]
    Owner,
    /// Read all, write none.
    Auditor,
    /// All reservations.
    Operator,
    /// A broker that speaks for no caller. It may see, commit and cancel what a broker of its domain made for
    /// people of that domain, as parts of reservations over several agents. It has none of its own.
    Broker,
}

/// The amount at an instant; zero outside of every step.
pub fn amount_at(steps: &[RateStep], t: Time) -> u64 {
    let after = steps.partition_point(|step| step.window.start() <= t);
    steps[..after].last().filter(|step| step.window.contains(t)).map_or(0, |step| step.amount)
}
