//! The processors and disks of this host as the configuration wants them: opened, with the state of an
//! earlier agent and the capacity of each.

use crate::config::AgentConfig;
use crate::host_file::CpuConfig;
use control::resources::Resource;
use linux::cgroup::{self, GroupPlace, GroupTree, Mounted, Version};
use linux::cpu::{Cpu, ShareKind, capacity};
use linux::error::SystemError;
use linux::storage::{Device, ReservableDisk, Storage};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use terms::Amount;
use terms::book::{Guarantee, Handle, Task};

/// The number of the bound process, if it still runs. A later process with the same number does not count.
///
/// # Errors
/// The process has ended.
pub(super) fn number_of(task: &Task) -> Result<u32, String> {
    match (task.start, linux::owner::started(task.number)) {
        (0, _) => Ok(task.number), // bound by an agent that did not look yet
        (bound, now) if now == Some(bound) => Ok(task.number),
        (_, None) => Err(format!("process {} has ended", task.number)),
        (_, Some(_)) => Err(format!("process {} has ended, and another has its number now", task.number)),
    }
}

/// The processors and disks of this host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) cpu: Option<Cpu>,
    pub(crate) storage: Option<Storage>,
    pub(crate) processors: Vec<Resource>,
    pub(crate) disks: Vec<Resource>,
    /// True if processors and disks share groups here: a process is in one group for both.
    pub(crate) shared: bool,
}

impl Host {
    /// Opens what the configuration names; nothing is moved before a reservation needs it.
    ///
    /// # Errors
    /// A disk is not there, the groups are another agent's, or the kernel has none of what is needed.
    pub(crate) fn open(config: &AgentConfig) -> Result<Host, SystemError> {
        let mut host = Host::default();
        if config.cpu.is_none() && config.disks.is_empty() {
            return Ok(host);
        }
        let mounted = cgroup::all_mounted();
        let for_disk = cgroup::for_disk(&mounted).filter(|_| !config.disks.is_empty());
        // A host's own tree of version 2 serves both.
        let for_cpu = cgroup::for_cpu(&mounted).filter(|_| config.cpu.is_some());
        host.shared = for_cpu.iter().chain(&for_disk).all(|all| all[0].version == Version::Two);
        let cpu_tree = for_cpu.map(|all| tree(config, all, "cpu-groups")).transpose()?;
        let disk_tree = match (&cpu_tree, for_disk) {
            (Some(tree), Some(_)) if host.shared => Some(tree.clone()),
            (_, for_disk) => for_disk.map(|all| tree(config, all, "disk-groups")).transpose()?,
        };
        if let Some(cpu) = &config.cpu {
            host.open_cpu(config, cpu, cpu_tree)?;
        }
        host.open_disks(config, disk_tree)?;
        Ok(host)
    }

    fn open_cpu(
        &mut self,
        config: &AgentConfig,
        wanted: &CpuConfig,
        tree: Option<Arc<Mutex<GroupTree>>>,
    ) -> Result<(), SystemError> {
        let hold_back = config.groups.hold_back && tree.is_some();
        let probed = capacity::probe();
        let (admitted, kind) = match (probed, &tree) {
            (Ok(found), _) => (found.share, ShareKind::Guarantee),
            // No deadline threads here: weights reach further than what the kernel keeps for those, a quota less far.
            (Err(_), Some(_)) => {
                let kind = if hold_back { ShareKind::Guarantee } else { ShareKind::Cap };
                (capacity::cores() * linux::cpu::CORE, kind)
            }
            (Err(failed), None) => return Err(failed),
        };
        let capacity = wanted.capacity.unwrap_or(admitted);
        let capacity = capacity.saturating_sub(wanted.kept_back.of(capacity));
        self.processors.push(stock("cpu".to_owned(), Amount::of_core(capacity), kind));
        self.cpu = Some(Cpu::open(tree, hold_back, &config.state)?);
        Ok(())
    }

    fn open_disks(&mut self, config: &AgentConfig, tree: Option<Arc<Mutex<GroupTree>>>) -> Result<(), SystemError> {
        if config.disks.is_empty() {
            return Ok(());
        }
        let Some(tree) = tree else {
            let error = io::Error::other("no hierarchy of control groups with blkio or io is mounted");
            return Err(SystemError::because("reserve disks", error));
        };
        let mut disks = BTreeMap::new();
        for disk in &config.disks {
            let device = Device::find(&disk.device)?;
            disks.insert(disk.name.clone(), ReservableDisk { device, capacity: disk.capacity, request: disk.request });
        }
        let storage = Storage::open(tree, config.groups.hold_back, disks);
        for disk in &config.disks {
            let capacity = Amount::disk_bytes(disk.capacity - disk.kept_back);
            self.disks.push(stock(format!("disk/{}", disk.name), capacity, storage.kind()));
        }
        self.storage = Some(storage);
        Ok(())
    }
}

/// Without background: the unreserved part of a processor or disk is free for all already.
fn stock(name: String, capacity: Amount, kind: ShareKind) -> Resource {
    let guarantee = if kind == ShareKind::Guarantee { Guarantee::Reserved } else { Guarantee::Cap };
    Resource { name, guarantee, capacity, shared: Amount::zero(capacity.unit()) }
}

fn tree(config: &AgentConfig, mounted: Vec<Mounted>, record: &str) -> Result<Arc<Mutex<GroupTree>>, SystemError> {
    let place = GroupPlace { mounted, parent: config.groups.parent.clone(), record: config.state.join(record) };
    GroupTree::open(place).map(|tree| Arc::new(Mutex::new(tree)))
}

/// The name of a part's group: the same after a restart.
pub(super) fn group_name(handle: Handle, part: usize, shared: bool) -> String {
    if shared { handle.text() } else { format!("{}-{part}", handle.text()) }
}
