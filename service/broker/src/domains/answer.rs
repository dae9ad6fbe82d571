//! `GET /v1/topology`: what is known of domains, signed for brokers, and the paths between two hosts.

use super::MOST_STATEMENTS;
use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::Query;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use booking::policy::rights::Seat;
use documents::book::Instant;
use documents::topology::DomainsDoc;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use terms::{Rate, Span, Time};

/// The window of a search without one.
const USUAL: Span = Span::from_secs(3600);

/// The known domains: their own advertisements, and the paths over them between two hosts.
///
/// Brokers get advertisements as their domains signed them, and nothing else.
#[utoipa::path(get, path = "/v1/topology", params(
    ("signed" = Option<bool>, Query, description = "With the advertisements as they were signed"),
    ("known" = Option<String>, Query, description = "Of these only newer ones: DOMAIN:NUMBER,..."),
    ("from" = Option<String>, Query, description = "With the paths from this address"),
    ("to" = Option<String>, Query, description = "to this one"),
    ("rate" = Option<u64>, Query, description = "On which so much is free, bit/s of IP bytes; default: any"),
    ("start" = Option<String>, Query, description = "From when, RFC 3339; default: now"),
    ("end" = Option<String>, Query, description = "Until when; default: an hour later"),
), responses((status = 200, body = DomainsDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn topology(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result<Json<DomainsDoc>, BoxedProblem> {
    peer.caller()?;
    let query = Query::read(query, &["signed", "known", "from", "to", "rate", "start", "end"])?;
    let (domains, now) = (&broker.domains, broker.clock.today());
    let broker_asks = peer.seat() == Seat::Broker;
    let mut doc = match broker_asks {
        true => DomainsDoc { own: domains.own().map(str::to_owned), ..DomainsDoc::default() },
        false => domains.doc(now),
    };
    if query.parsed::<bool>("signed")?.unwrap_or(broker_asks) {
        let known = query.text("known").unwrap_or_default();
        doc.statements = domains.statements(now, &seen(&known)?);
    }
    let ends = (query.parsed::<IpAddr>("from")?, query.parsed::<IpAddr>("to")?);
    match ends {
        (Some(from), Some(to)) if !broker_asks => {
            let start = query.parsed::<Instant>("start")?.map_or(now, |start| start.0);
            let end = query.parsed::<Instant>("end")?.map_or(start.saturating_add(USUAL), |end| end.0);
            let rate = Rate::from_bps(query.parsed("rate")?.unwrap_or(0));
            if end <= start || start == Time::FOREVER {
                return Err(Problem::malformed("a window ends after its start").into());
            }
            doc.paths = Some(domains.path_rows(now, (from, to), rate, &[(start, end)]));
        }
        (None, None) => {}
        _ if broker_asks => return Err(Problem::forbidden("paths are for our own people").into()),
        _ => return Err(Problem::malformed("paths go from one address to another").into()),
    }
    Ok(Json(doc))
}

/// The numbers that the caller knows.
fn seen(text: &str) -> Answer<BTreeMap<String, u64>> {
    let wrong = || Problem::malformed("known: DOMAIN:NUMBER, separated by commas");
    let one = |pair: &str| {
        let (domain, number) = pair.split_once(':').ok_or_else(wrong)?;
        Ok((domain.to_owned(), number.parse().map_err(|_| wrong())?))
    };
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).take(MOST_STATEMENTS);
    pairs.map(one).collect()
}
