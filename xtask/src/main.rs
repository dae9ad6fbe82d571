//! Checks of the house: `cargo xtask arrows` (layers, purity), `cargo xtask tidy` (headers, lengths, leftovers) and
//! `cargo xtask clauses` (the ledgers of the RFCs' sentences); with the builds that are there, `cargo xtask checkpoints`; and
//! `cargo xtask suite`, which runs every test and counts.
//!
//! The first three run under `cargo test` as well, so a change that breaks the house fails the tests.
#![forbid(unsafe_code)]

mod arrows;
mod checkpoints;
mod clauses;
mod source;
mod suite;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let root = source::root();
    let what = std::env::args().nth(1).unwrap_or_default();
    let findings = match what.as_str() {
        "arrows" => arrows::check(&root),
        "tidy" => tidy::check(&root),
        "clauses" => clauses::check(&root),
        "checkpoints" => checkpoints::check(&root),
        "suite" => return suite::run(&root, &std::env::args().skip(2).collect::<Vec<_>>()),
        "" | "all" => [arrows::check(&root), tidy::check(&root), clauses::check(&root)].concat(),
        "help" | "--help" | "-h" => {
            println!("cargo xtask arrows   layers and purity, against the table in ARCHITECTURE.md");
            println!("cargo xtask tidy     headers, lengths, leftovers");
            println!("cargo xtask clauses  the clause ledgers of docs/rfc, against the tests that they name");
            println!("cargo xtask checkpoints  that they cost nothing where nobody looks (after cargo test)");
            println!("cargo xtask suite    format, clippy and every test, to the end, and one line that counts");
            println!("cargo xtask          the first three");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!(
                "xtask: {other:?} is no check: arrows, tidy, clauses, checkpoints, suite, or nothing for the first three"
            );
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
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
    #[test]
    fn arrows_only_go_down() {
        let findings = crate::arrows::check(&crate::source::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn the_house_is_tidy() {
        let findings = crate::tidy::check(&crate::source::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn every_clause_names_its_tests() {
        let findings = crate::clauses::check(&crate::source::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
