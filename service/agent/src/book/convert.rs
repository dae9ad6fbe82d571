//! Conversion from documents to inputs of the booking engine.

use booking::io::Matching;
use booking::promise::{DecideCall, PromisesCall};
use booking::{BookingRequest, BookingState, Call, PartAsk, PrepareAsk, PrepareCall, When};
use commit::coordinator::Serial;
use commit::{Branch, CoordinatorName, Decision, Epoch, TransactionId};
use documents::agent::{PrepareDoc, Problem, Request};
use documents::book::{
    AmountDoc, AskDoc, BookFilter, ChangeDoc, EpochDoc, PartDoc, PrepareAskDoc, WhenDoc, WindowDoc, scale,
};
use terms::book::{Background, Handle, PacketShape, ResourceKind};
use terms::{Span, Window};

/// The longest name of a coordinator, bytes. With it a key of the journal has at most 128 bytes.
pub(crate) const MAX_COORDINATOR: usize = 120;

/// The booking call that a request makes; `None`: the request is of another kind.
///
/// # Errors
/// `misuse`: the document is wrong.
pub fn call(request: &Request) -> Result<Option<Call>, Problem> {
    Ok(Some(match request {
        Request::BookEnquire(ask) => Call::Enquire(enquired(ask)?),
        Request::BookCreate(doc) => {
            let ask = asked(doc)?;
            doc.says_how_long()?;
            let hold = doc.hold_s.map(|s| seconds(s, "hold_s")).transpose()?;
            Call::Create { ask, hold, key: doc.key.clone() }
        }
        Request::BookCommit { handle, decided: false } => Call::Commit(handled(handle)?),
        Request::BookCommit { handle, decided: true } => Call::Decided(handled(handle)?),
        Request::BookModify { handle, change } => Call::Modify { handle: handled(handle)?, change: changed(change)? },
        Request::BookBind { handle, part, binding } => Call::Bind {
            handle: handled(handle)?,
            part: *part,
            binding: binding.as_ref().map(|binding| binding.clone().into()),
        },
        Request::BookCancel { handle } => Call::Cancel(handled(handle)?),
        Request::BookPrepare(doc) => Call::Prepare(Box::new(prepared(doc)?)),
        Request::BookDecide(doc) => Call::Decide(Box::new(DecideCall {
            branch: branch(&doc.transaction, doc.member)?,
            coordinator: coordinator(&doc.coordinator)?,
            epoch: epoch(doc.epoch),
            decision: doc.commit.map_or(Decision::Abort, |number| Decision::Commit { number }),
        })),
        Request::BookPromises(doc) => Call::Promises(PromisesCall {
            coordinator: coordinator(&doc.coordinator)?,
            epoch: epoch(doc.epoch),
            after: doc.after.as_ref().map(|(transaction, member)| branch(transaction, *member)).transpose()?,
        }),
        Request::BookResolve { handle, commit } => Call::Resolve { handle: handled(handle)?, commit: *commit },
        Request::BookShow { handle: Some(handle), .. } => Call::Show(handled(handle)?),
        Request::BookShow { handle: None, filter } => Call::List(matching(filter)?),
        Request::BookHistory { handle, after } => Call::History(handled(handle)?, *after),
        Request::BookFollow { after } => Call::Since { seq: after.unwrap_or(u64::MAX), most: 0 },
        Request::Resources { timeline, .. } => Call::Resources { timeline: timeline.map(window).transpose()? },
        _ => return Ok(None),
    }))
}

/// Converts a question for a promise.
fn prepared(doc: &PrepareDoc) -> Result<PrepareCall, Problem> {
    let ask = match &doc.ask {
        PrepareAskDoc::Create(ask) => {
            if ask.hold_s.is_some() {
                return Err(Problem::misuse("what is promised is not held: leave hold_s out"));
            }
            ask.says_how_long()?;
            PrepareAsk::Create { ask: asked(ask)?, key: ask.key.clone() }
        }
        PrepareAskDoc::Hold { handle } => PrepareAsk::Hold(handled(handle)?),
        PrepareAskDoc::Modify { handle, change } => {
            PrepareAsk::Modify { handle: handled(handle)?, change: changed(change)? }
        }
        PrepareAskDoc::Bind { handle, part, binding } => PrepareAsk::Bind {
            handle: handled(handle)?,
            part: *part,
            binding: binding.as_ref().map(|binding| binding.clone().into()),
        },
    };
    Ok(PrepareCall {
        branch: branch(&doc.transaction, doc.member)?,
        coordinator: coordinator(&doc.coordinator)?,
        epoch: epoch(doc.epoch),
        serial: Serial { number: doc.serial, floor: doc.floor },
        ask,
    })
}

fn branch(transaction: &str, member: u32) -> Result<Branch, Problem> {
    let wrong = || Problem::misuse(format!("{transaction:?} is no transaction: it has 32 digits, 0 to 9 and a to f"));
    Ok(Branch { transaction: TransactionId::parse(transaction).ok_or_else(wrong)?, member })
}

