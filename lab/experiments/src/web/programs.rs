//! Debian's own programs, unmodified, under a flood: each alone, under the flood, and under the flood as a command of
//! `sluice run`.

use super::site::WebSite;
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use bed::host::Host;
use bed::program::{self, RunningProgram};
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use linux::error::SystemError;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::Rate;

/// The table.
pub const PROGRAMS: Experiment = Experiment {
    name: "unmodified",
    about: "What rsync, rclone, iperf3, ffmpeg and nginx get under a flood, without and with a reservation by sluice run",
    source: "no document: programs as Debian has them",
    takes: "root, 4 minutes",
    run,
};

/// The flood, Mb/s, on a link of 80.
const FLOOD: u64 = 100;
/// The time in which the queues fill, or drain.
const SETTLE: Duration = Duration::from_millis(500);
/// The least share of the unloaded rate with a reservation.
const SHARE: f64 = 0.95;
/// The files that are moved are made of this many bytes, repeated with their number: no program can shrink them.
const BLOCK: usize = 1 << 16;

/// The place of a run.
struct Place<'a> {
    /// The address of the receiving host.
    to: String,
    /// The folder of files.
    folder: &'a Path,
    /// The file that is sent.
    file: &'a Path,
    /// The length of the run without a flood.
    seconds: u64,
}

