//! `sluice plane live`: a queue tree on real packets, between two interfaces.

use crate::complain::Complaint;
use ::experiments::plane::TreeFile;
use ::experiments::plane::live::{LiveReport, LiveSpan};
use clap::Args;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::SignalFd;
use std::path::PathBuf;
use std::process::ExitCode;
use terms::{Span, Time};
use user_plane::link::WireSpec;
use user_plane::live::{LivePair, LiveSpec, NotLive};

/// `sluice plane live`.
#[derive(Args, Debug)]
pub struct LiveArgs {
    /// The tree for packets from --in to --out
    pub file: PathBuf,
    /// The interface where packets come in
    #[arg(long = "in", value_name = "INTERFACE")]
    pub input: String,
    /// The interface where they leave
    #[arg(long = "out", value_name = "INTERFACE")]
    pub output: String,
    /// A tree for packets the other way; without it they pass as they come
    #[arg(long, value_name = "FILE")]
    pub back: Option<PathBuf>,
    /// Delay every frame so long, each way
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "0s")]
    pub delay: Span,
    /// Lose this share of all frames by chance, each way: 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0")]
    pub loss: f64,
    /// The seed of all that chance decides, instead of the file's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Look for packets so long before sleeping; 0s where processors are shared
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "50us")]
    pub spin: Span,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub lasting: Option<Span>,
    /// Print the counters each time this has passed, and at the end
    #[arg(long, value_name = "TIME", value_parser = every)]
    pub every: Option<Span>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

const ENDING: [i32; 3] = [1, 2, 15];
/// The longest life without `--for`: a hundred years.
const ENDLESS: Span = Span::from_secs(100 * 365 * 86_400);
/// The most that `--delay` may be: what its buffers are for.
pub(super) const LONGEST_DELAY: Span = Span::from_secs(10);

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is no share: write a number from 0 to 1, as 0.01"))
}

fn every(text: &str) -> Result<Span, String> {
    let span = documents::units::parse_span(text).map_err(|e| e.to_string())?;
    if span < Span::from_millis(100) { Err("at least 100ms".into()) } else { Ok(span) }
}

/// Forwards until it is told to end.
pub fn run(args: &LiveArgs) -> Result<ExitCode, Complaint> {
    let world = |failed: SystemError| Complaint::world(failed.to_string());
    if args.delay > LONGEST_DELAY {
        return Err(Complaint::usage(format!("--delay: at most {} s", LONGEST_DELAY.as_micros() / 1_000_000)));
    }
    let file = super::load(&args.file)?;
    let back = args.back.as_deref().map(super::load).transpose()?;
    let name = file.name.clone();
    let clock = Clock::start();
    let mut signals = SignalFd::take(&ENDING).map_err(world)?;
    let mut live = open(args, file, back, clock)?;
    live.watch(&signals).map_err(world)?;
    eprintln!("forwarding between {} and {}; Ctrl-C ends it", args.input, args.output);
    let start = clock.now();
    let end = start + args.lasting.unwrap_or(ENDLESS);
    let mut next = args.every.map(|every| start + every);
    loop {
        let until = next.map_or(end, |next| next.min(end));
        let ran = live.run(until);
        let now = clock.now();
        let ended = match &ran {
            Ok(signalled) => *signalled && signals.take_next().is_some() || now >= end,
            Err(_) => true,
        };
        if ended || next.is_some_and(|next| now >= next) {
            say(args, &name, start, &mut live)?;
        }
        ran.map_err(world)?;
        if ended {
            return Ok(ExitCode::SUCCESS);
        }
        while let (Some(at), Some(every)) = (next.filter(|at| *at <= now), args.every) {
            next = Some(at + every);
        }
    }
}

fn open(args: &LiveArgs, file: TreeFile, back: Option<TreeFile>, clock: Clock) -> Result<LivePair, Complaint> {
    let tree = |file: TreeFile| (file.spec, args.seed.unwrap_or(file.seed));
    let seed = args.seed.unwrap_or(file.seed);
    let wire = |way: u64| WireSpec { delay: args.delay, loss: args.loss, seed: seed ^ way };
    let spec = LiveSpec {
        ends: [args.input.clone(), args.output.clone()],
        trees: [Some(tree(file)), back.map(tree)],
        wires: [wire(0), wire(1 << 63)],
        spin: args.spin,
    };
    LivePair::open(spec, clock).map_err(|refused| match refused {
        NotLive::UnfitTree(unfit) => {
            let back = args.back.as_ref().map_or(String::new(), |back| format!(" or {}", back.display()));
            Complaint::usage(format!("{}{back}: {unfit}", args.file.display()))
        }
        other => Complaint::world(other.to_string()),
    })
}

fn say(args: &LiveArgs, name: &str, start: Time, live: &mut LivePair) -> Result<(), Complaint> {
    let seconds = live.last_turn().since(start).as_nanos() as f64 / 1e9;
    let seen = LiveSpan { name, ends: [&args.input, &args.output], seconds };
    let report = LiveReport::new(&seen, live.counted());
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|e| Complaint::world(e.to_string()))?);
    } else {
        print!("{report}");
    }
    Ok(())
}
