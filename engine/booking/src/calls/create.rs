//! `create` (GARA section 3.1): all parts, or none.

use super::{Outcome, Proposal};
use crate::admission::{Judge, Permission, Plan, Room, check_text, free_to_bind, rules, rules_of, sought};
use crate::calendar::Calendar;
use crate::config::Config;
use crate::draw::digest;
use crate::io::{BookingRequest, EventKind, When};
use crate::journal::{Change, Decided};
use crate::notice::Notice;
use crate::record::{AuditedAsk, write_binding, write_meter};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Grant, KeyMark, Number, Part, Reservation, Reservations};
use crate::slots;
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::book::{Binding, Caller, RateStep, ResourceId, Task};
use terms::codec::RecordWriter;
use terms::ports::book::{NoRoom, SlotKey};
use terms::ports::{Ledger, PolicyPort};
use terms::{Span, Time};

/// A step that the ledger refused after all.
struct Failed {
    part: usize,
    step: RateStep,
    why: NoRoom,
}

/// A request for a reservation.
pub(crate) struct Request<'a> {
    caller: &'a Caller,
    ask: &'a BookingRequest,
    /// The length of the hold; `None`: it has no deadline.
    hold: Option<Span>,
    /// The state in which it is made.
    state: BookingState,
    /// `None`: the request has no key.
    mark: Option<KeyMark>,
}

/// The reservation that an earlier request with the same key has made.
pub(crate) enum Earlier {
    /// It is not written yet.
    Unborn(Number),
    /// It was made by the same request: the answer is the same.
    Same(Number),
    /// There is a refusal.
    Refused(Refusal),
}

impl<'a> Request<'a> {
    pub(crate) fn new(caller: &'a Caller, ask: &'a BookingRequest, hold: Option<Span>, key: &str) -> Request<'a> {
        let mark = (!key.is_empty()).then(|| KeyMark { digest: digest(&request(ask, hold)), key: key.into() });
        let state = if hold.is_some() { BookingState::Held } else { BookingState::Booked };
        Request { caller, ask, hold, state, mark }
    }

    /// The same, to be promised to a coordinator.
    pub(crate) fn promised(caller: &'a Caller, ask: &'a BookingRequest, key: &str) -> Request<'a> {
        Request { state: BookingState::Promised, ..Request::new(caller, ask, None, key) }
    }

    /// The reservation that this owner created with this key.
    pub(crate) fn earlier(&self, table: &Reservations) -> Option<Earlier> {
        let mark = self.mark.as_ref()?;
        let owner = table.owners().find(&self.caller.name)?;
        let r = table.get(table.of_key(owner, &mark.key)?)?;
        let same = r.key.as_deref() == Some(mark);
        let refused = |why| Some(Earlier::Refused(Refusal::plain(why)));
        match () {
            () if r.unborn => Some(Earlier::Unborn(r.number)),
            () if same && r.state.is_over() => refused(RefusalReason::KeyOver { handle: r.handle, state: r.state }),
            () if same => Some(Earlier::Same(r.number)),
            () => refused(RefusalReason::KeyUsed),
        }
    }

    /// Makes the reservation, which counts from this moment.
    pub(crate) fn create<W: Ledger + PolicyPort>(
        mut self,
        table: &mut Reservations,
        world: &mut W,
        config: &Config,
        calendar: Calendar,
    ) -> Outcome<'a> {
        if let Err(refusal) = self.check(table, config, calendar) {
            return Outcome::no(refusal);
        }
        let asked = AuditedAsk::of(self.ask, calendar.today());
        let decided = Decided::new(self.caller, "create", None).asking(Some(asked));
        let mut by = Vec::new();
        let refusal = match self.admit(table, world, config, calendar, &mut by) {
            Ok(r) => return announce(table, calendar.today(), r, decided.by(by)),
            Err(refusal) => refusal,
        };
        if matches!(refusal.why, RefusalReason::Meaningless { .. } | RefusalReason::NoResource { .. }) {
            return Outcome::no(refusal);
        }
        let decided = decided.by(by).by(rules_of(&refusal));
        Outcome::Refused(refusal, decided)
    }

    fn check(&self, table: &Reservations, config: &Config, calendar: Calendar) -> Result<(), Refusal> {
        check_text("key", self.mark.as_ref().map_or("", |mark| &mark.key), config)?;
        check_text("owner", &self.caller.name, config)?;
        calendar.is_certain(config.uncertainty)?;
        let limit = |what, limit| Err(Refusal::plain(RefusalReason::Limit { what, limit }));
        if self.hold.is_some_and(|hold| hold == Span::ZERO || hold > config.hold) {
            let most = config.hold.as_nanos() / Span::NANOS_PER_SEC;
            return Err(Refusal::meaningless(
                None,
                alloc::format!("a hold lasts more than nothing and {most} s at most"),
            ));
        }
        if table.live() >= config.reservations {
            return limit("reservations", config.reservations);
        }
        let owners = table.owners();
        let Some(owner) = owners.find(&self.caller.name).map(|owner| owners.get(owner)) else { return Ok(()) };
        if owner.live() >= config.of_owner {
            return limit("reservations of one owner", config.of_owner);
        }
        if self.hold.is_some() && owner.held() >= config.holds {
            return limit("holds of one owner", config.holds);
        }
        Ok(())
    }

    /// Finds room, asks policy, and books; `by`: the rules that allowed it, also where the ledger then refuses.
    fn admit<W: Ledger + PolicyPort>(
        &mut self,
        table: &mut Reservations,
        world: &mut W,
        config: &Config,
        calendar: Calendar,
        by: &mut Vec<Box<str>>,
    ) -> Result<Reservation, Refusal> {
        let judge = Judge::new(world, table, calendar, self.caller);
        let (wanted, plan) = match Room::new(world, config, calendar).resolve(self.ask) {
            Ok(found) => found,
            Err(refusal) if matches!(refusal.why, RefusalReason::NoRoom { .. }) => {
                return Err(judge.denied_anyway(self.ask).unwrap_or(refusal));
            }
            Err(refusal) => return Err(refusal),
        };
        let granted = judge.permitted(&self.ask.label, &sought(&wanted, &plan))?;
        *by = rules(&granted);
        by.extend(judge.bindings(self.ask)?);
        for (n, steps) in plan.iter().enumerate() {
            self.not_bound_twice(table, n, steps)?;
        }
        let ids: Vec<(ResourceId, u32)> = wanted.iter().map(|part| (part.id(), part.packet())).collect();
        drop(wanted);
        let firm = self.state == BookingState::Booked;
        let slots = book(world, calendar, (&ids, firm), self.ask, &plan).map_err(|failed| refused(self.ask, failed))?;
        let grants = granted.into_iter().map(Permission::into_grant).collect();
        Ok(self.reservation(table, world, calendar.today(), plan, slots, grants))
    }

    /// Checks that no two parts whose windows meet have the same binding.
    fn not_bound_twice(&self, table: &Reservations, n: usize, steps: &[RateStep]) -> Result<(), Refusal> {
        let part = &self.ask.parts[n];
        match part.binding.as_ref().zip(table.resources().find(&part.resource)) {
            Some((binding, resource)) => free_to_bind(table, self.caller, n, (resource, binding), steps, None),
            None => Ok(()),
        }
    }

    fn reservation<L: Ledger>(
        &mut self,
        table: &mut Reservations,
        ledger: &L,
        today: Time,
        plan: Plan,
        slots: Vec<Vec<SlotKey>>,
        granted: Vec<Grant>,
    ) -> Reservation {
        let ask = self.ask;
        let each = ask.parts.iter().zip(plan).zip(slots).zip(granted);
        let part = |(((part, steps), slots), grant): (((&crate::PartAsk, _), _), _)| Part {
            resource: table.name_resource(&part.resource, ledger),
            steps,
            slots,
            background: part.background,
            shape: part.shape,
            binding: part.binding.clone(),
            grant: table.name_grant(grant),
        };
        let parts = each.map(part).collect();
        Reservation {
            handle: table.new_handle(),
            number: table.next_number(),
            owner: table.name_owner(&self.caller.name),
            label: ask.label.as_str().into(),
            group: ask.group.as_str().into(),
            members: ask.members.iter().map(|member| member.as_str().into()).collect(),
            key: self.mark.take().map(Box::new),
            created: today,
            over: Time::ZERO,
            version: 1,
            state: self.state,
            hold_until: self.hold.map_or(Time::ZERO, |hold| today.saturating_add(hold)),
            notice: ask.notice.as_deref().copied().map(Notice::new),
            parts,
            busy: None,
            promise: None,
            look: Time::FOREVER,
            unborn: true,
        }
    }
}

