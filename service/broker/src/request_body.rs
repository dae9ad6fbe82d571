//! Bodies of requests: JSON, of a bounded size, in a bounded time.

use crate::broker::Broker;
use crate::problem::{Answer, Problem};
use crate::strict;
use axum::body::Body;
use axum::http::{Request as Http, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Reads the body.
///
/// # Errors
/// 400, 408, 413, 415: it is no JSON of this kind, too slow, or too large.
pub(crate) async fn body<T: DeserializeOwned>(broker: &Broker, request: Http<Body>) -> Answer<T> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let what = "the body must be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", "No JSON", what));
    }
    let limit = broker.limits.body;
    let collected = timeout(broker.limits.head_time, Limited::new(request.into_body(), limit).collect()).await;
    let text = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let what = format!("the body is larger than {limit} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "Too large", what));
        }
        Ok(Err(_)) => return Err(Problem::malformed("the body broke off")),
        Err(_) => {
            let what = "the body took too long";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "Too slow", what));
        }
    };
    strict::read(&text).map_err(Problem::malformed)
}
