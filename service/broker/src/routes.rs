//! The resources under `/v1`, one handler each. The OpenAPI document is made from this file.

use crate::ask;
use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::change;
use crate::follow::{self, EventCursor};
use crate::gather::{self, GroupMembers, each, find};
use crate::group;
use crate::paths::LinkMap;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::{Query, key, named};
use crate::request_body::body;
use crate::shown::{shown, with_domains};
use crate::stream;
use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Request as Http, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use axum::{Json, Router};
use booking::policy::rights::Call;
use documents::agent::Request;
use documents::book::{BookAnswer, Instant, WindowDoc};
use documents::links::CallerDoc;
use documents::rest::*;
use std::net::IpAddr;
use std::sync::Arc;

type Here = State<Arc<Broker>>;
type Result_<T> = Result<T, BoxedProblem>;

/// The routes of all calls, each behind the table of rights.
pub fn router(broker: Arc<Broker>) -> Router {
    let routes = Call::ALL.iter().filter_map(|call| {
        let (_, path) = call.name().split_once(' ')?;
        let asked = move |request: Http<Body>, next: Next| ask_table(*call, request, next);
        Some((path, handler(*call)?.layer(middleware::from_fn(asked))))
    });
    routes
        .fold(Router::new(), |router, (path, handler)| router.route(path, handler))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .with_state(broker)
}

/// The handler of a call; `None`: it is not one of ours. No wildcard: a new call does not compile without a
/// handler.
fn handler(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    Some(match call {
        Call::GetOpenapi => get(openapi),
        Call::GetResources => get(resources),
        Call::GetPaths => get(paths),
        Call::GetMay => get(crate::may::may),
        Call::PostEnquiry => post(enquire),
        Call::PostReservation => post(create),
        Call::GetReservations => get(crate::listing::list),
        Call::GetReservation => get(show),
        Call::PatchReservation => patch(modify),
        Call::DeleteReservation => delete(cancel),
        Call::PostBind | Call::PostCommit | Call::GetHistory | Call::GetEvents => return of_one(call),
        Call::GetTransaction | Call::PutTransaction | Call::PostLeg => return over_domains(call),
        Call::GetLeg | Call::DeleteLeg | Call::GetTopology | Call::GetAcceptances => return over_domains(call),
        Call::GetMe | Call::PostTicket | Call::GetAgents | Call::GetMap => return crate::overview::handler(call),
        Call::GetInterfaces | Call::GetAudit | Call::GetSignalled | Call::GetDoctor => {
            return crate::overview::handler(call);
        }
        Call::GetMetrics | Call::GetMeasured | Call::GetCalendar => return of_pages(call),
        Call::GetReadings | Call::PutReading => return of_pages(call),
        Call::GetWebhooks | Call::PostWebhook | Call::DeleteWebhook => return of_webhooks(call),
        Call::Hello
        | Call::Resources
        | Call::Links
        | Call::Routes
        | Call::May
        | Call::Status
        | Call::Doctor
        | Call::Sessions
        | Call::Senders
        | Call::Reservations
        | Call::Counters
        | Call::Show
        | Call::Statics
        | Call::BoomerangSessions
        | Call::Watch
        | Call::Sender
        | Call::Receiver
        | Call::Reserve
        | Call::Priority
        | Call::SenderGone
        | Call::Release
        | Call::BoomerangReserve
        | Call::BoomerangRelease
        | Call::BookEnquire
        | Call::BookCreate
        | Call::BookCommit
        | Call::BookModify
        | Call::BookBind
        | Call::BookCancel
        | Call::BookPrepare
        | Call::BookDecide
        | Call::BookPromises
        | Call::BookResolve
        | Call::BookShow
        | Call::BookHistory
        | Call::BookFollow
        | Call::BookAudit
        | Call::SpeakFor
        | Call::ForUser
        | Call::ShowToken
        | Call::AddStatic
        | Call::RemoveStatic
        | Call::Trace
        | Call::BoomerangTrace
        | Call::ReloadKeys
        | Call::Stop => return None,
    })
}

