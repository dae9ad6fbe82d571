//! Entries as LDIF (RFC 2849): what `--ldif` prints, and what `ldapadd` reads.

use crate::entry::DirectoryEntry;

/// The longest line; longer ones are folded.
const WIDTH: usize = 76;

/// The entries, each whole, parents first.
pub fn text(entries: &[DirectoryEntry], base: &str) -> String {
    let mut text = String::from("version: 1\n");
    for entry in entries {
        text += "\n";
        text += &line("dn", &entry.key.dn(base));
        text += &line("objectClass", entry.key.class());
        for (name, values) in entry.attributes() {
            for value in values {
                text += &line(name, value);
            }
        }
    }
    text
}

/// One attribute and its value; in base 64 where it must be.
pub fn line(name: &str, value: &str) -> String {
    let safe = value.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    let starts = value.starts_with([' ', ':', '<']);
    let whole = if safe && !starts && !value.ends_with(' ') {
        format!("{name}: {value}")
    } else {
        format!("{name}:: {}", base64(value.as_bytes()))
    };
    let mut text = String::new();
    let mut width = 0;
    for one in whole.chars() {
        if width == WIDTH {
            text += "\n ";
            width = 1;
        }
        text.push(one);
        width += 1;
    }
    text + "\n"
}

/// Base 64 (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            match place <= three.len() {
                true => text.push(char::from(DIGITS[(word >> (18 - 6 * place) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_and_what_is_not_plain_is_in_base_64() {
        assert_eq!(line("a", "b c"), "a: b c\n");
        // RFC 4648, section 10.
        for (plain, coded) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(line("a", " x"), format!("a:: {}\n", base64(b" x")));
        assert_eq!(line("a", "\u{e4}"), format!("a:: {}\n", base64("\u{e4}".as_bytes())));
        assert_eq!(line("a", "b\ndn: c"), format!("a:: {}\n", base64(b"b\ndn: c")), "no value begins another line");
        let long = line("name", &"x".repeat(200));
        assert!(long.lines().all(|line| line.len() <= WIDTH), "{long}");
        assert_eq!(long.replace("\n ", ""), format!("name: {}\n", "x".repeat(200)));
    }
}
