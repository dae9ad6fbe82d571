//! The two applications of a reserved flow, each at the agent of its own host: one sends, one receives and
//! reserves (RFC 2205 section 3.11.1).

use bed::error::Error;
use documents::agent::{EventDoc, FlowSpecDoc, Request, SenderId, SessionId, StyleDoc, TspecDoc};
use rpc::client::Client;
use std::time::{Duration, Instant};
use terms::GuaranteedTerms;

/// The time limit for a message over a path of three links.
const PATIENCE: Duration = Duration::from_secs(5);

/// A flow: a session and its one sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservedFlow {
    /// The destination.
    pub session: SessionId,
    /// The sender.
    pub sender: SenderId,
}

/// The sending application. Its path state goes when this is dropped.
#[derive(Debug)]
pub struct Sending {
    client: Client,
    flow: ReservedFlow,
}

impl Sending {
    /// Announces the sender's Tspec.
    ///
    /// # Errors
    /// The agent refuses, or went away.
    pub fn start(mut client: Client, flow: ReservedFlow, tspec: TspecDoc) -> Result<Sending, Error> {
        let ReservedFlow { session, sender } = flow;
        client.call(Request::Sender { session, sender, tspec, ttl: 63 })?;
        Ok(Sending { client, flow })
    }

    /// Waits until no reservation is left for the flow.
    ///
    /// # Errors
    /// The event does not come.
    pub fn wait_for_release(&mut self) -> Result<(), Error> {
        let ReservedFlow { session, sender } = self.flow;
        let wanted = EventDoc::ResvGone { session, sender };
        wait(&mut self.client, "the release reached the sender", |event| (*event == wanted).then_some(Ok(())))
    }
}

/// The receiving application. Its reservation goes when this is dropped.
#[derive(Debug)]
pub struct Receiving {
    client: Client,
    flow: ReservedFlow,
}

impl Receiving {
    /// Registers for the session.
    ///
    /// # Errors
    /// The agent refuses, or went away.
    pub fn start(mut client: Client, flow: ReservedFlow) -> Result<Receiving, Error> {
        client.call(Request::Receiver { session: flow.session })?;
        Ok(Receiving { client, flow })
    }

    /// Waits for path state from the sender.
    ///
    /// # Errors
    /// No Path comes.
    pub fn wait_for_path(&mut self) -> Result<(), Error> {
        let flow = self.flow;
        wait(&mut self.client, "a Path message came", |event| match event {
            EventDoc::Path { session, sender, .. } if (*session, *sender) == (flow.session, flow.sender) => {
                Some(Ok(()))
            }
            _ => None,
        })
    }

    /// Waits for path state from the sender, and returns the terms of guaranteed service that the path exports.
    ///
    /// # Errors
    /// No Path comes, or a hop does not offer guaranteed service.
    pub fn wait_for_terms(&mut self) -> Result<GuaranteedTerms, Error> {
        let flow = self.flow;
        wait(&mut self.client, "a Path message came", |event| match event {
            EventDoc::Path { session, sender, c_tot_bytes, d_tot_us, .. }
                if (*session, *sender) == (flow.session, flow.sender) =>
            {
                let terms = c_tot_bytes.zip(*d_tot_us);
                let terms = terms.map(|(c_tot, d_tot)| GuaranteedTerms { c_tot, d_tot, ..GuaranteedTerms::default() });
                Some(terms.ok_or_else(|| Error::Void("a hop does not offer guaranteed service".into())))
            }
            _ => None,
        })
    }

    /// Reserves controlled load for `tspec`, style FF, and waits for the confirmation. Returns the time from
    /// the call to the ResvConf.
    ///
    /// # Errors
    /// [`Error::Agent`] with the refusing node's message, or no answer comes.
    pub fn reserve(&mut self, tspec: TspecDoc) -> Result<Duration, Error> {
        self.reserve_as(FlowSpecDoc::ControlledLoad { tspec })
    }

    /// As [`Receiving::reserve`], with any flowspec.
    ///
    /// # Errors
    /// As [`Receiving::reserve`].
    pub fn reserve_as(&mut self, flowspec: FlowSpecDoc) -> Result<Duration, Error> {
        let ReservedFlow { session, sender } = self.flow;
        let request = Request::Reserve {
            session,
            style: StyleDoc::Ff,
            senders: vec![sender],
            flowspecs: vec![flowspec],
            confirm: true,
        };
        let begin = Instant::now();
        self.client.call(request)?;
        wait(&mut self.client, "the reservation was confirmed", |event| match event {
            EventDoc::Confirm { session: of, .. } if *of == session => Some(Ok(begin.elapsed())),
            EventDoc::Error { session: of, node, meaning, text, .. } if *of == session => {
                let text = text.clone().unwrap_or_default();
                let message = format!("{node} refused the reservation: {meaning} {text}").trim_end().to_owned();
                Some(Err(refusal(message)))
            }
            _ => None,
        })
    }

    /// Releases the reservation, and registers for the session again.
    ///
    /// # Errors
    /// The agent went away.
    pub fn release(&mut self) -> Result<(), Error> {
        self.client.call(Request::Release { session: Some(self.flow.session) })?;
        self.client.call(Request::Receiver { session: self.flow.session })?;
        Ok(())
    }
}

pub(crate) fn refusal(message: String) -> Error {
    Error::Agent(rpc::client::Error::Agent(documents::agent::Problem {
        kind: "refused".into(),
        message,
        refusal: None,
    }))
}

/// Waits for the first event that `decide` accepts.
pub(crate) fn wait<T>(
    client: &mut Client,
    what: &str,
    mut decide: impl FnMut(&EventDoc) -> Option<Result<T, Error>>,
) -> Result<T, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match client.event(left)? {
            Some((_, event)) => {
                if let Some(decision) = decide(&event) {
                    return decision;
                }
            }
            None => return Err(Error::Void(format!("{} s passed before {what}", PATIENCE.as_secs()))),
        }
    }
}