/// The handlers of further calls about a reservation, and of its events.
fn of_one(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    match call {
        Call::PostBind => Some(post(bind)),
        Call::PostCommit => Some(post(commit)),
        Call::GetHistory => Some(get(history)),
        Call::GetEvents => Some(get(events)),
        _ => None,
    }
}

/// The handlers of calls about webhooks.
fn of_webhooks(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    match call {
        Call::GetWebhooks => Some(get(webhooks)),
        Call::PostWebhook => Some(post(add_webhook)),
        Call::DeleteWebhook => Some(delete(remove_webhook)),
        _ => None,
    }
}

/// The handlers of calls that pages and calendar programs make.
fn of_pages(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    match call {
        Call::GetMetrics => Some(get(crate::metrics_page::metrics)),
        Call::GetMeasured => Some(get(crate::measured::measured)),
        Call::GetCalendar => Some(get(crate::ical::feed)),
        Call::GetReadings => Some(get(crate::readings::list)),
        Call::PutReading => Some(put(crate::readings::put)),
        _ => None,
    }
}

/// The handlers of calls between brokers, and of what they have said to each other.
fn over_domains(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    match call {
        Call::GetTopology => Some(get(crate::domains::answer::topology)),
        Call::GetAcceptances => Some(get(crate::kept_acceptances::list)),
        Call::GetTransaction => Some(get(crate::outcome::outcome)),
        Call::PutTransaction => Some(put(crate::legs::decide)),
        Call::PostLeg => Some(post(crate::legs::promise)),
        Call::GetLeg => Some(get(crate::legs::state)),
        Call::DeleteLeg => Some(delete(crate::legs::end)),
        _ => None,
    }
}

/// Asks the table of rights for the call before the request is examined.
async fn ask_table(call: Call, mut request: Http<Body>, next: Next) -> Response<Body> {
    let Some(peer) = request.extensions().get::<ConnectionPeer>() else { return nothing().await.into_response() };
    let allowed = peer.instead(call, request.headers()).and_then(|instead| {
        instead.as_ref().unwrap_or(peer).may(call)?;
        Ok(instead)
    });
    match allowed {
        Ok(instead) => {
            instead.into_iter().for_each(|user| drop(request.extensions_mut().insert(user)));
            next.run(request).await
        }
        Err(problem) => BoxedProblem(problem).into_response(),
    }
}

async fn nothing() -> BoxedProblem {
    BoxedProblem(Problem::not_found())
}

async fn wrong_method() -> BoxedProblem {
    let what = "this resource does not take this method: see /openapi.json";
    BoxedProblem(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed", what))
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], crate::openapi::text())
}

