//! The shaping rate as a function of the queue: F of RFC 2963 sections 2.3 and 2.5.

use terms::{Bytes, Rate};

/// A piecewise linear, non-decreasing function: CIR below CIR_th, rising to (PIR at PIR_th and then) MIR at MIR_th, MIR above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateCurve {
    cir: Rate,
    pir: Rate,
    mir: Rate,
    cir_th: Bytes,
    pir_th: Bytes,
    mir_th: Bytes,
    buffer: Bytes,
}

/// The error in a shaper's configuration (the relations of sections 2.2 and 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadShaper {
    /// `0 < CIR <= PIR <= MIR <= line rate` does not hold.
    Rates {
        /// The CIR.
        cir: Rate,
        /// The PIR (CIR for a single-rate shaper).
        pir: Rate,
        /// The MIR.
        mir: Rate,
        /// The line rate.
        line: Rate,
    },
    /// `CIR_th <= PIR_th <= MIR_th <= buffer` does not hold.
    Thresholds {
        /// CIR_th.
        cir_th: Bytes,
        /// PIR_th (CIR_th for a single-rate shaper).
        pir_th: Bytes,
        /// MIR_th.
        mir_th: Bytes,
        /// The size of the buffer.
        buffer: Bytes,
    },
}

impl core::fmt::Display for BadShaper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadShaper::Rates { cir, pir, mir, line } => {
                write!(f, "CIR {cir}, PIR {pir}, MIR {mir}, line {line}: must be 0 < CIR <= PIR <= MIR <= line rate")
            }
            BadShaper::Thresholds { cir_th, pir_th, mir_th, buffer } => write!(
                f,
                "CIR_th {cir_th}, PIR_th {pir_th}, MIR_th {mir_th}, buffer {buffer}: must be CIR_th <= PIR_th <= MIR_th <= buffer"
            ),
        }
    }
}

impl core::error::Error for BadShaper {}

impl RateCurve {
    /// The curve of the srRAS (section 2.2), behind a buffer of `buffer` bytes on a line of rate `line`.
    ///
    /// # Errors
    /// [`BadShaper`] names the relation that does not hold.
    pub fn single(cir: Rate, mir: Rate, th: [Bytes; 2], buffer: Bytes, line: Rate) -> Result<RateCurve, BadShaper> {
        RateCurve::two(cir, cir, mir, [th[0], th[0], th[1]], buffer, line)
    }

    /// The curve of the trRAS (section 2.4); thresholds in the order CIR_th, PIR_th, MIR_th.
    ///
    /// # Errors
    /// [`BadShaper`] names the relation that does not hold.
    pub fn two(
        cir: Rate,
        pir: Rate,
        mir: Rate,
        th: [Bytes; 3],
        buffer: Bytes,
        line: Rate,
    ) -> Result<RateCurve, BadShaper> {
        if cir == Rate::ZERO || cir > pir || pir > mir || mir > line {
            return Err(BadShaper::Rates { cir, pir, mir, line });
        }
        let [cir_th, pir_th, mir_th] = th;
        if cir_th > pir_th || pir_th > mir_th || mir_th > buffer {
            return Err(BadShaper::Thresholds { cir_th, pir_th, mir_th, buffer });
        }
        Ok(RateCurve { cir, pir, mir, cir_th, pir_th, mir_th, buffer })
    }

    /// F: the least shaping rate while `occupancy` bytes wait, rounded down.
    pub fn rate(&self, occupancy: Bytes) -> Rate {
        if occupancy >= self.mir_th && occupancy > self.cir_th {
            self.mir
        } else if occupancy <= self.cir_th {
            self.cir
        } else if occupancy < self.pir_th {
            between(occupancy, self.cir_th, self.pir_th, self.cir, self.pir)
        } else {
            between(occupancy, self.pir_th, self.mir_th, self.pir, self.mir)
        }
    }

    /// The shaping rate: `max(EAR, F)` below MIR_th, and MIR from there on, at any average (sections 2.3 and 2.5).
    pub fn shaping_rate(&self, occupancy: Bytes, average: Rate) -> Rate {
        if occupancy >= self.mir_th && occupancy > self.cir_th {
            return self.mir;
        }
        self.rate(occupancy).max(average)
    }

    /// MIR.
    pub fn mir(&self) -> Rate {
        self.mir
    }

    /// The buffer's size.
    pub fn buffer(&self) -> Bytes {
        self.buffer
    }
}

/// Linear, rounded down; `from < x < to`.
fn between(x: Bytes, from: Bytes, to: Bytes, low: Rate, high: Rate) -> Rate {
    let run = to.get() - from.get();
    low.saturating_add(high.saturating_sub(low).share(x.get() - from.get(), run))
}
