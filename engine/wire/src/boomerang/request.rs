//! Writing an echo request (and, for tests and simulated hosts, the reply to one).

use super::qos::Rates;
use super::{Family, MAGIC, Opt, Selector, TravelDirection, VERSION, at, format, icmp, kind};
use crate::build::TooLong;
use crate::{checksum, ip};
use alloc::vec::Vec;

/// A message as its initiating node writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoomerangRequest<'a> {
    /// The direction. A host that answers ping turns a request into a reply.
    pub leg: TravelDirection,
    /// ICMP identifier.
    pub id: u16,
    /// ICMP sequence number.
    pub sequence: u16,
    /// The number of this exchange.
    pub transaction: u32,
    /// [`super::flag`]s.
    pub flags: u16,
    /// Seconds until the next message.
    pub refresh: u8,
    /// 1, or the KEY of the last reply.
    pub key: u64,
    /// The flow whose packets the reservation serves.
    pub classifier: Selector,
    /// The bits of the classifier that count; [`Selector::exact`] for one five-tuple.
    pub mask: Selector,
    /// The rates: one pair is BITRATE; several are DOWNGRADE, best first.
    pub rates: &'a [Rates],
    /// The policy field of a DOWNGRADE.
    pub policy: u16,
    /// The options, in this order.
    pub options: &'a [Opt<'a>],
}

/// The longest DOWNGRADE vector.
const MOST_RATES: usize = 255;

impl BoomerangRequest<'_> {
    /// The family: that of the Classifier.
    pub fn family(&self) -> Family {
        Family::of(self.classifier.dst)
    }

    /// The ICMP message, checksum zero.
    ///
    /// # Errors
    /// [`TooLong`]: no rates, or more than 255 pairs.
    pub fn icmp(&self) -> Result<Vec<u8>, TooLong> {
        if self.rates.is_empty() || self.rates.len() > MOST_RATES {
            return Err(TooLong { limit: MOST_RATES });
        }
        let family = self.family();
        let echo = match (family, self.leg) {
            (Family::V4, TravelDirection::Request) => icmp::REQUEST_V4,
            (Family::V4, TravelDirection::Reply) => icmp::REPLY_V4,
            (Family::V6, TravelDirection::Request) => icmp::REQUEST_V6,
            (Family::V6, TravelDirection::Reply) => icmp::REPLY_V6,
        };
        let form = if self.rates.len() == 1 { format::BITRATE } else { format::DOWNGRADE };
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(&[echo, 0, 0, 0]);
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&MAGIC.to_be_bytes());
        bytes.extend_from_slice(&self.transaction.to_be_bytes());
        bytes.extend_from_slice(&[kind::RESERVATION, form | family.format()]);
        bytes.extend_from_slice(&self.flags.to_be_bytes());
        bytes.extend_from_slice(&[self.refresh, VERSION, 0, 0]);
        bytes.extend_from_slice(&self.key.to_be_bytes());
        self.classifier.write(&mut bytes);
        self.mask.write(&mut bytes);
        if form == format::DOWNGRADE {
            let [p1, p0] = self.policy.to_be_bytes();
            bytes.extend_from_slice(&[u8::try_from(self.rates.len()).unwrap_or(u8::MAX), p1, p0, 0]);
        }
        self.rates.iter().for_each(|rates| bytes.extend_from_slice(&rates.octets()));
        self.options.iter().for_each(|option| option.write(&mut bytes));
        Ok(bytes)
    }

    /// Appends the whole packet to `to`, checksums in place; `header.protocol` is set by the family.
    ///
    /// # Errors
    /// [`TooLong`], also where the addresses are of another family than the Classifier.
    pub fn write(&self, header: &ip::Header, to: &mut Vec<u8>) -> Result<(), TooLong> {
        let family = self.family();
        if Family::of(header.src) != family || Family::of(header.dst) != family {
            return Err(TooLong { limit: 0 });
        }
        let mut message = self.icmp()?;
        seal(family, header, &mut message);
        ip::append(to, &ip::Header { protocol: family.protocol(), ..*header }, &message)
    }
}

/// Puts the checksum of an ICMP message in place.
pub(crate) fn seal(family: Family, header: &ip::Header, message: &mut [u8]) {
    if let Some(field) = message.get_mut(at::CHECKSUM..4) {
        field.fill(0);
    }
    let pseudo = match family {
        Family::V4 => 0,
        Family::V6 => ip::pseudo_header(header.src, header.dst, family.protocol(), message.len()),
    };
    let sum = !checksum::fold(checksum::sum(message).wrapping_add(pseudo));
    if let Some(field) = message.get_mut(at::CHECKSUM..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
