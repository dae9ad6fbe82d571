//! Fields of tables as comma-separated values (RFC 4180).

/// Quotes a field of CSV where needed (RFC 4180).
pub fn quoted(word: &str) -> String {
    if word.contains([',', '"', '\n', '\r']) { format!("\"{}\"", word.replace('"', "\"\"")) } else { word.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        let fields = ["C1", "C2, shaped", "a \"b\"", "two\nlines", ""].map(quoted);
        assert_eq!(fields, ["C1", "\"C2, shaped\"", "\"a \"\"b\"\"\"", "\"two\nlines\"", ""]);
    }
}
