//! The agent's loop: wait, tell the node one thing, carry out everything that it says, and again.

mod answer;
mod changes;
mod door;
mod turn;

use crate::alive::{Alive, Done};
use crate::auth;
use crate::book::Book;
use crate::boomerang::turn::BoomerangTurn;
use crate::config::AgentConfig;
use crate::console::Console;
use crate::drive::Drive;
use crate::enforce::Enforcers;
use crate::enforce::premium::PremiumMeter;
use crate::examination::Examination;
use crate::interfaces;
use crate::local::Local;
use crate::log::{Level, Log};
use crate::mace::turn::MaceTurn;
use crate::measure::FlowMeter;
use crate::messages::Messages;
use crate::mroutes::MulticastRoutes;
use crate::news::{self, name_of};
use crate::noticed::Noticed;
use crate::planes::Planes;
use crate::receiver_proxy::ReceiverProxy;
use crate::remote::Remote;
use crate::sequences::{Reserved, Sequences};
use crate::speakers::Speakers;
use crate::start::{self, Sole, StartError, seed};
use crate::statics::Statics;
use crate::statics::turn::StaticsTurn;
use crate::turns::Turns;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::mount::unmount_below;
use linux::netlink::Socket;
use linux::netlink::notice::Notices;
use linux::notify::Supervisor;
use linux::poll::{Poll, PollInterest, SignalFd, Token};
use linux::route::KernelRoutes;
use linux::sockets::{MessageReceiver, RsvpSockets};
use node::Node;
use node::io::Input;
use rsvp::overload::{Intake, Limits};
use std::collections::{BTreeSet, VecDeque};
use terms::{IfIndex, Time};
use traffic::plan::PlanOp;

const RSVP: Token = Token(0);
const NOTICES: Token = Token(1);
const SIGNALS: Token = Token(2);
const LOCAL: Token = Token(3);
const JOURNAL: Token = Token(4);
const ECHO: Token = Token(5);
const REMOTE: Token = Token(6);
const SEQUENCES: Token = Token(7);
const STATICS: Token = Token(8);
const MACE: Token = Token(9);
/// Connections are numbered from here; the numbers are the engine's application ids too.
const FIRST_CLIENT: u64 = 16;

/// An agent that runs: its loop, and what the loop looks at beside the node.
pub(crate) struct Agent {
    /// The node, and what carries out its outputs.
    pub(crate) drive: Drive,
    started: Time,
    /// Interfaces that another program has taken over since we started.
    foreign: BTreeSet<IfIndex>,
    mroutes: MulticastRoutes,
    notices: Notices,
    /// Changes in the kernel that were noticed and not yet handled.
    noticed: Noticed,
    receiver: Option<MessageReceiver>,
    /// Messages that were read and wait for the node.
    intake: Intake,
    signals: SignalFd,
    /// Access for callers from other machines.
    remote: Option<Remote>,
    /// Time limits for the work of a turn, and statistics of its duration.
    turns: Turns,
    /// The features that this machine has and lacks.
    examination: Examination,
    /// Signs of life for the supervisor of this process.
    alive: Alive,
    stopping: bool,
    _sole: Sole,
}

/// Runs an agent until it is told to stop.
///
/// # Errors
/// It could not start ([`StartError`]), or the kernel broke under it.
pub fn run(config: AgentConfig) -> Result<(), StartError> {
    run_supervised(config, Supervisor::default())
}

/// The same with a supervisor, which learns that the agent serves, that it is alive, and that it is about to
/// end.
///
/// # Errors
/// As [`run`].
pub fn run_supervised(config: AgentConfig, supervisor: Supervisor) -> Result<(), StartError> {
    linux::process::give_large_memory_back();
    let signals = SignalFd::take(&[SIGTERM, SIGINT, SIGHUP])?;
    let sole = start::check(&config)?;
    let mut agent = Agent::open(config, signals, sole)?;
    agent.begin()?;
    agent.alive = Alive::new(supervisor, agent.drive.clock.now());
    agent.alive.ready();
    while !agent.stopping {
        agent.turn()?;
        agent.sign_of_life();
    }
    agent.alive.stopping();
    agent.end();
    Ok(())
}

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

