//! Checks of the house: `cargo xtask arrows` (layers, purity) and `cargo xtask tidy` (headers, lengths, leftovers).
//!
//! Both run under `cargo test` as well, so a change that breaks the house fails the tests.
#![forbid(unsafe_code)]

mod arrows;
mod source;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let root = source::root();
    let what = std::env::args().nth(1).unwrap_or_default();
    let findings = match what.as_str() {
        "arrows" => arrows::check(&root),
        "tidy" => tidy::check(&root),
        "" | "all" => arrows::check(&root).into_iter().chain(tidy::check(&root)).collect(),
        "help" | "--help" | "-h" => {
            println!("cargo xtask arrows   layers and purity, against the table in ARCHITECTURE.md");
            println!("cargo xtask tidy     headers, lengths, leftovers");
            println!("cargo xtask          both");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: {other:?} is no check: arrows, tidy or nothing for both");
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
}
