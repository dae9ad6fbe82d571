//! `sluice copy`: sends a file to another machine over a reserved flow.

use crate::complain::Complaint;
use crate::places::AgentArgs;
use ::copy::Error;
use ::copy::allowance::Allowance;
use ::copy::booking::{Booking, Terms, TransferRequest};
use ::copy::receive::{FinishedTransfer, TransferStore, serve};
use ::copy::send::{FileSource, TransferProgress, connect, send};
use clap::Args;
use documents::book::{Instant as Stamp, ReservationDoc};
use documents::units::{parse_rate, parse_span};
use linux::clock::Clock;
use linux::poll::SignalFd;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::{Rate, Span};

/// `sluice copy`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sluice copy --receive /data                            take files at port 5300, until Ctrl-C
  sluice copy big.dat 10.0.2.2                           in the background: what foreground reservations leave
  sluice copy big.dat 10.0.2.2 --rate 20mbit             at a rate of its own
  sluice copy big.dat 10.0.2.2 --by now+30min            all of it by then, or a refusal with the earliest time
  sluice copy big.dat 10.0.2.2:5301 -n yosemite --resource net/yosemite-maui
What broke off goes on where it was when the same command is given again, in the same reservation.
Exit status: 0 all there and compared, 1 refused, 2 usage, 3 the world, 130 stopped by the user.")]
pub struct CopyArgs {
    /// The file to send
    #[arg(required_unless_present = "receive")]
    pub source: Option<PathBuf>,
    /// The host that runs `sluice copy --receive`: HOST, HOST:PORT
    #[arg(required_unless_present = "receive")]
    pub to: Option<String>,
    /// Receive into this folder instead of sending
    #[arg(long, value_name = "DIR", conflicts_with_all = ["source", "to"])]
    pub receive: Option<PathBuf>,
    /// With --receive: count and compare only, write nothing
    #[arg(long, requires = "receive")]
    pub discard: bool,
    /// With --receive: the address to listen at
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:5300", requires = "receive")]
    pub listen: SocketAddr,
    /// The name of the file there [default: as here]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The resource, net/IFACE, by which the file leaves [default: the agent's only one, or the route's]
    #[arg(long, value_name = "NET")]
    pub resource: Option<String>,
    /// A reserved rate; without it, and without --by, the transfer is in the background
    #[arg(long, value_parser = parse_rate, conflicts_with_all = ["by", "reservation"])]
    pub rate: Option<Rate>,
    /// With --rate: the least rate that will do
    #[arg(long, value_parser = parse_rate, requires = "rate")]
    pub at_least: Option<Rate>,
    /// The deadline for all of it: 2026-11-21T20:00:00Z, or now+30min
    #[arg(long, value_name = "WHEN", conflicts_with = "reservation")]
    pub by: Option<String>,
    /// The highest rate that it can use
    #[arg(long, value_parser = parse_rate, conflicts_with_all = ["rate", "reservation"])]
    pub most: Option<Rate>,
    /// In the background: the weight against others
    #[arg(long, default_value_t = 1, conflicts_with_all = ["rate", "by", "reservation"])]
    pub weight: u32,
    /// In the background: the least rate; below it the transfer waits
    #[arg(long, value_parser = parse_rate, default_value = "64kbit", conflicts_with_all = ["rate", "by", "reservation"])]
    pub floor: Rate,
    /// The longest duration of its reservation [default: as long as the transfer goes on]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span, conflicts_with_all = ["by", "reservation"])]
    pub lasts: Option<Span>,
    /// Use this existing reservation, and leave it there
    #[arg(long, value_name = "HANDLE")]
    pub reservation: Option<String>,
    /// The longest round-trip time on the way: the edge's burst is derived from it
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "100ms")]
    pub rtt: Span,
    /// The number of times that a broken connection is made again
    #[arg(long, default_value_t = 10)]
    pub retries: u32,
    /// End with one JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long)]
    pub silent: bool,
    /// The agent
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// The default port of a receiver.
const PORT: u16 = 5300;
/// SIGHUP, SIGINT, SIGTERM.
const ENDING: [i32; 3] = [1, 2, 15];
/// The longest delay before a signal is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// The time from one attempt to connect to the next.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs the sender or the receiver.
pub fn run(args: &CopyArgs) -> Result<ExitCode, Complaint> {
    if let Some(folder) = &args.receive {
        return receive(args, folder);
    }
    let (Some(path), Some(to)) = (&args.source, &args.to) else { return Err(Complaint::usage("copy what where?")) };
    let to = address(to)?;
    let mut source = FileSource::open(path, args.name.as_deref())?;
    let wish = wish(args, &source)?;
    let allowance = Allowance::new();
    stop_on_signal(&allowance)?;
    let begun = Instant::now();
    let (mut booking, doc) = Booking::make(&args.agent.place()?, &wish, source.bytes(), &to)?;
    if !args.silent {
        eprintln!("sluice: {}", granted(&doc));
    }
    let listener = booking.follow(&allowance)?;
    let mut meter = Meter::new(!args.silent);
    let result = attempts(args, &mut source, to, &allowance, &mut booking, &mut meter);
    allowance.end("the transfer is over");
    meter.end();
    // A transfer that the user stopped goes on later in the same reservation only if it is by a deadline.
    let keep = args.reservation.is_some() || matches!((&result, &args.by), (Err(Error::Interrupted), Some(_)));
    let given_back = if keep { Ok(()) } else { booking.cancel() };
    let _ = listener.join();
    result?;
    given_back?;
    let took = begun.elapsed().as_secs_f64();
    if args.json {
        let (handle, changes) = (booking.handle(), allowance.changes());
        let bytes = source.bytes();
        println!("{}", json!({ "bytes": bytes, "seconds": took, "reservation": handle, "rate_changes": changes }));
    } else {
        println!("{} in {took:.1} s, compared", size(source.bytes()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects, binds and sends; repeats all of it if the connection breaks.
fn attempts(
    args: &CopyArgs,
    source: &mut FileSource,
    to: SocketAddr,
    allowance: &Allowance,
    booking: &mut Booking,
    meter: &mut Meter,
) -> Result<(), Error> {
    let mut left = args.retries;
    loop {
        let done = connect(to).and_then(|mut stream| {
            booking.bind(&stream)?;
            send(source, &mut stream, allowance, Duration::from_nanos(args.rtt.as_nanos()), &mut |progress| {
                meter.tell(progress)
            })
        });
        match done {
            Err(Error::World(why)) if left > 0 => {
                meter.end();
                eprintln!("sluice: {why}; again in {} s, {left} times more", AGAIN.as_secs());
                left -= 1;
                pause(allowance)?;
            }
            other => return other,
        }
    }
}

fn pause(allowance: &Allowance) -> Result<(), Error> {
    let until = Instant::now() + AGAIN;
    while Instant::now() < until {
        match allowance.now() {
            ::copy::allowance::Allowed::Stopped => return Err(Error::Interrupted),
            ::copy::allowance::Allowed::Over(why) => return Err(Error::Over(why)),
            ::copy::allowance::Allowed::Rate(_) => std::thread::sleep(LOOK),
        }
    }
    Ok(())
}

fn wish(args: &CopyArgs, source: &FileSource) -> Result<TransferRequest, Complaint> {
    let most = args.most.map(Rate::as_bps);
    let terms = match (&args.reservation, args.rate, &args.by) {
        (Some(handle), ..) => Terms::Existing { handle: handle.clone() },
        (_, Some(rate), _) => Terms::Rate { rate: rate.as_bps(), least: args.at_least.map(Rate::as_bps) },
        (_, _, Some(by)) => Terms::By { deadline: when(by)?, most },
        _ => Terms::Background { weight: args.weight, floor: args.floor.as_bps(), most },
    };
    let rtt_ms = Some(args.rtt.as_nanos() as f64 / 1e6);
    let lasts = args.lasts.map(|span| span.as_nanos() as f64 / 1e9);
    Ok(TransferRequest {
        resource: args.resource.clone(),
        terms,
        lasts,
        rtt_ms,
        label: format!("copy {}", source.id()),
    })
}

/// A time of day, or a duration from now.
fn when(text: &str) -> Result<Stamp, Complaint> {
    match text.strip_prefix("now+") {
        Some(span) => {
            let span = parse_span(span).map_err(Complaint::usage)?;
            Ok(Stamp(Clock::start().now().saturating_add(span)))
        }
        None => text.parse().map_err(Complaint::usage),
    }
}

fn address(text: &str) -> Result<SocketAddr, Complaint> {
    let unknown = |why: String| Complaint::usage(format!("{text:?} is no HOST or HOST:PORT: {why}"));
    let found = text.to_socket_addrs().or_else(|_| (text, PORT).to_socket_addrs());
    let mut found = found.map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("it has no address".into()))
}

/// The granted reservation, in a line.
fn granted(doc: &ReservationDoc) -> String {
    let Some(part) = doc.parts.iter().find(|part| part.resource.starts_with("net/")) else {
        return format!("reservation {}", doc.handle);
    };
    let rate = |amount: f64| Rate::from_bps(amount as u64).to_string();
    let now = if part.now > 0.0 { rate(part.now) } else { "nothing yet".into() };
    let sort = if part.background.is_some() { "in the background" } else { "for itself" };
    let end = part.steps.last().and_then(|step| step.end).map_or(String::new(), |end| format!(", until {end}"));
    format!("{} {sort}: {now} of {}{end} ({})", doc.state, part.resource, doc.handle)
}

fn receive(args: &CopyArgs, folder: &std::path::Path) -> Result<ExitCode, Complaint> {
    let store = if args.discard { TransferStore::Nowhere } else { TransferStore::Folder(folder.to_owned()) };
    if !args.discard && !folder.is_dir() {
        return Err(Complaint::world(format!("{} is no folder", folder.display())));
    }
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| Complaint::world(format!("cannot listen on {}: {error}", args.listen)))?;
    eprintln!("sluice: receiving on {}", args.listen);
    let json = args.json;
    let tell = move |received: FinishedTransfer| match (&received.result, json) {
        (Ok(bytes), true) => println!("{}", json!({ "name": received.name, "bytes": bytes, "from": received.from })),
        (Ok(bytes), false) => println!("{} {} from {}, compared", received.name, size(*bytes), received.from),
        (Err(error), _) => eprintln!("sluice: from {}: {error}", received.from),
    };
    serve(&listener, &store, tell)?;
    Ok(ExitCode::SUCCESS)
}

fn stop_on_signal(allowance: &Allowance) -> Result<(), Complaint> {
    let mut signals = SignalFd::take(&ENDING).map_err(|failed| Complaint::world(failed.to_string()))?;
    let allowance = allowance.clone();
    std::thread::spawn(move || {
        while signals.take_next().is_none() {
            std::thread::sleep(LOOK);
        }
        allowance.stop();
    });
    Ok(())
}

/// A line of progress, on a terminal.
struct Meter {
    shown: bool,
    last: Option<(Instant, u64)>,
    begun: Option<(Instant, u64)>,
}

impl Meter {
    fn new(wanted: bool) -> Meter {
        Meter { shown: wanted && std::io::stderr().is_terminal(), last: None, begun: None }
    }

    fn tell(&mut self, progress: TransferProgress) {
        let now = Instant::now();
        self.begun.get_or_insert((now, progress.done));
        let (at, done) = *self.last.get_or_insert((now, progress.done));
        let since = now.duration_since(at).as_secs_f64();
        if !self.shown || since < 0.5 {
            return;
        }
        let rate = (progress.done - done) as f64 / since;
        let left = (progress.bytes - progress.done) as f64 / rate.max(1.0);
        let granted = Rate::from_bps(progress.granted_bps);
        let (done, all) = (size(progress.done), size(progress.bytes));
        // A terminal that is gone is no reason to stop.
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{done} of {all}, {:.1} Mbit/s of {granted} granted, {left:.0} s left ",
            rate * 8e-6
        );
        self.last = Some((now, progress.done));
    }

    fn end(&mut self) {
        if self.shown && self.last.take().is_some() {
            eprintln!();
        }
    }
}

/// A size as text for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

impl From<Error> for Complaint {
    fn from(error: Error) -> Complaint {
        match error {
            Error::Refused(_) | Error::Over(_) => Complaint::refused(error.to_string()),
            Error::Usage(text) => Complaint::usage(text),
            Error::Interrupted => Complaint::interrupted(error.to_string()),
            Error::World(_) | Error::Peer(_) => Complaint::world(error.to_string()),
        }
    }
}
