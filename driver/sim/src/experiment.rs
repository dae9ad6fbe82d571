//! The video experiment of DeWitt, Gao and Ke, *An Evaluation of RSVP Using Real Applications* (1998), section 5.4,
//! in simulated time: a video stream crosses two routers with a 10 Mbit/s link between them while a constant flood
//! of other packets is swept from nothing to beyond the link's rate, without and with a reservation.
//!
//! [`video`] returns the values of the paper's Figures 5 to 8 (throughput, frame rate, damage of the video,
//! throughput of the flood), one [`SimPoint`] for each flood rate.

use crate::map::address;
use crate::run_trace::TraceEvent;
use crate::scenario::{
    LinkId, NodeId, Scenario, ScenarioAction, SendPattern, SimLinkSpec, SimNodeSpec, SimReservation, SourceId,
    SourceSpec,
};
use crate::sink::FlowReport;
use crate::world::{Broken, Unplayable, World};
use node::io::{AppId, Upcall};
use terms::{Bytes, FlowKey, Rate, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;

/// The sending host.
pub const SWISSVALE: NodeId = NodeId(0);
/// The first router.
pub const YOSEMITE: NodeId = NodeId(1);
/// The second router.
pub const MAUI: NodeId = NodeId(2);
/// The receiving host.
pub const GLENWOOD: NodeId = NodeId(3);
/// The 10 Mbit/s link between the routers.
pub const BOTTLENECK: LinkId = LinkId(1);

/// Frames per second of the video.
pub const FRAMES_PER_SECOND: u64 = 12;
/// The bytes of a frame.
pub const FRAME_BYTES: u64 = FRAME_PACKETS as u64 * VIDEO_PACKET as u64;
/// Packets of a frame: 32 of 1,009 bytes, twelve times a second, are 3.1 Mbit/s.
const FRAME_PACKETS: u32 = 32;
const VIDEO_PACKET: u32 = 1_009;
const FLOOD_PACKET: u32 = 1_000;
/// The time of the sender's first Path.
const ANNOUNCED: Span = Span::from_millis(100);
/// Time before the measurement, for the reservation to be set up.
const WARM_UP: Span = Span::from_secs(2);
/// Time after the measurement, for the last packet to arrive.
const COOL_DOWN: Span = Span::from_millis(500);

/// The parameters of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimSweep {
    /// Flood rates, IP bytes.
    pub floods: Vec<Rate>,
    /// The measured time of each point.
    pub measured: Span,
    /// The scheduler of the ports.
    pub scheduler: SchedulerKind,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for SimSweep {
    /// 0 to 12 Mbit/s in steps of 1, 10 s each, on HTB as the kernel has it.
    fn default() -> SimSweep {
        SimSweep {
            floods: (0..=12).map(Rate::from_mbps).collect(),
            measured: Span::from_secs(10),
            scheduler: SchedulerKind::Htb,
            seed: 1998,
        }
    }
}

/// One point of the sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimPoint {
    /// The rate of the flood offered.
    pub offered: Rate,
    /// True if the video's bandwidth was reserved.
    pub reserved: bool,
    /// The sink's report of the video.
    pub video: FlowReport,
    /// The sink's report of the flood.
    pub flood: FlowReport,
    /// Time from the receiver's call, with path state present, to its confirmation.
    pub set_up: Option<Span>,
    /// Time from the sender's call, over Path and Resv, to the receiver's confirmation.
    pub end_to_end: Option<Span>,
    /// The number of events played.
    pub events: u64,
}

impl SimPoint {
    /// The rate of the video that arrived, on the bottleneck's wire: IP bytes and the overhead of each
    /// packet.
    pub fn video_wire_rate(&self) -> Rate {
        self.video.throughput().with_overhead(14, VIDEO_PACKET)
    }
}

/// The error that ended a sweep early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExperimentError {
    /// The scenario is invalid.
    Unplayable(Unplayable),
    /// An invariant did not hold. It is a bug of this project.
    Broken(Broken),
}

/// Plays the sweep without and with a reservation, in that order for each flood rate.
///
/// # Errors
/// [`ExperimentError`]: the sweep is invalid, or an invariant did not hold.
pub fn video(sweep: &SimSweep) -> Result<Vec<SimPoint>, ExperimentError> {
    let mut points = Vec::with_capacity(2 * sweep.floods.len());
    for &offered in &sweep.floods {
        for reserved in [false, true] {
            points.push(video_point(sweep, offered, reserved)?);
        }
    }
    Ok(points)
}

/// Plays one point.
///
/// # Errors
/// As [`video`].
pub fn video_point(sweep: &SimSweep, offered: Rate, reserved: bool) -> Result<SimPoint, ExperimentError> {
    video_reserving(sweep, offered, reserved.then(video_tspec))
}

/// Plays one point with this Tspec announced and reserved; `None`: nothing is reserved.
///
/// # Errors
/// As [`video`].
pub fn video_reserving(sweep: &SimSweep, offered: Rate, tspec: Option<Tspec>) -> Result<SimPoint, ExperimentError> {
    let scenario = video_scenario(sweep, offered, tspec);
    let mut world = World::new(&scenario).map_err(ExperimentError::Unplayable)?;
    world.run_until(scenario.measured.1 + COOL_DOWN);
    world.check().map_err(ExperimentError::Broken)?;
    Ok(SimPoint {
        offered,
        reserved: tspec.is_some(),
        video: world.flow(SourceId(0)),
        flood: world.flow(SourceId(1)),
        set_up: set_up_time(&world, GLENWOOD),
        end_to_end: confirmed_at(&world, GLENWOOD).map(|at| at - (Time::ZERO + ANNOUNCED)),
        events: world.events(),
    })
}

