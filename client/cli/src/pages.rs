//! Man pages, section 1, from the definition of the command line.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use std::io;
use std::path::Path;

/// Writes a page for each command.
pub fn write(folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(whole(Cli::command()), folder)?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("sluice") && name.ends_with(".1") {
            let text = std::fs::read_to_string(&path)?;
            std::fs::write(&path, with_examples(&text))?;
        }
    }
    Ok(())
}

/// The same with every option's words: a page would leave those of options that `-h` leaves out.
fn whole(command: Command) -> Command {
    command.mut_args(|one| one.hide_short_help(false)).mut_subcommands(whole)
}

/// The words behind the options are examples, whose lines stay as they are.
fn with_examples(page: &str) -> String {
    let mut lines = Vec::new();
    let mut within = false;
    for line in page.lines() {
        if within && line.starts_with(".SH") {
            lines.push(".fi");
            within = false;
        }
        if line == ".SH EXTRA" {
            lines.extend([".SH EXAMPLES", ".nf"]);
            within = true;
        } else {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::with_examples;

    #[test]
    fn examples_are_called_so_and_keep_their_lines() {
        let page = ".SH OPTIONS\n.SH EXTRA\nExamples:\n  a\n  b\n.SH VERSION\n1\n";
        let expected = ".SH OPTIONS\n.SH EXAMPLES\n.nf\nExamples:\n  a\n  b\n.fi\n.SH VERSION\n1\n";
        assert_eq!(with_examples(page), expected);
    }
}
