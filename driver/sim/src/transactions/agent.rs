//! An agent: the whole node with its bookings, ledger and policy, wired as the agent's program wires it, and the
//! calls of brokers that wait for its answer.

use super::PlantedDefect;
use super::broker::no;
use super::disk::{Disk, DiskBatch};
use super::message::{Body, Message, Place, number};
use booking::io::{CalendarOffset, CallId, CallResult, RecordTable};
use booking::policy::{Effect, Limits, NamePattern, Policy, Rule, Who};
use booking::promise::{Contradiction, DecideCall};
use booking::{Batch, BookingView, Call, Input, JournalRecord, Refusal, RefusalReason, Reply};
use commit::coordinator::Outcome;
use commit::participant::ParticipantRecord;
use commit::{Branch, Vote};
use control::resources::Resource;
use node::{Config, Node};
use std::collections::{BTreeMap, VecDeque};
use terms::book::{Caller, CallerRole, Guarantee, Handle};
use terms::ports::{Route, RouteDecision};
use terms::{Amount, IfIndex, Span, Time, Unit, Window};

/// The resources of every agent, with their capacities.
pub(super) const RESOURCES: [(&str, Unit, u64); 2] =
    [("licence/solver", Unit::Pieces, 8), ("cpu", Unit::CoreMillionths, 4_000_000)];

/// A key of the journal.
pub(super) type Key = (RecordTable, Vec<u8>);

/// An act that an agent asks of its world; they are done in order.
#[derive(Debug)]
pub(super) enum AgentOutput {
    Send(Box<Message>),
    /// The disk has batches.
    Write(WriteKind),
    Contradicted(Contradiction),
    /// A record could not be read.
    Corrupt(&'static str),
    /// An operator's list of what is promised: part, coordinator, handle.
    Listed(Vec<(Branch, usize, Handle)>),
}

/// The most important record of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteKind {
    Promise,
    Apply,
    Other,
}

/// The defects of an agent: planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct AgentDefects {
    /// The disk says that a batch is written before it is.
    lies: bool,
    /// At a start one booked reservation is left out.
    forgets: bool,
}

impl AgentDefects {
    /// Those of a planted defect that agents have.
    pub(super) fn of(planted: Option<PlantedDefect>) -> AgentDefects {
        AgentDefects {
            lies: planted == Some(PlantedDefect::LyingDisk),
            forgets: planted == Some(PlantedDefect::ForgetfulAgent),
        }
    }
}

/// Who waits for the answer to a call.
#[derive(Clone, Debug)]
enum Waiting {
    Vote(usize, Branch),
    Acknowledge(usize, Branch),
    /// The answer to a question of ours.
    Own,
    Promises(usize, Time),
    /// An order's list, then its cancellations.
    OrderList(usize, Branch, Caller),
    OrderCancel(usize, Branch),
    Call(usize, usize),
    Look(usize, usize),
    OperatorList,
    OperatorResolve,
}

/// No interface, no route.
pub(super) struct NoRoutes;

impl Route for NoRoutes {
    fn route(&mut self, _: std::net::IpAddr, _: Option<std::net::IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::None
    }
}

type WholeNode = Node<NoRoutes, terms::probe::Off, Policy>;

/// An agent.
pub(super) struct Agent {
    number: usize,
    life: u32,
    node: Option<Box<WholeNode>>,
    disk: Disk<Key>,
    /// The lead of its calendar, nanoseconds.
    ahead: i64,
    calls: BTreeMap<CallId, Waiting>,
    next_call: u64,
    /// Cancellations of orders that are on their way, and true if one was refused.
    orders: BTreeMap<Branch, (usize, bool)>,
    defects: AgentDefects,
}

impl Agent {
    pub(super) fn new(number: usize, defects: AgentDefects) -> Agent {
        Agent {
            number,
            life: 0,
            node: None,
            disk: Disk::new(),
            ahead: 0,
            calls: BTreeMap::new(),
            next_call: 0,
            orders: BTreeMap::new(),
            defects,
        }
    }

    /// The number of times that it has died: what was meant for an earlier life is dropped.
    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// Its disk.
    pub(super) fn disk(&self) -> &Disk<Key> {
        &self.disk
    }

    /// Its disk, which the world makes write, fill and fail.
    pub(super) fn disk_mut(&mut self) -> &mut Disk<Key> {
        &mut self.disk
    }

    pub(super) fn is_up(&self) -> bool {
        self.node.is_some()
    }