impl Agent {
    fn open(config: AgentConfig, signals: SignalFd, sole: Sole) -> Result<Agent, StartError> {
        let clock = Clock::start();
        let mut poll = Poll::new(clock)?;
        let mut netlink = Socket::open()?;
        let notices = Notices::open()?; // before the first look, so that no change falls between
        poll.add(&notices, NOTICES, PollInterest::Read)?;
        poll.add(&signals, SIGNALS, PollInterest::Read)?;
        let mut plane = Planes::open(&config)?;
        let interfaces = interfaces::read(&mut netlink, &config, &mut plane)?;
        let auth = auth::load(&config).map_err(StartError::Keys)?;
        let statics = Statics::load(&config.state, &config.statics)?;
        poll.add(statics.notifier(), STATICS, PollInterest::Read)?;
        let (book, policy) = Book::open(&config)?;
        poll.add(book.desk.notifier(), JOURNAL, PollInterest::Read)?;
        poll.add(book.coordinators.notifier(), JOURNAL, PollInterest::Read)?;
        let sequences = Sequences::open(&config.state)?;
        poll.add(sequences.notifier(), SEQUENCES, PollInterest::Read)?;
        // Before the control socket is there: who finds it may send at once, and what comes early waits to be read.
        let RsvpSockets { receiver, sender } = RsvpSockets::open()?;
        poll.add(&receiver, RSVP, PollInterest::Read)?;
        let local = Local::listen(&config.socket, &mut poll, LOCAL, FIRST_CLIENT)?;
        let log = Log::new(&config.name, config.log);
        let drive = Drive {
            node: node(&config)?.under(policy),
            names: interfaces.iter().map(|(&index, state)| (index, state.name.clone())).collect(),
            console: Console::new(clock, log, local, poll),
            messages: Messages::new(sender),
            speakers: Speakers::new(linux::process::group_id(&config.operators)).believing(config.broker_user),
            receiver_proxy: ReceiverProxy::new(&config.receiver_proxies),
            config,
            clock,
            plane,
            netlink,
            interfaces,
            auth,
            statics,
            echo: None,
            mace: None,
            sequences,
            book,
            premium: PremiumMeter::default(),
            meter: FlowMeter::default(),
            answers: VecDeque::new(),
        };
        Ok(Agent {
            drive,
            started: clock.now(),
            foreign: BTreeSet::new(),
            mroutes: MulticastRoutes::default(),
            notices,
            noticed: Noticed::new(clock.now()),
            receiver: Some(receiver),
            intake: Intake::new(Limits::default(), seed()?),
            signals,
            remote: None,
            turns: Turns::default(),
            examination: Examination::default(),
            alive: Alive::default(),
            stopping: false,
            _sole: sole,
        })
    }

    /// Order: what the plane holds, then the interfaces, then the first message (DESIGN: adoption).
    fn begin(&mut self) -> Result<(), StartError> {
        let Agent { drive, receiver, .. } = self;
        if let Some(receiver) = receiver {
            drive.messages.open_filter(receiver, &mut drive.console);
        }
        let found = drive.plane.read().map_err(StartError::Plane)?;
        drive.book.enforcers = Enforcers::open(&drive.config)?;
        for (at, rules) in found.edges {
            drive.tell(Input::FoundEdge { at, rules });
        }
        for (oif, link) in found.links {
            let wanted = drive.interfaces.get(&oif).is_some_and(|state| state.link.is_some());
            for (class, spec) in link.classes.into_iter().filter(|_| wanted) {
                drive.tell(Input::FoundClass { oif, class, spec });
            }
            for (flow, entry) in link.flows.into_iter().filter(|_| wanted) {
                drive.tell(Input::Adopt { oif, flow, entry });
                drive.keep_adopted(&flow);
            }
            if !wanted {
                give_back(drive, oif);
            }
        }
        for state in drive.interfaces.clone().into_values() {
            drive.tell_interface(state);
        }
        self.renew_multicast_routes();
        self.drive.begin_book();
        self.drive.warn_of_roles();
        let first = self.drive.sequences.first();
        self.tell_sequences(first);
        BoomerangTurn(&mut self.drive).begin(ECHO)?;
        MaceTurn::of(&mut self.drive).begin(MACE)?;
        self.remote = self.drive.config.listen.as_ref().map(Remote::open).transpose()?;
        if let Some(remote) = &self.remote {
            self.drive.console.wake_for(remote.notifier(), REMOTE)?;
        }
        StaticsTurn(&mut self.drive).tell_all();
        let Drive { messages, console, config, clock, plane, .. } = &mut self.drive;
        messages.flush(console);
        if let Some((level, text)) = plane.room(config) {
            console.announce(level, "max_flows", &text);
        }
        if let Some(text) = news::private_mounts(&config.state) {
            console.announce(Level::Warn, "private_mounts", &text);
        }
        let version = env!("CARGO_PKG_VERSION");
        let took = clock.now().since(self.started).as_micros();
        let socket = config.socket.display();
        console.line(Level::Info, "started", &[("version", &version), ("socket", &socket), ("took_us", &took)]);
        Ok(())
    }

