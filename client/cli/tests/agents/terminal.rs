//! What people see: tables within their terminal, in colour where they want it; the words that a shell completes; `sluice top`.

use crate::bed::{Bed, SLUICE, reserve, wait_for};
use crate::lone::Lone;
use std::process::{Command, Output};

/// Runs a line of shell in a terminal that is so wide; what it shows.
fn typed(lone: &Lone, columns: u32, line: &str) -> String {
    let shell = format!("stty cols {columns} rows 30; {line}");
    let mut command = lone.command("script", &["-q", "-e", "-c", &shell, "/dev/null"]);
    command.env("SLUICE_SOCKET", lone.socket()).env("TERM", "xterm").env("SLUICE_LOGIN", "").env_remove("NO_COLOR");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}");
    text.replace('\r', "")
}

/// The text without its colours.
fn plain(text: &str) -> String {
    let mut all = String::new();
    for (n, part) in text.split('\u{1b}').enumerate() {
        all += if n == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
    }
    all
}

#[test]
fn tables_fit_the_terminal_and_are_coloured_unless_nobody_wants_it() {
    let Some(mut lone) = Lone::new("") else { return };
    lone.link_up();
    lone.start();
    lone.printed(&["reserve", "net/near=3mbit", "--for", "1h", "--label", "a label of some length"]);
    let list = format!("{SLUICE} list");
    let wide = typed(&lone, 200, &list);
    assert!(wide.contains("\u{1b}[32mactive") && wide.contains("a label of some length"), "{wide:?}");
    for columns in [100, 80, 60] {
        let narrow = plain(&typed(&lone, columns, &list));
        let longest = narrow.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= columns as usize && narrow.contains("net/near"), "{columns}: {narrow}");
    }
    let none = typed(&lone, 200, &format!("NO_COLOR=1 {list}"));
    assert!(!none.contains('\u{1b}') && none.contains("active"), "{none:?}");
    // A pipe gets all of it, as it is.
    let piped = typed(&lone, 60, &format!("{list} | cat"));
    assert!(!piped.contains('\u{1b}') && piped.contains("a label of some length"), "{piped:?}");
    let top = plain(&typed(&lone, 80, &format!("{SLUICE} top --once")));
    assert!(top.contains("3.00mbit of ") && top.contains("uid:0"), "{top}");
    assert!(top.lines().all(|line| line.chars().count() <= 80), "{top}");
}

/// What the script of `sluice completions bash` offers for these words, the last of which is being typed; without options.
fn completed(lone: &Lone, words: &[&str]) -> Vec<String> {
    let script = "source <(\"$1\" completions bash); shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                  _clap_complete_sluice sluice \"${@: -1}\" x 2> /dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let folder = std::path::Path::new(SLUICE).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = lone.command("bash", &[&["-c", script, "bash", SLUICE, "sluice"], words].concat());
    command.env("PATH", path).env("SLUICE_SOCKET", lone.socket()).env("SLUICE_LOGIN", "");
    let output: Output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_handles_and_resources_and_says_nothing_when_nobody_answers() {
    let Some(mut lone) = Lone::new("") else { return };
    assert_eq!(completed(&lone, &["cancel", ""]), Vec::<String>::new(), "no agent");
    lone.link_up();
    lone.start();
    let made: serde_json::Value =
        serde_json::from_str(&lone.printed(&["reserve", "net/near=3mbit", "--for", "1h", "--json"])).unwrap();
    let handle = made["handle"].as_str().unwrap();
    assert_eq!(completed(&lone, &["cancel", &handle[..4]]), [handle]);
    assert_eq!(completed(&lone, &["list", handle]), [handle]);
    assert_eq!(completed(&lone, &["reserve", "net/"]), ["net/near="]);
    assert_eq!(completed(&lone, &["calendar", "lic"]), ["licence/solver"]);
    assert_eq!(completed(&lone, &["cal"]), ["calendar"]);
    // The words name another agent, which is not there.
    assert_eq!(completed(&lone, &["cancel", "--socket", "/none.sock", &handle[..4]]), Vec::<String>::new());
}

/// What was signalled and what was booked, each with what it gets.
#[test]
fn top_shows_what_each_reservation_gets() {
    let Some(bed) = Bed::up("30s") else { return };
    let (_sender, mut receiver) = (bed.sender(2_000_000), bed.receiver());
    reserve(&mut receiver, 2_000_000);
    wait_for("it is signalled", || (!bed.reservations("maui").is_empty()).then_some(()));
    let socket = bed.home("maui").join("agent.sock");
    let run = |words: &[&str]| {
        let mut command = Command::new(SLUICE);
        command.args(words).arg("--socket").arg(&socket).env("SLUICE_LOGIN", "");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["reserve", "net/to-glenwood=1mbit", "--for", "10m", "--label", "film"]);
    let reading: serde_json::Value = serde_json::from_str(&run(&["top", "--once", "--json"])).unwrap();
    let rows = reading["rows"].as_array().unwrap();
    let of = |owner: &str| rows.iter().find(|row| row["owner"] == owner).unwrap_or_else(|| panic!("{owner}: {rows:?}"));
    assert_eq!((&of("uid:0")["label"], &of("uid:0")["admitted"]), (&"film".into(), &1e6.into()));
    assert!(of("signalled")["what"].as_str().unwrap().contains("10.0.2.2:5004"), "{rows:?}");
    assert!(reading["resources"].as_array().unwrap().iter().any(|row| row["resource"] == "net/to-glenwood"));
    let sorted = run(&["top", "--once", "--sort", "owner"]);
    let line = |words: &str| sorted.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{sorted}"));
    assert!(line("signalled") < line("film"), "{sorted}");
}