    /// Its calendar time.
    pub(super) fn calendar(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_add_signed(self.ahead))
    }

    /// True if its defect is that its disk lies.
    pub(super) fn lies(&self) -> bool {
        self.defects.lies
    }

    /// Sets its calendar this far ahead of true time.
    pub(super) fn set_clock(&mut self, now: Time, ahead: i64) -> Vec<AgentOutput> {
        self.ahead = ahead;
        self.take(now, Input::Clock(CalendarOffset { ahead_ns: ahead, uncertainty: Span::ZERO }))
    }

    /// Starts: reads the journal. The seed is drawn by chance.
    pub(super) fn start(&mut self, now: Time, seed: u64) -> Vec<AgentOutput> {
        let config = Config { seed, ..Config::default() };
        let mut node = Box::new(Node::new(config, NoRoutes).under(policy()));
        for (name, unit, capacity) in RESOURCES {
            let (capacity, shared) = (Amount::new(capacity, unit), Amount::zero(unit));
            let guarantee = Guarantee::Reserved;
            node.add_resource(now, Resource { name: name.to_owned(), guarantee, capacity, shared });
        }
        self.node = Some(node);
        let mut said = self.set_clock(now, self.ahead);
        let mut left_out = !self.defects.forgets;
        for ((table, key), value) in self.disk.kept().clone() {
            if table == RecordTable::Reservation && !left_out {
                left_out = true;
                continue;
            }
            said.extend(self.take(now, Input::Recovering(JournalRecord { table, key, value: Some(value) })));
        }
        said.extend(self.take(now, Input::Recovered));
        said
    }

    /// Dies. Returns the batches that are on the disk after all.
    pub(super) fn die(&mut self, now: Time, lucky: bool) -> Vec<DiskBatch<Key>> {
        self.node = None;
        self.life += 1;
        self.calls.clear();
        self.orders.clear();
        self.disk.die(now, lucky)
    }

    /// The time for [`Agent::wake`].
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.node.as_ref().and_then(|node| node.wake_at())
    }

    pub(super) fn wake(&mut self, now: Time) -> Vec<AgentOutput> {
        self.tell(now, node::io::Input::Wake)
    }

    /// The disk has answered a batch.
    pub(super) fn answered(&mut self, now: Time, batch: u64, written: bool) -> Vec<AgentOutput> {
        let id = booking::io::BatchId(batch);
        let input =
            if written { Input::Appended(id) } else { Input::AppendFailed { id, text: "no space left".to_owned() } };
        self.take(now, input)
    }

    /// A message has come from this broker.
    pub(super) fn hear(&mut self, now: Time, from: usize, body: Body) -> Vec<AgentOutput> {
        let speaker = Caller { name: format!("b{from}"), groups: Vec::new(), role: CallerRole::Broker, token: None };
        let (waiting, caller, call) = match body {
            Body::Prepare(caller, call) => (Waiting::Vote(from, call.branch), caller, Call::Prepare(call)),
            Body::Decide(call) => (Waiting::Acknowledge(from, call.branch), speaker, Call::Decide(call)),
            Body::Promises(call, sent) => (Waiting::Promises(from, sent), speaker, Call::Promises(call)),
            Body::Answer { branch, epoch, outcome: Outcome::Decided(decision) } => {
                let call = DecideCall { branch, coordinator: speaker.name.as_str().into(), epoch, decision };
                (Waiting::Own, speaker, Call::Decide(Box::new(call)))
            }
            Body::Order { branch, caller, group } => {
                (Waiting::OrderList(from, branch, caller.clone()), caller, Call::List(of_group(group)))
            }
            Body::Call { wish, caller, call } => (Waiting::Call(from, wish), caller, call),
            Body::Look { wish, caller, group } => (Waiting::Look(from, wish), caller, Call::List(of_group(group))),
            _ => return Vec::new(),
        };
        self.call(now, waiting, caller, call)
    }

    /// An operator asks what is promised.
    pub(super) fn operator_list(&mut self, now: Time) -> Vec<AgentOutput> {
        self.call(now, Waiting::OperatorList, operator(), Call::List(booking::io::Matching::default()))
    }

    /// An operator decides a promise.
    pub(super) fn resolve(&mut self, now: Time, handle: Handle, commit: bool) -> Vec<AgentOutput> {
        self.call(now, Waiting::OperatorResolve, operator(), Call::Resolve { handle, commit })
    }

    /// The free amount of each resource over the next day: its number, the window, the amount.
    pub(super) fn room(&mut self, now: Time) -> Vec<(usize, Window, u64)> {
        let begin = self.calendar(now) + Span::from_secs(1);
        let timeline = Window::new(begin, begin + Span::from_secs(86_400)).ok();
        let Some(node) = &mut self.node else { return Vec::new() };
        let input =
            Input::Call { id: CallId(u64::MAX), caller: Box::new(operator()), call: Call::Resources { timeline } };
        node.handle(now, node::io::Input::Booking(input));
        let mut found = Vec::new();
        while let Some(output) = node.poll() {
            let node::io::Output::Reply { reply, .. } = output else { continue };
            let Ok(CallResult::Resources(views)) = *reply else { continue };
            for view in views {
                let resource = RESOURCES.iter().position(|(name, ..)| *name == view.name);
                let steps = resource.into_iter().flat_map(|n| view.timeline.iter().map(move |step| (n, step)));
                found.extend(steps.map(|(n, step)| (n, step.window, step.amount)));
            }
        }
        found
    }

    /// Checks every invariant of its parts.
    ///
    /// # Errors
    /// The one that does not hold.
    pub(super) fn audit(&self) -> Result<(), &'static str> {
        let Some(node) = &self.node else { return Ok(()) };
        node.bookings().audit()?;
        node.tc().audit().map_err(|drift| drift.what)
    }

    fn call(&mut self, now: Time, waiting: Waiting, caller: Caller, call: Call) -> Vec<AgentOutput> {
        self.next_call += 1;
        let id = CallId(self.next_call);
        self.calls.insert(id, waiting);
        self.take(now, Input::Call { id, caller: Box::new(caller), call })
    }

    fn take(&mut self, now: Time, input: Input) -> Vec<AgentOutput> {
        self.tell(now, node::io::Input::Booking(input))
    }

    /// One input, then drain; inputs that arise meanwhile come after.
    fn tell(&mut self, now: Time, input: node::io::Input<'static>) -> Vec<AgentOutput> {
        let mut said = Vec::new();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(node) = &mut self.node else { return said };
            node.handle(now, input);
            let outputs: Vec<node::io::Output> = std::iter::from_fn(|| node.poll()).collect();
            for output in outputs {
                self.carry_out(output, &mut inputs, &mut said);
            }
        }
        said
    }

    fn carry_out(
        &mut self,
        output: node::io::Output,
        inputs: &mut VecDeque<node::io::Input<'static>>,
        said: &mut Vec<AgentOutput>,
    ) {
        use node::io::Output;
        match output {
            Output::Append(batch) => {
                let (id, kind) = (batch.id, self.write(batch));
                said.push(AgentOutput::Write(kind));
                if self.defects.lies {
                    inputs.push_back(node::io::Input::Booking(Input::Appended(id)));
                }
            }
            Output::Order(order) => {
                inputs.push_back(node::io::Input::Booking(Input::Enforced { id: order.id, result: Ok(()) }));
            }
            Output::Reply { id, reply } => {
                if let Some(waiting) = self.calls.remove(&id) {
                    self.reply(waiting, *reply, inputs, said);
                }
            }
            Output::AskDecision(question) => {
                let to = Place::Broker(number(&question.coordinator));
                let from = Place::Agent(self.number);
                said.push(AgentOutput::Send(Box::new(Message { from, to, body: Body::Question(question) })));
            }
            Output::Contradicted(what) => said.push(AgentOutput::Contradicted(what)),
            Output::Corrupt { what, .. } => said.push(AgentOutput::Corrupt(what)),
            _ => {}
        }
    }

    fn write(&mut self, batch: Batch) -> WriteKind {
        let mut kind = WriteKind::Other;
        for record in &batch.records {
            kind = match branch(record.table, &record.key, record.value.as_deref()) {
                Some((_, None, _)) => WriteKind::Promise,
                Some((_, Some(_), _)) => WriteKind::Apply,
                None => kind,
            };
        }
        let kept = batch.records.into_iter().filter(|record| record.table != RecordTable::Audit);
        let changes = kept.map(|record| ((record.table, record.key), record.value)).collect();
        self.disk.queue(DiskBatch { id: batch.id.0, changes, urgent: batch.urgent });
        kind
    }

    fn reply(
        &mut self,
        waiting: Waiting,
        reply: Reply,
        inputs: &mut VecDeque<node::io::Input<'static>>,
        said: &mut Vec<AgentOutput>,
    ) {
        let (broker, body) = match (waiting, reply) {
            (Waiting::OperatorList, reply) => return said.push(AgentOutput::Listed(promised(reply))),
            (Waiting::Own | Waiting::OperatorResolve, _) => return,
            (
                Waiting::Vote(broker, _) | Waiting::Acknowledge(broker, _) | Waiting::Promises(broker, _),
                Err(Refusal { why: RefusalReason::Outdated { known }, .. }),
            ) => (broker, Body::Outdated(known)),
            (Waiting::Vote(broker, branch), Ok(CallResult::Reservation(view))) => {
                (broker, Body::Vote { branch, vote: Vote::Yes, handle: Some(view.handle) })
            }
            (Waiting::Vote(broker, branch), refused) => {
                let why = refused.err().map_or("?", |refusal| refusal.why.name());
                (broker, Body::Vote { branch, vote: no(why), handle: None })
            }
            (Waiting::Acknowledge(broker, branch), Ok(result)) => {
                let gone = match result {
                    CallResult::Reservation(view) => view.state.is_over(),
                    _ => true,
                };
                (broker, Body::Acknowledge { branch, gone })
            }
            (Waiting::Promises(broker, sent), Ok(CallResult::Promises(list))) => {
                (broker, Body::PromiseList { promises: list.promises, shown: list.now, sent })
            }
            (Waiting::OrderList(broker, branch, caller), reply) => {
                let Some(body) = self.order(broker, branch, &caller, reply, inputs) else { return };
                (broker, body)
            }
            (Waiting::OrderCancel(broker, branch), reply) => {
                let over = matches!(&reply, Err(Refusal { why: RefusalReason::WrongState(_), .. }));
                let Some(body) = self.cancelled(branch, reply.is_ok() || over) else { return };
                (broker, body)
            }
            (Waiting::Call(broker, wish), reply) => {
                let handle = match reply {
                    Ok(CallResult::Reservation(view)) => Some(view.handle),
                    _ => None,
                };
                (broker, Body::Answered { wish, handle })
            }
            (Waiting::Look(broker, wish), Ok(CallResult::List { views, .. })) => {
                let open = views.iter().any(|view| view.promise.is_some());
                let booked = views.iter().filter(|view| view.state.is_booked()).map(|view| view.handle).collect();
                (broker, Body::Looked { wish, booked, open })
            }
            // No answer: who asked asks again.
            (Waiting::Acknowledge(..) | Waiting::Promises(..) | Waiting::Look(..), _) => return,
        };
        let (from, to) = (Place::Agent(self.number), Place::Broker(broker));
        said.push(AgentOutput::Send(Box::new(Message { from, to, body })));
    }

    /// Carries out an order: cancels what the list has. The answer, if there is nothing to cancel.
    fn order(
        &mut self,
        broker: usize,
        branch: Branch,
        caller: &Caller,
        reply: Reply,
        inputs: &mut VecDeque<node::io::Input<'static>>,
    ) -> Option<Body> {
        let Ok(CallResult::List { views, .. }) = reply else { return None };
        if views.is_empty() {
            return Some(Body::Done { branch });
        }
        let refused = self.orders.remove(&branch).is_some_and(|(_, refused)| refused);
        self.orders.insert(branch, (views.len(), refused));
        for view in views {
            self.next_call += 1;
            let id = CallId(self.next_call);
            self.calls.insert(id, Waiting::OrderCancel(broker, branch));
            let call = Call::Cancel(view.handle);
            inputs.push_back(node::io::Input::Booking(Input::Call { id, caller: Box::new(caller.clone()), call }));
        }
        None
    }

    fn cancelled(&mut self, branch: Branch, done: bool) -> Option<Body> {
        let (left, refused) = self.orders.get_mut(&branch)?;
        *left -= 1;
        *refused |= !done;
        if *left > 0 {
            return None;
        }
        let (_, refused) = self.orders.remove(&branch)?;
        // Otherwise the broker orders it again.
        (!refused).then_some(Body::Done { branch })
    }
}