    /// Gives everything back: interfaces, map, sockets.
    fn end(mut self) {
        let drive = &mut self.drive;
        BoomerangTurn(drive).end();
        self.receiver = None; // before anything else: what is in transit goes on by itself again
        drive.messages.close();
        drive.end_book();
        drive.tell(Input::Stop);
        drive.console.farewell();
        self.remote = None;
        let left = drive.plane.read().map_or(1, |plan| plan.links.len());
        let Drive { config, plane, mut console, .. } = self.drive;
        drop(plane);
        // What could not be given back stays pinned, so that the next agent finds it.
        let unmounted = if left == 0 { unmount_below(&config.state) } else { Ok(()) };
        if let Err(failed) = unmounted {
            console.line(Level::Error, "not_unmounted", &[("text", &failed)]);
        }
        console.line(Level::Info, "stopped", &[("interfaces_left", &left)]);
    }

    /// The interfaces that another program has taken over since the start.
    pub(crate) fn foreign(&self) -> &BTreeSet<IfIndex> {
        &self.foreign
    }

    /// The messages that were read and wait for the node.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The number of messages that the kernel dropped because its receive queue was full.
    pub(crate) fn dropped_by_kernel(&self) -> u64 {
        self.receiver.as_ref().map_or(0, MessageReceiver::dropped)
    }

    /// The features that this machine has and lacks.
    pub(crate) fn examination(&mut self) -> documents::overview::DoctorDoc {
        let now = self.drive.clock.now();
        self.examination.answer(&self.drive.config, now)
    }

    /// How long the turns took.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Tells the node the numbers that the disk has, and that it failed to keep some.
    pub(crate) fn tell_sequences(&mut self, answers: Vec<Reserved>) {
        for answer in answers {
            match answer {
                Ok((from, upto)) => self.drive.tell(Input::SequencesReserved { from, upto }),
                Err(error) => {
                    let path = self.drive.config.state.join("sequences");
                    let text = format!("{} cannot be written: {error}; it is tried again", path.display());
                    self.drive.console.announce(Level::Error, "sequences", &text);
                    self.drive.tell(Input::SequencesFailed);
                }
            }
        }
    }

    /// Gives the supervisor a sign if one is due and the threads do their work.
    fn sign_of_life(&mut self) {
        let (journal, sequences) = (self.drive.book.desk.pulse(), self.drive.sequences.done());
        let front = self.remote.as_ref().map_or(Done::NONE, Remote::pulse);
        if let Some(text) = self.alive.sign(self.drive.clock.now(), journal, sequences, front) {
            self.drive.console.announce(Level::Error, "stuck", &text);
        }
    }

    pub(crate) fn signal(&mut self) {
        while let Some(signal) = self.signals.take_next() {
            match signal {
                // Keys alone: the rest of a configuration is read at start. How it went is announced.
                SIGHUP => {
                    let _ = self.drive.reload_keys();
                    self.drive.reload_policy();
                    MaceTurn::of(&mut self.drive).reload();
                    self.remote.iter().for_each(Remote::renew);
                }
                _ => self.stopping = true,
            }
        }
    }
}

/// An earlier agent had this interface; the configuration no longer names it.
fn give_back(drive: &mut Drive, oif: IfIndex) {
    let result = drive.plane.apply(drive.clock.now(), &[PlanOp::DropLink { oif }]);
    let name = name_of(oif, &drive.names);
    match result {
        Ok(()) => {
            drive.console.announce(Level::Info, "given_back", &format!("{name}: no longer in the configuration"));
        }
        Err(fault) => drive.console.announce(Level::Error, "plane_fault", &format!("{name}: {fault}")),
    }
}

/// The engines, with every secret and every key of a table from the kernel's random source.
fn node(config: &AgentConfig) -> Result<Node<KernelRoutes>, StartError> {
    let rsvp = rsvp::io::Config { node_name: config.name.clone(), ..config.rsvp.clone() };
    let config = node::Config { rsvp, seed: seed()?, ..node::Config::default() };
    let mut failed = None;
    let mut word = || {
        seed().unwrap_or_else(|error| {
            failed = Some(error);
            0
        })
    };
    let node = Node::new(config, KernelRoutes::open()?).keyed(&mut word);
    failed.map_or(Ok(node), |error: SystemError| Err(error.into()))
}
