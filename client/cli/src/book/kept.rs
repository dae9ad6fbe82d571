//! Reservations and events of agents and brokers, for people and for programs: a broker's have all fields of
//! an agent's, and more.

use super::show;
use super::times::Calendar;
use documents::book::{BookEvent, ReservationDoc};
use documents::rest::{Event, Reservation};
use serde::{Serialize, Serializer};

/// A reservation.
#[derive(Clone, PartialEq, Debug)]
pub enum ListedReservation {
    /// A reservation of an agent.
    Agent(Box<ReservationDoc>),
    /// A reservation of a broker.
    Broker(Box<Reservation>),
}

/// A broker's `id` is a `handle` as well, so that a program need not know which of them it asked.
#[derive(Serialize)]
struct Named<'a> {
    handle: &'a str,
    #[serde(flatten)]
    rest: &'a Reservation,
}

impl Serialize for ListedReservation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ListedReservation::Agent(doc) => doc.serialize(serializer),
            ListedReservation::Broker(doc) => Named { handle: &doc.id, rest: doc }.serialize(serializer),
        }
    }
}

impl ListedReservation {
    /// The handle.
    pub fn handle(&self) -> &str {
        match self {
            ListedReservation::Agent(doc) => &doc.handle,
            ListedReservation::Broker(doc) => &doc.id,
        }
    }

    /// Its state.
    pub fn state(&self) -> &str {
        match self {
            ListedReservation::Agent(doc) => &doc.state,
            ListedReservation::Broker(doc) => &doc.state,
        }
    }

    /// The reservation in the form of an agent's document.
    pub fn doc(&self) -> ReservationDoc {
        match self {
            ListedReservation::Agent(doc) => (**doc).clone(),
            ListedReservation::Broker(doc) => ReservationDoc {
                handle: doc.id.clone(),
                owner: doc.owner.clone(),
                label: doc.label.clone(),
                group: String::new(),
                members: Vec::new(),
                state: doc.state.clone(),
                hold_until: doc.hold_until,
                notify_s: doc.notify_s,
                created: doc.created,
                version: 0,
                parts: doc.parts.iter().map(|part| part.row.clone()).collect(),
                promise: None,
                more: false,
            },
        }
    }

    /// True if a part belongs to the path between two hosts.
    pub fn is_of_path(&self, part: usize) -> bool {
        match self {
            ListedReservation::Agent(_) => false,
            ListedReservation::Broker(doc) => doc.parts.get(part).is_some_and(|part| part.way.is_some()),
        }
    }

    /// The reservation as text for people, with the first windows.
    pub fn text(&self, calendar: &Calendar) -> String {
        self.written(calendar, false)
    }

    /// The same with all windows, and their numbers where there are several.
    pub fn whole(&self, calendar: &Calendar) -> String {
        self.written(calendar, true)
    }

    fn written(&self, calendar: &Calendar, whole: bool) -> String {
        let text = show::reservation(&self.doc(), calendar, whole);
        let ListedReservation::Broker(doc) = self else { return text };
        let Some(ends) = doc.path else { return text };
        let rate = |rate: Option<u64>| rate.map_or("nothing".to_owned(), crate::rates::rate);
        let between =
            format!("  {} > {}: {} forward, {} reverse\n", ends.from, ends.to, rate(ends.forward), rate(ends.reverse));
        text.replacen('\n', &format!("\n{between}"), 1)
    }
}

/// An event of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum EventView {
    /// At an agent.
    Agent(Box<BookEvent>),
    /// At an agent of a broker.
    Broker(Box<Event>),
}

impl EventView {
    /// The time of the event.
    pub fn at(&self) -> documents::book::Instant {
        match self {
            EventView::Agent(event) => event.at,
            EventView::Broker(event) => event.event.at,
        }
    }

    /// The event in one line.
    pub fn text(&self) -> String {
        match self {
            EventView::Agent(event) => show::event(event),
            EventView::Broker(event) => show::event_of(event),
        }
    }
}
