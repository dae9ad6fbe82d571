//! Reservations over several agents, from request to answer: the broker searches paths, settles windows and
//! amounts that all agents accept, and adds alternatives to a refusal.

use crate::broker::{Broker, KEY_BYTES};
use crate::cross;
use crate::crossing;
use crate::gather::each;
use crate::group;
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::paths::LinkMap;
use crate::plan::{self, AgentRequest};
use crate::problem::{Answer, Problem};
use crate::retry::{Before, before};
use crate::shown::shown;
use documents::agent::Request;
use documents::book::{
    AlternativeDoc, AlternativeWord, BookAnswer, EnquiredDoc, Instant, RefusalDoc, StepDoc, WhenDoc,
};
use documents::links::CallerDoc;
use documents::rest::{EnquiredPart, Enquiry, Reservation, Wish};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use terms::{Span, Time};

/// The most paths that are tried between two hosts.
const WAYS: usize = 4;
/// The most alternatives in a refusal.
const ALTERNATIVES: usize = 3;
/// The most tries to find a later start that is a whole second.
const LATER: usize = 4;
/// The most rounds of questions for a start that suits all agents.
const ROUNDS: usize = 16;

/// Returns what would be granted; nothing is reserved.
///
/// # Errors
/// 422: the request is wrong, or no path is known; 503: an agent is away.
pub async fn enquire(broker: &Broker, caller: &CallerDoc, wish: &Wish) -> Answer<Enquiry> {
    let mut choices = choices(broker, wish, true, None).await?;
    let mut pieces = choices.swap_remove(0);
    let mut enquiry = match settle(broker, caller, wish, &mut pieces).await {
        Ok(()) => enquired(broker, caller, &pieces).await?,
        Err(problem) if problem.refusal.is_some() => {
            let refusal = problem.refusal.map(|refusal| *refusal);
            Enquiry { accepted: false, refusal, ..enquired(broker, caller, &pieces).await? }
        }
        Err(problem) => return Err(problem),
    };
    if pieces.len() == 1 {
        name_alternatives(broker, &pieces, enquiry.refusal.as_mut());
    } else if !enquiry.accepted
        && let Some(refusal) = &mut enquiry.refusal
    {
        // An alternative has no piece that was not asked for.
        let asked = |pieces: Vec<AgentRequest>| -> Vec<AgentRequest> {
            pieces.into_iter().filter(|piece| piece.asked).collect()
        };
        let choices = choices.into_iter().map(asked).collect();
        refusal.alternatives = alternatives(broker, caller, wish, &asked(pieces), choices).await;
    }
    Ok(enquiry)
}

/// Reserves.
///
/// # Errors
/// As [`enquire`]; and an agent's refusal, with alternatives.
pub async fn create(broker: &Broker, caller: &CallerDoc, wish: &Wish, key: &str) -> Answer<Reservation> {
    plan::asked(wish).says_how_long().map_err(|problem| Problem::said("", problem))?;
    let ends = wish.path.as_ref().map(|path| (path.from, path.to));
    let group = if key.is_empty() {
        GroupId::draw(ends).map_err(|error| Problem::unavailable(format!("no randomness: {error}")))?
    } else {
        let group = keyed(caller, key, wish);
        broker.use_key(group)?;
        group
    };
    let id = ReservationId::Group(group);
    let _lock = broker.lock(&id).await;
    let before = if key.is_empty() { Before::default() } else { before(broker, caller, &group, wish).await? };
    if let Some(found) = &before.whole {
        return Ok(shown(broker, &id, found));
    }
    if let Some(path) = &wish.path
        && crossing::is_elsewhere(broker, path.to)
    {
        return cross::begin(broker, caller, (wish, path), (&group, key, before.attempt)).await;
    }
    if wish.path.as_ref().is_some_and(|path| path.tree) {
        return Err(Problem::misuse("tree: both hosts are in this domain, so there is nobody else to ask"));
    }
    let mut choices = choices(broker, wish, false, None).await?;
    let mut pieces = first_with_room(broker, caller, wish, &mut choices).await;
    let result = match settle(broker, caller, wish, &mut pieces).await {
        Ok(()) => {
            let names = broker.names();
            plan::name(&names, &mut pieces, &group, key, before.attempt);
            group::create(broker, caller, &group, pieces.clone(), wish.hold_s).await
        }
        Err(problem) => Err(problem),
    };
    match result {
        Err(mut problem) if problem.kind.ends_with("no_room") && pieces.len() > 1 => {
            let alternatives = alternatives(broker, caller, wish, &pieces, choices).await;
            if let Some(refusal) = &mut problem.refusal {
                refusal.alternatives = alternatives;
            }
            Err(problem)
        }
        Err(mut problem) => {
            name_alternatives(broker, &pieces, problem.refusal.as_deref_mut());
            Err(problem)
        }
        made => made,
    }
}

