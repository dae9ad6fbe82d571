//! Boomerang in the agent: eBPF programs at ingress (`linux::boomerang`) catch messages and hand over those
//! that they do not decide themselves. The node decides, and the messages go out as whole packets.
//!
//! A session that an application reserves belongs to the agent: it outlives the connection unless the
//! application asked otherwise.

pub mod calls;
pub mod config;
pub(crate) mod fast;
pub mod news;
mod show;
mod theirs;

use crate::agent::{Agent, ECHO, not_sent};
use crate::log::Level;
use crate::start::{StartError, seed};
use boomerang::io::Gather;
use boomerang::{AppId, Output};
use documents::agent::{Direction, EventDoc, ReplyLine};
use linux::boomerang::{FastPath, ProgramRules, rows_for};
use linux::clock;
use linux::poll::PollInterest;
use node::io::{Input, Output as NodeOutput};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use terms::{Bytes, Fault, IfIndex};
use wire::boomerang::{Family, Selector};

/// The most messages that are taken before other work has its turn.
const MOST_TAKEN: usize = 256;
/// The longest time until messages are read: the agent looks around every 5 s.
const READ_WITHIN: terms::Span = terms::Span::from_secs(6);
/// The most sessions of applications.
const MOST_SESSIONS: usize = 65_536;

/// Boomerang's part of the agent.
pub(crate) struct BoomerangHost {
    path: FastPath,
    /// Sessions that the program admits by itself.
    fast: fast::Fast,
    /// Interfaces with the programs attached.
    hanging: BTreeSet<IfIndex>,
    /// The application behind each session.
    owners: BTreeMap<AppId, Owner>,
    /// The number of the last session.
    last: u64,
    /// Connections that see every message.
    pub(crate) tracers: BTreeSet<u64>,
    /// The message that the node was told, with the node's changes.
    told: Vec<u8>,
    /// The counters of the kernel table's sessions at the last query.
    meter: crate::measure::FlowMeter,
}

/// The application behind a session, and whether the session ends with its connection.
#[derive(Clone, Copy, Debug)]
struct Owner {
    client: Option<u64>,
    bound: bool,
}

impl BoomerangHost {
    /// Loads the programs, or adopts those of an earlier agent.
    pub(crate) fn open(
        config: &config::BoomerangConfig,
        state: &std::path::Path,
        seed: [u64; 2],
    ) -> Result<BoomerangHost, Fault> {
        let path = FastPath::open(state, rows_for(config.fast_sessions), seed)?;
        path.set_rules(&ProgramRules {
            most_refresh: config.most_refresh,
            burst: config.burst,
            burst_least: Bytes::new(config.least_burst.into()),
            min_unit: boomerang::Config::default().min_packet,
            per_source: config.per_source,
            offset: terms::Span::from_nanos(clock::slept()),
        });
        Ok(BoomerangHost {
            path,
            fast: fast::Fast::default(),
            hanging: BTreeSet::new(),
            owners: BTreeMap::new(),
            last: 0,
            tracers: BTreeSet::new(),
            told: Vec::new(),
            meter: crate::measure::FlowMeter::default(),
        })
    }

    /// The descriptor that becomes readable when there are messages.
    pub(crate) fn ring(&self) -> std::os::fd::BorrowedFd<'_> {
        self.path.ring()
    }

    /// Tells the programs that the agent will read again in time.
    pub(crate) fn is_alive(&self, clock: &linux::clock::Clock) {
        self.path.set_slept(terms::Span::from_nanos(clock::slept()));
        self.path.reads_until(clock.boot_nanos(clock.now() + READ_WITHIN));
    }

    /// Attaches the programs to an interface, or detaches them.
    fn hang(&mut self, interface: IfIndex, on: bool, fast: bool) -> Result<(), Fault> {
        if on == self.hanging.contains(&interface) {
            return Ok(());
        }
        if on {
            if self.path.hanging(interface).is_none() {
                self.attach(interface, fast)?;
            }
            self.path.listen(interface, true)?;
            self.hanging.insert(interface);
        } else {
            self.hanging.remove(&interface);
            self.path.listen(interface, false)?;
            self.path.detach(interface)?;
        }
        Ok(())
    }
}

