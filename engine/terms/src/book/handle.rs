//! Handles of reservations: opaque, never used twice, not to be guessed, and hard to mistype.

use alloc::string::String;

/// A handle: 128 bits that the engine draws. A caller who guesses one learns nothing from the answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 16]);

/// The error for a text that is no handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadHandle {
    /// The mistake in the text.
    pub what: &'static str,
}

/// Crockford's base 32: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 128 bits of handle and 12 of checksum.
const LETTERS: usize = 28;

impl Handle {
    /// The text form: 28 letters and digits in four groups, `0123456-789abcd-...`; the last 12 bits are a checksum.
    pub fn text(&self) -> String {
        let all = u128::from_be_bytes(self.0);
        let check = u32::from(self.check());
        let mut text = String::with_capacity(LETTERS + 3);
        for i in 0..LETTERS {
            if i > 0 && i % 7 == 0 {
                text.push('-');
            }
            // The 140 bits from the left, five at a time; the 26th letter has three of the handle and two of the check.
            let five = match i {
                0..25 => (all >> (123 - 5 * i)) as u32,
                25 => (all as u32) << 2 | check >> 10,
                _ => check >> (5 * (27 - i)),
            };
            text.push(char::from(ALPHABET[(five & 31) as usize]));
        }
        text
    }

    /// Reads the text form; groups and the case of letters do not matter.
    ///
    /// # Errors
    /// [`BadHandle`]: a letter that is none of ours, the wrong length, a checksum that does not fit.
    pub fn parse(text: &str) -> Result<Handle, BadHandle> {
        let (mut all, mut check, mut n) = (0_u128, 0_u32, 0_usize);
        for letter in text.bytes().filter(|letter| *letter != b'-') {
            let lower = letter.to_ascii_lowercase();
            let five = ALPHABET.iter().position(|&l| l == lower).ok_or(BadHandle { what: "a letter of no handle" })?;
            match n {
                0..25 => all = all << 5 | five as u128,
                25 => {
                    all = all << 3 | (five as u128) >> 2;
                    check = five as u32 & 3;
                }
                26 | 27 => check = check << 5 | five as u32,
                _ => return Err(BadHandle { what: "too long for a handle" }),
            }
            n += 1;
        }
        let handle = Handle(all.to_be_bytes());
        match n {
            LETTERS if u32::from(handle.check()) == check => Ok(handle),
            LETTERS => Err(BadHandle { what: "mistyped: the checksum does not fit" }),
            _ => Err(BadHandle { what: "too short for a handle" }),
        }
    }

    /// CRC-12 (x^12 + x^11 + x^3 + x^2 + x + 1): finds every error of up to 12 neighbouring bits.
    fn check(&self) -> u16 {
        let mut crc: u16 = 0xfff;
        for bit in self.0.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1)) {
            let out = (crc >> 11 & 1) ^ u16::from(bit);
            crc = (crc << 1 & 0xfff) ^ if out == 1 { 0x80f } else { 0 };
        }
        crc
    }
}

impl core::fmt::Display for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text())
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text())
    }
}

impl core::fmt::Display for BadHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.what)
    }
}

impl core::error::Error for BadHandle {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64) -> Handle {
        let wide = u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Handle((wide ^ wide >> 61).to_be_bytes())
    }

    #[test]
    fn there_and_back() {
        for handle in (0..1_000).map(sample).chain([Handle([0; 16]), Handle([255; 16])]) {
            let text = handle.text();
            assert_eq!(text.len(), 31);
            assert_eq!(Handle::parse(&text), Ok(handle));
            assert_eq!(Handle::parse(&text.to_uppercase().replace('-', "")), Ok(handle));
        }
    }

    #[test]
    fn one_wrong_letter_is_found() {
        let text = sample(7).text();
        for at in 0..text.len() {
            for letter in ALPHABET {
                let mut bytes = text.clone().into_bytes();
                if bytes[at] == b'-' || bytes[at] == *letter {
                    continue;
                }
                bytes[at] = *letter;
                let wrong = String::from_utf8(bytes).unwrap();
                assert!(Handle::parse(&wrong).is_err(), "{wrong} for {text}");
            }
        }
        for text in ["", "0", "not a handle", "ü", &"0".repeat(29), &"0".repeat(10_000)] {
            assert!(Handle::parse(text).is_err());
        }
    }
}
