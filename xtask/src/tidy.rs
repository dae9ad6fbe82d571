//! Tidiness: every file says what it is, files and functions stay short, nothing unfinished is left.

use crate::source;
use std::path::Path;

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// Marks of unfinished work, assembled here so that this file does not contain them.
fn leftovers() -> Vec<String> {
    let bang = |word: &str| format!("{word}!(");
    vec![
        bang("todo"),
        bang("unimplemented"),
        format!("#[{}", "ignore"),
        format!("allow({}", "dead_code"),
        format!("{}ME", "FIX"),
    ]
}

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    let leftovers = leftovers();
    for path in source::files(root, &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        let text = source::read(root, &path);
        if !text.starts_with("//!") {
            findings.push(format!("{name}: does not begin with a //! that says what it is"));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES {
            findings.push(format!("{name}: {lines} lines; at most {FILE_LINES}"));
        }
        long_functions(&name, &text, &mut findings);
        property_tests(&name, &text, &mut findings);
        for (number, line) in text.lines().enumerate() {
            for mark in leftovers.iter().filter(|mark| line.contains(mark.as_str())) {
                findings.push(format!("{name}:{}: {mark}", number + 1));
            }
        }
    }
    for path in source::files(root, &[".c", ".h"]) {
        let name = path.to_string_lossy().into_owned();
        let text = source::read(root, &path);
        if !(text.starts_with("//") || text.starts_with("/*")) {
            findings.push(format!("{name}: does not begin with a comment that says what it is"));
        }
        if text.lines().count() > FILE_LINES {
            findings.push(format!("{name}: more than {FILE_LINES} lines"));
        }
    }
    findings
}

/// Every block of property tests has its seed and its number of cases from the one frame.
fn property_tests(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (number, pair) in lines.windows(2).enumerate() {
        if pair[0] == "proptest! {" && !pair[1].starts_with("#![proptest_config(chance::cases(") {
            let what = "property tests begin with #![proptest_config(chance::cases(N))]: their seed must be settable";
            findings.push(format!("{name}:{}: {what}", number + 2));
        }
    }
}

/// rustfmt puts a function's closing brace at the indent of its first line, so no parser is needed.
fn long_functions(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let Some(function) = function_name(line) else { continue };
        if line.trim_end().ends_with('}') || line.trim_end().ends_with(';') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = format!("{indent}}}");
        let semicolon = |l: &str| l.starts_with(indent) && l.trim_end().ends_with(");") && !l.contains('{');
        let mut length = 0;
        for (offset, body) in lines[start..].iter().enumerate() {
            if *body == close || (offset > 0 && lines[start + 1] == *body && semicolon(body)) {
                length = offset + 1;
                break;
            }
        }
        if length > FUNCTION_LINES {
            findings.push(format!("{name}:{}: fn {function} has {length} lines; at most {FUNCTION_LINES}", start + 1));
        }
    }
}

/// The name, if a function's definition begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(") {
        rest = rest.split_once(") ")?.1;
    }
    for word in ["pub ", "default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    Some(rest.split(['(', '<']).next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_tests_have_their_seed_from_the_frame() {
        let block = |first: &str| format!("proptest! {{\n    {first}\n}}\n");
        let mut findings = Vec::new();
        property_tests("f.rs", &block("#![proptest_config(chance::cases(9))]"), &mut findings);
        assert_eq!(findings, Vec::<String>::new());
        property_tests("f.rs", &block("#[test]"), &mut findings);
        assert!(findings.len() == 1 && findings[0].starts_with("f.rs:2: "), "{findings:?}");
    }

    #[test]
    fn finds_a_long_function() {
        let body = "    let x = 1;\n".repeat(69);
        let mut findings = Vec::new();
        long_functions("f.rs", &format!("fn short() {{\n{}}}\n", &body[..15 * 68]), &mut findings);
        assert_eq!(findings, Vec::<String>::new());
        long_functions("f.rs", &format!("fn long() {{\n{body}}}\n"), &mut findings);
        assert_eq!(findings, ["f.rs:1: fn long has 71 lines; at most 70"]);
    }
}
