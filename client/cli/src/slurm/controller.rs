//! On Slurm's controller: a job's reservations are made before it starts, and given back when it has ended, by a broker and
//! in the name of the job's owner.

use super::SlurmHookArgs;
use super::comment::{self, JobRate, JobWish};
use super::job::{self, SlurmJob, resolve};
use crate::complain::Complaint;
use broker_service::client::{BrokerClient, Error};
use documents::book::{BookFilter, WhenDoc};
use documents::rest::{PathWish, Ports, Reservation, Wish};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The patience with a broker that is away, before a reservation is left to end by itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// The term of a reservation that is not booked yet, s, and what it is more for each node. Slurm kills this hook with a job
/// that is cancelled, and what the broker makes at that moment may be missed by EpilogSlurmctld.
const HOLD: f64 = 20.0;
const HOLD_MORE: f64 = 1.0;
/// The HTTP status of a request that makes no sense.
const MEANINGLESS: u16 = 422;
/// Kinds of problems that pass by themselves: other jobs have it now. If an earlier run of the same hook has given it back,
/// the next start of the job has another key.
const PASSING: [&str; 6] = ["no_room", "taken", "limit", "undecided", "key_over", "wrong_state"];

/// The reason why a job does not start.
enum Hindrance {
    /// It may start later.
    Later(String),
    /// It never can, as it is.
    Wrong(String),
    /// The world is not as needed.
    World(Complaint),
}

impl From<Error> for Hindrance {
    fn from(error: Error) -> Hindrance {
        let problem = match error {
            Error::Said(problem) => problem,
            other => return Hindrance::World(Complaint::world(other.to_string())),
        };
        let kind = problem.kind.rsplit('/').next().unwrap_or_default();
        let reason = problem.refusal.as_ref().map_or(kind, |refusal| refusal.reason.as_str());
        match problem.status {
            _ if PASSING.contains(&kind) || PASSING.contains(&reason) => Hindrance::Later(problem.detail),
            // What broke: 500 and more.
            500.. => Hindrance::World(Complaint::world(problem.detail)),
            _ => Hindrance::Wrong(problem.detail),
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
fn broker(args: &SlurmHookArgs, job: &SlurmJob) -> Result<BrokerClient, Complaint> {
    let found = args.book.broker(true)?;
    let client = found.ok_or_else(|| Complaint::usage("the controller asks a broker: name it with --broker"))?;
    Ok(client.speaking_for(job.uid, &job.groups()))
}

fn all_nodes(args: &SlurmHookArgs, job: &SlurmJob, wish: &JobWish) -> Result<Vec<String>, Hindrance> {
    let times = job.times().map_err(Hindrance::World)?;
    let nodes = job.addresses().map_err(Hindrance::World)?;
    if wish.from.is_some() && nodes.len() > 1 {
        return Err(Hindrance::Wrong(format!("from= is for jobs of one node, and this has {}", nodes.len())));
    }
    let lasting = times.limit.map_or(args.longest, |limit| limit.saturating_add(args.grace));
    let broker = broker(args, job).map_err(Hindrance::World)?;
    let hold = HOLD + HOLD_MORE * nodes.len() as f64;
    let mut all: Vec<Reservation> = Vec::new();
    for (number, (node, address)) in nodes.into_iter().enumerate() {
        let from = wish.from.unwrap_or(address);
        let made = resolve(&wish.to, Some(from)).map_err(|no| Hindrance::Wrong(no.to_string())).and_then(|to| {
            let asked = Wish {
                path: Some(path(wish, from, to)),
                parts: Vec::new(),
                when: WhenDoc::lasting(lasting.as_nanos() as f64 / 1e9),
                label: format!("{}{node}", job.label()),
                hold_s: Some(hold),
                notify_s: None,
            };
            // Numbers of jobs come again, times of submission with them do not. The broker tells owners and nodes apart.
            let key = format!("{}{}/{}/{number}", job.label(), times.submitted, job.restarts);
            match broker.create(&asked, &key) {
                // Over several domains nothing can be only held; another request has another key.
                Err(Error::Said(problem)) if problem.status == MEANINGLESS => {
                    Ok(broker.create(&Wish { hold_s: None, ..asked }, &format!("{key}/whole"))?)
                }
                made => Ok(made?),
            }
        });
        match made {
            Ok(one) => all.push(one),
            Err(hindrance) => return Err(given_back(&broker, &all, hindrance)),
        }
    }
    // All nodes or none. One that is booked already is so by a run of this hook that was killed.
    for one in all.iter().filter(|one| one.state == "held") {
        if let Err(error) = broker.commit(&one.id) {
            return Err(given_back(&broker, &all, error.into()));
        }
    }
    Ok(all.into_iter().map(|one| one.id).collect())
}

/// Gives back all that was made. The rest ends by itself, or EpilogSlurmctld gives it back.
fn given_back(broker: &BrokerClient, all: &[Reservation], why: Hindrance) -> Hindrance {
    all.iter().for_each(|one| drop(broker.cancel(&one.id)));
    why
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
    let broker = broker(args, job)?;
    loop {
        match cancel_all(&broker, job) {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(_) if asks && Instant::now() < until => std::thread::sleep(PAUSE),
            Err(complaint) => return Err(complaint),
        }
    }
}

fn cancel_all(broker: &BrokerClient, job: &SlurmJob) -> Result<(), Complaint> {
    let said = |error: Error| Complaint::world(format!("job {}: {error}", job.id));
    let mut filter = BookFilter { owner: Some(format!("uid:{}", job.uid)), ..BookFilter::default() };
    let mut away = Vec::new();
    loop {
        let found = broker.list(&filter).map_err(said)?;
        for one in found.reservations {
            // Also that of an earlier job of this owner which slurmctld has forgotten: it was killed before it wrote it down.
            let of = job.numbered(&one.label);
            if of.is_some_and(|id| id == job.id || job::is_unknown(id)) {
                broker.cancel(&one.id).map_err(said)?;
            }
        }
        away.extend(found.away);
        match found.next {
            Some(next) if filter.after.as_ref() != Some(&next) => filter.after = Some(next),
            _ => break,
        }
    }
    match away.is_empty() {
        true => Ok(()),
        false => Err(Complaint::world(format!("these agents do not answer: {}", away.join(", ")))),
    }
}
