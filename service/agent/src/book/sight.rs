//! Policy with facts of the kernel: if a caller binds a part to a process, the kernel's facts about that
//! process go into the question.

use super::policy_file::{self, PolicyFile};
use crate::AgentConfig;
use crate::document::Mistake;
use booking::Call;
use booking::policy::{Layers, Policy, ProcessFacts, ProcessKind};
use linux::cgroup;
use linux::owner::{self, Belongs};
use terms::book::{Binding, ResourceKind, Task};
use terms::ports::book::{BindQuestion, PolicyDecision, Question, SharedLimits};
use trust::token::TokenGate;

/// The policy of an agent in all its layers, and this machine.
#[derive(Debug)]
pub(crate) struct LocalPolicy {
    /// The rules of this agent's own file.
    rules: Policy,
    /// The rules of the whole domain, if it has any.
    domain: Option<Policy>,
    /// The organisations whose tokens are believed.
    tokens: TokenGate,
}

impl LocalPolicy {
    /// Reads the files that the agent's file names, and returns the brokers that they believe too.
    ///
    /// # Errors
    /// The first [`Mistake`] in them.
    pub(crate) fn load(config: &AgentConfig) -> Result<(LocalPolicy, Vec<String>), Mistake> {
        let PolicyFile { policy, brokers, organisations } = match &config.policy {
            Some(file) => policy_file::load(file)?,
            None => policy_file::usual(linux::process::group_id(&config.operators)),
        };
        let domain = config.domain_policy.as_deref().map(policy_file::load_of_domain).transpose()?;
        let agreements = config.slas.iter().map(|sla| sla.terms()).collect();
        let tokens = TokenGate::new(&config.name, organisations);
        Ok((LocalPolicy { rules: policy.with_agreements(agreements), domain, tokens }, brokers))
    }

    /// The rules of this agent's own file.
    pub(crate) fn rules(&self) -> &Policy {
        &self.rules
    }

    /// The organisations whose tokens are believed.
    pub(crate) fn tokens(&self) -> &TokenGate {
        &self.tokens
    }

    fn layers(&self) -> Layers<'_, TokenGate> {
        Layers { tokens: &self.tokens, domain: self.domain.as_ref(), resource: &self.rules }
    }
}

impl terms::ports::PolicyPort for LocalPolicy {
    fn sums(&self) -> bool {
        self.layers().sums()
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        self.layers().decide(question)
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        self.layers().shared(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.layers().binding(question, seen(question.resource, question.binding).as_ref())
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