/// The configuration of the node's engine.
pub(crate) fn engine(config: &config::BoomerangConfig, names: &crate::news::Names) -> boomerang::Config {
    let gather = config.gather.iter().filter_map(|gather| {
        let oif = names.iter().find(|(_, name)| **name == gather.interface).map(|(index, _)| *index)?;
        let family = Family::of(gather.to);
        let exact = Selector::exact(family);
        let mask = Selector { src: exact.src, dst: exact.dst, src_port: 0, dst_port: 0, ..exact };
        let any = boomerang_any(gather.to);
        let mask = Selector { src: any, protocol: u8::MAX, ..mask };
        let classifier =
            Selector { src: any, dst: gather.to, src_port: 0, dst_port: 0, protocol: 17, tos: 0, flags: 0 };
        Some(Gather { classifier, mask, rate: gather.rate, oif })
    });
    boomerang::Config {
        replies: config.replies,
        keys: config.keys.clone(),
        require_auth: config.require_auth,
        lock: config.lock,
        most_refresh: config.most_refresh,
        most_sessions: config.max_sessions,
        most_masks: config.max_masks,
        most_asked: MOST_SESSIONS,
        per_source: config.per_source,
        burst: config.burst,
        least_burst: config.least_burst,
        gather: gather.collect(),
        ..boomerang::Config::default()
    }
}

/// The wildcard address of the same family.
fn boomerang_any(like: std::net::IpAddr) -> std::net::IpAddr {
    if like.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}

impl Agent {
    /// Loads and attaches Boomerang's programs, after everything in the plane is known.
    pub(crate) fn begin_echo(&mut self) -> Result<(), StartError> {
        let Some(config) = &self.config.boomerang else { return Ok(()) };
        let mut echo =
            BoomerangHost::open(config, &self.config.state, [seed()?, seed()?]).map_err(StartError::Plane)?;
        self.poll.add(&echo.ring(), ECHO, PollInterest::Read)?;
        echo.fast.found(echo.path.marked());
        let (rows, wanted) = (echo.path.rows(), rows_for(config.fast_sessions));
        self.echo = Some(echo);
        if rows != wanted {
            let says = format!(
                "the kernel's table keeps its {rows} rows for the sessions in it, not {wanted} as fast_sessions says"
            );
            self.announce(Level::Info, "boomerang_fast_path", &says);
        }
        self.renew_echo();
        Ok(())
    }

    /// Keeps a whole packet for the next [`Agent::flush`].
    fn give_packet(&mut self, oif: IfIndex, dst: std::net::IpAddr, packet: &[u8]) {
        let Some(sender) = &mut self.sender else { return };
        let (unsent, log, clock) = (&mut self.unsent, &mut self.log, &self.clock);
        sender.push_packet(oif, dst, packet, |failed| not_sent(unsent, log, clock, &failed));
    }

    /// Attaches the programs to every interface of the configuration.
    pub(crate) fn renew_echo(&mut self) {
        let Some(config) = self.config.boomerang.clone() else { return };
        self.node.configure_boomerang(engine(&config, &self.names));
        let there: BTreeSet<IfIndex> = self.interfaces.values().filter(|i| i.rsvp).map(|i| i.index).collect();
        let Some(echo) = &mut self.echo else { return };
        let gone: Vec<IfIndex> = echo.hanging.difference(&there).copied().collect();
        let mut faults = Vec::new();
        for (interface, on) in gone.into_iter().map(|i| (i, false)).chain(there.into_iter().map(|i| (i, true))) {
            if let Err(fault) = echo.hang(interface, on, config::against(&config).is_none()) {
                faults.push((interface, fault));
            }
        }
        for (interface, fault) in faults {
            let name = self.names.get(&interface).cloned().unwrap_or_default();
            self.announce(Level::Error, "boomerang_fault", &format!("{name}: {fault}"));
        }
        self.renew_fast();
    }

    /// Handles the messages that the programs have handed over.
    pub(crate) fn take_echoes(&mut self) {
        for _ in 0..MOST_TAKEN {
            let Some(told) = self.echo.as_mut().and_then(|echo| echo.path.next_told()) else { return };
            if !self.again(&told) {
                self.tell_echo(told.iif, told.packet);
            }
        }
    }

    fn tell_echo(&mut self, iif: IfIndex, mut packet: Vec<u8>) {
        let before = (!self.echo_tracers().is_empty()).then(|| packet.clone());
        let half = self.take_over(iif, &packet);
        self.node.handle(self.clock.now(), Input::Echo { iif: Some(iif), packet: &mut packet });
        if let Some(echo) = &mut self.echo {
            echo.told = packet;
        }
        let became = self.after_echo();
        if let Some(half) = half {
            self.keep_apart(half);
        }
        if let Some(before) = before {
            self.trace_echo(Direction::In, Some(iif), &before, became);
        }
        self.settle();
        // What the engine has just given back the program must not refuse.
        self.tell_room();
    }

    /// Carries out the node's outputs, and returns the fate of the packet that the node was just told.
    fn after_echo(&mut self) -> Option<String> {
        let mut became = None;
        while let Some(output) = self.node.poll() {
            if let NodeOutput::Boomerang(said) = &output {
                became = became.or(match said {
                    Output::Pass { .. } => Some("passed".to_owned()),
                    Output::Deliver => Some("not ours".to_owned()),
                    Output::Dropped(why) => Some(words(*why).to_owned()),
                    _ => None,
                });
            }
            self.output(output);
        }
        became
    }

