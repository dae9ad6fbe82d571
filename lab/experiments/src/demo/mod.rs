//! Seed 000, section 5.4: a video against cross traffic, without and with a reservation (Figures 5 to 8).
//!
//! One stream runs all the time. First the flood is swept without a reservation; the unloaded point at its
//! beginning gives the stream's burstiness and its Tspec. Then the sender announces that Tspec, and at each
//! point of the second sweep the receiver reserves *while the flood runs*, is measured, and releases.

mod beside;
mod charts;
mod live;
mod measure;
mod report;
mod simulated;
mod verdict;

use crate::looping::{self, Loop};
use crate::reserve::{Receiving, ReservedFlow, Sending};
use crate::setup;
use crate::video::bucket;
use crate::video::source::VideoSource;
use crate::video::stream::{PORT, Stream};
use bed::cbr::Cbr;
use bed::error::Error;
use bed::patience::Patience;
use bed::scratch::Scratch;
use bed::testbed::UpOptions;
use bed::{Bed, RECEIVER, SENDER};
pub use beside::{BESIDE, BesidePaper};
use documents::session::{SenderId, SessionId, TspecDoc};
use figures::progress::Progress;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::process::go_first;
use live::DemoPages;
use measure::{SETTLE, Scene};
pub use report::{DemoPoint, DemoReport};
pub use simulated::simulate;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use terms::{Rate, Span};

/// The flood's port at the receiver: discard.
const FLOOD_PORT: u16 = 9;
/// The number of reservations for the set-up time.
const SETUPS: usize = 100;
/// The time for preparation and set-up times, as the progress shows it.
const PREPARATION: Duration = Duration::from_secs(8);
/// The length of the flood before the reservation is made.
const FLOOD_FIRST: Duration = Duration::from_millis(500);

/// The protocol that reserves the video's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VideoProtocol {
    /// RSVP: the sender announces a Tspec, the receiver reserves.
    #[default]
    Rsvp,
    /// Boomerang: the receiver reserves both directions in one round trip.
    Boomerang,
}

/// The options of the demonstration.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Flood rates, IP bytes, in order; the first must be zero.
    pub floods: Vec<Rate>,
    /// The length of the measurement of each point.
    pub length: Duration,
    /// The number of windows in a measurement; rates are their median.
    pub windows: u32,
    /// The number of reservations for the set-up time.
    pub setups: usize,
    /// Folder for the figures and the table; nothing is written without one.
    pub out: Option<PathBuf>,
    /// The testbed's program and place.
    pub up: UpOptions,
    /// True to show progress.
    pub progress: bool,
    /// The protocol that reserves.
    pub with: VideoProtocol,
    /// The address at which browsers may look on, if they may.
    pub web: Option<SocketAddr>,
}

impl DemoOptions {
    /// Returns the options of the whole sweep with figures, under 5 minutes.
    pub fn full(up: UpOptions, out: PathBuf) -> DemoOptions {
        let floods = [0, 2, 4, 6, 7, 8, 9, 10, 12].map(Rate::from_mbps).to_vec();
        DemoOptions {
            floods,
            length: Duration::from_secs(10),
            windows: 1,
            setups: SETUPS,
            out: Some(out),
            up,
            progress: true,
            with: VideoProtocol::Rsvp,
            web: None,
        }
    }

    /// Returns the options of one point without and with a reservation, under a minute.
    pub fn quick(up: UpOptions) -> DemoOptions {
        let floods = [0, 10].map(Rate::from_mbps).to_vec();
        DemoOptions {
            floods,
            length: Duration::from_millis(10_200),
            windows: 3,
            setups: SETUPS,
            out: None,
            up,
            progress: true,
            with: VideoProtocol::Rsvp,
            web: None,
        }
    }

    /// Estimates the length of the whole run.
    fn duration(&self) -> Duration {
        let points = self.floods.len() as u32;
        let reserved = self.reserved_floods().len() as u32;
        PREPARATION + (SETTLE + self.length) * points + (FLOOD_FIRST + SETTLE + self.length) * reserved
    }

    /// Returns the floods of the second sweep. The quick form does not reserve without a flood.
    fn reserved_floods(&self) -> &[Rate] {
        if self.out.is_none() { self.floods.get(1..).unwrap_or(&[]) } else { &self.floods }
    }
}

