//! Calls of local applications: read, checked, and turned into inputs of the node.

use documents::agent::{Call, FlowSpecDoc, PriorityDoc, Problem, Request, SenderId, SessionId, StaticDoc, TspecDoc};
use node::io::AppCall;
use rsvp::io::AppId;
use std::net::IpAddr;
use terms::ports::Preemption;
use terms::{FilterSpec, FlowSpec, SenderTemplate, Session, Style, Tspec};

/// The most senders in one reservation.
const MAX_SENDERS: usize = 64;

/// Reads a line. A mistake comes with the call's number, if that could be read.
pub fn read(line: &[u8]) -> Result<Call, (u64, Problem)> {
    serde_json::from_slice(line).map_err(|error| {
        let id = serde_json::from_slice::<Numbered>(line).map_or(0, |numbered| numbered.id);
        (id, problem("malformed", format!("this is no call: {error}")))
    })
}

#[derive(serde::Deserialize)]
struct Numbered {
    id: u64,
}

/// A call of RSVP's application interface, checked.
#[derive(Clone, PartialEq, Debug)]
pub enum AppRequest {
    /// SENDER.
    Sender(Session, SenderTemplate, Tspec, u8),
    /// The sender stops.
    SenderGone(Session, SenderTemplate),
    /// SESSION.
    Receiver(Session),
    /// RESERVE.
    Reserve {
        /// The session.
        session: Session,
        /// The style.
        style: Style,
        /// The senders.
        filters: Vec<FilterSpec>,
        /// The resources, one flowspec or one for each sender.
        flowspecs: Vec<FlowSpec>,
        /// True if the receiver wants a confirmation.
        confirm: bool,
    },
    /// Sets the priority of later requests.
    Priority(Option<Preemption>),
    /// RELEASE.
    Release(Option<Session>),
}

impl AppRequest {
    /// The call of an application that asks for this.
    pub(crate) fn of(&self, app: AppId) -> AppCall<'_> {
        match *self {
            AppRequest::Sender(session, template, tspec, ttl) => AppCall::Sender { app, session, template, tspec, ttl },
            AppRequest::SenderGone(session, template) => AppCall::SenderGone { app, session, template },
            AppRequest::Receiver(session) => AppCall::Receiver { app, session },
            AppRequest::Reserve { session, style, ref filters, ref flowspecs, confirm } => {
                AppCall::Reserve { app, session, style, filters, flowspecs, confirm }
            }
            AppRequest::Priority(priority) => AppCall::Priority { app, priority },
            AppRequest::Release(session) => AppCall::Release { app, session },
        }
    }
}

/// The application's request in a call; `None`: the call is about the agent itself.
///
/// # Errors
/// `misuse`: the call is invalid; the text says why.
pub fn app_request(request: &Request) -> Result<Option<AppRequest>, Problem> {
    Ok(Some(match request {
        Request::Sender { session, sender, tspec, ttl } => {
            if *ttl == 0 {
                return Err(misuse("a TTL of 0 goes nowhere"));
            }
            AppRequest::Sender(checked_session(session)?, checked_sender(session, sender)?, checked_tspec(tspec)?, *ttl)
        }
        Request::SenderGone { session, sender } => {
            AppRequest::SenderGone(checked_session(session)?, checked_sender(session, sender)?)
        }
        Request::Receiver { session } => AppRequest::Receiver(checked_session(session)?),
        Request::Reserve { session, style, senders, flowspecs, confirm } => {
            if senders.len() > MAX_SENDERS || flowspecs.len() > MAX_SENDERS {
                return Err(misuse(format!("at most {MAX_SENDERS} senders in one reservation")));
            }
            AppRequest::Reserve {
                session: checked_session(session)?,
                style: (*style).into(),
                filters: senders.iter().map(|sender| checked_sender(session, sender)).collect::<Result<_, _>>()?,
                flowspecs: flowspecs.iter().map(checked_flowspec).collect::<Result<_, _>>()?,
                confirm: *confirm,
            }
        }
        Request::Priority { priority: None } => AppRequest::Priority(None),
        Request::Priority { priority: Some(PriorityDoc { preempting, defending }) } => {
            if defending < preempting {
                return Err(misuse("the defending priority is below the preempting one (RFC 3181 section 4.1)"));
            }
            AppRequest::Priority(Some(Preemption { preempting: *preempting, defending: *defending }))
        }
        Request::Release { session } => AppRequest::Release(session.as_ref().map(checked_session).transpose()?),
        _ => return Ok(None),
    }))
}

/// The engine's request for a static; it passes the same checks as an application's call.
pub(crate) fn static_request(what: &StaticDoc) -> Result<AppRequest, Problem> {
    let request = match what {
        StaticDoc::Sender { session, sender, tspec, ttl } => {
            Request::Sender { session: *session, sender: *sender, tspec: *tspec, ttl: *ttl }
        }
        StaticDoc::Reservation { session, style, senders, flowspecs } => {
            let (senders, flowspecs) = (senders.clone(), flowspecs.clone());
            Request::Reserve { session: *session, style: *style, senders, flowspecs, confirm: true }
        }
    };
    app_request(&request)?.ok_or_else(|| problem("misuse", "this is neither a sender nor a reservation"))
}

fn checked_session(session: &SessionId) -> Result<Session, Problem> {
    if session.protocol == 0 {
        return Err(misuse("a session needs an IP protocol, such as 17 for UDP"));
    }
    if session.dst.is_unspecified() {
        return Err(misuse("a session needs a destination address"));
    }
    Ok((*session).into())
}

