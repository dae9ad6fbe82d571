//! A job as Slurm describes it: in the environment (slurm.conf(5), "Prolog and epilog scripts"), and by its own commands
//! where that lacks something.
//!
//! Only columns that no user can write are asked for. Commands are started with their arguments as they are, by no shell.

use crate::complain::Complaint;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::Command;
use terms::Span;

/// The longest text that is left with a job, bytes.
const LONGEST: usize = 400;

/// The most of a cluster's name, so that a key has no more letters than a broker takes.
const LONGEST_CLUSTER: usize = 36;

/// One of the four hooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookContext {
    /// PrologSlurmctld.
    Reserve,
    /// A node's Prolog.
    Bind,
    /// A node's Epilog.
    Unbind,
    /// EpilogSlurmctld.
    GiveBack,
}

/// A job.
#[derive(Clone, Debug)]
pub struct SlurmJob {
    /// Its number.
    pub id: u32,
    /// The name of the cluster.
    pub cluster: String,
    /// Its owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The comment that its owner has written.
    pub comment: String,
    /// The number of times that it was queued again.
    pub restarts: u32,
    /// Its nodes, as Slurm writes several (controller).
    pub nodes: String,
    /// This node (nodes).
    pub node: String,
}

/// The time of a job's submission, and its time limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobTimes {
    /// The time limit; `None`: none.
    pub limit: Option<Span>,
    /// Digits of the time at which it was submitted: numbers of jobs come again.
    pub submitted: String,
}

fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty() && text != "(null)")
}

/// A name that is in labels and in paths.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

impl SlurmJob {
    /// Reads what Slurm has set.
    pub fn from_environment() -> Result<(HookContext, SlurmJob), Complaint> {
        let context = match said("SLURM_SCRIPT_CONTEXT").as_deref() {
            Some("prolog_slurmctld") => HookContext::Reserve,
            Some("prolog_slurmd") => HookContext::Bind,
            Some("epilog_slurmd") => HookContext::Unbind,
            Some("epilog_slurmctld") => HookContext::GiveBack,
            other => {
                let other = other.unwrap_or("not set");
                let what =
                    format!("SLURM_SCRIPT_CONTEXT is {other}: this is for slurm.conf, see `sluice slurm hook --help`");
                return Err(Complaint::usage(what));
            }
        };
        let number = |name: &str| {
            let found = said(name).and_then(|text| text.parse::<u32>().ok());
            found.ok_or_else(|| Complaint::usage(format!("Slurm has set no {name}")))
        };
        let name = |name: &str| {
            let found = said(name).filter(|text| is_name(text));
            found.ok_or_else(|| {
                Complaint::usage(format!("Slurm has set no {name}, or one with more than letters, digits, - _ ."))
            })
        };
        let here = matches!(context, HookContext::Bind | HookContext::Unbind);
        let job = SlurmJob {
            id: number("SLURM_JOB_ID")?,
            cluster: name("SLURM_CLUSTER_NAME")?.chars().take(LONGEST_CLUSTER).collect(),
            uid: number("SLURM_JOB_UID")?,
            gid: number("SLURM_JOB_GID")?,
            comment: said("SLURM_JOB_COMMENT").unwrap_or_default(),
            restarts: number("SLURM_JOB_RESTART_COUNT").unwrap_or(0),
            nodes: said("SLURM_JOB_NODELIST").unwrap_or_default(),
            node: if here { name("SLURMD_NODENAME")? } else { String::new() },
        };
        Ok((context, job))
    }

    /// The beginning of the labels of its reservations; no name has a slash.
    pub fn label(&self) -> String {
        format!("slurm/{}/{}/", self.cluster, self.id)
    }

    /// The number of the job of this cluster that a label names.
    pub fn numbered(&self, label: &str) -> Option<u32> {
        let rest = label.strip_prefix("slurm/")?.strip_prefix(self.cluster.as_str())?.strip_prefix('/')?;
        rest.split_once('/')?.0.parse().ok()
    }

    /// The owner's groups, the own first.
    pub fn groups(&self) -> Vec<u32> {
        // What the machine's user database says, LDAP included. Somebody whom it does not know has the one that Slurm names.
        let others = printed("id", &["-G", "--", &format!("+{}", self.uid)]).unwrap_or_default();
        let others = others.split_ascii_whitespace().filter_map(|text| text.parse().ok());
        std::iter::once(self.gid).chain(others.filter(|group| *group != self.gid)).take(64).collect()
    }

    /// Asks for the time of its submission and for its time limit.
    pub fn times(&self) -> Result<JobTimes, Complaint> {
        let id = self.id.to_string();
        let text = printed("squeue", &["--noheader", "--states=all", "--jobs", &id, "--format", "%A %l %V"])?;
        let mut rows = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let found = rows.find_map(|row| match row[..] {
            [number, limit, submitted] if number == id => {
                let limit = limit_of(limit)?;
                Some(JobTimes { limit, submitted: submitted.chars().filter(char::is_ascii_digit).collect() })
            }
            _ => None,
        });
        found.ok_or_else(|| Complaint::world(format!("squeue does not say how long job {id} may run: {text:?}")))
    }

