//! Weights of groups (`cpu.shares`, `cpu.weight`). Each reserved group's part of the sum of all siblings'
//! weights is at least its reservation's part of all siblings' time. Arithmetic only.

/// The range of weights that the kernel accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// The least weight.
    pub least: u64,
    /// The greatest weight.
    pub most: u64,
    /// The default weight of a group.
    pub usual: u64,
}

impl Scale {
    /// `cpu.shares` of version 1.
    pub const SHARES: Scale = Scale { least: 2, most: 262_144, usual: 1_024 };
    /// `cpu.weight` of version 2.
    pub const WEIGHT: Scale = Scale { least: 1, most: 10_000, usual: 100 };
}

/// The need of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// Its reserved share, millionths of a core.
    pub share: u64,
    /// Thousandths of the share for which the weight is computed: 1000 or more, see [`super::tune`].
    pub boost: u64,
}

/// The computed weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights {
    /// The weight of the group of unreserved processes.
    pub rest: u64,
    /// The weight of each reserved group, in the order of the needs.
    pub groups: Vec<u64>,
}

/// The weights differ too much for the kernel: this one would be needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooHeavy(pub u64);

/// The unreserved processes keep one part in this many of all siblings' time, whatever the boosts.
const KEPT: u64 = 50;

/// Weights for `needs` in `total` millionths of a core, beside groups of other programs with the sum of
/// weights `foreign`. Demand rounds up, the rest rounds down. The ledger ensures that the sum of the needs is
/// less than the total; otherwise the rest gets the least weight.
///
/// # Errors
/// [`TooHeavy`]: the groups of other programs have too much weight.
pub fn weigh(needs: &[Need], total: u64, foreign: u64, scale: Scale) -> Result<Weights, TooHeavy> {
    let plain: u64 = needs.iter().map(|need| need.share).sum();
    let wanted = boosted(needs, plain, total);
    let sum: u64 = wanted.iter().sum();
    let left = total.saturating_sub(sum).max(1);
    // One unit of time is worth `over / under` of weight.
    let (over, under) = if foreign == 0 {
        (scale.most, wanted.iter().copied().chain([left]).max().unwrap_or(1))
    } else {
        (foreign + scale.usual, left)
    };
    let up = |time: u64| (u128::from(time) * u128::from(over)).div_ceil(u128::from(under)) as u64;
    let groups: Vec<u64> = wanted.iter().map(|&time| up(time).max(scale.least)).collect();
    if let Some(&heavy) = groups.iter().find(|&&weight| weight > scale.most) {
        return Err(TooHeavy(heavy));
    }
    let rest =
        if foreign == 0 { (u128::from(left) * u128::from(over) / u128::from(under)) as u64 } else { scale.usual };
    Ok(Weights { rest: rest.clamp(scale.least, scale.most), groups })
}

/// The needs with their boosts, limited so that the unreserved processes keep their part.
fn boosted(needs: &[Need], plain: u64, total: u64) -> Vec<u64> {
    let boosts = |need: &Need| need.share * need.boost.max(1000) / 1000 - need.share;
    let extra: u64 = needs.iter().map(boosts).sum();
    let room = total.saturating_sub(plain);
    let room = room - room.min(total / KEPT);
    let cut =
        |more: u64| if extra <= room { more } else { (u128::from(more) * u128::from(room) / u128::from(extra)) as u64 };
    needs.iter().map(|need| need.share + cut(boosts(need))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(share: u64) -> Need {
        Need { share, boost: 1000 }
    }

    #[test]
    fn a_half_is_half_of_all_weight() {
        let found = weigh(&[need(1_000_000)], 2_000_000, 0, Scale::WEIGHT).unwrap();
        assert_eq!(found, Weights { rest: 10_000, groups: vec![10_000] });
        let found = weigh(&[need(500_000), need(300_000)], 2_000_000, 0, Scale::SHARES).unwrap();
        assert_eq!(found, Weights { rest: 262_144, groups: vec![109_227, 65_536] });
    }

    #[test]
    fn groups_of_other_programs_are_outweighed_or_it_is_said() {
        let found = weigh(&[need(500_000)], 2_000_000, 300, Scale::WEIGHT).unwrap();
        assert_eq!(found, Weights { rest: 100, groups: vec![134] }); // 134 / 534 > 1 / 4
        assert_eq!(weigh(&[need(1_990_000)], 2_000_000, 300, Scale::WEIGHT), Err(TooHeavy(79_600)));
    }

    #[test]
    fn boosts_leave_the_rest_something() {
        let needs = [Need { share: 900_000, boost: 8000 }, need(900_000)];
        let found = weigh(&needs, 2_000_000, 0, Scale::SHARES).unwrap();
        let sum = found.rest + found.groups.iter().sum::<u64>();
        assert!(found.rest * 51 >= sum, "{found:?}");
        assert!(found.groups[0] > found.groups[1] && found.groups[1] * 20 >= sum * 9 - 20, "{found:?}");
        assert_eq!(weigh(&[need(5)], 5, 0, Scale::WEIGHT).unwrap().rest, Scale::WEIGHT.most / 5);
    }

    proptest! {
        #![proptest_config(chance::cases(256))]

        #[test]
        fn every_group_has_its_share_of_the_sum(
            shares in prop::collection::vec((1_000u64..400_000, 1000u64..8000), 1..12),
            spare in 100_000u64..2_000_000,
            foreign in prop_oneof![Just(0u64), 2u64..2_000],
            two in any::<bool>(),
        ) {
            let scale = if two { Scale::WEIGHT } else { Scale::SHARES };
            let needs: Vec<Need> = shares.iter().map(|&(share, boost)| Need { share, boost }).collect();
            let total = needs.iter().map(|need| need.share).sum::<u64>() + spare;
            if let Ok(found) = weigh(&needs, total, foreign, scale) {
                let sum = found.rest + foreign + found.groups.iter().sum::<u64>();
                prop_assert!(found.rest >= scale.least);
                for (need, &weight) in needs.iter().zip(&found.groups) {
                    prop_assert!(weight <= scale.most);
                    // Every weight is rounded up by less than one: together by less than their number.
                    let slack = needs.len() as u128 + 1;
                    let (have, want) = (u128::from(weight) * u128::from(total), u128::from(need.share) * (u128::from(sum) - slack));
                    prop_assert!(have >= want, "{need:?} {weight} of {sum}");
                }
            }
        }
    }
}
