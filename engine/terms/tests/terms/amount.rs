//! Amounts: arithmetic and order within one unit, and none between two.

use core::cmp::Ordering;
use proptest::prelude::*;
use terms::book::ResourceKind;
use terms::{Amount, Misuse, Rate, Unit};

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(Unit::ALL.to_vec())
}

/// Two units that differ.
fn two_units() -> impl Strategy<Value = (Unit, Unit)> {
    let all = Unit::ALL;
    (0..all.len(), 1..all.len()).prop_map(move |(one, further)| (all[one], all[(one + further) % all.len()]))
}

/// Small numbers, so that equal ones are frequent, and those at the end of the range.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..8u64, (0..8u64).prop_map(|n| u64::MAX - n), any::<u64>()]
}

proptest! {
    #![proptest_config(chance::cases(5_000))]

    #[test]
    fn arithmetic_is_that_of_the_numbers_within_a_unit(unit in unit(), a in count(), b in count()) {
        let (x, y) = (Amount::new(a, unit), Amount::new(b, unit));
        prop_assert_eq!(x.saturating_add(y), Ok(Amount::new(a.saturating_add(b), unit)));
        prop_assert_eq!(x.checked_add(y), Ok(a.checked_add(b).map(|sum| Amount::new(sum, unit))));
        prop_assert_eq!(x.saturating_sub(y), Ok(Amount::new(a.saturating_sub(b), unit)));
        prop_assert_eq!(x.min(y), Ok(Amount::new(a.min(b), unit)));
        prop_assert_eq!(x.compare(y), Ok(a.cmp(&b)));
        prop_assert_eq!((x.partial_cmp(&y), x == y), (Some(a.cmp(&b)), a == b));
        prop_assert_eq!((x.count(), x.unit(), x.count_of(unit), x.is_zero()), (a, unit, Ok(a), a == 0));
    }

    #[test]
    fn units_do_not_mix((one, other) in two_units(), a in count(), b in count()) {
        let (x, y) = (Amount::new(a, one), Amount::new(b, other));
        let mixed = Misuse::OtherUnit { wanted: one, found: other };
        prop_assert_eq!(x.saturating_add(y), Err(mixed));
        prop_assert_eq!(x.checked_add(y), Err(mixed));
        prop_assert_eq!(x.saturating_sub(y), Err(mixed));
        prop_assert_eq!((x.min(y), x.compare(y)), (Err(mixed), Err(mixed)));
        prop_assert_eq!((x.partial_cmp(&y), x == y), (None, false));
        prop_assert_eq!(y.count_of(one), Err(mixed));
    }

    #[test]
    fn a_conversion_knows_its_unit(unit in unit(), a in count()) {
        let amount = Amount::new(a, unit);
        let of = |wanted| Misuse::OtherUnit { wanted, found: unit };
        let rate = if unit == Unit::NetworkBits { Ok(Rate::from_bps(a)) } else { Err(of(Unit::NetworkBits)) };
        prop_assert_eq!(amount.network_rate(), rate);
        let bytes = if unit == Unit::DiskBits { Ok(a.div_ceil(8)) } else { Err(of(Unit::DiskBits)) };
        prop_assert_eq!(amount.demands_disk_bytes(), bytes);
        prop_assert_eq!(Amount::network(Rate::from_bps(a)).network_rate(), Ok(Rate::from_bps(a)));
    }

    /// What a disk supplies in bytes is enough for what is booked of it in bits.
    #[test]
    fn bytes_of_a_disk_come_back(a in count()) {
        let back = Amount::disk_bytes(a).demands_disk_bytes();
        prop_assert_eq!(back, Ok(if a > u64::MAX / 8 { u64::MAX.div_ceil(8) } else { a }));
        let bytes = Amount::new(a, Unit::DiskBits).demands_disk_bytes().unwrap();
        prop_assert!(Amount::disk_bytes(bytes) >= Amount::new(a, Unit::DiskBits));
    }

    #[test]
    fn a_share_is_rounded_down(unit in unit(), a in count(), n in 0..3_000u32) {
        let share = u128::from(Amount::new(a, unit).thousandths(n).count());
        let exact = u128::from(a) * u128::from(n);
        prop_assert!(share == u128::from(u64::MAX) || (share * 1_000 <= exact && exact < (share + 1) * 1_000));
        prop_assert_eq!(Amount::new(a, unit).thousandths(1_000), Amount::new(a, unit));
    }
}

#[test]
fn each_kind_of_resource_has_a_unit_of_its_own() {
    for kind in ResourceKind::ALL {
        assert_eq!((kind.amount(7).count(), kind.amount(7).unit()), (7, kind.unit()));
        let others = ResourceKind::ALL.into_iter().filter(|other| *other != kind);
        assert!(others.into_iter().all(|other| other.unit() != kind.unit()), "{kind:?}");
    }
    assert_eq!(Amount::of_core(500_000).compare(ResourceKind::of("cpu").amount(500_000)), Ok(Ordering::Equal));
    assert_eq!(Amount::disk_bytes(20).compare(ResourceKind::of("disk/sda").amount(160)), Ok(Ordering::Equal));
    assert_eq!(Amount::pieces(3).compare(ResourceKind::of("licence/x").amount(3)), Ok(Ordering::Equal));
}

#[test]
fn it_is_said_with_its_unit() {
    assert_eq!(Amount::of_core(500_000).to_string(), "500000 millionths of a core");
    let mixed = Amount::pieces(1).saturating_add(Amount::of_core(1)).unwrap_err();
    assert_eq!(mixed.to_string(), "millionths of a core where pieces belong");
}