/// Takes the first choice out. Where packets are steered over what was reserved, that is the first with room: the
/// shortest may be full. Elsewhere it is the one that packets take.
async fn first_with_room(
    broker: &Broker,
    caller: &CallerDoc,
    wish: &Wish,
    choices: &mut Vec<Vec<AgentRequest>>,
) -> Vec<AgentRequest> {
    let tries = if broker.is_steered() && choices.len() > 1 { choices.len() } else { 0 };
    for number in 0..tries {
        let mut pieces = choices[number].clone();
        let granted = match settle(broker, caller, wish, &mut pieces).await {
            Ok(()) => ask_all(broker, caller, &pieces).await,
            Err(problem) => Err(problem),
        };
        if granted.is_ok_and(|answers| answers.iter().all(|said| said.accepted)) {
            return choices.remove(number);
        }
    }
    choices.remove(0)
}

/// The group of a key and a request: its name is made of both, so every broker finds it again.
fn keyed(caller: &CallerDoc, key: &str, wish: &Wish) -> GroupId {
    let ends = wish.path.as_ref().map(|path| (path.from, path.to));
    let mut group = GroupId::of_key(&caller.name, key, ends);
    // Our own documents have string keys and finite numbers: they can always be written.
    let body = Sha256::digest(serde_json::to_vec(wish).unwrap_or_default());
    group.number[KEY_BYTES..].copy_from_slice(&body[..16 - KEY_BYTES]);
    group
}

/// The pieces of a request, over the best path first. At least one choice, of at least one piece. `ends`: the
/// ends of the part of the path in this domain, if the hosts are elsewhere.
///
/// # Errors
/// 422: the request is wrong, or no path is known; 503: an agent is away.
pub(crate) async fn choices(
    broker: &Broker,
    wish: &Wish,
    enquiry: bool,
    ends: Option<(IpAddr, IpAddr)>,
) -> Answer<Vec<Vec<AgentRequest>>> {
    let names = broker.names();
    let alone = plan::parts(&names, wish)?;
    let Some(path) = &wish.path else {
        return match alone.is_empty() {
            true => Err(Problem::misuse("nothing is asked for: name path, or parts")),
            false => Ok(vec![alone]),
        };
    };
    let wanted = |rate: Option<u64>| rate.is_some_and(|rate| rate > 0);
    let (forward, reverse) = (wanted(path.forward), wanted(path.reverse));
    if !enquiry && !forward && !reverse && wish.when.volume.is_none() {
        return Err(Problem::misuse("how much? give forward or reverse, bit/s"));
    }
    let map = broker.map().await?;
    let (from, to) = ends.unwrap_or((path.from, path.to));
    let mut choices: Vec<Vec<AgentRequest>> = vec![alone];
    for (way, asked, ends) in [
        (MemberRole::Forward, forward || wish.when.volume.is_some(), (from, to)),
        (MemberRole::Reverse, reverse, (to, from)),
    ] {
        if !asked && !enquiry {
            continue;
        }
        let (ways, _) = broker.ways(&map, ends, WAYS).await;
        let mut over: Vec<Vec<AgentRequest>> = Vec::new();
        let mut wrong = None;
        for legs in &ways {
            match plan::over(&names, &map, legs, wish, path, way) {
                Ok(pieces) => over.push(pieces),
                Err(problem) => wrong = wrong.or(Some(problem)),
            }
        }
        if over.is_empty() && asked {
            return Err(wrong.unwrap_or_else(|| unknown(&map, ends)));
        }
        if over.is_empty() {
            continue;
        }
        // The best of both; and each other path with the best of the other direction.
        let base = choices[0].clone();
        let with = |base: &Vec<AgentRequest>, pieces: &Vec<AgentRequest>| {
            base.iter().chain(pieces).cloned().collect::<Vec<_>>()
        };
        let mut next: Vec<Vec<AgentRequest>> = choices.iter().map(|choice| with(choice, &over[0])).collect();
        next.extend(over[1..].iter().map(|pieces| with(&base, pieces)));
        choices = next;
    }
    if choices[0].is_empty() {
        return Err(unknown(&map, (from, to)));
    }
    for choice in &mut choices {
        choice.sort_by_key(|piece| (piece.agent, piece.way));
    }
    Ok(choices)
}

