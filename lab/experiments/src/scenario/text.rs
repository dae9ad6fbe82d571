//! The scenario file as written: one struct per kind of entry. The other files of this folder interpret the
//! entries.
//!
//! ```toml
//! name = "a flood, and a reservation against it"
//! seed = 7                    # of everything random; default: 0
//! measure = ["2s", "12s"]     # results are those of this window
//! agents = true               # whether nodes run agents, as `sluice agent` does; false: they only forward
//! scheduler = "htb"           # of every link: htb, hfsc, wf2q, drr or priority
//! refresh = "30s"             # how often RSVP says everything again
//! queue = { packets = 100 }   # of every direction of a link without its own, see `queue`; without it: the agent's data plane
//!
//! [[node]]
//! name = "C{C}"               # `{C}` is each number of `repeat`
//! agent = true                # default: what `agents` says
//! repeat = { C = 10 }         # this entry stands for ten; with two counters for each pair; so do [[link]], [[source]] and [[tcp]]
//!
//! [[link]]
//! between = ["a", "b"]
//! rate = "10mbit"             # each way, link headers included
//! delay = "5ms"               # each way; default: none
//! overhead = 14               # bytes of link header of every packet
//! mtu = 1500
//! scheduler = "hfsc"          # default: the file's
//! repeat = { C = 10 }         # as of a node
//! queue = { packets = 100 }   # of both directions, see `queue`
//! there = { queue = { packets = 100 }, conditioner = { meter = {} } }   # from the first to the second alone
//! back = {}                   # the same for the other way
//!
//! [queue]                     # wherever a queue stands: first in, first out; an empty one has no limit
//! packets = 100
//! bytes = "150kb"
//! dropper = { green = { min = 20, max = 60, p = 0.1 } }   # RED by the curve `green`, RIO by three, see `dropper`
//! marker = { af = 1 }         # see `marker`
//! tree = "tree.toml"          # a whole queue tree instead, as for `sluice plane`; the path is relative to this file
//! mace = { applications = "applications" }   # two levels with room for `packets` in all (default: 50), see `mace`
//!
//! [dropper]
//! green = { min = 20, max = 60, p = 0.1, gentle = false }   # none before min packets, p at max, all beyond
//! yellow = { min = 10, max = 30, p = 0.2 }
//! red = { min = 5, max = 15, p = 0.5 }
//! coupling = "coupled"        # which packets a colour's average counts: those of better colours too; decoupled, single
//! unit = "packets"            # or bytes: what the averages count
//! weight = 0.002              # of a new sample in the average
//! slot = "1ms"                # how long a packet takes, by which an average falls while nothing waits; default: a full one
//!
//! [conditioner]               # in front of the queue
//! shaper = { kind = "tr-ras", cir = "1mbit", pir = "2mbit", mir = "4mbit", cir_th = "15kb", pir_th = "30kb", mir_th = "60kb", buffer = "90kb", k = "300ms", green = false }   # RFC 2963; or bucket (rate = "1mbit", depth = "3kb", buffer = "90kb"), sr-ras
//! meter = { kind = "trtcm", cir = "1mbit", cbs = "3kb", pir = "2mbit", pbs = "3kb" }   # or srtcm, rfc4115, tswtcm
//! marker = { af = 1 }         # code points of the colours
//!
//! [marker]
//! af = 1                      # the class of assured forwarding (RFC 2597), 1 to 4
//! green = "af11"              # or a code point for each colour
//! yellow = "af12"
//! red = "af13"
//!
//! [[source]]                  # packets without TCP; exactly one of cbr, on_off, exponential, pareto, poisson, frames, greedy, trace
//! name = "video"
//! from = "a:5004"             # a node and a port
//! to = "b:5004"
//! group = "videos"            # results are summed over a group
//! packet = "1000b"            # its size, IP header included
//! during = ["1s", "9s"]
//! cbr = "3mbit"               # one packet after another, evenly
//! jitter = 20                 # of cbr: per cent of the distance of two by which a packet may be late
//! on_off = { rate = "1mbit", on = "1s", off = "2s" }
//! exponential = { rate = "1mbit", on = "1s", off = "2s" }   # times drawn from exponential distributions with these means
//! pareto = { rate = "1mbit", on = "1s", off = "2s", shape = 1.5 }   # from Pareto distributions
//! poisson = "1mbit"
//! frames = { interval = "40ms", packets = 8, spread = 50 }   # so many packets each interval, spread over this per cent of it
//! greedy = { rate = "3mbit", burst = 10 }   # so many packets at once, and then at the rate
//! trace = { file = "x.pcap", dst_port = 5004 }   # the packets of a capture, or those to one port
//! reserve = { service = "controlled-load", rate = "3mbit", burst = "30kb", min_unit = "100b", at = "500ms" }   # by RSVP, between agents; or guaranteed
//! repeat = { C = 10 }         # as of a node
//!
//! [[tcp]]
//! name = "bulk"
//! from = "a"
//! to = "b"
//! group = "bulk"
//! start = "1s"
//! start_spread = "1s"         # it begins at random in this time after `start`
//! stop = "9s"
//! bytes = "10mb"              # default: without end
//! mss = 1460
//! window = "64kb"             # the receiver's
//! initial_window = 2          # segments
//! initial_threshold = 64      # segments; default: the window
//! growth = "reno"             # or cubic
//! limited_transmit = true     # RFC 3042
//! delayed_ack = "200ms"
//! rto = { initial = "1s", floor = "200ms", ceiling = "60s", tick = "10ms" }   # the time-out of retransmission
//! forget_on_timeout = false   # whether a time-out forgets what was selectively acknowledged
//! rescue = true               # the rescue retransmission of RFC 6675
//! dscp = "af11"
//! repeat = { C = 10 }         # as of a node
//!
//! [[at]]                      # what happens at a time: exactly one of these
//! time = "3s"
//! link_down = "a-b"
//! link_up = "a-b"
//! impair = { link = "a-b", of = "data", loss = 0.01, duplicate = 0.0, reorder = 0.0, late = "5ms" }   # of data or signalling; without `of` both
//! crash = "a"                 # its agent dies; its plane stays
//! restart = "a"
//! stop = "a"                  # its agent ends in good order
//! node_down = "a"
//! node_up = "a"
//! partition = ["a", "b"]      # these hear only each other
//! heal = true
//! clock_step = { node = "a", by = "-5s" }
//! fail_plane = { node = "a", batches = 2 }   # the next so many batches of its plane fail
//!
//! [sweep]                     # the same with other values, each a point
//! seeds = 3                   # independent runs of each point
//! over = [{ field = "tcp.bulk.rto.floor", values = ["200ms", "1s"] }]   # any field that stands here: KIND.NAME.FIELD, a link by its ends
//! reserve = [false, true]     # without and with the reservations
//! source = "video"            # short for its rates
//! rates = ["1mbit", "2mbit"]
//! ```

