//! What a refusal offers is taken by typing it; for how long must be said; what a key made and is over does not come back.

use crate::bed::{Bed, SLUICE};
use std::process::{Command, Output};

/// A command as a reader types it, with the agent's socket behind it.
fn typed(bed: &Bed, words: &str) -> Output {
    let socket = bed.home("yosemite").join("agent.sock");
    let line = words.replacen("sluice", SLUICE, 1) + " --socket " + socket.to_str().unwrap();
    Command::new("sh").args(["-c", &line]).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn done(bed: &Bed, words: &str) -> String {
    let output = typed(bed, words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", said(&output));
    said(&output)
}

#[track_caller]
fn refused(bed: &Bed, words: &str, status: i32) -> String {
    let output = typed(bed, words);
    assert_eq!(output.status.code(), Some(status), "{words}: {}", said(&output));
    said(&output)
}

#[test]
fn what_is_offered_is_taken_as_it_is_typed() {
    let Some(bed) = Bed::up("30s") else { return };
    let first =
        done(&bed, "sluice reserve net/to-maui=7mbit --for 10m --source 10.0.0.1 --to 10.0.2.2:5004 --protocol udp");
    let no = refused(&bed, "sluice reserve net/to-maui=7mbit --for 10m", 1);
    let commands: Vec<&str> = no.lines().filter_map(|line| line.trim().strip_prefix("sluice reserve ")).collect();
    assert_eq!(commands.len(), 2, "later and slower: {no}");
    // Whose packets they are already, and until when.
    let handle = first.split_whitespace().next().unwrap();
    let taken = refused(
        &bed,
        "sluice reserve net/to-maui=1mbit --for 1m --source 10.0.0.1 --to 10.0.2.2:5004 --protocol udp",
        1,
    );
    assert!(taken.contains(handle) && taken.contains("until") && taken.contains("another port"), "{taken}");
    // As offered, without the socket that the test adds again.
    for command in commands {
        let bare = command.split(" --socket ").next().unwrap();
        let rest = command
            .split(" -w ")
            .nth(1)
            .filter(|_| !bare.contains(" -w "))
            .map_or(String::new(), |w| format!(" -w {w}"));
        let taken = done(&bed, &format!("sluice reserve {bare}{rest}"));
        // Room for what comes below.
        done(&bed, &format!("sluice cancel {}", taken.split_whitespace().next().unwrap()));
    }
    // An hour longer.
    let until = |text: &str| text.lines().rfind(|line| line.contains(" .. ")).unwrap_or_default().trim().to_owned();
    let longer = done(&bed, &format!("sluice modify {handle} --end +1h"));
    assert_ne!(until(&first), until(&longer));
    let minutes = |text: &str| -> i64 {
        let clock = until(text).rsplit(' ').next().unwrap_or_default().to_owned();
        let mut parts = clock.split(':').filter_map(|part| part.parse::<i64>().ok());
        parts.next().unwrap_or(0) * 60 + parts.next().unwrap_or(0)
    };
    assert_eq!((minutes(&longer) - minutes(&first)).rem_euclid(1_440), 60, "{first}{longer}");
    // For how long must be said.
    assert!(refused(&bed, "sluice reserve net/to-maui=1kbit", 2).contains("for how long?"));
    let ever = done(&bed, "sluice reserve net/to-maui=1kbit --for ever");
    assert!(ever.contains("for ever"), "{ever}");
    refused(&bed, &format!("sluice modify {} --end +1h", ever.split_whitespace().next().unwrap()), 2);
    // What a key made and is over.
    let keyed = "sluice reserve net/to-maui=2kbit --for 1m --key k1";
    let made = done(&bed, keyed);
    assert_eq!(done(&bed, keyed).split_whitespace().next(), made.split_whitespace().next());
    let handle = made.split_whitespace().next().unwrap();
    done(&bed, &format!("sluice cancel {handle}"));
    let over = refused(&bed, keyed, 1);
    assert!(over.contains(handle) && over.contains("cancelled") && over.contains("another key"), "{over}");
    // Times as the help writes them.
    done(&bed, "sluice list --window 'friday 00:00..24:00'");
    done(&bed, "sluice audit --since 08:00");
    done(&bed, "sluice audit --since 23:59");
}
