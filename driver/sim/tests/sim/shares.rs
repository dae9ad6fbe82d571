//! What foreground, background and signalled reservations have together of one link, against brute force: random
//! bookings, bulk transfers, signalled slots and time over the very ledger and the very book of the daemon.

use admit::SlotId;
use booking::io::{CalendarOffset, CallId, CallResult};
use booking::{BookingRequest, Bookings, Call, Config, Input, Output, PartAsk, RefusalReason, When};
use control::Tc;
use control::io::{InterfaceState, Reservable};
use control::resources::Bookable;
use std::collections::{BTreeMap, VecDeque};
use terms::book::{Background, Caller, CallerRole, Handle, PacketShape};
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question};
use terms::{IfIndex, Rate, Span, Time};
use traffic::plan::LinkSpec;

const OIF: IfIndex = IfIndex(2);
const OVERHEAD: u32 = 14;
/// How far time goes, seconds.
const TICKS: u64 = 60;
const SHARE: u64 = 45_000_000;

struct Open;

impl PolicyPort for Open {
    fn decide(&self, _: &Question<'_>) -> PolicyDecision {
        PolicyDecision { rule: "open".into(), denied: None, ..PolicyDecision::default() }
    }

    fn may_bind(&self, _: &BindQuestion<'_>) -> PolicyDecision {
        PolicyDecision { rule: "open".into(), denied: None, ..PolicyDecision::default() }
    }
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(1_795_269_600_000_000_000) + Span::from_secs(seconds)
}

fn wire(amount: u64) -> u64 {
    Rate::from_bps(amount).with_overhead(OVERHEAD, 1_000).as_bps()
}

/// As the oracle knows a foreground booking: from when to when, how much.
type Row = (u64, u64, u64);

struct Bed {
    tc: Tc,
    broker: Bookings,
    now: u64,
    calls: u64,
    replies: BTreeMap<u64, Option<Handle>>,
    /// Why the last call was refused.
    last: Option<RefusalReason>,
    /// Whether a share of the link is set apart for bookings.
    promised: bool,
    foreground: BTreeMap<Handle, Row>,
    background: BTreeMap<Handle, Row>,
    signalled: Vec<(SlotId, u64)>,
}

impl Bed {
    fn new(promised: bool) -> Bed {
        let link = Reservable {
            spec: LinkSpec {
                rate: Rate::from_mbps(100),
                overhead: OVERHEAD,
                mtu: 1500,
                scheduler: traffic::scheduler::SchedulerKind::Htb,
            },
            signalled_share: Rate::from_mbps(100),
            kept_back: Rate::from_mbps(3),
            assumed_holding: None,
            guaranteed: None,
            measured: Rate::ZERO,
        };
        let mut tc = Tc::new([1, 2]);
        let state = InterfaceState {
            index: OIF,
            name: "eth1".into(),
            addresses: vec!["10.0.2.1".parse().unwrap()],
            mtu: 1500,
            rsvp: true,
            link: Some(link),
        };
        tc.interface(at(0), &state);
        let share = promised.then_some(Rate::from_bps(SHARE));
        tc.bookable(at(0), OIF, Bookable { share, ..Bookable::default() });
        let broker = Bookings::new(Config::default(), [7; 32]);
        let (calls, replies) = (0, BTreeMap::new());
        let (foreground, background) = (BTreeMap::new(), BTreeMap::new());
        let mut bed = Bed {
            tc,
            broker,
            now: 0,
            calls,
            replies,
            last: None,
            promised,
            foreground,
            background,
            signalled: Vec::new(),
        };
        bed.tell(Input::Clock(CalendarOffset::default()));
        bed.tell(Input::Recovered);
        bed
    }

