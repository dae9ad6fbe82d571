//! Trees, the other design of GARA (section 4.1): the caller's broker asks the broker of each domain itself, the last one
//! first. Each of the others is shown the acceptance of the domain after it, and checks it before it promises.
//!
//! All of them are members of one transaction. A domain that is no neighbour is asked only if our own file names its
//! broker (`[[distant]]`), and takes our question only if its file says that we may ask.

use crate::acceptance;
use crate::ask;
use crate::broker::Broker;
use crate::cross::{self, Crossed};
use crate::crossing::{self, CrossingPoint};
use crate::gather::GroupMembers;
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::problem::{Answer, Problem};
use crate::shown::shown;
use crate::transactions::{DomainPart, LegNext, LegRecord};
use axum::http::StatusCode;
use commit::TransactionId;
use documents::legs::{LegAskDoc, LegChange, LegDoc};
use documents::links::CallerDoc;
use documents::rest::Reservation;
use documents::topology::StatementDoc;
use std::collections::BTreeSet;
use terms::{Rate, Time};
use topology::DomainPort;

/// The most ways that are tried for one request.
const WAYS: usize = 3;
/// The most requests of one way that differ by their number only.
const WAY_ATTEMPTS: u64 = 64;

/// The domains after ours on a way: the index of each, and the network by which packets come to it.
type Way = Vec<(usize, String)>;

/// Reserves from a host of ours to one in another domain, and asks all domains on the way.
///
/// # Errors
/// 422: no way is known; the first refusal of an agent or domain: nothing is reserved.
pub async fn begin(
    broker: &Broker,
    caller: &CallerDoc,
    (leg, notify_s): (&LegDoc, Option<f64>),
    (group, key, attempt): (&GroupId, &str, u64),
) -> Answer<Reservation> {
    let mut first = None;
    for (number, way) in ways(broker, leg).into_iter().take(WAYS).enumerate() {
        let attempt = attempt + WAY_ATTEMPTS * number as u64;
        match begin_by(broker, caller, (leg, notify_s), (group, key, attempt), &way).await {
            Err(problem) if problem.kind.ends_with("no_room") => first = first.or(Some(problem)),
            made => return made,
        }
    }
    Err(first.unwrap_or_else(|| {
        let what = "for a tree this broker must know a whole way, as domains publish it (`sluice topology`), and the \
                    broker of each domain on it: [[neighbour]] or [[distant]] in its file";
        Problem::misuse(what)
    }))
}

/// The ways on which we can ask every domain, the best first.
fn ways(broker: &Broker, leg: &LegDoc) -> Vec<Way> {
    let (now, domains) = (broker.clock.today(), broker.transactions.domains());
    let Some(own) = broker.domains.own() else { return Vec::new() };
    let windows: Vec<(Time, Time)> = leg.windows.iter().map(|window| (window.start.0, window.end.0)).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for rate in [Rate::from_bps(leg.forward.max(leg.reverse)), Rate::ZERO] {
        for path in broker.domains.paths(now, (leg.from, leg.to), rate, &windows) {
            let Some((first, others)) = path.hops.split_first() else { continue };
            let known = |hop: &topology::DomainHop| {
                let place = domains.iter().position(|one| *one.name == *hop.domain)?;
                let DomainPort::At(border) = &hop.from else { return None };
                Some((place, border.link.to_string()))
            };
            let Some(way) = others.iter().map(known).collect::<Option<Way>>() else { continue };
            let near = way.first().is_some_and(|(place, _)| !domains[*place].neighbour.distant);
            if *first.domain == *own && near && seen.insert(way.clone()) {
                found.push(way);
            }
        }
    }
    found
}

