//! `cargo xtask suite`: everything that a change must pass, to its end, and then one line that counts.
//!
//! Format, clippy and all tests run whatever fails before them. A test that could not run here says `SKIPPED: why` past
//! libtest's capture (`bench::skipped`); libtest counts it as passed, and this does not. The end repeats why each test
//! failed and what took longest: of a long log often only the end is kept.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The most lines that are repeated of what a failed test said, and the most failed tests of which they are.
const REASON_LINES: usize = 25;
const REASONS: usize = 20;
/// The number of steps whose time is said.
const LONGEST: usize = 8;

/// The result of a run.
#[derive(Debug, Default)]
pub struct SuiteCounts {
    passed: u64,
    /// The tests that failed, by name.
    failed: Vec<String>,
    skipped: BTreeSet<String>,
    /// The test binary that is running, until it says its result.
    running: Option<String>,
    /// The first lines of the words of each failed test.
    reasons: Vec<Vec<String>>,
    /// True: the lines that come now are a failed test's.
    in_reason: bool,
}

impl SuiteCounts {
    /// Reads one line of what cargo and the tests say.
    fn line(&mut self, line: &str) {
        let bare = line.trim();
        self.reason(line.trim_end());
        if let Some(binary) = bare.strip_prefix("Running ").or_else(|| bare.strip_prefix("Doc-tests ")) {
            self.died();
            self.running = Some(binary.to_string());
        } else if let Some(counts) = bare.strip_prefix("test result: ") {
            let count = |what: &str| {
                let before = counts.split(what).next().unwrap_or("");
                before.split_whitespace().last().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.running = None;
        } else if let Some(test) = bare.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failed.push(self.of(test));
        } else if let Some(why) = skipped(bare) {
            let one = self.of(why);
            self.skipped.insert(one);
        }
    }

    /// Keeps what libtest repeats of a failed test, without its backtrace.
    fn reason(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.in_reason = self.reasons.len() < REASONS;
            if self.in_reason {
                self.reasons.push(vec![line.to_owned()]);
            }
        } else if matches!(line, "stack backtrace:" | "failures:") || line.starts_with("test result: ") {
            self.in_reason = false;
        } else if self.in_reason
            && !line.is_empty()
            && let Some(lines) = self.reasons.last_mut().filter(|lines| lines.len() < REASON_LINES)
        {
            lines.push(line.to_owned());
        }
    }

    fn of(&self, what: &str) -> String {
        let binary = self.running.as_deref().unwrap_or("").split(" (").next().unwrap_or("");
        format!("{binary}: {what}")
    }

    /// A test binary that ends without a result has died.
    fn died(&mut self) {
        if let Some(binary) = self.running.take() {
            self.failed.push(format!("{binary}: ended without a result"));
        }
    }

    /// The last line. A test that was skipped is among libtest's passed ones.
    fn summary(&self) -> String {
        let tests: BTreeSet<&str> = self.skipped.iter().map(|line| test_of(line)).collect();
        let skipped = tests.len() as u64;
        let passed = self.passed.saturating_sub(skipped);
        format!("{passed} passed, {} failed, {skipped} skipped", self.failed.len())
    }
}

/// The reason, if the line says that a test could not run; libtest may have begun the line, where it runs one at a time.
fn skipped(line: &str) -> Option<&str> {
    let rest = if line.starts_with("test ") { line.split_once(" ... ")?.1 } else { line };
    rest.strip_prefix("SKIPPED: ")
}

/// `SKIPPED: why [name]`: one test may say more than one reason; without a name each reason counts.
fn test_of(line: &str) -> &str {
    match line.rsplit_once(" [") {
        Some((_, name)) => name,
        None => line,
    }
}

/// Runs all of it; the status says whether everything passed.
pub fn run(root: &Path, more: &[String]) -> ExitCode {
    let mut tally = SuiteCounts::default();
    let mut times = StepTimes::default();
    println!("property tests run with SLUICE_SEED={}", std::env::var("SLUICE_SEED").as_deref().unwrap_or("2205"));
    let checks: [&[&str]; 2] =
        [&["fmt", "--all", "--check"], &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]];
    for check in checks {
        times.step(&format!("cargo {}", check[0]));
        match cargo(root, check).status() {
            Ok(status) if status.success() => tally.passed += 1,
            _ => tally.failed.push(format!("cargo {}", check[0])),
        }
    }
    let mut tests = cargo(root, &["test", "--workspace", "--locked", "--no-fail-fast"]);
    tests.args(more);
    times.step("building the tests");
    match follow(&mut tests, &mut tally, &mut times) {
        Ok(true) => {}
        Ok(false) if tally.failed.is_empty() => tally.failed.push("cargo test".into()),
        Ok(false) => {}
        Err(failed) => tally.failed.push(format!("cargo test: {failed}")),
    }
    times.step("");
    let mut said = std::io::stdout().lock();
    for line in tally.reasons.iter().flatten().chain([&times.longest()]) {
        let _ = writeln!(said, "{line}");
    }
    let list = tally.skipped.iter().map(|line| format!("skipped  {line}"));
    for line in list.chain(tally.failed.iter().map(|line| format!("FAILED   {line}"))).chain([tally.summary()]) {
        // Nobody is left to tell if this cannot be written.
        let _ = writeln!(said, "{line}");
    }
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The time that each step took: the checks, the build, each test binary.
#[derive(Debug, Default)]
struct StepTimes {
    steps: Vec<(u64, String)>,
    running: Option<(Instant, String)>,
}

