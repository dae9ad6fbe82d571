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

/// rustfmt puts a function's closing brace, and the last line of its signature, at the indent of its first line, so no
/// parser is needed.
fn long_functions(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let Some(function) = function_name(line) else { continue };
        if let Some(length) = length(&lines[start..]).filter(|length| *length > FUNCTION_LINES) {
            findings.push(format!("{name}:{}: fn {function} has {length} lines; at most {FUNCTION_LINES}", start + 1));
        }
    }
}

/// Lines of the function that begins here; `None`: it has no body, or all of it on one line.
fn length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = &first[..first.len() - first.trim_start().len()];
    let own = |line: &str| line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
    let opens = lines.iter().position(|line| own(line) && line.ends_with(['{', '}', ';']))?;
    if !lines[opens].ends_with('{') {
        return None;
    }
    let close = format!("{indent}}}");
    let body = lines[opens..].iter().position(|line| *line == close)?;
    Some(opens + body + 1)
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

    #[test]
    fn a_long_function_is_found_whatever_its_first_lines_are() {
        let found = |text: &str| {
            let mut findings = Vec::new();
            long_functions("f.rs", text, &mut findings);
            findings.len()
        };
        let rest = "    let x = 1;\n".repeat(80);
        for begin in [
            "fn long() {\n    call(1);\n",
            "fn long(\n    a: u32,\n) -> u32 {\n    call(a);\n",
            "fn long<T>(a: T)\nwhere\n    T: Copy,\n{\n    call(a);\n",
        ] {
            assert_eq!(found(&format!("{begin}{rest}}}\n")), 1, "{begin}");
        }
        let declared = "trait A {\n    fn far(\n        a: u32,\n    ) -> u32;\n\n    fn near();\n}\n";
        assert_eq!(found(&format!("{declared}fn short() {{\n    call(1);\n}}\n")), 0);
    }
}