/// The refusal if no path is known: there is none, or it leads over agents that do not answer now.
fn unknown(map: &LinkMap, ends: (IpAddr, IpAddr)) -> Box<Problem> {
    let way = format!("no way from {} to {} is known", ends.0, ends.1);
    match map.away() {
        [] => Problem::misuse(format!("{way}: do agents on it belong to this broker?")),
        away => Problem::unavailable(format!("{way} while these agents do not answer: {}", away.join(", "))),
    }
}

/// Each agent's answer to an enquiry, in the order of pieces.
async fn ask_all(broker: &Broker, caller: &CallerDoc, pieces: &[AgentRequest]) -> Answer<Vec<EnquiredDoc>> {
    let agents: Vec<_> = pieces.iter().map(|piece| broker.agents[piece.agent].clone()).collect();
    let answers = each(&agents, |number, agent| {
        let (caller, ask) = (caller.clone(), pieces[number].ask.clone());
        async move {
            match agent.ask(&caller, Request::BookEnquire(ask)).await? {
                BookAnswer::Enquired(doc) => Ok(doc),
                _ => Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
            }
        }
    });
    answers.await.into_iter().collect()
}

/// The answers of all agents as one.
async fn enquired(broker: &Broker, caller: &CallerDoc, pieces: &[AgentRequest]) -> Answer<Enquiry> {
    let answers = ask_all(broker, caller, pieces).await?;
    let mut enquiry = Enquiry { accepted: true, forward: None, reverse: None, parts: Vec::new(), refusal: None };
    for (piece, said) in pieces.iter().zip(answers) {
        let name = &broker.agents[piece.agent].name;
        if piece.asked && !said.accepted {
            enquiry.accepted = false;
            let refusal = said.refusal.map(|mut refusal| {
                refusal.resource = refusal.resource.map(|resource| format!("{name}/{resource}"));
                refusal.message = format!("{name}: {}", refusal.message);
                refusal
            });
            enquiry.refusal = enquiry.refusal.or(refusal);
        }
        let most = match piece.way {
            MemberRole::Forward => Some(&mut enquiry.forward),
            MemberRole::Reverse => Some(&mut enquiry.reverse),
            MemberRole::Alone => None,
        };
        if let Some(most) = most {
            for free in said.free.iter().map(|free| *free as u64) {
                *most = Some(most.map_or(free, |before| before.min(free)));
            }
        }
        for (number, part) in piece.ask.parts.iter().enumerate() {
            enquiry.parts.push(EnquiredPart {
                resource: format!("{name}/{}", part.resource),
                way: piece.way.name().map(str::to_owned),
                kind: said.kinds.get(number).cloned().unwrap_or_default(),
                free: said.free.get(number).copied().unwrap_or_default(),
                granted: if piece.asked { said.granted.get(number).cloned().unwrap_or_default() } else { Vec::new() },
            });
        }
    }
    Ok(enquiry)
}

/// Gives all pieces the same window and amount, if the request leaves them open and there are several pieces.
async fn settle(broker: &Broker, caller: &CallerDoc, wish: &Wish, pieces: &mut [AgentRequest]) -> Answer<()> {
    if pieces.len() < 2 {
        return Ok(());
    }
    if !wish.when.may_fail.is_empty() {
        return Err(Problem::misuse("may_fail is possible with resources of one agent only"));
    }
    if wish.when.volume.is_some() {
        constant(broker, wish, pieces)?;
    }
    if wish.when.earliest {
        earliest(broker, caller, wish, pieces).await?;
    }
    let ranges = pieces.iter().any(|piece| piece.ask.parts.iter().any(|part| part.at_least.is_some()));
    if !ranges {
        return Ok(());
    }
    let answers = ask_all(broker, caller, pieces).await?;
    for (piece, said) in pieces.iter().zip(&answers) {
        refuse(broker, piece, said)?;
    }
    for way in MemberRole::ALL.into_iter().filter(|way| *way != MemberRole::Alone) {
        let of = |said: &EnquiredDoc| said.granted.iter().flatten().map(|step| step.amount).reduce(f64::min);
        let granted =
            pieces.iter().zip(&answers).filter(|(piece, _)| piece.way == way).filter_map(|(_, said)| of(said));
        let Some(rate) = granted.reduce(f64::min) else { continue };
        for part in pieces.iter_mut().filter(|piece| piece.way == way).flat_map(|piece| &mut piece.ask.parts) {
            (part.rate, part.at_least) = (Some(rate as u64), None);
        }
    }
    Ok(())
}

