//! Handles: the first 128 bits of SHA-256 over the driver's seed and a counter. A handle cannot be guessed
//! without the seed, and a run can be repeated.

use sha2::{Digest, Sha256};
use terms::book::Handle;

/// Draws handles.
#[derive(Clone)]
pub(crate) struct Draw {
    seed: [u8; 32],
    drawn: u64,
}

impl Draw {
    pub(crate) fn new(seed: [u8; 32]) -> Draw {
        Draw { seed, drawn: 0 }
    }

    pub(crate) fn handle(&mut self) -> Handle {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(self.drawn.to_be_bytes());
        let mut handle = [0; 16];
        handle.copy_from_slice(&hash.finalize()[..16]);
        Handle(handle)
    }
}

/// The digest of a request, by which a repeated request is recognised.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A handle is drawn at random, so its first bytes are as good as any hash of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Drawn(u64);

impl core::hash::Hasher for Drawn {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes [`Drawn`].
pub(crate) type ByHandle = core::hash::BuildHasherDefault<Drawn>;
