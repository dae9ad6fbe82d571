//! The proof that a message was signed.

/// A proof that the digest of a message is right by the keys of this generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof(u64);

impl Proof {
    /// A proof by the keys of a generation.
    pub(super) fn by(generation: u64) -> Proof {
        Proof(generation)
    }

    /// True if the keys are still those of the proof.
    pub(super) fn is_by(self, generation: u64) -> bool {
        self.0 == generation
    }
}
