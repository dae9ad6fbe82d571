//! `sluice plane serve` and `sluice plane show`: a plane that an agent drives, and its state.

use crate::complain::Complaint;
use clap::Args;
use documents::units::parse_span;
use linux::bpf::pair_guard::WhenDead;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::SignalFd;
use rpc::document::{Document, Mistake, read};
use rpc::table::{Align, TextTable};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terms::Span;
use user_plane::client::UserPlane;
use user_plane::link::WireSpec;
use user_plane::protocol::PairStatus;
use user_plane::serve::door::Door;
use user_plane::serve::{BUFFERS, LARGEST_BOUND, MOST_BUFFERS, MOST_PAIRS, PairSpec, PlaneServer, release};

/// `sluice plane serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The plane's file
    pub file: PathBuf,
    /// Read the file, say what is wrong with it, and end
    #[arg(long)]
    pub check: bool,
    /// Serve nothing: take away the filters that a plane of this file left at the ends of its pairs
    #[arg(long, conflicts_with = "check")]
    pub release: bool,
}

/// `sluice plane show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The plane's socket
    #[arg(long, value_name = "PATH", default_value = rpc::places::PLANE_SOCKET)]
    pub socket: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const ENDING: [i32; 3] = [1, 2, 15];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    socket: Option<PathBuf>,
    user: Option<String>,
    spin: Option<String>,
    #[serde(default)]
    pair: Vec<PairText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairText {
    interface: String,
    inside: String,
    outside: String,
    delay_bound: Option<String>,
    buffers: Option<u32>,
    when_dead: Option<String>,
    delay: Option<String>,
    loss: Option<f64>,
    seed: Option<u64>,
}

/// The plane's file, read.
struct PlaneFile {
    socket: PathBuf,
    user: Option<u32>,
    spin: Span,
    pairs: Vec<PairSpec>,
}

impl PlaneFile {
    fn load(file: &Path) -> Result<PlaneFile, Mistake> {
        let text = read(file)?;
        let document = Document::new(file, &text);
        let found: File = document.parse()?;
        let span = |text: &Option<String>, otherwise: Span| match text {
            Some(text) => parse_span(text).map_err(|wrong| document.whole(wrong.to_string())),
            None => Ok(otherwise),
        };
        if found.pair.is_empty() || found.pair.len() > MOST_PAIRS {
            return Err(
                document.whole(format!("1 to {MOST_PAIRS} times [[pair]], each with interface, inside, outside"))
            );
        }
        let mut taken = std::collections::BTreeSet::new();
        let mut pairs = Vec::new();
        for pair in &found.pair {
            let wrong = |words: String| document.whole(format!("the pair of {}: {words}", pair.interface));
            for name in [&pair.interface, &pair.inside, &pair.outside] {
                if name.is_empty() || name.len() > 15 || name.contains(['/', ' ']) {
                    return Err(wrong(format!("{name:?} is no interface name")));
                }
                if !taken.insert(name.clone()) {
                    return Err(wrong(format!("{name} is named twice")));
                }
            }
            let bound = pair.delay_bound.is_some().then(|| span(&pair.delay_bound, Span::ZERO)).transpose()?;
            if bound.is_some_and(|bound| bound == Span::ZERO || bound > LARGEST_BOUND) {
                return Err(wrong("delay_bound is more than 0 and at most 25ms".into()));
            }
            let buffers = pair.buffers.unwrap_or(BUFFERS);
            if !(1_024..=MOST_BUFFERS).contains(&buffers) {
                return Err(wrong(format!("buffers is 1024 to {MOST_BUFFERS}")));
            }
            let loss = pair.loss.unwrap_or(0.0);
            if !(0.0..=1.0).contains(&loss) {
                return Err(wrong(format!("loss is a share from 0 to 1, not {loss}")));
            }
            let when_dead = match pair.when_dead.as_deref() {
                None | Some("closed") => WhenDead::Closed,
                Some("open") => WhenDead::Open,
                Some(other) => return Err(wrong(format!("when_dead is closed or open, not {other:?}"))),
            };
            let delay = span(&pair.delay, Span::ZERO)?;
            if delay > super::live::LONGEST_DELAY {
                return Err(wrong("delay is at most 10s".into()));
            }
            let wire = WireSpec { delay, loss, seed: pair.seed.unwrap_or(0) };
            let [interface, inside, outside] = [&pair.interface, &pair.inside, &pair.outside].map(String::clone);
            pairs.push(PairSpec { interface, inside, outside, buffers, bound, when_dead, wire });
        }
        let user = found.user.as_ref().map(|name| {
            let unknown = || document.whole(format!("there is no user {name}"));
            user_number(name).ok_or_else(unknown)
        });
        Ok(PlaneFile {
            socket: found.socket.clone().unwrap_or_else(|| rpc::places::PLANE_SOCKET.into()),
            user: user.transpose()?,
            spin: span(&found.spin, Span::from_micros(50))?,
            pairs,
        })
    }
}

