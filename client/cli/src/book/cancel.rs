//! `sluice cancel`: whole reservations, or single windows of a recurrence.

use super::args::HandleArgs;
use super::booking_client::{BookingClient, BookingError, Changed};
use super::kept::ListedReservation;
use super::times::Calendar;
use super::{each, here};
use crate::complain::Complaint;
use clap::Args;
use documents::book::{StepDoc, WindowDoc};
use std::process::ExitCode;

/// `sluice cancel`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice cancel HANDLE\n  sluice cancel xhx4                     the first letters are enough\n  \
                        sluice cancel HANDLE --occurrence 3    of a recurrence the third window, as `sluice list HANDLE` counts them\n  \
                        sluice cancel HANDLE -w \"tuesday 09:00..10:00\""
)]
pub struct CancelArgs {
    /// The reservations.
    #[command(flatten)]
    pub which: HandleArgs,
    /// Only these windows of a recurrence, by their number from 1
    #[arg(long, value_name = "N", conflicts_with = "window")]
    pub occurrence: Vec<usize>,
    /// Only the windows of a recurrence that meet this one: "tuesday 09:00..10:00"
    #[arg(long, short = 'w', value_name = "FROM..UNTIL")]
    pub window: Option<String>,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
}

/// Cancels.
pub fn run(args: &CancelArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(args.zone.as_deref())?;
    if args.occurrence.is_empty() && args.window.is_none() {
        return each(&args.which, BookingClient::cancel);
    }
    each(&args.which, |desk, handle| {
        let found = desk.show(handle)?;
        let without = windows(&found, args, &calendar).map_err(BookingError::World)?;
        let mut changed = Changed::default();
        changed.doc.without = without;
        desk.modify(handle, changed)
    })
}

/// The windows of a reservation that are meant.
fn windows(found: &ListedReservation, args: &CancelArgs, calendar: &Calendar) -> Result<Vec<WindowDoc>, Complaint> {
    let doc = found.doc();
    let steps: &[StepDoc] = doc.parts.first().map_or(&[], |part| &part.steps);
    let bounded = |step: &StepDoc| step.end.map(|end| WindowDoc { start: step.start, end });
    if let Some(text) = &args.window {
        let meant = calendar.window(text).map_err(Complaint::usage)?;
        let (start, end) = (meant.start.unwrap_or_else(|| calendar.now()), meant.end);
        let end = end.ok_or_else(|| Complaint::usage("a window has an end: tuesday 09:00..10:00"))?;
        let window = WindowDoc { start, end };
        if !steps.iter().filter_map(bounded).any(|one| one.overlaps(&window)) {
            return Err(Complaint::refused(format!(
                "{} has no window from {} to {}: sluice list {}",
                found.handle(),
                calendar.show(start),
                calendar.show(end),
                found.handle()
            )));
        }
        return Ok(vec![window]);
    }
    let one = |number: &usize| {
        let step = number.checked_sub(1).and_then(|place| steps.get(place));
        step.and_then(bounded).ok_or_else(|| {
            Complaint::usage(format!("{} has no window {number}: it has {}, from 1 on", found.handle(), steps.len()))
        })
    };
    args.occurrence.iter().map(one).collect()
}
