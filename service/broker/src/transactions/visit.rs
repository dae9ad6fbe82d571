//! Visits to agents: each is told of this coordinator whenever it can be reached again, says what it has
//! promised and what its clock shows, and is looked after from time to time.

use super::Transactions;
use super::tell::said;
use crate::agents::{AgentClient, Exchange, own_voice};
use crate::gather;
use crate::id::GroupId;
use crate::problem::{Answer, Problem};
use commit::coordinator::Input;
use commit::{Branch, TransactionId};
use documents::agent::Request;
use documents::book::{BookAnswer, BookFilter, PromisesDoc};
use std::sync::Arc;
use std::time::Duration;
use terms::Time;
use tokio::sync::watch;
use tokio::time::sleep;

/// The pause before an agent that did not answer is visited again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// The time between visits to an agent that answers, at first and at most. What was on its way to an agent that was
/// silent may come to it after the first visit.
const FIRST_REST: Duration = Duration::from_secs(1);
const LAST_REST: Duration = Duration::from_secs(30);

/// Hears of each group that an agent keeps, so that its key is known after a restart.
pub type Learn = Arc<dyn Fn(GroupId) + Send + Sync>;

/// The visits to one agent.
pub struct Visits {
    transactions: Arc<Transactions>,
    agent: usize,
    learn: Learn,
    learnt: bool,
    silent: bool,
}

impl Visits {
    /// Visits to the agent of this index.
    pub fn new(transactions: Arc<Transactions>, agent: usize, learn: Learn) -> Visits {
        Visits { transactions, agent, learn, learnt: false, silent: true }
    }

    /// One visit. True if the agent answered.
    pub async fn visit(&mut self) -> bool {
        let agent = &self.transactions.agents[self.agent];
        let answered = promises(self.transactions.clone(), self.agent).await.is_ok();
        if answered && self.silent {
            // Decisions that wait for it are said again at once.
            self.transactions.take(Input::Connected(agent.name.to_string()));
        }
        if answered && !self.learnt {
            let groups = groups(agent).await;
            self.learnt = groups.map(|groups| groups.into_iter().for_each(|group| (self.learn)(group))).is_ok();
        }
        self.silent = !answered;
        answered
    }

    /// Visits until `stopped` changes.
    pub async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            () = self.visit_again() => {}
            _ = stopped.changed() => {}
        }
    }

    async fn visit_again(&mut self) {
        let transactions = self.transactions.clone();
        let (mut pause, mut rest) = (FIRST_PAUSE, FIRST_REST);
        loop {
            if self.silent {
                sleep(pause).await;
                (pause, rest) = (pause.saturating_mul(2).min(LAST_PAUSE), FIRST_REST);
            } else {
                tokio::select! {
                    () = sleep(rest) => rest = rest.saturating_mul(2).min(LAST_REST),
                    () = transactions.silent[self.agent].notified() => rest = FIRST_REST,
                }
                pause = FIRST_PAUSE;
            }
            self.visit().await;
        }
    }
}

/// Tells an agent of this coordinator, and hears what it has promised to it and what its clock shows.
///
/// # Errors
/// It does not answer, or refuses.
pub async fn promises(transactions: Arc<Transactions>, number: usize) -> Answer<()> {
    let agent = &transactions.agents[number];
    let (mut promises, mut after) = (Vec::new(), None);
    loop {
        let (coordinator, epoch) = (transactions.name.clone(), said(transactions.epoch()));
        let before = transactions.clock.now();
        let request = Request::BookPromises(PromisesDoc { coordinator, epoch, after: after.take() });
        let page = match agent.exchange(None, request).await {
            Exchange::Answered(answer) => match *answer {
                BookAnswer::Promises(page) => page,
                _ => return Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
            },
            Exchange::Refused(refusal) => {
                transactions.hear_outdated(&refusal);
                return Err(Problem::said(&agent.name, refusal));
            }
            Exchange::NotAsked(problem) | Exchange::Lost(problem) => return Err(problem),
        };
        transactions.clocks.note(number, Time::from_nanos(page.clock_ns), before, transactions.clock.now());
        let last = page.rows.last().map(|row| (row.transaction.clone(), row.member));
        promises.extend(page.rows.into_iter().filter_map(|row| {
            let transaction = TransactionId::parse(&row.transaction)?;
            Some((Branch { transaction, member: row.member }, row.epoch))
        }));
        match last {
            Some(last) if page.more => after = Some(last),
            _ => break,
        }
    }
    transactions.take(Input::Confirmed(agent.name.to_string()));
    if !promises.is_empty() {
        transactions.take(Input::Promises { promises, name: agent.name.to_string() });
    }
    Ok(())
}

/// The groups of which an agent keeps a member that is not over.
async fn groups(agent: &AgentClient) -> Answer<Vec<GroupId>> {
    let mut conversation = agent.speak(&own_voice()).await?;
    let mut groups = Vec::new();
    let mut after = None;
    loop {
        let filter = BookFilter { after: after.take(), ..BookFilter::default() };
        let (rows, more) = gather::list(&mut conversation, filter).await?;
        groups.extend(rows.iter().filter_map(|row| Some(GroupId::of_member(&row.group)?.0)));
        match rows.last() {
            Some(last) if more => after = Some(last.handle.clone()),
            _ => {
                conversation.end();
                return Ok(groups);
            }
        }
    }
}