/// A user by number, or by name in /etc/passwd.
fn user_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// A secret number, which keys the classifier's hash.
fn secret() -> Result<u64, Complaint> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Complaint::world(format!("cannot read /dev/urandom: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Serves until it is told to end.
pub fn serve(args: &ServeArgs) -> Result<ExitCode, Complaint> {
    let world = |failed: SystemError| Complaint::world(failed.to_string());
    let file = PlaneFile::load(&args.file).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    if args.check {
        println!("{}: {} pairs, socket {}", args.file.display(), file.pairs.len(), file.socket.display());
        return Ok(ExitCode::SUCCESS);
    }
    if args.release {
        let released = file.pairs.iter().try_for_each(release);
        return released.map(|()| ExitCode::SUCCESS).map_err(|fault| Complaint::world(fault.to_string()));
    }
    let signals = SignalFd::take(&ENDING).map_err(world)?;
    // Every packet waits for this process. Where it may not go before others it works too, later.
    let _ = linux::process::go_first();
    let (a, b) = (secret()?, secret()?);
    let mut server = PlaneServer::open(file.pairs, file.spin, [a, b], Clock::start()).map_err(world)?;
    server.watch(&signals).map_err(world)?;
    let _door = Door::open(&file.socket, file.user, &server).map_err(world)?;
    server.complaints().iter().for_each(|words| eprintln!("{words}; it is tried again every second"));
    eprintln!("serving at {}; Ctrl-C ends it", file.socket.display());
    server.run().map_err(world)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the state of each pair.
pub fn show(args: &ShowArgs) -> Result<ExitCode, Complaint> {
    let mut plane = UserPlane::connect(&args.socket).map_err(|failed| Complaint::world(failed.to_string()))?;
    let pairs = plane.status().map_err(|fault| Complaint::world(fault.to_string()))?;
    if args.json {
        println!("{}", serde_json::json!({ "pairs": pairs.iter().map(json).collect::<Vec<_>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    for pair in &pairs {
        let state = pair.down.as_ref().map_or("packets pass".to_owned(), |why| format!("nothing passes: {why}"));
        println!("{} ({} to {}): {state}", pair.interface, pair.inside, pair.outside);
        let [out, back] = &pair.ways;
        println!(
            "  out: {} frames in, {} sent; back: {} in, {} sent",
            out.received, out.sent, back.received, back.sent
        );
        let mut table = TextTable::new(&[
            ("class", Align::Right),
            ("packets", Align::Right),
            ("mean ms", Align::Right),
            ("most ms", Align::Right),
            ("late ms", Align::Right),
            ("bound ms", Align::Right),
            ("beyond", Align::Right),
        ]);
        for (class, seen) in &pair.classes {
            let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
            let mean = seen.delay.sum_ns.checked_div(seen.delay.packets).unwrap_or(0);
            let promised = seen.bound_ns > 0;
            let only = |text: String| if promised { text } else { "-".to_owned() };
            table.row([
                class.0.to_string(),
                seen.delay.packets.to_string(),
                ms(mean),
                ms(seen.delay.most_ns),
                only(ms(seen.late_ns)),
                only(ms(seen.bound_ns)),
                only(seen.beyond.to_string()),
            ]);
        }
        print!("{table}");
    }
    Ok(ExitCode::SUCCESS)
}

fn json(pair: &PairStatus) -> serde_json::Value {
    let way = |nth: usize| {
        let counted = &pair.ways[nth];
        serde_json::json!({
            "received": counted.received, "sent": counted.sent, "sent_bytes": counted.sent_bytes, "cut": counted.cut,
            "arp": counted.arp, "not_ip": counted.not_ip, "lost": counted.lost, "no_buffer": counted.no_buffer,
            "too_long": counted.too_long, "refused": counted.refused, "missed": counted.missed,
            "inside": pair.inside_now[nth],
        })
    };
    let classes = pair.classes.iter().map(|(class, seen)| {
        let promised = seen.bound_ns > 0;
        serde_json::json!({
            "class": class.0, "packets": seen.delay.packets, "sum_ns": seen.delay.sum_ns, "most_ns": seen.delay.most_ns,
            "late_ns": promised.then_some(seen.late_ns), "bound_ns": promised.then_some(seen.bound_ns),
            "beyond_bound": promised.then_some(seen.beyond),
        })
    });
    serde_json::json!({
        "interface": pair.interface, "inside": pair.inside, "outside": pair.outside, "down": pair.down,
        "out": way(0), "back": way(1), "classes": classes.collect::<Vec<_>>(),
    })
}
