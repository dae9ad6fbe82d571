//! `GET /v1/reservations`: the reservations of all agents as one list, whole or in pages.
//!
//! Each agent lists its own in the order in which they were made there. The broker merges these lists by time, and a
//! cursor is the last row of each agent that was passed. A reservation of several agents is shown where the first of
//! its rows comes, and not again on a later page.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::gather::{self, GroupMembers, Member, each, id_of};
use crate::id::ReservationId;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::Query;
use crate::shown::{shown, whole, with_domains};
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use documents::book::{BookFilter, Instant, ReservationDoc, WindowDoc};
use documents::links::CallerDoc;
use documents::rest::{Reservation, Reservations};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use terms::Time;

/// The most reservations on one page.
const MAX_PAGE: usize = 1000;
/// The longest cursor that is parsed, octets.
const MAX_CURSOR: usize = 16 << 10;

/// A place in the list: of each agent the last row that was passed, and when that was made there.
/// Written `maui:1764300000000000000:HANDLE,glenwood:...`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct ListCursor(BTreeMap<String, (Time, String)>);

impl ListCursor {
    /// Parses a cursor; `None`: it is none.
    fn parse(text: &str) -> Option<ListCursor> {
        if text.len() > MAX_CURSOR {
            return None;
        }
        let one = |part: &str| {
            let mut fields = part.splitn(3, ':');
            let (agent, made, handle) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?);
            let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
            (is_word(agent) && is_word(handle)).then(|| (agent.to_owned(), (Time::from_nanos(made), handle.to_owned())))
        };
        text.split(',').map(one).collect::<Option<BTreeMap<_, _>>>().map(ListCursor)
    }

    /// The handle of an agent's last row that was passed.
    fn handle(&self, agent: &str) -> Option<String> {
        self.0.get(agent).map(|(_, handle)| handle.clone())
    }

    /// Moves the place past an agent's row.
    fn pass(&mut self, agent: &str, row: &ReservationDoc) {
        self.0.insert(agent.to_owned(), (row.created.0, row.handle.clone()));
    }

    /// True if an agent's row was passed.
    fn has_passed(&self, agent: &str, row: &ReservationDoc) -> bool {
        self.0.get(agent).is_some_and(|(made, handle)| row.created.0 < *made || row.handle == *handle)
    }
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (agent, (made, handle))) in self.0.iter().enumerate() {
            write!(f, "{}{agent}:{}:{handle}", if number > 0 { "," } else { "" }, made.as_nanos())?;
        }
        Ok(())
    }
}

/// One agent's rows that are not passed yet, oldest first, and true if it has more than these.
#[derive(Debug, Default)]
struct AgentRows {
    rows: VecDeque<ReservationDoc>,
    more: bool,
}

/// A request for a list.
struct ListAsk {
    filter: BookFilter,
    /// Only this agent's, as a resource of it was named.
    only: Option<usize>,
    limit: Option<usize>,
    cursor: ListCursor,
}

impl ListAsk {
    fn read(broker: &Broker, query: Option<String>) -> Answer<ListAsk> {
        let known = ["owner", "label", "resource", "state", "from", "to", "limit", "after"];
        let query = Query::read(query, &known)?;
        let window = match (query.parsed::<Instant>("from")?, query.parsed::<Instant>("to")?) {
            (Some(start), Some(end)) => Some(WindowDoc { start, end }),
            (None, None) => None,
            _ => return Err(Problem::malformed("a window goes from and to")),
        };
        let limit = query.parsed::<usize>("limit")?;
        if limit.is_some_and(|limit| !(1..=MAX_PAGE).contains(&limit)) {
            return Err(Problem::malformed(format!("limit is 1 to {MAX_PAGE}")));
        }
        let cursor = query.text("after").map(|text| {
            let what = || Problem::malformed("after: this is the `next` of no list");
            ListCursor::parse(&text).ok_or_else(what)
        });
        let states = query.text("state").map(|states| states.split(',').map(str::to_owned).collect());
        let names = broker.names();
        let place = query.text("resource").map(|resource| {
            crate::plan::place(&names, &resource).map(|(number, resource)| (number, resource.to_owned()))
        });
        let (only, resource) = place.transpose()?.unzip();
        let filter = BookFilter {
            owner: query.text("owner"),
            label: query.text("label"),
            states: states.unwrap_or_default(),
            window,
            resource,
            limit,
            ..BookFilter::default()
        };
        Ok(ListAsk { filter, only, limit, cursor: cursor.transpose()?.unwrap_or_default() })
    }

