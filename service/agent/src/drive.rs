//! The node and what carries out its outputs: tell it one thing, do everything that it says, and again.
//!
//! Each part keeps its own fields; an output goes to the part that it is for. What other rooms do with several parts at
//! once is a procedure that borrows the drive: `StaticsTurn`, `BoomerangTurn`, `SignalTurn`, and the calls of the
//! bookings in [`crate::book`].

use crate::book::Book;
use crate::book::coordinators::contradicted;
use crate::book::sight::LocalPolicy;
use crate::boomerang::BoomerangHost;
use crate::config::AgentConfig;
use crate::console::Console;
use crate::enforce::premium::PremiumMeter;
use crate::interfaces::Interfaces;
use crate::log::Level;
use crate::mace::MaceHost;
use crate::measure::FlowMeter;
use crate::messages::Messages;
use crate::news::{self, Names};
use crate::planes::Planes;
use crate::receiver_proxy::{self, ProxyCall, ReceiverProxy};
use crate::sequences::Sequences;
use crate::speakers::Speakers;
use crate::statics::{self, Statics};
use booking::policy::SignalKey;
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::route::KernelRoutes;
use node::Node;
use node::io::{AppCall, ControlEvent, Event, Input, Output};
use rsvp::integrity::AuthMode;
use rsvp::io::Event as Rsvp;
use std::collections::{BTreeMap, VecDeque};
use terms::probe::Off;
use terms::{FlowKey, Rate, Session, Style};

/// The node of an agent.
pub(crate) type AgentNode = Node<KernelRoutes, Off, LocalPolicy>;

/// The node, and the parts that carry out what it says.
pub(crate) struct Drive {
    pub(crate) config: AgentConfig,
    pub(crate) clock: Clock,
    pub(crate) node: AgentNode,
    pub(crate) plane: Planes,
    pub(crate) netlink: Socket,
    /// Log, connections and poll.
    pub(crate) console: Console,
    /// The way of packets.
    pub(crate) messages: Messages,
    pub(crate) interfaces: Interfaces,
    pub(crate) names: Names,
    /// The signatures that each interface requires, by interface name.
    pub(crate) auth: BTreeMap<String, AuthMode>,
    /// The caller on each connection.
    pub(crate) speakers: Speakers,
    /// Senders and reservations on behalf of others.
    pub(crate) statics: Statics,
    /// Reservations for receivers here that do not signal.
    pub(crate) receiver_proxy: ReceiverProxy,
    /// Boomerang, where the configuration has it.
    pub(crate) echo: Option<BoomerangHost>,
    /// Flows that never signalled, where the configuration has them.
    pub(crate) mace: Option<MaceHost>,
    pub(crate) sequences: Sequences,
    pub(crate) book: Book,
    /// The use of premium flows.
    pub(crate) premium: PremiumMeter,
    /// The use of signalled flows.
    pub(crate) meter: FlowMeter,
    /// Answers that the node has yet to be told.
    pub(crate) answers: VecDeque<Input<'static>>,
}

impl Drive {
    /// Tells the node one thing and carries out its outputs, and theirs in turn.
    pub(crate) fn tell(&mut self, input: Input<'_>) {
        self.node.handle(self.clock.now(), input);
        self.after();
    }

