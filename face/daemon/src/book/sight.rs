//! Policy with an eye on the machine: when somebody says that a part is for a process, what the kernel says about that
//! process goes into the question.

use broker::Call;
use linux::cgroup;
use linux::owner::{self, Belongs};
use policy::{Policy, Seen, Sort};
use terms::book::{Binding, Kind, Task};
use terms::ports::book::{BindQuestion, Question, Shared, Verdict};

/// A policy, and this machine.
pub(super) struct Sight<'a>(pub(super) &'a Policy);

impl terms::ports::Policy for Sight<'_> {
    fn sums(&self) -> bool {
        self.0.sums()
    }

    fn decide(&self, question: &Question<'_>) -> Verdict {
        self.0.decide(question)
    }

    fn shared(&self, question: &Question<'_>) -> Shared {
        self.0.shared(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> Verdict {
        self.0.binding(question, seen(question.resource, question.binding).as_ref())
    }
}

/// Writes down when the processes that a call names started, so that later ones of their numbers are not taken for them.
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

fn seen(resource: &str, binding: &Binding) -> Option<Seen> {
    match binding {
        Binding::Flow(_) => None,
        Binding::Process(task) | Binding::Thread(task) => {
            let found = owner::of(*task)?;
            Some(Seen { sort: sort(&found), uid: found.uid, cgroups: groups_of(resource, *task) })
        }
        Binding::Cgroup(path) => {
            let (found, path) = owner::of_group(&mounted_for(resource), path)?;
            Some(Seen { sort: sort(&found), uid: None, cgroups: vec![path] })
        }
    }
}

fn sort(found: &Belongs) -> Sort {
    match found {
        Belongs { kernel: true, .. } => Sort::Kernel,
        Belongs { first: true, .. } => Sort::First,
        Belongs { ours: true, .. } => Sort::Agent,
        _ => Sort::Ordinary,
    }
}

/// The hierarchies that reservations of a resource use.
fn mounted_for(resource: &str) -> Vec<cgroup::Mounted> {
    let all = cgroup::all_mounted();
    let found = if Kind::of(resource) == Kind::Disk { cgroup::for_disk(&all) } else { cgroup::for_cpu(&all) };
    found.unwrap_or_default()
}

fn groups_of(resource: &str, task: Task) -> Vec<String> {
    let path = |mounted: &cgroup::Mounted| {
        let home = cgroup::home_of(task.number, mounted)?;
        Some(home.strip_prefix(&mounted.at).ok()?.to_string_lossy().into_owned())
    };
    mounted_for(resource).iter().filter_map(path).collect()
}