    /// Carries out an output of Boomerang's engine.
    pub(crate) fn echo_said(&mut self, said: Output) {
        match said {
            Output::Pass { oif, .. } => {
                let packet = self.echo.as_mut().map(|echo| std::mem::take(&mut echo.told)).unwrap_or_default();
                self.send_echo(oif, &packet);
            }
            Output::Send { oif, packet, .. } => self.send_echo(oif, &packet),
            Output::Upcall { app, upcall } => self.echo_upcall(app, upcall),
            // A reply to a ping with our magic that no session of ours sent: whoever did must do without.
            Output::Deliver | Output::Dropped(_) | Output::Event(_) => {}
        }
    }

    fn send_echo(&mut self, oif: IfIndex, packet: &[u8]) {
        let Ok(header) = wire::ip::Packet::parse(packet) else { return };
        self.trace_echo(Direction::Out, Some(oif), packet, None);
        self.give_packet(oif, header.dst(), packet);
    }

    fn echo_upcall(&mut self, app: AppId, upcall: boomerang::BoomerangUpcall) {
        let at_ns = self.clock.now().as_nanos();
        let Some(echo) = &mut self.echo else { return };
        let owner = echo.owners.get(&app).copied();
        if ends(&upcall) {
            echo.owners.remove(&app);
            self.speakers.signalled.gone(booking::policy::SignalKey::Boomerang(app.0));
        }
        let event = EventDoc::Boomerang { number: app.0, news: calls::news(upcall) };
        if let Some(client) = owner.and_then(|owner| owner.client) {
            self.local.say(client, &ReplyLine::Event { at_ns, event }, &mut self.poll);
        }
    }

    /// Gives back the sessions that end with a connection.
    pub(crate) fn echo_client_gone(&mut self, client: u64) {
        let Some(echo) = &mut self.echo else { return };
        echo.tracers.remove(&client);
        let mut over = Vec::new();
        for (app, owner) in echo.owners.iter_mut().filter(|(_, owner)| owner.client == Some(client)) {
            owner.client = None;
            if owner.bound {
                over.push(*app);
            }
        }
        for app in over {
            self.tell(Input::Boomerang(boomerang::ApplicationCall::Release { app }));
        }
    }

    /// Gives back the sessions of this node's applications, and detaches the programs from all interfaces.
    pub(crate) fn end_echo(&mut self) {
        self.end_fast();
        let apps: Vec<AppId> = self.node.boomerang().sessions().map(|session| session.app).collect();
        for app in apps {
            self.tell(Input::Boomerang(boomerang::ApplicationCall::Release { app }));
        }
        self.flush();
        let Some(echo) = &mut self.echo else { return };
        for interface in echo.hanging.clone() {
            // What cannot be taken away now stays pinned, and the next agent finds it.
            let _left = echo.hang(interface, false, false);
        }
        self.echo = None;
    }

    fn echo_tracers(&self) -> Vec<u64> {
        self.echo.as_ref().map(|echo| echo.tracers.iter().copied().collect()).unwrap_or_default()
    }

    fn trace_echo(&mut self, direction: Direction, interface: Option<IfIndex>, packet: &[u8], became: Option<String>) {
        let tracers = self.echo_tracers();
        if tracers.is_empty() {
            return;
        }
        let mut bytes = String::with_capacity(2 * packet.len());
        packet.iter().for_each(|octet| _ = write!(bytes, "{octet:02x}"));
        let interface = interface.map(|index| self.names.get(&index).cloned().unwrap_or_else(|| index.0.to_string()));
        let event = EventDoc::Echo { direction, interface, bytes, became };
        let line = ReplyLine::Event { at_ns: self.clock.now().as_nanos(), event };
        for client in tracers {
            self.local.say(client, &line, &mut self.poll);
        }
    }
}

/// True if the session gets no more events.
fn ends(upcall: &boomerang::BoomerangUpcall) -> bool {
    use boomerang::BoomerangUpcall as U;
    match upcall {
        U::Refused { kept, .. } => kept.is_zero(),
        U::Silent { over, .. } => *over,
        U::NoRoute | U::Released => true,
        U::Reserved { .. } | U::HopMismatch { .. } => false,
    }
}

/// The reason for which a message was dropped, in words.
fn words(why: boomerang::FailureReason) -> &'static str {
    use boomerang::FailureReason as W;
    match why {
        W::Ttl => "its time to live is over",
        W::NoRoute => "no way to its destination",
        W::Address => "an address that is nobody's",
        W::TooMany => "its source says too much",
        W::NoEcho => "nobody must answer",
        W::GroupReverse => "a group reserves nothing in reverse",
        W::WrongWay => "not from where its sender is",
        W::Heard => "heard",
        W::Unanswered => "heard, and not answered",
    }
}
