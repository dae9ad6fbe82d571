//! Clients: they wish for reservations, change them, give them back, and ask again by their key when their broker
//! died over it.

use super::super::agent::RESOURCES;
use super::super::broker::{MemberAsk, caller};
use super::super::message::{Body, Message, Place};
use super::super::wish::{Change, NextStep, Stage, Transaction, Wish, WishKind, WishPart};
use super::{AGENTS, BROKERS, Due, TransactionWorld};
use booking::Call;
use booking::promise::PrepareAsk;
use commit::coordinator::Phase;
use commit::{TransactionId, Vote};
use terms::{Span, Time};

impl TransactionWorld {
    /// A client wishes for something, or changes its mind.
    pub(super) fn client_acts(&mut self) {
        let booked: Vec<usize> = self.in_stage(|stage| stage == Stage::Booked);
        let held: Vec<usize> = self.in_stage(|stage| stage == Stage::Held);
        let rng = &mut self.of_clients;
        let any = |rng: &mut crate::rng::Rng, of: &[usize]| of[rng.below(of.len() as u64) as usize];
        match rng.below(10) {
            0..3 if !booked.is_empty() => {
                let wish = any(rng, &booked);
                let single = self.judge.wishes[wish].kind() == WishKind::Single;
                if !single {
                    self.begin(wish, Change::Modify);
                }
            }
            3 if !booked.is_empty() => {
                let wish = any(rng, &booked);
                self.judge.wishes[wish].give_up();
                self.begin(wish, Change::Cancel);
            }
            _ if !held.is_empty() => {
                let wish = any(rng, &held);
                self.begin(wish, Change::Book);
            }
            _ => self.wish(),
        }
    }

    fn in_stage(&self, is: impl Fn(Stage) -> bool) -> Vec<usize> {
        let all = self.judge.wishes.iter().enumerate();
        all.filter(|(_, wish)| is(wish.stage())).map(|(n, _)| n).collect()
    }

    /// A new wish.
    fn wish(&mut self) {
        let n = self.judge.wishes.len();
        let broker = self.of_clients.below(BROKERS as u64) as usize;
        let wish = draw(&mut self.of_clients, self.now, n, broker);
        let kind = wish.kind();
        self.judge.wishes.push(wish);
        match kind {
            WishKind::Create => self.begin(n, Change::Create),
            WishKind::Hold(_) | WishKind::Single => {
                self.judge.wishes[n].calls();
                self.call(n);
            }
        }
    }

    /// Makes the plain calls of a wish: holds, or the one that books it.
    fn call(&mut self, n: usize) {
        let wish = self.judge.wishes[n].clone();
        if !self.brokers[wish.broker()].is_up() {
            return self.ask_again_after(n, Span::from_secs(10));
        }
        let hold = if let WishKind::Hold(span) = wish.kind() { Some(span) } else { None };
        for part in wish.parts().iter().filter(|part| part.handle().is_none()) {
            let call = Call::Create { ask: wish.ask(part, wish.group()), hold, key: wish.group().to_owned() };
            self.ask_agent(wish.broker(), part.agent(), Body::Call { wish: n, caller: caller(wish.owner()), call });
        }
        if wish.kind() == WishKind::Single {
            self.ask_again_after(n, Span::from_secs(15));
        }
    }

    fn ask_agent(&mut self, broker: usize, agent: usize, body: Body) {
        self.send(Message { from: Place::Broker(broker), to: Place::Agent(agent), body });
    }

    /// Asks for a change over the members of a wish: their clocks are compared first.
    fn begin(&mut self, n: usize, change: Change) {
        let broker = self.judge.wishes[n].broker();
        if !self.brokers[broker].is_open() || self.stopped.contains_key(&Place::Broker(broker)) {
            return self.not_begun(n, change);
        }
        let agents = self.judge.wishes[n].agents();
        let old = self.brokers[broker].old_clocks(self.now, &agents);
        if old.is_empty() || change == Change::Cancel {
            return self.begin_now(n, change);
        }
        for agent in old {
            let outputs = self.brokers[broker].visit(self.now, agent);
            self.brokers_say(broker, outputs);
        }
        self.later(Span::from_millis(300), Due::Begin(n, change));
    }

