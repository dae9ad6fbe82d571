//! Model checking of the commit engine as it ships, for people and scripts: docs/commit-model.md.
//!
//! ```text
//! cargo run --release -p sluice-commit --example model -- --json
//! ```

#[path = "../../tests/model/nested/mod.rs"]
mod nested;
#[path = "../../tests/model/world/mod.rs"]
mod world;

use nested::{NESTED_MUTANTS, NestedMutant, SEEDS, plays};
use std::process::ExitCode;
use world::counts::ALL;
use world::scopes::{LARGE, NIGHTLY, SCOPES, check, mutants};

const HELP: &str = "\
Searches every order of events of the commit engine within a scope, and then with defects on purpose.

usage: model [--nightly] [--json] [--help]

  --nightly  larger scopes too, which take minutes and 2 GB
  --json     one line: {\"states\":..,\"violations\":0,\"mutants\":..,\"caught\":..}
  --help     this text

Exit status: 0, or 1 if a property does not hold or a defect is not found, or 2 for wrong arguments.";

fn main() -> ExitCode {
    let (mut json, mut nightly) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => json = true,
            "--nightly" => nightly = true,
            "--help" | "-h" => {
                println!("{HELP}");
                return ExitCode::SUCCESS;
            }
            other => {
                eprintln!("model: {other}: no such argument\n\n{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    let say = |line: String| if json { eprintln!("{line}") } else { println!("{line}") };
    let (mut states, mut violations, mut tried, mut caught) = (0, 0, 0, 0);
    let large = NIGHTLY.into_iter().filter(|_| nightly);
    for scope in SCOPES.into_iter().chain(LARGE).chain(large) {
        let report = check(scope);
        say(format!("{} states, {} steps: {}", report.states, report.steps, scope.name));
        for (seen, name) in ALL.iter().filter(|(seen, _)| report.count(*seen) > 0) {
            say(format!("  {} {name}", report.count(*seen)));
        }
        for (property, steps) in &report.violations {
            say(format!("does not hold: {property}\n  {}", steps.join("\n  ")));
        }
        states += report.states;
        violations += report.violations.len();
    }
    for (_, words, report) in mutants() {
        tried += 1;
        caught += usize::from(!report.violations.is_empty());
        let found = report.violations.first();
        let how = found.map_or("NOT CAUGHT".to_string(), |(property, steps)| {
            format!("caught after {} steps, by \"{property}\"", steps.len())
        });
        say(format!("{words}: {how}"));
    }
    match plays(NestedMutant::None) {
        Ok(played) => say(format!("three domains in a chain, {SEEDS} seeds: {played:?}")),
        Err((seed, why)) => {
            violations += 1;
            say(format!("three domains in a chain, seed {seed}: {why}"));
        }
    }
    for (mutant, words) in NESTED_MUTANTS {
        tried += 1;
        let found = plays(*mutant).err();
        caught += usize::from(found.is_some());
        let how = found.map_or("NOT CAUGHT".to_string(), |(seed, why)| format!("caught by seed {seed}: \"{why}\""));
        say(format!("{words}: {how}"));
    }
    if json {
        println!("{{\"states\":{states},\"violations\":{violations},\"mutants\":{tried},\"caught\":{caught}}}");
    }
    if violations == 0 && caught == tried { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
