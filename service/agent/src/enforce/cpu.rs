//! Processors: orders of the bookings as SCHED_DEADLINE or as weights of groups (see `linux::cpu`).
//!
//! A group has the name of its booking and part. Where processors and disks share groups (version 2) it has
//! the name of the booking alone, so that a booking of both is one group.

use super::host::{group_name, number_of};
use super::{Enforcer, EnforcerNotice, Usage};
use crate::log::Level;
use booking::io::{Order, OrderAction};
use control::resources::Resource;
use linux::cpu::{Cpu, CpuNotice, ShareKind, ThreadTarget, deadline};
use terms::book::{Binding, Guarantee, Handle};
use terms::{Amount, Span, Time, Unit};

/// The interval between checks of a bound process.
const TICK: Span = Span::from_millis(Cpu::TICK.as_millis() as u64);

/// The processors.
#[derive(Debug)]
pub struct Processors {
    cpu: Cpu,
    shared: bool,
    wake: Option<Time>,
    stocks: Vec<Resource>,
}

impl Processors {
    /// Enforces over the opened driver, which offers `stocks`; `shared`: disks use the same groups.
    pub fn new(cpu: Cpu, shared: bool, stocks: Vec<Resource>) -> Processors {
        Processors { cpu, shared, wake: None, stocks }
    }

    fn serve(&mut self, name: &str, binding: Option<&Binding>, amount: Amount) -> Result<(), String> {
        let share = amount.count_of(Unit::CoreMillionths).map_err(|wrong| wrong.to_string())?;
        let told = |failed: linux::error::SystemError| failed.to_string();
        let target = match binding {
            Some(Binding::Process(task)) => ThreadTarget::Process(number_of(task)?),
            Some(Binding::Thread(task)) => ThreadTarget::Thread(number_of(task)?),
            Some(Binding::Cgroup(path)) => {
                self.cpu.enable(name, share).map_err(told)?;
                return self.cpu.bind_group(name, path).map(|_| ()).map_err(told);
            }
            Some(Binding::Flow(_)) | None => {
                return Err(
                    "a share of the processors is for a process, a thread or a control group: bind one".to_owned()
                );
            }
        };
        self.cpu.enable(name, share).map_err(told)?;
        let means = self.cpu.bind(name, target).map_err(told)?;
        let promised = self.stocks.iter().any(|stock| stock.guarantee == Guarantee::Reserved);
        if promised && means.kind() == ShareKind::Cap {
            // It is in force, but not as what was promised: that is no success.
            let share = deadline::percent(share);
            return Err(format!(
                "{target} gets at most {share} of a core, but is not sure of it: only a quota is possible"
            ));
        }
        Ok(())
    }
}

impl Enforcer for Processors {
    fn enforce(&mut self, now: Time, order: &Order) -> Result<(), String> {
        let name = group_name(order.handle, order.part, self.shared);
        let done = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => {
                self.serve(&name, binding.as_ref(), *amount)
            }
            OrderAction::Disable { .. } => self.cpu.disable(&name).map_err(|failed| failed.to_string()),
        };
        self.wake = self.cpu.is_watched().then(|| self.wake.unwrap_or(now + TICK));
        done
    }

    fn settle(&mut self) -> Result<(), String> {
        self.cpu.keep_only_enabled().map_err(|failed| failed.to_string())
    }

    fn stocks(&self) -> Vec<Resource> {
        self.stocks.clone()
    }

    fn measured(&self, _: &str, handle: Handle, part: usize) -> Option<Usage> {
        let seen = self.cpu.status(&group_name(handle, part, self.shared))?.seen?;
        let interval = Span::from_nanos(u64::try_from(seen.span.as_nanos()).unwrap_or(u64::MAX));
        Some(Usage { amount: Amount::of_core(seen.rate), refused: None, unreserved: None, interval })
    }

    fn means(&self, _: &str, handle: Handle, part: usize) -> Option<String> {
        let status = self.cpu.status(&group_name(handle, part, self.shared))?;
        Some(status.installed).filter(|words| !words.is_empty())
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake
    }

    fn wake(&mut self, now: Time) -> Vec<EnforcerNotice> {
        self.wake = self.cpu.is_watched().then(|| now + TICK);
        self.cpu.tick().iter().map(found).collect()
    }

    fn end(&mut self) {
        // What would not go back is found by the next agent.
        let _ = self.cpu.close();
    }
}

fn found(notice: &CpuNotice) -> EnforcerNotice {
    match notice {
        CpuNotice::Divided { name, threads } => EnforcerNotice {
            level: Level::Info,
            name: "cpu_divided",
            text: format!("the share of {name} is divided among {threads} threads now"),
        },
        CpuNotice::Strayed { name, pid } => EnforcerNotice {
            level: Level::Warn,
            name: "cpu_strayed",
            text: format!("another program moved process {pid} out of the group of {name}, or removed it: it is back"),
        },
        CpuNotice::Ended { name } => EnforcerNotice {
            level: Level::Info,
            name: "cpu_ended",
            text: format!("the last process of {name} has ended; its share stays reserved until it is cancelled"),
        },
        CpuNotice::Fault(failed) => EnforcerNotice { level: Level::Error, name: "cpu_fault", text: failed.to_string() },
    }
}