/// A volume over several agents is moved at one constant rate.
fn constant(broker: &Broker, wish: &Wish, pieces: &mut [AgentRequest]) -> Answer<()> {
    let Some(volume) = wish.when.volume else { return Ok(()) };
    let now = broker.clock.today();
    let start = wish.when.start.map_or(now, |start| start.0.max(now));
    let span = volume.deadline.0.since(start).as_nanos();
    if volume.deadline.0 <= start || volume.bytes == 0 {
        return Err(Problem::misuse("a volume has bytes, and a deadline that is ahead"));
    }
    let nanos = u128::from(volume.bytes) * 8 * 1_000_000_000;
    let rate =
        u64::try_from(nanos.div_ceil(u128::from(span))).map_err(|_| Problem::misuse("so much so soon is no rate"))?;
    if pieces.iter().any(|piece| piece.way == MemberRole::Reverse && piece.asked) {
        return Err(Problem::misuse("a volume goes one way: forward"));
    }
    for piece in pieces {
        for part in &mut piece.ask.parts {
            let most = part.rate.filter(|most| *most > 1);
            if most.is_some_and(|most| most < rate) {
                let what =
                    format!("{} bytes by then need {rate} bit/s, more than the most that was named", volume.bytes);
                return Err(Problem::misuse(what));
            }
            part.rate = Some(rate);
        }
        (piece.ask.when.volume, piece.ask.when.end, piece.asked) = (None, Some(volume.deadline), true);
    }
    Ok(())
}

/// The earliest start that suits every agent: each gives its own, and the latest is tried with all.
async fn earliest(broker: &Broker, caller: &CallerDoc, wish: &Wish, pieces: &mut [AgentRequest]) -> Answer<()> {
    let seconds = wish.when.duration_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0 && *seconds < 4e9);
    let span = Span::from_nanos(
        (seconds.ok_or_else(|| Problem::misuse("earliest needs duration_s: for how long?"))? * 1e9) as u64,
    );
    for _ in 0..ROUNDS {
        let answers = ask_all(broker, caller, pieces).await?;
        let mut starts = Vec::new();
        for (piece, said) in pieces.iter().zip(&answers) {
            refuse(broker, piece, said)?;
            starts.extend(said.granted.iter().flatten().map(|step| step.start.0));
        }
        let (Some(&first), Some(&last)) = (starts.iter().min(), starts.iter().max()) else { break };
        // Agents that all say `now` say it a moment apart.
        let same = last.since(first) < Span::from_secs(1);
        for piece in &mut *pieces {
            piece.ask.when.start = Some(Instant(last));
            if same {
                (piece.ask.when.earliest, piece.ask.when.duration_s) = (false, None);
                piece.ask.when.end = Some(Instant(last.saturating_add(span)));
            }
        }
        if same {
            return Ok(());
        }
    }
    Err(Problem::unavailable("no start that suits all agents was found in time: try a later one"))
}

/// One agent's refusal as the answer to the whole request.
fn refuse(broker: &Broker, piece: &AgentRequest, said: &EnquiredDoc) -> Answer<()> {
    let (false, Some(refusal)) = (said.accepted, &said.refusal) else { return Ok(()) };
    let problem = documents::agent::Problem {
        kind: "refused".to_owned(),
        message: refusal.message.clone(),
        refusal: Some(Box::new(refusal.clone())),
    };
    Err(Problem::said(&broker.agents[piece.agent].name, problem))
}

/// Alternatives that all agents would accept now: later, slower, or over another path.
async fn alternatives(
    broker: &Broker,
    caller: &CallerDoc,
    wish: &Wish,
    pieces: &[AgentRequest],
    others: Vec<Vec<AgentRequest>>,
) -> Vec<AlternativeDoc> {
    let mut found = Vec::new();
    for other in others {
        let mut other = other;
        if settle(broker, caller, wish, &mut other).await.is_ok() {
            found.extend(tried(broker, caller, AlternativeWord::OtherPath.as_str(), &other).await);
        }
        if found.len() == ALTERNATIVES - 1 {
            break;
        }
    }
    if let Some(later) = later(broker, caller, wish, pieces).await {
        found.push(later);
    }
    if let Some(slower) = slower(broker, caller, pieces).await {
        found.push(slower);
    }
    found.truncate(ALTERNATIVES);
    found
}

