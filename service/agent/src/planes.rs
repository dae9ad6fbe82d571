//! The data planes of the node: the kernel's, and one in user space for the interfaces that it serves.
//!
//! An interface belongs to one of them from the agent's start on, by its name. Links, classes and flows go there; edges are
//! programs of the kernel at every interface, because they tell senders' control groups apart. A batch that is for both is
//! carried out as a whole or not at all: what one has done is undone if the other refuses.

use crate::config::{AgentConfig, InterfaceConfig, PlaneChoice, SchedulerChoice};
use crate::log::Level;
use crate::start::StartError;
use linux::bpf::{Hook, MAX_FLOWS};
use linux::netlink::Socket;
use linux::plane::{KernelPlane, PlaneDrift, has_hfsc};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Fault, FlowKey, IfIndex, Span, Time};
use traffic::plan::{ClassId, LinkPlan, Plan, PlanOp};
use traffic::plane::{DataPlane, PlaneCounters};
use traffic::scheduler::SchedulerKind;
use user_plane::client::UserPlane;
use user_plane::protocol::ServedInterface;
use user_plane::recognition::{RecognisedFlows, WatchSpec};

/// News of the plane in user space.
pub(crate) enum PlaneNews {
    /// It does not answer any more.
    Silent(Fault),
    /// It answers again.
    Answers,
    /// It exports other terms for guaranteed service on this interface.
    Terms {
        /// The interface.
        oif: IfIndex,
        /// Packets that went later than those terms promised; 0: none did, as far as this plane knows.
        beyond: u64,
    },
}

/// The planes of this node.
pub(crate) struct Planes {
    kernel: KernelPlane,
    user: Option<UserSide>,
    /// The kernel's scheduler where nothing else is said and nothing of ours is there.
    usual: SchedulerKind,
}

/// The plane in user space, and what it was told.
struct UserSide {
    plane: UserPlane,
    /// The interfaces that are its own, by name.
    names: BTreeSet<String>,
    /// Their indices now.
    indices: BTreeMap<IfIndex, String>,
    /// The plan as applied; the target of [`Planes::reconcile`].
    told: Plan,
    /// The reason why it does not answer.
    silence: Option<Fault>,
}

const NO_PLANE: Fault = Fault { what: "there is no plane in user space", code: 0 };

impl Planes {
    /// Opens the kernel's plane, and that in user space if an interface wants it or may have it.
    ///
    /// # Errors
    /// The kernel's cannot be opened; or an interface wants the one in user space, which does not serve it.
    pub(crate) fn open(config: &AgentConfig) -> Result<Planes, StartError> {
        let mut kernel =
            KernelPlane::open_with(&config.state, config.max_flows, Hook::Best).map_err(StartError::Plane)?;
        let usual = usual_scheduler(config)?;
        let user = UserSide::find(config)?;
        if let Some(side) = &user {
            // What the kernel's plane of an earlier life had of them: packets are queued once.
            let theirs: Vec<IfIndex> = side.plane.served().iter().map(|served| served.index).collect();
            let left = kernel.read().map_err(StartError::Plane)?;
            for oif in theirs.into_iter().filter(|oif| left.links.contains_key(oif) && side.has(*oif)) {
                kernel.apply(&[PlanOp::DropLink { oif }]).map_err(StartError::Plane)?;
            }
        }
        Ok(Planes { kernel, user, usual })
    }

    /// The kernel's, for edges.
    pub(crate) fn kernel(&mut self) -> &mut KernelPlane {
        &mut self.kernel
    }

