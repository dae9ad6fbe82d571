//! Tests stay: every test that `xtask/kept-tests.txt` names is there, or `xtask/replaced-tests.txt` says by which one it was replaced.

use crate::source;
use std::collections::BTreeSet;
use std::path::Path;

const KEPT: &str = "xtask/kept-tests.txt";
const REPLACED: &str = "xtask/replaced-tests.txt";

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let now = names(root);
    let replaced = source::read(root, Path::new(REPLACED));
    let replaced: Vec<(&str, &str)> = replaced.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut findings = Vec::new();
    for name in source::read(root, Path::new(KEPT)).lines().filter(|name| !now.contains(*name)) {
        match replaced.iter().find(|(old, _)| *old == name) {
            None => findings.push(format!(
                "the test {name} is gone: put it back, or say in {REPLACED} by which one it was replaced"
            )),
            Some((_, by)) => {
                findings.extend((!now.contains(*by)).then(|| format!("{REPLACED}: there is no test {by}")))
            }
        }
    }
    findings
}

/// The list as it is now, one name a line.
pub fn list(root: &Path) -> String {
    names(root).into_iter().map(|name| name + "\n").collect()
}

/// Names of all test functions, without the crate and the module that they are in: those may change.
fn names(root: &Path) -> BTreeSet<String> {
    source::files(root, &[".rs"]).iter().flat_map(|path| tests(&source::read(root, path))).collect()
}

/// Functions behind `#[test]` or `#[tokio::test]`; other attributes and comments may stand between.
fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && !(line.starts_with('#') || line.starts_with("//")) {
            let function = line.split_once("fn ").map(|(_, rest)| rest.split(['(', '<']).next().unwrap_or(rest));
            found.extend(function.map(str::to_owned));
            marked = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_the_names_of_tests() {
        let mark = format!("#[{}]", "test");
        let text = format!(
            "{mark}\n#[should_panic]\nfn one() {{}}\nfn helper() {{}}\n    {mark}\n    /// Why.\n    async fn two<T>() {{}}\n"
        );
        assert_eq!(super::tests(&text), ["one", "two"]);
    }
}