    pub(super) fn begin_now(&mut self, n: usize, change: Change) {
        let wish = self.judge.wishes[n].clone();
        let broker = wish.broker();
        let agents = wish.agents();
        let free = matches!(wish.stage(), Stage::New | Stage::Held | Stage::Booked | Stage::Looking);
        if !free || !self.brokers[broker].is_open() || self.stopped.contains_key(&Place::Broker(broker)) {
            return self.not_begun(n, change);
        }
        if change != Change::Cancel && self.brokers[broker].are_apart(&agents) {
            self.tally.count("C9 clocks too far apart, nothing begun", "");
            return self.not_begun(n, change);
        }
        let turn = self.of_clients.below(agents.len() as u64) as usize;
        let wish = wish.in_turn(turn);
        let agents = wish.agents();
        let id = self.draw_id();
        let (label, mut amounts) = (id.to_string(), Vec::new());
        if change == Change::Modify {
            amounts = wish.parts().iter().map(|part| amount(&mut self.of_clients, part.resource())).collect();
        }
        self.note_opposite(broker, &agents);
        self.judge.wishes[n].begins(id);
        let of = Transaction::new((n, broker), change, &agents, &amounts, &label);
        self.judge.transactions.insert(id, of);
        let outputs = if change == Change::Cancel {
            self.tally.count("cancellation ordered", "");
            self.brokers[broker].order(self.now, id, &agents, wish.owner(), wish.group())
        } else {
            let ask = |(place, part): (usize, &WishPart)| {
                let ask = match (change, part.handle()) {
                    (Change::Book, Some(handle)) => PrepareAsk::Hold(handle),
                    (Change::Modify, Some(handle)) => {
                        PrepareAsk::Modify { handle, change: Wish::change(part, amounts[place], &label) }
                    }
                    _ => PrepareAsk::Create { ask: wish.ask(part, &label), key: wish.group().to_owned() },
                };
                MemberAsk::new(part.agent(), caller(wish.owner()), ask)
            };
            let asks = wish.parts().iter().enumerate().map(ask).collect();
            self.brokers[broker].begin(self.now, id, asks)
        };
        self.brokers_say(broker, outputs);
    }

    fn draw_id(&mut self) -> TransactionId {
        let (high, low) = (self.of_clients.next_u64(), self.of_clients.next_u64());
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        TransactionId(id)
    }

    /// Counts if another broker asks two of these agents at this time in the opposite order.
    fn note_opposite(&mut self, broker: usize, agents: &[usize]) {
        let others = (0..BROKERS).filter(|n| *n != broker).flat_map(|n| self.brokers[n].open());
        let asked = others.filter(|(_, phase)| *phase == Phase::Preparing).map(|(id, _)| id).collect::<Vec<_>>();
        for id in asked {
            let Some(of) = self.judge.transactions.get(&id) else { continue };
            let place = |agent: &usize| of.agents().iter().position(|other| other == agent);
            if agents.windows(2).any(|two| place(&two[0]).zip(place(&two[1])).is_some_and(|(a, b)| a > b)) {
                self.tally.count("C6 two coordinators ask in opposite order", "");
            }
        }
    }

    /// The broker could not begin it.
    fn not_begun(&mut self, n: usize, change: Change) {
        if self.judge.wishes[n].not_begun(change) == NextStep::Later {
            self.ask_again_after(n, Span::from_secs(10));
        }
    }

    pub(super) fn client_refused(&mut self, id: TransactionId) {
        let Some(of) = self.judge.transactions.get(&id) else { return };
        self.judge.wishes[of.wish()].refused(id, of.change());
    }

    /// The client of a transaction is told its end.
    pub(super) fn client_told(&mut self, id: TransactionId, committed: bool) {
        self.judge.tell(self.now, id, committed);
        let Some(of) = self.judge.transactions.get(&id).cloned() else { return };
        let row = match (of.change(), committed) {
            (Change::Create, true) => "create committed",
            (Change::Create, false) => "create aborted",
            (Change::Book, true) => "hold booked",
            (Change::Modify, true) => "change committed",
            (Change::Modify | Change::Book, false) => "change aborted",
            (Change::Cancel, _) => "cancellation told",
        };
        self.tally.count(row, "");
        self.judge.wishes[of.wish()].told(id, of.change(), committed);
    }

    /// A broker has died: its clients ask again by their keys.
    pub(super) fn clients_ask_again(&mut self, broker: usize) {
        let waits = |wish: &Wish| wish.broker() == broker && matches!(wish.stage(), Stage::Waiting(_));
        let all: Vec<usize> = (0..self.judge.wishes.len()).filter(|n| waits(&self.judge.wishes[*n])).collect();
        for n in all {
            self.judge.wishes[n].looks();
            let span = Span::from_secs(1 + self.of_clients.below(20));
            self.ask_again_after(n, span);
        }
    }