    /// Says how many flows have room in the kernel, if that is not the usual number or not what was asked for: the room
    /// costs memory.
    pub(crate) fn room(&self, config: &AgentConfig) -> Option<(Level, String)> {
        let (limit, wanted) = (self.kernel.flow_limit(), config.max_flows);
        if limit != wanted {
            let why = "more are reserved, or a change was interrupted; the next start tries again";
            return Some((Level::Warn, format!("max_flows = {wanted}, but there is room for {limit} flows: {why}")));
        }
        if limit == MAX_FLOWS {
            return None;
        }
        let memory = self.kernel.flow_memory();
        let memory = memory
            .map_or_else(|_| String::new(), |bytes| format!(", {:.1} MB of kernel memory now", bytes as f64 / 1e6));
        Some((Level::Info, format!("room for {limit} flows{memory}")))
    }

    /// Notes the interfaces that are there.
    pub(crate) fn know<'a>(&mut self, there: impl Iterator<Item = (IfIndex, &'a str)>) {
        let Some(side) = &mut self.user else { return };
        let ours = there.filter(|(_, name)| side.names.contains(*name));
        side.indices = ours.map(|(index, name)| (index, name.to_owned())).collect();
        let known = |index: &IfIndex| side.plane.served().iter().any(|served| served.index == *index);
        if !side.indices.keys().all(known) {
            // One was made anew: the plane has seen that too, or will.
            side.silence = side.plane.greet().err();
        }
    }

    /// True if the plane in user space queues the packets of this interface.
    pub(crate) fn is_user(&self, oif: IfIndex) -> bool {
        self.user.as_ref().is_some_and(|side| side.has(oif))
    }

    /// True if the plane in user space queues the packets of the interface of this name.
    pub(crate) fn queues(&self, name: &str) -> bool {
        self.user.as_ref().is_some_and(|side| side.names.contains(name))
    }

    /// Has flows that never signalled recognised at an interface of the plane in user space.
    ///
    /// # Errors
    /// The plane does not answer, or no packets pass there.
    pub(crate) fn watch(&mut self, oif: IfIndex, watch: &WatchSpec) -> Result<(), Fault> {
        self.answering()?.watch(oif, watch)
    }

    /// Takes the flows that were recognised at such an interface.
    ///
    /// # Errors
    /// The plane does not answer.
    pub(crate) fn take_recognised(&mut self, oif: IfIndex) -> Result<RecognisedFlows, Fault> {
        self.answering()?.take_recognised(oif)
    }

    /// The plane in user space. One that is known not to answer is not asked: a process that stands still keeps its caller for
    /// seconds. [`Planes::hear`] finds out when it answers again.
    fn answering(&mut self) -> Result<&mut UserPlane, Fault> {
        let side = self.user.as_mut().ok_or(NO_PLANE)?;
        side.silence.map_or(Ok(&mut side.plane), Err)
    }

    /// The installed flows of a class at an interface, each with the time since its last packet.
    ///
    /// # Errors
    /// The plane of the interface does not answer.
    pub(crate) fn silences(&mut self, oif: IfIndex, class: ClassId) -> Result<Vec<(FlowKey, Span)>, Fault> {
        if self.is_user(oif) { self.answering()?.silences(oif, class) } else { self.kernel.silence(oif, class) }
    }

    /// The scheduler of an interface, given what its configuration says.
    pub(crate) fn scheduler(&self, oif: IfIndex, choice: SchedulerChoice) -> SchedulerKind {
        match choice {
            _ if self.is_user(oif) => SchedulerKind::Hfsc,
            SchedulerChoice::Given(kind) => kind,
            SchedulerChoice::Auto => self.kernel.scheduler(oif).unwrap_or(self.usual),
        }
    }

    /// The terms that an interface exports for guaranteed service: `C` (bytes) and `D` (microseconds). `None`: no bound was
    /// declared, or a packet went later than it.
    pub(crate) fn error_terms(&self, oif: IfIndex) -> Option<(u32, u32)> {
        self.user.as_ref()?.error_terms(oif)
    }

    /// The packets that went later than an interface's terms promised.
    pub(crate) fn beyond_bound(&self, oif: IfIndex) -> u64 {
        let side = self.user.as_ref().filter(|side| side.has(oif));
        side.and_then(|side| side.served(oif)).map_or(0, |served| served.beyond)
    }

    /// Carries out a batch in its order, as a whole or not at all.
    ///
    /// # Errors
    /// The first fault; both planes are as they were before.
    pub(crate) fn apply(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        let Planes { kernel, user, .. } = self;
        let Some(side) = user else { return kernel.apply(ops) };
        let mut undo: Vec<PlanOp> = Vec::new();
        let runs: Vec<&[PlanOp]> = ops.chunk_by(|a, b| side.is_for(a) == side.is_for(b)).collect();
        for run in runs {
            let last = run.len() == ops.len();
            let before = match (last, side.is_for(&run[0])) {
                (true, _) => Ok(Plan::default()),
                (false, true) => Ok(side.told.clone()),
                (false, false) => kernel.read(),
            };
            let done = before.and_then(|before| {
                carry_out(kernel, side, now, run)?;
                Ok(before)
            });
            match done {
                Ok(before) if !last => undo.extend(back(&before, run)),
                Ok(_) => {}
                Err(fault) => {
                    for op in undo.iter().rev() {
                        let _ = carry_out(kernel, side, now, std::slice::from_ref(op));
                    }
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// The plan in both planes, read anew.
    ///
    /// # Errors
    /// One of them does not answer.
    pub(crate) fn read(&mut self) -> Result<Plan, Fault> {
        let mut plan = self.kernel.read()?;
        if let Some(side) = &mut self.user {
            plan.links.extend(side.links()?);
        }
        Ok(plan)
    }

    /// The plan and the counters of both, to show: without those of a plane in user space that does not answer.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub(crate) fn look(&mut self) -> Result<(Plan, PlaneCounters), Fault> {
        let (mut plan, mut counters) = (self.kernel.read()?, self.kernel.counters()?);
        if let Some(side) = &mut self.user
            && side.silence.is_none()
        {
            let seen = side.links().and_then(|links| Ok((links, side.plane.counters()?)));
            match seen {
                Ok((links, theirs)) => {
                    plan.links.extend(links);
                    counters.classes.extend(theirs.classes.into_iter().filter(|((oif, _), _)| side.has(*oif)));
                    counters.flows.extend(theirs.flows.into_iter().filter(|((oif, _), _)| side.has(*oif)));
                }
                Err(fault) => side.silence = Some(fault),
            }
        }
        Ok((plan, counters))
    }

    /// The reason why the plane in user space does not answer.
    pub(crate) fn silence(&self) -> Option<Fault> {
        self.user.as_ref()?.silence
    }

    /// Asks the plane in user space for a sign of life, and what it can keep.
    pub(crate) fn hear(&mut self) -> Vec<PlaneNews> {
        let Some(side) = &mut self.user else { return Vec::new() };
        let mut news = Vec::new();
        let silent = side.silence.is_some();
        let before: Vec<_> = side.indices.keys().map(|oif| (*oif, side.error_terms(*oif))).collect();
        side.silence = side.plane.greet().err();
        match side.silence {
            Some(fault) if !silent => news.push(PlaneNews::Silent(fault)),
            None if silent => news.push(PlaneNews::Answers),
            _ => {}
        }
        let other = before.into_iter().filter(|(oif, terms)| side.error_terms(*oif) != *terms);
        news.extend(other.map(|(oif, _)| {
            let beyond = side.served(oif).map_or(0, |served| served.beyond);
            PlaneNews::Terms { oif, beyond }
        }));
        news
    }

    /// Compares every interface with the plan and repairs the differences: in the kernel what other programs changed, in
    /// user space what a plane that was started anew does not know.
    ///
    /// # Errors
    /// The kernel does not answer, or one of them refuses the repair.
    pub(crate) fn reconcile(&mut self, now: Time) -> Result<Vec<PlaneDrift>, Fault> {
        let mut drifts = self.kernel.reconcile()?;
        let Some(side) = self.user.as_mut().filter(|side| side.silence.is_none()) else { return Ok(drifts) };
        let there = side.links()?;
        for (&oif, told) in &side.told.links {
            if there.get(&oif) == Some(told) {
                continue;
            }
            side.plane.apply(now, &repair(oif, told, there.get(&oif)))?;
            drifts.push(PlaneDrift::Mended(oif));
        }
        Ok(drifts)
    }
}

/// The kernel's scheduler where nothing else is said.
///
/// # Errors
/// An interface wants HFSC, which this kernel does not have.
fn usual_scheduler(config: &AgentConfig) -> Result<SchedulerKind, StartError> {
    let wants = |kind| move |interface: &&InterfaceConfig| interface.scheduler == SchedulerChoice::Given(kind);
    let told = config.interfaces.iter().filter(wants(SchedulerKind::Htb)).count();
    if told == config.interfaces.len() {
        return Ok(SchedulerKind::Htb);
    }
    let there = Socket::open().map_err(Fault::from).and_then(|mut socket| has_hfsc(&mut socket));
    if let Some(interface) = config.interfaces.iter().find(wants(SchedulerKind::Hfsc)).filter(|_| there != Ok(true)) {
        let words = format!(
            "{}: scheduler = \"hfsc\", but this kernel has none (sch_hfsc): load it, or write \"auto\" or \"htb\"",
            interface.name
        );
        return Err(StartError::Interfaces(vec![words]));
    }
    // HTB has priorities among classes that borrow, which flows admitted by measurement need; and a kernel that cannot
    // be asked is not guessed at.
    let plain = config.mace.is_none() && config.boomerang.is_none();
    Ok(if plain && there == Ok(true) { SchedulerKind::Hfsc } else { SchedulerKind::Htb })
}

impl UserSide {
    fn find(config: &AgentConfig) -> Result<Option<UserSide>, StartError> {
        let choice = |wanted| config.interfaces.iter().filter(move |interface| interface.plane == wanted);
        let needed = choice(PlaneChoice::User).next().map(|interface| interface.name.as_str());
        let may = needed.is_some() || choice(PlaneChoice::Auto).next().is_some() && config.plane_socket.exists();
        // Boomerang's fast path admits in the kernel, whose classes these interfaces do not have.
        if !may || needed.is_none() && config.boomerang.is_some() {
            return Ok(None);
        }
        if let Some(name) = needed.filter(|_| config.boomerang.is_some()) {
            let words =
                format!("{name}: plane = \"user\" beside [boomerang], whose programs need the kernel's classes");
            return Err(StartError::UserPlane(words));
        }
        let mut plane = match UserPlane::connect(&config.plane_socket) {
            Ok(plane) => plane,
            Err(error) => {
                let Some(name) = needed else { return Ok(None) };
                let words = format!("{name}: plane = \"user\", but {error}; start `sluice plane serve` first");
                return Err(StartError::UserPlane(words));
            }
        };
        let is_served = |name: &str| plane.served().iter().any(|served| served.name == name);
        if let Some(missing) = choice(PlaneChoice::User).find(|interface| !is_served(&interface.name)) {
            let words = format!(
                "{0}: plane = \"user\", but the plane at {1} does not serve it; name it as `interface` of a [[pair]] there",
                missing.name,
                config.plane_socket.display()
            );
            return Err(StartError::UserPlane(words));
        }
        let wants = config.interfaces.iter().filter(|interface| interface.plane != PlaneChoice::Kernel);
        let names: BTreeSet<String> =
            wants.map(|interface| interface.name.clone()).filter(|name| is_served(name)).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let served = plane.served().iter().filter(|served| names.contains(&served.name));
        let indices = served.map(|served| (served.index, served.name.clone())).collect();
        let told = plane.read().map_err(StartError::Plane)?;
        let mut side = UserSide { plane, names, indices, told, silence: None };
        let indices = side.indices.clone();
        side.told.links.retain(|oif, _| indices.contains_key(oif));
        Ok(Some(side))
    }

    fn has(&self, oif: IfIndex) -> bool {
        self.indices.contains_key(&oif)
    }

    fn served(&self, oif: IfIndex) -> Option<&ServedInterface> {
        self.plane.served().iter().find(|served| served.index == oif)
    }

    fn error_terms(&self, oif: IfIndex) -> Option<(u32, u32)> {
        let served = self.served(oif).filter(|served| served.beyond == 0 && self.has(oif))?;
        served.terms.map(|terms| (terms.c, terms.d))
    }

    fn is_for(&self, op: &PlanOp) -> bool {
        let edge =
            matches!(op, PlanOp::Edge { .. } | PlanOp::DropEdge { .. } | PlanOp::Rule { .. } | PlanOp::DropRule { .. });
        !edge && (self.has(op.oif()) || self.told.links.contains_key(&op.oif()))
    }

    /// The plan of its interfaces, read anew.
    fn links(&mut self) -> Result<BTreeMap<IfIndex, LinkPlan>, Fault> {
        let plan = self.plane.read()?;
        Ok(plan.links.into_iter().filter(|(oif, _)| self.has(*oif)).collect())
    }

    fn apply(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        let gone = |op: &&PlanOp| matches!(op, PlanOp::DropLink { .. }) && !self.has(op.oif());
        // An interface that is gone has no port that could give its link back.
        let ops: Vec<PlanOp> = ops.iter().filter(|op| !gone(op)).copied().collect();
        let done = self.plane.apply(now, &ops);
        if done.is_ok() {
            ops.iter().for_each(|op| self.told.apply(op));
            let indices = &self.indices;
            self.told.links.retain(|oif, _| indices.contains_key(oif));
        }
        done
    }
}

fn carry_out(kernel: &mut KernelPlane, side: &mut UserSide, now: Time, run: &[PlanOp]) -> Result<(), Fault> {
    match run.first() {
        Some(first) if side.is_for(first) => side.apply(now, run),
        _ => kernel.apply(run),
    }
}

/// The operations that lead back to `before` from the state after `ops`, the last to be carried out first.
fn back(before: &Plan, ops: &[PlanOp]) -> Vec<PlanOp> {
    let mut plan = before.clone();
    let mut undo = Vec::new();
    for op in ops {
        let mut steps = plan.undo(op);
        steps.reverse();
        undo.extend(steps);
        plan.apply(op);
    }
    undo
}

/// The operations that lead from what is there to what was told.
fn repair(oif: IfIndex, told: &LinkPlan, there: Option<&LinkPlan>) -> Vec<PlanOp> {
    let mut ops = Vec::new();
    if let Some(there) = there {
        let flows = there.flows.keys().filter(|flow| !told.flows.contains_key(flow));
        ops.extend(flows.map(|flow| PlanOp::DropFlow { oif, flow: *flow }));
        let bare = there.conditioners.keys().filter(|class| !told.conditioners.contains_key(class));
        ops.extend(bare.map(|class| PlanOp::DropCondition { oif, class: *class }));
    }
    let links = [(oif, told.clone())].into();
    ops.extend(Plan { links, ..Plan::default() }.ops());
    if let Some(there) = there {
        let classes = there.classes.keys().filter(|class| !told.classes.contains_key(class));
        ops.extend(classes.map(|class| PlanOp::DropClass { oif, class: *class }));
    }
    ops
}

/// The words about an interface whose plane did not keep its delay bound.
pub(crate) fn bound_exceeded(name: &str, beyond: u64) -> String {
    format!(
        "{name}: {beyond} packets of guaranteed service went later than its delay bound, so it is offered there no more (the \
         break bit is set) until the plane starts again, with a delay_bound that this machine keeps"
    )
}
