//! Names of reservations, as the broker gives them out.
//!
//! A reservation over several agents is a group, and its name is the members' `group`: the broker stores
//! nothing and finds everything again. The name is 128 random bits (with an idempotency key, a digest of
//! caller and key) and, between two hosts, their addresses. A reservation that was made at an agent without a
//! broker is named by agent and handle.

use documents::rest::PathWord;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::net::IpAddr;

/// Crockford's base 32, in small letters.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A reservation's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReservationId {
    /// A group of reservations at agents.
    Group(GroupId),
    /// One reservation at one agent, which belongs to no group of ours.
    Lone {
        /// The agent.
        agent: String,
        /// Its handle there.
        handle: String,
    },
}

/// The name of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId {
    /// The number that identifies it.
    pub number: [u8; 16],
    /// The two hosts, if it is between two.
    pub ends: Option<(IpAddr, IpAddr)>,
}

/// The role of a group's members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberRole {
    /// Single resources.
    Alone,
    /// Traffic from the first host to the second.
    Forward,
    /// Traffic back.
    Reverse,
}

impl MemberRole {
    /// All of them, in the order of parts.
    pub const ALL: [MemberRole; 3] = [MemberRole::Alone, MemberRole::Forward, MemberRole::Reverse];

    /// The name in documents; single resources have none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            MemberRole::Alone => None,
            MemberRole::Forward => Some(PathWord::Forward.as_str()),
            MemberRole::Reverse => Some(PathWord::Reverse.as_str()),
        }
    }

    fn lettered(text: &str) -> Option<MemberRole> {
        MemberRole::ALL.into_iter().find(|way| text.len() == 1 && text.starts_with(way.letter()))
    }

    fn letter(self) -> char {
        match self {
            MemberRole::Alone => 'a',
            MemberRole::Forward => 'f',
            MemberRole::Reverse => 'r',
        }
    }
}

impl GroupId {
    /// A new name.
    ///
    /// # Errors
    /// The kernel has no random bits.
    pub fn draw(ends: Option<(IpAddr, IpAddr)>) -> io::Result<GroupId> {
        let mut number = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut number)?;
        Ok(GroupId { number, ends })
    }

    /// The group of this caller's key.
    pub fn of_key(caller: &str, key: &str, ends: Option<(IpAddr, IpAddr)>) -> GroupId {
        // Names have no octet 0, so no other pair gives the same text.
        let digest = Sha256::new().chain_update(caller).chain_update([0]).chain_update(key).finalize();
        let mut number = [0; 16];
        number.copy_from_slice(&digest[..16]);
        GroupId { number, ends }
    }

    /// The `group` of its members in one role.
    pub fn member(&self, way: MemberRole) -> String {
        format!("{}.{}", self.text(), way.letter())
    }

    /// The group and role of an agent's `group`; `None`: it is none of ours.
    pub fn of_member(text: &str) -> Option<(GroupId, MemberRole)> {
        let (name, letter) = text.rsplit_once('.')?;
        let way = MemberRole::lettered(letter)?;
        Some((GroupId::parse(name)?, way))
    }

    /// A member's name in the lists that agents keep.
    pub fn member_name(agent: &str, way: MemberRole) -> String {
        format!("{agent}.{}", way.letter())
    }

    /// The agent and role of a member's name.
    pub fn of_member_name(text: &str) -> Option<(&str, MemberRole)> {
        let (agent, letter) = text.rsplit_once('.')?;
        MemberRole::lettered(letter).map(|way| (agent, way))
    }

    fn text(&self) -> String {
        let mut bytes = self.number.to_vec();
        for end in self.ends.iter().flat_map(|(from, to)| [from, to]) {
            match end {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        base32(&bytes)
    }

    fn parse(text: &str) -> Option<GroupId> {
        let bytes = unbase32(text)?;
        let (number, ends) = bytes.split_first_chunk::<16>()?;
        let v4 = |b: &[u8]| <[u8; 4]>::try_from(b).ok().map(IpAddr::from);
        let v6 = |b: &[u8]| <[u8; 16]>::try_from(b).ok().map(IpAddr::from);
        let ends = match ends.len() {
            0 => None,
            8 => Some((v4(&ends[..4])?, v4(&ends[4..])?)),
            32 => Some((v6(&ends[..16])?, v6(&ends[16..])?)),
            _ => return None,
        };
        Some(GroupId { number: *number, ends })
    }
}

impl ReservationId {
    /// Parses a name; `None`: the text is no name.
    pub fn parse(text: &str) -> Option<ReservationId> {
        if let Some((agent, handle)) = text.split_once('~') {
            return Some(ReservationId::Lone { agent: agent.to_owned(), handle: handle.to_owned() });
        }
        GroupId::parse(text).map(ReservationId::Group)
    }
}

impl std::fmt::Display for ReservationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReservationId::Group(group) => f.write_str(&group.text()),
            ReservationId::Lone { agent, handle } => write!(f, "{agent}~{handle}"),
        }
    }
}

