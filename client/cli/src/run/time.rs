//! How long a command's reservation lasts: as long as the command, for a time, or until a volume has been moved.

use super::AGAIN;
use crate::book::in_force::reservation;
use crate::book::times::Calendar;
use crate::complain::Complaint;
use clap::Args;
use documents::agent::Request;
use documents::book::{ReservationDoc, VolumeDoc, WhenDoc};
use documents::units;
use rpc::client::Client;
use std::time::Duration;
use terms::Span;

/// The options about time.
#[derive(Args, Clone, Debug)]
pub struct TimeArgs {
    /// The time for which the reservation lasts; the command goes on without [default: as long as the command runs]
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_span, conflicts_with = "each")]
    lasting: Option<Span>,
    /// The amount to move by --by: the agent chooses rates up to --forward, and the command begins when the first does
    #[arg(long, value_name = "SIZE", requires_all = ["by", "to"], conflicts_with_all = ["lasting", "cpu", "disk", "reverse"])]
    volume: Option<String>,
    /// The deadline of --volume
    #[arg(long, value_name = "WHEN", requires = "volume")]
    by: Option<String>,
}

impl TimeArgs {
    /// The time of the booking.
    pub(super) fn when(&self, lease: Span) -> Result<WhenDoc, Complaint> {
        let Some((volume, by)) = self.volume.as_ref().zip(self.by.as_ref()) else {
            return Ok(WhenDoc::lasting(self.lasting.unwrap_or(lease).as_nanos() as f64 / 1e9));
        };
        let bytes = units::parse_volume(&volume.to_lowercase()).map_err(Complaint::usage)?.get();
        let deadline = Calendar::here(None).and_then(|calendar| calendar.time(by)).map_err(Complaint::usage)?;
        Ok(WhenDoc { volume: Some(VolumeDoc { bytes, deadline }), ..WhenDoc::default() })
    }

    /// True if the reservation is renewed as long as the command runs.
    pub(super) fn is_open(&self) -> bool {
        self.lasting.is_none() && !self.is_of_volume()
    }

    /// True if a volume is to be moved by a deadline.
    pub(super) fn is_of_volume(&self) -> bool {
        self.volume.is_some()
    }

    /// The time after which it is given back, if one is said.
    pub(super) fn length(&self) -> Option<Duration> {
        self.lasting.map(|lasting| Duration::from_nanos(lasting.as_nanos()))
    }
}

/// Waits until a booking that begins later has begun.
pub(super) fn begun(
    client: &mut Client,
    mut found: ReservationDoc,
    told: &dyn Fn(&str),
) -> Result<ReservationDoc, Complaint> {
    if found.state == "booked" {
        told(&format!("{} is booked, and begins later", found.handle));
    }
    while found.state == "booked" {
        std::thread::sleep(AGAIN);
        let handle = Some(found.handle.clone());
        found = reservation(client.call(Request::BookShow { handle, filter: Default::default() })?)?;
    }
    match found.state.as_str() {
        "active" => Ok(found),
        other => Err(Complaint::refused(format!("the booking {} is {other} before it began", found.handle))),
    }
}
