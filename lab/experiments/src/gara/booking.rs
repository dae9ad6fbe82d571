//! An application's access to the bookings: reserve, show, cancel.

use bed::error::Error;
use documents::agent::{Answer, Request};
use documents::book::{AskDoc, BookAnswer, BookFilter, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit for a reservation to be in force.
const IN_FORCE: Duration = Duration::from_secs(5);

/// A connection to the bookings of an agent.
#[derive(Debug)]
pub struct Book {
    client: Client,
}

impl Book {
    /// Connects to an agent.
    ///
    /// # Errors
    /// No agent answers.
    pub fn open(socket: &Path) -> Result<Book, Error> {
        Ok(Book { client: Client::connect(socket)? })
    }

    /// Reserves a part at once and waits until it is in force.
    ///
    /// # Errors
    /// The agent refuses, or the reservation does not come into force.
    pub fn reserve(&mut self, part: PartDoc, label: &str) -> Result<ReservationDoc, Error> {
        let when = WhenDoc { end: Some(documents::book::Instant(terms::Time::FOREVER)), ..WhenDoc::default() };
        let ask = AskDoc { parts: vec![part], label: label.to_owned(), when, ..AskDoc::default() };
        let made = reservation(self.client.call(Request::BookCreate(ask))?)?;
        let until = Instant::now() + IN_FORCE;
        loop {
            let doc = self.show(&made.handle)?;
            match doc.parts[0].enforced.as_str() {
                "in_force" => return Ok(doc),
                "failed" => {
                    let why = doc.parts[0].fault.clone().unwrap_or_default();
                    return Err(Error::Void(format!("the reservation {label} could not be enforced: {why}")));
                }
                _ if Instant::now() > until => {
                    return Err(Error::Void(format!("the reservation {label} is still {}", doc.parts[0].enforced)));
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Returns one reservation.
    ///
    /// # Errors
    /// There is no such reservation.
    pub fn show(&mut self, handle: &str) -> Result<ReservationDoc, Error> {
        let request = Request::BookShow { handle: Some(handle.to_owned()), filter: BookFilter::default() };
        reservation(self.client.call(request)?)
    }

    /// Returns all reservations that are not over.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn list(&mut self) -> Result<Vec<ReservationDoc>, Error> {
        match self.client.call(Request::BookShow { handle: None, filter: BookFilter::default() })? {
            Answer::Book(BookAnswer::Reservations { rows, .. }) => Ok(rows),
            other => Err(Error::Void(format!("the agent answered {other:?}"))),
        }
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// There is no such reservation.
    pub fn cancel(&mut self, handle: &str) -> Result<(), Error> {
        self.client.call(Request::BookCancel { handle: handle.to_owned() })?;
        Ok(())
    }
}

fn reservation(answer: Answer) -> Result<ReservationDoc, Error> {
    match answer {
        Answer::Book(BookAnswer::Reservation(doc)) => Ok(doc),
        other => Err(Error::Void(format!("the agent answered {other:?}"))),
    }
}