/// The resources of all agents.
#[utoipa::path(get, path = "/v1/resources", params(
    ("from" = Option<String>, Query, description = "With a timeline of what is free from here"),
    ("to" = Option<String>, Query, description = "to here, RFC 3339"),
), responses((status = 200, body = Resources), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn resources(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result_<Json<Resources>> {
    let caller = peer.caller()?;
    let query = Query::read(query, &["from", "to"])?;
    let timeline = match (query.parsed::<Instant>("from")?, query.parsed::<Instant>("to")?) {
        (Some(start), Some(end)) => Some(WindowDoc { start, end }),
        (None, None) => None,
        _ => return Err(Problem::malformed("a timeline goes from and to").into()),
    };
    Ok(Json(all_resources(&broker, &caller, timeline).await?))
}

/// The resources of all agents, as the caller may see them.
pub(crate) async fn all_resources(
    broker: &Broker,
    caller: &CallerDoc,
    timeline: Option<WindowDoc>,
) -> Answer<Resources> {
    let answers = each(&broker.agents, |_, agent| {
        let caller = caller.clone();
        async move {
            match agent.ask(&caller, Request::resources(timeline)).await? {
                BookAnswer::Resources(rows) => Ok(rows),
                _ => Err(Problem::unavailable("an agent does not say what resources it has")),
            }
        }
    });
    let (mut all, mut away) = (Vec::new(), Vec::new());
    for (agent, answer) in broker.agents.iter().zip(answers.await) {
        match answer {
            Ok(rows) => all.extend(rows.into_iter().map(|mut row| {
                row.resource = format!("{}/{}", agent.name, row.resource);
                row
            })),
            Err(problem) if problem.status == 503 => away.push(agent.name.to_string()),
            Err(problem) => return Err(problem),
        }
    }
    Ok(Resources { resources: all, away })
}

/// An enquiry: the amounts that would be granted. Nothing is held.
#[utoipa::path(post, path = "/v1/enquiries", request_body = Wish, params(("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds")),
    responses((status = 200, body = Enquiry), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn enquire(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    request: Http<Body>,
) -> Result_<Json<Enquiry>> {
    let caller = peer.caller_showing(request.headers())?;
    let wish: Wish = body(&broker, request).await?;
    Ok(Json(ask::enquire(&broker, &caller, &wish).await?))
}

/// Reserve all of it, or nothing.
#[utoipa::path(post, path = "/v1/reservations", request_body = Wish, params(
    ("Idempotency-Key" = Option<String>, Header, description = "The same key with the same request has one effect and one answer"),
    ("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds"),
), responses((status = 201, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    request: Http<Body>,
) -> Result_<Response<Body>> {
    let caller = peer.caller_showing(request.headers())?;
    let key = key(request.headers())?;
    let wish: Wish = body(&broker, request).await?;
    let made = ask::create(&broker, &caller, &wish, &key).await?;
    let place = format!("/v1/reservations/{}", made.id);
    let place = HeaderValue::from_str(&place).map_err(|_| Problem::unavailable("a name that is none"))?;
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(made)).into_response())
}

/// One reservation.
#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<Json<Reservation>> {
    let caller = peer.caller()?;
    let id = named(&id)?;
    let found = find(&broker.agents, &caller, &id).await?;
    let doc = shown(&broker, &id, &found);
    Ok(Json(with_domains(broker, doc).await))
}