    /// Tells the node one of several things that came together, and carries out its outputs. [`Drive::end_turn`]
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
        loop {
            if let Some(answer) = self.answers.pop_front() {
                self.node.handle(self.clock.now(), answer);
            } else if let Some(call) = self.receiver_proxy.take() {
                self.speak_for_receiver(&call);
            } else {
                return;
            }
            self.drain();
        }
    }

    /// Tells the node what the receiver proxy asks for.
    fn speak_for_receiver(&mut self, call: &ProxyCall) {
        let (now, app) = (self.clock.now(), receiver_proxy::APP);
        match call {
            ProxyCall::Register(session) => {
                self.node.handle(now, Input::App(AppCall::Receiver { app, session: *session }));
            }
            ProxyCall::Reserve(session, filters, flowspecs) => {
                let (session, style) = (*session, Style::Ff);
                let call = AppCall::Reserve { app, session, style, filters, flowspecs, confirm: false };
                self.node.handle(now, Input::App(call));
            }
            ProxyCall::Release(session) => {
                // The first gives a reservation up, the next the registration.
                for _ in 0..2 {
                    self.node.handle(now, Input::App(AppCall::Release { app, session: Some(*session) }));
                    self.drain();
                }
            }
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
            Output::Send(datagram) => {
                self.messages.send(&datagram, self.clock.now(), &self.names, &mut self.console);
            }
            Output::Plan { id, ops } => {
                let result = self.plane.apply(self.clock.now(), &ops);
                self.answer_node(Input::PlanDone { id, result });
            }
            Output::Promoted { flow, result, .. } => {
                self.mace.iter_mut().for_each(|mace| mace.promoted(flow, result));
            }
            Output::ByMeasurement(news) => {
                self.mace.iter_mut().for_each(|mace| mace.signalled(news));
            }
            Output::Trust(interfaces) => {
                let result = self.plane.kernel().believe(&interfaces);
                self.answer_node(Input::Trusted(result));
            }
            Output::Append(batch) => self.write(batch),
            Output::Order(order) => self.carry_out(&order),
            Output::Reply { id, reply } => self.reply_book(id, *reply),
            Output::AskDecision(question) => self.book.coordinators.ask(question),
            Output::Contradicted(what) => {
                self.console.announce(Level::Error, "contradicted", &contradicted(&what));
            }
            Output::Corrupt { table, key, what } => self.say_corrupt(table, &key, what),
            Output::Event(Event::Booking(event)) => self.tell_followers(event),
            Output::Boomerang(said) => {
                let Some(echo) = &mut self.echo else { return };
                let over = echo.said(said, &mut self.messages, &mut self.console, &self.names);
                over.into_iter().for_each(|number| self.speakers.signalled.gone(SignalKey::Boomerang(number)));
            }
            Output::Upcall { app, upcall } if app == receiver_proxy::APP => self.receiver_proxy.hear(&upcall),
            Output::Upcall { app, upcall } => {
                let event = news::upcall(upcall);
                match statics::number(app) {
                    Some(number) => self.statics.hear(number, &event),
                    None => self.console.tell(app.0, event),
                }
            }
            Output::Event(event) => self.event(&event),
            Output::ReserveSequences { upto } => self.sequences.ask(upto),
        }
    }

    /// Tells the parts and the watchers what happened.
    fn event(&mut self, event: &Event) {
        match event {
            Event::Rsvp(Rsvp::ResvCreated { session, .. } | Rsvp::ResvRemoved { session, .. }) => {
                self.keep_session(session);
            }
            Event::Rsvp(Rsvp::PathCreated { session, template, phop: Some(_) }) => {
                self.receiver_proxy.path_came(session, template);
            }
            Event::Control(ControlEvent::Enforced { handle, part, rate: Rate::ZERO }) => {
                self.premium.forget((*handle, *part));
            }
            _ => {}
        }
        // A flood of news that nobody reads is not put into words.
        if !news::is_routine(event) || self.console.wants_routine() {
            let news = news::news(event, &self.names);
            self.console.announce(news.level, news.name, &news.text);
        }
    }

    /// Tells the filter about an adopted flow of an earlier life.
    pub(crate) fn keep_adopted(&mut self, flow: &FlowKey) {
        let FlowKey { dst, protocol, dst_port, .. } = *flow;
        self.keep_session(&Session { dst, protocol, dst_port });
    }

    fn keep_session(&mut self, session: &Session) {
        self.messages.keep_session(session, self.node.rsvp().is_reserved(session));
    }
}
