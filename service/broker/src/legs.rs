//! Requests of neighbouring domains' brokers: a promise of a leg, a decision about it, its state, its end.
//! Only a broker that our own file names as a neighbour, or as one that may ask in trees, and for its own part only.

use crate::ask;
use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::change;
use crate::cross::{self, Crossed, LegUpdate};
use crate::crossing;
use crate::gather::find;
use crate::group;
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::request_body::body;
use crate::shown::{shown, with_domains};
use crate::transactions::{LegAbove, LegNext, LegRecord};
use crate::tree;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, StatusCode};
use booking::leg;
use commit::coordinator::Serial;
use commit::subordinate::AskedFromAbove;
use commit::{Branch, Decision, Epoch, TransactionId};
use documents::book::{EpochDoc, Instant};
use documents::legs::{LegAskDoc, LegChange, LegDecidedDoc, LegDecisionDoc, LegDoc, LegPromiseDoc, LegStateDoc};
use documents::links::CallerDoc;
use documents::rest::Change;
use documents::topology::StatementDoc;
use std::sync::Arc;
use trust::{CertificateRole, Identity};

/// The most windows of a leg.
const MOST_WINDOWS: usize = 256;
/// The longest label and name, bytes.
const MOST_TEXT: usize = 256;

/// A neighbour's broker that asks.
#[derive(Clone, Debug)]
struct Asker {
    /// The index of its domain.
    number: usize,
    /// The name of its domain.
    domain: String,
    /// Its name as a coordinator.
    coordinator: String,
}

type Result_<T> = Result<T, BoxedProblem>;

