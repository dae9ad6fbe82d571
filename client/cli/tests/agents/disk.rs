//! The agent's disk is full, or fails (FAULTS.md D3, D4): what could not be written is undone and said so, and everything
//! else goes on; or, where nobody knows what is on the disk, the agent stops, and the next one has all that was promised.

use crate::bed::{refused, wait_for};
use crate::lone::{Lone, booked, licences};
use documents::agent::{Answer, BookAnswer, BookFilter, Request};
use rpc::client::{Client, Error};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk, unmounted whatever happens.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, size: &str) -> Option<Disk> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "sluice-test"]).arg(at);
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Disk(at.to_owned()));
        }
        bench::skipped("a small disk cannot be mounted here");
        None
    }

    /// Leaves not one byte.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.0.join("filler")).unwrap();
        let zeros = [0; 4096];
        while file.write(&zeros).is_ok_and(|written| written > 0) {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What the agent had mounted below goes first; it may be gone already.
        let _ = linux::mount::unmount_below(&self.0);
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn all(client: &mut Client) -> usize {
    let mut filter = BookFilter::default();
    let mut count = 0;
    loop {
        match client.call(Request::BookShow { handle: None, filter: filter.clone() }).unwrap() {
            Answer::Book(BookAnswer::Reservations { rows, more }) => {
                count += rows.len();
                match rows.last() {
                    Some(last) if more => filter.after = Some(last.handle.clone()),
                    _ => return count,
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The handles of some that are booked.
fn some(client: &mut Client, most: usize) -> Vec<String> {
    match client.call(Request::BookShow { handle: None, filter: BookFilter::default() }).unwrap() {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => {
            rows.into_iter().take(most).map(|row| row.handle).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn free(client: &mut Client) -> f64 {
    match client.call(Request::BookEnquire(licences(0))).unwrap() {
        Answer::Book(BookAnswer::Enquired(said)) => said.free[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_refuses_what_is_new_and_nothing_else() {
    let Some(mut lone) = Lone::new("log = \"error\"") else { return };
    let Some(disk) = Disk::mount(&lone.state(), "12m") else { return };
    lone.start();
    let mut client = lone.client();
    booked(&mut client, Request::BookCreate(licences(1))).unwrap();
    disk.fill();
    // The log's own room is used up first; and where one needed a page more than there was, a smaller one may still go in.
    let (mut acknowledged, mut refusals) = (1, Vec::new());
    while refusals.len() < 10 {
        match booked(&mut client, Request::BookCreate(licences(1))) {
            Ok(_) => (acknowledged, refusals) = (acknowledged + 1, Vec::new()),
            Err(error) => refusals.push(error),
        }
        assert!(acknowledged < 20_000, "the disk never gets full");
    }
    let Some(Error::Agent(problem)) = refusals.pop() else { panic!("{refusals:?}") };
    assert_eq!(problem.kind, "fault");
    assert!(problem.message.contains("the disk is full: nothing was changed; make room and try again"), "{problem:?}");
    assert_eq!(problem.refusal.unwrap().reason, "not_written");
    // Nothing has changed, by any account, and reading goes on.
    let before = free(&mut client);
    assert_eq!((all(&mut client), before), (acknowledged, 1e6 - acknowledged as f64));
    refused(client.call(Request::BookCreate(licences(7))));
    assert_eq!((all(&mut client), free(&mut client)), (acknowledged, before));
    let told = lone.sluice(&["reserve", "licence/solver=1", "--for", "1h"]);
    assert_eq!(told.status.code(), Some(3), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("make room and try again"), "{told:?}");
    // What gives something back is written into the room that is kept for it; what is new does not get that room.
    let ballast = lone.state().join("book/ballast");
    let kept = fs::metadata(&ballast).unwrap().len();
    let mut cancelled = 0;
    for row in some(&mut client, 200) {
        booked(&mut client, Request::BookCancel { handle: row }).unwrap();
        cancelled += 1;
    }
    assert!(cancelled >= 100 && kept >= 1 << 20, "{cancelled} cancelled, {kept} bytes kept");
    refused(client.call(Request::BookCreate(licences(1))));
    assert_eq!(free(&mut client), before + f64::from(cancelled));
    // And with room it goes on by itself.
    disk.make_room();
    booked(&mut client, Request::BookCreate(licences(1))).unwrap();
    assert_eq!(fs::metadata(&ballast).unwrap().len(), kept, "and it is kept again");
    let acknowledged = all(&mut client);
    drop(client);
    lone.stop();
    lone.start();
    assert_eq!(all(&mut lone.client()), acknowledged, "and all of it was written");
    lone.stop();
}

#[test]
fn a_disk_that_fails_ends_the_agent_and_loses_nothing() {
    let Some(mut lone) = Lone::new("log = \"error\"") else { return };
    if Command::new("prlimit").arg("--version").output().is_err() {
        return bench::skipped("prlimit is not installed");
    }
    let agent = lone.start_with("trap '' XFSZ; exec \"$@\"");
    let mut client = lone.client();
    for _ in 0..20 {
        booked(&mut client, Request::BookCreate(licences(1))).unwrap();
    }
    // From now on every write beyond the first page of a file fails: with another error than that the disk is full.
    let Answer::Hello(hello) = client.call(Request::Hello).unwrap() else { panic!() };
    let pid = hello.pid.to_string();
    assert!(Command::new("prlimit").args(["--fsize=4096:4096", "--pid", &pid]).status().unwrap().success());
    let error = booked(&mut client, Request::BookCreate(licences(1))).unwrap_err();
    assert!(!matches!(&error, Error::Agent(problem) if problem.kind != "fault"), "{error}");
    if let Error::Agent(problem) = &error {
        assert!(problem.message.contains("mend the disk and start the agent again"), "{problem:?}");
    }
    wait_for("the agent ends", || (!agent.is_running()).then_some(()));
    let log = lone.log();
    assert!(log.contains("the journal failed and writes nothing more"), "{log}");
    lone.start();
    assert_eq!(all(&mut lone.client()), 20);
}

/// The file of sequence numbers cannot be written at the start (something is in its way, as a full disk would be): said, tried
/// again by itself, and written as soon as it can be.
#[test]
fn sequence_numbers_are_reserved_as_soon_as_the_disk_lets() {
    let Some(mut lone) = Lone::new("log = \"error\"") else { return };
    lone.link_up();
    let (file, keys) = (lone.place.join("agent.toml"), lone.place.join("near.keys"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("auth = \"none\"", "keys = \"near.keys\"")).unwrap();
    let secret = "5c".repeat(32);
    fs::write(&keys, format!("[[key]]\nid = 1\nalgorithm = \"hmac-sha-256\"\nsecret = \"{secret}\"\n")).unwrap();
    fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let obstacle = lone.state().join("sequences.new");
    fs::create_dir_all(&obstacle).unwrap();
    lone.start();
    wait_for("it says so", || lone.log().contains("sequences cannot be written").then_some(()));
    assert!(!lone.state().join("sequences").exists());
    fs::remove_dir(&obstacle).unwrap();
    wait_for("it is written", || lone.state().join("sequences").exists().then_some(()));
    lone.stop();
}