/// The part of a transaction that a record is about, if it is one: true if the change was made, and true if this agent
/// alone decided so.
pub(super) fn branch(table: RecordTable, key: &[u8], value: Option<&[u8]>) -> Option<(Branch, Option<bool>, bool)> {
    if table != RecordTable::Promise || key.first() != Some(&1) {
        return None;
    }
    match ParticipantRecord::read(key, value?) {
        Ok(ParticipantRecord::Branch { branch, made, alone, .. }) => Some((branch, made, alone)),
        _ => None,
    }
}

fn promised(reply: Reply) -> Vec<(Branch, usize, Handle)> {
    let Ok(CallResult::List { views, .. }) = reply else { return Vec::new() };
    let promise = |view: BookingView| {
        let promise = view.promise?;
        Some((promise.branch, number(&promise.coordinator), view.handle))
    };
    views.into_iter().filter_map(promise).collect()
}

fn of_group(group: String) -> booking::io::Matching {
    booking::io::Matching { group: Some(group), ..booking::io::Matching::default() }
}

fn operator() -> Caller {
    Caller { name: "root".to_owned(), groups: Vec::new(), role: CallerRole::Operator, token: None }
}

/// Two callers may reserve, one of them within a sum; all others may not.
fn policy() -> Policy {
    let rule = |name: &str, limits: Limits| Rule {
        name: name.to_owned(),
        who: NamePattern::new(name).into_iter().map(Who::Name).collect(),
        effect: Effect::Allow(limits),
        ..Rule::default()
    };
    let together = Limits { amount: None, together: Some(3_500_000), ..Limits::default() };
    let policy = Policy::new(vec![rule("ann", Limits::default()), rule("bob", together)]);
    policy.unwrap_or_else(|_| unreachable!("two rules"))
}