/// Puts a new reservation into the table, to be written.
fn announce<'a>(table: &mut Reservations, today: Time, mut r: Reservation, decided: Decided<'a>) -> Outcome<'a> {
    let mut events = alloc::vec![EventKind::Created(r.state)];
    if r.state == BookingState::Booked && r.is_open(today) {
        r.state = BookingState::Active;
        events.push(EventKind::Opened);
    }
    let (change, decided) = (Change::Create(r.number), decided.about(r.handle));
    table.insert(r);
    Outcome::Change(Proposal { next: None, change, events, decided })
}

/// Books every step of every foreground part, or nothing; if it is not firm, it is held.
fn book<L: Ledger>(
    ledger: &mut L,
    calendar: Calendar,
    (ids, firm): (&[(ResourceId, u32)], bool),
    ask: &BookingRequest,
    plan: &Plan,
) -> Result<Vec<Vec<SlotKey>>, Failed> {
    let mut slots: Vec<Vec<SlotKey>> = alloc::vec![Vec::new(); plan.len()];
    for (part, steps) in plan.iter().enumerate().filter(|(n, _)| ask.parts[*n].background.is_none()) {
        let (id, packet) = ids[part];
        for step in steps {
            let slot = match firm {
                true => slots::book(ledger, calendar, id, packet, step),
                false => slots::hold(ledger, calendar, id, packet, step),
            };
            match slot {
                Ok(slot) => slots[part].push(slot),
                Err(why) => {
                    let taken = ids.iter().zip(slots);
                    taken.for_each(|((id, _), slots)| {
                        slots.into_iter().for_each(|slot| ledger.release(calendar.now(), *id, slot));
                    });
                    return Err(Failed { part, step: *step, why });
                }
            }
        }
    }
    Ok(slots)
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
    let mut w = RecordWriter::default();
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
    let time = |w: &mut RecordWriter, t: &Option<Time>| w.option(t, |w, t| w.number(t.as_nanos()));
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
    // The same: a request without meters is the one that it was.
    if ask.parts.iter().any(|part| part.shape.meter.is_some()) {
        w.list(&ask.parts, |w, part| w.option(&part.shape.meter, write_meter));
    }
    // The same: a request without a notice is the one that it was.
    ask.notice.iter().for_each(|notice| w.number(notice.as_nanos()));
    w.into_bytes()
}
