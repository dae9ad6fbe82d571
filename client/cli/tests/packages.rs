//! What the Debian packages are made of, as far as it can be told in a second: `make packages-test` builds and tries them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// A program's answer; `None` where it is not installed.
fn run(program: &str, words: &[&str]) -> Option<Output> {
    match Command::new(program).args(words).current_dir(root()).output() {
        Ok(output) => Some(output),
        Err(_) => {
            bench::skipped(format!("{program} is not here"));
            None
        }
    }
}

fn succeeds(program: &str, words: &[&str]) {
    if let Some(said) = run(program, words) {
        let (out, error) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success(), "{program} {words:?}: {out}{error}");
    }
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `make` installs as the packages have it, but for the C libraries, which client/rapi/tests installs.
fn installed() -> Option<Folder> {
    let folder = Folder(std::env::temp_dir().join(format!("sluice-packages-{}", std::process::id())));
    let built = folder.0.join("built");
    std::fs::create_dir_all(&built).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), built.join("sluice")).unwrap();
    let into = format!("DESTDIR={}", folder.0.join("tmp").display());
    let from = format!("BUILT={}", built.display());
    let rules = read("dist/debian/rules");
    let places: Vec<&str> = rules
        .split_whitespace()
        .filter(|word| ["UNITDIR=", "PREFIX=", "ZSH_COMPLETIONS="].iter().any(|name| word.starts_with(name)))
        .collect();
    assert_eq!(places.len(), 3, "{places:?}");
    let mut make = Command::new("make");
    make.args(["--silent", "install-files", "LIBRARIES=", "STRIP=", &into, &from]).args(places);
    let said = make.current_dir(root()).env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output();
    match said {
        Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr)),
        Err(_) => {
            bench::skipped("make is not here");
            return None;
        }
    }
    Some(folder)
}

/// Every file below a folder, relative to it.
fn files(dir: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => files(dir, &path, found),
            false => _ = found.insert(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned()),
        }
    }
}

/// True if a path is what a pattern of debhelper names, or below it; `*` is a part without a slash.
fn fits(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    patterns.all(|one| {
        parts.next().is_some_and(|part| match one.split_once('*') {
            Some((before, after)) => {
                part.len() >= before.len() + after.len() && part.starts_with(before) && part.ends_with(after)
            }
            None => one == part,
        })
    })
}

/// Each line of each `.install` finds something, and nothing that is installed is in no package.
#[test]
fn every_file_is_in_a_package() {
    let Some(folder) = installed() else { return };
    let mut there = BTreeSet::new();
    files(&folder.0.join("tmp"), &folder.0.join("tmp"), &mut there);
    assert!(there.len() > 90, "{there:?}");
    let mut taken: BTreeSet<&String> = BTreeSet::new();
    for package in ["sluice", "libsluice1", "libsluice-dev", "python3-sluice", "sluice-doc"] {
        let list = read(format!("dist/debian/{package}.install"));
        for pattern in list.lines().filter_map(|line| line.split_whitespace().next()) {
            let of_sources = ["dist/", "docs/", "examples/"].iter().any(|folder| pattern.starts_with(folder));
            // The libraries and the Python package are built by others.
            let elsewhere = pattern.starts_with("usr/lib/*/") || pattern.starts_with("usr/lib/python3/");
            let found: Vec<&String> = there.iter().filter(|path| fits(pattern, path)).collect();
            let is_there = root().join(pattern.split("/*").next().unwrap()).exists();
            assert!(elsewhere || if of_sources { is_there } else { !found.is_empty() }, "{package}: {pattern}");
            taken.extend(found);
        }
    }
    // debhelper has a part of its own for it.
    let left: Vec<&String> =
        there.iter().filter(|path| !taken.contains(path) && *path != "usr/lib/sysusers.d/sluice.conf").collect();
    assert!(left.is_empty(), "in no package: {left:?}");
    what_is_installed_is_well_formed(&folder.0.join("tmp"), &there);
}

fn what_is_installed_is_well_formed(tmp: &Path, there: &BTreeSet<String>) {
    let at = |path: &str| tmp.join(path).to_str().unwrap().to_owned();
    // Users and folders, made below a root of their own.
    let own = format!("--root={}", tmp.join("root").display());
    std::fs::create_dir_all(tmp.join("root/etc")).unwrap();
    succeeds("systemd-sysusers", &[&own, &at("usr/lib/sysusers.d/sluice.conf")]);
    if let Ok(users) = std::fs::read_to_string(tmp.join("root/etc/passwd")) {
        for user in ["sluice-door", "sluice-broker"] {
            assert!(users.lines().any(|line| line.starts_with(&format!("{user}:"))), "{users}");
        }
        let groups = std::fs::read_to_string(tmp.join("root/etc/group")).unwrap();
        assert!(groups.lines().any(|line| line.starts_with("sluice:") && line.ends_with(":sluice-broker")), "{groups}");
    }
    let folders = root().join("dist/debian/sluice.tmpfiles");
    succeeds("systemd-tmpfiles", &[&own, "--create", folders.to_str().unwrap()]);
    // Pages: what groff complains about goes to standard error, and is no failure to man.
    let page = |section: &str| there.iter().find(|path| path.starts_with(section)).unwrap().clone();
    for path in
        there.iter().filter(|path| path.starts_with("usr/share/man/man5/")).chain([&page("usr/share/man/man1/")])
    {
        if let Some(said) = run("man", &["--warnings", "--local-file", &at(path)]) {
            assert!(
                said.status.success() && said.stderr.is_empty(),
                "{path}: {}",
                String::from_utf8_lossy(&said.stderr)
            );
        }
    }
    succeeds("bash", &["-n", &at("usr/share/bash-completion/completions/sluice")]);
    for script in ["sluice.postinst", "sluice.prerm", "sluice.postrm"] {
        succeeds("sh", &["-n", &format!("dist/debian/{script}")]);
    }
    for script in ["packages.sh", "packages-try.sh", "packages-boot.sh"] {
        succeeds("sh", &["-n", &format!("dist/{script}")]);
    }
    // Configuration as it is installed starts an agent and a broker.
    for service in ["agent", "broker"] {
        let config = at(&format!("etc/sluice/{service}.toml"));
        let text = std::fs::read_to_string(&config).unwrap();
        // The user is there once the package is.
        std::fs::write(&config, text.replace("\"sluice-broker\"", "\"999\"")).unwrap();
        succeeds(env!("CARGO_BIN_EXE_sluice"), &[service, "--check", "--config", &config]);
    }
}

/// One version, wherever it is written.
#[test]
fn the_packages_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("dist/debian/changelog").starts_with(&format!("sluice ({version}) ")), "dist/debian/changelog");
    assert!(read("client/python/pyproject.toml").contains(&format!("version = \"{version}\"")), "pyproject.toml");
    for library in ["libsluice", "librapi", "libscrapi"] {
        assert!(
            read(format!("dist/pkgconfig/{library}.pc.in")).contains(&format!("Version: {version}\n")),
            "{library}"
        );
    }
}