    /// True if a list with this filter has rows in this state.
    fn lists(&self, row: &ReservationDoc) -> bool {
        match self.filter.states.as_slice() {
            [] => !matches!(row.state.as_str(), "ended" | "cancelled" | "expired"),
            states => states.contains(&row.state),
        }
    }
}

/// The caller's reservations; for an operator or auditor, all. Without `limit` as many as the agents list at once.
#[utoipa::path(get, path = "/v1/reservations", params(
    ("owner" = Option<String>, Query, description = "Of this owner"),
    ("label" = Option<String>, Query, description = "With this label"),
    ("resource" = Option<String>, Query, description = "With a part of this resource, AGENT/RESOURCE"),
    ("state" = Option<String>, Query, description = "In one of these states, separated by commas; default: all that are not over"),
    ("from" = Option<String>, Query, description = "With a window that meets the one from here"),
    ("to" = Option<String>, Query, description = "to here, RFC 3339"),
    ("limit" = Option<usize>, Query, description = "At most so many, 1 to 1000"),
    ("after" = Option<String>, Query, description = "The `next` of the page before"),
), responses((status = 200, body = Reservations), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result<Json<Reservations>, BoxedProblem> {
    let caller = peer.caller()?;
    let ask = ListAsk::read(&broker, query)?;
    Ok(Json(page(&broker, &caller, &ask).await?))
}

/// All reservations of a caller that match, page after page, at most `most`.
///
/// # Errors
/// An agent's error.
pub(crate) async fn all(
    broker: &Arc<Broker>,
    caller: &CallerDoc,
    resource: Option<(usize, String)>,
    most: usize,
) -> Answer<Vec<Reservation>> {
    let (only, resource) = resource.unzip();
    let filter = BookFilter { resource, ..BookFilter::default() };
    let mut ask = ListAsk { filter, only, limit: Some(MAX_PAGE.min(most)), cursor: ListCursor::default() };
    let mut rows = Vec::new();
    loop {
        let found = page(broker, caller, &ask).await?;
        rows.extend(found.reservations);
        // A page that ends where it began would come for ever.
        let goes_on = |next: &ListCursor| rows.len() < most && *next != ask.cursor;
        match found.next.as_deref().and_then(ListCursor::parse).filter(goes_on) {
            Some(next) => ask.cursor = next,
            None => return Ok(rows),
        }
    }
}

async fn page(broker: &Arc<Broker>, caller: &CallerDoc, ask: &ListAsk) -> Answer<Reservations> {
    let (mut agents, away) = rows(broker, caller, ask).await?;
    let mut cursor = ask.cursor.clone();
    let mut found_rows: Vec<Reservation> = Vec::new();
    let mut groups = groups(broker, &agents);
    while ask.limit.is_none_or(|limit| found_rows.len() < limit) {
        let Some(number) = oldest(&agents) else { break };
        let Some(row) = agents[number].rows.pop_front() else { break };
        let name = &broker.agents[number].name;
        cursor.pass(name, &row);
        let (id, _) = id_of(name, &row.group, &row.handle);
        // Its other rows come with the first.
        let Some(mut members) = groups.remove(&id) else { continue };
        members.sort_by_key(|member| (member.way, member.agent));
        let found = whole(broker, caller, &id, members).await?;
        if !was_shown(broker, ask, &found) {
            found_rows.push(shown(broker, &id, &found));
        }
    }
    let more = agents.iter().any(|agent| agent.more || !agent.rows.is_empty());
    let next = more.then(|| cursor.to_string()).filter(|next| !next.is_empty());
    Ok(Reservations { reservations: asked_on(broker, found_rows).await?, more, next, away })
}

/// The agent whose next row is the oldest; `None`: there is none, or an agent has more that may be older.
fn oldest(agents: &[AgentRows]) -> Option<usize> {
    if agents.iter().any(|agent| agent.more && agent.rows.is_empty()) {
        return None;
    }
    let made = |(number, agent): (usize, &AgentRows)| agent.rows.front().map(|row| (row.created, number));
    agents.iter().enumerate().filter_map(made).min().map(|(_, number)| number)
}

/// The rows of each agent after the cursor, and the agents that are away.
async fn rows(broker: &Broker, caller: &CallerDoc, ask: &ListAsk) -> Answer<(Vec<AgentRows>, Vec<String>)> {
    let answers = each(&broker.agents, |number, agent| {
        let filter = BookFilter { after: ask.cursor.handle(&agent.name), ..ask.filter.clone() };
        let (caller, elsewhere) = (caller.clone(), ask.only.is_some_and(|only| only != number));
        async move {
            if elsewhere {
                return Ok(AgentRows::default());
            }
            let mut conversation = agent.speak(&caller).await?;
            let found = gather::list(&mut conversation, filter).await;
            conversation.end();
            found.map(|(rows, more)| AgentRows { rows: rows.into(), more })
        }
    });
    let (mut all, mut away) = (Vec::new(), Vec::new());
    for (agent, answer) in broker.agents.iter().zip(answers.await) {
        match answer {
            Ok(rows) => all.push(rows),
            Err(problem) if problem.status == 503 => {
                away.push(agent.name.to_string());
                all.push(AgentRows::default());
            }
            Err(problem) if problem.status == 404 && ask.cursor.handle(&agent.name).is_some() => {
                return Err(Problem::misuse("the place where that page ended is no longer kept: begin the list anew"));
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok((all, away))
}

/// The rows by reservation.
fn groups(broker: &Broker, agents: &[AgentRows]) -> BTreeMap<ReservationId, Vec<Member>> {
    let mut groups: BTreeMap<ReservationId, Vec<Member>> = BTreeMap::new();
    for (number, agent) in agents.iter().enumerate() {
        for doc in &agent.rows {
            let (id, way) = id_of(&broker.agents[number].name, &doc.group, &doc.handle);
            groups.entry(id).or_default().push(Member { agent: number, way, doc: doc.clone() });
        }
    }
    groups
}

/// True if a row of the reservation was on an earlier page.
fn was_shown(broker: &Broker, ask: &ListAsk, found: &GroupMembers) -> bool {
    let passed = |member: &Member| {
        ask.cursor.has_passed(&broker.agents[member.agent].name, &member.doc) && ask.lists(&member.doc)
    };
    found.members.iter().any(passed)
}

/// The same reservations, with the state of those that cross domains as the next domain knows it.
async fn asked_on(broker: &Arc<Broker>, rows: Vec<Reservation>) -> Answer<Vec<Reservation>> {
    let asked: Vec<_> = rows.into_iter().map(|row| tokio::spawn(with_domains(broker.clone(), row))).collect();
    let mut rows = Vec::with_capacity(asked.len());
    for row in asked {
        rows.push(row.await.map_err(|error| Problem::unavailable(format!("a question was lost: {error}")))?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        let cursor = ListCursor::parse("maui:17:abc,glenwood:5:x:y").unwrap();
        assert_eq!((cursor.handle("maui"), cursor.handle("other")), (Some("abc".into()), None));
        assert_eq!(cursor.handle("glenwood"), Some("x:y".into()));
        assert_eq!(ListCursor::parse(&cursor.to_string()), Some(cursor));
        for wrong in ["", "maui", "maui:1", "maui:x:y", "maui:1:", ":1:h", "maui:-1:h", &"a:1:h,".repeat(10_000)] {
            assert_eq!(ListCursor::parse(wrong), None, "{wrong:.20}");
        }
    }
}
