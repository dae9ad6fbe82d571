//! The bookings in the agent (engine `Bookings`): configuration (resources, policy), journal, calls on the
//! local socket.
//!
//! The engine is told one thing at a time ([`Agent::tell_book`]), and this module carries out what it says.
//! Batches go to the journal's thread, which fires a notifier when they are on the disk, so that signalling
//! never waits for a disk. Orders go to [`crate::enforce`]. Answers and events go to the connections that
//! wait for them.

mod answer;
mod audit;
mod follow;
pub mod journal;
mod may;
pub mod policy_file;
mod policy_signal;
pub mod resources;
mod sight;
mod turn;

use crate::config::AgentConfig;
use crate::enforce::Enforcers;
use crate::start::StartError;
use booking::io::CalendarOffset;
use booking::policy::Policy;
use booking::{Bookings, Config, Input, JournalRecord};
use follow::Followers;
use journal::JournalHandle;
use linux::error::SystemError;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use terms::Time;

/// The engine of bookings and its surroundings.
pub(crate) struct Book {
    pub(crate) broker: Bookings,
    pub(crate) policy: Policy,
    /// Brokers on other machines that may speak for others.
    pub(crate) brokers: Vec<String>,
    pub(crate) enforcers: Enforcers,
    pub(crate) desk: JournalHandle,
    /// Inputs that the engine is still to be told, in order.
    due: VecDeque<Input>,
    /// Calls that wait for an answer.
    calls: BTreeMap<u64, answer::Waiting>,
    next_call: u64,
    followers: Followers,
    pub(crate) clock: CalendarOffset,
    /// Records of the journal, kept until the engine has been told.
    found: Vec<JournalRecord>,
    /// The reason why the journal can no longer be written.
    pub(crate) broken: Option<String>,
}

impl Book {
    /// Opens the journal and reads it; [`Agent::begin_book`] tells the engine.
    ///
    /// # Errors
    /// The journal, the file of policy, or what an earlier agent left cannot be used.
    pub(crate) fn open(config: &AgentConfig) -> Result<Book, StartError> {
        let policy_file::PolicyFile { policy, brokers } = match &config.policy {
            Some(file) => policy_file::load(file).map_err(StartError::Policy)?,
            None => policy_file::usual(linux::process::group_id(&config.operators)),
        };
        let (desk, found) = JournalHandle::open(config)?;
        let mut seed = [0; 32];
        let random = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut seed));
        random.map_err(SystemError::doing("read /dev/urandom"))?;
        Ok(Book {
            broker: Bookings::new(Config::default(), seed),
            policy,
            brokers,
            enforcers: Enforcers::default(), // when the plane has been read
            desk,
            due: VecDeque::new(),
            calls: BTreeMap::new(),
            next_call: 1,
            followers: Followers::default(),
            clock: CalendarOffset::default(),
            found,
            broken: None,
        })
    }

    /// The time of day.
    pub(crate) fn calendar(&self, now: Time) -> Time {
        self.clock.calendar(now)
    }

    /// The next time at which the engine or an enforcer wants to be woken, by the agent's clock.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        [self.broker.wake_at(), self.enforcers.wake_at()].into_iter().flatten().min()
    }
}
