//! Sessions that user space holds instead of the kernel program: a mark in the table makes the program send
//! every message of such a session to user space. Without it, a session whose messages change form (say, from
//! a vector of rates to the pair that fitted) would be held twice, by the engine and by the program.

use super::FastPath;
use super::layout::{self, CellState, LIVE, STATUS, SessionCell, THEIRS, WAYS};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use terms::{FlowKey, IfIndex, Rate};

/// A session that was taken from the program, as it was; its rate is unassigned until it is put back or
/// booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    place: usize,
    was: CellState,
}

impl Taken {
    /// The session's part of the grant.
    pub fn rate(&self) -> Rate {
        self.was.rate()
    }
}

const FREE: u64 = 0;
const BUSY: u64 = 1;
/// Rows in a page.
const ROWS_A_PAGE: u64 = 32;

impl FastPath {
    /// Takes a session from the program, if the program holds it: from now on its messages go to user space.
    /// The caller gets its part of the grant, and shrinks the grant's slot by as much.
    pub fn take_over(&self, oif: IfIndex, flow: &FlowKey) -> Option<Taken> {
        let place = self.place_of(oif, flow)?;
        let at = &self.place(place).state;
        let mut was = CellState(at.load(Acquire));
        while was.is_live() {
            match at.compare_exchange(was.0, was.theirs().0, AcqRel, Acquire) {
                Ok(_) => return Some(Taken { place, was }),
                Err(other) => was = CellState(other),
            }
        }
        None
    }

    /// Returns a session to the program unchanged; the caller has booked its rate for the grant.
    pub fn put_back(&self, taken: Taken) {
        let at = &self.place(taken.place).state;
        if at.compare_exchange(taken.was.theirs().0, taken.was.0, AcqRel, Acquire).is_err() {
            debug_assert!(false, "nobody else changes such a place");
        }
    }

    /// Marks this session as held by user space. Returns true if the mark is in the table; it is not if the
    /// program has just made the session or both rows are full.
    pub fn mark(&self, oif: IfIndex, flow: &FlowKey) -> bool {
        if let Some(place) = self.place_of(oif, flow) {
            return CellState(self.place(place).state.load(Acquire)).is_theirs();
        }
        let [first, second] = self.rows_of(oif, flow);
        let (who, place, wide) = self.key(oif, flow);
        for number in [first, second].into_iter().flat_map(|row| (0..WAYS).map(move |way| row * WAYS + way)) {
            let at = self.place(number);
            let old = CellState(at.state.load(Acquire));
            let busy = CellState(old.0 | BUSY);
            if old.0 & STATUS != FREE || at.state.compare_exchange(old.0, busy.0, AcqRel, Acquire).is_err() {
                continue;
            }
            at.who.store(who, Release);
            at.place.store(place, Release);
            at.undo.store(0, Release);
            if let (Some(wide), Some(words)) = (self.wide.all().get(number), wide) {
                wide.word.iter().zip(words).for_each(|(word, value)| word.store(value, Release));
            }
            at.state.store(old.theirs().0, Release);
            return true;
        }
        false
    }

    /// Removes the mark: user space no longer holds this session.
    pub fn unmark(&self, oif: IfIndex, flow: &FlowKey) {
        let Some(place) = self.place_of(oif, flow) else { return };
        let at = &self.place(place).state;
        let old = CellState(at.load(Acquire));
        if old.is_theirs() {
            // Nobody else changes such a place.
            let _freed = at.compare_exchange(old.0, old.freed().0, AcqRel, Acquire);
        }
    }

    /// The sessions that this agent or an earlier one has marked.
    pub fn marked(&self) -> Vec<(IfIndex, FlowKey)> {
        let places = (0..self.rows.all().len() * WAYS).filter_map(|number| {
            let at = self.place(number);
            CellState(at.state.load(Acquire)).is_theirs().then(|| layout::key(at, self.wide.all().get(number)))
        });
        places.collect()
    }

    fn place(&self, number: usize) -> &SessionCell {
        &self.rows.all()[number / WAYS].at[number % WAYS]
    }

    /// The place of the session, or of its mark.
    fn place_of(&self, oif: IfIndex, flow: &FlowKey) -> Option<usize> {
        let rows = self.rows_of(oif, flow);
        let mut places = rows.into_iter().flat_map(|row| (0..WAYS).map(move |way| row * WAYS + way));
        places.find(|&number| {
            let at = self.place(number);
            let found = at.state.load(Acquire) & STATUS & LIVE != 0;
            found && layout::key(at, self.wide.all().get(number)) == (oif, *flow)
        })
    }

    /// The words of `struct session_key`.
    fn key(&self, oif: IfIndex, flow: &FlowKey) -> (u64, u64, Option<[u64; 4]>) {
        let (who, wide) = match layout::addresses(flow) {
            layout::Addresses::Short(who) => (who, None),
            layout::Addresses::Wide(words) => (self.hash_addresses(&words), Some(words)),
        };
        (who, layout::place(oif, flow), wide)
    }

    /// The same as `rows_of` in `bpf/sessions.h`.
    fn rows_of(&self, oif: IfIndex, flow: &FlowKey) -> [usize; 2] {
        let [first_seed, second_seed] = self.seed();
        let (who, place, _) = self.key(oif, flow);
        let hash = stir(who ^ first_seed);
        let hash = stir(hash.wrapping_add(place & !layout::OUT) ^ second_seed);
        let mask = self.rows.all().len() as u64 - 1;
        let first = hash & mask;
        let other = 1 + (((hash >> 32) * (ROWS_A_PAGE - 1)) >> 32);
        [first as usize, ((first ^ other) & mask) as usize]
    }

    fn seed(&self) -> [u64; 2] {
        self.settings().seed.each_ref().map(|word| word.load(Acquire))
    }

    fn hash_addresses(&self, words: &[u64; 4]) -> u64 {
        let seed = self.seed();
        let first = stir(words[0] ^ seed[0]);
        (1..4).fold(first, |hash, n| stir(hash.wrapping_add(words[n]) ^ seed[n % 2]))
    }
}

fn stir(mut h: u64) -> u64 {
    for _ in 0..2 {
        h ^= h >> 32;
        h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    h ^ h >> 32
}

impl CellState {
    fn is_theirs(self) -> bool {
        self.0 & STATUS == THEIRS
    }

    fn theirs(self) -> CellState {
        CellState(self.0 & layout::LIFE | THEIRS)
    }
}
