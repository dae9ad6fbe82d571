//! Conversion from outputs of the booking engine to documents.

use booking::io::{CallResult, Enquired, EventKind};
use booking::promise::PromiseList;
use booking::refusal::AlternativeKind;
use booking::view::{Enforced, PromiseView};
use booking::{BookingView, Event, PartView, Refusal, RefusalReason, ResourceView};
use commit::{Branch, Epoch};
use documents::agent::Problem;
use documents::book::{
    AlternativeDoc, AlternativeWord, BackgroundDoc, BookAnswer, BookEvent, BookEvents, EnforcementWord, EnquiredDoc,
    EpochDoc, GuaranteeWord, Instant, MeterDoc, PartRow, PromiseDoc, PromiseRow, PromiseRows, RefusalDoc,
    ReservationDoc, ResourceRow, StepDoc, amount, unit,
};
use terms::book::{Guarantee, RateStep, ResourceKind};
use terms::{Span, Time};

fn guarantee(guarantee: Guarantee) -> String {
    match guarantee {
        Guarantee::Reserved => GuaranteeWord::Reserved,
        Guarantee::Cap => GuaranteeWord::Cap,
    }
    .to_string()
}

fn steps(kind: ResourceKind, steps: &[RateStep]) -> Vec<StepDoc> {
    let row = |step: &RateStep| StepDoc {
        start: Instant(step.window.start()),
        end: Some(step.window.end()).filter(|end| *end != Time::FOREVER).map(Instant),
        amount: amount(kind, step.amount),
    };
    steps.iter().map(row).collect()
}

fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// A reservation.
pub fn reservation(view: BookingView) -> ReservationDoc {
    ReservationDoc {
        handle: view.handle.text(),
        owner: view.owner,
        label: view.label,
        group: view.group,
        members: view.members,
        state: view.state.name().to_owned(),
        hold_until: view.hold_until.map(Instant),
        notify_s: view.notice.map(|notice| notice.as_nanos() as f64 / 1e9),
        created: Instant(view.created),
        version: view.version,
        promise: view.promise.map(promise),
        parts: view.parts.into_iter().map(part_row).collect(),
        more: false,
    }
}

fn promise(view: PromiseView) -> PromiseDoc {
    PromiseDoc {
        transaction: view.branch.transaction.to_string(),
        member: view.branch.member,
        coordinator: view.coordinator.into(),
        change: view.change.to_owned(),
        clock_ns: view.now.as_nanos(),
    }
}

fn promises(list: PromiseList) -> PromiseRows {
    let row = |(branch, epoch): (Branch, u64)| PromiseRow {
        transaction: branch.transaction.to_string(),
        member: branch.member,
        epoch,
    };
    PromiseRows { rows: list.promises.into_iter().map(row).collect(), more: list.more, clock_ns: list.now.as_nanos() }
}

fn part_row(part: PartView) -> PartRow {
    let (enforced, fault) = match part.enforced {
        Enforced::Idle => (EnforcementWord::Idle, None),
        Enforced::Unbound => (EnforcementWord::Unbound, None),
        Enforced::Pending => (EnforcementWord::Pending, None),
        Enforced::InForce => (EnforcementWord::InForce, None),
        Enforced::Failed(why) => (EnforcementWord::Failed, Some(why)),
    };
    let kind = part.kind;
    PartRow {
        resource: part.resource,
        unit: unit(kind).to_owned(),
        kind: part.guarantee.map(guarantee),
        steps: steps(kind, &part.steps),
        background: part.background.map(|b| BackgroundDoc { weight: b.weight, floor: amount(kind, b.floor) }),
        packet_bytes: part.shape.packet,
        rtt_ms: millis(part.shape.rtt),
        meter: part.shape.meter.as_ref().map(MeterDoc::of),
        binding: part.binding.map(Into::into),
        asked: amount(kind, part.asked),
        now: amount(kind, part.now),
        installed: amount(kind, part.installed),
        // The enforcing layer fills these in.
        means: None,
        measured: None,
        colors: None,
        enforced: enforced.to_string(),
        fault,
    }
}