/// Promise a leg of a reservation that comes from a neighbouring domain, or a change of it.
#[utoipa::path(post, path = "/v1/legs", request_body = LegAskDoc,
    responses((status = 200, body = LegPromiseDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn promise(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    request: Request<Body>,
) -> Result_<Json<LegPromiseDoc>> {
    let asker = asker(&broker, &peer)?;
    let doc: LegAskDoc = body(&broker, request).await?;
    let acceptances = promised(&broker, &asker, &doc).await.map_err(|problem| discreet(&broker, problem))?;
    Ok(Json(LegPromiseDoc { acceptances }))
}

/// Decide what was promised to a neighbouring domain.
#[utoipa::path(put, path = "/v1/transactions/{id}", params(("id" = String, Path)), request_body = LegDecisionDoc,
    responses((status = 200, body = LegDecidedDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn decide(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result_<Json<LegDecidedDoc>> {
    let asker = asker(&broker, &peer)?;
    let doc: LegDecisionDoc = body(&broker, request).await?;
    let transaction = TransactionId::parse(&id).ok_or_else(Problem::not_found)?;
    let branch = Branch { transaction, member: doc.member };
    own_branch(&broker, &asker, branch)?;
    let decision = match doc.commit {
        Some(0) => return Err(Problem::malformed("commit: decisions are counted from 1").into()),
        Some(number) => Decision::Commit { number },
        None => Decision::Abort,
    };
    let coordinator = asker.coordinator.as_str().into();
    broker.transactions.hear_decision(branch, coordinator, epoch(doc.epoch), decision).await?;
    Ok(Json(LegDecidedDoc { transaction: id }))
}

/// The state of a leg, for the domain that asked for it.
#[utoipa::path(get, path = "/v1/legs/{id}", params(("id" = String, Path, description = "The reservation's name at the broker that asked")),
    responses((status = 200, body = LegStateDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn state(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<Json<LegStateDoc>> {
    let asker = asker(&broker, &peer)?;
    let (id, leg) = own_leg(&broker, &asker, &id)?;
    Ok(Json(state_of(&broker, &id, &leg).await?))
}

/// Give a leg back.
#[utoipa::path(delete, path = "/v1/legs/{id}", params(("id" = String, Path, description = "The reservation's name at the broker that asked")),
    responses((status = 200, body = LegStateDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn end(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<Json<LegStateDoc>> {
    let asker = asker(&broker, &peer)?;
    let (id, leg) = own_leg(&broker, &asker, &id)?;
    let _lock = broker.lock(&id).await;
    if leg.over {
        return Ok(Json(LegStateDoc { state: "cancelled".to_owned(), away: Vec::new() }));
    }
    let (ReservationId::Group(group), caller) = (&id, owner(&leg.owner, Vec::new())) else {
        return Err(Problem::not_found().into());
    };
    // What ends by itself, or was ended here, is not there any more: the rest of the way is given back all the same.
    let found = match find(&broker.agents, &caller, &id).await {
        Err(problem) if problem.status == 404 => crate::gather::GroupMembers::default(),
        found => found?,
    };
    group::give_back(&broker, &caller, group, &found).await?;
    let state = state_of(&broker, &id, &leg).await.map_err(|problem| group::is_given_back(&problem))?;
    Ok(Json(state))
}

/// The neighbour whose broker this is.
///
/// # Errors
/// 403: it is none.
fn asker(broker: &Broker, peer: &ConnectionPeer) -> Answer<Asker> {
    peer.caller()?;
    let refused = |what: String| Problem::forbidden(format!("legs are for brokers of neighbouring domains: {what}"));
    let ConnectionPeer::Certificate { identity, .. } = peer else {
        return Err(refused("you have shown no certificate".to_owned()));
    };
    let Identity { domain: Some(domain), role: CertificateRole::Broker, .. } = identity else {
        return Err(refused(format!("you are {identity}")));
    };
    let number = broker.transactions.domains().iter().position(|known| *known.name == **domain);
    let number = number.ok_or_else(|| refused(format!("{domain} is none of ours")))?;
    if !broker.transactions.domains()[number].neighbour.may_ask {
        return Err(refused(format!("{domain} is behind a neighbour, and our file does not say that it may ask")));
    }
    Ok(Asker { number, domain: domain.clone(), coordinator: identity.known_as() })
}

/// Checks that a part of a transaction is not another coordinator's.
///
/// # Errors
/// 404: it is.
fn own_branch(broker: &Broker, asker: &Asker, branch: Branch) -> Answer<()> {
    match broker.transactions.coordinator_above(branch) {
        Some(coordinator) if coordinator != asker.coordinator => Err(Problem::not_found()),
        _ => Ok(()),
    }
}

/// The reservation here of a neighbour's.
fn reservation(domain: &str, reservation: &str, leg: Option<&LegDoc>) -> GroupId {
    GroupId::of_key(domain, reservation, leg.map(|leg| (leg.from, leg.to)))
}

/// The leg that a neighbour asked for, by the reservation's name there.
///
/// # Errors
/// 404: there is none; 503: it is not decided yet.
fn own_leg(broker: &Broker, asker: &Asker, name: &str) -> Answer<(ReservationId, LegRecord)> {
    // The ends are part of the name here, and in the name there.
    let ends = match ReservationId::parse(name) {
        Some(ReservationId::Group(GroupId { ends: Some(ends), .. })) => ends,
        _ => return Err(Problem::not_found()),
    };
    let id = ReservationId::Group(GroupId::of_key(&asker.domain, name, Some(ends)));
    match broker.transactions.leg(&id.to_string()) {
        Some(leg) if leg.above.as_ref().is_some_and(|above| above.domain == asker.domain) => Ok((id, leg)),
        None if !broker.transactions.of(&id.to_string()).is_empty() => {
            Err(Problem::unavailable("a change of it is under way: ask again"))
        }
        _ => Err(Problem::not_found()),
    }
}

fn owner(name: &str, groups: Vec<String>) -> CallerDoc {
    CallerDoc { name: name.to_owned(), groups, role: "owner".to_owned(), token: None }
}

fn epoch(doc: EpochDoc) -> Epoch {
    let EpochDoc { number, decisions, nonce } = doc;
    Epoch { number, decisions, nonce }
}

async fn state_of(broker: &Arc<Broker>, id: &ReservationId, leg: &LegRecord) -> Answer<LegStateDoc> {
    match find(&broker.agents, &owner(&leg.owner, Vec::new()), id).await {
        Ok(found) => {
            let doc = with_domains(broker.clone(), shown(broker, id, &found)).await;
            Ok(LegStateDoc { state: doc.state, away: doc.away })
        }
        Err(problem) if problem.status == 404 => {
            let state = if leg.over { "cancelled" } else { "broken" };
            Ok(LegStateDoc { state: state.to_owned(), away: Vec::new() })
        }
        Err(problem) => Err(problem),
    }
}

/// The checked content of a question.
struct Question {
    caller: CallerDoc,
    asked: AskedFromAbove,
    origin: TransactionId,
    group: GroupId,
}

/// Checks a question before anything is done.
///
/// # Errors
/// 400, 403, 422: what is wrong with it.
fn question(broker: &Broker, asker: &Asker, doc: &LegAskDoc) -> Answer<Question> {
    let own = cross::own_domain(broker)?;
    if doc.via.last() != Some(&asker.domain) || doc.via.len() >= leg::MOST_DOMAINS {
        return Err(Problem::misuse("via: the domains that the question has come through, yours last"));
    }
    if doc.via.iter().any(|name| name == own) {
        return Err(Problem::misuse(format!("it has come through {own} already: the way is a circle")));
    }
    let name = leg::vouched(&doc.via, &doc.owner).ok_or_else(|| {
        let who: String = doc.owner.chars().take(64).collect();
        Problem::forbidden(format!(
            "{} cannot speak for {who:?}: for its own people only, and those it was asked for",
            asker.domain
        ))
    })?;
    if doc.leg.label.len() > MOST_TEXT || doc.reservation.len() > MOST_TEXT || doc.border.len() > 64 {
        return Err(Problem::malformed(format!("label, reservation and border have at most {MOST_TEXT} bytes")));
    }
    if doc.leg.windows.is_empty() || doc.leg.windows.len() > MOST_WINDOWS {
        return Err(Problem::malformed(format!("a leg has 1 to {MOST_WINDOWS} windows")));
    }
    if doc.leg.forward == 0 && doc.leg.reverse == 0 {
        return Err(Problem::misuse("how much? give forward or reverse, bit/s"));
    }
    let groups = doc.groups.iter().filter_map(|group| leg::vouched(&[&asker.domain], group)).take(32).collect();
    let transaction = TransactionId::parse(&doc.transaction)
        .ok_or_else(|| Problem::malformed("transaction: 32 hexadecimal digits"))?;
    let origin =
        TransactionId::parse(&doc.origin).ok_or_else(|| Problem::malformed("origin: 32 hexadecimal digits"))?;
    let branch = Branch { transaction, member: doc.member };
    own_branch(broker, asker, branch)?;
    // The ends of the name there are those of the leg: so its name here is found again from that name alone.
    match ReservationId::parse(&doc.reservation) {
        Some(ReservationId::Group(GroupId { ends: Some(ends), .. })) if ends == (doc.leg.from, doc.leg.to) => {}
        _ => return Err(Problem::malformed("reservation: a name of a reservation between these two hosts")),
    }
    Ok(Question {
        caller: CallerDoc { token: doc.token.clone(), ..owner(&name, groups) },
        asked: AskedFromAbove {
            branch,
            coordinator: asker.coordinator.as_str().into(),
            epoch: epoch(doc.epoch),
            serial: Serial { number: doc.serial, floor: doc.floor },
            until: crossing::until(&doc.leg),
        },
        origin,
        group: reservation(&asker.domain, &doc.reservation, Some(&doc.leg)),
    })
}

/// Promises a leg, or a change of it.
async fn promised(broker: &Broker, asker: &Asker, doc: &LegAskDoc) -> Answer<Vec<StatementDoc>> {
    let question = question(broker, asker, doc)?;
    let id = ReservationId::Group(question.group);
    let _lock = broker.lock(&id).await;
    let leg = match doc.change {
        LegChange::Create => new(broker, asker, doc, question).await?,
        LegChange::Modify | LegChange::Bind => changed(broker, asker, doc, question).await?,
    };
    Ok(leg.acceptances)
}

/// Promises a new leg.
async fn new(broker: &Broker, asker: &Asker, doc: &LegAskDoc, question: Question) -> Answer<LegRecord> {
    let Question { caller, asked, origin, group } = question;
    let id = ReservationId::Group(group);
    if broker.transactions.leg(&id.to_string()).is_some() || !broker.transactions.of(&id.to_string()).is_empty() {
        let what = "this reservation has a leg here already";
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    let place = tree::place(broker, doc, origin, |via| crossing::next(broker, &doc.leg, via))?;
    if place.is_none() && broker.transactions.domains()[asker.number].neighbour.distant {
        return Err(Problem::misuse(format!("{} is behind a neighbour, and asks in trees only", asker.domain)));
    }
    let map = broker.map().await?;
    let from = place.as_ref().map_or(asker.number, |place| place.entry);
    let entry = crossing::border(broker, &map, from, Some(&doc.border), doc.leg.to)?;
    let via: Vec<String> = doc.via.clone();
    let next = match &place {
        Some(place) => place.exit,
        None => crossing::next(broker, &doc.leg, &via).first().copied(),
    };
    let next = next.map(|domain| crossing::border(broker, &map, domain, None, doc.leg.to)).transpose()?;
    let exit = next.as_ref().map_or(doc.leg.to, |border| border.beyond);
    let wish = crossing::wish(&doc.leg);
    let mut choices = ask::choices(broker, &wish, false, Some((entry.beyond, exit))).await?;
    crossing::agreed(&mut choices, &entry, &doc.leg, MemberRole::Forward);
    if let Some(next) = &next {
        crossing::agreed(&mut choices, next, &doc.leg, MemberRole::Reverse);
    }
    let mut record = cross::begun(broker, &caller, &doc.leg, (&id, origin));
    record.above = Some(LegAbove {
        domain: asker.domain.clone(),
        reservation: doc.reservation.clone(),
        via: via.clone(),
        entry: doc.tree.as_ref().map(|tree| tree.entry.clone()),
    });
    let (mut parts, mut after) = (Vec::new(), Vec::new());
    match (place, next) {
        // The first broker asks the others itself.
        (Some(place), next) => {
            record.exit = next.map(|border| cross::name(broker, border.domain));
            after = place.after;
        }
        (None, Some(border)) => {
            let domain = cross::name(broker, border.domain);
            record.next = Some(LegNext { domain, border: border.network.clone() });
            parts.push(cross::next_part(broker, LegChange::Create, origin, &via, &caller, &border)?);
        }
        (None, None) => {}
    }
    let crossed =
        Crossed { group, key: String::new(), attempt: 0, notify_s: None, record, parts, after, asked: Some(asked) };
    let (_, leg) = cross::reserve(broker, &caller, &crossed, choices).await?;
    Ok(leg)
}

/// Promises a change of a leg.
async fn changed(broker: &Broker, asker: &Asker, doc: &LegAskDoc, question: Question) -> Answer<LegRecord> {
    let Question { caller, asked, origin, group } = question;
    let (id, known) = own_leg(broker, asker, &doc.reservation)?;
    if known.over || known.owner != caller.name {
        return Err(Problem::not_found());
    }
    let after = tree::same_place(broker, doc, origin, &known)?;
    let mut found = group::complete(broker, &caller, &id).await?;
    let changes = match (doc.change, doc.leg.flow) {
        (LegChange::Bind, Some(ports)) => {
            let orders = change::of_flow(&found.members, (known.leg.from, known.leg.to), ports);
            change::bindings(&found.members, orders)
        }
        (LegChange::Modify, _) => change::changes(&found.members, &difference(&known.leg, &doc.leg))?,
        _ => Vec::new(),
    };
    if changes.is_empty() {
        return Err(Problem::misuse("nothing is to be changed"));
    }
    let record = LegRecord {
        origin: origin.to_string(),
        leg: doc.leg.clone(),
        acceptances: Vec::new(),
        noted: Instant(broker.clock.today()),
        ..known
    };
    let update = LegUpdate { change: doc.change, record, origin, after, asked: Some(asked) };
    update.carry_out(broker, &caller, &group, changes, &mut found).await
}

/// The change that makes one leg another.
fn difference(known: &LegDoc, new: &LegDoc) -> Change {
    let mut change = Change::default();
    let differs = |new: u64, known: u64| Some(new).filter(|new| *new != known);
    (change.forward, change.reverse) = (differs(new.forward, known.forward), differs(new.reverse, known.reverse));
    if new.label != known.label {
        change.rest.label = Some(new.label.clone());
    }
    if let ([new], [known]) = (&new.windows[..], &known.windows[..]) {
        change.rest.start = Some(new.start).filter(|start| *start != known.start);
        change.rest.end = Some(new.end).filter(|end| *end != known.end);
    } else {
        change.rest.without = known.windows.iter().filter(|window| !new.windows.contains(window)).copied().collect();
    }
    change
}

/// A refusal as another domain may know it: how much is free, and when, but not where. What is inside this domain
/// is its own.
fn discreet(broker: &Broker, problem: Box<Problem>) -> Box<Problem> {
    let own = cross::own_domain(broker).unwrap_or_default();
    let mut problem = problem;
    let reason = problem.refusal.as_ref().map(|refusal| refusal.reason.clone());
    if let Some(refusal) = &mut problem.refusal {
        (refusal.resource, refusal.rule) = (None, None);
        refusal.alternatives.clear();
        let what = match reason.as_deref() {
            Some("no_room") => format!("there is no room in {own}"),
            Some("policy") => format!("the policy of {own} does not allow it"),
            _ => return problem,
        };
        refusal.message.clone_from(&what);
        problem.detail = what;
    }
    problem
}