/// A program: what it is started with, and what it is sent to.
struct Tried {
    name: &'static str,
    /// The binary, and Debian's package of it.
    binary: &'static str,
    package: &'static str,
    protocol: &'static str,
    reserved: &'static str,
    /// The server on the receiving host.
    server: fn(&Place<'_>) -> Option<Vec<String>>,
    command: fn(&Place<'_>) -> Vec<String>,
}

/// The rate that each is told to keep to, bytes a second, where it takes such an option: 40 Mb/s.
const BYTES_PER_S: u64 = 5_000_000;

const ALL: [Tried; 4] = [
    Tried {
        name: "rsync",
        binary: "rsync",
        package: "rsync",
        protocol: "tcp",
        reserved: "45mbit",
        server: |place| {
            let config = place.folder.join("rsyncd.conf").display().to_string();
            Some(words(&[
                "rsync",
                "--daemon",
                "--no-detach",
                "--port=8730",
                "--config",
                &config,
                "--address",
                &place.to,
            ]))
        },
        command: |place| {
            let to = format!("rsync://{}:8730/in/", place.to);
            let file = place.file.display().to_string();
            words(&["rsync", "--whole-file", "--bwlimit=4883", &file, &to])
        },
    },
    Tried {
        name: "rclone (WebDAV)",
        binary: "rclone",
        package: "rclone",
        protocol: "tcp",
        reserved: "45mbit",
        server: |place| {
            let folder = place.folder.join("in").display().to_string();
            Some(words(&["rclone", "serve", "webdav", &folder, "--addr", &format!("{}:8731", place.to)]))
        },
        command: |place| {
            let url = format!("http://{}:8731", place.to);
            let file = place.file.display().to_string();
            words(&[
                "rclone",
                "copyto",
                &file,
                ":webdav:file",
                "--webdav-url",
                &url,
                "--bwlimit",
                "4883k",
                "--retries",
                "1",
            ])
        },
    },
    Tried {
        name: "iperf3",
        binary: "iperf3",
        package: "iperf3",
        protocol: "tcp",
        reserved: "45mbit",
        server: |place| Some(words(&["iperf3", "--server", "--bind", &place.to])),
        command: |place| {
            let seconds = place.seconds.to_string();
            words(&["iperf3", "--client", &place.to, "--time", &seconds, "--bitrate", "40M"])
        },
    },
    Tried {
        name: "ffmpeg (RTP)",
        binary: "ffmpeg",
        package: "ffmpeg",
        protocol: "udp",
        reserved: "10mbit",
        server: |_| None,
        command: |place| {
            let (seconds, to) = (place.seconds.to_string(), format!("rtp://{}:5004", place.to));
            let rate = ["-b:v", "6M", "-minrate", "6M", "-maxrate", "6M", "-bufsize", "1M", "-muxrate", "7M"];
            let source = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-t", &seconds, "-c:v", "mpeg2video"];
            let all =
                [&["ffmpeg", "-nostdin", "-loglevel", "error", "-re"][..], &source, &rate, &["-f", "rtp_mpegts", &to]];
            words(&all.concat())
        },
    },
];

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The rates of a program, Mb/s at the receiving host's interface.
struct Row {
    name: &'static str,
    alone: f64,
    without: f64,
    with: f64,
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let site = WebSite::up(&options.patience)?;
    let seconds = if options.quick { 3 } else { 10 };
    let folder = site.folder();
    let file = folder.join("big");
    write_file(&file, BYTES_PER_S * seconds)?;
    write_server_files(folder)?;
    let to = site.host("client")?.address.to_string();
    let place = Place { to, folder, file: &file, seconds };
    let (mut rows, mut finding) = (Vec::new(), Finding::default());
    for tried in &ALL {
        if Command::new(tried.binary).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            let what = format!("SKIPPED: {}: `apt install {}` brings it", tried.name, tried.package);
            finding.notes.push(what.clone());
            eprintln!("{what}");
            continue;
        }
        rows.push(all_three(&site, tried, &place, options)?);
    }
    rows.push(nginx(&site, &place, options)?);
    report(&mut finding, &rows);
    Ok(finding)
}

fn write_file(path: &Path, bytes: u64) -> Result<(), SystemError> {
    let mut rng = terms::Rng::seeded(1);
    let block: Vec<u8> = (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let mut all = Vec::with_capacity(bytes as usize + BLOCK);
    while (all.len() as u64) < bytes {
        let at = all.len();
        all.extend_from_slice(&block);
        all[at..at + 8].copy_from_slice(&(at as u64).to_le_bytes());
    }
    fs::write(path, &all).map_err(SystemError::doing(format!("write {}", path.display())))
}

fn write_server_files(folder: &Path) -> Result<(), SystemError> {
    let into = folder.join("in");
    let what = || format!("write into {}", folder.display());
    fs::create_dir_all(&into).map_err(SystemError::doing(what()))?;
    let text = format!(
        "use chroot = no\nuid = root\ngid = root\npid file = {}\n[in]\npath = {}\nread only = no\n",
        folder.join("rsyncd.pid").display(),
        into.display()
    );
    fs::write(folder.join("rsyncd.conf"), text).map_err(SystemError::doing(what()))
}

/// Alone, under the flood, and under the flood with a reservation.
fn all_three(site: &WebSite, tried: &Tried, place: &Place<'_>, options: &RunOptions) -> Result<Row, Error> {
    let sink = site.host("client")?;
    // Somebody must take what ffmpeg sends, or it is told that nobody does.
    let _taken = sink.udp(5_004, SETTLE)?;
    let measured = |flood: u64, reserved: bool| {
        if options.progress {
            let with = if reserved { " with a reservation" } else { "" };
            eprint!("\r{:<17} under {flood:>3} Mb/s{with}          ", tried.name);
        }
        let mut command = match reserved {
            false => Vec::new(),
            true => {
                site.run_command(&["--to", &place.to, "--forward", tried.reserved, "--protocol", tried.protocol])?
            }
        };
        command.extend((tried.command)(place));
        clear(place.folder);
        // Anew for each run: one whose client was ended in the middle may still be busy with it.
        let _server = (tried.server)(place).map(|words| started(&sink, &words)).transpose()?;
        options.patience.wait(SETTLE)?;
        under(site, flood, options, |sender| {
            let mut running = started(sender, &command)?;
            until_over(&mut running, place.seconds, options)
        })
    };
    let row = Row {
        name: tried.name,
        alone: measured(0, false)?,
        without: measured(FLOOD, false)?,
        with: measured(FLOOD, true)?,
    };
    if options.progress {
        eprintln!();
    }
    Ok(row)
}

/// nginx serves, `ab` fetches: the reservation is the server's, for each connection.
fn nginx(site: &WebSite, place: &Place<'_>, options: &RunOptions) -> Result<Row, Error> {
    let measured = |flood: u64, each: Option<Rate>| {
        let _server = site.serve(each, &options.patience)?;
        let address = site.address()?;
        let client = site.host("client")?;
        under(site, flood, options, |_| {
            let words = words(&[
                "ab",
                "-n",
                "100000",
                "-c",
                "1",
                "-t",
                &place.seconds.to_string(),
                &format!("http://{address}/slow"),
            ]);
            let mut running = started(&client, &words)?;
            until_over(&mut running, place.seconds, options)
        })
    };
    let alone = measured(0, None)?;
    Ok(Row {
        name: "nginx and ab",
        alone,
        without: measured(FLOOD, None)?,
        with: measured(FLOOD, Some(Rate::from_mbps(45)))?,
    })
}

/// Removes the files of earlier runs, which would shorten a later one.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder.join("in")).into_iter().flatten().flatten() {
        // One that stays is sent over again.
        let _ = fs::remove_file(entry.path());
    }
}

