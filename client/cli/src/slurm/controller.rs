//! On Slurm's controller: a job's reservations are made before it starts, and given back when it has ended, by a broker and
//! in the name of the job's owner.

use super::SlurmHookArgs;
use super::comment::{self, JobRate, JobWish};
use super::job::{SlurmJob, resolve};
use crate::book::booking_client::{BookingClient, BookingError, BookingOrder};
use crate::complain::Complaint;
use documents::agent::Problem;
use documents::book::{AskDoc, BookFilter, WhenDoc};
use documents::rest::{PathWish, Ports};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a broker that is away is waited for before a reservation is left to end by itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// Refusals that pass by themselves: others, or other jobs of the same owner, have it now.
const PASSING: [&str; 6] = ["no_room", "taken", "limit", "starting", "undecided", "not_written"];

/// Why a job does not start.
enum Hindrance {
    /// It may start later.
    Later(String),
    /// It never can, as it is.
    Wrong(String),
    /// The world is not as needed.
    World(Complaint),
}

impl From<BookingError> for Hindrance {
    fn from(error: BookingError) -> Hindrance {
        match error {
            BookingError::World(complaint) => Hindrance::World(complaint),
            BookingError::Said(Problem { kind, message, refusal }) => match refusal {
                Some(refusal) if PASSING.contains(&refusal.reason.as_str()) => Hindrance::Later(refusal.message),
                None if kind == "fault" => Hindrance::World(Complaint::world(message)),
                Some(_) | None => Hindrance::Wrong(message),
            },
        }
    }
}

/// PrologSlurmctld: reserves for each node of the job, or for none.
pub fn reserve(args: &SlurmHookArgs, job: &SlurmJob) -> Result<ExitCode, Complaint> {
    let made = match comment::parse(&job.comment) {
        Ok(None) => return Ok(ExitCode::SUCCESS),
        Ok(Some(wish)) => all_nodes(args, job, &wish),
        Err(why) => Err(Hindrance::Wrong(why)),
    };
    match made {
        Ok(handles) => {
            // A job that was refused before has a note that says so.
            if job.restarts > 0 {
                job.note(&format!("reserved as {}", handles.join(", ")));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(Hindrance::Later(why)) => {
            job.note(&format!("not yet: {why}"));
            Ok(ExitCode::from(1))
        }
        Err(Hindrance::Wrong(why)) => {
            job.note(&format!("held: {why}; scontrol update JobId={0} Comment=..., then scontrol release {0}", job.id));
            // Its owner mends the comment and releases it.
            job.control("uhold")?;
            Ok(ExitCode::from(1))
        }
        Err(Hindrance::World(complaint)) => {
            job.note(&format!("not yet: {complaint}"));
            Err(complaint)
        }
    }
}

/// The broker, asked in the name of the job's owner.
fn broker(args: &SlurmHookArgs, job: &SlurmJob) -> Result<BookingClient, Complaint> {
    let found = args.book.broker(true)?;
    let client = found.ok_or_else(|| Complaint::usage("the controller asks a broker: name it with --broker"))?;
    Ok(BookingClient::Broker(client.speaking_for(job.uid, &job.groups())))
}

fn all_nodes(args: &SlurmHookArgs, job: &SlurmJob, wish: &JobWish) -> Result<Vec<String>, Hindrance> {
    let times = job.times().map_err(Hindrance::World)?;
    let nodes = job.addresses().map_err(Hindrance::World)?;
    if wish.from.is_some() && nodes.len() > 1 {
        return Err(Hindrance::Wrong(format!("from= is for jobs of one node, and this has {}", nodes.len())));
    }
    let lasting = times.limit.map_or(args.longest, |limit| limit.saturating_add(args.grace));
    let mut broker = broker(args, job).map_err(Hindrance::World)?;
    let mut handles = Vec::new();
    for (node, address) in nodes {
        let label = format!("{}{node}", job.label());
        let asked = resolve(&wish.to, Some(address)).map_err(|no| Hindrance::Wrong(no.to_string())).map(|to| BookingOrder {
            ask: AskDoc {
                key: format!("{label}/{}/{}", job.restarts, times.submitted),
                label,
                when: WhenDoc::lasting(lasting.as_nanos() as f64 / 1e9),
                ..AskDoc::default()
            },
            path: Some(path(wish, wish.from.unwrap_or(address), to)),
        });
        match asked.and_then(|order| broker.create(order).map_err(Hindrance::from)) {
            Ok(made) => handles.push(made.handle().to_owned()),
            Err(hindrance) => {
                // All nodes or none. What is not given back now, EpilogSlurmctld gives back.
                handles.iter().for_each(|handle| drop(broker.cancel(handle)));
                return Err(hindrance);
            }
        }
    }
    Ok(handles)
}

/// Bound to all packets between the two hosts at every agent on the way; that of the node is bound anew to the job alone.
fn path(wish: &JobWish, from: IpAddr, to: IpAddr) -> PathWish {
    let most = |rate: Option<JobRate>| rate.map(|rate| rate.most);
    let least = |rate: Option<JobRate>| rate.and_then(|rate| rate.least);
    PathWish {
        from,
        to,
        forward: most(wish.forward),
        reverse: most(wish.reverse),
        forward_at_least: least(wish.forward),
        reverse_at_least: least(wish.reverse),
        background: None,
        packet_bytes: None,
        rtt_ms: None,
        flow: Some(Ports::default()),
        tree: false,
    }
}

/// EpilogSlurmctld: gives back all that the job has, whatever its comment says by now.
pub fn give_back(args: &SlurmHookArgs, job: &SlurmJob) -> Result<ExitCode, Complaint> {
    let until = Instant::now() + PATIENCE;
    let asks = !matches!(comment::parse(&job.comment), Ok(None));
    loop {
        match cancel_all(&mut broker(args, job)?, job) {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(_) if asks && Instant::now() < until => std::thread::sleep(PAUSE),
            Err(BookingError::World(complaint)) => return Err(complaint),
            Err(BookingError::Said(problem)) => return Err(Complaint::refused(problem.message)),
        }
    }
}

fn cancel_all(broker: &mut BookingClient, job: &SlurmJob) -> Result<(), BookingError> {
    let label = job.label();
    let own = BookFilter { owner: Some(format!("uid:{}", job.uid)), ..BookFilter::default() };
    for found in broker.list(own)?.into_iter().filter(|found| found.doc().label.starts_with(&label)) {
        broker.cancel(found.handle())?;
    }
    Ok(())
}