    /// One input, and all that follows; every batch is written and every order carried out.
    fn tell(&mut self, input: Input) {
        let mut due = VecDeque::from([input]);
        while let Some(input) = due.pop_front() {
            let (now, broker) = (at(self.now), &mut self.broker);
            let said: Vec<Output> = self.tc.with_book(now, &Open, |world| {
                broker.handle(now, world, input);
                std::iter::from_fn(|| broker.poll()).collect()
            });
            while self.tc.poll().is_some() {}
            for output in said {
                match output {
                    Output::Append(batch) => due.push_back(Input::Appended(batch.id)),
                    Output::Enforce(order) => due.push_back(Input::Enforced { id: order.id, result: Ok(()) }),
                    Output::Reply { id, reply } => {
                        self.last = reply.as_ref().err().map(|refusal| refusal.why.clone());
                        let handle = match reply {
                            Ok(CallResult::Reservation(view)) => Some(view.handle),
                            _ => None,
                        };
                        self.replies.insert(id.0, handle);
                    }
                    _ => {}
                }
            }
        }
    }

    fn call(&mut self, call: Call) -> Option<Handle> {
        self.calls += 1;
        let caller = Caller { name: "ann".into(), groups: Vec::new(), role: CallerRole::Owner, token: None };
        self.tell(Input::Call { id: CallId(self.calls), caller: Box::new(caller), call });
        self.replies.remove(&self.calls).expect("an answer")
    }

    /// What foreground has in a second.
    fn booked(&self, t: u64, unit: fn(u64) -> u64) -> u64 {
        self.foreground.values().filter(|(from, to, _)| *from <= t && t < *to).map(|(_, _, amount)| unit(*amount)).sum()
    }

    fn held(&self) -> u64 {
        self.signalled.iter().map(|(_, rate)| rate).sum()
    }

    fn capacity(&mut self) -> u64 {
        self.tc.ledger_mut(OIF).unwrap().table().capacity().as_bps()
    }

    /// What the kernel was told for background, in order.
    fn shares(&self) -> Vec<u64> {
        self.broker
            .due()
            .filter(|due| self.background.contains_key(&due.handle))
            .map(|due| due.amount.count())
            .collect()
    }

    fn create(&mut self, row: Row, background: bool) {
        let (from, to, amount) = row;
        let flow =
            terms::book::BoundFlow { protocol: Some(17), dst_port: Some(self.calls as u16), ..Default::default() };
        let part = PartAsk {
            resource: "net/eth1".into(),
            amount,
            least: amount,
            background: background.then_some(Background { weight: 1 + (amount % 3) as u32, floor: 0 }),
            shape: PacketShape::default(),
            binding: Some(terms::book::Binding::Flow(flow)),
        };
        let when = When::Window { start: Some(at(from)), end: Some(at(to)) };
        let ask = BookingRequest { parts: vec![part], when, ..BookingRequest::default() };
        let capacity = self.capacity();
        // Foreground never waits for background.
        let fits = (from.max(self.now)..to).all(|t| {
            let fits = self.booked(t, wire) + self.held() + wire(amount) <= capacity;
            fits && (!self.promised || self.booked(t, |ip| ip) + amount <= SHARE)
        });
        let made = self.call(Call::Create { ask, hold: None, key: String::new() });
        assert_eq!(
            made.is_some(),
            background || fits,
            "{row:?} at {}, background {background}: {:?}",
            self.now,
            self.last
        );
        if let Some(handle) = made {
            let rows = if background { &mut self.background } else { &mut self.foreground };
            rows.insert(handle, (from.max(self.now), to, amount));
        }
    }

    fn signal(&mut self, rate: u64) {
        let (capacity, now) = (self.capacity(), self.now);
        let most = (now..2 * TICKS).map(|t| self.booked(t, wire)).max().unwrap_or(0);
        let shares: u64 = self.shares().iter().sum();
        let fits = most + self.held() + rate <= capacity;
        let fits_beside = self.booked(now, wire) + wire(shares) + self.held() + rate <= capacity;
        let opened = self.tc.ledger_mut(OIF).unwrap().open(at(now), Rate::from_bps(rate));
        match opened {
            Ok(slot) => {
                assert!(fits && (fits_beside || !self.promised), "what is promised is not given away twice");
                self.signalled.push((slot, rate));
            }
            // Where nothing is promised to background it is in nobody's way.
            Err(_) => assert!(!fits || (self.promised && shares > 0), "{rate} fits"),
        }
        let resource = self.tc.resource_of(OIF).unwrap();
        self.tell(Input::Resource(resource));
        if self.promised {
            assert_eq!(self.shares().iter().sum::<u64>(), shares, "what is promised is not taken");
        }
    }

