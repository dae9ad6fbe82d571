//! The members of a reservation at its agents, found and put together.

use crate::agents::{AgentClient, Conversation, own_voice};
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::problem::{Answer, Problem};
use documents::agent::Request;
use documents::book::{BookAnswer, BookEvents, BookFilter, PartRow, ReservationDoc};
use documents::links::CallerDoc;
use documents::rest::{Ends, Part, Reservation, ReservationWord};
use documents::show::PAGE;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Every state, so that reservations that are over are found as well.
const STATES: [&str; 8] = ["held", "promised", "booked", "active", "suspended", "ended", "cancelled", "expired"];

/// One agent's reservation for one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// The agent's index.
    pub agent: usize,
    /// The role of the member.
    pub way: MemberRole,
    /// The reservation.
    pub doc: ReservationDoc,
}

impl Member {
    /// True if it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.doc.state.as_str(), "ended" | "cancelled" | "expired")
    }
}

/// The members that were found, and the agents that did not answer.
#[derive(Clone, Debug, Default)]
pub struct GroupMembers {
    /// The members, in order of agents and roles.
    pub members: Vec<Member>,
    /// Agents that are away.
    pub away: Vec<usize>,
    /// Members that the others name and that their agents do not know, or no longer know.
    pub missing: Vec<(usize, MemberRole)>,
    /// Members that the others name at agents that are away or not this broker's, by the agent's name.
    pub unknown: Vec<(String, MemberRole)>,
}

impl GroupMembers {
    /// Groups members by the newest one's list of names. Members of an earlier attempt with the same key are
    /// left out.
    fn complete(agents: &[AgentClient], mut members: Vec<Member>, away: Vec<usize>) -> GroupMembers {
        let newest = members.iter().max_by_key(|member| (!member.is_over(), member.doc.created));
        let names = newest.map(|newest| newest.doc.members.clone()).unwrap_or_default();
        members.sort_by_key(|member| (member.way, member.agent));
        let mut found = GroupMembers { away, ..GroupMembers::default() };
        if names.is_empty() {
            found.members = members;
            return found;
        }
        for (name, way) in names.iter().filter_map(|name| GroupId::of_member_name(name)) {
            let number = agents.iter().position(|agent| *agent.name == *name);
            match number {
                Some(number) if members.iter().any(|member| (member.agent, member.way) == (number, way)) => {}
                Some(number) if !found.away.contains(&number) => found.missing.push((number, way)),
                _ => found.unknown.push((name.to_owned(), way)),
            }
        }
        members.retain(|member| names.contains(&GroupId::member_name(&agents[member.agent].name, member.way)));
        found.members = members;
        found
    }

    /// The members that are not over.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_over())
    }
}

/// Puts the same question to all agents at once; the answers come in the agents' order.
pub async fn each<T, F, Fut>(agents: &[AgentClient], ask: F) -> Vec<Answer<T>>
where
    T: Send + 'static,
    F: Fn(usize, AgentClient) -> Fut,
    Fut: Future<Output = Answer<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (number, agent) in agents.iter().cloned().enumerate() {
        let answer = ask(number, agent);
        tasks.spawn(async move { (number, answer.await) });
    }
    let mut answers: BTreeMap<usize, Answer<T>> = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        if let Ok((number, answer)) = done {
            answers.insert(number, answer);
        }
    }
    let lost = || Err(Problem::unavailable("the question was lost"));
    (0..agents.len()).map(|number| answers.remove(&number).unwrap_or_else(lost)).collect()
}

/// All of a reservation that the caller may see; 404 if that is nothing, whatever the reason.
///
/// # Errors
/// 404; 503: nothing was found, and an agent that may hold it is away.
pub async fn find(agents: &[AgentClient], caller: &CallerDoc, id: &ReservationId) -> Answer<GroupMembers> {
    let found = match id {
        ReservationId::Lone { agent, handle } => lone(agents, caller, agent, handle).await?,
        ReservationId::Group(group) => members(agents, caller, group).await?,
    };
    match (found.members.is_empty(), found.away.first()) {
        (true, Some(&away)) => Err(Problem::unavailable(format!("the agent {} does not answer", agents[away].name))),
        (true, None) => Err(Problem::not_found()),
        (false, _) => Ok(found),
    }
}