pub(super) fn resource_row(view: ResourceView) -> ResourceRow {
    let kind = view.kind;
    ResourceRow {
        resource: view.name,
        unit: unit(kind).to_owned(),
        kind: guarantee(view.guarantee),
        capacity: amount(kind, view.capacity),
        free: amount(kind, view.free),
        background: amount(kind, view.background),
        background_now: amount(kind, view.lent),
        reservations: view.reservations,
        missing: view.missing.map(|(_, missing)| amount(kind, missing)),
        missing_from: view.missing.map(|(first, _)| Instant(first)),
        timeline: steps(kind, &view.timeline),
        more: false,
        next: false,
    }
}

fn enquired(said: Enquired) -> EnquiredDoc {
    EnquiredDoc {
        accepted: said.granted.is_some(),
        granted: said.granted.iter().flatten().map(|part| steps(part.kind, &part.steps)).collect(),
        refusal: said.refusal.as_ref().map(refused),
        free: said.parts.iter().map(|part| amount(part.kind, part.free)).collect(),
        kinds: said.parts.iter().map(|part| guarantee(part.guarantee)).collect(),
    }
}

/// The answer to a call.
pub fn answer(result: CallResult) -> BookAnswer {
    match result {
        CallResult::Enquired(said) => BookAnswer::Enquired(enquired(said)),
        CallResult::Reservation(view) => BookAnswer::Reservation(reservation(view)),
        CallResult::List { views, more } => {
            BookAnswer::Reservations { rows: views.into_iter().map(reservation).collect(), more }
        }
        CallResult::Events { events, last, lost } => {
            BookAnswer::Events(BookEvents { events: events.into_iter().map(event).collect(), last, lost })
        }
        CallResult::Promises(list) => BookAnswer::Promises(promises(list)),
        CallResult::Nothing => BookAnswer::Nothing,
        CallResult::Resources(views) => BookAnswer::Resources(views.into_iter().map(resource_row).collect()),
    }
}

/// A refusal as a problem of the socket, with its document.
pub fn problem(refusal: &Refusal) -> Problem {
    let doc = refused(refusal);
    let kind = match refusal.why {
        RefusalReason::Meaningless { .. } => "misuse",
        RefusalReason::NotWritten { .. } => "fault",
        _ => "refused",
    };
    Problem { kind: kind.to_owned(), message: doc.message.clone(), refusal: Some(Box::new(doc)) }
}

fn refused(refusal: &Refusal) -> RefusalDoc {
    let alternative = |alternative: &booking::Alternative| AlternativeDoc {
        sort: match alternative.sort {
            AlternativeKind::Later => AlternativeWord::Later,
            AlternativeKind::Slower => AlternativeWord::Slower,
            AlternativeKind::Shorter => AlternativeWord::Shorter,
        }
        .to_string(),
        parts: alternative.parts.iter().map(|part| steps(part.kind, &part.steps)).collect(),
        resources: Vec::new(),
    };
    let mut doc = RefusalDoc {
        reason: refusal.why.name().to_owned(),
        message: words(&refusal.why),
        part: None,
        resource: None,
        asked: None,
        free: None,
        start: None,
        end: None,
        rule: None,
        known: None,
        alternatives: refusal.alternatives.iter().map(alternative).collect(),
    };
    match &refusal.why {
        RefusalReason::NoRoom { part, resource, asked, free, window } => {
            let kind = ResourceKind::of(resource);
            (doc.part, doc.resource) = (Some(*part), Some(resource.clone()));
            (doc.asked, doc.free) = (Some(amount(kind, *asked)), Some(amount(kind, *free)));
            doc.start = Some(Instant(window.start()));
            doc.end = Some(window.end()).filter(|end| *end != Time::FOREVER).map(Instant);
        }
        RefusalReason::Policy { part, rule, .. } => (doc.part, doc.rule) = (Some(*part), Some(rule.clone())),
        RefusalReason::NoResource { part, name } => (doc.part, doc.resource) = (Some(*part), Some(name.clone())),
        RefusalReason::Meaningless { part, .. } => doc.part = *part,
        RefusalReason::Taken { part, until, .. } => {
            doc.part = Some(*part);
            doc.end = Some(*until).filter(|end| *end != Time::FOREVER).map(Instant);
        }
        RefusalReason::Outdated { known } => {
            let Epoch { number, decisions, nonce } = *known;
            doc.known = Some(EpochDoc { number, decisions, nonce });
        }
        _ => {}
    }
    doc
}

