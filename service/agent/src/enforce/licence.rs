//! Countable things, such as licences: the smallest kind of resource, and the example for a new one.
//!
//! Each granted part is a file under the state directory, `granted/HANDLE.PART`, with one line
//! `RESOURCE COUNT`. The program that hands out the licences reads that directory. The agent cannot enforce
//! the grant, so that the guarantee that `enquire` reports depends on that program.

use super::Enforcer;
use crate::statics::replace;
use booking::io::{Order, OrderAction};
use linux::error::SystemError;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use terms::{Time, Unit};

/// The directory of granted parts.
#[derive(Debug)]
pub struct Licences {
    directory: PathBuf,
    /// The orders that this agent has carried out since it started.
    ours: BTreeSet<String>,
}

impl Licences {
    /// Opens the directory in the state directory `state`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(state: &Path) -> Result<Licences, SystemError> {
        let directory = state.join("granted");
        fs::create_dir_all(&directory).map_err(SystemError::doing(format!("make {}", directory.display())))?;
        Ok(Licences { directory, ours: BTreeSet::new() })
    }

    fn grant(&mut self, name: String, line: &str) -> io::Result<()> {
        let file = self.directory.join(&name);
        if fs::read_to_string(&file).is_ok_and(|there| there == line) {
            self.ours.insert(name);
            return Ok(());
        }
        replace(&file, line.as_bytes())?;
        self.ours.insert(name);
        if fs::read_to_string(&file)? == line { Ok(()) } else { Err(io::Error::other("it reads otherwise")) }
    }

    fn take(&mut self, name: &str) -> io::Result<()> {
        self.ours.remove(name);
        match fs::remove_file(self.directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Enforcer for Licences {
    fn enforce(&mut self, _: Time, order: &Order) -> Result<(), String> {
        let name = format!("{}.{}", order.handle.text(), order.part);
        let done = match &order.action {
            OrderAction::Enable { amount, .. } | OrderAction::Change { amount, .. } => {
                let pieces = amount.count_of(Unit::Pieces).map_err(|wrong| wrong.to_string())?;
                self.grant(name, &format!("{} {pieces}\n", order.resource))
            }
            OrderAction::Disable { .. } => self.take(&name),
        };
        done.map_err(|error| format!("{} in {}: {error}", order.resource, self.directory.display()))
    }

    fn settle(&mut self) -> Result<(), String> {
        let what = |error: io::Error| format!("{}: {error}", self.directory.display());
        let found = fs::read_dir(&self.directory).map_err(what)?;
        let names = found.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let stale: Vec<String> = names.filter(|name| !self.ours.contains(name)).collect();
        stale.iter().try_for_each(|name| self.take(name)).map_err(|error| format!("a licence of before: {error}"))
    }

    fn end(&mut self) {
        for name in std::mem::take(&mut self.ours) {
            // What stays is taken away by the next agent.
            let _ = self.take(&name);
        }
    }
}
