//! The pages for browsers: in a real browser, against a real broker over real agents; and that they are what their sources
//! make. The browser's part is `client/web/test/browser.mjs`, which prints a line for each thing that holds.

use crate::bed::{SLUICE, skipped};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where Debian has it.
const BROWSER: &str = "/usr/bin/chromium";

struct Up(String);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = Command::new(SLUICE).args(["down", &self.0]).output();
    }
}

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../web")
}

/// Node, and what the lockfile names; without them the test is skipped, loudly.
fn no_node() -> bool {
    let node = Command::new("node").arg("--version").output().is_ok_and(|out| out.status.success());
    let there = node && web().join("node_modules/.package-lock.json").exists();
    if !there {
        bench::skipped("the pages need Node and client/web/node_modules: dist/setup.sh test installs them");
    }
    !there
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_pages_are_what_their_sources_make() {
    if no_node() {
        return;
    }
    let output = Command::new("npm").args(["run", "--silent", "check"]).current_dir(web()).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn a_browser_sees_and_books() {
    if skipped() || no_node() {
        return;
    }
    if !Path::new(BROWSER).exists() {
        bench::skipped("the pages need chromium: dist/setup.sh test installs it");
        return;
    }
    let name = format!("web{}", std::process::id());
    let file = std::env::temp_dir().join(format!("{name}.toml"));
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seed.toml");
    let text = std::fs::read_to_string(seed).unwrap().replace("name = \"seed\"", &format!("name = \"{name}\""));
    std::fs::write(&file, text).unwrap();
    let _guard = Up(name.clone());
    let up = Command::new(SLUICE).arg("up").arg(&file).args(["--broker", "--web", "--json"]).output().unwrap();
    assert!(up.status.success(), "{}", words(&up));
    let _ = std::fs::remove_file(&file);
    let pictures = std::env::var_os("SLUICE_UPDATE").map(|_| web().join("../../docs/figures/web"));
    let mut command = Command::new("node");
    command.arg("test/browser.mjs").current_dir(web()).env("SLUICE", SLUICE).env("BROWSER", BROWSER);
    command.env("UP", String::from_utf8_lossy(&up.stdout).trim());
    if let Some(pictures) = pictures {
        command.env("PICTURES", pictures);
    }
    let output = command.output().unwrap();
    let said = words(&output);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("holds: ")).count() >= 20, "{said}");
}
