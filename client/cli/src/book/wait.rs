//! `sluice wait`: until a reservation has begun, is in force, or is over.

use super::booking_client::BookingClient;
use super::kept::ListedReservation;
use super::which::WhichArgs;
use super::{here, print_json};
use crate::complain::Complaint;
use crate::places::BookArgs;
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::Span;

/// The interval between looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// `sluice wait`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice wait --last --for active\n  sluice wait HANDLE --for ended --timeout 2h\n\n\
                        Exit status 1: it went another way, or not in time."
)]
pub struct WaitArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The reservation.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The state
    #[arg(long = "for", value_name = "STATE", value_enum, default_value = "active")]
    pub state: WantedState,
    /// The most time to wait [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span)]
    pub timeout: Option<Span>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The state that `sluice wait` waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WantedState {
    /// Booked, or active already
    Booked,
    /// Its window has begun
    Active,
    /// Its packets or processes have it: all its parts are in force
    InForce,
    /// It is over: ended, cancelled or expired
    Over,
    /// Its last window has passed
    Ended,
}

impl WantedState {
    /// True if a reservation is so far.
    fn is_met(self, kept: &ListedReservation) -> bool {
        let state = kept.state();
        match self {
            WantedState::Booked => matches!(state, "booked" | "active"),
            WantedState::Active => state == "active",
            WantedState::InForce => {
                let parts = kept.doc().parts;
                !parts.is_empty() && parts.iter().all(|part| part.enforced == "in_force")
            }
            WantedState::Over => is_over(state),
            WantedState::Ended => state == "ended",
        }
    }
}

fn is_over(state: &str) -> bool {
    matches!(state, "ended" | "cancelled" | "expired")
}

/// Waits.
pub fn run(args: &WaitArgs) -> Result<ExitCode, Complaint> {
    let calendar = here(None)?;
    let mut desk = BookingClient::open(&args.book, false)?;
    let complain = |failed: super::booking_client::BookingError| failed.complaint(&[], &calendar, args.json);
    let handle = args.which.handle(&mut desk).map_err(complain)?;
    let until = args.timeout.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    loop {
        let kept = desk.show(&handle).map_err(complain)?;
        let (is_met, state) = (args.state.is_met(&kept), kept.state().to_owned());
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        if is_met || is_over(&state) || is_late {
            if args.json {
                print_json(&kept)?;
            } else if is_met {
                println!("{handle}  {state}");
            }
            return match (is_met, is_over(&state)) {
                (true, _) => Ok(ExitCode::SUCCESS),
                (false, true) => Err(Complaint::refused(format!("{handle} is {state}"))),
                (false, false) => Err(Complaint::refused(format!("{handle} is still {state}"))),
            };
        }
        std::thread::sleep(INTERVAL);
    }
}
