//! The book as the agent has it, without the agent: engine, the ledger of an interface, the desk with its thread, SQLite.

use crate::work::{INTERFACE, OWNERS, Wish, later, wish};
use agent_service::book::journal::JournalHandle;
use bench::{Draw, percentile};
use booking::io::{CalendarOffset as Calendar, CallId, CallResult};
use booking::policy::Policy;
use booking::{BookingRequest, Call, Input, PartAsk, When};
use linux::clock::Clock;
use linux::poll::{Poll, PollInterest, Token};
use node::Node;
use node::io::{Input as Told, InterfaceState, Output, Reservable};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use store::sqlite::SqliteOptions;
use terms::book::{Caller, CallerRole, PacketShape};
use terms::ports::{Route, RouteDecision};
use terms::probe::Off;
use terms::{IfIndex, Rate, Span, Time};
use traffic::plan::LinkSpec;

/// Nobody asks for a way.
struct Nowhere;

impl Route for Nowhere {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::None
    }
}

/// The book and what drives it.
pub struct Inside {
    node: Node<Nowhere, Off, Policy>,
    desk: JournalHandle,
    clock: Clock,
    poll: Poll,
    draw: Draw,
    calls: u64,
    made: Vec<Wish>,
}

impl Inside {
    /// With its journal in this folder.
    pub fn open(folder: &Path) -> Inside {
        let options = SqliteOptions { any_filesystem: true, ..SqliteOptions::default() };
        let (desk, found) = JournalHandle::in_folder(folder, options).expect("a journal");
        let clock = Clock::start();
        let mut poll = Poll::new(clock).expect("a poll");
        poll.add(desk.notifier(), Token(1), PollInterest::Read).expect("watched");
        let config = node::Config { seed: 7, ..node::Config::default() };
        let mut inside = Inside {
            node: Node::new(config, Nowhere).under(Policy::open()),
            desk,
            clock,
            poll,
            draw: Draw::new(1),
            calls: 0,
            made: Vec::new(),
        };
        let spec = LinkSpec {
            rate: Rate::from_bps(10_000_000_000_000),
            overhead: 14,
            mtu: 1500,
            scheduler: traffic::scheduler::SchedulerKind::Htb,
        };
        let kept_back = Rate::ZERO;
        let link = Reservable {
            spec,
            signalled_share: spec.rate,
            kept_back,
            assumed_holding: None,
            guaranteed: None,
            measured: Rate::ZERO,
        };
        let (index, name) = (IfIndex(1), INTERFACE.to_owned());
        let state = InterfaceState { index, name, addresses: Vec::new(), mtu: 1500, rsvp: true, link: Some(link) };
        inside.node.handle(clock.now(), Told::Interface(state));
        while inside.node.poll().is_some() {}
        let (ahead_ns, uncertainty) = (clock.calendar().0, Span::ZERO);
        inside.tell(Input::Clock(Calendar { ahead_ns, uncertainty }));
        for record in found {
            inside.tell(Input::Recovering(record));
        }
        inside.tell(Input::Recovered);
        inside
    }

    /// One input, then drain; how many creates were answered.
    fn tell(&mut self, input: Input) -> usize {
        let (mut answered, mut due) = (0, vec![input]);
        while let Some(input) = due.pop() {
            self.node.handle(self.clock.now(), Told::Booking(input));
            while let Some(output) = self.node.poll() {
                match output {
                    Output::Append(batch) => due.extend(self.desk.hand_in(batch)),
                    Output::Reply { reply, .. } => match *reply {
                        Ok(CallResult::Reservation(_)) => answered += 1,
                        reply => panic!("everything fits: {reply:?}"),
                    },
                    _ => {}
                }
            }
        }
        answered
    }

    fn today(&self) -> Time {
        self.node.bookings().today()
    }

    fn ask(&mut self) {
        let now = self.today();
        let made = wish(&mut self.draw, now);
        self.made.push(made);
        let part = PartAsk {
            resource: format!("net/{INTERFACE}"),
            amount: made.rate,
            least: made.rate,
            background: None,
            shape: PacketShape::default(),
            binding: None,
        };
        let when = When::Window { start: Some(made.start), end: Some(made.end) };
        let ask = BookingRequest { parts: vec![part], when, ..BookingRequest::default() };
        self.calls += 1;
        let caller = Caller {
            name: format!("owner-{}", self.calls % OWNERS),
            groups: Vec::new(),
            role: CallerRole::Owner,
            token: None,
        };
        let call = Call::Create { ask, hold: None, key: String::new() };
        assert_eq!(
            self.tell(Input::Call { id: CallId(self.calls), caller: Box::new(caller), call }),
            0,
            "not before it is written"
        );
    }

    /// Waits for the journal; how many creates were answered.
    fn wait(&mut self) -> usize {
        assert!(self.desk.send().is_empty(), "there is room for all");
        let deadline = self.clock.now() + Span::from_secs(60);
        self.poll.wait(Some(deadline)).expect("it is rung");
        let (inputs, dead) = self.desk.pick_up();
        assert_eq!(dead, None);
        inputs.into_iter().map(|input| self.tell(input)).sum()
    }

    /// Callers that each wait for their answer before they ask again; acknowledged creates a second.
    pub fn run(&mut self, callers: usize, long: Duration) -> f64 {
        let (start, mut done, mut out) = (Instant::now(), 0, callers);
        (0..callers).for_each(|_| self.ask());
        while out > 0 {
            let came = self.wait();
            done += came;
            if start.elapsed() < long {
                (0..came).for_each(|_| self.ask());
            } else {
                out -= came;
            }
        }
        done as f64 / start.elapsed().as_secs_f64()
    }

    /// So many reservations.
    pub fn fill(&mut self, count: usize) {
        let (mut asked, mut out) = (0, 0);
        while asked < count || out > 0 {
            while asked < count && out < 2_048 {
                self.ask();
                (asked, out) = (asked + 1, out + 1);
            }
            out -= self.wait();
        }
    }

    /// The median, over hours of the coming year, of the most that is promised in such an hour, bit/s.
    pub fn median_peak(&self) -> u64 {
        let mut draw = Draw::new(2);
        let mut peaks: Vec<f64> = (0..500)
            .map(|_| {
                let start = later(&mut draw, self.today());
                let end = start + Span::from_secs(3_600);
                // Where something begins, or at the hour's start, is the most.
                let near: Vec<&Wish> = self.made.iter().filter(|w| w.start < end && w.end > start).collect();
                let at = |t: Time| near.iter().filter(|w| w.start <= t && t < w.end).map(|w| w.rate).sum::<u64>();
                near.iter().map(|w| at(w.start.max(start))).max().unwrap_or(0) as f64
            })
            .collect();
        percentile(&mut peaks, 0.5) as u64
    }
}