/// Runs the experiment. Only the files in `out` remain of it, however it ends.
///
/// # Errors
/// Any [`Error`]; [`Error::Interrupted`] if a signal came.
pub fn run(options: &DemoOptions, patience: &Patience) -> Result<DemoReport, Error> {
    let mut progress = if options.progress { Progress::new(options.duration()) } else { Progress::silent() };
    Bed::possible()?;
    if let Some(out) = &options.out {
        // Better refused now than after four minutes.
        std::fs::create_dir_all(out).map_err(SystemError::doing(format!("make {}", out.display())))?;
    }
    // A busy machine must not be mistaken for a bad network; where this is not allowed, the captures still tell.
    let _ = go_first();
    let clock = Clock::start();
    bed::scratch::sweep(&options.up.testbeds);
    let scratch = Scratch::create()?;
    progress.begin("encoding the video", PREPARATION / 2);
    let source = VideoSource::prepare(scratch.path(), patience)?;
    progress.begin("bringing the testbed up, measuring set-up times", PREPARATION / 2);
    let boomerang = options.with == VideoProtocol::Boomerang;
    let bed = Bed::up_with(scratch.name(), Span::from_secs(30), boomerang, &options.up)?;
    patience.check()?;
    let pages = options.web.map(|at| DemoPages::open(&bed, &options.up, at, patience)).transpose()?;
    if let Some(pages) = &pages {
        progress.say(&format!("in a browser, within a minute: {}", pages.link()));
    }
    let measure = if boomerang { looping::setup_time } else { setup::setup_time };
    let setup = measure(&bed, setup::provisional(&bed), options.setups, patience)?;
    progress.say(&setup.line());
    let (from, to) = (bed.host(SENDER)?, bed.host(RECEIVER)?);
    let flood = Cbr::start(&from, &to, FLOOD_PORT, clock)?;
    let stream = Stream::start(&source, &from, &to, scratch.path(), clock, patience)?;
    let (length, windows) = (options.length, options.windows);
    let mut scene = Scene { stream, flood, clock, patience, length, windows, pages, reserved: false };
    let mut report = DemoReport::new(bed.bottleneck(), setup);
    for &rate in &options.floods {
        progress.begin(&describe(rate, false), SETTLE + options.length);
        let (point, window) = scene.point(rate, None)?;
        progress.say(&point.line());
        if rate == Rate::ZERO {
            let sent = scene.stream.sent();
            let calm: Vec<_> = sent.into_iter().filter(|packet| window.contains(packet.at)).collect();
            let found = bucket::measure(&calm).ok_or_else(|| Error::Void("the video sent next to nothing".into()))?;
            report.announce(found, found.tspec(bed.first_link()));
            progress.say(&report.stream_line());
        }
        report.points.push(point);
    }
    sweep_reserved(&bed, &mut scene, options, &mut report, &mut progress)?;
    drop(scene);
    drop(bed);
    report.judge();
    if let Some(out) = &options.out {
        report.write(out)?;
    }
    Ok(report)
}

fn sweep_reserved(
    bed: &Bed,
    scene: &mut Scene<'_>,
    options: &DemoOptions,
    report: &mut DemoReport,
    progress: &mut Progress,
) -> Result<(), Error> {
    let tspec = report.tspec.ok_or_else(|| Error::Void("no unloaded point came first".into()))?;
    let flow = video_flow(bed)?;
    scene.flood.set_rate(Rate::ZERO);
    let mut applications = Applications::start(bed, flow, tspec, options.with)?;
    if options.with == VideoProtocol::Boomerang {
        let kbit = looping::FEEDBACK / 1_000;
        report.notes.push(format!("reserved by Boomerang: the video, and {kbit} kbit/s back, in one round trip"));
    }
    for &rate in options.reserved_floods() {
        progress.begin(&describe(rate, true), FLOOD_FIRST + SETTLE + options.length);
        scene.flood.set_rate(rate);
        scene.patience.wait(FLOOD_FIRST)?;
        let setup = applications.reserve(tspec)?;
        setup::in_place(bed, &flow)?;
        scene.reserved = true;
        let (point, _) = scene.point(rate, Some(setup))?;
        let excess = measure::excess_packets(bed, &flow)?;
        progress.say(&point.line());
        if excess > 0 {
            report.notes.push(format!(
                "{excess} video packets exceeded the token bucket under {} Mb/s of flood and went as best effort",
                report::mbps(rate)
            ));
        }
        report.points.push(point);
        applications.release()?;
        scene.reserved = false;
    }
    Ok(())
}

/// The applications that make the reservation.
enum Applications {
    Rsvp(Sending, Receiving),
    Boomerang(Loop),
}

impl Applications {
    fn start(bed: &Bed, flow: ReservedFlow, tspec: TspecDoc, with: VideoProtocol) -> Result<Applications, Error> {
        if with == VideoProtocol::Boomerang {
            return Ok(Applications::Boomerang(Loop::start(bed.client(RECEIVER)?, flow)));
        }
        let sending = Sending::start(bed.client(SENDER)?, flow, tspec)?;
        let mut receiving = Receiving::start(bed.client(RECEIVER)?, flow)?;
        receiving.wait_for_path()?;
        Ok(Applications::Rsvp(sending, receiving))
    }

    fn reserve(&mut self, tspec: TspecDoc) -> Result<Duration, Error> {
        match self {
            Applications::Rsvp(_, receiving) => receiving.reserve(tspec),
            Applications::Boomerang(application) => application.reserve(tspec),
        }
    }

    fn release(&mut self) -> Result<(), Error> {
        match self {
            Applications::Rsvp(sending, receiving) => {
                receiving.release()?;
                sending.wait_for_release()
            }
            Applications::Boomerang(application) => application.release(),
        }
    }
}

/// Returns the video's session and sender.
///
/// # Errors
/// The testbed has no such hosts.
pub fn video_flow(bed: &Bed) -> Result<ReservedFlow, Error> {
    let session = SessionId { dst: bed.host(RECEIVER)?.address.into(), protocol: 17, dst_port: PORT };
    Ok(ReservedFlow { session, sender: SenderId { src: bed.host(SENDER)?.address.into(), src_port: PORT.into() } })
}

fn describe(flood: Rate, reserved: bool) -> String {
    let with = if reserved { "with a reservation" } else { "without a reservation" };
    format!("the video {with}, flood {} Mb/s", report::mbps(flood))
}
