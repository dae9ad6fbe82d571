//! Enforcement of bookings on this host: one file for each kind of resource, behind one trait. Interfaces are
//! the node's; [`premium`] only reads what their rules have counted.
//!
//! A new kind of resource is one file that implements [`Enforcer`], and one line in [`Enforcers::open`];
//! [`licence`] is the smallest. An enforcer applies an order in the kernel (or wherever its resource is),
//! reads it back, and reports the result. The bookings' engine alone decides when and how much.

pub mod cpu;
mod host;
pub mod licence;
pub mod premium;
pub mod storage;

use crate::config::AgentConfig;
use crate::log::Level;
use booking::io::Order;
use control::resources::Resource;
use host::Host;
use linux::error::SystemError;
use std::collections::BTreeMap;
use terms::book::{Handle, ResourceKind};
use terms::{Amount, Span, Time};

/// An unasked finding or action of an enforcer, for the log and for those who watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnforcerNotice {
    /// The severity.
    pub level: Level,
    /// A stable name: `cpu_divided`, `disk_fault`, ...
    pub name: &'static str,
    /// For people.
    pub text: String,
}

/// The measured use of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The mean use over `interval`, rounded down.
    pub amount: Amount,
    /// Use above the reservation that was refused; `None` if it is not counted.
    pub refused: Option<Amount>,
    /// Use by everything that is not reserved; `None` if it is not counted.
    pub unreserved: Option<Amount>,
    /// The length of the last whole interval.
    pub interval: Span,
}

/// The enforcement of one kind of resource.
pub trait Enforcer: std::fmt::Debug {
    /// Carries an order out, and reads it back. An order that repeats another changes nothing. State that an
    /// earlier agent installed for the same handle and part is adopted as it is.
    ///
    /// # Errors
    /// The reason, for people; the order is tried again later.
    fn enforce(&mut self, now: Time, order: &Order) -> Result<(), String>;

    /// Removes all other state of earlier agents: every earlier booking has been ordered again by now. Before
    /// this call nothing that was found is removed.
    ///
    /// # Errors
    /// The reason why it could not be removed.
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Resources of this kind that this machine has, beside those of `[[resource]]`.
    fn stocks(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// The time of the next call without an order, for example to find new threads of a bound process.
    fn wake_at(&self) -> Option<Time> {
        None
    }

    /// Runs the periodic work: the time of `wake_at` has come.
    fn wake(&mut self, now: Time) -> Vec<EnforcerNotice> {
        let _ = now;
        Vec::new()
    }

    /// The measured use of the part; `None` if it is not counted, or not yet for long enough.
    fn measured(&self, resource: &str, handle: Handle, part: usize) -> Option<Usage> {
        let _ = (resource, handle, part);
        None
    }

    /// The limit in force for the part, for people, in the words of the mechanism that enforces it.
    fn means(&self, resource: &str, handle: Handle, part: usize) -> Option<String> {
        let _ = (resource, handle, part);
        None
    }

    /// Gives everything back, because the agent stops in good order. Not called when it is killed; what is in
    /// force then stays.
    fn end(&mut self) {}
}

/// All enforcers.
#[derive(Debug, Default)]
pub struct Enforcers {
    all: BTreeMap<ResourceKind, Box<dyn Enforcer>>,
}

impl Enforcers {
    /// Opens the enforcers that this machine and its configuration have.
    ///
    /// # Errors
    /// The state of an earlier agent cannot be read.
    pub fn open(config: &AgentConfig) -> Result<Enforcers, SystemError> {
        let mut all: BTreeMap<ResourceKind, Box<dyn Enforcer>> = BTreeMap::new();
        all.insert(ResourceKind::Countable, Box::new(licence::Licences::open(&config.state)?));
        let host = Host::open(config)?;
        if let Some(cpu) = host.cpu {
            all.insert(ResourceKind::Cpu, Box::new(cpu::Processors::new(cpu, host.shared, host.processors)));
        }
        if let Some(storage) = host.storage {
            all.insert(ResourceKind::Disk, Box::new(storage::Disks::new(storage, host.shared, host.disks)));
        }
        Ok(Enforcers { all })
    }

    /// Gives an order to the enforcer of its resource.
    ///
    /// # Errors
    /// The reason why it could not be carried out.
    pub fn enforce(&mut self, now: Time, order: &Order) -> Result<(), String> {
        match self.all.get_mut(&ResourceKind::of(&order.resource)) {
            Some(enforcer) => enforcer.enforce(now, order),
            None => Err(format!("nothing on this machine enforces {}", order.resource)),
        }
    }

    /// See [`Enforcer::measured`].
    pub fn measured(&self, resource: &str, handle: Handle, part: usize) -> Option<Usage> {
        self.all.get(&ResourceKind::of(resource))?.measured(resource, handle, part)
    }

    /// See [`Enforcer::means`].
    pub fn means(&self, resource: &str, handle: Handle, part: usize) -> Option<String> {
        self.all.get(&ResourceKind::of(resource))?.means(resource, handle, part)
    }

    /// See [`Enforcer::settle`]; returns the errors.
    pub fn settle(&mut self) -> Vec<String> {
        self.all.values_mut().filter_map(|enforcer| enforcer.settle().err()).collect()
    }

    /// The resources that the enforcers find on this machine.
    pub fn stocks(&self) -> Vec<Resource> {
        self.all.values().flat_map(|enforcer| enforcer.stocks()).collect()
    }

    /// The earliest time at which an enforcer wants to be called.
    pub fn wake_at(&self) -> Option<Time> {
        self.all.values().filter_map(|enforcer| enforcer.wake_at()).min()
    }

    /// Calls the enforcers whose time has come.
    pub fn wake(&mut self, now: Time) -> Vec<EnforcerNotice> {
        let due = |enforcer: &&mut Box<dyn Enforcer>| enforcer.wake_at().is_some_and(|at| at <= now);
        let due: Vec<_> = self.all.values_mut().filter(due).collect();
        due.into_iter().flat_map(|enforcer| enforcer.wake(now)).collect()
    }

    /// See [`Enforcer::end`].
    pub fn end(&mut self) {
        self.all.values_mut().for_each(|enforcer| enforcer.end());
    }
}
