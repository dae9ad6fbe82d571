//! What a caller from another machine may ask at all; what of it is granted, the book and the policy decide.
//!
//! Default deny: what is not named here is for programs of this machine alone. That is signalling (it speaks for this
//! host's own addresses), messages as they are on the wire, keys, static reservations, and stopping the agent.

use crate::calls::problem;
use api::agent::{Problem, Request};
use trust::Role;

/// Whether a certificate of that role may ask this. `speaks`: it speaks for somebody else, whose role in the book this is.
///
/// # Errors
/// It may not.
pub(crate) fn may(role: Role, speaks: Option<terms::book::Role>, request: &Request) -> Result<(), Problem> {
    use terms::book::Role as Seen;
    let seen = match (role, speaks) {
        (_, Some(seen)) => Some(seen),
        (Role::Requester, None) => Some(Seen::Owner),
        (Role::Auditor, None) => Some(Seen::Auditor),
        (Role::Operator, None) => Some(Seen::Operator),
        (Role::Agent | Role::Broker, None) => None,
    };
    let refused = |what: String| Err(problem("refused", what));
    match request {
        Request::Hello => Ok(()),
        // Whom policy takes at their word is looked up where it is asked.
        Request::SpeakFor { .. } if role == Role::Broker => Ok(()),
        Request::SpeakFor { .. } => refused(format!("a certificate of the role {role} speaks for nobody else")),
        _ if seen.is_none() => refused(format!("a certificate of the role {role} asks nothing for itself")),
        Request::Resources { .. }
        | Request::Links
        | Request::BookEnquire(_)
        | Request::BookCreate(_)
        | Request::BookCommit { .. }
        | Request::BookModify { .. }
        | Request::BookBind { .. }
        | Request::BookCancel { .. }
        | Request::BookShow { .. }
        | Request::BookHistory { .. }
        | Request::BookFollow { .. }
        | Request::BookAudit(_) => Ok(()), // who may read that, the book asks
        // Who talks to whom: not for those who only see what is theirs.
        Request::Status
        | Request::Sessions
        | Request::Senders
        | Request::Reservations
        | Request::Counters
        | Request::Show { .. }
        | Request::Statics
        | Request::BoomerangSessions { .. }
        | Request::Watch => match seen {
            Some(Seen::Auditor | Seen::Operator) => Ok(()),
            _ => refused("only an auditor or operator sees this from another machine".to_owned()),
        },
        _ => refused("this is asked on the agent's own socket only, not from another machine".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::book::Role as Seen;

    fn request(text: &str) -> Request {
        serde_json::from_str(text).unwrap()
    }

    /// Role, whom it speaks for, and which of the calls below it may ask.
    #[test]
    fn the_matrix() {
        let calls = [
            r#"{"call":"hello"}"#,
            r#"{"call":"resources"}"#,
            r#"{"call":"book_show"}"#,
            r#"{"call":"status"}"#,
            r#"{"call":"watch"}"#,
            r#"{"call":"speak_for","who":null}"#,
            r#"{"call":"trace"}"#,
            r#"{"call":"boomerang_trace"}"#,
            r#"{"call":"boomerang_release","number":1}"#,
            r#"{"call":"release","session":null}"#,
            r#"{"call":"remove_static","number":1}"#,
            r#"{"call":"reload_keys"}"#,
            r#"{"call":"stop"}"#,
        ];
        let table = [
            (Role::Requester, None, "yyynnnnnnnnnn"),
            (Role::Auditor, None, "yyyyynnnnnnnn"),
            (Role::Operator, None, "yyyyynnnnnnnn"),
            (Role::Agent, None, "ynnnnnnnnnnnn"),
            (Role::Broker, None, "ynnnnynnnnnnn"),
            (Role::Broker, Some(Seen::Owner), "yyynnynnnnnnn"),
            (Role::Broker, Some(Seen::Operator), "yyyyyynnnnnnn"),
        ];
        for (role, speaks, expected) in table {
            let found: String =
                calls.iter().map(|call| if may(role, speaks, &request(call)).is_ok() { 'y' } else { 'n' }).collect();
            assert_eq!(found, expected, "{role} {speaks:?}");
        }
    }
}
