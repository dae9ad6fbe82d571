//! Source models: constant bit rate, and on/off with exponential or Pareto times (the paper's Table 1 and section 4.1).

use crate::draw::{exponential, pareto};
use crate::rng::Rng;
use terms::{Rate, Span};

/// Wire bytes of a packet with 320 bytes of payload: RTP 12, UDP 8, IP 20, Ethernet 26 (section 4.1).
pub const WIRE: u32 = 320 + 12 + 8 + 20 + 26;

/// The distribution of on and off times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceShape {
    /// Always on.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto with this shape in thousandths: finite mean and infinite variance between 1,000 and 2,000.
    Pareto(u32),
}

/// A source model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// Its name in the paper.
    pub name: &'static str,
    /// Mean on time.
    pub on: Span,
    /// Mean off time.
    pub off: Span,
    /// Time between packets while on.
    pub interval: Span,
    /// The distribution of on and off times.
    pub shape: SourceShape,
    /// The number of packets after which a flow is recognised (section 4.2: 100 at 64 kbit/s, 10 at 256
    /// kbit/s).
    pub recognised_after: u32,
}

const SLOW: (Span, u32) = (Span::from_millis(40), 100);
const FAST: (Span, u32) = (Span::from_millis(10), 10);

const fn model(
    name: &'static str,
    on: u64,
    off: u64,
    (interval, recognised_after): (Span, u32),
    shape: SourceShape,
) -> Model {
    let (on, off) = (Span::from_millis(on), Span::from_millis(off));
    Model { name, on, off, interval, shape, recognised_after }
}

/// A constant 64 kbit/s of payload.
pub const CBR: Model = model("CBR", 1, 0, SLOW, SourceShape::Constant);
/// POO1 of Table 1.
pub const POO1: Model = model("POO1", 400, 400, SLOW, SourceShape::Pareto(1_500));
/// POO2 of Table 1.
pub const POO2: Model = model("POO2", 40, 360, FAST, SourceShape::Pareto(1_100));
/// POO3 of Table 1.
pub const POO3: Model = model("POO3", 313, 2925, SLOW, SourceShape::Pareto(1_100));
/// EXP1 of Table 1.
pub const EXP1: Model = model("EXP1", 313, 325, SLOW, SourceShape::Exponential);
/// EXP2 of Table 1.
pub const EXP2: Model = model("EXP2", 20, 180, FAST, SourceShape::Exponential);

impl Model {
    /// The rate on the wire while on, rounded up.
    pub fn peak(&self) -> Rate {
        let bit_nanos = u64::from(WIRE) * 8 * Span::NANOS_PER_SEC;
        Rate::from_bps(bit_nanos.div_ceil(self.interval.as_nanos()))
    }

    /// The mean rate on the wire, about: a burst has a packet at its start, which is half a packet more than its time.
    pub fn mean(&self) -> Rate {
        if self.shape == SourceShape::Constant {
            return self.peak();
        }
        let (on, interval) = (self.on.as_nanos(), self.interval.as_nanos());
        let burst = on + interval / 2;
        self.peak().share(burst, (burst + self.off.as_nanos()).max(1))
    }

    /// Draws the number of packets of the next on time: one at its start and one more at each whole interval
    /// within it.
    pub fn burst(&self, rng: &mut Rng) -> u64 {
        match self.shape {
            SourceShape::Constant => u64::MAX,
            shape => 1 + draw(shape, self.on, rng) / self.interval.as_nanos(),
        }
    }

    /// Draws the length of the next off time, ns.
    pub fn pause(&self, rng: &mut Rng) -> u64 {
        draw(self.shape, self.off, rng)
    }
}

/// Draws a time of that shape and mean, ns.
fn draw(shape: SourceShape, mean: Span, rng: &mut Rng) -> u64 {
    let time = match shape {
        SourceShape::Constant => mean,
        SourceShape::Exponential => exponential(rng, mean),
        SourceShape::Pareto(shape_milli) => pareto(rng, mean, shape_milli),
    };
    time.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_the_paper() {
        assert_eq!(EXP1.peak(), Rate::from_bps(77_200));
        assert_eq!(EXP2.peak(), Rate::from_bps(308_800));
    }

    #[test]
    fn means_are_those_of_table_1() {
        let mut rng = Rng::new(7, 7);
        for (shape, mean, tolerance) in [(SourceShape::Exponential, 313, 0.01), (SourceShape::Pareto(1_500), 400, 0.05)]
        {
            let n = 400_000;
            let sum: f64 = (0..n).map(|_| draw(shape, Span::from_millis(mean), &mut rng) as f64 / 1e6).sum();
            let got = sum / f64::from(n);
            assert!((got / mean as f64 - 1.0).abs() < tolerance, "{shape:?}: {got} for {mean}");
        }
        // A shape of 1.1 hardly has a mean that chance finds: its median is location x 2^(1/a), exactly.
        let mut times: Vec<u64> =
            (0..100_001).map(|_| draw(SourceShape::Pareto(1_100), Span::from_millis(2925), &mut rng)).collect();
        times.sort_unstable();
        let median = times[50_000] as f64 / 1e6;
        let expected = 2925.0 * 0.1 / 1.1 * 2_f64.powf(1.0 / 1.1);
        assert!((median / expected - 1.0).abs() < 0.02, "{median} for {expected}");
    }
}
