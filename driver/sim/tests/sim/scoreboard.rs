//! The scoreboard against RFC 6675 as it is written: flags of single segments and loops over the window.

use sim::rng::Rng;
use sim::tcp::Blocks;
use sim::tcp::scoreboard::Scoreboard;

/// Section 4, word by word, a segment standing for SMSS octets.
#[derive(Default)]
struct Oracle {
    una: u32,
    high: u32,
    high_rxt: u32,
    sacked: Vec<bool>,
}

impl Oracle {
    fn is_sacked(&self, s: u32) -> bool {
        self.sacked.get(s as usize).copied().unwrap_or(false)
    }

    /// "Either DupThresh discontiguous SACKed sequences have arrived above SeqNum, or more than (DupThresh - 1) * SMSS bytes
    /// with sequence numbers greater than SeqNum have been SACKed."
    fn is_lost(&self, s: u32) -> bool {
        (s + 1..self.high).filter(|n| self.is_sacked(*n)).count() > 2
    }

    fn pipe(&self) -> u32 {
        let mut pipe = 0;
        for s in (self.una..self.high).filter(|s| !self.is_sacked(*s)) {
            pipe += u32::from(!self.is_lost(s));
            pipe += u32::from(s < self.high_rxt);
        }
        pipe
    }

    fn highest_sacked(&self) -> Option<u32> {
        (self.una..self.high).rev().find(|s| self.is_sacked(*s))
    }

    fn rule_1(&self) -> Option<u32> {
        let highest = self.highest_sacked()?;
        (self.una.max(self.high_rxt)..highest).find(|s| !self.is_sacked(*s) && self.is_lost(*s))
    }

    fn rule_3(&self) -> Option<u32> {
        let highest = self.highest_sacked()?;
        (self.una.max(self.high_rxt)..highest).find(|s| !self.is_sacked(*s))
    }

    fn rule_4(&self) -> Option<u32> {
        (self.una..self.high).rev().find(|s| !self.is_sacked(*s))
    }
}

fn compare(board: &Scoreboard, oracle: &Oracle, seed: u64, step: u32) {
    let place = format!("seed {seed}, step {step}");
    assert_eq!((board.una, board.high), (oracle.una, oracle.high), "{place}");
    assert_eq!(board.first_is_lost(), oracle.una < oracle.high && oracle.is_lost(oracle.una), "IsLost, {place}");
    assert_eq!(board.pipe(), oracle.pipe(), "SetPipe, {place}");
    assert_eq!(board.next_lost(), oracle.rule_1(), "NextSeg 1, {place}");
    assert_eq!(board.next_doubtful(), oracle.rule_3(), "NextSeg 3, {place}");
    assert_eq!(board.last_missing(), oracle.rule_4(), "NextSeg 4, {place}");
}

/// SACK blocks as a receiver that has these segments could send them.
fn blocks(oracle: &Oracle, has: &[bool], chance: &mut Rng) -> Blocks {
    let mut ranges = Vec::new();
    let mut s = oracle.una + 1;
    while s < oracle.high {
        let end = (s..oracle.high).find(|n| !has[*n as usize]).unwrap_or(oracle.high);
        if end > s {
            ranges.push((s, end));
        }
        s = end + 1;
    }
    let mut blocks = Blocks::default();
    for block in &mut blocks {
        if ranges.is_empty() {
            break;
        }
        *block = ranges.swap_remove(chance.below(ranges.len() as u64) as usize);
    }
    blocks
}

#[test]
fn counts_are_what_loops_over_the_window_find() {
    for seed in 0..400 {
        let mut chance = Rng::new(seed, 3);
        let (mut board, mut oracle) = (Scoreboard::default(), Oracle::default());
        let mut has: Vec<bool> = Vec::new();
        for step in 0..150 {
            match chance.below(10) {
                0..=2 => {
                    let more = chance.below(8) as u32;
                    board.high += more;
                    oracle.high += more;
                    has.resize(oracle.high as usize, false);
                    oracle.sacked.resize(oracle.high as usize, false);
                }
                // Something arrives, and the receiver says so; not every acknowledgement arrives.
                3..=7 if oracle.una < oracle.high => {
                    let spread = u64::from(oracle.high - oracle.una);
                    has[(oracle.una + chance.below(spread) as u32) as usize] = true;
                    if chance.below(3) == 0 {
                        continue;
                    }
                    let ack = (oracle.una..oracle.high).find(|s| !has[*s as usize]).unwrap_or(oracle.high);
                    let before = oracle.una;
                    board.advance(ack);
                    oracle.una = ack;
                    oracle.high_rxt = oracle.high_rxt.max(ack);
                    assert!(ack >= before);
                    if ack < oracle.high {
                        let blocks = blocks(&oracle, &has, &mut chance);
                        let known = (oracle.una..oracle.high).filter(|s| oracle.is_sacked(*s)).count();
                        for s in blocks.iter().flat_map(|(a, b)| *a..*b) {
                            oracle.sacked[s as usize] = true;
                        }
                        let now = (oracle.una..oracle.high).filter(|s| oracle.is_sacked(*s)).count();
                        assert_eq!(board.sack(&blocks) as usize, now - known);
                    }
                }
                8 => {
                    if let Some(again) = oracle.rule_1().or(oracle.rule_3()) {
                        board.send_again(again);
                        oracle.high_rxt = again + 1;
                    }
                }
                9 if chance.below(6) == 0 => {
                    if chance.below(2) == 0 {
                        board.forget();
                        oracle.sacked.iter_mut().for_each(|sacked| *sacked = false);
                    } else {
                        board.restart();
                    }
                    oracle.high_rxt = oracle.una;
                }
                _ => {}
            }
            compare(&board, &oracle, seed, step);
        }
    }
}
