//! Flows that never signalled in the agent (`docs/mace.md`): the engine, the part of the plane that recognises them, the list
//! of applications, and flows that are booked to be admitted in the same way.

pub(crate) mod booked;
pub mod config;
mod eyes;
mod show;
pub(crate) mod turn;

pub use config::MaceConfig;
pub(crate) use show::show;

use crate::start::seed;
use ::mace::rules::SharedTerms;
use ::mace::{ApplicationList, Config, Event, Mace};
use booked::BookedFlows;
use control::tc::SignalledFlow;
use eyes::{Eyes, PlaneEyes};
use linux::bpf::FlowRecogniser;
use linux::error::SystemError;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Rate, Span, Time, WatchedPorts};
use user_plane::recognition::WatchSpec;

/// The time between two looks for silent flows.
const LOOK: Span = Span::from_secs(1);
/// The kernel counts whole seconds: with so much more a refused flow is told again when the engine asks about it again.
const GRAIN: Span = Span::from_secs(2);

/// The engine and its eyes.
pub(crate) struct MaceHost {
    engine: Mace,
    eyes: Eyes,
    /// The interface, while it is there.
    oif: Option<IfIndex>,
    /// Traffic control's handles of the promoted flows.
    handles: BTreeMap<FlowKey, RHandle>,
    /// The plane's answers about flows that the engine has yet to hear.
    installed: VecDeque<(FlowKey, Result<(), Fault>)>,
    /// News of signalled reservations that the engine has yet to hear.
    signalled: VecDeque<SignalledFlow>,
    next_sample: Time,
    /// Flows that are booked.
    booked: BookedFlows,
}

impl MaceHost {
    /// Makes the engine, and loads the program of the kernel unless a plane in user space queues the packets.
    fn open(
        config: &MaceConfig,
        overhead: u32,
        list: ApplicationList,
        in_user_space: bool,
    ) -> Result<MaceHost, OpenFailed> {
        let key = || Ok::<_, SystemError>([seed()?, seed()?]);
        let shared = SharedTerms {
            allocated: Rate::ZERO,
            period: config.terms.period,
            window: config.terms.window,
            most_flows: config.terms.most_flows,
        };
        let engine = Config {
            shared,
            rule: config.terms.rule,
            shadow: config.terms.shadow.clone(),
            overhead,
            refused_for: config.terms.refused_for,
            look: LOOK,
            // Only those that were refused are candidates here: the plane counts the others.
            candidates: config.terms.candidates.min(8_192),
            key: key().map_err(OpenFailed::System)?,
        };
        let (key, quiet) = (key().map_err(OpenFailed::System)?, config.terms.refused_for + GRAIN);
        let (candidates, ports) = (config.terms.candidates, watched(&list));
        let eyes = if in_user_space {
            let candidates = u32::try_from(candidates).unwrap_or(u32::MAX);
            Eyes::Plane(PlaneEyes::new(WatchSpec { ports, candidates, quiet, key }))
        } else {
            let mut recogniser = FlowRecogniser::open(candidates, quiet, key).map_err(OpenFailed::Plane)?;
            recogniser.watch(&ports).map_err(OpenFailed::Plane)?;
            Eyes::Kernel(Box::new(recogniser))
        };
        let meaningless = Fault { what: "the rules of [mace] mean nothing", code: 0 };
        Ok(MaceHost {
            engine: Mace::new(engine, list).map_err(|_| OpenFailed::Plane(meaningless))?,
            eyes,
            oif: None,
            handles: BTreeMap::new(),
            installed: VecDeque::new(),
            signalled: VecDeque::new(),
            next_sample: Time::ZERO,
            booked: BookedFlows::default(),
        })
    }

    /// Keeps what the plane said about a flow until the engine's turn.
    pub(crate) fn promoted(&mut self, flow: FlowKey, result: Result<(), Fault>) {
        self.installed.push_back((flow, result));
    }

    /// Keeps what a signalled reservation does until the engine's turn.
    pub(crate) fn signalled(&mut self, news: SignalledFlow) {
        self.signalled.push_back(news);
    }

    /// When it has something to do by itself.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        if !self.installed.is_empty() || !self.signalled.is_empty() || self.booked.is_asked() {
            return Some(Time::ZERO);
        }
        let there = self.oif.map(|_| self.eyes.wake_at().map_or(self.next_sample, |ask| ask.min(self.next_sample)));
        there.into_iter().chain(self.engine.wake_at()).min()
    }
}

/// Why it could not be opened.
enum OpenFailed {
    System(SystemError),
    Plane(Fault),
}

/// The list of a file.
///
/// # Errors
/// A sentence about each of its mistakes; or the file cannot be read.
pub fn load(file: &Path) -> Result<ApplicationList, String> {
    let told = |error: io::Error| format!("{}: {error}", file.display());
    let length = fs::metadata(file).map_err(told)?.len();
    if length > ::mace::list::LONGEST_LIST as u64 {
        return Err(format!("{}: an application list is at most 1 MiB long", file.display()));
    }
    let text = fs::read_to_string(file).map_err(told)?;
    ApplicationList::parse(&text).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{}: {mistake}", file.display())).collect();
        lines.join("; ")
    })
}

fn watched(list: &ApplicationList) -> Vec<WatchedPorts> {
    let one = |application: &::mace::KnownApplication| WatchedPorts {
        protocol: application.protocol,
        ports: application.ports,
        threshold: application.threshold,
    };
    list.all().iter().map(one).collect()
}

/// A flow in words.
fn words(flow: &FlowKey) -> String {
    let protocol = if flow.protocol == 6 { "tcp" } else { "udp" };
    let end = |address, port| std::net::SocketAddr::new(address, port);
    format!("{protocol} {} -> {}", end(flow.src, flow.src_port), end(flow.dst, flow.dst_port))
}

/// An event in words: its name, and a sentence.
fn event_words(event: &Event) -> (&'static str, String) {
    match event {
        Event::Promoted { flow, application, declared } => {
            ("mace_promoted", format!("{}: {application}, {declared}", words(flow)))
        }
        Event::Refused { flow, application, declared, free, .. } => {
            ("mace_refused", format!("{}: {application} declares {declared}, free is {free}", words(flow)))
        }
        Event::Failed { flow, fault } => ("mace_failed", format!("{}: {fault}", words(flow))),
        Event::Demoted { flow, application, why } => {
            ("mace_demoted", format!("{}: {application}, {}", words(flow), reason(*why)))
        }
        Event::Adopted { flow, declared } => ("mace_adopted", format!("{}: {declared}", words(flow))),
        Event::Doubted { declared } => {
            ("mace_doubted", format!("a reading is not believed: {declared} count, as declared"))
        }
    }
}

fn reason(why: ::mace::io::Demotion) -> &'static str {
    match why {
        ::mace::io::Demotion::Silent => "silent for its timeout",
        ::mace::io::Demotion::Ended => "ended",
        ::mace::io::Demotion::Lost => "no longer in the plane, or reserved by somebody",
    }
}
