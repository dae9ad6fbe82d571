//! Patterns of names: `*` stands for any characters, `?` for one, everything else for itself. There is no
//! other magic, so that no pattern takes long.

use alloc::string::String;

/// The longest pattern, bytes.
pub const MOST_PATTERN: usize = 256;

/// A pattern of names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NamePattern(String);

/// The error for a pattern that is empty or too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPattern;

impl NamePattern {
    /// Makes a pattern from its text.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn new(text: &str) -> Result<NamePattern, BadPattern> {
        if text.is_empty() || text.len() > MOST_PATTERN { Err(BadPattern) } else { Ok(NamePattern(text.into())) }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the pattern stands for the whole of `text`. It takes at most `pattern x text` steps: only the
    /// last `*` is ever tried again.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut again: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    again = Some((p + 1, t));
                    p += 1;
                }
                // One character, however many bytes it has.
                Some(b'?') => {
                    t += 1;
                    while text.get(t).is_some_and(|byte| byte & 0xc0 == 0x80) {
                        t += 1;
                    }
                    p += 1;
                }
                Some(byte) if *byte == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((star, from)) = again else { return false };
                    again = Some((star, from + 1));
                    (p, t) = (star, from + 1);
                }
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

impl core::fmt::Display for BadPattern {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a pattern has 1 to {MOST_PATTERN} bytes")
    }
}

impl core::error::Error for BadPattern {}
