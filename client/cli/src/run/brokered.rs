//! The way of a command's packets, booked by a broker at every agent on the way, in both directions: all or none. It is a
//! lease, so that it ends also if this program is killed.

use super::way::way_out;
use super::{AGAIN, LEASE, RunArgs};
use crate::book::booking_client::BookingError;
use crate::book::in_force::{LOOK, PATIENCE};
use crate::book::times::Calendar;
use crate::complain::Complaint;
use broker_service::client::{BrokerClient, Error};
use documents::book::{ChangeDoc, Instant as Stamp};
use documents::rest::{Change, PathWish, Ports, Reservation, Wish};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Instant;
use terms::Rate;

/// A reservation of a broker, as long as the command runs.
pub struct Brokered {
    client: BrokerClient,
    id: String,
    asked: (Rate, Option<Rate>),
}

impl Brokered {
    /// Reserves between this host and the far end, and waits until every agent on the way has carried it out.
    pub fn reserve(args: &RunArgs, broker: &str, to: IpAddr, forward: Rate) -> Result<Brokered, Complaint> {
        let client = args.agent.papers.broker(broker)?;
        let from = match args.way.from {
            Some(from) => from,
            None => way_out(to)?.1,
        };
        let path = PathWish {
            from,
            to,
            forward: Some(forward.as_bps()),
            reverse: args.way.reverse.map(|rate| rate.as_bps()),
            forward_at_least: None,
            reverse_at_least: None,
            background: None,
            packet_bytes: None,
            rtt_ms: None,
            flow: Some(Ports { protocol: Some(args.way.protocol), from_port: None, to_port: None }),
            tree: false,
        };
        let label = if args.label.is_empty() { args.command[0].clone() } else { args.label.clone() };
        let wish = Wish { path: Some(path), when: args.time.when(LEASE)?, label, ..Wish::default() };
        let made = client.create(&wish, "").map_err(told)?;
        let one = Brokered { client, id: made.id.clone(), asked: (forward, args.way.reverse) };
        match one.stands(made) {
            Ok(()) => Ok(one),
            Err(complaint) => {
                one.release();
                Err(complaint)
            }
        }
    }

    /// Waits until it has begun and is in force.
    fn stands(&self, mut found: Reservation) -> Result<(), Complaint> {
        while found.state == "booked" {
            std::thread::sleep(AGAIN);
            found = self.client.show(&self.id).map_err(told)?;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            if found.state != "active" {
                return Err(Complaint::refused(format!("{} is {} before it was in force", self.id, found.state)));
            }
            let Some(part) = found.parts.iter().find(|part| part.row.enforced != "in_force") else { return Ok(()) };
            if Instant::now() > until || part.row.enforced == "failed" {
                let why = part.row.fault.as_deref().unwrap_or(&part.row.enforced);
                return Err(Complaint::refused(format!(
                    "{} at {} is reserved, but not to be had: {why}",
                    part.row.resource, part.agent
                )));
            }
            std::thread::sleep(LOOK);
            found = self.client.show(&self.id).map_err(told)?;
        }
    }

    /// Makes it longer.
    pub fn renew(&self) -> Result<(), Complaint> {
        let end = Stamp(linux::clock::Clock::start().now() + LEASE);
        let rest = ChangeDoc { end: Some(end), ..ChangeDoc::default() };
        self.client.modify(&self.id, &Change { rest, ..Change::default() }).map(drop).map_err(told)
    }

    /// Gives it back. Without an answer it ends by itself; a refusal says that it is over already.
    pub fn release(&self) {
        match self.client.cancel(&self.id) {
            Ok(_) | Err(Error::Said(_)) => {}
            Err(error) => eprintln!("sluice: {} is not given back now, and ends by itself: {error}", self.id),
        }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let reverse = self.asked.1.map_or_else(String::new, |rate| format!(", and {rate} back"));
        format!("the broker has reserved {} all the way{reverse}, as {}", self.asked.0, self.id)
    }

    /// As JSON, for the report: with what each agent on the way has.
    pub fn report(&self) -> Value {
        let parts: Vec<Value> = self.client.show(&self.id).map_or_else(
            |_| Vec::new(),
            |found| {
                found.parts.iter().map(|part| json!({"agent": part.agent, "part": super::row(&part.row)})).collect()
            },
        );
        let asked =
            json!({"forward_bps": self.asked.0.as_bps(), "reverse_bps": self.asked.1.map(|rate| rate.as_bps())});
        json!({"with": "broker", "reservation": self.id, "asked": asked, "parts": parts})
    }
}

fn told(error: Error) -> Complaint {
    match Calendar::here(None) {
        Ok(calendar) => BookingError::from(error).complaint(&[], &calendar, false),
        Err(bad) => Complaint::usage(bad),
    }
}
