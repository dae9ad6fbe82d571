//! The order in which the reservations of a link are displaced (RFC 3181): the lowest defending priority first, as few
//! as suffice, none in vain.

use crate::held::Place;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::Rate;

/// The reservations of a link, by defending priority and by rate. Many have the same rate, so the tree stays
/// small and the lists hold most entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    by: BTreeMap<(u16, Rate), Vec<Place>>,
}

/// A reservation to displace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Victim {
    pub(crate) place: Place,
    defending: u16,
    rate: Rate,
}

impl Ranks {
    /// Adds a reservation; returns its rank, which is needed to remove it.
    pub(crate) fn add(&mut self, defending: u16, rate: Rate, place: Place) -> u32 {
        let equals = self.by.entry((defending, rate)).or_default();
        equals.push(place);
        equals.len() as u32 - 1
    }

    /// Removes a reservation. Returns the place that has its rank now.
    pub(crate) fn remove(&mut self, defending: u16, rate: Rate, rank: u32) -> Option<Place> {
        let equals = self.by.get_mut(&(defending, rate))?;
        equals.swap_remove(rank as usize);
        let moved = equals.get(rank as usize).copied();
        if equals.is_empty() {
            self.by.remove(&(defending, rate));
        }
        moved
    }

    /// The reservations to displace for `need` by a request with priority `preempting`; `but` is never one.
    /// `None`: all of them together would not suffice.
    pub(crate) fn choose(&self, preempting: u16, need: Rate, but: Option<Place>) -> Option<Vec<Victim>> {
        let mut chosen = Vec::new();
        let mut left = need.as_bps();
        let mut level = 0;
        while left > 0 && level < preempting {
            let (&(defending, _), _) = self.by.range((level, Rate::ZERO)..(preempting, Rate::ZERO)).next()?;
            left = self.choose_level(defending, left, but, &mut chosen);
            level = defending + 1;
        }
        if left > 0 {
            return None;
        }
        Some(spare(chosen, need))
    }

    /// Takes as few as suffice from those with one defending priority: the largest first, and at the end the
    /// smallest that is large enough. Returns the rate that is still missing.
    fn choose_level(&self, defending: u16, mut left: u64, but: Option<Place>, chosen: &mut Vec<Victim>) -> u64 {
        let level = || self.by.range((defending, Rate::ZERO)..=(defending, Rate::INFINITE));
        let of = |rate: Rate| move |&place: &Place| Victim { place, defending, rate };
        for ((_, rate), equals) in level().rev() {
            for victim in equals.iter().rev().filter(|place| Some(**place) != but).map(of(*rate)) {
                if rate.as_bps() < left {
                    left -= rate.as_bps();
                    chosen.push(victim);
                    continue;
                }
                // Every one from here up that is not taken yet is large enough; the smallest such.
                let enough = level().filter(|((_, rate), _)| rate.as_bps() >= left);
                let all = enough.flat_map(|((_, rate), equals)| equals.iter().rev().map(of(*rate)));
                let free = |victim: &Victim| Some(victim.place) != but && !chosen.contains(victim);
                let last = all.into_iter().find(free).unwrap_or(victim);
                chosen.push(last);
                return 0;
            }
        }
        left
    }
}

/// Removes unnecessary victims: those with the highest defending priority first, and of those the largest.
fn spare(mut chosen: Vec<Victim>, need: Rate) -> Vec<Victim> {
    let sum = chosen.iter().fold(Rate::ZERO, |sum, victim| sum.saturating_add(victim.rate));
    let mut surplus = sum.saturating_sub(need);
    chosen.sort_unstable_by_key(|victim| core::cmp::Reverse((victim.defending, victim.rate, victim.place)));
    chosen.retain(|victim| {
        let spared = victim.rate <= surplus;
        if spared {
            surplus = surplus.saturating_sub(victim.rate);
        }
        !spared
    });
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator, so that a failure can be had again (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % n
        }
    }

    type One = (u16, u64);

    /// Every subset: those that suffice, and among them the lowest of the best defended victim.
    fn lowest(all: &[One], preempting: u16, need: u64) -> Option<u16> {
        let sets = 1..1u32 << all.len();
        let set = |bits: u32| all.iter().enumerate().filter(move |(n, _)| bits >> n & 1 == 1).map(|(_, one)| *one);
        let good = |bits: &u32| {
            set(*bits).all(|(defending, _)| defending < preempting)
                && set(*bits).map(|(_, rate)| rate).sum::<u64>() >= need
        };
        sets.filter(good).filter_map(|bits| set(bits).map(|(defending, _)| defending).max()).min()
    }

    #[test]
    fn those_who_defend_themselves_least_go_and_nobody_in_vain() {
        let mut dice = Dice(7);
        let (mut displaced, mut refused) = (0, 0);
        for round in 0..4_000 {
            let all: Vec<One> = (0..dice.below(9)).map(|_| (dice.below(4) as u16, 1 + dice.below(12))).collect();
            let mut ranks = Ranks::default();
            for (place, (defending, rate)) in all.iter().enumerate() {
                ranks.add(*defending, Rate::from_bps(*rate), place as Place);
            }
            let (preempting, need) = (dice.below(5) as u16, 1 + dice.below(30));
            let chosen = ranks.choose(preempting, Rate::from_bps(need), None);
            let wanted = lowest(&all, preempting, need);
            let Some(chosen) = chosen else {
                assert_eq!(wanted, None, "{round}: {all:?} for {need} by {preempting}");
                refused += 1;
                continue;
            };
            displaced += 1;
            let rates: Vec<u64> = chosen.iter().map(|v| all[v.place as usize].1).collect();
            let sum: u64 = rates.iter().sum();
            assert!(sum >= need && rates.iter().all(|rate| sum - rate < need), "{round}: {all:?} {need}: {chosen:?}");
            let top = chosen.iter().map(|v| all[v.place as usize].0).max();
            assert_eq!(top, wanted, "{round}: {all:?} for {need} by {preempting}: {chosen:?}");
            // Where one priority alone is concerned, no smaller number would do.
            if all.iter().all(|one| one.0 == all[0].0) {
                let mut largest: Vec<u64> = all.iter().map(|one| one.1).collect();
                largest.sort_unstable_by(|a, b| b.cmp(a));
                let fewest = (1..).find(|n| largest.iter().take(*n).sum::<u64>() >= need);
                assert_eq!(Some(chosen.len()), fewest, "{round}: {all:?} for {need}");
            }
            assert_eq!(ranks.choose(preempting, Rate::from_bps(need), None), Some(chosen), "the same again");
        }
        assert!(displaced > 500 && refused > 500, "{displaced} {refused}");
    }

    #[test]
    fn ranks_follow_those_who_move() {
        let mut ranks = Ranks::default();
        let rate = Rate::from_bps(5);
        assert_eq!([7, 8, 9].map(|place| ranks.add(1, rate, place)), [0, 1, 2]);
        assert_eq!(ranks.remove(1, rate, 0), Some(9), "the last takes its place");
        assert_eq!((ranks.remove(1, rate, 1), ranks.remove(1, rate, 0)), (None, None));
        assert!(ranks.by.is_empty());
        assert_eq!(ranks.choose(u16::MAX, rate, None), None);
    }
}
