//! Plain English: doc comments that begin with a clause instead of a subject, words for unnamed people, and long lines of Markdown.
//!
//! All three limits are ratchets: a change may lower them, and none may be exceeded. STYLE.md shows better sentences.

use crate::source;
use std::path::Path;

/// Words that begin a clause where a name should stand.
const OPENINGS: [&str; 5] = ["What", "Whether", "Where", "Which", "Whose"];
/// Words for people that a sentence does not name.
const UNNAMED: [&str; 3] = ["whoever", "nobody", "somebody"];
/// Doc comments that begin with such a word today; the number only falls.
const MOST_OPENINGS: usize = 0;
/// Doc comments with such a word today; the number only falls.
const MOST_UNNAMED: usize = 2;
/// Columns of a line of Markdown that can wrap.
const COLUMNS: usize = 100;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let (mut openings, mut unnamed) = (Vec::new(), Vec::new());
    for path in source::files(root, &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        if ["tests/", "benches/", "examples/"].iter().any(|folder| name.contains(folder)) || name.ends_with("tests.rs")
        {
            continue;
        }
        for (number, line) in source::read(root, &path).lines().enumerate() {
            let Some(text) = doc_comment(line) else { continue };
            let place = || format!("{name}:{}: {text}", number + 1);
            openings.extend(opens_with_a_clause(text).then(place));
            unnamed.extend(names_nobody(text).then(place));
        }
    }
    let mut findings = above("begin with a clause", MOST_OPENINGS, openings);
    findings.extend(above("speak of nobody by name", MOST_UNNAMED, unnamed));
    for path in source::files(root, &[".md"]) {
        let long = long_lines(&source::read(root, &path));
        findings.extend(long.into_iter().map(|n| format!("{}:{n}: over {COLUMNS} columns", path.display())));
    }
    findings
}

fn above(what: &str, most: usize, found: Vec<String>) -> Vec<String> {
    if found.len() <= most {
        return Vec::new();
    }
    let all = format!("{} doc comments {what}, at most {most}:", found.len());
    std::iter::once(all).chain(found).collect()
}

fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

fn opens_with_a_clause(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    OPENINGS.contains(&first) && !text.contains('?')
}

fn names_nobody(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| UNNAMED.iter().any(|unnamed| word.eq_ignore_ascii_case(unnamed)))
}

/// The numbers of the lines that could wrap and do not: no tables, headings, code, images, HTML or single long words.
fn long_lines(text: &str) -> Vec<usize> {
    let (mut found, mut code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        // A comment over several lines holds commands.
        let comment = (start.starts_with("<!--") && !start.contains("-->")) || start == "-->";
        if start.starts_with("```") || comment {
            code = !code;
        }
        let fixed = ["|", "#", "<", "!["].iter().any(|fixed| start.starts_with(fixed)) || line.starts_with("    ");
        let wraps = start.split(' ').count() > 3;
        if !code && !fixed && wraps && line.chars().count() > COLUMNS {
            found.push(number + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_a_nobody_and_a_long_line_are_found() {
        assert!(opens_with_a_clause("Whether there is room."));
        assert!(!opens_with_a_clause("True if there is room."));
        assert!(!opens_with_a_clause("What is left?"));
        assert!(names_nobody("Somebody calls.") && !names_nobody("A caller asks."));
        let long = "word ".repeat(30);
        assert_eq!(
            long_lines(&format!("{long}\n| {long}\n```\n{long}\n```\nshort\n{long}\n<!-- before\n{long}\n-->\n")),
            [1, 7]
        );
    }
}
