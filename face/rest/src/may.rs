//! `GET /v1/may`: which rule of an agent's policy would decide, and what it would say.

use crate::broker::Broker;
use crate::caller::Peer;
use crate::problem::{Out, Problem};
use crate::query::Query;
use api::agent::{Answer as Said, Request};
use api::book::{AskDoc, Instant, PartDoc};
use api::links::CallerDoc;
use api::may::MayDoc;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use std::sync::Arc;

/// Which rule would decide, and why; nothing is asked for. About others: operators, auditors, and whom the policy names.
#[utoipa::path(get, path = "/v1/may", params(
    ("resource" = String, Query, description = "AGENT/RESOURCE"),
    ("rate" = Option<u64>, Query, description = "Of network: bit/s"),
    ("cores" = Option<f64>, Query, description = "Of processors"),
    ("bytes_per_s" = Option<u64>, Query, description = "Of a disk"),
    ("count" = Option<u64>, Query, description = "Of what is counted"),
    ("start" = Option<String>, Query, description = "From when, RFC 3339; default: now"),
    ("end" = Option<String>, Query, description = "Until when; default: open at its end"),
    ("duration_s" = Option<f64>, Query, description = "For how long, in place of end"),
    ("label" = Option<String>, Query, description = "With this label"),
    ("who" = Option<String>, Query, description = "About whom; default: the caller"),
    ("groups" = Option<String>, Query, description = "Their groups, separated by commas"),
), responses((status = 200, body = MayDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn may(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
) -> Result<Json<MayDoc>, Out> {
    let caller = peer.caller()?;
    let known =
        ["resource", "rate", "cores", "bytes_per_s", "count", "start", "end", "duration_s", "label", "who", "groups"];
    let query = Query::read(query, &known)?;
    let named = query.text("resource").ok_or_else(|| Problem::malformed("resource: AGENT/RESOURCE, which one?"))?;
    let (number, resource) = crate::plan::place(&broker.names(), &named)?;
    let part = PartDoc {
        resource: resource.to_owned(),
        rate: query.parsed("rate")?,
        cores: query.parsed("cores")?,
        bytes_per_s: query.parsed("bytes_per_s")?,
        count: query.parsed("count")?,
        ..PartDoc::default()
    };
    let ask = AskDoc {
        parts: vec![part],
        start: query.parsed::<Instant>("start")?,
        end: query.parsed::<Instant>("end")?,
        duration_s: query.parsed("duration_s")?,
        label: query.text("label").unwrap_or_default(),
        ..AskDoc::default()
    };
    let groups = query.text("groups").unwrap_or_default();
    let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
    let who = query.text("who").map(|name| CallerDoc { name, groups, role: "owner".to_owned() });
    let agent = &broker.agents[number];
    let mut conversation = agent.speak(&caller).await?;
    let answer = conversation.call(Request::May { who, ask }).await;
    let said = match answer? {
        Said::May(doc) => doc,
        _ => return Err(conversation.nonsense("no answer about what may be").into()),
    };
    conversation.end();
    let parts = said.parts.into_iter().map(|mut row| {
        row.resource = format!("{}/{}", agent.name, row.resource);
        row
    });
    Ok(Json(MayDoc { parts: parts.collect(), ..said }))
}
