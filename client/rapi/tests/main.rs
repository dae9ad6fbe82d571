//! The C libraries as `make install` installs them: into a folder, from there into compiled programs, with their pages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The libraries: the name, the header below the folder `client`, what `linked.c` is told.
const LIBRARIES: [(&str, &str, &str); 3] = [
    ("rapi", "rapi/include/rapi.h", "RAPI"),
    ("scrapi", "scrapi/include/scrapi.h", "SCRAPI"),
    ("sluice", "c/include/sluice.h", "SLUICE"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", words(&output));
    words(&output)
}

/// A folder into which the libraries of this build are installed; it goes with the test.
struct Installed(PathBuf);

impl Installed {
    /// `None`, said loudly: a tool is missing.
    fn new() -> Option<Installed> {
        for tool in ["cc", "make", "pkg-config", "nm", "strip"] {
            if Command::new(tool).arg("--version").output().is_err() {
                bench::skipped(format!("{tool} is not installed"));
                return None;
            }
        }
        let folder = std::env::temp_dir().join(format!("sluice-installed-{}", std::process::id()));
        let mut built = std::env::current_exe().unwrap();
        built.pop();
        let mut make = Command::new("make");
        make.arg("-C").arg(root()).args(["--silent", "install-c", "PREFIX=/opt/sluice"]);
        make.arg(format!("DESTDIR={}", folder.display())).arg(format!("BUILT={}", built.display()));
        // What starts the tests may be make itself.
        ok(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
        Some(Installed(folder))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join("opt/sluice").join(path)
    }

    /// The words of `pkg-config` for a library, with the folder in front of its paths.
    fn flags(&self, library: &str, more: &[&str]) -> Vec<String> {
        let mut config = Command::new("pkg-config");
        config.args(more).args(["--cflags", "--libs"]).arg(format!("lib{library}"));
        config.env("PKG_CONFIG_PATH", self.at("lib/pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", &self.0);
        ok(&mut config).split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("client").join(header)).unwrap();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code += rest;
    // Lines of the preprocessor, with what continues them.
    let code = code.replace("\\\n", " ");
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let code = code.join("\n");
    let prefix = ["rapi_", "scrapi_", "sluice_"];
    let mut found = BTreeSet::new();
    for statement in code.split(';').filter(|statement| !statement.contains("typedef")) {
        let Some((head, _)) = statement.split_once('(') else { continue };
        let name = head.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if prefix.iter().any(|prefix| name.starts_with(prefix)) {
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn installed_libraries_serve_c_programs() {
    let Some(installed) = Installed::new() else { return };
    exports_are_what_headers_declare(&installed);
    every_function_has_a_page(&installed);
    programs_compile_with_pkg_config(&installed);
}

/// Shared, by the SONAME, and static.
fn programs_compile_with_pkg_config(installed: &Installed) {
    let source = root().join("client/rapi/tests/linked.c");
    for (library, _, what) in LIBRARIES {
        for is_static in [false, true] {
            let program = installed.0.join(format!("{library}-{is_static}"));
            let mut compiler = Command::new("cc");
            compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(format!("-D{what}")).arg(&source);
            if is_static {
                let flags = installed.flags(library, &["--static"]);
                let ours = format!("-l{library}");
                compiler.args(
                    flags.iter().map(|flag| if *flag == ours { format!("-l:lib{library}.a") } else { flag.clone() }),
                );
            } else {
                compiler.args(installed.flags(library, &[]));
            }
            ok(&mut compiler);
            let mut run = Command::new("timeout");
            run.arg("20").arg(&program);
            if !is_static {
                // By its SONAME, as after an update.
                run.env("LD_LIBRARY_PATH", installed.at("lib"));
                std::fs::remove_file(installed.at(&format!("lib/lib{library}.so"))).unwrap();
            }
            assert!(ok(&mut run).contains("it answers\n"), "{library}, static: {is_static}");
        }
    }
}

fn exports_are_what_headers_declare(installed: &Installed) {
    for (library, header, _) in LIBRARIES {
        let file = installed.at(&format!("lib/lib{library}.so.1"));
        let said = ok(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(&file));
        let exported: BTreeSet<String> =
            said.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        assert_eq!(exported, declared(header), "{library}");
    }
}

fn every_function_has_a_page(installed: &Installed) {
    let groff = Command::new("groff").arg("--version").output().is_ok();
    for (library, header, _) in LIBRARIES {
        let functions = declared(header);
        assert!(functions.len() > 10, "{library}: {functions:?}");
        for name in functions {
            let page = installed.at(&format!("share/man/man3/{name}.3"));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("no page for {name}: {error}"));
            assert!(text.contains(&format!("\n.Fn {name} ")), "{}: no synopsis of {name}", page.display());
        }
    }
    // No page is about a function that is gone, and the formatter has nothing to say.
    let all: BTreeSet<String> = LIBRARIES.iter().flat_map(|(_, header, _)| declared(header)).collect();
    for entry in std::fs::read_dir(root().join("dist/man")).unwrap() {
        let page = entry.unwrap().path();
        let text = std::fs::read_to_string(&page).unwrap();
        let synopsis = text.split(".Sh DESCRIPTION").next().unwrap();
        for line in synopsis.lines().filter_map(|line| line.strip_prefix(".Fn ")) {
            let name = line.split(' ').next().unwrap();
            assert!(all.contains(name), "{}: {name} is in no header", page.display());
        }
        if groff {
            let said = ok(Command::new("groff").args(["-mdoc", "-Tutf8", "-ww", "-z"]).arg(&page));
            assert_eq!(said, "", "{}", page.display());
        }
    }
    if !groff {
        bench::skipped("groff is not installed: the pages were not formatted");
    }
}
