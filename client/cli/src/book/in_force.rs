//! Waiting until an agent has carried a reservation out.

use crate::complain::Complaint;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{BookFilter, ReservationDoc};
use rpc::client::Client;
use std::time::{Duration, Instant};

/// The limit for an agent to carry out a binding.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The interval between looks.
pub const LOOK: Duration = Duration::from_millis(20);

/// The reservation that an agent answers with.
pub fn reservation(answer: Answer) -> Result<ReservationDoc, Complaint> {
    match answer {
        Answer::Book(BookAnswer::Reservation(found)) => Ok(found),
        other => Err(Complaint::world(format!("the agent answered {other:?} when asked for a reservation"))),
    }
}

/// Waits until every part is in force.
pub fn in_force(client: &mut Client, mut found: ReservationDoc) -> Result<(), Complaint> {
    let until = Instant::now() + PATIENCE;
    loop {
        let Some(part) = found.parts.iter().find(|part| part.enforced != "in_force") else { return Ok(()) };
        if Instant::now() > until || part.enforced == "failed" {
            let why = part.fault.clone().unwrap_or_else(|| part.enforced.clone());
            return Err(Complaint::refused(format!("{} is reserved, but not to be had: {why}", part.resource)));
        }
        std::thread::sleep(LOOK);
        let handle = Some(found.handle.clone());
        found = reservation(client.call(Request::BookShow { handle, filter: BookFilter::default() })?)?;
    }
}
