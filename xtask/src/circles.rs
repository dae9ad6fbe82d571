//! Circles of imports inside a crate: files that need each other, directly or by way of others.
//!
//! No circle of a crate may have more than three files.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most files that may be in a circle.
const MOST: usize = 3;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let large = circles(root).into_iter().filter(|(_, circle)| circle.len() > MOST);
    large.map(|(name, circle)| said(&name, &circle)).collect()
}

fn said(name: &str, circle: &[String]) -> String {
    format!("{name}: {} files import each other in a circle, at most {MOST}: {}", circle.len(), circle.join(", "))
}

/// The figures, for a person.
pub fn figures(root: &Path) -> Vec<String> {
    let mut all = circles(root);
    all.sort_by_key(|(_, circle)| std::cmp::Reverse(circle.len()));
    all.iter().map(|(name, circle)| format!("{} files in the largest circle: {name}", circle.len())).collect()
}

/// The largest circle of each crate that has one.
fn circles(root: &Path) -> Vec<(String, Vec<String>)> {
    let mut crates: BTreeMap<String, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for path in source::files(root, &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        if let Some((within, file)) = name.split_once("/src/") {
            crates.entry(within.to_owned()).or_default().insert(module(file), source::read(root, &path));
        }
    }
    let largest = |files: &BTreeMap<Vec<String>, String>| {
        let circle = strongest(&edges(files))?;
        Some(
            circle.into_iter().map(|module| if module.is_empty() { "lib".into() } else { module.join("::") }).collect(),
        )
    };
    crates.iter().filter_map(|(name, files)| Some((name.clone(), largest(files)?))).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn module(file: &str) -> Vec<String> {
    let mut path: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    path
}

type Graph = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The modules that each module names: by `crate::`, `super::` and `self::`, in `use` and elsewhere.
fn edges(files: &BTreeMap<Vec<String>, String>) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in files {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
        let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
        let to = graph.entry(module.clone()).or_default();
        for path in paths(&code, module) {
            let known = (0..=path.len()).rev().map(|n| &path[..n]).find(|path| files.contains_key(*path));
            to.extend(known.filter(|known| *known != module.as_slice()).map(<[String]>::to_vec));
        }
    }
    graph
}

/// All paths of the crate that a file names, from the crate's root; groups in braces are taken apart.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for word in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            let base = match word {
                "crate::" => Vec::new(),
                "self::" => module.to_vec(),
                _ => module[..module.len().saturating_sub(1)].to_vec(),
            };
            // A re-export names a child without needing it.
            let line = code[..at].rsplit('\n').next().unwrap_or("").trim_start();
            if !(line.starts_with("pub use") || line.starts_with("pub(crate) use")) {
                names(&code[at + word.len()..], base, &mut found);
            }
        }
    }
    found
}

/// Reads `a::b::{c, d::E}` behind a base.
fn names(rest: &str, mut base: Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut rest = rest;
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            for part in parts(group) {
                names(part.trim(), base.clone(), found);
            }
            return;
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        match &rest[..end] {
            "super" => drop(base.pop()),
            "self" | "" => {}
            word => base.push(word.to_owned()),
        }
        match rest[end..].strip_prefix("::") {
            Some(more) if end > 0 => rest = more,
            _ => return found.push(base),
        }
    }
}

/// The parts of a group up to its closing brace, at the commas of this level.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut begun, mut all) = (0_i32, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                all.push(&group[begun..at]);
                return all;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&group[begun..at]);
                begun = at + 1;
            }
            _ => {}
        }
    }
    all
}

/// The largest set of modules in which each reaches each other one; `None` where nothing goes in a circle.
fn strongest(graph: &Graph) -> Option<Vec<Vec<String>>> {
    let reach = |from: &Vec<String>| {
        let (mut seen, mut due) = (BTreeSet::new(), vec![from]);
        while let Some(one) = due.pop() {
            due.extend(graph.get(one).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let all: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = graph.keys().map(|from| (from, reach(from))).collect();
    let circle = |from: &Vec<String>| -> Vec<Vec<String>> {
        all[from].iter().filter(|to| all.get(to).is_some_and(|back| back.contains(from))).cloned().collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).max_by_key(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(files: &[(&str, &str)]) -> Option<Vec<Vec<String>>> {
        strongest(&edges(&files.iter().map(|(file, text)| (module(file), (*text).to_owned())).collect()))
    }

    #[test]
    fn finds_files_that_need_each_other() {
        let a = ("a.rs", "use crate::b::{self, c::{D, E}};\n");
        let c = ("b/c.rs", "use super::super::a::A;\n");
        let circle = largest(&[("lib.rs", "pub use crate::a::A;\n"), a, ("b/mod.rs", ""), c]).unwrap();
        assert_eq!(circle, [vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]]);
        assert_eq!(largest(&[a, ("b/mod.rs", ""), ("b/c.rs", "// crate::a::A\n")]), None);
    }
}