/// An alternative, if all agents would accept it.
async fn tried(broker: &Broker, caller: &CallerDoc, sort: &str, pieces: &[AgentRequest]) -> Option<AlternativeDoc> {
    let answers = ask_all(broker, caller, pieces).await.ok()?;
    let accepted = pieces.iter().zip(&answers).all(|(piece, said)| !piece.asked || said.accepted);
    let parts: Vec<Vec<StepDoc>> = answers.into_iter().flat_map(|said| said.granted).collect();
    accepted.then(|| AlternativeDoc { sort: sort.to_owned(), parts, resources: resources(broker, pieces) })
}

/// The resources of an alternative's parts: a request for a path does not name them.
fn resources(broker: &Broker, pieces: &[AgentRequest]) -> Vec<String> {
    let of = |piece: &AgentRequest| {
        let agent = broker.agents[piece.agent].name.clone();
        let parts = piece.ask.parts.clone().into_iter();
        parts.map(move |part| format!("{agent}/{}", part.resource))
    };
    pieces.iter().flat_map(of).collect()
}

/// Names the resources in the alternatives of a refusal that one agent made alone.
fn name_alternatives(broker: &Broker, pieces: &[AgentRequest], refusal: Option<&mut RefusalDoc>) {
    for alternative in refusal.into_iter().flat_map(|refusal| &mut refusal.alternatives) {
        alternative.resources = resources(broker, pieces);
    }
}

/// The same request at the earliest start that fits.
async fn later(broker: &Broker, caller: &CallerDoc, wish: &Wish, pieces: &[AgentRequest]) -> Option<AlternativeDoc> {
    let now = broker.clock.today();
    let span = match (wish.when.duration_s, wish.when.start, wish.when.end) {
        (Some(seconds), _, _) => seconds,
        (None, start, Some(end)) if end.0 != Time::FOREVER => {
            end.0.since(start.map_or(now, |start| start.0)).as_nanos() as f64 / 1e9
        }
        _ => return None,
    };
    if wish.when.earliest || wish.when.volume.is_some() || !wish.when.windows.is_empty() {
        return None;
    }
    let span = span.ceil(); // people type whole seconds
    let when = WhenDoc { earliest: true, duration_s: Some(span), end: None, ..wish.when.clone() };
    let wish = Wish { when, ..wish.clone() };
    let mut pieces = pieces.to_vec();
    for _ in 0..LATER {
        for piece in &mut pieces {
            (piece.ask.when.earliest, piece.ask.when.duration_s, piece.ask.when.end) = (true, Some(span), None);
        }
        earliest(broker, caller, &wish, &mut pieces).await.ok()?;
        let start = pieces.first()?.ask.when.start?.0.whole_second();
        let end = start.saturating_add(Span::from_nanos((span * 1e9) as u64));
        for piece in &mut pieces {
            (piece.ask.when.start, piece.ask.when.end) = (Some(Instant(start)), Some(Instant(end)));
        }
        if let Some(found) = tried(broker, caller, AlternativeWord::Later.as_str(), &pieces).await {
            return Some(found);
        }
    }
    None
}

/// The largest amount that fits in the same window.
async fn slower(broker: &Broker, caller: &CallerDoc, pieces: &[AgentRequest]) -> Option<AlternativeDoc> {
    let answers = ask_all(broker, caller, pieces).await.ok()?;
    let mut pieces = pieces.to_vec();
    for way in [MemberRole::Forward, MemberRole::Reverse] {
        let free = pieces.iter().zip(&answers).filter(|(piece, _)| piece.way == way).flat_map(|(_, said)| &said.free);
        let Some(most) = free.copied().reduce(f64::min) else { continue };
        for part in pieces.iter_mut().filter(|piece| piece.way == way).flat_map(|piece| &mut piece.ask.parts) {
            part.rate = part.rate.map(|rate| rate.min(most as u64));
        }
    }
    let something = pieces.iter().all(|piece| piece.ask.parts.iter().all(|part| part.rate.is_none_or(|rate| rate > 0)));
    if !something {
        return None;
    }
    tried(broker, caller, "slower", &pieces).await
}