impl StepTimes {
    /// A step begins, and the one before has ended; an empty name begins none.
    fn step(&mut self, name: &str) {
        let next = (!name.is_empty()).then(|| (Instant::now(), name.to_owned()));
        if let Some((begun, name)) = std::mem::replace(&mut self.running, next) {
            self.steps.push((begun.elapsed().as_secs(), name));
        }
    }

    /// Reads a line of what cargo says.
    fn line(&mut self, line: &str) {
        let bare = line.trim();
        if let Some(binary) = bare.strip_prefix("Running ").or_else(|| bare.strip_prefix("Doc-tests ")) {
            let binary = binary.rsplit('/').next().unwrap_or(binary);
            self.step(binary.trim_end_matches(')').rsplit_once('-').map_or(binary, |(name, _)| name));
        }
    }

    /// The longest steps, for people.
    fn longest(&self) -> String {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|(seconds, _)| std::cmp::Reverse(*seconds));
        let all: u64 = self.steps.iter().map(|(seconds, _)| seconds).sum();
        let longest: Vec<String> =
            steps.iter().take(LONGEST).map(|(seconds, name)| format!("{name} {seconds} s")).collect();
        format!("{all} s: {}", longest.join(", "))
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // What an incremental build would keep for the next costs a seventh of this one.
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Passes on what a command says, both streams in the order of writing, and reads it; whether the command succeeded.
fn follow(command: &mut Command, tally: &mut SuiteCounts, times: &mut StepTimes) -> std::io::Result<bool> {
    let (from, to) = std::io::pipe()?;
    let mut child = command.stdout(to.try_clone()?).stderr(to).stdin(Stdio::null()).spawn()?;
    // The command still holds the writing end: until it is gone the reading one would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut lines = BufReader::new(from);
    let (mut line, mut out) = (Vec::new(), std::io::stdout());
    while lines.by_ref().read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        times.line(&text);
        tally.line(&text);
        line.clear();
    }
    let status = child.wait()?;
    tally.died();
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SuiteCounts {
        let mut tally = SuiteCounts::default();
        text.lines().for_each(|line| tally.line(line));
        tally.died();
        tally
    }

    #[test]
    fn counts_what_passed_failed_and_was_skipped() {
        let tally = read(
            "     Running tests/a.rs (target/debug/deps/a-1)\n\
             test one ... ok\n\
             SKIPPED: no tshark [two]\n\
             SKIPPED: no root [two]\n\
             test three ... SKIPPED: no clang\n\
             test four ... FAILED\n\
             test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
             \x20  Doc-tests terms\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.summary(), "7 passed, 1 failed, 2 skipped");
        assert_eq!(tally.failed, ["tests/a.rs: four"]);
    }

    #[test]
    fn what_failed_tests_said_is_kept_without_backtraces() {
        let tally = read(
            "     Running tests/a.rs (target/debug/deps/a-1)\ntest one ... FAILED\n\nfailures:\n\n\
             ---- one stdout ----\n\nthread 'one' panicked at a.rs:1:1:\nit is 3\nstack backtrace:\n   0: rust\n\n\
             ---- two stdout ----\nit is 4\n\n\nfailures:\n    one\n    two\n\ntest result: FAILED. 0 passed; 2 failed\n",
        );
        let one = ["---- one stdout ----", "thread 'one' panicked at a.rs:1:1:", "it is 3"].map(String::from);
        assert_eq!(tally.reasons, [one.to_vec(), vec!["---- two stdout ----".into(), "it is 4".into()]]);
    }

    #[test]
    fn steps_have_names_and_times() {
        let mut times = StepTimes::default();
        times.step("cargo clippy");
        times.line("     Running tests/main.rs (target/debug/deps/cli-1e5c36266f761689)\n");
        times.step("");
        assert_eq!(times.longest(), "0 s: cargo clippy 0 s, cli 0 s");
    }

    #[test]
    fn a_binary_that_dies_has_failed() {
        let tally = read(
            "     Running tests/a.rs (target/debug/deps/a-1)\ntest one ... ok\n\
             \x20    Running tests/b.rs (target/debug/deps/b-1)\n\
             test result: ok. 1 passed; 0 failed; 0 ignored\n\
             \x20    Running tests/c.rs (target/debug/deps/c-1)\n",
        );
        assert_eq!(tally.summary(), "1 passed, 2 failed, 0 skipped");
        assert_eq!(tally.failed[0], "tests/a.rs (target/debug/deps/a-1): ended without a result");
    }
}
