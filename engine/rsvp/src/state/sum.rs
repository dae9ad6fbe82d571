//! The sum of the traffic of senders under a wildcard reservation (`Path_Te`, RFC 2205 section 2.2).

use alloc::collections::BTreeMap;
use terms::{Bytes, Rate, Tspec};

/// The sum of senders' traffic, from which one can be taken out again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    count: u32,
    /// The number of them that are policed as they enter.
    entering: u32,
    r: u128,
    b: u128,
    p: u128,
    /// The number of senders with each `m`, and with each `M`.
    least: BTreeMap<u32, u32>,
    most: BTreeMap<u32, u32>,
}

/// The senders' terms for traffic control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// True if there is more than one.
    pub several: bool,
    /// True if at least one of them is policed as it enters.
    pub enters: bool,
    /// The sum of their traffic; `None`: there are none.
    pub tspec: Option<Tspec>,
}

impl Sum {
    /// Adds a sender.
    pub fn add(&mut self, tspec: &Tspec, entering: bool) {
        self.count += 1;
        self.entering += u32::from(entering);
        self.r += u128::from(tspec.r.as_bps());
        self.b += u128::from(tspec.b.get());
        self.p += u128::from(tspec.p.as_bps());
        *self.least.entry(tspec.m).or_default() += 1;
        *self.most.entry(tspec.M).or_default() += 1;
    }

    /// Takes out a sender that was added.
    pub fn take(&mut self, tspec: &Tspec, entering: bool) {
        self.count -= 1;
        self.entering -= u32::from(entering);
        self.r -= u128::from(tspec.r.as_bps());
        self.b -= u128::from(tspec.b.get());
        self.p -= u128::from(tspec.p.as_bps());
        for (sizes, size) in [(&mut self.least, tspec.m), (&mut self.most, tspec.M)] {
            let left = sizes.get(&size).map_or(0, |count| count - 1);
            if left == 0 {
                sizes.remove(&size);
            } else {
                sizes.insert(size, left);
            }
        }
    }

    /// The terms of all senders together, as traffic control is asked for them.
    pub fn together(&self) -> Together {
        Together { several: self.count > 1, enters: self.entering > 0, tspec: self.total() }
    }

    fn total(&self) -> Option<Tspec> {
        let (m, _) = self.least.first_key_value()?;
        let (most, _) = self.most.last_key_value()?;
        let word = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        let (r, p) = (Rate::from_bps(word(self.r)), Rate::from_bps(word(self.p)));
        Some(Tspec { r, b: Bytes::new(word(self.b)), p, m: *m, M: *most })
    }
}