/// Encodes five bits a letter; the last one is filled with zeros.
pub fn base32(bytes: &[u8]) -> String {
    let (mut text, mut held, mut bits) = (String::new(), 0_u16, 0);
    for &byte in bytes {
        held = held << 8 | u16::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[usize::from(held >> bits & 31)]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[usize::from(held << (5 - bits) & 31)]));
    }
    text
}

/// Decodes the text, if it is exactly what [`base32`] writes.
fn unbase32(text: &str) -> Option<Vec<u8>> {
    if text.len() > 128 {
        return None;
    }
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u16, 0);
    for letter in text.bytes() {
        let five = ALPHABET.iter().position(|&known| known == letter)?;
        held = held << 5 | five as u16;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    (held == 0 && bits < 5).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let ends: [Option<(IpAddr, IpAddr)>; 3] = [
            None,
            Some(("10.0.0.1".parse().unwrap(), "10.0.2.2".parse().unwrap())),
            Some(("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())),
        ];
        for ends in ends {
            let group = GroupId::draw(ends).unwrap();
            let text = ReservationId::Group(group).to_string();
            assert_eq!(ReservationId::parse(&text), Some(ReservationId::Group(group)), "{text}");
            for way in MemberRole::ALL {
                let member = group.member(way);
                assert!(member.len() <= 256, "what an agent takes as a group");
                assert_eq!(GroupId::of_member(&member), Some((group, way)));
            }
        }
        let lone = ReservationId::Lone { agent: "maui".into(), handle: "0123456-789abcd".into() };
        assert_eq!(ReservationId::parse(&lone.to_string()), Some(lone));
    }

    #[test]
    fn the_same_key_of_the_same_caller_is_the_same_group() {
        let of = |caller, key| GroupId::of_key(caller, key, None);
        assert_eq!(of("alice", "k"), of("alice", "k"));
        assert_ne!(of("alice", "k"), of("bob", "k"));
        assert_ne!(of("alice", "bk"), of("aliceb", "k"));
    }

    #[test]
    fn what_is_no_name() {
        let good = ReservationId::Group(GroupId { number: [255; 16], ends: None }).to_string();
        let wrong = [
            String::new(),
            "x".into(),
            good.to_uppercase(),
            format!("{good}0"),
            good[1..].into(),
            "0".repeat(1000),
            "ü".repeat(26),
        ];
        for text in wrong {
            assert_eq!(ReservationId::parse(&text), None, "{text}");
        }
        // The last letter has bits that are no name's: every reservation has one name only.
        let mut other = good.clone().into_bytes();
        *other.last_mut().unwrap() += 1;
        assert_eq!(ReservationId::parse(&String::from_utf8(other).unwrap()), None);
        for text in ["", "abc", &format!("{good}.x"), &format!("{good}.aa"), &good] {
            assert_eq!(GroupId::of_member(text), None, "{text}");
        }
    }
}