    /// The addresses of its nodes.
    pub fn addresses(&self) -> Result<Vec<(String, IpAddr)>, Complaint> {
        let text = printed("sinfo", &["--noheader", "--Node", "--nodes", &self.nodes, "--format", "%N %o"])?;
        let mut all: Vec<(String, IpAddr)> = Vec::new();
        for line in text.lines() {
            let Some((name, address)) = line.trim().split_once(' ') else { continue };
            // One that is in several partitions has several lines.
            if is_name(name) && !all.iter().any(|(known, _)| known == name) {
                all.push((name.to_owned(), resolve(address.trim(), None)?));
            }
        }
        match all.is_empty() {
            true => Err(Complaint::world(format!("sinfo names no node of {:?}", self.nodes))),
            false => Ok(all),
        }
    }

    /// Leaves a text with the job, where `scontrol show job` has it.
    pub fn note(&self, text: &str) {
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let text: String = plain
            .scan(0, |size, c| {
                *size += c.len_utf8();
                (*size <= LONGEST).then_some(c)
            })
            .collect();
        eprintln!("sluice: job {}: {text}", self.id);
        let (job, words) = (format!("JobId={}", self.id), format!("AdminComment=sluice: {text}"));
        if let Err(complaint) = printed("scontrol", &["update", &job, &words]) {
            eprintln!("sluice: {complaint}");
        }
    }

    /// Tells Slurm something about the job.
    pub fn control(&self, what: &str) -> Result<(), Complaint> {
        printed("scontrol", &[what, &self.id.to_string()]).map(drop)
    }

    /// Ends it.
    pub fn cancel(&self) -> Result<(), Complaint> {
        printed("scancel", &[&self.id.to_string()]).map(drop)
    }
}

/// The address of a host, if possible of the same family as another.
pub fn resolve(name: &str, like: Option<IpAddr>) -> Result<IpAddr, Complaint> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let found = (name, 0_u16)
        .to_socket_addrs()
        .map_err(|error| Complaint::usage(format!("{name} is no known host: {error}")))?;
    let all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    let same = |address: &&IpAddr| like.is_none_or(|like| like.is_ipv4() == address.is_ipv4());
    all.iter().find(same).or(all.first()).copied().ok_or_else(|| Complaint::usage(format!("{name} has no address")))
}

/// True if Slurm says that it knows no job of this number. If it says anything else, there may be one.
pub fn is_unknown(id: u32) -> bool {
    let said = printed("squeue", &["--noheader", "--states=all", "--jobs", &id.to_string(), "--format", "%A"]);
    said.is_err_and(|complaint| complaint.to_string().contains("Invalid job id"))
}

/// The output of a program.
fn printed(program: &str, arguments: &[&str]) -> Result<String, Complaint> {
    let failed = |why: String| Complaint::world(format!("{program} {}: {why}", arguments.first().unwrap_or(&"")));
    let output = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// A time limit as `squeue` writes it: `30:00`, `1:00:00`, `2-00:00:00`; `None` inside: there is none.
fn limit_of(text: &str) -> Option<Option<Span>> {
    if text == "UNLIMITED" {
        return Some(None);
    }
    let (days, clock) = text.split_once('-').map_or((Some(0), text), |(days, clock)| (days.parse().ok(), clock));
    let fields = clock.split(':').map(|field| field.parse::<u64>().ok()).collect::<Option<Vec<u64>>>()?;
    let seconds = match fields[..] {
        [minutes, seconds] => minutes.checked_mul(60)?.checked_add(seconds)?,
        [hours, minutes, seconds] => {
            hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)?
        }
        _ => return None,
    };
    Some(Some(Span::from_secs(u64::checked_mul(days?, 86_400)?.checked_add(seconds)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_squeue_writes_them() {
        let secs = |text: &str| limit_of(text).map(|limit| limit.map(|span| span.as_nanos() / 1_000_000_000));
        for (text, seconds) in [("0:30", 30), ("5:00", 300), ("1:00:00", 3_600), ("2-01:00:00", 176_400)] {
            assert_eq!(secs(text), Some(Some(seconds)), "{text}");
        }
        assert_eq!(secs("UNLIMITED"), Some(None));
        for odd in [
            "",
            "NOT_SET",
            "INVALID",
            "5",
            "1-5",
            "a:00",
            "1:2:3:4",
            "99999999999999999999:00",
            "18446744073709551615-00:00:00",
        ] {
            assert_eq!(secs(odd), None, "{odd}");
        }
    }

    #[test]
    fn labels_name_jobs_of_this_cluster() {
        let job = SlurmJob {
            id: 7,
            cluster: "big".to_owned(),
            uid: 5,
            gid: 60,
            comment: String::new(),
            restarts: 0,
            nodes: String::new(),
            node: String::new(),
        };
        assert_eq!(job.numbered(&format!("{}n1", job.label())), Some(7));
        assert_eq!(job.numbered("slurm/big/42/n1"), Some(42));
        for other in ["", "slurm/bigger/7/n1", "slurm/big/7", "slurm/big/x/n1", "slurm/big7/n1", "my slurm/big/7/n1"] {
            assert_eq!(job.numbered(other), None, "{other:?}");
        }
    }

    #[test]
    fn names_are_names() {
        assert!(is_name("node-1.example.org") && is_name("a_b"));
        for odd in ["", "-x", ".", "..", "a/b", "a b", "n[1-2]", &"a".repeat(65)] {
            assert!(!is_name(odd), "{odd:?}");
        }
    }
}
