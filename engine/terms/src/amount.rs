//! Amounts of any resource: a number and its unit.
//!
//! A disk's bit/s, a millionth of a core and a licence are no bit/s of a link, though each is one integer in
//! requests, journals and answers. Here the unit stays with the number. Arithmetic and order exist only within one
//! unit; two units together are a [`Misuse`], never a number. A conversion says in its name what it converts, and
//! rounds by the law of [`Rate`]: supply down, demand up, nothing overflows.

use crate::{Misuse, Rate};
use core::cmp::Ordering;

/// The unit of an [`Amount`]. Each kind of resource has its own, even where two are written alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// bit/s of IP bytes that leave an interface.
    NetworkBits,
    /// Millionths of a core.
    CoreMillionths,
    /// bit/s that a disk reads and writes: bytes a second times 8.
    DiskBits,
    /// Pieces, such as licences.
    Pieces,
    /// bit/s of IP bytes that come in from a neighbouring domain.
    SlaBits,
    /// bit/s of IP bytes that leave an interface, admitted by what is measured there.
    MeasuredBits,
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 6] =
        [Unit::NetworkBits, Unit::CoreMillionths, Unit::DiskBits, Unit::Pieces, Unit::SlaBits, Unit::MeasuredBits];

    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::NetworkBits => "bit/s of a network",
            Unit::CoreMillionths => "millionths of a core",
            Unit::DiskBits => "bit/s of a disk",
            Unit::Pieces => "pieces",
            Unit::SlaBits => "bit/s of an agreement",
            Unit::MeasuredBits => "bit/s admitted by measurement",
        }
    }
}

/// A number of units.
///
/// Two amounts of different units are never equal, and [`PartialOrd`] gives them no order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Amount {
    count: u64,
    unit: Unit,
}

impl Amount {
    /// So many units.
    pub const fn new(count: u64, unit: Unit) -> Amount {
        Amount { count, unit }
    }

    /// Nothing, in a unit.
    pub const fn zero(unit: Unit) -> Amount {
        Amount { count: 0, unit }
    }

    /// The unit.
    pub const fn unit(self) -> Unit {
        self.unit
    }

    /// The number alone, as requests, journals and answers carry it: there the name of the resource tells the unit.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// True if it is nothing.
    pub const fn is_zero(self) -> bool {
        self.count == 0
    }

    /// The number of these units.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`] if the amount has another unit.
    pub const fn count_of(self, unit: Unit) -> Result<u64, Misuse> {
        if self.unit as u8 == unit as u8 {
            return Ok(self.count);
        }
        Err(Misuse::OtherUnit { wanted: unit, found: self.unit })
    }

    /// The sum, or the largest number of the unit.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`].
    pub fn saturating_add(self, other: Amount) -> Result<Amount, Misuse> {
        Ok(Amount { count: self.count.saturating_add(other.count_of(self.unit)?), ..self })
    }

    /// The sum; `None` if it does not fit in 64 bits.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`].
    pub fn checked_add(self, other: Amount) -> Result<Option<Amount>, Misuse> {
        let sum = self.count.checked_add(other.count_of(self.unit)?);
        Ok(sum.map(|count| Amount { count, ..self }))
    }

    /// The difference, or nothing.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`].
    pub fn saturating_sub(self, other: Amount) -> Result<Amount, Misuse> {
        Ok(Amount { count: self.count.saturating_sub(other.count_of(self.unit)?), ..self })
    }

    /// The order of the two.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`].
    pub fn compare(self, other: Amount) -> Result<Ordering, Misuse> {
        Ok(self.count.cmp(&other.count_of(self.unit)?))
    }

    /// The smaller of the two.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`].
    pub fn min(self, other: Amount) -> Result<Amount, Misuse> {
        Ok(if self.compare(other)? == Ordering::Greater { other } else { self })
    }

    /// So many thousandths of it, rounded down (a share that is *supplied*), saturating.
    pub const fn thousandths(self, n: u32) -> Amount {
        let wide = self.count as u128 * n as u128 / 1_000;
        let count = if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 };
        Amount { count, ..self }
    }

    /// From a rate of IP bytes on a network.
    pub const fn network(rate: Rate) -> Amount {
        Amount::new(rate.as_bps(), Unit::NetworkBits)
    }

    /// The rate of IP bytes on a network.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`]: it is of another resource.
    pub fn network_rate(self) -> Result<Rate, Misuse> {
        self.count_of(Unit::NetworkBits).map(Rate::from_bps)
    }

    /// From millionths of a core.
    pub const fn of_core(millionths: u64) -> Amount {
        Amount::new(millionths, Unit::CoreMillionths)
    }

    /// From bytes a second of a disk, saturating.
    pub const fn disk_bytes(per_second: u64) -> Amount {
        Amount::new(per_second.saturating_mul(8), Unit::DiskBits)
    }

    /// The bytes a second of a disk that this *demands*: rounded up.
    ///
    /// # Errors
    /// [`Misuse::OtherUnit`]: it is of another resource.
    pub fn demands_disk_bytes(self) -> Result<u64, Misuse> {
        self.count_of(Unit::DiskBits).map(|bits| bits.div_ceil(8))
    }

    /// From a number of pieces.
    pub const fn pieces(count: u64) -> Amount {
        Amount::new(count, Unit::Pieces)
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        self.compare(*other).ok()
    }
}

impl core::fmt::Display for Amount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.count, self.unit.name())
    }
}

impl core::fmt::Debug for Amount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
