//! Test programs: a crate has one, because each is linked with everything that it tests. Every file below `tests` is a module of a
//! program: in a crate that names its program, cargo would leave a file of its own out without a word.
//!
//! And a library that has no unit tests, or no examples in its comments, says so in its manifest: cargo would build it once
//! more to find none.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Programs beside a crate's one: their tests measure, and cargo runs one program at a time.
const ALONE: [&str; 2] = ["client/cli/tests/alone/main.rs", "driver/linux/tests/host/main.rs"];

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let sources: BTreeMap<PathBuf, String> =
        source::files(root, &[".rs"]).into_iter().map(|path| (path.clone(), source::read(root, &path))).collect();
    let mut findings = Vec::new();
    let mut reached = BTreeSet::new();
    for manifest in source::files(root, &["Cargo.toml"]) {
        let folder = manifest.parent().unwrap_or(Path::new("")).to_path_buf();
        let text = source::read(root, &manifest);
        let programs = programs(&folder, &text, sources.keys());
        let usual = programs.iter().filter(|path| !ALONE.iter().any(|alone| path.as_path() == Path::new(alone)));
        if usual.clone().count() > 1 {
            let names: Vec<String> = usual.map(|path| path.display().to_string()).collect();
            findings.push(format!(
                "{}: a crate has one test program, whose modules are the others: {}",
                folder.display(),
                names.join(", ")
            ));
        }
        for program in programs {
            reach(program, &sources, &mut reached);
        }
        findings.extend(library(&folder, &text, &sources));
    }
    let tests = sources.keys().filter(|path| path.components().any(|part| part == Component::Normal("tests".as_ref())));
    for path in tests.filter(|path| !path.components().any(|part| part == Component::Normal("src".as_ref()))) {
        if !reached.contains(path) {
            findings
                .push(format!("{}: no test program has this module: say `mod` in main.rs or mod.rs", path.display()));
        }
    }
    findings
}

/// The roots of a crate's test programs: those that its manifest names, or those that cargo finds.
fn programs<'a>(folder: &Path, manifest: &str, sources: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    if manifest.lines().any(|line| line.starts_with("autotests = false")) {
        let sections = manifest.split("\n[").filter(|section| section.starts_with("[test]]"));
        let paths = sections.filter_map(|section| section.split("path = \"").nth(1)?.split('"').next());
        return paths.map(|path| folder.join(path)).collect();
    }
    let tests = folder.join("tests");
    let found = sources.filter(|path| {
        let within = path.strip_prefix(&tests).map(|rest| rest.components().count());
        within == Ok(1) || within == Ok(2) && path.ends_with("main.rs")
    });
    found.cloned().collect()
}

/// Follows `mod` and `#[path]` from a program's root.
fn reach(path: PathBuf, sources: &BTreeMap<PathBuf, String>, reached: &mut BTreeSet<PathBuf>) {
    follow(path, true, sources, reached);
}

/// The same from one file; `is_root`: its modules are beside it, and not in a folder of its name.
fn follow(path: PathBuf, is_root: bool, sources: &BTreeMap<PathBuf, String>, reached: &mut BTreeSet<PathBuf>) {
    let Some(text) = sources.get(&path) else { return };
    if !reached.insert(path.clone()) {
        return;
    }
    let beside = path.parent().unwrap_or(Path::new(""));
    let within = if is_root { beside.to_path_buf() } else { path.with_extension("") };
    let mut named = None;
    for line in text.lines().map(str::trim) {
        if let Some(other) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            named = Some(plain(&beside.join(other)));
        } else if let Some(name) = module(line) {
            match named.take() {
                Some(file) => follow(file, true, sources, reached),
                None => {
                    follow(within.join(format!("{name}.rs")), false, sources, reached);
                    follow(within.join(name).join("mod.rs"), true, sources, reached);
                }
            }
        }
    }
}

/// The name in `mod name;`, public or not.
fn module(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    declared.strip_prefix("mod ")?.strip_suffix(';')
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}