use super::mace::MaceText;
use crate::plane::leaf_text::{DropperText, MarkerText, MeterText, ShaperText};
use crate::plane::words::{Word, Written};
use serde::Deserialize;
use std::collections::BTreeMap;
use terms::{Bytes, Dscp, Rate, Span, Time};
use toml::Spanned;
use traffic::port::SchedulerKind;

/// The number of copies of an entry: counters by name. `{name}` in the entry's names is each value from 1 on.
pub type Repeat = Option<Spanned<BTreeMap<String, u32>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: String,
    #[serde(default)]
    pub seed: u64,
    pub scheduler: Option<Word<SchedulerName>>,
    pub refresh: Option<Word<Span>>,
    pub measure: Spanned<ScenarioWindow>,
    /// True if nodes run agents by default.
    #[serde(default = "yes")]
    pub agents: bool,
    /// The default queue in directions of links, without an agent.
    pub queue: Option<Spanned<QueueText>>,
    #[serde(default)]
    pub node: Vec<NodeText>,
    #[serde(default)]
    pub link: Vec<LinkText>,
    #[serde(default)]
    pub source: Vec<SourceText>,
    #[serde(default)]
    pub tcp: Vec<TcpText>,
    #[serde(default)]
    pub at: Vec<Spanned<AtText>>,
    pub sweep: Option<Spanned<SweepText>>,
}

fn yes() -> bool {
    true
}

/// The name of a scheduler: `htb`, `hfsc`, `priority`.
#[derive(Clone, Copy)]
pub struct SchedulerName(pub SchedulerKind);

