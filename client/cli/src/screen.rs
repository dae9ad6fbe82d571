//! The terminal: its width, and colours for words that need a look. A pipe or a file gets neither, nor does who sets
//! NO_COLOR (no-color.org) get colours.

use rpc::table::TextTable;
use std::io::{IsTerminal, Stdout};

/// Clears a terminal, and begins at its upper left corner.
pub const CLEAR: &str = "\x1b[2J\x1b[H";

/// A table as standard output shows it: on a terminal within its width, without these columns if need be, and in colour.
pub fn shown(table: TextTable, dispensable: &[&str]) -> TextTable {
    let out = std::io::stdout();
    let table = match width(&out) {
        Some(width) => table.fitted(width, dispensable),
        None => table,
    };
    if is_coloured(&out) { table.painted(colour) } else { table }
}

/// The terminal's width in characters; `None`: standard output is no terminal.
fn width(out: &Stdout) -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(out)?;
    (width.0 > 0).then_some(width.0.into())
}

/// The number of lines of the terminal; `None`: standard output is no terminal.
pub fn height() -> Option<usize> {
    let (_, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    (height.0 > 0).then_some(height.0.into())
}

/// True if colours are shown there.
fn is_coloured(out: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    out.is_terminal() && !set("NO_COLOR") && !dumb
}

/// The word before a complaint.
pub fn own_name() -> &'static str {
    if is_coloured(&std::io::stderr()) { "\x1b[31msluice:\x1b[0m" } else { "sluice:" }
}

/// The colour of a word: green where all is as it should be, yellow where something is awaited or limited, red where
/// something is broken.
fn colour(word: &str) -> Option<&'static str> {
    let word = word.split([' ', ',', ':']).find(|part| !part.is_empty())?;
    match word {
        "active" | "enforced" | "installed" | "granted" => Some("32"),
        "held" | "promised" | "suspended" | "pending" | "cap" | "unbound" => Some("33"),
        "failing" | "failed" | "missing" | "short" | "refused" | "away" | "broken" | "expired" => Some("31"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::colour;

    #[test]
    fn broken_things_are_red() {
        assert_eq!(colour("failing: no such device"), Some("31"));
        assert_eq!((colour("active"), colour("1:10 installed")), (Some("32"), None));
        assert_eq!((colour(""), colour("net/eth1"), colour("cap")), (None, None, Some("33")));
    }
}
