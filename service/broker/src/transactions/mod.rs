//! Changes over several members, at all or at none: the broker as the coordinator of two-phase commit.
//!
//! [`Transactions`] owns the engine (`commit::Coordinator`) and its journal. Creating, booking what was held,
//! modifying and binding ask all members at once, and are decided when all have promised. A cancellation is
//! an order: written down, then driven to its end. What is decided is said to every member until it has done
//! it, by this process or by the next one with the same state folder.

mod above;
mod attempt;
mod clocks;
mod desk;
mod earlier;
mod journal;
mod legs;
mod tell;
mod tell_domain;
mod visit;

pub use attempt::{
    AttemptProgress, AttemptVerdict, ChangeKind, DomainPart, MemberAction, MemberOrder, MemberPart, Note, plain,
};
pub use desk::Open;
pub use earlier::take_over;
pub use journal::in_folder;
pub use legs::{LegAbove, LegNext, LegRecord};
pub(crate) use tell::said;
pub use visit::{Learn, Visits};

use crate::acceptance::Voice;
use crate::agents::AgentClient;
use crate::domain_client::DomainClient;
use crate::problem::{Answer, Problem};
use attempt::Attempt;
use clocks::Clocks;
use commit::coordinator::{Input, Outcome, TransactionKind};
use commit::record::MemberRecord;
use commit::{Branch, Epoch, TransactionId};
use desk::{Beginning, Desk, DeskEffect};
use documents::links::CallerDoc;
use journal::{CommitLog, CommitStore};
use linux::clock::Clock;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Completion, Journal, Store};
use terms::Span;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The longest wait for a decision: longer than members have for their votes.
const UNDECIDED: Duration = Duration::from_secs(30);
/// The longest wait for all members to do what is decided; they do it later all the same.
const TOLD: Duration = Duration::from_secs(10);
/// The longest time for which a broker that ends waits for decisions.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// The pause between two looks while the broker starts.
const LOOK: Duration = Duration::from_millis(2);

/// The broker's transactions.
#[derive(Debug)]
pub struct Transactions {
    /// The coordinator's name: that of the broker, not of a process.
    name: String,
    agents: Vec<AgentClient>,
    /// The brokers of neighbouring domains.
    domains: Vec<DomainClient>,
    /// The key that signs our acceptances, and the authorities of the others; `None`: no certificate, no neighbours.
    voice: Option<Voice>,
    clock: Clock,
    most_skew: Span,
    clocks: Clocks,
    desk: Mutex<Desk>,
    store: Mutex<Option<CommitStore>>,
    /// Small documents as the journal had them when it was opened.
    documents: BTreeMap<String, Vec<u8>>,
    /// Notified when something may be due earlier than before.
    earlier: Notify,
    /// Of each agent: notified when it did not answer.
    silent: Vec<Notify>,
}

/// The settings of the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoordinatorSettings {
    /// The coordinator's name.
    pub name: String,
    /// The largest difference of two agents' clocks.
    pub most_skew: Span,
    /// True: a journal that was restored from an older copy is used all the same.
    pub accept_older: bool,
}