/// Time from the first Path at a receiver (when it asks) to its first confirmation.
pub fn set_up_time(world: &World, receiver: NodeId) -> Option<Span> {
    let asked = first(world, receiver, |upcall| matches!(upcall, Upcall::Path { .. }))?;
    Some(confirmed_at(world, receiver)? - asked)
}

/// The time of a packet of `packet` bytes over a scenario's links and back, if they form a line and carry
/// nothing else.
pub fn round_trip(scenario: &Scenario, packet: u32) -> Span {
    let one =
        |link: &SimLinkSpec| link.delay + link.rate.span_for(Bytes::new(u64::from(packet) + u64::from(link.overhead)));
    scenario.links.iter().map(one).fold(Span::ZERO, |sum, span| sum + span + span)
}

fn confirmed_at(world: &World, receiver: NodeId) -> Option<Time> {
    first(world, receiver, |upcall| matches!(upcall, Upcall::Confirm { .. }))
}

fn first(world: &World, node: NodeId, wanted: fn(&Upcall) -> bool) -> Option<Time> {
    let is = |what: &TraceEvent| matches!(what, TraceEvent::Upcall(_, upcall) if wanted(upcall));
    world.story().of(node).find(|line| is(&line.what)).map(|line| line.at)
}

/// The paper's part of the Darwin testbed: two hosts, two routers, 100, 10 and 100 Mbit/s.
pub fn testbed(scheduler: SchedulerKind, refresh: Span, seed: u64) -> Scenario {
    let names = ["swissvale", "yosemite", "maui", "glenwood"];
    let rates = [100, 10, 100];
    let links = rates.iter().enumerate().map(|(n, mbit)| {
        let (rate, delay) = (Rate::from_mbps(*mbit), Span::from_micros(50));
        SimLinkSpec::ethernet(NodeId(n), NodeId(n + 1), rate, delay, scheduler)
    });
    Scenario {
        seed,
        nodes: names.iter().map(|name| SimNodeSpec::new(name, refresh)).collect(),
        links: links.collect(),
        ..Scenario::default()
    }
}

/// The session of a stream from swissvale to `port` of glenwood.
pub fn session_to(port: u16) -> Session {
    Session { dst: address(LinkId(2), 1), protocol: crate::packet::UDP, dst_port: port }
}

/// The sender of a stream from `port` of swissvale.
pub fn sender_from(port: u16) -> SenderTemplate {
    SenderTemplate { src: address(LinkId(0), 0), src_port: port.into() }
}

/// The flow of a stream between those ports.
pub fn flow(src_port: u16, dst_port: u16) -> FlowKey {
    FlowKey::of(&session_to(dst_port), &sender_from(src_port))
}

/// The Tspec of the video's sender: a little more than it sends, in buckets of two frames.
pub fn video_tspec() -> Tspec {
    Tspec {
        r: Rate::from_kbps(3_200),
        b: Bytes::new(2 * u64::from(FRAME_PACKETS * VIDEO_PACKET)),
        p: Rate::INFINITE,
        m: VIDEO_PACKET,
        M: 1_500,
    }
}

/// The video stream between those ports.
pub fn video_source(src_port: u16, dst_port: u16, from: Time, until: Time) -> SourceSpec {
    let interval = Span::from_nanos(Span::NANOS_PER_SEC / FRAMES_PER_SECOND);
    let pattern = SendPattern::Video { interval, packets: FRAME_PACKETS, spread_percent: 90 };
    SourceSpec { node: SWISSVALE, flow: flow(src_port, dst_port), packet: VIDEO_PACKET, pattern, from, until }
}

/// A constant flood between those ports.
pub fn flood_source(rate: Rate, src_port: u16, dst_port: u16, from: Time, until: Time) -> SourceSpec {
    let pattern = SendPattern::Cbr { rate, jitter_percent: 50 };
    SourceSpec { node: SWISSVALE, flow: flow(src_port, dst_port), packet: FLOOD_PACKET, pattern, from, until }
}

/// The two actions that announce a stream and reserve for it.
pub fn reserve(
    src_port: u16,
    dst_port: u16,
    tspec: Tspec,
    ask: SimReservation,
    at: Time,
) -> [(Time, ScenarioAction); 2] {
    let (session, template) = (session_to(dst_port), sender_from(src_port));
    [
        (at, ScenarioAction::Receive { node: GLENWOOD, app: AppId(u64::from(dst_port)), session, ask }),
        (at, ScenarioAction::Send { node: SWISSVALE, app: AppId(u64::from(src_port)), session, template, tspec }),
    ]
}

fn video_scenario(sweep: &SimSweep, offered: Rate, tspec: Option<Tspec>) -> Scenario {
    let start = Time::ZERO + WARM_UP;
    let end = start + sweep.measured;
    let ask = if tspec.is_some() { SimReservation::ControlledLoad } else { SimReservation::Nothing };
    let tspec = tspec.unwrap_or_else(video_tspec);
    // The flood runs before and after what is measured, so that the queue is as full at the start as later.
    let (early, late) = (Time::ZERO + Span::from_secs(1), end + COOL_DOWN);
    Scenario {
        sources: vec![video_source(5_004, 5_004, start, end), flood_source(offered, 9_000, 9_000, early, late)],
        script: reserve(5_004, 5_004, tspec, ask, Time::ZERO + ANNOUNCED).to_vec(),
        measured: (start, end),
        ..testbed(sweep.scheduler, Span::from_secs(30), sweep.seed)
    }
}
