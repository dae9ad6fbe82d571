//! Changes of a reservation that crosses domains: our own agents and the next domain are one transaction. A new
//! one is held at our own agents first, from near to far, and promised from far to near.

use crate::ask;
use crate::broker::Broker;
use crate::crossing::{self, CrossingPoint};
use crate::gather::{GroupMembers, Member};
use crate::group;
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::plan::{self, AgentRequest};
use crate::problem::{Answer, Problem};
use crate::shown::shown;
use crate::transactions::{ChangeKind, DomainPart, LegNext, LegRecord, MemberPart, Note, draw};
use crate::tree;
use commit::TransactionId;
use commit::coordinator::Phase;
use commit::subordinate::AskedFromAbove;
use documents::book::{Instant, PrepareAskDoc};
use documents::legs::{LegChange, LegDoc};
use documents::links::CallerDoc;
use documents::rest::{Change, PathWish, Reservation, Wish};
use documents::topology::StatementDoc;

/// The time for which our own part is held until it is promised, seconds: longer than a vote takes.
const HOLD_S: f64 = 30.0;
/// The most neighbours that are tried for one request.
const WAYS: usize = 3;
/// The most requests of one way that differ by their number only.
const WAY_ATTEMPTS: u64 = 64;

/// A new reservation that crosses domains, or the leg of one.
#[derive(Clone, Debug)]
pub struct Crossed {
    /// Its name here.
    pub group: GroupId,
    /// The idempotency key; empty: none.
    pub key: String,
    /// The time of an earlier attempt with the same key that came to nothing; 0: there was none.
    pub attempt: u64,
    /// The notice before its end, which one of our own agents gives.
    pub notify_s: Option<f64>,
    /// The leg.
    pub record: LegRecord,
    /// The parts of the domains that we ask, the nearest first.
    pub parts: Vec<DomainPart>,
    /// In a tree that begins elsewhere: the acceptances of the domains after us, which we have checked.
    pub after: Vec<StatementDoc>,
    /// The question of the domain before us.
    pub asked: Option<AskedFromAbove>,
}

/// A number that names a change on the whole way.
///
/// # Errors
/// The kernel has no random bits.
pub fn draw_origin() -> Answer<TransactionId> {
    let drawn = draw::<16>().map_err(|error| Problem::unavailable(format!("no randomness: {error}")))?;
    Ok(TransactionId(drawn))
}

/// Our own domain's name.
///
/// # Errors
/// 503: the file has none, so there are no neighbours.
pub fn own_domain(broker: &Broker) -> Answer<&str> {
    let voice = broker.transactions.voice().ok_or_else(|| Problem::unavailable("this broker has no neighbours"))?;
    Ok(&voice.domain)
}

/// Reserves from a host of ours to one that is in another domain: by the best neighbour, or the next where that has no
/// room.
///
/// # Errors
/// The first refusal of an agent or domain: nothing is reserved.
pub async fn begin(
    broker: &Broker,
    caller: &CallerDoc,
    (wish, path): (&Wish, &PathWish),
    (group, key, attempt): (&GroupId, &str, u64),
) -> Answer<Reservation> {
    let notify_s = wish.notify_s;
    let leg = crossing::leg(wish, path, crossing::windows(broker, wish, path)?);
    if leg.forward == 0 && leg.reverse == 0 {
        return Err(Problem::misuse("how much? give forward or reverse, bit/s"));
    }
    if crossing::is_elsewhere(broker, path.from) {
        let what = format!("{} is in another domain: ask the broker of the domain of the first host", path.from);
        return Err(Problem::misuse(what));
    }
    if path.tree {
        return tree::begin(broker, caller, (&leg, notify_s), (group, key, attempt)).await;
    }
    let mut first = None;
    for (number, domain) in crossing::next(broker, &leg, &[]).into_iter().take(WAYS).enumerate() {
        let attempt = attempt + WAY_ATTEMPTS * number as u64;
        match begin_by(broker, caller, (&leg, notify_s), (group, key, attempt), domain).await {
            Err(problem) if problem.kind.ends_with("no_room") => first = first.or(Some(problem)),
            made => return made,
        }
    }
    Err(first.unwrap_or_else(|| Problem::misuse(format!("no neighbour leads to {}", path.to))))
}

/// The same by one neighbour.
async fn begin_by(
    broker: &Broker,
    caller: &CallerDoc,
    (leg, notify_s): (&LegDoc, Option<f64>),
    (group, key, attempt): (&GroupId, &str, u64),
    domain: usize,
) -> Answer<Reservation> {
    let map = broker.map().await?;
    let border = crossing::border(broker, &map, domain, None, leg.to)?;
    let ends = Some((leg.from, border.beyond));
    let mut choices = ask::choices(broker, &crossing::wish(leg), false, ends).await?;
    crossing::agreed(&mut choices, &border, leg, MemberRole::Reverse);
    let (origin, id) = (draw_origin()?, ReservationId::Group(*group));
    let next = LegNext { domain: name(broker, domain), border: border.network.clone() };
    let record = LegRecord { next: Some(next), ..begun(broker, caller, leg, (&id, origin)) };
    let parts = vec![next_part(broker, LegChange::Create, origin, &[], caller, &border)?];
    let key = key.to_owned();
    let crossed = Crossed { group: *group, key, attempt, notify_s, record, parts, after: Vec::new(), asked: None };
    let (members, _) = reserve(broker, caller, &crossed, choices).await?;
    Ok(shown(broker, &id, &GroupMembers { members, ..GroupMembers::default() }))
}

