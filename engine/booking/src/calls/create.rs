//! `create` (GARA section 3.1): all parts, or none.

use super::permit::{Sought, rules_of};
use crate::ask::{Plan, Room, Wanted, check_text};
use crate::broker::Bookings;
use crate::codec::Writer;
use crate::draw::digest;
use crate::grants::Grant;
use crate::io::{BookingRequest, CallId, CallResult, EventKind, When};
use crate::journal::{Decided, Written};
use crate::record::write_binding;
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::{KeyMark, Number, Part, Reservation};
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::book::{Binding, Caller, Handle, RateStep, ResourceId, Task};
use terms::ports::book::{Demand, NoRoom, SlotKey};
use terms::ports::{Ledger, PolicyPort};
use terms::{Span, Time};

/// A step that the ledger refused after all.
struct Failed {
    part: usize,
    step: RateStep,
    why: NoRoom,
}

impl Bookings {
    pub(crate) fn create<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        caller: Caller,
        ask: BookingRequest,
        hold: Option<Span>,
        key: alloc::string::String,
    ) {
        let mark =
            (!key.is_empty()).then(|| KeyMark { digest: digest(&request(&ask, hold)), key: key.as_str().into() });
        if let Some(number) = self.same_key(&caller, &key) {
            let Some(r) = self.all.get(&number) else { return };
            let same = r.key.as_deref() == mark.as_ref();
            if r.unborn {
                return self.wait(number, id, caller, crate::io::Call::Create { ask, hold, key });
            }
            if same && r.state.is_over() {
                let (handle, state) = (r.handle, r.state);
                return self.reply(id, Err(Refusal::plain(RefusalReason::KeyOver { handle, state })));
            }
            let view = self.view(world, number).filter(|_| same).map(CallResult::Reservation);
            return self.reply(id, view.ok_or_else(|| Refusal::plain(RefusalReason::KeyUsed)));
        }
        if let Err(refusal) = self.may_create(&caller, hold, &key) {
            return self.reply(id, Err(refusal));
        }
        let mut decided = Decided { caller: &caller, verb: "create", handle: None, rules: Vec::new() };
        match self.create_now(world, &caller, &ask, hold, mark, &mut decided.rules) {
            Ok(number) => self.announce(number, id, &mut decided),
            Err(refusal)
                if matches!(refusal.why, RefusalReason::Meaningless { .. } | RefusalReason::NoResource { .. }) =>
            {
                self.reply(id, Err(refusal));
            }
            Err(refusal) => {
                decided.rules.extend(rules_of(&refusal));
                self.refuse(id, refusal, &decided);
            }
        }
    }

    /// The reservation that this owner created with this key.
    fn same_key(&self, caller: &Caller, key: &str) -> Option<Number> {
        if key.is_empty() {
            return None;
        }
        let owner = self.owners.find(&caller.name)?;
        self.keys.get(&(owner, key.into())).copied()
    }

    fn may_create(&self, caller: &Caller, hold: Option<Span>, key: &str) -> Result<(), Refusal> {
        check_text("key", key, &self.config)?;
        check_text("owner", &caller.name, &self.config)?;
        self.clock_is_good()?;
        let limit = |what, limit| Err(Refusal::plain(RefusalReason::Limit { what, limit }));
        if hold.is_some_and(|hold| hold == Span::ZERO || hold > self.config.hold) {
            let most = self.config.hold.as_nanos() / Span::NANOS_PER_SEC;
            return Err(Refusal::meaningless(
                None,
                alloc::format!("a hold lasts more than nothing and {most} s at most"),
            ));
        }
        if self.live >= self.config.reservations {
            return limit("reservations", self.config.reservations);
        }
        let Some(owner) = self.owners.find(&caller.name).map(|owner| self.owners.get(owner)) else { return Ok(()) };
        if owner.live >= self.config.of_owner {
            return limit("reservations of one owner", self.config.of_owner);
        }
        if hold.is_some() && owner.held >= self.config.holds {
            return limit("holds of one owner", self.config.holds);
        }
        Ok(())
    }

    fn create_now<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        caller: &Caller,
        ask: &BookingRequest,
        hold: Option<Span>,
        mark: Option<KeyMark>,
        rules: &mut Vec<Box<str>>,
    ) -> Result<Number, Refusal> {
        let today = self.today();
        let room = Room { ledger: world, clock: self.clock, config: &self.config, today };
        let (wanted, plan) = match room.resolve(ask) {
            Ok(found) => found,
            Err(refusal) if matches!(refusal.why, RefusalReason::NoRoom { .. }) => {
                return Err(self.denied_anyway(world, caller, ask).unwrap_or(refusal));
            }
            Err(refusal) => return Err(refusal),
        };
        let whose = self.owners.find(&caller.name);
        let granted = self.permitted(world, caller, whose, &ask.label, &sought(&wanted, &plan), 1)?;
        *rules = super::permit::rules(&granted);
        rules.extend(self.may_bind_all(world, caller, ask)?);
        for (n, part) in wanted.iter().enumerate() {
            self.not_bound_twice(caller, n, part, &plan[n])?;
        }
        let ids: Vec<(ResourceId, u32)> = wanted.iter().map(|part| (part.id, part.packet())).collect();
        drop(wanted);
        let slots = self.book(world, &ids, ask, &plan).map_err(|failed| refused(ask, failed))?;
        let state = if hold.is_some() { BookingState::Held } else { BookingState::Booked };
        let r = Reservation {
            handle: self.new_handle(),
            number: self.next_number,
            owner: self.owners.place(&caller.name),
            label: ask.label.as_str().into(),
            group: ask.group.as_str().into(),
            members: ask.members.iter().map(|member| member.as_str().into()).collect(),
            key: mark.map(Box::new),
            created: today,
            over: Time::ZERO,
            version: 1,
            state,
            hold_until: hold.map_or(Time::ZERO, |hold| today.saturating_add(hold)),
            parts: self.parts(world, ask, plan, slots, granted),
            busy: None,
            look: Time::FOREVER,
            unborn: true,
        };
        self.next_number += 1;
        let number = r.number;
        self.count(r);
        Ok(number)
    }

    /// A handle that no reservation has, even if a driver used a seed twice.
    fn new_handle(&mut self) -> Handle {
        loop {
            let handle = self.draw.handle();
            if !self.handles.contains_key(&handle) {
                return handle;
            }
        }
    }

    fn parts<L: Ledger>(
        &mut self,
        ledger: &L,
        ask: &BookingRequest,
        plan: Plan,
        slots: Vec<Vec<SlotKey>>,
        granted: Vec<Grant>,
    ) -> Vec<Part> {
        let each = ask.parts.iter().zip(plan).zip(slots).zip(granted);
        each.map(|(((part, steps), slots), grant)| Part {
            resource: self.resources.place(&part.resource, ledger),
            steps,
            slots,
            background: part.background,
            shape: part.shape,
            binding: part.binding.clone(),
            grant: self.grants.place(grant),
        })
        .collect()
    }

    /// Books every step of every foreground part, or nothing.
    fn book<L: Ledger>(
        &self,
        ledger: &mut L,
        ids: &[(ResourceId, u32)],
        ask: &BookingRequest,
        plan: &Plan,
    ) -> Result<Vec<Vec<SlotKey>>, Failed> {
        let mut slots: Vec<Vec<SlotKey>> = alloc::vec![Vec::new(); plan.len()];
        for (part, steps) in plan.iter().enumerate().filter(|(n, _)| ask.parts[*n].background.is_none()) {
            let (id, packet) = ids[part];
            for step in steps {
                let window = self.clock.agents_window(step.window).unwrap_or(step.window);
                match ledger.book(self.now, id, window, Demand { amount: step.amount, packet }) {
                    Ok(slot) => slots[part].push(slot),
                    Err(why) => {
                        let taken = ids.iter().zip(slots);
                        taken.for_each(|((id, _), slots)| {
                            slots.into_iter().for_each(|slot| ledger.release(self.now, *id, slot));
                        });
                        return Err(Failed { part, step: *step, why });
                    }
                }
            }
        }
        Ok(slots)
    }

    /// Writes the batch that creates it.
    fn announce(&mut self, number: Number, id: CallId, decided: &mut Decided<'_>) {
        let today = self.today();
        let Some(mut r) = self.all.remove(&number) else { return };
        let mut whats = alloc::vec![EventKind::Created(r.state)];
        if r.state == BookingState::Booked && r.is_open(today) {
            r.state = BookingState::Active;
            whats.push(EventKind::Opened);
        }
        decided.handle = Some(r.handle);
        r.busy = Some(self.write(&r, Written::Create(number), &whats, id, decided));
        self.all.insert(number, r);
    }

    /// Checks that no two parts whose windows meet have the same binding.
    pub(crate) fn not_bound_twice(
        &self,
        caller: &Caller,
        n: usize,
        part: &Wanted<'_>,
        steps: &[RateStep],
    ) -> Result<(), Refusal> {
        let (Some(binding), Some(resource)) = (&part.ask.binding, self.resources.find(&part.ask.resource)) else {
            return Ok(());
        };
        self.free_to_bind(caller, n, resource, binding, steps, None)
    }
}