fn checked_sender(session: &SessionId, sender: &SenderId) -> Result<SenderTemplate, Problem> {
    if !is_a_host(&sender.src) {
        return Err(misuse(format!("{} is not the address of a sender", sender.src)));
    }
    if sender.src.is_ipv4() != session.dst.is_ipv4() {
        return Err(misuse("sender and session are of different address families"));
    }
    if session.dst_port == 0 && sender.src_port != 0 {
        return Err(misuse("a session without a port has senders without ports (RFC 2205 section 3.2)"));
    }
    Ok((*sender).into())
}

fn is_a_host(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || broadcast)
}

fn checked_tspec(tspec: &TspecDoc) -> Result<Tspec, Problem> {
    if tspec.r_bps == 0 {
        return Err(misuse("a rate of zero describes no traffic"));
    }
    if tspec.p_bps.is_some_and(|peak| peak < tspec.r_bps) {
        return Err(misuse("the peak rate is below the rate"));
    }
    if tspec.max_bytes == 0 || tspec.m_bytes > tspec.max_bytes {
        return Err(misuse("the minimum policed unit is above the largest packet, or there is no largest packet"));
    }
    if tspec.b_bytes < u64::from(tspec.max_bytes) {
        let (b, largest) = (tspec.b_bytes, tspec.max_bytes);
        return Err(misuse(format!("a bucket of {b} bytes never passes a packet of {largest}")));
    }
    Ok((*tspec).into())
}

fn checked_flowspec(flowspec: &FlowSpecDoc) -> Result<FlowSpec, Problem> {
    let (FlowSpecDoc::ControlledLoad { tspec } | FlowSpecDoc::Guaranteed { tspec, .. }) = flowspec;
    checked_tspec(tspec)?;
    match flowspec {
        FlowSpecDoc::Guaranteed { tspec, rate_bps, .. } if *rate_bps < tspec.r_bps => {
            Err(misuse("R of guaranteed service is at least the rate r (RFC 2212)"))
        }
        _ => Ok((*flowspec).into()),
    }
}

/// An answer that reports a problem.
pub fn problem(kind: &str, message: impl Into<String>) -> Problem {
    Problem { kind: kind.to_owned(), message: message.into(), refusal: None }
}

fn misuse(message: impl Into<String>) -> Problem {
    problem("misuse", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSPEC: &str = r#"{"r_bps":3000000,"b_bytes":64000,"p_bps":null,"m_bytes":64,"M_bytes":1500}"#;

    fn ask(text: &str) -> Result<Option<AppRequest>, String> {
        let call = read(text.as_bytes()).map_err(|(id, p)| format!("{id} {}: {}", p.kind, p.message))?;
        app_request(&call.request).map_err(|p| format!("{} {}: {}", call.id, p.kind, p.message))
    }

    fn sender(session: &str, sender: &str, tspec: &str, ttl: u8) -> String {
        format!(r#"{{"id":7,"call":"sender","session":{session},"sender":{sender},"tspec":{tspec},"ttl":{ttl}}}"#)
    }

    const SESSION: &str = r#"{"dst":"10.0.2.2","protocol":17,"dst_port":5004}"#;
    const SENDER: &str = r#"{"src":"10.0.0.1","src_port":5004}"#;

    #[test]
    fn good_calls_are_taken() {
        let group = SESSION.replace("10.0.2.2", "239.1.1.1");
        assert!(matches!(ask(&sender(&group, SENDER, TSPEC, 64)), Ok(Some(AppRequest::Sender(..)))));
        assert!(matches!(ask(&sender(SESSION, SENDER, TSPEC, 64)), Ok(Some(AppRequest::Sender(..)))));
        assert_eq!(ask(r#"{"id":1,"call":"status"}"#), Ok(None));
        assert_eq!(ask(r#"{"id":1,"call":"release"}"#), Ok(Some(AppRequest::Release(None))));
    }

    #[test]
    fn bad_calls_are_told_what_is_wrong() {
        let with = |from: &str, to: &str| sender(SESSION, SENDER, TSPEC, 64).replace(from, to);
        let table = [
            ("{", "0 malformed"),
            (r#"{"id":7,"call":"dance"}"#, "7 malformed: this is no call: unknown variant `dance`"),
            (r#"{"id":-1,"call":"status"}"#, "0 malformed"),
            (&with(":17", ":0"), "7 misuse: a session needs an IP protocol"),
            (&with("10.0.2.2", "0.0.0.0"), "7 misuse: a session needs a destination"),
            (r#"{"id":7,"call":"priority","priority":{"preempting":2,"defending":1}}"#, "7 misuse: the defending"),
            (&with("10.0.2.2", "fd00::2"), "7 misuse: sender and session are of different"),
            (&with("10.0.2.2", "10.0.2"), "7 malformed"),
            (&with("10.0.0.1", "255.255.255.255"), "7 misuse: 255.255.255.255 is not the address"),
            (&with("10.0.0.1", "fd00::1"), "7 misuse: sender and session are of different"),
            (&with(r#""dst_port":5004"#, r#""dst_port":0"#), "7 misuse: a session without a port"),
            (&with("3000000", "0"), "7 misuse: a rate of zero"),
            (&with("null", "1000"), "7 misuse: the peak rate is below"),
            (&with("64000", "1499"), "7 misuse: a bucket of 1499 bytes never passes"),
            (&with(r#""m_bytes":64"#, r#""m_bytes":1501"#), "7 misuse: the minimum policed unit"),
            (&sender(SESSION, SENDER, TSPEC, 0), "7 misuse: a TTL of 0"),
        ];
        for (line, expected) in table {
            let told = ask(line).expect_err(line);
            assert!(told.starts_with(expected), "{told}\n expected: {expected}");
        }
        assert!(read(&[0xff, 0xfe]).is_err());
        assert!(read("[".repeat(100_000).as_bytes()).is_err(), "depth is limited");
    }
}