/// The record of a leg that begins here.
pub fn begun(
    broker: &Broker,
    caller: &CallerDoc,
    leg: &LegDoc,
    (id, origin): (&ReservationId, TransactionId),
) -> LegRecord {
    LegRecord {
        reservation: id.to_string(),
        origin: origin.to_string(),
        above: None,
        next: None,
        tree: Vec::new(),
        exit: None,
        owner: caller.name.clone(),
        leg: leg.clone(),
        acceptances: Vec::new(),
        noted: Instant(broker.clock.today()),
        over: false,
    }
}

/// The name of another domain.
pub fn name(broker: &Broker, domain: usize) -> String {
    broker.transactions.domains()[domain].name.to_string()
}

/// The request to the next domain; `via`: the domains before ours.
///
/// # Errors
/// 503: we have no name.
pub fn next_part(
    broker: &Broker,
    change: LegChange,
    origin: TransactionId,
    via: &[String],
    caller: &CallerDoc,
    border: &CrossingPoint,
) -> Answer<DomainPart> {
    let own = own_domain(broker)?.to_owned();
    Ok(DomainPart {
        domain: border.domain,
        change,
        origin,
        via: via.iter().cloned().chain([own]).collect(),
        owner: crossing::told_as(broker, caller),
        groups: crossing::told_groups(caller),
        token: caller.token.clone(),
        border: border.network.clone(),
        entry: None,
    })
}

/// Holds our own part over the first of these choices that has room, then has all of it promised: the next
/// domain first. Returns the members here and the leg with its acceptances.
///
/// # Errors
/// The first refusal: nothing is reserved.
pub async fn reserve(
    broker: &Broker,
    caller: &CallerDoc,
    crossed: &Crossed,
    choices: Vec<Vec<AgentRequest>>,
) -> Answer<(Vec<Member>, LegRecord)> {
    let id = ReservationId::Group(crossed.group);
    let mut members = held(broker, caller, crossed, choices).await?;
    let hold =
        |member: &Member| MemberPart::at_agent(member.agent, PrepareAskDoc::Hold { handle: member.doc.handle.clone() });
    let domains = crossed.parts.iter().cloned().map(|part| MemberPart::Domain(Box::new(part)));
    let parts: Vec<MemberPart> = members.iter().map(hold).chain(domains).collect();
    match carried(broker, caller, crossed, ChangeKind::Create, parts, &mut members).await {
        Ok(leg) => {
            members.sort_by_key(|member| (member.way, member.agent));
            Ok((members, leg))
        }
        Err(problem) => {
            let undecided = |open: &crate::transactions::Open| open.phase != Phase::Aborting;
            if !broker.transactions.of(&id.to_string()).iter().any(undecided) {
                group::release(broker, caller, &members).await;
            }
            Err(problem)
        }
    }
}

/// Holds our own part.
async fn held(
    broker: &Broker,
    caller: &CallerDoc,
    crossed: &Crossed,
    choices: Vec<Vec<AgentRequest>>,
) -> Answer<Vec<Member>> {
    let names = broker.names();
    let mut first = None;
    for (number, mut pieces) in choices.into_iter().enumerate() {
        // Another way with the same key is another request to an agent that is on both.
        if let Some(first) = pieces.first_mut() {
            first.ask.notify_s = crossed.notify_s;
        }
        plan::name(&names, &mut pieces, &crossed.group, &crossed.key, crossed.attempt + number as u64);
        match group::held(broker, caller, pieces, Some(HOLD_S)).await {
            Err(problem) if problem.kind.ends_with("no_room") => first = first.or(Some(problem)),
            held => return held,
        }
    }
    Err(first.unwrap_or_else(|| Problem::misuse("there is no way")))
}

/// Has all members promise, and decides, or waits for the decision of the domain that asked.
async fn carried(
    broker: &Broker,
    caller: &CallerDoc,
    crossed: &Crossed,
    kind: ChangeKind,
    parts: Vec<MemberPart>,
    members: &mut [Member],
) -> Answer<LegRecord> {
    let transactions = &broker.transactions;
    let mut note = Note { id: crossed.record.reservation.clone(), kind, leg: Some(Box::new(crossed.record.clone())) };
    let Some(asked) = &crossed.asked else {
        let progress = transactions.vote(note, caller, parts).await?;
        let all: Vec<usize> = (0..members.len()).collect();
        group::renew(members, &all, progress);
        return Ok(transactions.leg(&crossed.record.reservation).unwrap_or_else(|| crossed.record.clone()));
    };
    if let (true, Some(leg)) = (crossed.parts.is_empty(), note.leg.as_mut()) {
        // We ask nobody after us: what we accept is known before we ask our own agents.
        let origin = TransactionId::parse(&leg.origin).ok_or_else(|| Problem::malformed("origin"))?;
        let own = transactions.own_acceptance(leg, origin, &crossed.after)?;
        leg.acceptances = own.into_iter().chain(crossed.after.iter().cloned()).collect();
    }
    let note = transactions.promise(asked.clone(), note, caller, parts).await?;
    note.leg.map(|leg| *leg).ok_or_else(|| Problem::unavailable("the leg is gone"))
}

