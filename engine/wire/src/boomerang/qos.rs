//! The QoS body: one pair of rates (BITRATE), or a vector of them, best first (DOWNGRADE).

use crate::MalformedMessage;

/// A forward and a reverse rate, bit/s. Zero reserves nothing in that direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rates {
    /// The rate away from the initiating node.
    pub forward: u32,
    /// The rate toward the initiating node.
    pub reverse: u32,
}

impl Rates {
    /// True if nothing is asked for: the session is released.
    pub fn is_zero(&self) -> bool {
        *self == Rates::default()
    }

    pub(crate) fn read(bytes: &[u8; 8]) -> Rates {
        let &[f3, f2, f1, f0, r3, r2, r1, r0] = bytes;
        Rates { forward: u32::from_be_bytes([f3, f2, f1, f0]), reverse: u32::from_be_bytes([r3, r2, r1, r0]) }
    }

    /// The octets on the wire.
    pub fn octets(&self) -> [u8; 8] {
        let ([f3, f2, f1, f0], [r3, r2, r1, r0]) = (self.forward.to_be_bytes(), self.reverse.to_be_bytes());
        [f3, f2, f1, f0, r3, r2, r1, r0]
    }
}

/// The checked QoS body of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Qos<'a> {
    /// QOSFMT_BITRATE.
    Bitrate(Rates),
    /// QOSFMT_DOWNGRADE: the acceptable rates, best first; neither rate ever rises along the vector.
    Downgrade {
        /// No meaning in the draft; carried along.
        policy: u16,
        /// The pairs, eight octets each; at least one.
        vector: &'a [u8],
    },
}

impl<'a> Qos<'a> {
    /// The current request: the only pair, or the first of the vector.
    pub fn asked(&self) -> Rates {
        self.at(0).unwrap_or_default()
    }

    /// The pair at `index`.
    pub fn at(&self, index: usize) -> Option<Rates> {
        match *self {
            Qos::Bitrate(rates) => Some(rates).filter(|_| index == 0),
            Qos::Downgrade { vector, .. } => vector.as_chunks::<8>().0.get(index).map(Rates::read),
        }
    }

    /// The number of pairs; at least one.
    pub fn count(&self) -> usize {
        match self {
            Qos::Bitrate(_) => 1,
            Qos::Downgrade { vector, .. } => vector.len() / 8,
        }
    }

    /// The pairs, best first.
    pub fn iter(self) -> impl Iterator<Item = Rates> + use<'a> {
        (0..self.count()).filter_map(move |index| self.at(index))
    }

    /// The offset of the pairs from the first byte of the body.
    pub(crate) fn offset(&self) -> usize {
        match self {
            Qos::Bitrate(_) => 0,
            Qos::Downgrade { .. } => 4,
        }
    }

    /// Reads a body of the form in `format`'s high half, and returns the bytes after it. `at` is the body's offset.
    pub(crate) fn read(form: u8, bytes: &'a [u8], at: usize) -> Result<(Qos<'a>, &'a [u8]), MalformedMessage> {
        let cut = MalformedMessage::silent("Boomerang QoS body is cut off", at);
        match form {
            super::format::BITRATE => {
                let (rates, rest) = bytes.split_first_chunk::<8>().ok_or(cut)?;
                Ok((Qos::Bitrate(Rates::read(rates)), rest))
            }
            super::format::DOWNGRADE => {
                let (&[size, p1, p0, _], rest) = bytes.split_first_chunk::<4>().ok_or(cut)?;
                if size == 0 {
                    return Err(MalformedMessage::silent("Boomerang DOWNGRADE vector is empty", at));
                }
                let (vector, rest) = rest.split_at_checked(usize::from(size).saturating_mul(8)).ok_or(cut)?;
                let (mut pairs, _) = vector.as_chunks::<8>();
                while let [first, after @ ..] = pairs {
                    let Some(next) = after.first() else { break };
                    let (best, less) = (Rates::read(first), Rates::read(next));
                    if less.forward > best.forward || less.reverse > best.reverse {
                        return Err(MalformedMessage::silent("Boomerang DOWNGRADE vector rises", at));
                    }
                    pairs = after;
                }
                Ok((Qos::Downgrade { policy: u16::from_be_bytes([p1, p0]), vector }, rest))
            }
            super::format::INTSERV => Err(MalformedMessage::silent("Boomerang INTSERV body is not defined", at)),
            _ => Err(MalformedMessage::silent("Boomerang QoS format is unknown", at)),
        }
    }
}
