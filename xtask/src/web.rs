//! The pages for browsers: their lockfile names no host, so that each machine fetches from where it is told to.

use crate::source;
use std::path::Path;

const PLACE: &str = "client/web";
/// The option that keeps hosts out of the lockfile, and the one field that may name one: a package's page for donations.
const OPTION: &str = "omit-lockfile-registry-resolved=true";
const DONATIONS: &str = "\"url\": ";

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let read = |name: &str| source::read(root, &Path::new(PLACE).join(name));
    let mut findings = Vec::new();
    if !read(".npmrc").lines().any(|line| line == OPTION) {
        findings.push(format!("{PLACE}/.npmrc: {OPTION} is missing"));
    }
    findings.extend(hosts(&read("package-lock.json")));
    let page = read("dist/index.html");
    if page.contains("://") || page.contains("<style") || page.contains(" style=") {
        findings.push(format!("{PLACE}/dist/index.html: it loads from elsewhere, or has a style of its own"));
    }
    findings
}

/// The lines of a lockfile that name a host.
fn hosts(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let named = lines.filter(|(_, line)| {
        line.contains("\"resolved\"") || line.contains("://") && !line.trim_start().starts_with(DONATIONS)
    });
    named.map(|(n, line)| format!("{PLACE}/package-lock.json:{}: names a host: {}", n + 1, line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::hosts;

    #[test]
    fn hosts_are_found() {
        assert!(hosts("\"version\": \"1.0.0\",\n  \"url\": \"https://donations.example\"").is_empty());
        for line in ["\"resolved\": \"a.tgz\"", "\"x\": \"https://packages.example/a.tgz\""] {
            assert_eq!(hosts(line).len(), 1, "{line}");
        }
    }
}