/// The name goes into logs, the audit and the journal's keys as it is.
fn coordinator(name: &str) -> Result<CoordinatorName, Problem> {
    if name.is_empty() || name.len() > MAX_COORDINATOR || !name.chars().all(|c| c.is_ascii_graphic()) {
        let what = format!("a coordinator's name has 1 to {MAX_COORDINATOR} visible ASCII characters");
        return Err(Problem::misuse(what));
    }
    Ok(name.into())
}

fn epoch(doc: EpochDoc) -> Epoch {
    Epoch { number: doc.number, decisions: doc.decisions, nonce: doc.nonce }
}

/// Parses a handle.
///
/// # Errors
/// `misuse`: the text is mistyped, or no handle at all.
pub fn handled(text: &str) -> Result<Handle, Problem> {
    Handle::parse(text).map_err(|bad| Problem::misuse(format!("{text:?} is no handle: {bad}")))
}

/// Converts a request for resources.
///
/// # Errors
/// `misuse`: the document is wrong.
pub fn asked(doc: &AskDoc) -> Result<BookingRequest, Problem> {
    read(doc, doc.when.volume.is_some())
}

/// Converts an enquiry. A part without an amount asks for the amount that is free.
///
/// # Errors
/// As [`asked`].
pub fn enquired(doc: &AskDoc) -> Result<BookingRequest, Problem> {
    read(doc, true)
}

/// Converts a request; with `open`, a part may leave its amount out.
fn read(doc: &AskDoc, open: bool) -> Result<BookingRequest, Problem> {
    let parts = doc.parts.iter().enumerate().map(|(n, part)| part_asked(n, part, open));
    Ok(BookingRequest {
        parts: parts.collect::<Result<_, _>>()?,
        when: when(&doc.when)?,
        label: doc.label.clone(),
        group: doc.group.clone(),
        members: doc.members.clone(),
        notice: doc.notify_s.map(|s| seconds(s, "notify_s").map(Box::new)).transpose()?,
    })
}

fn when(doc: &WhenDoc) -> Result<When, Problem> {
    let (start, mut end) = (doc.start.map(|i| i.0), doc.end.map(|i| i.0));
    let span = doc.duration_s.map(|s| seconds(s, "duration_s")).transpose()?;
    let ways = [doc.earliest, doc.volume.is_some(), !doc.windows.is_empty()];
    if ways.iter().filter(|way| **way).count() > 1 {
        return Err(Problem::misuse("earliest, volume and windows exclude each other: give one"));
    }
    if !doc.may_fail.is_empty() && doc.windows.is_empty() {
        return Err(Problem::misuse("may_fail names windows of a recurrence: give windows"));
    }
    if let Some(volume) = doc.volume {
        if end.is_some() || span.is_some() {
            return Err(Problem::misuse("a volume has a deadline, not an end"));
        }
        return Ok(When::Volume { bytes: volume.bytes, not_before: start, deadline: volume.deadline.0 });
    }
    if !doc.windows.is_empty() {
        if start.is_some() || end.is_some() || span.is_some() {
            return Err(Problem::misuse("windows have their own starts and ends"));
        }
        let windows = doc.windows.iter().map(|doc| window(*doc)).collect::<Result<_, _>>()?;
        return Ok(When::Series { windows, may_fail: doc.may_fail.clone() });
    }
    if doc.earliest {
        let span = span.ok_or_else(|| Problem::misuse("earliest needs duration_s: for how long?"))?;
        return Ok(When::Earliest { span, not_before: start, by: end });
    }
    if let Some(span) = span {
        if end.is_some() {
            return Err(Problem::misuse("end and duration_s exclude each other: give one"));
        }
        // Without a start the book counts from now, which it alone knows.
        match start {
            Some(start) => end = Some(start.saturating_add(span)),
            None => return Ok(When::Now { span }),
        }
    }
    Ok(When::Window { start, end })
}

fn part_asked(n: usize, doc: &PartDoc, open: bool) -> Result<PartAsk, Problem> {
    let kind = ResourceKind::of(&doc.resource);
    let of = |what: String| Problem::misuse(format!("part {n} ({}): {what}", doc.resource));
    let given = Given { rate: doc.rate, cores: doc.cores, bytes_per_s: doc.bytes_per_s, count: doc.count };
    let amount = match given.amount(kind).map_err(of)? {
        Some(amount) => amount,
        None if open => 0,
        None => return Err(of(format!("how much? give {}", field(kind)))),
    };
    let least = match doc.at_least {
        Some(least) => scaled(kind, least).ok_or_else(|| of("at_least is no amount".to_owned()))?,
        None => amount,
    };
    let background = match doc.background {
        Some(b) => {
            let floor = scaled(kind, b.floor).ok_or_else(|| of("background.floor is no amount".to_owned()))?;
            Some(Background { weight: b.weight, floor })
        }
        None => None,
    };
    let usual = PacketShape::default();
    let rtt = match doc.rtt_ms {
        Some(ms) => seconds(ms / 1e3, "rtt_ms")?,
        None => usual.rtt,
    };
    let meter = doc.meter.as_ref().map(|meter| meter.terms()).transpose().map_err(of)?;
    let shape = PacketShape { packet: doc.packet_bytes.unwrap_or(usual.packet), rtt, meter };
    let binding = doc.binding.clone().map(Into::into);
    Ok(PartAsk { resource: doc.resource.clone(), amount, least, background, shape, binding })
}

