//! The layouts of an edge's rules, shared with `bpf/edge.c` and `bpf/meter.h`, and the conversion to and from them.
//!
//! A rule with a meter has an entry as every rule has it, with a bit that says so, and beside it a profile in another map.
//! So the maps of a build without meters stay as they are, and such a build sees that it cannot adopt these rules.

use super::edge::SIDES;
use super::entry::{RawKey, RawState};
use terms::{Bytes, Dscp, Rate};
use traffic::conditioner::{MeterKind, MeterSpec};
use traffic::edge::{ColorCounters, EdgeAt, EdgeMeter, EdgeRule, MultiField, RedPackets};
use traffic::path::Tally;
use traffic::plan::{BucketSpec, Counters};

/// The version of a rule's entry.
const VERSION: u32 = 1;
/// The time that a byte takes at 1 bit/s, ns.
const BYTE: u64 = 8_000_000_000;
/// The bit of a mark that says that the rule has a meter.
const METERED: u32 = 0x100;

const SRTCM: u32 = 1;
const TRTCM: u32 = 2;
const RFC4115: u32 = 3;
const AWARE: u32 = 1;
const RED_MARKED: u32 = 2;

/// `struct rule_key`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRuleKey {
    flow: RawKey,
    side: u8,
    kind: u8,
    zero: [u8; 2],
}

/// `struct rule`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RawRuleEntry {
    slot: u32,
    mark: u32,
    rate: u64,
    depth: u64,
    fill: u64,
    min_unit: u32,
    version: u32,
    told: u64,
}

/// `struct profile`: a meter.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RawProfile {
    form: u32,
    flags: u32,
    rate: [u64; 2],
    burst: [u64; 2],
    fill: [u64; 2],
}

/// `struct credit`: the credit of a meter, and its counts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawCredit {
    lock: u32,
    form: u32,
    last: u64,
    level: [u64; 2],
    seen: [[u64; 2]; 4],
}

// SAFETY: `repr(C)`, no padding (44 + 1 + 1 + 2 = 48, aligned to 4), every bit pattern is a value.
unsafe impl aya::Pod for RawRuleKey {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 3 * 8 + 4 + 4 + 8 = 48, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawRuleEntry {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 6 * 8 = 56, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawProfile {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 3 * 8 + 8 * 8 = 96, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawCredit {}

const _: () = assert!(size_of::<RawRuleKey>() == 48 && size_of::<RawRuleEntry>() == 48);
const _: () = assert!(size_of::<RawProfile>() == 56 && size_of::<RawCredit>() == 96);

impl RawRuleKey {
    /// The key of a rule.
    pub fn new(at: EdgeAt, fields: &MultiField) -> RawRuleKey {
        let side = at.side as u8;
        RawRuleKey { flow: RawKey::new(at.interface, &fields.key()), side, kind: fields.kind(), zero: [0; 2] }
    }

    /// The edge and the fields of this key; `None` if no build of this layout wrote it.
    pub fn read(&self) -> Option<(EdgeAt, MultiField)> {
        let side = *SIDES.get(usize::from(self.side))?;
        let (interface, flow) = self.flow.read();
        Some((EdgeAt { interface, side }, MultiField::of(self.kind, &flow)))
    }
}

/// The time that fills an empty bucket, ns, rounded up.
fn fill(depth: u64, rate: u64) -> u64 {
    match (depth, rate) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        _ => depth.div_ceil(rate),
    }
}

impl RawRuleEntry {
    fn new(slot: u32, rule: &EdgeRule) -> RawRuleEntry {
        let told = rule.bucket.depth.get();
        let depth = told.min(u64::MAX / BYTE) * BYTE;
        let rate = rule.bucket.rate.as_bps();
        let metered = if rule.meter.is_some() { METERED } else { 0 };
        let (mark, min_unit) = (u32::from(rule.mark.0) | metered, rule.bucket.min_unit);
        RawRuleEntry { slot, mark, rate, depth, fill: fill(depth, rate), min_unit, version: VERSION, told }
    }

    pub(super) fn slot(&self) -> u32 {
        self.slot
    }