fn refused(ask: &BookingRequest, failed: Failed) -> Refusal {
    let Failed { part, step, why } = failed;
    let resource = ask.parts[part].resource.clone();
    Refusal::plain(match why {
        NoRoom::Full { free } => {
            RefusalReason::NoRoom { part, resource, asked: step.amount, free, window: step.window }
        }
        NoRoom::Limit { limit } => RefusalReason::Limit { what: "slots of a resource", limit },
        NoRoom::Gone => RefusalReason::NoResource { part, name: resource },
        NoRoom::Meaningless(misuse) => {
            return Refusal::meaningless(Some(part), alloc::string::ToString::to_string(&misuse));
        }
    })
}

pub(crate) fn sought<'a>(wanted: &'a [Wanted<'_>], plan: &'a Plan) -> Vec<Sought<'a>> {
    let part = |(wanted, steps): (&'a Wanted<'_>, &'a Vec<RateStep>)| Sought {
        resource: &wanted.ask.resource,
        background: wanted.ask.background.is_some(),
        steps,
    };
    wanted.iter().zip(plan).map(part).collect()
}

/// A binding as the caller stated it, without the start of a process or thread, which the machine adds.
fn as_asked(binding: &Binding) -> Binding {
    match binding {
        Binding::Process(task) => Binding::Process(Task::numbered(task.number)),
        Binding::Thread(task) => Binding::Thread(Task::numbered(task.number)),
        other => other.clone(),
    }
}

