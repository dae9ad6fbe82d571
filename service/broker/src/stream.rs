//! Event streams: server-sent events (HTML standard, section 9.2) that resume after the last one seen.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::conversation_limits::Room;
use crate::follow::{EventCursor, Follower, FollowerEvent, event, is_about};
use crate::problem::{Answer, Problem};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use documents::links::CallerDoc;
use http_body::{Body as HttpBody, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// The interval of signs of life, so that each side sees that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The most pieces of text that wait for a client to read them.
const UNREAD: usize = 16;

/// Opens a stream for this peer, from a place on.
///
/// # Errors
/// 429: too many streams; 401 or 403: the peer has no right to it.
pub fn open(
    broker: &Arc<Broker>,
    peer: ConnectionPeer,
    place: EventCursor,
    only: Option<String>,
) -> Answer<Response<Body>> {
    let caller = peer.caller()?;
    let room = room(broker, &caller)?;
    let follower = Follower::new(&broker.agents, &caller, &place);
    let names: Vec<String> = broker.agents.iter().map(|agent| agent.name.to_string()).collect();
    let (to, response) = body();
    tokio::spawn(async move {
        let _room = room;
        // It ends when the client goes, or loses its right.
        let _ = write(follower, peer, names, place, only, to).await;
    });
    Ok(response)
}

/// A place for a stream of this caller.
///
/// # Errors
/// 429: too many streams.
pub(crate) fn room(broker: &Broker, caller: &CallerDoc) -> Answer<Room> {
    broker.streams.try_enter(&caller.name).ok_or_else(|| {
        let (most, of_one) = (broker.limits.streams, broker.limits.streams_of_one);
        Problem::limit(format!("too many event streams are open: at most {most}, {of_one} of one caller"))
    })
}

/// The answer of a stream, and where its pieces of text go.
pub(crate) fn body() -> (mpsc::Sender<String>, Response<Body>) {
    let (to, from) = mpsc::channel(UNREAD);
    let mut response = Response::new(Body::new(Text(from)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (to, response)
}

async fn write(
    mut follower: Follower,
    peer: ConnectionPeer,
    names: Vec<String>,
    mut place: EventCursor,
    only: Option<String>,
    to: mpsc::Sender<String>,
) -> Result<(), mpsc::error::SendError<String>> {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let news = tokio::select! {
            news = follower.next() => news,
            _ = heartbeat.tick() => {
                if peer.caller().is_err() {
                    return Ok(());
                }
                to.send(": still here\n\n".to_owned()).await?;
                continue;
            }
            () = to.closed() => return Ok(()),
        };
        let Some((number, news)) = news else { return Ok(()) };
        let name = &names[number];
        let text = match news {
            FollowerEvent::Begins(seq) => {
                place.pass(name, seq);
                format!("id: {place}\nevent: begins\ndata: {{\"agent\":\"{name}\"}}\n\n")
            }
            FollowerEvent::Lost => format!("event: lost\ndata: {{\"agent\":\"{name}\"}}\n\n"),
            FollowerEvent::Event(one) => {
                place.pass(name, one.seq);
                if only.as_ref().is_some_and(|only| !is_about(name, &one, only)) {
                    continue;
                }
                // A certificate that is no longer valid gets no more events.
                if peer.caller().is_err() {
                    return Ok(());
                }
                let kind = one.event.clone();
                let data = serde_json::to_string(&event(name, *one)).unwrap_or_default();
                format!("id: {place}\nevent: {kind}\ndata: {data}\n\n")
            }
        };
        to.send(text).await?;
    }
}

/// Pieces of text as a body.
struct Text(mpsc::Receiver<String>);

impl HttpBody for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(Bytes::from(text)))))
    }
}