fn started(host: &Host, words: &[String]) -> Result<RunningProgram, Error> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    host.namespace.enter_at_exec(&mut command);
    program::start(&mut command)
}

/// Waits until a program has ended, but not longer than half as long again as it takes alone.
fn until_over(running: &mut RunningProgram, seconds: u64, options: &RunOptions) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_millis(seconds * 1_500);
    while running.is_running() && Instant::now() < until {
        options.patience.wait(Duration::from_millis(5))?;
    }
    Ok(())
}

/// Runs something under a flood. Returns the rate at which bytes came to the client's host, Mb/s.
fn under(
    site: &WebSite,
    flood: u64,
    options: &RunOptions,
    deed: impl FnOnce(&Host) -> Result<(), Error>,
) -> Result<f64, Error> {
    let (cross, sink, sender) = (site.flood()?, site.host("client")?, site.host("server")?);
    cross.set_rate(Rate::from_mbps(flood));
    options.patience.wait(SETTLE)?;
    let (before, begin) = (received(&sink)?, Instant::now());
    deed(&sender)?;
    let (took, after) = (begin.elapsed(), received(&sink)?);
    Ok(after.saturating_sub(before) as f64 * 8.0 / 1e6 / took.as_secs_f64())
}

/// Bytes that the host's interface has received.
fn received(host: &Host) -> Result<u64, Error> {
    let text = host.namespace.run(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    let text = text.map_err(SystemError::doing("read an interface's counters"))?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&host.interface)?.strip_prefix(':'));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.ok_or_else(|| Error::Void(format!("{} has no counters", host.interface)))
}

fn report(finding: &mut Finding, rows: &[Row]) {
    finding.title("programs", "rates at the receiving host, Mb/s, and shares of the unloaded rate");
    let mut programs: Vec<Value> = Vec::new();
    for row in rows {
        let share = |rate: f64| rate / row.alone.max(1e-9);
        let cells = [
            ("alone", row.alone),
            ("under flood", row.without),
            ("reserved", row.with),
            ("share without", share(row.without)),
            ("share with", share(row.with)),
        ];
        for (column, value) in cells {
            finding.cell("programs", row.name, column, None, &[value]);
        }
        programs.push(json!({"name": row.name, "without": share(row.without), "with": share(row.with)}));
        if share(row.with) < SHARE || row.with < row.without {
            let share = share(row.with);
            finding.shortfalls.push(format!("{} had {share:.2} of its unloaded rate with a reservation", row.name));
        }
    }
    finding.detail("programs", Value::Array(programs));
    finding.notes.push(format!(
        "The flood is {FLOOD} Mb/s of UDP on a link of 80 Mb/s. rsync, rclone and iperf3 are told to keep to 40 Mb/s and reserve 45 \
         by RSVP; ffmpeg sends 7 Mb/s and reserves 10; nginx has limit_rate 5m and 45 Mb/s for each connection."
    ));
    finding.figure("unmodified", "Programs under a flood, without and with a reservation", chart(rows));
}

fn chart(rows: &[Row]) -> Chart {
    let line = |name: &str, color, of: fn(&Row) -> f64| ChartLine {
        name: name.into(),
        color,
        mark: Mark::Solid,
        points: rows.iter().enumerate().map(|(n, row)| (n as f64 + 1.0, of(row) / row.alone.max(1e-9))).collect(),
    };
    let names: Vec<String> = rows.iter().enumerate().map(|(n, row)| format!("{}: {}", n + 1, row.name)).collect();
    Chart {
        title: "Unmodified programs under a flood".into(),
        subtitle: names.join(", "),
        x: Axis { label: "Program".into(), reach: rows.len() as f64 + 1.0 },
        y: Axis { label: "Share of the unloaded rate".into(), reach: 1.1 },
        lines: vec![
            line("without", Rgb::GREY, |row| row.without),
            line("with a reservation", Rgb::BLUE, |row| row.with),
        ],
        landmark: None,
    }
}