fn words(why: &RefusalReason) -> String {
    match why {
        RefusalReason::NoRoom { resource, asked, free, window, .. } => {
            let kind = ResourceKind::of(resource);
            let (asked, free) = (amount(kind, *asked), amount(kind, *free));
            let (start, end) = (Instant(window.start()), Instant(window.end()));
            format!("{resource}: asked {asked} {unit}, free {free} from {start} to {end}", unit = unit(kind))
        }
        RefusalReason::Policy { rule, text, .. } if rule.is_empty() => {
            format!("no rule of the policy allows it: {text}")
        }
        RefusalReason::Policy { rule, text, .. } => format!("the policy's rule {rule:?} says no: {text}"),
        RefusalReason::NoResource { name, .. } => format!("no resource {name:?} here: `sluice calendar` shows all"),
        RefusalReason::UnknownHandle => "no such reservation".to_owned(),
        RefusalReason::WrongState(state) => format!("not possible: the reservation is {}", state.name()),
        RefusalReason::KeyUsed => "this idempotency key was used for another request".to_owned(),
        RefusalReason::KeyOver { handle, state } => format!(
            "what this idempotency key made, {}, is {}: use another key for another reservation",
            handle.text(),
            state.name()
        ),
        RefusalReason::Taken { by, until, .. } => {
            let whose = by.as_ref().map_or("a reservation of somebody else's".to_owned(), |(handle, owner)| {
                format!("reservation {} of {owner}", handle.text())
            });
            let until =
                if *until == Time::FOREVER { "for ever".to_owned() } else { format!("until {}", Instant(*until)) };
            format!(
                "these packets or processes belong to {whose} {until}: cancel that, or take others (another port), or another time"
            )
        }
        RefusalReason::Limit { what, limit } => format!("{what}: the limit of {limit} is reached"),
        RefusalReason::Meaningless { part: Some(part), text } => format!("part {part}: {text}"),
        RefusalReason::Meaningless { part: None, text } => text.clone(),
        RefusalReason::Clock { uncertainty, bound } => format!(
            "the clock may be off by {:.0} ms, and {:.0} ms are allowed: is time synchronised?",
            millis(*uncertainty),
            millis(*bound)
        ),
        RefusalReason::NotWritten { text } => format!("it could not be written down and is undone: {text}"),
        RefusalReason::Undecided { coordinator, transaction } => format!(
            "a change of it is promised to the broker {coordinator} in transaction {transaction}: wait for its decision; \
             if that broker is gone for ever, an operator decides with `sluice resolve`"
        ),
        RefusalReason::Outdated { known } => format!(
            "a newer start of this broker is known here (number {}, {} decisions): is its journal an older copy, or \
             does another process have its name?",
            known.number, known.decisions
        ),
        RefusalReason::NotPromised { text } => format!("it is not promised: {text}"),
        RefusalReason::Starting => "the book is still being read: try again in a moment".to_owned(),
    }
}

/// An event.
pub fn event(event: Event) -> BookEvent {
    let mut doc = BookEvent {
        seq: event.seq,
        at: Instant(event.at),
        handle: event.handle.text(),
        owner: event.owner,
        group: event.group,
        event: event.what.name().to_owned(),
        part: None,
        from: None,
        to: None,
        binding: None,
        text: None,
    };
    match event.what {
        EventKind::Created(state) => doc.text = Some(state.name().to_owned()),
        EventKind::Bound { part, binding } => (doc.part, doc.binding) = (Some(part), binding.map(Into::into)),
        EventKind::Share { part, kind, from, to } => {
            doc.part = Some(part);
            (doc.from, doc.to) = (Some(amount(kind, from)), Some(amount(kind, to)));
        }
        EventKind::Failing { part, text } => (doc.part, doc.text) = (Some(part), Some(text)),
        EventKind::InForce { part } => doc.part = Some(part),
        EventKind::Short { part, kind, first, missing } => {
            (doc.part, doc.to) = (Some(part), Some(amount(kind, missing)));
            doc.text = Some(Instant(first).to_string());
        }
        EventKind::EndsSoon { end } => doc.text = Some(Instant(end).to_string()),
        EventKind::Contradicted { committed } => {
            doc.text = Some(if committed { "committed" } else { "aborted" }.to_owned());
        }
        EventKind::Committed | EventKind::Modified | EventKind::Opened | EventKind::Paused | EventKind::Over(_) => {}
    }
    doc
}
