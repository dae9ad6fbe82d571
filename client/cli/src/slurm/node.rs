//! On a node: the reservation of a job is bound to its control group before the job's first process is there, by this
//! machine's agent. The controller gives it back.

use super::SlurmHookArgs;
use super::comment;
use super::job::SlurmJob;
use crate::book::in_force::{in_force, reservation};
use crate::book::matching;
use crate::complain::Complaint;
use documents::agent::Request;
use documents::book::{BindingDoc, BookFilter, ReservationDoc};
use linux::cgroup;
use rpc::client::Client;
use std::path::PathBuf;
use std::process::ExitCode;

/// The group in which systemd keeps services, and Slurm its jobs.
const SLICE: &str = "system.slice";

/// The exit status of a complaint about the world.
const WORLD: u8 = 3;

/// Prolog: binds the part of this node's interface to the job's control group.
pub fn bind(args: &SlurmHookArgs, job: &SlurmJob) -> Result<ExitCode, Complaint> {
    let bound = match comment::parse(&job.comment) {
        Ok(None) => return Ok(ExitCode::SUCCESS),
        Ok(Some(_)) => {
            // A status that is not 0 drains the node, which is right where the node itself is not as it should be.
            let mut client = args.book.agent.connect()?;
            let group = made(job)?;
            reservations(&mut client, job).and_then(|rows| bind_all(&mut client, rows, &group))
        }
        Err(why) => Err(Complaint::usage(why)),
    };
    match bound {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        // The agent went away.
        Err(complaint) if complaint.exit_code() == WORLD => return Err(complaint),
        // The job's own fault, or its owner's: it does not run without what it has asked for, and the node stays.
        Err(complaint) => job.note(&format!("stopped on {}: {complaint}", job.node)),
    }
    if job.control("requeuehold").is_err() {
        job.cancel()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The job's reservations on this node: by the label, and by the owner, as anybody may choose a label.
fn reservations(client: &mut Client, job: &SlurmJob) -> Result<Vec<ReservationDoc>, Complaint> {
    let filter = BookFilter { label: Some(format!("{}{}", job.label(), job.node)), ..BookFilter::default() };
    let uid = format!("uid:{}", job.uid);
    // A broker on another machine is in front of the name: main/uid:1000.
    let is_owner = |owner: &str| owner == uid || owner.rsplit_once('/').is_some_and(|(_, name)| name == uid);
    let rows: Vec<ReservationDoc> = matching(client, filter)?.into_iter().filter(|row| is_owner(&row.owner)).collect();
    match rows.is_empty() {
        true => Err(Complaint::refused("nothing is reserved for it at this node's agent")),
        false => Ok(rows),
    }
}

fn bind_all(client: &mut Client, rows: Vec<ReservationDoc>, group: &str) -> Result<(), Complaint> {
    let mut any = false;
    for mut row in rows {
        for part in 0..row.parts.len() {
            if row.parts[part].resource.starts_with("net/") {
                let binding = Some(BindingDoc::Cgroup(group.to_owned()));
                row = reservation(client.call(Request::BookBind { handle: row.handle.clone(), part, binding })?)?;
                any = true;
            }
        }
        in_force(client, row)?;
    }
    match any {
        true => Ok(()),
        false => Err(Complaint::refused("no interface of this node is reserved for it")),
    }
}

/// The folder of the job's control group, in which slurmstepd makes one for each step (cgroup.conf(5), cgroup/v2).
fn place(job: &SlurmJob) -> Result<PathBuf, Complaint> {
    let root = cgroup::for_packets(&cgroup::all_mounted()).ok_or_else(|| {
        Complaint::world(
            "packets belong to control groups of version 2, and none are mounted here: CgroupPlugin=cgroup/v2",
        )
    })?;
    // A slurmd that may be one of several of a machine has its node's name in it.
    let scopes = [format!("{}_slurmstepd.scope", job.node), "slurmstepd.scope".to_owned()];
    let found = scopes.iter().map(|scope| root.at.join(SLICE).join(scope)).find(|scope| scope.is_dir());
    let scope = found.ok_or_else(|| {
        Complaint::world(format!(
            "there is no {} below {}: jobs need ProctrackType=proctrack/cgroup, and CgroupPlugin=cgroup/v2 in cgroup.conf",
            scopes[0],
            root.at.join(SLICE).display()
        ))
    })?;
    Ok(scope.join(format!("job_{}", job.id)))
}

/// Makes the group, unless it is there; its path.
fn made(job: &SlurmJob) -> Result<String, Complaint> {
    let place = place(job)?;
    match std::fs::create_dir(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Complaint::world(format!("cannot make the control group {}: {error}", place.display())))
        }
        _ => Ok(place.to_string_lossy().into_owned()),
    }
}

/// Epilog: removes the group of a job of which no process ever came; slurmstepd removes those that it has used.
pub fn unbind(job: &SlurmJob) -> Result<ExitCode, Complaint> {
    if let Ok(place) = place(job) {
        // One that holds groups or processes stays.
        let _ = std::fs::remove_dir(place);
    }
    Ok(ExitCode::SUCCESS)
}
