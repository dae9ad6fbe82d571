//! `--each`: one reservation for each TCP connection that the command accepts or opens, standing before its first packet
//! of data, given back when the connection has sent its end.
//!
//! The kernel stops the command at `connect` and `accept` ([`linux::supervise`]); a thread of ours asks for the
//! reservation meanwhile. The command never waits for anything else.

mod attendant;
mod shares;
mod tally;

use super::RunArgs;
use crate::complain::Complaint;
use attendant::Attendant;
use clap::Args;
use linux::supervise::Supervisor;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use terms::Rate;

/// The options about single connections.
#[derive(Args, Clone, Copy, Debug)]
pub struct EachArgs {
    /// A reservation of this rate for what the command sends on each TCP connection that it accepts or opens
    #[arg(long, value_name = "RATE", value_parser = documents::units::parse_rate, conflicts_with = "to")]
    pub each: Option<Rate>,
    /// With --each: the most connections with a reservation at once; those beyond are refused
    #[arg(long, value_name = "N", requires = "each", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,
    /// With --each: let connections send as fast as they can; what exceeds the rate is best effort, and packets overtake each
    /// other
    #[arg(long, requires = "each")]
    pub unpaced: bool,
}

/// The two ends of a connection, ours first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Ends {
    local: SocketAddr,
    remote: SocketAddr,
}

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.local, self.remote)
    }
}

/// The thread that attends to the connections of a command.
pub struct Each {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Value>,
}

impl Each {
    /// Begins to attend. Signals are held back already, so that none ends the thread.
    pub fn start(args: &RunArgs, rate: Rate, calls: Supervisor) -> Result<Each, Complaint> {
        let over = Arc::new(AtomicBool::new(false));
        let attendant = Attendant::new(args, rate, calls)?;
        let theirs = over.clone();
        let thread = std::thread::Builder::new().name("each".to_owned());
        let thread = thread.spawn(move || attendant.attend(&theirs));
        let thread = thread.map_err(|error| Complaint::world(format!("cannot start a thread: {error}")))?;
        Ok(Each { over, thread })
    }

    /// The command has ended: gives back what stands. Returns the report.
    pub fn end(self) -> Value {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(Value::Null)
    }
}
