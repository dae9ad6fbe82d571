//! Links of Markdown: each leads to a file of the repository, and to a heading of that page if it names one.

use crate::source;
use std::path::{Component, Path, PathBuf};

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for path in source::files(root, &[".md"]) {
        for (number, link) in links(&source::read(root, &path)) {
            let broken = |why: &str| format!("{}:{number}: {link}: {why}", path.display());
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { beside(&path, file) };
            if !root.join(&target).exists() {
                findings.push(broken("no such file"));
            } else if !heading.is_empty()
                && target.extension().is_some_and(|ending| ending == "md")
                && !headings(&source::read(root, &target)).iter().any(|there| there == heading)
            {
                findings.push(broken("no such heading"));
            }
        }
    }
    findings
}

/// Pages of docs that the contents of the site (mdBook) do not have.
pub fn unlisted(root: &Path) -> Vec<String> {
    let contents = Path::new("docs/SUMMARY.md");
    let listed: Vec<PathBuf> =
        links(&source::read(root, contents)).iter().map(|(_, link)| beside(contents, link)).collect();
    let pages = source::files(root, &[".md"]).into_iter().filter(|path| path.starts_with("docs") && path != contents);
    let missing = pages.filter(|page| !listed.contains(page));
    missing.map(|page| format!("{}: {} is not in it", contents.display(), page.display())).collect()
}

/// A path that is written in this page, from the root.
fn beside(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// The lines outside of fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(n, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((n + 1, line))
    })
}

/// The targets of links and pictures, with their lines; none of other hosts.
fn links(text: &str) -> Vec<(usize, String)> {
    let of_line = |(number, line): (usize, &str)| -> Vec<(usize, String)> {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let ours = targets.map(|(target, _)| target).filter(|target| !target.contains("://") && !target.contains(' '));
        ours.map(|target| (number, target.to_owned())).collect()
    };
    prose(text).flat_map(of_line).collect()
}

/// The names of headings as a reader's browser has them: lower case, hyphens for spaces, no other signs.
fn headings(text: &str) -> Vec<String> {
    let heads = prose(text).filter(|(_, line)| line.starts_with('#'));
    let name = |(_, line): (usize, &str)| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    heads.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found() {
        let page = "# A `b`, c: 2\n[x](y.md#z) and ![p](p.svg), [far](https://a.b/c)\n```\n[no](no.md)\n# no\n```\n";
        assert_eq!(links(page), [(2, "y.md#z".to_owned()), (2, "p.svg".to_owned())]);
        assert_eq!(headings(page), ["a-b-c-2"]);
        assert_eq!(beside(Path::new("docs/measured/x.md"), "../y.md"), Path::new("docs/y.md"));
    }

    #[test]
    fn a_broken_link_is_told_with_its_line() {
        let root = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let git = std::process::Command::new("git").args(["init", "-q"]).current_dir(&root).status().unwrap();
        assert!(git.success());
        std::fs::write(root.join("a.md"), "# Here\n[a](#here)\n[b](b.md)\n[c](a.md#there)\n").unwrap();
        let findings = check(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(findings, ["a.md:3: b.md: no such file", "a.md:4: a.md#there: no such heading"]);
    }
}