    fn release(&mut self, n: usize) {
        if self.signalled.is_empty() {
            return;
        }
        let (slot, _) = self.signalled.swap_remove(n % self.signalled.len());
        self.tc.ledger_mut(OIF).unwrap().release(at(self.now), slot).unwrap();
        let resource = self.tc.resource_of(OIF).unwrap();
        self.tell(Input::Resource(resource));
    }

    fn cancel(&mut self, n: usize) {
        let all: Vec<Handle> = self.foreground.keys().chain(self.background.keys()).copied().collect();
        let Some(&handle) = all.get(n % all.len().max(1)) else { return };
        self.foreground.remove(&handle);
        self.background.remove(&handle);
        self.call(Call::Cancel(handle));
    }

    fn pass(&mut self, seconds: u64) {
        let to = (self.now + seconds).min(TICKS);
        while self.now < to {
            self.now += 1;
            self.tell(Input::Wake);
            let now = self.now;
            self.foreground.retain(|_, (_, end, _)| *end > now);
            self.background.retain(|_, (_, end, _)| *end > now);
            self.check();
        }
    }

    /// At this instant nobody has what another has, and the ledger's sums say so.
    fn check(&mut self) {
        let (now, capacity) = (self.now, self.capacity());
        let shares: u64 = self.shares().iter().sum();
        let together = self.booked(now, wire) + wire(shares) + self.held();
        assert!(together <= capacity, "{together} of {capacity} at {now}");
        let of = if self.promised { SHARE } else { u64::MAX };
        let grant = of.saturating_mul(9) / 10;
        assert!(shares <= grant.saturating_sub(self.booked(now, |ip| ip)), "{shares} at {now}");
        let open = |(from, to, _): &&Row| *from <= now && now < *to;
        let wanted: u64 = self.background.values().filter(open).map(|(_, _, amount)| amount).sum();
        assert!(shares <= wanted);
        let lent = if self.promised && shares > 0 { wire(shares) } else { 0 };
        let ledger = self.tc.ledger_mut(OIF).unwrap();
        ledger.expire(at(now));
        while ledger.poll().is_some() {}
        ledger.table().audit().unwrap();
        assert!(ledger.table().shortfall().is_none(), "more is given away than there is");
        let peak = ledger.table().peak(at(now), at(now) + Span::from_nanos(1)).as_bps();
        assert_eq!(peak, self.booked(now, wire) + lent + self.held(), "the ledger's own sum at {now}");
        self.broker.audit().unwrap();
    }
}

/// A generator of the test's own: `xorshift64`.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

#[test]
fn nobody_has_what_another_has() {
    let seeds: u64 = std::env::var("SLUICE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut held_back = 0;
    for seed in 1..=seeds {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bed = Bed::new(seed % 2 == 0);
        while bed.now < TICKS {
            let mut up_to = |below| draw(&mut state, below);
            let from = bed.now + up_to(20);
            let row = (from, from + 1 + up_to(20), 1 + up_to(30_000_000));
            match up_to(10) {
                0..=2 => bed.create(row, false),
                3 => bed.create((bed.now, row.1 + 5, 1 + up_to(60_000_000)), true),
                4 => bed.create(row, true),
                5..=6 => bed.signal(1 + up_to(40_000_000)),
                7 => bed.release(up_to(64) as usize),
                8 => bed.cancel(up_to(64) as usize),
                _ => bed.pass(1 + up_to(4)),
            }
            bed.check();
            held_back += usize::from(bed.promised && !bed.shares().is_empty());
        }
    }
    assert!(held_back > 100, "background was promised something often enough to matter: {held_back}");
}
