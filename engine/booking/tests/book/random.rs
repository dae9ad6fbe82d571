//! Random calls against the oracle (FAULTS.md I1, I2, I5, I6, I8, I10, T1, T5 to T7), the same with a disk that is slow and
//! fails, and every short sequence. A failure prints the seed of its case.

use crate::oracle::{Op, Pair, RESOURCES, Row, TICKS};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, and the same everywhere.
pub struct Chance(pub u64);

impl Chance {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const OWNERS: [&str; 3] = ["ann", "bob", "cat"];

fn rows(chance: &mut Chance, now: u64) -> Vec<Row> {
    let start = if chance.one_in(12) { chance.below(TICKS) } else { now + chance.below(TICKS - now) };
    let end = if chance.one_in(12) { chance.below(TICKS) } else { (start + 1 + chance.below(10)).min(TICKS) };
    let row = |chance: &mut Chance| {
        let resource = chance.below(RESOURCES.len() as u64) as usize;
        let amount = if chance.one_in(30) { 0 } else { 1 + chance.below(RESOURCES[resource].1) };
        Row { resource, start, end, amount }
    };
    (0..1 + chance.below(3)).map(|_| row(chance)).collect()
}

pub fn random_op(chance: &mut Chance, now: u64, made: usize) -> Op {
    let k = chance.below(made as u64) as usize;
    let some = |chance: &mut Chance, n: u64| chance.one_in(2).then(|| chance.below(n));
    match chance.below(100) {
        0..45 => {
            let hold = chance.one_in(3).then(|| chance.below(9));
            let key = if chance.one_in(3) { chance.below(20).to_string() } else { String::new() };
            let notice = chance.one_in(2).then(|| 1 + chance.below(6));
            Op::Create { owner: OWNERS[chance.below(3) as usize], rows: rows(chance, now), hold, key, notice }
        }
        45..55 => Op::Commit(k),
        55..70 => Op::Cancel(k),
        70..84 => {
            let (part, amount) = (chance.below(3) as usize, some(chance, 9));
            let (start, end) = (some(chance, TICKS), some(chance, TICKS));
            Op::Modify { k, part, amount, start, end }
        }
        84..92 => Op::Bind { k, flow: chance.below(40) as u16 },
        _ => Op::Pass(now + chance.below(3)),
    }
}

fn case(seed: u64) -> (usize, usize) {
    let mut chance = Chance(seed);
    let mut pair = Pair::new();
    let (mut done, mut refused) = (0, 0);
    while pair.now + 3 < TICKS && done + refused < 400 {
        let op = random_op(&mut chance, pair.now, pair.handles.len());
        if pair.run(&op) { done += 1 } else { refused += 1 }
    }
    (done, refused)
}

/// How many cases: `SLUICE_SEEDS` for longer runs.
pub fn seeds(usual: u64) -> u64 {
    std::env::var("SLUICE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn every_answer_as_the_oracle_says() {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..seeds(120) {
        let result = std::panic::catch_unwind(|| case(seed));
        let (d, r) = result.unwrap_or_else(|_| panic!("the case of seed {seed} failed"));
        done += d;
        refused += r;
    }
    println!("{done} operations done, {refused} refused, every answer as the oracle's");
    assert!(done > refused / 4 && refused > done / 10, "one-sided: {done} done, {refused} refused");
}

/// Every sequence of five of these on two resources of 10 and 7: two creations, a hold, commit, cancel and change of the
/// first and the second, and the passing of time. A refused operation leaves the state as it was, so what follows it
/// has been run already one step earlier and is not run again.
fn alphabet(now: u64) -> Vec<Op> {
    let row = |resource, start, end, amount| Row { resource, start, end, amount };
    let create = |rows, hold, key: &str| Op::Create { owner: "ann", rows, hold, key: key.to_owned(), notice: Some(1) };
    let mut letters = vec![
        create(vec![row(0, 0, 2, 6)], None, ""),
        create(vec![row(0, 1, 3, 5), row(1, 1, 3, 4)], None, "k"),
        create(vec![row(1, 2, 4, 5)], Some(1), ""),
        create(vec![row(0, 0, 4, 10)], None, "k"),
        Op::Pass(now + 1),
    ];
    for k in 0..2 {
        letters.extend([Op::Commit(k), Op::Cancel(k), Op::Bind { k, flow: 1 }]);
        letters.push(Op::Modify { k, part: 0, amount: Some(7), start: None, end: None });
        letters.push(Op::Modify { k, part: 0, amount: None, start: Some(1), end: Some(2) });
    }
    letters
}

fn explore(pair: &Pair, depth: usize, tally: &mut (u64, u64)) {
    for op in alphabet(pair.now) {
        let mut next = pair.clone();
        if !next.run(&op) {
            tally.1 += 1;
            continue;
        }
        tally.0 += 1;
        if depth > 1 {
            explore(&next, depth - 1, tally);
        }
    }
}

#[test]
fn every_sequence_of_five_operations() {
    let mut tally = (0, 0);
    explore(&Pair::new(), 5, &mut tally);
    println!("{} steps done, {} refused, all as the oracle says", tally.0, tally.1);
    assert!(tally.0 > 1_000 && tally.1 > 1_000, "{tally:?}");
}
