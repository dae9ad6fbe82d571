//! Checks of the house: `cargo xtask arrows` (layers, purity), `tidy` (headers, lengths, leftovers), `clauses` (the ledgers of the
//! RFCs' sentences), `names` and `circles` (public types, imports), `fields` (what types show inside their crate), `kept` (no test is lost), `programs` (test programs), `links` (of Markdown), `prose` (plain English), `pages` (man pages of configuration files); with the builds that are there,
//! `cargo xtask checkpoints`; and `cargo xtask suite`, which runs every test and counts.
//!
//! Those that read sources alone run under `cargo test` as well, so a change that breaks the house fails the tests.
#![forbid(unsafe_code)]

mod arrows;
mod checkpoints;
mod circles;
mod clauses;
mod fields;
mod kept;
mod links;
mod names;
mod pages;
mod programs;
mod prose;
mod source;
mod suite;
mod tidy;
mod web;

use std::path::Path;
use std::process::ExitCode;

type Check = fn(&Path) -> Vec<String>;

/// The checks that read sources alone; each runs under `cargo test` too.
const ALL: [(&str, Check); 12] = [
    ("arrows", arrows::check),
    ("tidy", tidy::check),
    ("clauses", clauses::check),
    ("names", names::check),
    ("circles", circles::check),
    ("fields", fields::check),
    ("kept", kept::check),
    ("programs", programs::check),
    ("links", links::check),
    ("prose", prose::check),
    ("web", web::check),
    ("pages", pages::check),
];

fn main() -> ExitCode {
    let root = source::root();
    let what = std::env::args().nth(1).unwrap_or_default();
    if what == "pages" && std::env::args().nth(2).as_deref() == Some("write") {
        return report(&pages::write(&root));
    }
    if let Some((_, check)) = ALL.iter().find(|(name, _)| *name == what) {
        return report(&check(&root));
    }
    let findings: Vec<String> = match what.as_str() {
        "figures" => {
            [names::figures(&root), circles::figures(&root), fields::figures(&root)]
                .concat()
                .iter()
                .for_each(|line| println!("{line}"));
            return ExitCode::SUCCESS;
        }
        "list-tests" => {
            print!("{}", kept::list(&root));
            return ExitCode::SUCCESS;
        }
        "checkpoints" => checkpoints::check(&root),
        "suite" => return suite::run(&root, &std::env::args().skip(2).collect::<Vec<_>>()),
        "" | "all" => ALL.iter().flat_map(|(_, check)| check(&root)).collect(),
        "help" | "--help" | "-h" => {
            println!("cargo xtask arrows   layers and purity, against the table in ARCHITECTURE.md");
            println!("cargo xtask tidy     headers, lengths, leftovers");
            println!("cargo xtask clauses  the clause ledgers of docs/rfc, against the tests that they name");
            println!("cargo xtask names    public type names in two crates, and types with too many methods");
            println!("cargo xtask circles  files of a crate that import each other in a circle");
            println!("cargo xtask fields   fields that types show inside their crates, and how many may be");
            println!("cargo xtask kept     tests that were there and are there no longer");
            println!("cargo xtask programs one test program a crate, and every file of tests in it");
            println!(
                "cargo xtask figures  what names, circles and fields count, for a person; list-tests: every test's name"
            );
            println!("cargo xtask checkpoints  that they cost nothing where nobody looks (after cargo test)");
            println!("cargo xtask suite    format, clippy and every test, to the end, and one line that counts");
            println!("cargo xtask prose    doc comments that begin with a clause, long lines of Markdown");
            println!("cargo xtask web      the lockfile of the pages for browsers, which names no host");
            println!(
                "cargo xtask pages    man pages of configuration files, against the heads of the sources; `pages write` writes them"
            );
            println!("cargo xtask links    links of Markdown that lead to no file or heading");
            println!(
                "cargo xtask          all that read sources alone: arrows to programs, links, prose, web and pages"
            );
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: {other:?} is no check; `cargo xtask help` names them");
            return ExitCode::from(2);
        }
    };
    report(&findings)
}

fn report(findings: &[String]) -> ExitCode {
    for finding in findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("the house is in order");
        ExitCode::SUCCESS
    } else {
        eprintln!("{} findings", findings.len());
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    fn holds(name: &str) {
        let (_, check) = crate::ALL.iter().find(|(of, _)| *of == name).expect("a check of this name");
        let findings = check(&crate::source::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn arrows_only_go_down() {
        holds("arrows");
    }

    #[test]
    fn the_house_is_tidy() {
        holds("tidy");
    }

    #[test]
    fn every_clause_names_its_tests() {
        holds("clauses");
    }

    #[test]
    fn links_of_markdown_lead_somewhere() {
        holds("links");
    }

    #[test]
    fn comments_are_plain_english_and_pages_wrap() {
        holds("prose");
    }

    #[test]
    fn the_lockfile_of_the_pages_names_no_host() {
        holds("web");
    }

    #[test]
    fn man_pages_have_every_key_of_configuration_files() {
        holds("pages");
    }

    #[test]
    fn type_names_and_sizes_stay_within_their_limits() {
        holds("names");
    }

    #[test]
    fn circles_of_imports_do_not_grow() {
        holds("circles");
    }

    #[test]
    fn every_test_is_in_a_program() {
        holds("programs");
    }

    #[test]
    fn no_test_is_lost() {
        holds("kept");
    }
}