    /// A client will ask again after this time, or earlier if it was to ask earlier. It has one clock: what it hears
    /// does not make it ask more often.
    fn ask_again_after(&mut self, n: usize, span: Span) {
        let at = self.now + span;
        if self.judge.wishes[n].asks_at(at) {
            self.put(at, Due::Retry(n));
        }
    }

    /// A client asks again.
    pub(super) fn retry(&mut self, n: usize) {
        if !self.judge.wishes[n].is_time_to_ask(self.now) {
            return;
        }
        let wish = self.judge.wishes[n].clone();
        match wish.stage() {
            Stage::Calling if wish.kind() == WishKind::Single && wish.end() > self.now => return self.call(n),
            Stage::Looking => {}
            _ => return,
        }
        let gone = self.judge.gone.contains(&wish.broker());
        if !self.judge.wishes[n].asks_once_more(gone) {
            return;
        }
        let open: Vec<TransactionId> = self.brokers[wish.broker()].open().into_iter().map(|(id, _)| id).collect();
        let is_open = open.iter().any(|id| self.judge.transactions.get(id).is_some_and(|of| of.wish() == n));
        self.ask_again_after(n, Span::from_secs(12));
        if is_open || !self.brokers[wish.broker()].is_open() || self.stopped.contains_key(&Place::Broker(wish.broker()))
        {
            return;
        }
        self.judge.wishes[n].looks_everywhere();
        for part in wish.parts() {
            let look = Body::Look { wish: n, caller: caller(wish.owner()), group: wish.group().to_owned() };
            self.ask_agent(wish.broker(), part.agent(), look);
        }
    }

    /// An answer comes to a broker: what its clients learn of it.
    pub(super) fn clients_hear(&mut self, from: usize, body: &Body) {
        match body {
            Body::Vote { branch, vote: Vote::Yes, handle } => {
                let Some(of) = self.judge.transactions.get(&branch.transaction) else { return };
                if of.change() == Change::Create {
                    self.judge.wishes[of.wish()].promised(branch.transaction, from, *handle);
                }
            }
            Body::Answered { wish, handle } => self.called(*wish, from, *handle),
            Body::Looked { wish, booked, open } => {
                if let NextStep::Ask(change) = self.judge.wishes[*wish].looked(self.now, from, booked, *open) {
                    self.tally.count("asked again by key", "");
                    self.begin(*wish, change);
                }
            }
            _ => {}
        }
    }

    /// A plain call is answered.
    fn called(&mut self, n: usize, from: usize, handle: Option<terms::book::Handle>) {
        match self.judge.wishes[n].answered(from, handle) {
            NextStep::Booked => self.tally.count("single call booked", ""),
            NextStep::Ask(change) => {
                let span = Span::from_secs(1 + self.of_clients.below(20));
                self.later(span, Due::Begin(n, change));
            }
            NextStep::None | NextStep::Later => {}
        }
    }
}

fn amount(rng: &mut crate::rng::Rng, resource: usize) -> u64 {
    let capacity = RESOURCES[resource].2;
    capacity / 8 * (1 + rng.below(5))
}

/// Draws a wish.
fn draw(rng: &mut crate::rng::Rng, now: Time, number: usize, broker: usize) -> Wish {
    let kind = match rng.below(8) {
        0..5 => WishKind::Create,
        5 | 6 => WishKind::Hold(Span::from_secs(60 + rng.below(200))),
        _ => WishKind::Single,
    };
    let first = rng.below(AGENTS as u64) as usize;
    let count = if kind == WishKind::Single { 1 } else { 2 + rng.below(AGENTS as u64 - 1) as usize };
    let parts = (0..count).map(|n| {
        let resource = rng.below(RESOURCES.len() as u64) as usize;
        WishPart::new((first + n) % AGENTS, resource, amount(rng, resource))
    });
    let parts = parts.collect();
    // Most windows are far ahead; some are over before a fault is.
    let (ahead, length) = match rng.below(5) {
        0 => (5 + rng.below(60), 60 + rng.below(600)),
        _ => (7_200 + 600 * rng.below(12), 600 * (1 + rng.below(6))),
    };
    let start = now + Span::from_secs(ahead);
    let owner = match rng.below(12) {
        0 => "eve",
        1..4 => "bob",
        _ => "ann",
    };
    let end = start + Span::from_secs(length);
    Wish::new((owner, number), broker, kind, (start, end), parts)
}
