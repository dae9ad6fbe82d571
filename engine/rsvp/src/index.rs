//! Open addressing with linear probes: the cells of a hash index. The caller hashes its keys and says what a
//! cell holds; a cell that is taken out leaves no mark behind, because the cells after it move back.

use alloc::vec::Vec;

/// A cell of an index.
pub(crate) trait Cell: Copy {
    /// A cell that holds nothing.
    const VACANT: Self;

    /// True if it holds nothing.
    fn is_vacant(&self) -> bool;
}

impl<T: Copy> Cell for Option<T> {
    const VACANT: Option<T> = None;

    #[inline]
    fn is_vacant(&self) -> bool {
        self.is_none()
    }
}

/// A part of a key's hash, enough for an index of any size, and a word that names what has that key: in eight
/// bytes, so that an absent key costs one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HashedWord {
    pub hash: u32,
    /// Below `u32::MAX`, which a vacant cell has.
    pub word: u32,
}

impl Cell for HashedWord {
    const VACANT: HashedWord = HashedWord { hash: 0, word: u32::MAX };

    #[inline]
    fn is_vacant(&self) -> bool {
        self.word == u32::MAX
    }
}

impl HashedWord {
    /// The place where a probe for it begins.
    #[inline]
    pub fn home(&self) -> usize {
        self.hash as usize
    }
}

/// An index: a power of two of cells, of which at most three quarters are taken.
#[derive(Debug)]
pub(crate) struct Index<C> {
    cells: Vec<C>,
    len: usize,
}

impl<C: Cell> Index<C> {
    /// An index without cells.
    pub const fn new() -> Index<C> {
        Index { cells: Vec::new(), len: 0 }
    }

    /// The number of cells that are taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of cells, vacant ones among them.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.cells.len()
    }

    /// The taken cells from this home to the next vacant one: what has that home is among them.
    #[inline]
    pub fn probe(&self, home: usize) -> impl Iterator<Item = (usize, C)> {
        let mask = self.cells.len().wrapping_sub(1);
        let mut place = home & mask;
        core::iter::from_fn(move || {
            let found = self.cells.get(place).filter(|cell| !cell.is_vacant())?;
            let here = place;
            place = (place + 1) & mask;
            Some((here, *found))
        })
    }

    /// The place and the cell of the first taken cell from this home for which `is` holds. Unlike [`Index::probe`] it
    /// copies no cell: a cell that is written in parts and read as a whole waits for memory at each step.
    #[inline]
    pub fn find(&self, home: usize, is: impl Fn(&C) -> bool) -> Option<(usize, &C)> {
        let mask = self.cells.len().wrapping_sub(1);
        let mut place = home & mask;
        loop {
            let cell = self.cells.get(place)?;
            if cell.is_vacant() {
                return None;
            }
            if is(cell) {
                return Some((place, cell));
            }
            place = (place + 1) & mask;
        }
    }

    /// The cell at a place that [`Index::find`] gave.
    #[inline]
    pub fn at_mut(&mut self, place: usize) -> Option<&mut C> {
        self.cells.get_mut(place)
    }

    /// All cells that are taken.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.cells.iter().filter(|cell| !cell.is_vacant())
    }

    /// True if one cell more is too many.
    #[inline]
    pub fn is_full(&self) -> bool {
        (self.len + 1) * 4 > self.cells.len() * 3
    }

    /// Takes a cell in, and doubles the index before that if it is full.
    #[inline]
    pub fn insert(&mut self, cell: C, home: impl Fn(&C) -> usize) {
        if self.is_full() {
            self.resize((self.cells.len() * 2).max(16), |_| true, &home);
        }
        let at = home(&cell);
        self.place(cell, at);
    }

    /// Gives it another size, a power of two, and keeps the cells for which `keep` is true; they must fit.
    pub fn resize(&mut self, size: usize, keep: impl Fn(&C) -> bool, home: impl Fn(&C) -> usize) {
        let old = core::mem::replace(&mut self.cells, alloc::vec![C::VACANT; size]);
        self.len = 0;
        for cell in old.into_iter().filter(|cell| !cell.is_vacant() && keep(cell)) {
            let at = home(&cell);
            self.place(cell, at);
        }
    }

    #[inline]
    fn place(&mut self, cell: C, home: usize) {
        let mask = self.cells.len() - 1;
        let mut place = home & mask;
        while !self.cells[place].is_vacant() {
            place = (place + 1) & mask;
        }
        self.cells[place] = cell;
        self.len += 1;
    }

    /// Takes out the cell at a place that [`Index::find`] gave, and closes the gap.
    #[inline]
    pub fn remove(&mut self, place: usize, home: impl Fn(&C) -> usize) {
        let mask = self.cells.len() - 1;
        let (mut gap, mut probe) = (place, (place + 1) & mask);
        while !self.cells[probe].is_vacant() {
            let at = home(&self.cells[probe]) & mask;
            // A cell may move back to the gap if its home is not between the gap and itself.
            if probe.wrapping_sub(at) & mask >= probe.wrapping_sub(gap) & mask {
                self.cells[gap] = self.cells[probe];
                gap = probe;
            }
            probe = (probe + 1) & mask;
        }
        self.cells[gap] = C::VACANT;
        self.len -= 1;
    }

    /// Empties every cell and keeps their room.
    pub fn clear(&mut self) {
        self.cells.fill(C::VACANT);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Words with hashes of three bits, so that runs collide, wrap around and move back.
    #[test]
    fn what_is_in_it_is_found_from_its_home() {
        let mut rng = terms::Rng::seeded(9);
        let (mut index, mut map) = (Index::new(), BTreeMap::new());
        for _ in 0..200_000 {
            let word = rng.next_u32() % 64;
            let hash = ((word * 7) % 8) | 0xffff_fff0;
            let cell = HashedWord { hash, word };
            let found = index.probe(cell.home()).find(|(_, found)| *found == cell);
            assert_eq!(found.is_some(), map.contains_key(&word));
            match found {
                Some((place, _)) => {
                    index.remove(place, HashedWord::home);
                    map.remove(&word);
                }
                None => {
                    index.insert(cell, HashedWord::home);
                    map.insert(word, hash);
                }
            }
            assert_eq!(index.len(), map.len());
        }
        assert_eq!(index.iter().map(|cell| (cell.word, cell.hash)).collect::<BTreeMap<_, _>>(), map);
        index.clear();
        assert_eq!((index.len(), index.iter().count(), index.probe(3).count()), (0, 0, 0));
    }
}