/// The request as bytes, by which a repeated request is distinguished from another.
fn request(ask: &BookingRequest, hold: Option<Span>) -> Vec<u8> {
    let mut w = Writer::default();
    w.list(&ask.parts, |w, part| {
        w.text(&part.resource);
        w.number(part.amount);
        w.number(part.least);
        w.option(&part.background, |w, b| {
            w.number(b.weight.into());
            w.number(b.floor);
        });
        w.number(part.shape.packet.into());
        w.number(part.shape.rtt.as_nanos());
        w.option(&part.binding.as_ref().map(as_asked), write_binding);
    });
    let time = |w: &mut Writer, t: &Option<Time>| w.option(t, |w, t| w.number(t.as_nanos()));
    match &ask.when {
        When::Window { start, end } => {
            w.byte(0);
            time(&mut w, start);
            time(&mut w, end);
        }
        When::Now { span } => {
            w.byte(1);
            w.number(span.as_nanos());
        }
        When::Earliest { span, not_before, by } => {
            w.byte(2);
            w.number(span.as_nanos());
            time(&mut w, not_before);
            time(&mut w, by);
        }
        When::Volume { bytes, not_before, deadline } => {
            w.byte(3);
            w.number(*bytes);
            time(&mut w, not_before);
            w.number(deadline.as_nanos());
        }
        When::Series { windows, may_fail } => {
            w.byte(4);
            w.list(windows, |w, window| {
                w.number(window.start().as_nanos());
                w.number(window.end().as_nanos());
            });
            w.list(may_fail, |w, n| w.number(*n as u64));
        }
    }
    w.text(&ask.label);
    w.text(&ask.group);
    // Where there are none the bytes are as they were before there were members.
    ask.members.iter().for_each(|member| w.text(member));
    w.option(&hold, |w, hold| w.number(hold.as_nanos()));
    w.bytes
}
