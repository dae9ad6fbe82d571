//! Policy with facts of the kernel: if a caller binds a part to a process, the kernel's facts about that
//! process go into the question.

use booking::Call;
use booking::policy::{Policy, ProcessFacts, ProcessKind};
use linux::cgroup;
use linux::owner::{self, Belongs};
use terms::book::{Binding, ResourceKind, Task};
use terms::ports::book::{BindQuestion, PolicyDecision, Question, SharedLimits};

/// A policy, and this machine.
#[derive(Debug)]
pub(crate) struct LocalPolicy(pub(crate) Policy);

impl terms::ports::PolicyPort for LocalPolicy {
    fn sums(&self) -> bool {
        self.0.sums()
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        self.0.decide(question)
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        self.0.shared(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.0.binding(question, seen(question.resource, question.binding).as_ref())
    }
}

/// Records the start times of the processes that a call names, so that later processes with the same numbers
/// do not count.
pub(super) fn identify(call: &mut Call) {
    let one = |binding: &mut Binding| match binding {
        Binding::Process(task) | Binding::Thread(task) => task.start = owner::started(task.number).unwrap_or(0),
        Binding::Flow(_) | Binding::Cgroup(_) => {}
    };
    match call {
        Call::Create { ask, .. } | Call::Enquire(ask) => {
            ask.parts.iter_mut().filter_map(|part| part.binding.as_mut()).for_each(one);
        }
        Call::Bind { binding, .. } => binding.iter_mut().for_each(one),
        _ => {}
    }
}

fn seen(resource: &str, binding: &Binding) -> Option<ProcessFacts> {
    match binding {
        Binding::Flow(_) => None,
        Binding::Process(task) | Binding::Thread(task) => {
            let found = owner::of(*task)?;
            Some(ProcessFacts { sort: sort(&found), uid: found.uid, cgroups: groups_of(resource, *task) })
        }
        Binding::Cgroup(path) => {
            let (found, path) = owner::of_group(&mounted_for(resource), path)?;
            Some(ProcessFacts { sort: sort(&found), uid: None, cgroups: vec![path] })
        }
    }
}

fn sort(found: &Belongs) -> ProcessKind {
    match found {
        Belongs { kernel: true, .. } => ProcessKind::Kernel,
        Belongs { first: true, .. } => ProcessKind::First,
        Belongs { ours: true, .. } => ProcessKind::Agent,
        _ => ProcessKind::Ordinary,
    }
}

/// The hierarchies that reservations of a resource use.
fn mounted_for(resource: &str) -> Vec<cgroup::Mounted> {
    let all = cgroup::all_mounted();
    let found = match ResourceKind::of(resource) {
        ResourceKind::Disk => cgroup::for_disk(&all),
        ResourceKind::Network => cgroup::for_packets(&all).map(|found| vec![found]),
        _ => cgroup::for_cpu(&all),
    };
    found.unwrap_or_default()
}

fn groups_of(resource: &str, task: Task) -> Vec<String> {
    let path = |mounted: &cgroup::Mounted| {
        let home = cgroup::home_of(task.number, mounted)?;
        Some(home.strip_prefix(&mounted.at).ok()?.to_string_lossy().into_owned())
    };
    mounted_for(resource).iter().filter_map(path).collect()
}
