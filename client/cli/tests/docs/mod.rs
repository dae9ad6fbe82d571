//! What README and docs tell people to type is typed here, block by block, in the order in which a reader would.
//!
//! Every fenced block marked `sh` is run, unless a comment just before it says why not:
//!
//! ```text
//! <!-- not run: REASON -->       a block that cannot run here; the reason is printed
//! <!-- nightly -->               a block that takes long: only with SLUICE_NIGHTLY=1
//! <!-- before                    what a reader has around them and this test must make; run, and seen by nobody
//! sluice up examples/seed.toml
//! -->
//! ```
//!
//! One document is one shell, in namespaces of its own (network, mounts, processes) with an empty `/run` and `/tmp` and a copy of
//! `/etc`, so that a testbed has the name that the document gives it and nothing stays. Each command must end with status 0; one whose
//! comment begins with `refused` with 1; one whose comment says `Ctrl-C` is interrupted after a while. `HANDLE` is the last
//! reservation. A block marked `text` behind a comment `<!-- prints -->` is what the block before it prints: its lines must be
//! there in this order, where `…` is anything.

mod exit_status;
mod page;
mod shell;

use page::{Block, Page};
use std::path::{Path, PathBuf};

/// The pages, from the root of the repository.
const PAGES: [&str; 11] = [
    "README.md",
    "docs/two-machines.md",
    "docs/reserve.md",
    "docs/run.md",
    "docs/broker.md",
    "docs/domains.md",
    "docs/rsvp.md",
    "docs/premium.md",
    "docs/boomerang.md",
    "docs/python.md",
    "docs/gallery.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(page: &str) -> Page {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    Page::parse(&text).unwrap_or_else(|(line, what)| panic!("{page}:{line}: {what}"))
}

/// Runs a page, where that is possible.
fn run(name: &str) {
    let page = read(name);
    for (line, reason) in page.not_run() {
        println!("not run: {name}:{line}: {reason}");
    }
    let root_user = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root_user {
        return bench::skipped(format!("{name}: its commands need root and network namespaces"));
    }
    let nightly = std::env::var_os("SLUICE_NIGHTLY").is_some();
    if let Err(why) = shell::run(&root(), Path::new(env!("CARGO_BIN_EXE_sluice")), &page, nightly) {
        panic!("{name}: {why}");
    }
}

#[test]
fn readme() {
    run("README.md");
}

#[test]
fn two_machines() {
    run("docs/two-machines.md");
}

#[test]
fn reserve() {
    run("docs/reserve.md");
}

#[test]
fn run_page() {
    run("docs/run.md");
}

#[test]
fn broker() {
    run("docs/broker.md");
}

#[test]
fn domains() {
    run("docs/domains.md");
}

#[test]
fn rsvp() {
    run("docs/rsvp.md");
}

#[test]
fn premium() {
    run("docs/premium.md");
}

#[test]
fn boomerang() {
    run("docs/boomerang.md");
}

#[test]
fn gallery() {
    run("docs/gallery.md");
}

#[test]
fn python() {
    run("docs/python.md");
}

/// No page has commands that nobody runs and nobody says so.
#[test]
fn every_page_with_commands_is_here() {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for dir in ["docs", "docs/measured", "docs/traffic", "docs/rfc"] {
        for entry in std::fs::read_dir(root().join(dir)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                pages.push(format!("{dir}/{name}"));
            }
        }
    }
    for name in pages {
        let page = read(&name);
        let commands = page.blocks.iter().any(|block| matches!(block, Block::Commands { .. }));
        assert!(
            !commands || PAGES.contains(&name.as_str()),
            "{name} has commands that are run: name it in PAGES and give it a test"
        );
    }
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let text = "a\n<!-- before\nx=1\n-->\n```sh\necho $x   # prints it\nfor i in 1 2; do \\\n  echo $i; done\n```\n<!-- prints -->\n```text\n1\n…\n```\n\
                <!-- not run: no such machine -->\n```sh\nreboot\n```\n<!-- nightly -->\n```sh\nsleep 9\n```\n```toml\n[x]\n```\n";
    let page = Page::parse(text).unwrap();
    assert_eq!(page.not_run(), [(15, "no such machine".to_owned())]);
    let kinds: Vec<String> = page.blocks.iter().map(|block| format!("{block:?}")).collect();
    assert_eq!(kinds.len(), 5, "{kinds:#?}");
    let Block::Commands { lines, .. } = &page.blocks[1] else { panic!("{kinds:?}") };
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1], (7, "for i in 1 2; do \\\n  echo $i; done".to_owned()));
    for (wrong, at) in [
        ("```sh\nx\n", 1),
        ("<!-- not run: -->\n```sh\nx\n```\n", 1),
        ("<!-- not run: why -->\ntext\n", 1),
        ("<!-- before\nx\n", 1),
        ("<!-- prints -->\n```text\nx\n```\n", 1),
    ] {
        assert_eq!(Page::parse(wrong).unwrap_err().0, at, "{wrong:?}");
    }
}

#[test]
fn what_is_printed_is_found_in_order() {
    let said = "alpha  sluice 0.1.0  pid 17\n\nbeta  3.00mbit of 10\ngamma\n";
    for (lines, fits) in [
        (&["alpha sluice … pid …", "beta …"][..], true),
        (&["beta … of 10", "gamma"], true),
        (&["gamma", "beta …"], false),
        (&["alpha sluice 0.2"], false),
        (&["…"], true),
    ] {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(shell::missing(said, &lines).is_none(), fits, "{lines:?}");
    }
}