async fn lone(agents: &[AgentClient], caller: &CallerDoc, agent: &str, handle: &str) -> Answer<GroupMembers> {
    let Some(number) = agents.iter().position(|known| *known.name == *agent) else { return Err(Problem::not_found()) };
    let ask = Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() };
    match agents[number].ask(&reading(caller), ask).await {
        // A reservation has one name here: a member of a group has the group's name.
        Ok(BookAnswer::Reservation(doc)) if GroupId::of_member(&doc.group).is_none() => Ok(GroupMembers {
            members: vec![Member { agent: number, way: MemberRole::Alone, doc }],
            ..GroupMembers::default()
        }),
        Ok(_) => Err(Problem::not_found()),
        // A handle that is mistyped is as unknown as one that is not there.
        Err(problem) if problem.status == 422 => Err(Problem::not_found()),
        Err(problem) => Err(problem),
    }
}

/// The caller who only reads: a token is shown where something is asked for. An agent that is not on the way may not
/// know its organisation, and what was granted is found also when the token has been revoked.
fn reading(caller: &CallerDoc) -> CallerDoc {
    CallerDoc { token: None, ..caller.clone() }
}

/// The members of a group at all agents.
///
/// # Errors
/// An agent's answer was of the wrong kind.
pub async fn members(agents: &[AgentClient], caller: &CallerDoc, group: &GroupId) -> Answer<GroupMembers> {
    members_at(agents, caller, group, |_| true).await
}

/// The members of a group at the agents whose names are asked for; the others are not waited for.
///
/// # Errors
/// An agent's answer was of the wrong kind.
pub async fn members_at(
    agents: &[AgentClient],
    caller: &CallerDoc,
    group: &GroupId,
    asked: impl Fn(&str) -> bool,
) -> Answer<GroupMembers> {
    let answers = each(agents, |number, agent| {
        let (caller, group, asked) = (reading(caller), *group, asked(&agent.name));
        async move {
            if !asked {
                return Ok(Vec::new());
            }
            let mut conversation = agent.speak(&caller).await?;
            let mut found = Vec::new();
            for way in MemberRole::ALL.into_iter().filter(|way| *way == MemberRole::Alone || group.ends.is_some()) {
                let filter = BookFilter { group: Some(group.member(way)), ..all() };
                let (rows, _) = list(&mut conversation, filter).await?;
                // The newest reservation, if one was tried again after an earlier one was over.
                found.extend(newest(rows).map(|doc| Member { agent: number, way, doc }));
            }
            conversation.end();
            Ok(found)
        }
    });
    let (mut all, mut away) = (Vec::new(), Vec::new());
    for (number, answer) in answers.await.into_iter().enumerate() {
        match answer {
            Ok(members) => all.extend(members),
            Err(problem) if problem.status == 503 => away.push(number),
            // A partner's agent whose policy no longer names us: its members stop nothing else.
            Err(problem) if problem.status == 403 && *caller == own_voice() => away.push(number),
            Err(problem) => return Err(problem),
        }
    }
    Ok(GroupMembers::complete(agents, all, away))
}

fn newest(rows: Vec<ReservationDoc>) -> Option<ReservationDoc> {
    let over = |doc: &ReservationDoc| matches!(doc.state.as_str(), "ended" | "cancelled" | "expired");
    rows.into_iter().max_by_key(|doc| (!over(doc), doc.created))
}

/// A filter that also matches reservations that are over.
pub fn all() -> BookFilter {
    BookFilter { states: STATES.map(str::to_owned).to_vec(), ..BookFilter::default() }
}

/// The matching reservations of one agent, and true if there are more.
///
/// # Errors
/// The agent's error.
pub async fn list(conversation: &mut Conversation, filter: BookFilter) -> Answer<(Vec<ReservationDoc>, bool)> {
    match conversation.book(Request::BookShow { handle: None, filter }).await? {
        BookAnswer::Reservations { rows, more } => Ok((rows, more)),
        _ => Err(conversation.nonsense("no list of reservations")),
    }
}

/// All events of one agent's reservation, from all pages.
///
/// # Errors
/// The agent's error.
pub async fn history(agent: &AgentClient, caller: &CallerDoc, handle: &str) -> Answer<BookEvents> {
    let mut conversation = agent.speak(caller).await?;
    let mut all = BookEvents { events: Vec::new(), last: 0, lost: false };
    loop {
        let after = all.events.last().map_or(0, |event| event.seq);
        let answer = conversation.book(Request::BookHistory { handle: handle.to_owned(), after }).await;
        let BookAnswer::Events(page) = answer? else { return Err(conversation.nonsense("no events")) };
        let more = page.events.len() >= PAGE;
        all.events.extend(page.events);
        (all.last, all.lost) = (page.last, all.lost || page.lost);
        if !more {
            conversation.end();
            return Ok(all);
        }
    }
}