/// A change of a reservation that crosses domains: what becomes of its leg, and who asked.
#[derive(Clone, Debug)]
pub struct LegUpdate {
    /// The kind.
    pub change: LegChange,
    /// The leg after the change.
    pub record: LegRecord,
    /// The number of the change.
    pub origin: TransactionId,
    /// In a tree that begins elsewhere: the acceptances of the domains after us, which we have checked.
    pub after: Vec<StatementDoc>,
    /// The question of the domain before us.
    pub asked: Option<AskedFromAbove>,
}

impl LegUpdate {
    /// A change that a caller of ours asks for; `None`: the reservation has no leg elsewhere.
    ///
    /// # Errors
    /// 409: it begins in another domain.
    pub fn of(
        broker: &Broker,
        id: &ReservationId,
        change: LegChange,
        update: impl FnOnce(&mut LegDoc),
    ) -> Answer<Option<LegUpdate>> {
        let Some(mut record) = broker.transactions.leg(&id.to_string()) else { return Ok(None) };
        if let Some(above) = &record.above {
            let what = format!("it is a leg of a reservation that comes from {}: change it there", above.domain);
            return Err(Problem::new(axum::http::StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
        }
        update(&mut record.leg);
        let origin = draw_origin()?;
        record.origin = origin.to_string();
        Ok(Some(LegUpdate { change, record, origin, after: Vec::new(), asked: None }))
    }

    /// Carries the change out at these members and in the next domain.
    ///
    /// # Errors
    /// The first refusal: all stay as they were.
    pub async fn carry_out(
        self,
        broker: &Broker,
        caller: &CallerDoc,
        group: &GroupId,
        changes: Vec<(usize, PrepareAskDoc)>,
        found: &mut GroupMembers,
    ) -> Answer<LegRecord> {
        let part = |(number, change): &(usize, PrepareAskDoc)| {
            MemberPart::at_agent(found.members[*number].agent, change.clone())
        };
        let mut parts: Vec<MemberPart> = changes.iter().map(part).collect();
        let domains = self.parts(broker, caller)?;
        parts.extend(domains.iter().cloned().map(|part| MemberPart::Domain(Box::new(part))));
        let kind = match self.change {
            LegChange::Create => ChangeKind::Create,
            LegChange::Modify => ChangeKind::Modify,
            LegChange::Bind => ChangeKind::Bind,
        };
        let LegUpdate { record, after, asked, .. } = self;
        let crossed = Crossed {
            group: *group,
            key: String::new(),
            attempt: 0,
            notify_s: None,
            record,
            parts: domains,
            after,
            asked,
        };
        let numbers: Vec<usize> = changes.iter().map(|(number, _)| *number).collect();
        let mut touched: Vec<Member> = numbers.iter().map(|number| found.members[*number].clone()).collect();
        let leg = carried(broker, caller, &crossed, kind, parts, &mut touched).await?;
        for (number, member) in numbers.into_iter().zip(touched) {
            found.members[number] = member;
        }
        Ok(leg)
    }

    /// The parts of the domains that we ask.
    fn parts(&self, broker: &Broker, caller: &CallerDoc) -> Answer<Vec<DomainPart>> {
        let via = self.record.above.as_ref().map(|above| above.via.clone()).unwrap_or_default();
        let mut parts = Vec::new();
        let mut entry = own_domain(broker)?.to_owned();
        for asked in self.record.asked() {
            let domain = broker.transactions.domains().iter().position(|domain| *domain.name == *asked.domain);
            let domain =
                domain.ok_or_else(|| Problem::unavailable(format!("{} is not in our file any more", asked.domain)))?;
            let (network, beyond) = (asked.border.clone(), self.record.leg.to);
            let border = CrossingPoint { domain, network, beyond, agreement: None };
            let part = next_part(broker, self.change, self.origin, &via, caller, &border)?;
            let before = std::mem::replace(&mut entry, asked.domain.clone());
            parts.push(DomainPart { entry: (!self.record.tree.is_empty()).then_some(before), ..part });
        }
        Ok(parts)
    }
}

/// Changes a leg as a request says.
pub fn modified(leg: &mut LegDoc, change: &Change) {
    (leg.forward, leg.reverse) = (change.forward.unwrap_or(leg.forward), change.reverse.unwrap_or(leg.reverse));
    if let Some(label) = &change.rest.label {
        leg.label.clone_from(label);
    }
    leg.windows.retain(|window| !change.rest.without.iter().any(|without| without.overlaps(window)));
    if let [window] = &mut leg.windows[..] {
        (window.start, window.end) = (change.rest.start.unwrap_or(window.start), change.rest.end.unwrap_or(window.end));
    }
}
