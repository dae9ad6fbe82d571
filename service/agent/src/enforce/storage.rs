//! Disks: orders of the bookings as limits on unreserved use (see `linux::storage`). The driver counts bytes a second.

use super::host::{group_name, number_of};
use super::{Enforcer, EnforcerNotice, Usage};
use crate::log::Level;
use booking::io::{Order, OrderAction};
use control::resources::Resource;
use linux::storage::{DiskNotice, Storage};
use terms::book::{Binding, Handle};
use terms::{Amount, Span, Time};

const TICK: Span = Span::from_millis(500);

/// The disks.
#[derive(Debug)]
pub struct Disks {
    storage: Storage,
    shared: bool,
    wake: Option<Time>,
    stocks: Vec<Resource>,
}

impl Disks {
    /// Enforces over the opened driver, which offers `stocks`; `shared`: the processors use the same groups.
    pub fn new(storage: Storage, shared: bool, stocks: Vec<Resource>) -> Disks {
        Disks { storage, shared, wake: None, stocks }
    }

    fn serve(&mut self, disk: &str, name: &str, binding: Option<&Binding>, amount: Amount) -> Result<(), String> {
        let told = |failed: linux::error::SystemError| failed.to_string();
        let rate = amount.demands_disk_bytes().map_err(|wrong| wrong.to_string())?;
        match binding {
            Some(Binding::Process(task)) => {
                let pid = number_of(task)?;
                self.storage.enable(disk, name, rate).map_err(told)?;
                self.storage.bind(disk, name, pid).map(|_| ()).map_err(told)
            }
            Some(Binding::Cgroup(path)) => {
                self.storage.enable(disk, name, rate).map_err(told)?;
                self.storage.bind_group(disk, name, path).map(|_| ()).map_err(told)
            }
            _ => {
                Err("a share of a disk is for a process, with its threads and children, or a control group".to_owned())
            }
        }
    }
}

impl Enforcer for Disks {
    fn enforce(&mut self, now: Time, order: &Order) -> Result<(), String> {
        let name = group_name(order.handle, order.part, self.shared);
        let disk = disk_of(&order.resource);
        let done = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => {
                self.serve(disk, &name, binding.as_ref(), *amount)
            }
            OrderAction::Disable { .. } => self.storage.disable(disk, &name).map_err(|failed| failed.to_string()),
        };
        self.wake = self.storage.is_watched().then(|| self.wake.unwrap_or(now + TICK));
        done
    }

    fn settle(&mut self) -> Result<(), String> {
        self.storage.keep_only_enabled().map_err(|failed| failed.to_string())
    }

    fn stocks(&self) -> Vec<Resource> {
        self.stocks.clone()
    }

    fn measured(&self, resource: &str, handle: Handle, part: usize) -> Option<Usage> {
        let status = self.storage.status(disk_of(resource), &group_name(handle, part, self.shared))?;
        let seen = status.seen?;
        let interval = Span::from_nanos(u64::try_from(seen.span.as_nanos()).unwrap_or(u64::MAX));
        let unreserved = status.rest.map(|rest| Amount::disk_bytes(rest.rate));
        Some(Usage { amount: Amount::disk_bytes(seen.rate), refused: None, unreserved, interval })
    }

    fn means(&self, resource: &str, handle: Handle, part: usize) -> Option<String> {
        let status = self.storage.status(disk_of(resource), &group_name(handle, part, self.shared))?;
        Some(status.installed).filter(|words| !words.is_empty())
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake
    }

    fn wake(&mut self, now: Time) -> Vec<EnforcerNotice> {
        self.wake = self.storage.is_watched().then(|| now + TICK);
        self.storage.tick().iter().map(found).collect()
    }

    fn end(&mut self) {
        // What would not go back is found by the next agent.
        let _ = self.storage.close();
    }
}

fn disk_of(resource: &str) -> &str {
    resource.strip_prefix("disk/").unwrap_or(resource)
}

fn found(notice: &DiskNotice) -> EnforcerNotice {
    match notice {
        DiskNotice::Strayed { name, pid } => EnforcerNotice {
            level: Level::Warn,
            name: "disk_strayed",
            text: format!("another program moved process {pid} out of the group of {name}, or removed it: it is back"),
        },
        DiskNotice::Gone(disk) => EnforcerNotice {
            level: Level::Error,
            name: "disk_gone",
            text: format!("the device of disk/{disk} is gone: what is reserved of it cannot be had"),
        },
        DiskNotice::Fault(failed) => {
            EnforcerNotice { level: Level::Error, name: "disk_fault", text: failed.to_string() }
        }
    }
}
