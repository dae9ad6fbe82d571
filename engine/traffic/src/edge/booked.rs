//! The meter of a booked rate: what its terms leave open follows from the bucket that the rate would have.

use super::{EdgeMeter, RedPackets};
use crate::conditioner::{MeterKind, MeterSpec};
use crate::spec::BucketSpec;
use terms::book::{MeterForm, MeterTerms};
use terms::{Bytes, Rate};

/// The largest burst that follows from others: both of a meter together must fit 64 bits of credit.
const LARGEST: u64 = 1 << 30;

impl EdgeMeter {
    /// The meter of these terms in the place of a bucket: its committed rate is the bucket's, and its committed burst the
    /// bucket's depth unless the terms say another. The peak rate is twice the committed one, the excess rate the same as
    /// the committed one, unless said; a peak below the rate that is booked by now counts as that. The second burst is in
    /// proportion to its rate; the excess burst of srTCM is as large as the committed one.
    pub fn booked(terms: &MeterTerms, bucket: &BucketSpec) -> Option<EdgeMeter> {
        let cir = bucket.rate;
        let cbs = terms.burst().unwrap_or_else(|| bucket.depth.clamp(Bytes::new(1), Bytes::new(LARGEST)));
        let second = |rate: Rate| terms.second_burst().unwrap_or_else(|| in_proportion(cbs, rate, cir));
        let kind = match terms.form() {
            MeterForm::SrTcm => MeterKind::SrTcm { cir, cbs, ebs: second(cir) },
            MeterForm::TrTcm => {
                let pir = terms.rate().unwrap_or_else(|| cir.saturating_add(cir)).max(cir);
                MeterKind::TrTcm { cir, cbs, pir, pbs: second(pir) }
            }
            MeterForm::Rfc4115 => {
                let eir = terms.rate().unwrap_or(cir);
                MeterKind::Rfc4115 { cir, cbs, eir, ebs: second(eir) }
            }
        };
        let red = if terms.marks_red() { RedPackets::Marked } else { RedPackets::Excess };
        EdgeMeter::new(MeterSpec { kind, aware: terms.is_aware() }, red).ok()
    }
}

/// The burst that is to the second rate what the first is to the committed one, rounded up; at least a whole packet, or the
/// committed burst if that is smaller.
fn in_proportion(burst: Bytes, rate: Rate, committed: Rate) -> Bytes {
    let scaled = u128::from(burst.get()) * u128::from(rate.as_bps());
    let scaled = scaled.div_ceil(u128::from(committed.as_bps().max(1)));
    let least = burst.get().min(8 << 10);
    Bytes::new(u64::try_from(scaled).unwrap_or(LARGEST).clamp(least, LARGEST))
}
