//! The agent's loop: wait, tell the node one thing, carry out everything that it says, and again.

use crate::alive::Alive;
use crate::auth;
use crate::book::Book;
use crate::book::sight::LocalPolicy;
use crate::boomerang::BoomerangHost;
use crate::config::AgentConfig;
use crate::enforce::Enforcers;
use crate::enforce::premium::PremiumMeter;
use crate::interfaces::{self, Interfaces};
use crate::local::Local;
use crate::log::{Level, Log};
use crate::look::LOOK_EVERY;
use crate::measure::FlowMeter;
use crate::mroutes::MulticastRoutes;
use crate::news::{self, Names};
use crate::noticed::Noticed;
use crate::remote::Remote;
use crate::sequences::Sequences;
use crate::signalling::Signalling;
use crate::speakers::Speakers;
use crate::start::{self, Sole, StartError, seed};
use crate::statics::{self, Statics};
use crate::trace::{Seen, Tracers};
use crate::turn::Turns;
use documents::agent::{Direction, ReplyLine};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::mount::unmount_below;
use linux::netlink::Socket;
use linux::netlink::notice::Notices;
use linux::notify::Supervisor;
use linux::plane::KernelPlane;
use linux::poll::{Poll, PollInterest, SignalFd, Token};
use linux::route::KernelRoutes;
use linux::sockets::{IntakeFilter, MessageReceiver, MessageSender, Outgoing, RsvpSockets};
use node::Node;
use node::io::{Event, Input, Output};
use rsvp::integrity::AuthMode;
use rsvp::io::Datagram;
use rsvp::overload::{Intake, Limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use terms::probe::Off;
use terms::{IfIndex, Time};
use traffic::plan::PlanOp;

pub(crate) const RSVP: Token = Token(0);
pub(crate) const NOTICES: Token = Token(1);
pub(crate) const SIGNALS: Token = Token(2);
pub(crate) const LOCAL: Token = Token(3);
pub(crate) const JOURNAL: Token = Token(4);
pub(crate) const ECHO: Token = Token(5);
pub(crate) const REMOTE: Token = Token(6);
pub(crate) const SEQUENCES: Token = Token(7);
pub(crate) const STATICS: Token = Token(8);
/// Connections are numbered from here; the numbers are the engine's application ids too.
const FIRST_CLIENT: u64 = 16;

/// The node of an agent.
pub(crate) type AgentNode = Node<KernelRoutes, Off, LocalPolicy>;

/// An agent that runs.
pub(crate) struct Agent {
    pub(crate) config: AgentConfig,
    pub(crate) clock: Clock,
    pub(crate) started: Time,
    pub(crate) node: AgentNode,
    pub(crate) plane: KernelPlane,
    pub(crate) meter: FlowMeter,
    pub(crate) interfaces: Interfaces,
    pub(crate) names: Names,
    pub(crate) unsent: u64,
    /// Interfaces that another program has taken over since we started.
    pub(crate) foreign: BTreeSet<IfIndex>,
    /// Counters and rates of RSVP messages, by interface and type.
    pub(crate) signalling: Signalling,
    /// Connections that trace messages.
    pub(crate) tracers: Tracers,
    /// Senders and reservations on behalf of others.
    pub(crate) statics: Statics,
    /// The caller on each connection.
    pub(crate) speakers: Speakers,
    /// Boomerang, where the configuration has it.
    pub(crate) echo: Option<BoomerangHost>,
    pub(crate) mroutes: MulticastRoutes,
    /// The signatures that each interface requires, by interface name.
    pub(crate) auth: BTreeMap<String, AuthMode>,
    /// The time of the next check that the kernel still has what we installed.
    pub(crate) look_at: Time,
    pub(crate) notices: Notices,
    /// Changes in the kernel that were noticed and not yet handled.
    pub(crate) noticed: Noticed,
    pub(crate) netlink: Socket,
    pub(crate) receiver: Option<MessageReceiver>,
    pub(crate) sender: Option<MessageSender>,
    /// The filter in front of the receive queue; `None` on a kernel without support for it.
    pub(crate) gate: Option<IntakeFilter>,
    /// Messages that were read and wait for the node.
    pub(crate) intake: Intake,
    pub(crate) signals: SignalFd,
    pub(crate) local: Local,
    /// Access for callers from other machines.
    pub(crate) remote: Option<Remote>,
    pub(crate) poll: Poll,
    /// Time limits for the work of a turn, and statistics of its duration.
    pub(crate) turns: Turns,
    /// Signs of life for the supervisor of this process.
    pub(crate) alive: Alive,
    pub(crate) log: Log,
    /// Answers that the node has yet to be told.
    answers: VecDeque<Input<'static>>,
    pub(crate) sequences: Sequences,
    pub(crate) book: Book,
    /// The use of premium flows.
    pub(crate) premium: PremiumMeter,
    pub(crate) stopping: bool,
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
    agent.alive = Alive::new(supervisor, agent.clock.now());
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
        let interfaces = interfaces::read(&mut netlink, &config)?;
        let auth = auth::load(&config).map_err(StartError::Keys)?;
        let statics = Statics::load(&config.state, &config.statics)?;
        poll.add(statics.notifier(), STATICS, PollInterest::Read)?;
        let plane = KernelPlane::open(&config.state).map_err(StartError::Plane)?;
        let (book, policy) = Book::open(&config)?;
        poll.add(book.desk.notifier(), JOURNAL, PollInterest::Read)?;
        poll.add(book.coordinators.notifier(), JOURNAL, PollInterest::Read)?;
        let sequences = Sequences::open(&config.state)?;
        poll.add(sequences.notifier(), SEQUENCES, PollInterest::Read)?;
        // Before the control socket is there: who finds it may send at once, and what comes early waits to be read.
        let RsvpSockets { receiver, sender } = RsvpSockets::open()?;
        poll.add(&receiver, RSVP, PollInterest::Read)?;
        let local = Local::listen(&config.socket, &mut poll, LOCAL, FIRST_CLIENT)?;
        Ok(Agent {
            started: clock.now(),
            node: node(&config)?.under(policy),
            meter: FlowMeter::default(),
            names: interfaces.iter().map(|(&index, state)| (index, state.name.clone())).collect(),
            log: Log::new(&config.name, config.log),
            answers: VecDeque::new(),
            sequences,
            gate: None,
            receiver: Some(receiver),
            sender: Some(sender),
            intake: Intake::new(Limits::default(), seed()?),
            unsent: 0,
            foreign: BTreeSet::new(),
            signalling: Signalling::default(),
            tracers: Tracers::default(),
            statics,
            speakers: Speakers::new(linux::process::group_id(&config.operators)),
            echo: None,
            mroutes: MulticastRoutes::default(),
            auth,
            look_at: clock.now() + LOOK_EVERY,
            book,
            premium: PremiumMeter::default(),
            stopping: false,
            _sole: sole,
            config,
            clock,
            plane,
            interfaces,
            notices,
            noticed: Noticed::default(),
            netlink,
            signals,
            local,
            remote: None,
            poll,
            turns: Turns::default(),
            alive: Alive::default(),
        })
    }

    /// Order: what the plane holds, then the interfaces, then the first message (DESIGN: adoption).
    fn begin(&mut self) -> Result<(), StartError> {
        self.open_gate();
        let found = self.plane.read().map_err(StartError::Plane)?;
        self.book.enforcers = Enforcers::open(&self.config)?;
        for (at, rules) in found.edges {
            self.tell(Input::FoundEdge { at, rules });
        }
        for (oif, link) in found.links {
            let wanted = self.interfaces.get(&oif).is_some_and(|state| state.link.is_some());
            for (class, spec) in link.classes.into_iter().filter(|_| wanted) {
                self.tell(Input::FoundClass { oif, class, spec });
            }
            for (flow, entry) in link.flows.into_iter().filter(|_| wanted) {
                self.tell(Input::Adopt { oif, flow, entry });
                self.keep_adopted(&flow);
            }
            if !wanted {
                self.give_back(oif);
            }
        }
        for state in self.interfaces.clone().into_values() {
            self.tell_interface(state);
        }
        self.renew_multicast_routes();
        self.begin_book();
        self.warn_of_roles();
        self.first_sequences();
        self.begin_echo()?;
        self.remote = self.config.listen.as_ref().map(Remote::open).transpose()?;
        if let Some(remote) = &self.remote {
            self.poll.add(remote.notifier(), REMOTE, PollInterest::Read)?;
        }
        self.tell_statics();
        self.flush();
        self.warn_of_private_mounts();
        let now = self.clock.now();
        let version = env!("CARGO_PKG_VERSION");
        let took = now.since(self.started).as_micros();
        let socket = self.config.socket.display();
        self.log.line(now, Level::Info, "started", &[("version", &version), ("socket", &socket), ("took_us", &took)]);
        Ok(())
    }

    /// An earlier agent had this interface; the configuration no longer names it.
    fn give_back(&mut self, oif: IfIndex) {
        let result = self.plane.apply(&[PlanOp::DropLink { oif }]);
        let name = self.names.get(&oif).cloned().unwrap_or_else(|| oif.0.to_string());
        match result {
            Ok(()) => self.announce(Level::Info, "given_back", &format!("{name}: no longer in the configuration")),
            Err(fault) => self.announce(Level::Error, "plane_fault", &format!("{name}: {fault}")),
        }
    }

    /// Gives everything back: interfaces, map, sockets.
    fn end(mut self) {
        self.end_echo();
        (self.receiver, self.sender) = (None, None); // before anything else: what is in transit goes on by itself again
        self.end_book();
        self.tell(Input::Stop);
        self.local.farewell();
        self.remote = None;
        let left = self.plane.read().map_or(1, |plan| plan.links.len());
        let Agent { config, plane, mut log, clock, .. } = self;
        drop(plane);
        // What could not be given back stays pinned, so that the next agent finds it.
        let unmounted = if left == 0 { unmount_below(&config.state) } else { Ok(()) };
        if let Err(failed) = unmounted {
            log.line(clock.now(), Level::Error, "not_unmounted", &[("text", &failed)]);
        }
        log.line(clock.now(), Level::Info, "stopped", &[("interfaces_left", &left)]);
    }

    /// Tells the node one thing and carries out its outputs, and theirs in turn.
    pub(crate) fn tell(&mut self, input: Input<'_>) {
        self.node.handle(self.clock.now(), input);
        self.after();
    }

    /// Tells the node one of several things that came together, and carries out its outputs. [`Agent::end_turn`]
    /// follows the last.
    pub(crate) fn tell_in_turn(&mut self, input: Input<'_>) {
        self.node.handle_in_turn(self.clock.now(), input);
        self.drain();
    }

    /// Carries out the batch that came of all that was told together, and the node's other outputs.
    pub(crate) fn end_turn(&mut self) {
        self.node.end_turn(self.clock.now());
        self.after();
    }

    /// Carries out the node's outputs, and theirs in turn.
    pub(crate) fn after(&mut self) {
        self.drain();
        self.settle();
    }

    /// Tells the node what followed from what it said, until nothing more does.
    pub(crate) fn settle(&mut self) {
        while let Some(answer) = self.answers.pop_front() {
            self.node.handle(self.clock.now(), answer);
            self.drain();
        }
    }

    /// Keeps an answer for the node until it has no more to say.
    pub(crate) fn answer_node(&mut self, answer: Input<'static>) {
        self.answers.push_back(answer);
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.node.poll() {
            self.output(output);
        }
    }

    /// Carries out one output of the node.
    pub(crate) fn output(&mut self, output: Output) {
        match output {
            Output::Send(datagram) => self.send(&datagram),
            Output::Plan { id, ops } => {
                let result = self.plane.apply(&ops);
                self.answer_node(Input::PlanDone { id, result });
            }
            Output::Trust(interfaces) => {
                let result = self.plane.believe(&interfaces);
                self.answer_node(Input::Trusted(result));
            }
            Output::Append(batch) => self.write(batch),
            Output::Order(order) => self.carry_out(&order),
            Output::Reply { id, reply } => self.reply_book(id, reply),
            Output::AskDecision(question) => self.book.coordinators.ask(question),
            Output::Contradicted(what) => {
                self.announce(Level::Error, "contradicted", &crate::book::coordinators::contradicted(&what))
            }
            Output::Corrupt { table, key, what } => self.say_corrupt(table, &key, what),
            Output::Event(Event::Booking(event)) => self.tell_followers(event),
            Output::Boomerang(said) => self.echo_said(said),
            Output::Upcall { app, upcall } => {
                let at_ns = self.clock.now().as_nanos();
                let event = news::upcall(upcall);
                if let Some(number) = statics::number(app) {
                    return self.statics.hear(number, &event);
                }
                self.local.say(app.0, &ReplyLine::Event { at_ns, event }, &mut self.poll);
            }
            Output::Event(event) => {
                self.keep_reserved(&event);
                self.forget_ended(&event);
                // A flood of news that nobody reads is not put into words.
                if news::is_routine(&event)
                    && !self.log.has_room_for(self.clock.now(), Level::Info)
                    && !self.local.is_watched()
                {
                    return;
                }
                let news = news::news(&event, &self.names);
                self.announce(news.level, news.name, &news.text);
            }
            Output::ReserveSequences { upto } => self.sequences.ask(upto),
        }
    }

    fn send(&mut self, datagram: &Datagram) {
        let Datagram { oif, src, dst, ttl, router_alert, ref bytes } = *datagram;
        if self.sender.is_none() {
            return;
        }
        let seen = Seen { direction: Direction::Out, interface: oif, src, dst, ttl, router_alert: Some(router_alert) };
        self.see(&seen, bytes);
        let Some(sender) = &mut self.sender else { return };
        let (unsent, log, clock) = (&mut self.unsent, &mut self.log, &self.clock);
        sender.push(&Outgoing { oif, src, dst, ttl, router_alert, bytes }, |failed| {
            not_sent(unsent, log, clock, &failed)
        });
    }

    /// Hands the waiting packets to the kernel.
    pub(crate) fn flush(&mut self) {
        let Some(sender) = &mut self.sender else { return };
        let (unsent, log, clock) = (&mut self.unsent, &mut self.log, &self.clock);
        sender.flush(|failed| not_sent(unsent, log, clock, &failed));
    }

    pub(crate) fn signal(&mut self) {
        while let Some(signal) = self.signals.take_next() {
            match signal {
                // Keys alone: the rest of a configuration is read at start. How it went is announced.
                SIGHUP => {
                    let _ = self.reload_keys();
                    self.reload_policy();
                    self.remote.iter().for_each(Remote::renew);
                }
                _ => self.stopping = true,
            }
        }
    }
}

/// A message that cannot be sent counts as lost on the wire; the next refresh repeats it.
pub(crate) fn not_sent(unsent: &mut u64, log: &mut Log, clock: &Clock, failed: &SystemError) {
    *unsent += 1;
    log.line(clock.now(), Level::Warn, "not_sent", &[("text", failed)]);
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
