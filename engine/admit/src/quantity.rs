//! The quantities that a slot table counts: whole numbers of one unit.

use core::fmt::{Debug, Display};
use terms::Rate;

/// A quantity that a [`crate::SlotTable`] counts. One table counts one type, so that two units never meet in a sum.
pub trait Quantity: Copy + Ord + Debug + Display {
    /// Nothing.
    const ZERO: Self;

    /// So many units.
    fn of(count: u64) -> Self;

    /// The number of units.
    fn count(self) -> u64;
}

/// The largest capacity of a table, 2^62 units: sums of what fits under it cannot overflow.
pub const MOST: u64 = 1 << 62;

impl Quantity for Rate {
    const ZERO: Rate = Rate::ZERO;

    fn of(count: u64) -> Rate {
        Rate::from_bps(count)
    }

    fn count(self) -> u64 {
        self.as_bps()
    }
}

/// A number of units of a stock. The [`crate::StockLedger`] that counts it knows the unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Count(pub u64);

impl Quantity for Count {
    const ZERO: Count = Count(0);

    fn of(count: u64) -> Count {
        Count(count)
    }

    fn count(self) -> u64 {
        self.0
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Display::fmt(&self.0, f)
    }
}
