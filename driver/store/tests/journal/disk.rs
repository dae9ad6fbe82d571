//! A model of a disk: what is surely on it, and what was written since the last sync and may or may not be.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The unit that a disk writes whole.
pub const SECTOR: usize = 512;

/// A change that is not yet synced.
#[derive(Clone, Debug)]
pub enum Change {
    /// Bytes at an offset.
    Write(usize, Vec<u8>),
    /// A new length.
    Length(usize),
}

/// A file: what is surely there, and what came after.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// As of the last sync.
    pub durable: Vec<u8>,
    /// Since then, in order.
    pub pending: Vec<Change>,
}

/// All files that are watched.
pub type Disk = BTreeMap<PathBuf, Model>;

/// What a power loss does with what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing of it is there.
    Dropped,
    /// The first part of it is there, in order; the last write only up to a sector.
    Torn,
    /// Some sectors of it are there, others not.
    Reordered,
    /// Some sectors of it hold what nobody wrote.
    Garbage,
}

/// Every way.
pub const LOSSES: [Loss; 4] = [Loss::Dropped, Loss::Torn, Loss::Reordered, Loss::Garbage];

impl Model {
    /// All of it reached the disk.
    pub fn settle(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &change);
        }
    }

    /// What is there when the program alone is gone: all that it wrote.
    pub fn written(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        self.pending.iter().for_each(|change| apply(&mut bytes, change));
        bytes
    }

    /// What is there after a power loss.
    pub fn after(&self, loss: Loss, draw: &mut bench::Draw) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match loss {
            Loss::Dropped => {}
            Loss::Torn => {
                let kept = draw.next_u32() as usize % (self.pending.len() + 1);
                self.pending[..kept].iter().for_each(|change| apply(&mut bytes, change));
                if let Some(Change::Write(at, data)) = self.pending.get(kept) {
                    let sectors = data.len() / SECTOR;
                    let part = draw.next_u32() as usize % (sectors + 1) * SECTOR;
                    apply(&mut bytes, &Change::Write(*at, data[..part].to_vec()));
                }
            }
            Loss::Reordered | Loss::Garbage => {
                for (at, piece) in self.pending.iter().flat_map(sectors) {
                    match draw.next_u32() % 4 {
                        0 | 1 => {}
                        2 if loss == Loss::Garbage => {
                            let noise = piece.iter().map(|_| draw.next_u32() as u8).collect();
                            apply(&mut bytes, &Change::Write(at, noise));
                        }
                        _ => apply(&mut bytes, &Change::Write(at, piece)),
                    }
                }
            }
        }
        bytes
    }
}

/// A write in pieces that do not cross a sector's edge.
fn sectors(change: &Change) -> Vec<(usize, Vec<u8>)> {
    let &Change::Write(mut at, ref data) = change else { return Vec::new() };
    let mut rest = &data[..];
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let len = (SECTOR - at % SECTOR).min(rest.len());
        pieces.push((at, rest[..len].to_vec()));
        (at, rest) = (at + len, &rest[len..]);
    }
    pieces
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, data) => {
            if bytes.len() < at + data.len() {
                bytes.resize(at + data.len(), 0);
            }
            bytes[*at..at + data.len()].copy_from_slice(data);
        }
        Change::Length(len) => bytes.resize(*len, 0),
    }
}