impl Transactions {
    /// Reads the journal.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn open(
        store: Box<dyn Store>,
        settings: CoordinatorSettings,
        agents: Vec<AgentClient>,
        (domains, voice): (Vec<DomainClient>, Option<Voice>),
    ) -> Result<Arc<Transactions>, String> {
        let (store, mut past) = journal::read(store)?;
        let clock = Clock::start();
        Ok(Arc::new(Transactions {
            name: settings.name,
            clock,
            documents: std::mem::take(&mut past.documents),
            domains,
            voice,
            most_skew: settings.most_skew,
            clocks: Clocks::new(agents.len()),
            silent: agents.iter().map(|_| Notify::new()).collect(),
            agents,
            desk: Mutex::new(Desk::new(past, settings.accept_older, clock)),
            store: Mutex::new(Some(store)),
            earlier: Notify::new(),
        }))
    }

    /// Starts the journal's thread and a new epoch. The answers of the journal are for [`Transactions::run`].
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn start(self: &Arc<Self>) -> Result<UnboundedReceiver<Vec<Completion>>, String> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let store = store.ok_or("the journal of transactions is in use already")?;
        let nonce = draw::<8>().map_err(|error| format!("no randomness: {error}"))?;
        let (tell, answers) = unbounded_channel();
        let log = CommitLog::start(store, tell)?;
        let now = self.clock.now();
        let agents = self.agents.iter().map(|agent| agent.name.to_string());
        let participants = agents.chain(self.domains.iter().map(|domain| domain_member(&domain.name))).collect();
        let effects = self.locked().start(now, log, participants, u64::from_le_bytes(nonce));
        self.perform(effects);
        Ok(answers)
    }

    /// A small document as the journal had it when it was opened.
    pub(crate) fn document(&self, name: &str) -> Option<&[u8]> {
        self.documents.get(name).map(Vec::as_slice)
    }

    /// Writes a small document to the journal. What comes of it is received when it is on the disk.
    pub(crate) fn keep(&self, name: &str, text: &[u8]) -> oneshot::Receiver<Result<(), String>> {
        self.locked().keep(name, text)
    }

    /// Waits for the journal and for time, until `stopped` changes. Returns the reason if the journal failed:
    /// nothing can be decided any more, and the broker must start again.
    pub async fn run(
        self: Arc<Self>,
        mut answers: UnboundedReceiver<Vec<Completion>>,
        mut stopped: watch::Receiver<bool>,
    ) -> Option<String> {
        let mut ends: Option<Instant> = None;
        loop {
            if ends.is_some() && self.locked().is_idle() {
                return None;
            }
            let at = self.locked().wake_at();
            let due = async {
                match at {
                    Some(at) => sleep(Duration::from_nanos(at.since(self.clock.now()).as_nanos())).await,
                    None => std::future::pending().await,
                }
            };
            let effects = tokio::select! {
                answered = answers.recv() => {
                    let answered = answered?;
                    let now = self.clock.now();
                    let effects = self.locked().answered(now, answered);
                    match effects {
                        Ok(effects) => effects,
                        Err(why) => return Some(why),
                    }
                }
                () = due => {
                    let now = self.clock.now();
                    self.locked().wake(now)
                }
                () = self.earlier.notified() => continue,
                () = sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => return None,
                // Who waits for a decision hears it.
                _ = stopped.changed(), if ends.is_none() => {
                    ends = Some(Instant::now() + LAST_ANSWERS);
                    continue;
                }
            };
            self.perform(effects);
        }
    }

    /// Waits until the epoch is on the disk, or agents refuse it, and nothing is being said to any agent.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn settled(&self, patience: Duration) -> Result<(), String> {
        let settled = async {
            while !self.locked().is_settled() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(patience, settled).await;
        match self.locked().is_reading() {
            false => Ok(()),
            true => Err("the journal of transactions cannot be written".to_owned()),
        }
    }

    /// Closes the journal: nothing is begun or decided any more.
    pub async fn close(&self) {
        let journal = self.take_journal();
        let _ = tokio::task::spawn_blocking(move || drop(journal)).await;
    }

    /// The journal, after which nothing is begun or decided any more; dropping it waits for what was handed in.
    pub fn take_journal(&self) -> Option<Journal> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.locked().close()
    }

    /// Asks all members to promise their parts, and has them done at all or at none.
    ///
    /// # Errors
    /// A member's refusal, or what kept it from being decided: nothing has changed.
    pub async fn vote(
        self: &Arc<Self>,
        note: Note,
        caller: &CallerDoc,
        parts: Vec<MemberPart>,
    ) -> Answer<AttemptProgress> {
        self.agree_on_time(&parts).await?;
        let members = self.member_records(&parts);
        let kind = match parts.last() {
            Some(MemberPart::Domain(_)) => TransactionKind::Chain,
            _ => TransactionKind::Vote,
        };
        let attempt = Attempt::new(caller.clone(), parts, members.len(), note);
        self.attempt(kind, members, attempt).await
    }

    /// The members of a transaction, as the journal has them.
    fn member_records(&self, parts: &[MemberPart]) -> Vec<MemberRecord> {
        let name = |part: &MemberPart| match part {
            MemberPart::Agent { agent, .. } => self.agents[*agent].name.to_string(),
            MemberPart::Domain(part) => domain_member(&self.domains[part.domain].name),
        };
        parts.iter().map(|part| MemberRecord { name: name(part), order: Vec::new() }).collect()
    }

    /// Writes orders down, and has each agent carry out its own.
    ///
    /// # Errors
    /// They could not be written down: nothing has changed.
    pub async fn order(self: &Arc<Self>, note: Note, orders: Vec<(String, MemberOrder)>) -> Answer<AttemptProgress> {
        let member = |(name, order): (String, MemberOrder)| {
            let order = serde_json::to_vec(&order).map_err(|error| Problem::misuse(error.to_string()))?;
            Ok(MemberRecord { name, order })
        };
        let members = orders.into_iter().map(member).collect::<Answer<Vec<MemberRecord>>>()?;
        let caller = CallerDoc { name: String::new(), groups: Vec::new(), role: String::new(), token: None };
        let attempt = Attempt::new(caller, Vec::new(), members.len(), note);
        self.attempt(TransactionKind::Order, members, attempt).await
    }

    async fn attempt(
        self: &Arc<Self>,
        kind: TransactionKind,
        members: Vec<MemberRecord>,
        attempt: Attempt,
    ) -> Answer<AttemptProgress> {
        let id = draw::<16>().map_err(|error| Problem::unavailable(format!("no randomness: {error}")))?;
        let (id, attempt) = (TransactionId(id), Arc::new(attempt));
        let beginning = Beginning { id, kind, members, above: None };
        let now = self.clock.now();
        let effects = self.locked().begin(now, beginning, attempt.clone());
        self.perform(effects);
        if timeout(UNDECIDED, attempt.until(|progress| progress.verdict.is_some())).await.is_err() {
            let what = format!("it is not decided yet: ask for {} again, or with the same key", attempt.note.id);
            return Err(Problem::unavailable(what));
        }
        // Those who do not answer are told later.
        let _ = timeout(TOLD, attempt.until(AttemptProgress::is_settled)).await;
        let progress = attempt.progress();
        match progress.verdict {
            Some(AttemptVerdict::Committed) => Ok(progress),
            _ => Err(progress.problem()),
        }
    }

    /// The open transactions of a reservation.
    pub fn of(&self, reservation: &str) -> Vec<Open> {
        self.locked().of(reservation)
    }

    /// Waits until a reservation has no open transaction but such as wait for agents that do not answer, which
    /// are returned.
    pub async fn quiet(&self, reservation: &str) -> Vec<Open> {
        let quiet = async {
            while !self.locked().waits_for_silent(reservation) {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(UNDECIDED, quiet).await;
        self.of(reservation)
    }

    /// Asks these agents for their promises, and has them told what was decided.
    pub async fn resolve(self: &Arc<Self>, agents: &[usize]) {
        for agent in agents {
            let _ = visit::promises(self.clone(), *agent).await;
        }
        let _ = self.settled(TOLD).await;
    }

    /// The number of transactions that have not ended.
    pub fn count(&self) -> usize {
        self.locked().coordinator().transactions().count()
    }

    /// The present epoch, the outcome of a transaction for a participant that promised in the epoch of this
    /// number, and the names of its members while it has not ended.
    pub fn outcome(&self, id: TransactionId, epoch: u64) -> (Epoch, Outcome, Vec<String>) {
        let desk = self.locked();
        (desk.coordinator().epoch(), desk.coordinator().outcome(id, epoch), desk.members(id))
    }

    /// The leg of a reservation that crosses domains.
    pub fn leg(&self, reservation: &str) -> Option<LegRecord> {
        self.locked().leg(reservation)
    }

    /// All legs that are kept.
    pub fn legs(&self) -> Vec<LegRecord> {
        self.locked().legs()
    }

    /// The coordinator above of a part that was promised here.
    pub fn coordinator_above(&self, branch: Branch) -> Option<String> {
        self.locked().participant().coordinator(branch).map(str::to_owned)
    }

    /// The brokers of neighbouring domains.
    pub fn domains(&self) -> &[DomainClient] {
        &self.domains
    }

    /// The key that signs our acceptances, and the authorities of the others.
    pub fn voice(&self) -> Option<&Voice> {
        self.voice.as_ref()
    }

    /// The coordinator's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn epoch(&self) -> Epoch {
        self.locked().coordinator().epoch()
    }

    /// Compares the clocks of a change's agents.
    ///
    /// # Errors
    /// 503: two of them are too far apart.
    async fn agree_on_time(self: &Arc<Self>, parts: &[MemberPart]) -> Answer<()> {
        let mut agents: Vec<usize> = parts.iter().filter_map(MemberPart::agent).collect();
        agents.sort_unstable();
        agents.dedup();
        if agents.len() < 2 {
            return Ok(());
        }
        let now = self.clock.now();
        let old = agents.iter().filter(|agent| self.clocks.is_old(**agent, now));
        let looks: Vec<_> = old.map(|agent| tokio::spawn(visit::promises(self.clone(), *agent))).collect();
        for look in looks {
            // One that does not answer says so when it is asked for its promise.
            let _ = look.await;
        }
        self.same_time(&agents)
    }

    /// Checks that the clocks of these agents are near enough to each other, as far as they are known.
    ///
    /// # Errors
    /// 503: two of them are too far apart.
    fn same_time(&self, agents: &[usize]) -> Answer<()> {
        match self.clocks.apart(agents, self.most_skew) {
            None => Ok(()),
            Some((slow, fast, apart)) => Err(Problem::unavailable(format!(
                "the clocks of the agents {} and {} are {:.1} s apart, so their windows would not meet: set them (at most {} s, \
                 `most_skew`)",
                self.agents[slow].name,
                self.agents[fast].name,
                apart.as_nanos() as f64 / 1e9,
                self.most_skew.as_nanos() as f64 / 1e9,
            ))),
        }
    }

    /// Tells the coordinator something.
    fn take(self: &Arc<Self>, input: Input) {
        let now = self.clock.now();
        let effects = self.locked().take(now, input);
        self.perform(effects);
    }

    fn perform(self: &Arc<Self>, effects: Vec<DeskEffect>) {
        for effect in effects {
            match effect {
                DeskEffect::Prepare { attempt, branch, epoch, serial } => {
                    tokio::spawn(tell::prepare(self.clone(), attempt, branch, epoch, serial));
                }
                DeskEffect::Decide { branch, agent, epoch, decision, order } => {
                    tokio::spawn(tell::decide(self.clone(), branch, agent, epoch, decision, order));
                }
                DeskEffect::AskAbove { branch, coordinator, epoch } => {
                    tokio::spawn(self.clone().ask_above(branch, coordinator, epoch));
                }
                DeskEffect::Say(what) => eprintln!("sluice: {what}"),
            }
        }
        self.earlier.notify_one();
    }

    fn locked(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a neighbour's broker among the members of a transaction. No agent's name has a slash.
pub(crate) fn domain_member(domain: &str) -> String {
    format!("domain/{domain}")
}

/// Random bytes.
///
/// # Errors
/// The kernel has none.
pub(crate) fn draw<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