fn changed(doc: &ChangeDoc) -> Result<booking::io::BookingChange, Problem> {
    let amount = |doc: &AmountDoc| {
        let given = Given { rate: doc.rate, cores: doc.cores, bytes_per_s: doc.bytes_per_s, count: doc.count };
        let kind = given.kind().ok_or_else(|| Problem::misuse(format!("part {}: how much?", doc.part)))?;
        let amount = given.amount(kind).map_err(Problem::misuse)?.unwrap_or(0);
        Ok((doc.part, kind, amount))
    };
    Ok(booking::io::BookingChange {
        amounts: doc.amounts.iter().map(amount).collect::<Result<_, Problem>>()?,
        start: doc.start.map(|i| i.0),
        end: doc.end.map(|i| i.0),
        label: doc.label.clone(),
        without: doc.without.iter().copied().map(window).collect::<Result<_, _>>()?,
    })
}

fn matching(doc: &BookFilter) -> Result<Matching, Problem> {
    let state = |name: &String| {
        let state = BookingState::ALL.into_iter().find(|state| state.name() == name);
        state.ok_or_else(|| {
            let all: Vec<&str> = BookingState::ALL.iter().map(|state| state.name()).collect();
            Problem::misuse(format!("{name:?} is no state: {}", all.join(", ")))
        })
    };
    Ok(Matching {
        owner: doc.owner.clone(),
        group: doc.group.clone(),
        label: doc.label.clone(),
        resource: doc.resource.clone(),
        states: doc.states.iter().map(state).collect::<Result<_, _>>()?,
        window: doc.window.map(window).transpose()?,
        after: doc.after.as_deref().map(handled).transpose()?,
        most: doc.limit.unwrap_or(0),
    })
}

fn window(doc: WindowDoc) -> Result<Window, Problem> {
    let (start, end) = (doc.start, doc.end);
    Window::new(start.0, end.0)
        .map_err(|_| Problem::misuse(format!("the window {start} to {end} is empty: it must end after it starts")))
}

/// An amount as one of four fields.
struct Given {
    rate: Option<u64>,
    cores: Option<f64>,
    bytes_per_s: Option<u64>,
    count: Option<u64>,
}

impl Given {
    fn kind(&self) -> Option<ResourceKind> {
        let given = [self.rate.is_some(), self.bytes_per_s.is_some(), self.cores.is_some(), self.count.is_some()];
        let kinds = [ResourceKind::Network, ResourceKind::Disk, ResourceKind::Cpu, ResourceKind::Countable];
        kinds.into_iter().zip(given).find(|(_, given)| *given).map(|(kind, _)| kind)
    }

    fn amount(&self, kind: ResourceKind) -> Result<Option<u64>, String> {
        let kind = kind.written_as();
        let others = [
            (ResourceKind::Network, self.rate.is_some()),
            (ResourceKind::Cpu, self.cores.is_some()),
            (ResourceKind::Disk, self.bytes_per_s.is_some()),
            (ResourceKind::Countable, self.count.is_some()),
        ];
        if let Some((other, _)) = others.into_iter().find(|(k, given)| *given && *k != kind) {
            return Err(format!("{} is not what it is counted in: give {}", field(other), field(kind)));
        }
        Ok(match kind {
            ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => self.rate,
            ResourceKind::Countable => self.count,
            ResourceKind::Disk => match self.bytes_per_s {
                Some(bytes) => Some(bytes.checked_mul(8).ok_or("bytes_per_s is too large")?),
                None => None,
            },
            ResourceKind::Cpu => match self.cores {
                Some(cores) => Some(scaled(kind, cores).ok_or("cores is no number of cores")?),
                None => None,
            },
        })
    }
}

fn field(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => "rate",
        ResourceKind::Cpu => "cores",
        ResourceKind::Disk => "bytes_per_s",
        ResourceKind::Countable => "count",
    }
}

/// An amount in the unit of the bookings; `None`: it is negative, no number, or too large.
fn scaled(kind: ResourceKind, amount: f64) -> Option<u64> {
    let wide = (amount * scale(kind)).round();
    (0.0..1.8e19).contains(&wide).then_some(wide as u64)
}

fn seconds(s: f64, what: &str) -> Result<Span, Problem> {
    if s.is_finite() && (0.0..1e10).contains(&s) {
        Ok(Span::from_nanos((s * 1e9).round() as u64))
    } else {
        Err(Problem::misuse(format!("{what}: {s} is no length of time")))
    }
}