/// A library with no unit tests says `test = false`, one with no examples `doctest = false`, and no other does.
fn library(folder: &Path, manifest: &str, sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let src = folder.join("src");
    if !sources.contains_key(&src.join("lib.rs")) || folder == Path::new("fuzz") {
        return Vec::new();
    }
    let texts = || sources.iter().filter(|(path, _)| path.starts_with(&src)).map(|(_, text)| text);
    let section = manifest.split("\n[").find(|section| section.starts_with("lib]")).unwrap_or("");
    let says = |word: &str| section.lines().any(|line| line.starts_with(word));
    let has_tests = texts().any(|text| text.lines().any(|line| line.trim() == "#[test]"));
    let mut findings = Vec::new();
    for (says, has, what) in [
        (says("test = false"), has_tests, "test = false"),
        (says("doctest = false"), texts().any(|text| has_example(text)), "doctest = false"),
    ] {
        match (says, has) {
            (false, false) => {
                findings.push(format!("{}/Cargo.toml: [lib] without {what} builds for nothing", folder.display()))
            }
            (true, true) => findings.push(format!("{}/Cargo.toml: {what}, but there are some", folder.display())),
            _ => {}
        }
    }
    findings
}

/// True if a block in the comments is Rust, which rustdoc would run.
fn has_example(text: &str) -> bool {
    let mut open = false;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        if let Some(language) = comment.and_then(|comment| comment.trim().strip_prefix("```")) {
            open = !open;
            if open && (language.is_empty() || language.starts_with("rust") || language.starts_with("should_panic")) {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        of.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn a_module_is_reached_through_others() {
        let sources = files(&[
            ("a/tests/main.rs", "mod one;\npub mod two;\n"),
            ("a/tests/one.rs", "mod inner;\n#[path = \"../../b/tests/far.rs\"]\nmod far;\n"),
            ("a/tests/one/inner.rs", ""),
            ("a/tests/two/mod.rs", "mod deep;\n"),
            ("a/tests/two/deep.rs", ""),
            ("a/tests/left.rs", ""),
            ("b/tests/far.rs", ""),
        ]);
        let mut reached = BTreeSet::new();
        reach("a/tests/main.rs".into(), &sources, &mut reached);
        let left: Vec<&PathBuf> = sources.keys().filter(|path| !reached.contains(*path)).collect();
        assert_eq!(left, [Path::new("a/tests/left.rs")]);
    }

    #[test]
    fn programs_are_those_of_the_manifest_or_those_that_cargo_finds() {
        let sources = files(&[("a/tests/main.rs", ""), ("a/tests/b/main.rs", ""), ("a/tests/b/c.rs", "")]);
        let named = "[package]\nautotests = false # why\n\n[[test]]\nname = \"a\"\npath = \"tests/main.rs\"\n";
        assert_eq!(programs(Path::new("a"), named, sources.keys()), [Path::new("a/tests/main.rs")]);
        let found = programs(Path::new("a"), "[package]\n", sources.keys());
        assert_eq!(found, [Path::new("a/tests/b/main.rs"), Path::new("a/tests/main.rs")]);
    }

    #[test]
    fn a_library_says_what_it_has_not() {
        let plain = "[package]\n\n[lib]\nname = \"a\"\n\n[dependencies]\n";
        let sources = files(&[("a/src/lib.rs", "//! ```text\n//! x\n//! ```\n")]);
        assert_eq!(library(Path::new("a"), plain, &sources).len(), 2);
        let mark = format!("#[{}]", "test");
        let sources = files(&[("a/src/lib.rs", &format!("/// ```\n/// x();\n/// ```\n{mark}\n"))]);
        assert!(library(Path::new("a"), plain, &sources).is_empty());
        let said = "[lib]\nname = \"a\"\ntest = false\ndoctest = false\n";
        assert_eq!(library(Path::new("a"), &format!("\n{said}"), &sources).len(), 2);
    }
}