/// Change a reservation; if the change does not fit, the reservation stays.
#[utoipa::path(patch, path = "/v1/reservations/{id}", params(("id" = String, Path), ("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds")), request_body = Change,
    responses((status = 200, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn modify(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
    request: Http<Body>,
) -> Result_<Json<Reservation>> {
    let caller = peer.caller_showing(request.headers())?;
    let change: Change = body(&broker, request).await?;
    Ok(Json(change::modify(&broker, &caller, &named(&id)?, &change).await?))
}

/// Cancel a reservation.
#[utoipa::path(delete, path = "/v1/reservations/{id}", params(("id" = String, Path)),
    responses((status = 200, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<Json<Reservation>> {
    let caller = peer.caller()?;
    Ok(Json(group::cancel(&broker, &caller, &named(&id)?).await?))
}

/// Bind a reservation to a flow, process or control group.
#[utoipa::path(post, path = "/v1/reservations/{id}/bind", params(("id" = String, Path), ("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds")), request_body = BindWish,
    responses((status = 200, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn bind(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
    request: Http<Body>,
) -> Result_<Json<Reservation>> {
    let caller = peer.caller_showing(request.headers())?;
    let wish: BindWish = body(&broker, request).await?;
    Ok(Json(change::bind(&broker, &caller, &named(&id)?, &wish).await?))
}

/// Commit a held reservation.
#[utoipa::path(post, path = "/v1/reservations/{id}/commit", params(("id" = String, Path), ("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds")),
    responses((status = 200, body = Reservation), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn commit(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result_<Json<Reservation>> {
    let caller = peer.caller_showing(&headers)?;
    Ok(Json(group::commit(&broker, &caller, &named(&id)?).await?))
}

/// The events of a reservation.
#[utoipa::path(get, path = "/v1/reservations/{id}/history", params(("id" = String, Path)),
    responses((status = 200, body = Events), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn history(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<Json<Events>> {
    let caller = peer.caller()?;
    let GroupMembers { members, .. } = find(&broker.agents, &caller, &named(&id)?).await?;
    let mut all = Vec::new();
    for member in members {
        let agent = &broker.agents[member.agent];
        let found = gather::history(agent, &caller, &member.doc.handle).await?;
        all.extend(found.events.into_iter().map(|event| follow::event(&agent.name, event)));
    }
    all.sort_by(|a: &Event, b: &Event| (a.event.at, &a.agent, a.event.seq).cmp(&(b.event.at, &b.agent, b.event.seq)));
    Ok(Json(Events { events: all }))
}

/// The interfaces by which the packets between two hosts leave.
#[utoipa::path(get, path = "/v1/paths", params(("from" = String, Query), ("to" = String, Query)),
    responses((status = 200, body = Paths), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn paths(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result_<Json<Paths>> {
    peer.caller()?;
    let query = Query::read(query, &["from", "to"])?;
    let (Some(from), Some(to)) = (query.parsed::<IpAddr>("from")?, query.parsed::<IpAddr>("to")?) else {
        return Err(Problem::malformed("a path goes from one address to another").into());
    };
    let map = broker.map().await?;
    let (forward, reverse) = (rows(&broker, &map, (from, to)).await, rows(&broker, &map, (to, from)).await);
    Ok(Json(Paths { forward, reverse, away: map.away().to_vec() }))
}

async fn rows(broker: &Broker, map: &LinkMap, ends: (IpAddr, IpAddr)) -> Vec<PathRow> {
    let (ways, routed) = broker.ways(map, ends, 4).await;
    ways.iter().enumerate().map(|(number, way)| map.row(way, routed && number == 0)).collect()
}

/// The events, as they happen (server-sent events); with `Last-Event-ID`, all since then first.
#[utoipa::path(get, path = "/v1/events", params(
    ("reservation" = Option<String>, Query, description = "Only of this one"),
    ("after" = Option<String>, Query, description = "As Last-Event-ID, for clients that cannot send it; 0: everything that is kept"),
    ("Last-Event-ID" = Option<String>, Header, description = "The last `id` that was seen"),
), responses((status = 200, body = Event, content_type = "text/event-stream"), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn events(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result_<Response<Body>> {
    let caller = peer.caller()?;
    let query = Query::read(query, &["reservation", "after"])?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let place = match last.or(query.text("after")).unwrap_or_default().as_str() {
        "0" => Some(EventCursor::oldest(&broker.names())),
        text => EventCursor::parse(text),
    };
    let place = place.ok_or_else(|| Problem::malformed("this is the id of no event: AGENT:NUMBER,..."))?;
    let only = query.text("reservation");
    if let Some(only) = &only {
        find(&broker.agents, &caller, &named(only)?).await?;
    }
    Ok(stream::open(&broker, peer, place, only)?)
}

/// The caller's webhooks.
#[utoipa::path(get, path = "/v1/webhooks", responses((status = 200, body = Webhooks), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn webhooks(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Result_<Json<Webhooks>> {
    Ok(Json(Webhooks { webhooks: broker.hooks.list(&peer.caller()?) }))
}

/// Add a webhook: events go to a target, signed and in order.
#[utoipa::path(post, path = "/v1/webhooks", request_body = WebhookWish,
    responses((status = 201, body = Webhook), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add_webhook(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    request: Http<Body>,
) -> Result_<Response<Body>> {
    let caller = peer.caller()?;
    let wish: WebhookWish = body(&broker, request).await?;
    if let Some(only) = &wish.reservation {
        find(&broker.agents, &caller, &named(only)?).await?;
    }
    let made = broker.hooks.add(&broker, &peer, &caller, wish).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Remove a webhook.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", params(("id" = String, Path)),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove_webhook(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result_<StatusCode> {
    broker.hooks.remove(&peer.caller()?, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
