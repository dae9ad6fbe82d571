//! The readings of a reservation, one a second, as a stream: `GET /v1/reservations/{id}/measured`.
//!
//! For any number of listeners one task of the broker asks the agents. It runs while there are listeners.

use crate::agents::own_voice;
use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::gather::{document, find};
use crate::id::ReservationId;
use crate::meters::ReadingPiece;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::named;
use crate::stream;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Response;
use documents::book::Instant;
use documents::overview::{PartReading, ReservationReading};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{MissedTickBehavior, interval};

/// The time between two readings.
const EACH: Duration = Duration::from_secs(1);

/// Reads a reservation each second until it has no listener, or is no more.
async fn read(broker: Weak<Broker>, id: ReservationId, tell: broadcast::Sender<ReadingPiece>) {
    let mut each = interval(EACH);
    each.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        each.tick().await;
        let Some(broker) = broker.upgrade() else { return };
        if broker.meters().forget(&id, &tell, false) {
            return;
        }
        let piece = reading(&broker, &id).await;
        let over = matches!(piece, ReadingPiece::Over(_));
        let _ = tell.send(piece); // who has gone hears nothing
        if over {
            broker.meters().forget(&id, &tell, true);
            return;
        }
    }
}

/// One reading, or why there is none.
async fn reading(broker: &Broker, id: &ReservationId) -> ReadingPiece {
    let found = match find(&broker.agents, &own_voice(), id).await {
        Ok(found) => found,
        Err(problem) if problem.status == 404 => return ReadingPiece::Over("event: over\ndata: {}\n\n".into()),
        Err(problem) => {
            let why = serde_json::json!({ "detail": problem.detail });
            return ReadingPiece::Text(format!("event: away\ndata: {why}\n\n").into());
        }
    };
    let doc = document(&broker.agents, id, &found);
    let part = |part: &documents::rest::Part| PartReading {
        resource: part.row.resource.clone(),
        way: part.way.clone(),
        unit: part.row.unit.clone(),
        asked: part.row.asked,
        now: part.row.now,
        installed: part.row.installed,
        measured: part.row.measured.map(|measured| measured.amount),
        enforced: part.row.enforced.clone(),
    };
    let parts = doc.parts.iter().map(part).collect();
    let row = ReservationReading { at: Instant(broker.clock.today()), state: doc.state, parts };
    let data = serde_json::to_string(&row).unwrap_or_default();
    ReadingPiece::Text(format!("event: measured\ndata: {data}\n\n").into())
}

/// The amounts of a reservation that are asked, admitted, installed and measured, each second (server-sent events).
#[utoipa::path(get, path = "/v1/reservations/{id}/measured", params(("id" = String, Path)),
    responses((status = 200, body = ReservationReading, content_type = "text/event-stream"), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn measured(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
) -> Result<Response<Body>, BoxedProblem> {
    let (caller, id) = (peer.caller()?, named(&id)?);
    find(&broker.agents, &caller, &id).await?;
    let room = stream::room(&broker, &caller)?;
    let (readings, unread) = broker.meters().listen(&id);
    if let Some(tell) = unread {
        tokio::spawn(read(Arc::downgrade(&broker), id, tell));
    }
    let (to, body) = stream::body();
    tokio::spawn(async move {
        let _room = room;
        let _ = pass_on(readings, &peer, &to).await; // it ends when the client goes, or loses its right
    });
    Ok(body)
}

async fn pass_on(
    mut readings: broadcast::Receiver<ReadingPiece>,
    peer: &ConnectionPeer,
    to: &mpsc::Sender<String>,
) -> Answer<()> {
    let gone = |_| Problem::unavailable("the client has gone");
    loop {
        let piece = tokio::select! {
            piece = readings.recv() => piece,
            () = to.closed() => return Ok(()),
        };
        let (text, over) = match piece {
            Ok(ReadingPiece::Text(text)) => (text, false),
            Ok(ReadingPiece::Over(text)) => (text, true),
            Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => return Ok(()),
        };
        peer.caller()?;
        to.send(text.to_string()).await.map_err(gone)?;
        if over {
            return Ok(());
        }
    }
}