/// The same by one way.
async fn begin_by(
    broker: &Broker,
    caller: &CallerDoc,
    (leg, notify_s): (&LegDoc, Option<f64>),
    (group, key, attempt): (&GroupId, &str, u64),
    way: &Way,
) -> Answer<Reservation> {
    let map = broker.map().await?;
    let (origin, id) = (cross::draw_origin()?, ReservationId::Group(*group));
    let mut record = cross::begun(broker, caller, leg, (&id, origin));
    let (mut parts, mut entry) = (Vec::new(), cross::own_domain(broker)?.to_owned());
    for (domain, network) in way {
        let border = CrossingPoint { domain: *domain, network: network.clone(), beyond: leg.to, agreement: None };
        let part = cross::next_part(broker, LegChange::Create, origin, &[], caller, &border)?;
        let name = cross::name(broker, *domain);
        parts.push(DomainPart { entry: Some(std::mem::replace(&mut entry, name.clone())), ..part });
        record.tree.push(LegNext { domain: name, border: network.clone() });
    }
    let Some((near, network)) = way.first() else { return Err(Problem::misuse("there is no way")) };
    let border = crossing::border(broker, &map, *near, Some(network), leg.to)?;
    let ends = Some((leg.from, border.beyond));
    let mut choices = ask::choices(broker, &crossing::wish(leg), false, ends).await?;
    crossing::agreed(&mut choices, &border, leg, MemberRole::Reverse);
    let key = key.to_owned();
    let crossed = Crossed { group: *group, key, attempt, notify_s, record, parts, after: Vec::new(), asked: None };
    let (members, _) = cross::reserve(broker, caller, &crossed, choices).await?;
    Ok(shown(broker, &id, &GroupMembers { members, ..GroupMembers::default() }))
}

/// The place of our leg in a tree that begins in another domain.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TreePlace {
    /// The index of the domain from which packets come.
    pub entry: usize,
    /// The index of the domain to which they go on; `None`: they end here.
    pub exit: Option<usize>,
    /// The acceptances of the domains after us, which we have checked.
    pub after: Vec<StatementDoc>,
}

/// Checks what a question says of a tree; `candidates`: the domains to which packets may go on from here.
///
/// # Errors
/// 422: packets do not come from there, or go on where no domain has accepted, or what is shown is not believed.
pub fn place(
    broker: &Broker,
    doc: &LegAskDoc,
    origin: TransactionId,
    candidates: impl FnOnce(&[String]) -> Vec<usize>,
) -> Answer<Option<TreePlace>> {
    let Some(tree) = &doc.tree else { return Ok(None) };
    let domains = broker.transactions.domains();
    let near = |name: &str| domains.iter().position(|one| *one.name == *name && !one.neighbour.distant);
    let entry = near(&tree.entry)
        .ok_or_else(|| Problem::misuse(format!("entry: {:?} is no neighbour of ours", short(&tree.entry))))?;
    let via: Vec<String> = doc.via.iter().chain([&tree.entry]).cloned().collect();
    let candidates = candidates(&via);
    let Some(next) = tree.after.first() else {
        return match candidates.first() {
            None => Ok(Some(TreePlace { entry, exit: None, after: Vec::new() })),
            Some(next) => Err(Problem::misuse(format!(
                "packets to {} go on to {}: its acceptance comes first",
                doc.leg.to, domains[*next].name
            ))),
        };
    };
    let said = acceptance::document(next).map(|said| said.domain).unwrap_or_default();
    let exit = near(&said).filter(|exit| candidates.contains(exit));
    let exit =
        exit.ok_or_else(|| Problem::misuse(format!("packets to {} do not go on to {:?}", doc.leg.to, short(&said))))?;
    believed(broker, &said, origin, &doc.leg, &tree.after)?;
    Ok(Some(TreePlace { entry, exit: Some(exit), after: tree.after.clone() }))
}

/// Checks what a question for a change of a leg says of its tree.
///
/// # Errors
/// 422: it says something else than the leg, or what is shown is not believed.
pub fn same_place(
    broker: &Broker,
    doc: &LegAskDoc,
    origin: TransactionId,
    known: &LegRecord,
) -> Answer<Vec<StatementDoc>> {
    let entry = known.above.as_ref().and_then(|above| above.entry.as_ref());
    let (said, after) = match &doc.tree {
        Some(tree) => (Some(&tree.entry), tree.after.clone()),
        None => (None, Vec::new()),
    };
    if said != entry || after.is_empty() != known.exit.is_none() {
        return Err(Problem::misuse("tree: this leg has another place on the way"));
    }
    if let Some(exit) = &known.exit {
        believed(broker, exit, origin, &doc.leg, &after)?;
    }
    Ok(after)
}

/// Checks the acceptances of the domains after us.
fn believed(broker: &Broker, exit: &str, origin: TransactionId, leg: &LegDoc, after: &[StatementDoc]) -> Answer<()> {
    let voice = broker.transactions.voice().ok_or_else(|| Problem::unavailable("this broker has no certificate"))?;
    let today = broker.clock.today();
    voice.check((&voice.domain, exit), origin, leg, after, today).map_err(|why| {
        let what = format!("{why}: nothing has changed");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "acceptance", "Acceptance not believed", what)
    })
}

/// The beginning of a stranger's word.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