impl Written for SchedulerName {
    fn read(text: &str) -> Result<SchedulerName, String> {
        match text {
            "htb" => Ok(SchedulerName(SchedulerKind::Htb)),
            "hfsc" => Ok(SchedulerName(SchedulerKind::Hfsc)),
            "wf2q" => Ok(SchedulerName(SchedulerKind::Wf2q)),
            "drr" => Ok(SchedulerName(SchedulerKind::Drr)),
            "priority" => Ok(SchedulerName(SchedulerKind::Priority)),
            other => Err(format!("{other:?} is no scheduler: htb, hfsc or priority")),
        }
    }
}

/// A half-open interval, `["2s", "12s"]`: from the first instant on, before the second.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "[Word<Span>; 2]")]
pub struct ScenarioWindow(pub Time, pub Time);

impl TryFrom<[Word<Span>; 2]> for ScenarioWindow {
    type Error = &'static str;

    fn try_from([from, until]: [Word<Span>; 2]) -> Result<ScenarioWindow, &'static str> {
        let window = ScenarioWindow(Time::ZERO + from.0, Time::ZERO + until.0);
        if window.0 < window.1 { Ok(window) } else { Err("the end is not after the start") }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeText {
    pub name: Spanned<String>,
    pub agent: Option<bool>,
    pub repeat: Repeat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkText {
    pub between: Spanned<[String; 2]>,
    pub rate: Spanned<Word<Rate>>,
    pub delay: Option<Word<Span>>,
    pub scheduler: Option<Word<SchedulerName>>,
    pub overhead: Option<u32>,
    pub mtu: Option<u32>,
    pub queue: Option<Spanned<QueueText>>,
    pub there: Option<Spanned<WayText>>,
    pub back: Option<Spanned<WayText>>,
    pub repeat: Repeat,
}

/// One direction of a link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayText {
    pub queue: Option<Spanned<QueueText>>,
    pub conditioner: Option<Spanned<ConditionerText>>,
}

/// A queue of packets in front of a link: first in, first out; behind a dropper, if there is one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueText {
    pub packets: Option<u32>,
    pub bytes: Option<Word<Bytes>>,
    pub dropper: Option<Spanned<DropperText>>,
    pub marker: Option<Spanned<MarkerText>>,
    /// The file of a whole queue tree, as for `sluice plane`. The path is relative to the scenario's folder.
    pub tree: Option<Spanned<String>>,
    /// Recognition and admission by measurement before a queue of two levels.
    pub mace: Option<Spanned<MaceText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionerText {
    pub shaper: Option<Spanned<ShaperText>>,
    pub meter: Option<Spanned<MeterText>>,
    pub marker: Option<Spanned<MarkerText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceText {
    pub name: Spanned<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub group: Option<String>,
    pub packet: Option<Spanned<Word<Bytes>>>,
    pub during: ScenarioWindow,
    pub cbr: Option<Word<Rate>>,
    #[serde(default)]
    pub jitter: u32,
    pub on_off: Option<OnOffText>,
    pub frames: Option<Spanned<FramesText>>,
    pub greedy: Option<GreedyText>,
    pub exponential: Option<OnOffText>,
    pub pareto: Option<Spanned<ParetoText>>,
    pub poisson: Option<Word<Rate>>,
    pub trace: Option<Spanned<TraceText>>,
    pub reserve: Option<Spanned<ReserveText>>,
    pub repeat: Repeat,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOffText {
    pub rate: Word<Rate>,
    pub on: Word<Span>,
    pub off: Word<Span>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParetoText {
    pub rate: Word<Rate>,
    pub on: Word<Span>,
    pub off: Word<Span>,
    pub shape: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesText {
    pub interval: Word<Span>,
    pub packets: u32,
    pub spread: u32,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GreedyText {
    pub rate: Word<Rate>,
    pub burst: u32,
}

/// A recorded stream: the IP packets of a capture, or those of one UDP or TCP destination port in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceText {
    pub file: String,
    pub dst_port: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceText {
    ControlledLoad,
    Guaranteed,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReserveText {
    pub service: Word<ServiceText>,
    pub rate: Word<Rate>,
    pub burst: Word<Bytes>,
    pub min_unit: Option<Word<Bytes>>,
    pub at: Word<Span>,
}

impl Written for ServiceText {
    fn read(text: &str) -> Result<ServiceText, String> {
        match text {
            "controlled-load" => Ok(ServiceText::ControlledLoad),
            "guaranteed" => Ok(ServiceText::Guaranteed),
            other => Err(format!("{other:?} is no service: controlled-load or guaranteed")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpText {
    pub name: Spanned<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub group: Option<String>,
    pub start: Option<Word<Span>>,
    /// The window after `start` in which connections start at random, evenly.
    pub start_spread: Option<Word<Span>>,
    pub stop: Option<Word<Span>>,
    pub bytes: Option<Word<Bytes>>,
    pub mss: Option<u32>,
    pub window: Option<Word<Bytes>>,
    pub initial_window: Option<u32>,
    pub initial_threshold: Option<u32>,
    pub growth: Option<Word<GrowthText>>,
    pub limited_transmit: Option<bool>,
    pub delayed_ack: Option<Word<Span>>,
    pub rto: Option<Spanned<RtoText>>,
    pub forget_on_timeout: Option<bool>,
    pub rescue: Option<bool>,
    pub dscp: Option<Word<Dscp>>,
    pub repeat: Repeat,
}

#[derive(Clone, Copy)]
pub struct GrowthText(pub sim::scenario::Growth);

impl Written for GrowthText {
    fn read(text: &str) -> Result<GrowthText, String> {
        match text {
            "reno" => Ok(GrowthText(sim::scenario::Growth::Reno)),
            "cubic" => Ok(GrowthText(sim::scenario::Growth::Cubic)),
            other => Err(format!("{other:?} is no growth of a window: reno or cubic")),
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtoText {
    pub initial: Option<Word<Span>>,
    pub floor: Option<Word<Span>>,
    pub ceiling: Option<Word<Span>>,
    pub tick: Option<Word<Span>>,
}

/// A timed event: a time, and exactly one action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtText {
    pub time: Word<Span>,
    pub link_down: Option<Spanned<String>>,
    pub link_up: Option<Spanned<String>>,
    pub impair: Option<Spanned<ImpairText>>,
    pub crash: Option<Spanned<String>>,
    pub restart: Option<Spanned<String>>,
    pub stop: Option<Spanned<String>>,
    pub node_down: Option<Spanned<String>>,
    pub node_up: Option<Spanned<String>>,
    pub partition: Option<Spanned<Vec<String>>>,
    pub heal: Option<bool>,
    pub clock_step: Option<Spanned<ClockStepText>>,
    pub fail_plane: Option<Spanned<FailPlaneText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpairText {
    pub link: String,
    /// The affected packets, `data` or `signalling`; both by default.
    pub of: Option<Word<Kinds>>,
    #[serde(default)]
    pub loss: f64,
    #[serde(default)]
    pub duplicate: f64,
    #[serde(default)]
    pub reorder: f64,
    pub late: Option<Word<Span>>,
}

/// A kind of packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    Data,
    Signalling,
}

impl Written for Kinds {
    fn read(text: &str) -> Result<Kinds, String> {
        match text {
            "data" => Ok(Kinds::Data),
            "signalling" => Ok(Kinds::Signalling),
            other => Err(format!("{other:?} is neither data nor signalling")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockStepText {
    pub node: String,
    /// The size and direction of the step: `5s`, `-5s`.
    pub by: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailPlaneText {
    pub node: String,
    pub batches: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepText {
    /// The number of independent runs of each point, with the file's seed and the following ones.
    pub seeds: Option<Spanned<u64>>,
    pub over: Option<Vec<Spanned<OverText>>>,
    /// A short form of `over` for the rate of a source with cbr.
    pub source: Option<Spanned<String>>,
    pub rates: Option<Vec<Spanned<String>>>,
    /// The values of the reservations' axis: without them, with them.
    pub reserve: Option<Vec<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverText {
    /// The path of a field in this file: `source.flood.cbr`, `link.yosemite-maui.rate`.
    pub field: Spanned<String>,
    pub values: Vec<Spanned<serde::de::IgnoredAny>>,
}
