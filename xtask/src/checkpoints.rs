//! Checks that probe points cost nothing without an observer: `cargo xtask checkpoints`.
//!
//! Two proofs. *By the compiler*: steps around a piece of work, as the engines write them, become not one instruction more
//! than the work alone, with `terms::probe` as it stands; a probe that counts does, so the comparison sees what it
//! should. *In the build*: what the agent is made of (`libagent_service`, where the engines are
//! instantiated with `Off`) reads no time-stamp counter anywhere, while what profiles (`libprofile`) does.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let mut findings = same_code(root);
    match in_the_build(root) {
        Ok(found) => findings.extend(found),
        Err(why) => eprintln!("SKIPPED: no time-stamp is looked for in the build: {why}"),
    }
    findings
}

/// A copy of every engine's `step`, and two steps of a message; `PROBE` looks on, if the steps are told.
const MESSAGE: &str = "
pub struct Engine<P> { probe: P, table: [u64; 64], last: u64 }
#[derive(Default)]
pub struct Counting(u64);
impl ProbeObserver for Counting {
    fn enter(&mut self, step: ProbePoint) { self.0 += step.index() as u64; }
    fn leave(&mut self, step: ProbePoint) { self.0 ^= step.index() as u64; }
}
impl<P: ProbeObserver> Engine<P> {
    fn step<T>(&mut self, step: ProbePoint, deed: impl FnOnce(&mut Self) -> T) -> T {
        TOLD_ENTER
        let done = deed(self);
        TOLD_LEAVE
        done
    }
    fn find(&mut self, n: u64) -> u64 { look(&self.table, n) }
    fn refresh(&mut self, at: u64) { self.last = self.last.rotate_left(7) ^ at; }
}
// Elsewhere: a loop would be laid out another way for the least reason.
unsafe extern \"C\" { safe fn look(table: &[u64; 64], n: u64) -> u64; }
#[unsafe(no_mangle)]
pub extern \"C\" fn message(engine: &mut Engine<PROBE>, n: u64) -> u64 {
    let found = engine.step(ProbePoint::FindSession, |engine| engine.find(n));
    if found != 0 {
        engine.step(ProbePoint::PathRefresh, |engine| engine.refresh(found));
    }
    engine.last
}
";

/// Compares the code of two steps of a message: without an observer, without probe points, and with an observer.
fn same_code(root: &Path) -> Vec<String> {
    let told = ("self.probe.enter(step);", "self.probe.leave(step);");
    let untold = ("let _ = step;", "");
    let [nobody, bare, somebody] =
        [("Off", told), ("Off", untold), ("Counting", told)].map(|(probe, told)| assembly(root, probe, told));
    match (nobody, bare, somebody) {
        (Ok(nobody), Ok(bare), Ok(somebody)) => {
            let mut findings = Vec::new();
            if nobody.len() > bare.len() {
                let more = nobody.len() - bare.len();
                findings.push(format!("checkpoints that nobody looks at leave {more} instructions in the code"));
            }
            if somebody.len() <= bare.len() {
                findings.push("the comparison does not see a probe that counts".to_string());
            }
            findings
        }
        (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => vec![format!("the checkpoints do not compile: {why}")],
    }
}

/// The instructions that the compiler makes of [`MESSAGE`].
fn assembly(root: &Path, probe: &str, (enter, leave): (&str, &str)) -> Result<Vec<String>, String> {
    let at = root.join("engine/terms/src/probe.rs");
    let code = MESSAGE.replace("TOLD_ENTER", enter).replace("TOLD_LEAVE", leave).replace("PROBE", probe);
    let text = format!(
        "#![no_std]\n#![crate_type = \"lib\"]\n#![allow(unused)]\n#[path = {:?}]\npub mod probe;\nuse probe::*;\n{code}",
        at.display().to_string()
    );
    let folder =
        std::env::temp_dir().join(format!("sluice-checkpoints-{}-{}", std::process::id(), enter.len() + probe.len()));
    let done = std::fs::create_dir_all(&folder).and_then(|()| {
        let (source, out) = (folder.join("message.rs"), folder.join("message.s"));
        std::fs::write(&source, text)?;
        let mut rustc = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()));
        let made = rustc.args(["--edition", "2024", "-O", "--emit", "asm", "-o"]).arg(&out).arg(&source).output()?;
        if !made.status.success() {
            return Ok(Err(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        std::fs::read_to_string(out).map(Ok)
    });
    // What cannot be removed lies in the temporary folder, where the system removes it.
    let _ = std::fs::remove_dir_all(&folder);
    let text = done.map_err(|error| error.to_string())??;
    let body = text.lines().skip_while(|line| !line.starts_with("message:")).skip(1);
    let body: Vec<String> = body
        .take_while(|line| !line.starts_with(".Lfunc_end"))
        .map(|line| line.trim().to_string())
        .filter(|line| !line.starts_with('.') && !line.is_empty())
        .collect();
    if body.is_empty() { Err("there is no code of the message".into()) } else { Ok(body) }
}

/// The instruction that reads the counter, in the newest build of each.
fn in_the_build(root: &Path) -> Result<Vec<String>, String> {
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("debug/deps");
    let mut findings = Vec::new();
    for (name, reads) in [("libagent_service-", false), ("libprofile-", true)] {
        let path = newest(&folder, name).ok_or_else(|| {
            format!("no {name}*.rlib in {}: `cargo test -p sluice-profile` makes it", folder.display())
        })?;
        let out = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&path).output();
        let out = out.map_err(|error| format!("objdump: {error}"))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let count = text.lines().filter(|line| line.split_whitespace().any(|word| word == "rdtsc")).count();
        println!("{}: the time-stamp counter is read in {count} places", path.display());
        if (count > 0) != reads {
            findings.push(format!("{}: {count} reads of the time-stamp counter", path.display()));
        }
    }
    Ok(findings)
}

fn newest(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let named = files.filter(|file| {
        let file = file.file_name().to_string_lossy().into_owned();
        file.starts_with(name) && file.ends_with(".rlib")
    });
    let dated = named.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())));
    dated.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_looked_at_is_not_slowed() {
        let findings = same_code(&crate::source::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