    pub(super) fn is_metered(&self) -> bool {
        self.mark & METERED != 0
    }
}

impl RawProfile {
    fn new(meter: &EdgeMeter) -> Option<RawProfile> {
        let (form, rates, bursts) = match meter.kind() {
            MeterKind::SrTcm { cir, cbs, ebs } => (SRTCM, [cir, Rate::ZERO], [cbs, ebs]),
            MeterKind::TrTcm { cir, cbs, pir, pbs } => (TRTCM, [cir, pir], [cbs, pbs]),
            MeterKind::Rfc4115 { cir, cbs, eir, ebs } => (RFC4115, [cir, eir], [cbs, ebs]),
            MeterKind::TswTcm { .. } => return None, // no `EdgeMeter` has it
        };
        let aware = if meter.is_aware() { AWARE } else { 0 };
        let red = if meter.red() == RedPackets::Marked { RED_MARKED } else { 0 };
        let rate = rates.map(|rate| rate.as_bps());
        // Both together fit: `EdgeMeter` checks it.
        let burst = bursts.map(|bytes| bytes.get().saturating_mul(BYTE));
        let first = if form == SRTCM { burst[0].saturating_add(burst[1]) } else { burst[0] };
        let fill = [fill(first, rate[0]), fill(burst[1], rate[1])];
        Some(RawProfile { form, flags: aware | red, rate, burst, fill })
    }

    fn read(&self) -> Option<EdgeMeter> {
        let [cir, other] = self.rate.map(Rate::from_bps);
        let [cbs, second] = self.burst.map(|burst| Bytes::new(burst / BYTE));
        let kind = match self.form {
            SRTCM => MeterKind::SrTcm { cir, cbs, ebs: second },
            TRTCM => MeterKind::TrTcm { cir, cbs, pir: other, pbs: second },
            RFC4115 => MeterKind::Rfc4115 { cir, cbs, eir: other, ebs: second },
            _ => return None,
        };
        let red = if self.flags & RED_MARKED == 0 { RedPackets::Excess } else { RedPackets::Marked };
        EdgeMeter::new(MeterSpec { kind, aware: self.flags & AWARE != 0 }, red).ok()
    }
}

impl RawCredit {
    /// The time at which its levels were right, ns of the kernel's monotonic clock.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn tally(&self, of: usize) -> Tally {
        let [packets, bytes] = self.seen[of];
        Tally { packets, bytes }
    }

    /// Green, yellow and red packets.
    pub fn colors(&self) -> ColorCounters {
        [self.tally(0), self.tally(1), self.tally(2).plus(self.tally(3))]
    }

    pub(super) fn counters(&self) -> Counters {
        let on = self.tally(0).plus(self.tally(1)).plus(self.tally(2));
        let over = self.tally(3);
        Counters { packets: on.packets, bytes: on.bytes, over_packets: over.packets, over_bytes: over.bytes }
    }
}

/// A rule as the programs have it: its entry, and the profile of its meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRule {
    entry: RawRuleEntry,
    profile: Option<RawProfile>,
}

impl RawRule {
    /// An entry for a rule, with the slot of its bucket and counters.
    pub fn new(slot: u32, rule: &EdgeRule) -> RawRule {
        let profile = rule.meter.as_ref().and_then(RawProfile::new);
        RawRule { entry: RawRuleEntry::new(slot, rule), profile }
    }

    pub(super) fn of(entry: RawRuleEntry, profile: Option<RawProfile>) -> RawRule {
        RawRule { entry, profile }
    }

    /// The index of the bucket and counters.
    pub fn slot(&self) -> u32 {
        self.entry.slot
    }

    /// True if the rule has a meter.
    pub fn is_metered(&self) -> bool {
        self.entry.is_metered()
    }

    pub(super) fn entry(&self) -> &RawRuleEntry {
        &self.entry
    }

    pub(super) fn profile(&self) -> Option<&RawProfile> {
        self.profile.as_ref()
    }

    /// The rule in this entry; `None` if another build wrote it, or its meter is not there.
    pub fn read(&self) -> Option<EdgeRule> {
        let RawRuleEntry { mark, rate, min_unit, version, told, .. } = self.entry;
        let mark = u8::try_from(mark & !METERED).ok().filter(|mark| *mark < 64)?;
        let bucket = BucketSpec { rate: Rate::from_bps(rate), depth: Bytes::new(told), min_unit };
        let meter = match self.entry.is_metered() {
            true => Some(self.profile.as_ref()?.read()?),
            false => None,
        };
        (version == VERSION).then_some(EdgeRule { bucket, mark: Dscp(mark), meter })
    }

    /// The state of a full bucket for this rule, with counters at zero.
    pub fn full(&self) -> RawState {
        let mut state = RawState::default();
        state.level = self.entry.depth;
        state
    }
}
