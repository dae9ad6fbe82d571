//! Strict JSON: no key twice, not too deep, numbers exact.
//!
//! An attack begins with text that two readers understand differently (a key that is there twice, RFC 8259
//! section 4), so it is refused instead of guessed. Integers are read as 64 bits, never through a float; NaN,
//! infinity and lone surrogates are no JSON at all.

use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// The most levels of arrays and objects.
pub const MAX_DEPTH: usize = 32;

/// Reads a document; errors have their line and column.
///
/// # Errors
/// A sentence for the sender.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    // serde would take an array as a document whose names are left out.
    if text.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| *first != b'{') {
        return Err("a document is an object: it begins with {".to_owned());
    }
    let mut plain = serde_json::Deserializer::from_slice(text);
    Plain { depth: 0 }.deserialize(&mut plain).and_then(|()| plain.end()).map_err(|error| error.to_string())?;
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Checks a document without keeping it.
struct Plain {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Plain {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Plain {
    fn deeper<E: Error>(&self) -> Result<Plain, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Plain { depth: self.depth + 1 })
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        // An integer beyond 64 bits arrives as a float; taken on, it would be another number.
        if number.abs() >= 9.007_199_254_740_992e15 {
            return Err(E::custom("a number too large to be exact"));
        }
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.deeper()?)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = entries.next_key::<Key>()? {
            if !seen.insert(key.0.clone()) {
                return Err(A::Error::custom(format!("the key {:?} is there twice", key.0)));
            }
            entries.next_value_seed(self.deeper()?)?;
        }
        Ok(())
    }
}

/// A key, shortened for messages.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer).map(Key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    fn refused(text: &str, why: &str) {
        let said = read::<Value>(text.as_bytes()).unwrap_err();
        assert!(said.contains(why), "{text:.60}: {said}");
    }

    #[test]
    fn what_is_no_json_of_ours() {
        refused("", "EOF");
        refused("{\"a\":1,\"a\":1}", "\"a\" is there twice");
        refused("{\"a\":{\"b\":1,\"c\":2,\"\\u0062\":3}}", "\"b\" is there twice");
        refused("{\"a\":1} x", "trailing");
        refused(&("{\"a\":".to_owned() + &"[".repeat(10_000)), "deeper than 32");
        refused(&("{\"a\":".repeat(33) + &"}".repeat(33)), "deeper than 32");
        refused("[]", "begins with {");
        refused("null", "begins with {");
        for (value, why) in [
            ("NaN", "expected"),
            ("[Infinity]", "expected"),
            ("\"\\ud800\"", "hex escape"),
            ("18446744073709551616", "too large to be exact"),
            ("[1e300]", "too large to be exact"),
            ("\"\u{1}\"", "control character"),
        ] {
            refused(&format!("{{\"a\":{value}}}"), why);
        }
        assert!(read::<Value>(b"{\"a\":\"\xff\"}").is_err(), "no UTF-8");
        let full = "{\"a\":".to_owned() + &"[".repeat(31) + &"]".repeat(31) + "}";
        assert!(read::<Value>(full.as_bytes()).is_ok());
    }

    #[test]
    fn integers_beyond_what_a_float_holds_are_exact() {
        assert_eq!(
            read::<BTreeMap<String, u64>>(b"{\"a\":9007199254740993,\"b\":18446744073709551615}")
                .unwrap()
                .into_values()
                .collect::<Vec<_>>(),
            [(1 << 53) + 1, u64::MAX]
        );
    }
}