/// True if a member that is over was only ever held or promised.
///
/// # Errors
/// Its agent does not answer.
pub async fn never_booked(agent: &AgentClient, member: &Member) -> Answer<bool> {
    if member.doc.state != "cancelled" {
        return Ok(member.doc.state == "expired");
    }
    match history(agent, &own_voice(), &member.doc.handle).await {
        // Old events may be forgotten; then it counts as booked.
        Ok(BookEvents { events, lost: false, .. }) => {
            let created = events.iter().find(|event| event.event == "created");
            let state = created.and_then(|event| event.text.as_deref());
            let waited = matches!(state, Some("held" | "promised"));
            Ok(waited && events.iter().all(|event| event.event != "committed"))
        }
        Ok(_) => Ok(false),
        Err(problem) if problem.status == 404 => Ok(false),
        Err(problem) => Err(problem),
    }
}

/// The name and role of an agent's reservation with this handle and group.
pub fn id_of(agent: &str, group: &str, handle: &str) -> (ReservationId, MemberRole) {
    match GroupId::of_member(group) {
        Some((group, way)) => (ReservationId::Group(group), way),
        None => (ReservationId::Lone { agent: agent.to_owned(), handle: handle.to_owned() }, MemberRole::Alone),
    }
}

/// The members as one document. There is at least one member.
pub fn document(agents: &[AgentClient], id: &ReservationId, found: &GroupMembers) -> Reservation {
    let members = &found.members;
    let first = &members[0].doc;
    let amount = |way: MemberRole| {
        let parts = members.iter().filter(move |member| member.way == way).flat_map(|member| &member.doc.parts);
        let amount = |part: &documents::book::PartRow| match (part.background, part.steps.first()) {
            (None, Some(step)) => step.amount,
            _ => part.now,
        };
        parts.map(amount).min_by(f64::total_cmp).map(|least| least as u64)
    };
    let ends = match id {
        ReservationId::Group(GroupId { ends: Some((from, to)), .. }) => Some(Ends {
            from: *from,
            to: *to,
            forward: amount(MemberRole::Forward),
            reverse: amount(MemberRole::Reverse),
        }),
        _ => None,
    };
    let part = |member: &Member, row: &documents::book::PartRow| {
        let agent = agents[member.agent].name.to_string();
        let mut row = row.clone();
        row.resource = format!("{agent}/{}", row.resource);
        Part { handle: member.doc.handle.clone(), way: member.way.name().map(str::to_owned), agent, row }
    };
    Reservation {
        id: id.to_string(),
        owner: first.owner.clone(),
        label: first.label.clone(),
        state: state(found).to_string(),
        missing: names(found.missing.iter().map(|(agent, _)| agents[*agent].name.to_string())),
        away: names(found.unknown.iter().map(|(agent, _)| agent.clone())),
        created: members.iter().map(|member| member.doc.created).min().unwrap_or(first.created),
        hold_until: members.iter().filter_map(|member| member.doc.hold_until).min(),
        notify_s: members.iter().find_map(|member| member.doc.notify_s),
        path: ends,
        parts: members.iter().flat_map(|member| member.doc.parts.iter().map(move |row| part(member, row))).collect(),
        above: None,
        legs: Vec::new(),
    }
}

/// True if all parts of a direction have the same amounts, a link's and an agreement's alike: a half-finished
/// change leaves them with different ones.
fn of_one_amount(found: &GroupMembers) -> bool {
    [MemberRole::Forward, MemberRole::Reverse].into_iter().all(|way| {
        let members = found.live().filter(|member| member.way == way);
        let amounts = |part: &PartRow| -> Vec<f64> { part.steps.iter().map(|step| step.amount).collect() };
        let mut all = members.flat_map(|member| &member.doc.parts).map(amounts);
        let first = all.next();
        all.all(|amounts| Some(&amounts) == first.as_ref())
    })
}

/// The names, sorted, each once.
fn names(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The one state of all members.
fn state(found: &GroupMembers) -> ReservationWord {
    let members = &found.members;
    let any = |state: &str| members.iter().any(|member| member.doc.state == state);
    let over = members.iter().filter(|member| member.is_over()).count();
    // Its broker has not decided, or has not said so here.
    if any("promised") {
        return ReservationWord::Preparing;
    }
    let halved = over > 0 || !found.missing.is_empty() || !of_one_amount(found);
    if halved && over < members.len() {
        return ReservationWord::Broken;
    }
    // In this order the first that any of them is in is the state of the whole.
    let order = [
        ReservationWord::Cancelled,
        ReservationWord::Expired,
        ReservationWord::Ended,
        ReservationWord::Held,
        ReservationWord::Suspended,
        ReservationWord::Active,
        ReservationWord::Booked,
    ];
    order.into_iter().find(|state| any(state.as_str())).unwrap_or(ReservationWord::Broken)
}
