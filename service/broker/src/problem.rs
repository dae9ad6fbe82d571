//! Refusals in HTTP: `application/problem+json` (RFC 9457), with the refusal of a booking inside.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use documents::agent::Problem as Said;
use documents::book::{EpochDoc, RefusalDoc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reason why a request was not carried out. The state is unchanged unless the problem says otherwise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// For programs: `/problems/no_room`, `/problems/not_found`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// For people: the error, its place, the free amount, the remedy.
    pub detail: String,
    /// The resource, the time, the free amount, and up to three alternatives, if a booking was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<RefusalDoc>>,
    /// Of `outdated`: the newest start of the asking broker that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<EpochDoc>,
}

/// The answer to a request, or its problem.
pub type Answer<T> = Result<T, Box<Problem>>;

impl Problem {
    /// The kind of a broker that does not lead: clients ask the next one.
    pub const STANDBY: &'static str = "standby";

    /// True if another broker leads; this one has changed nothing.
    pub fn is_standby(&self) -> bool {
        self.kind.strip_prefix("/problems/") == Some(Problem::STANDBY)
    }

    /// A problem of this status and kind.
    pub fn new(status: StatusCode, kind: &str, title: &str, detail: impl Into<String>) -> Box<Problem> {
        Box::new(Problem {
            kind: format!("/problems/{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            refusal: None,
            known: None,
        })
    }

    /// There is no such thing, or it belongs to another caller: the answer is the same to the last byte.
    pub fn not_found() -> Box<Problem> {
        Problem::new(StatusCode::NOT_FOUND, "not_found", "Not found", "there is no such thing")
    }

    /// The request cannot be read.
    pub fn malformed(detail: impl Into<String>) -> Box<Problem> {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "Malformed", detail)
    }

    /// The request makes no sense.
    pub fn misuse(detail: impl Into<String>) -> Box<Problem> {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "meaningless", "Makes no sense", detail)
    }

    /// The caller has no right to it.
    pub fn forbidden(detail: impl Into<String>) -> Box<Problem> {
        Problem::new(StatusCode::FORBIDDEN, "policy", "Not allowed", detail)
    }

    /// A limit is reached.
    pub fn limit(detail: impl Into<String>) -> Box<Problem> {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", "Too much", detail)
    }

    /// The reservation of an idempotency key is over; it does not come back.
    pub fn key_over(id: &str, state: &str) -> Box<Problem> {
        let what = format!("what this idempotency key made, {id}, is {state}: use another key for another reservation");
        Problem::new(StatusCode::CONFLICT, "key_over", "What the key made is over", what)
    }

    /// A broker of another domain is older than another start of it.
    pub fn outdated(known: EpochDoc) -> Box<Problem> {
        let what = "a newer start of your broker is known here, or its journal was restored from an older copy";
        let mut problem = Problem::new(StatusCode::CONFLICT, "outdated", "Outdated", what);
        problem.known = Some(known);
        problem
    }

    /// An agent is away, or something broke.
    pub fn unavailable(detail: impl Into<String>) -> Box<Problem> {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now", detail)
    }

    /// The status.
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// An agent's error.
    pub fn said(agent: &str, problem: Said) -> Box<Problem> {
        let reason = problem.refusal.as_ref().map_or("", |refusal| refusal.reason.as_str());
        let (status, kind, title) = match (reason, problem.kind.as_str()) {
            ("unknown_handle", _) => return Problem::not_found(),
            ("no_room", _) => (StatusCode::CONFLICT, "no_room", "No room"),
            ("policy", _) => (StatusCode::FORBIDDEN, "policy", "Not allowed"),
            ("no_resource", _) => (StatusCode::UNPROCESSABLE_ENTITY, "no_resource", "No such resource"),
            ("wrong_state", _) => (StatusCode::CONFLICT, "wrong_state", "Not in this state"),
            ("key_used", _) => (StatusCode::UNPROCESSABLE_ENTITY, "key_used", "Key used for another request"),
            ("key_over", _) => (StatusCode::CONFLICT, "key_over", "What the key made is over"),
            ("limit", _) => (StatusCode::TOO_MANY_REQUESTS, "limit", "Too much"),
            ("clock" | "starting" | "not_written", _) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now")
            }
            (_, "misuse" | "malformed") => (StatusCode::UNPROCESSABLE_ENTITY, "meaningless", "Makes no sense"),
            (_, "refused") => (StatusCode::FORBIDDEN, "policy", "Not allowed"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now"),
        };
        let mut refusal = problem.refusal;
        if let Some(resource) = refusal.as_mut().and_then(|refusal| refusal.resource.as_mut()) {
            *resource = format!("{agent}/{resource}");
        }
        let detail = if agent.is_empty() { problem.message } else { format!("{agent}: {}", problem.message) };
        let mut said = Problem::new(status, kind, title, detail);
        said.refusal = refusal;
        said
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        // Our own documents have string keys and finite numbers: they can always be written.
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.code();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.code() == StatusCode::SERVICE_UNAVAILABLE || self.code() == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A boxed problem, as handlers return it.
pub struct BoxedProblem(pub Box<Problem>);

impl IntoResponse for BoxedProblem {
    fn into_response(self) -> Response<Body> {
        (*self.0).into_response()
    }
}

impl From<Box<Problem>> for BoxedProblem {
    fn from(problem: Box<Problem>) -> BoxedProblem {
        BoxedProblem(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client takes a status of 4xx as "nothing has changed, and nothing will": an agent that has no room for a
    /// connection, or broke, has not said that.
    #[test]
    fn only_what_is_decided_is_a_refusal() {
        let said = |kind: &str| Said { kind: kind.to_owned(), message: "m".to_owned(), refusal: None };
        let status = |kind: &str| Problem::said("maui", said(kind)).status;
        assert_eq!((status("busy"), status("fault"), status("a kind of later")), (503, 503, 503));
        assert_eq!((status("refused"), status("misuse")), (403, 422));
    }
}
