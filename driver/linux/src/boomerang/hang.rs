//! The attachment of the programs, one at the ingress and one at the egress of an interface; they are pinned,
//! so that they survive the agent.

use super::{FastPath, PAST_THE_END};
use crate::bpf::arriving::{self, Xdp};
use crate::bpf::{fault, masks, sys};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use terms::{Fault, IfIndex};
use traffic::edge::Side;

/// The hook at which the program is attached to an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hanging {
    /// XDP in the device's driver; frames bypass the kernel's stack if the next device accepts redirected
    /// frames.
    Native,
    /// The ingress of traffic control (TCX).
    Ingress,
}

impl FastPath {
    /// Attaches the program permanently to the ingress of an interface in the calling thread's network
    /// namespace: as XDP in the device's driver for `Native`, else at the ingress of traffic control.
    ///
    /// # Errors
    /// The device has no XDP (EOPNOTSUPP), or another program has it (EBUSY, EEXIST).
    pub fn attach(&self, iif: IfIndex, how: Hanging) -> Result<(), Fault> {
        self.interface(iif).ok_or(PAST_THE_END)?;
        self.detach(iif)?;
        let link = match how {
            Hanging::Native => arriving::attach_xdp(self.programs.xdp.as_fd(), iif.0, Xdp::Native)
                .map_err(fault("attach the XDP program to the interface"))?,
            Hanging::Ingress => sys::attach(self.programs.ingress.as_fd(), iif.0, Side::Ingress, false)
                .map_err(fault("attach the program to the interface's ingress (TCX)"))?,
        };
        sys::pin(link.as_fd(), &self.link(iif, how)).map_err(fault("pin a program's link"))
    }

    /// Detaches the program from the ingress of an interface.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&self, iif: IfIndex) -> Result<(), Fault> {
        [Hanging::Native, Hanging::Ingress].into_iter().try_for_each(|how| take_away(&self.link(iif, how)))
    }

    /// Attaches the program that polices sessions at the end of an interface's egress, again if it is already
    /// there: it must run after the flow program, which would overwrite its result. Only the program for
    /// flows of prefixes runs after it, so that a session within a prefix has its own bucket.
    ///
    /// # Errors
    /// The kernel has no TCX (before Linux 6.6).
    pub fn police(&self, oif: IfIndex) -> Result<(), Fault> {
        self.interface(oif).ok_or(PAST_THE_END)?;
        let path = self.pins.join(format!("{EGRESS_LINK}{}", oif.0));
        take_away(&path)?;
        let program = self.programs.egress.as_fd();
        let masks = self.pins.parent().and_then(|mount| masks::link_at(mount, oif));
        let link = match &masks {
            Some(masks) => sys::attach_before(program, oif.0, Side::Egress, masks.as_fd()),
            None => sys::attach(program, oif.0, Side::Egress, false),
        };
        let link = link.map_err(fault("attach the program to the interface's egress (TCX)"))?;
        sys::pin(link.as_fd(), &path).map_err(fault("pin a program's link"))
    }

    /// Detaches the policing program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave_unpoliced(&self, oif: IfIndex) -> Result<(), Fault> {
        take_away(&self.pins.join(format!("{EGRESS_LINK}{}", oif.0)))
    }

    /// The hook at which the program is attached to this interface; `None`: it is not attached.
    pub fn hanging(&self, iif: IfIndex) -> Option<Hanging> {
        let there = |how: &Hanging| {
            let link = sys::open_pinned(&self.link(iif, *how));
            link.and_then(|link| sys::link_place(link.as_fd())).is_ok_and(|place| place.ifindex == iif.0)
        };
        [Hanging::Native, Hanging::Ingress].into_iter().find(there)
    }

    fn link(&self, iif: IfIndex, how: Hanging) -> PathBuf {
        let kind = match how {
            Hanging::Native => XDP_LINK,
            Hanging::Ingress => INGRESS_LINK,
        };
        self.pins.join(format!("{kind}{}", iif.0))
    }

    /// Replaces the programs on all pinned links by those of this build; removes the links of interfaces that
    /// are gone.
    pub(super) fn renew(&self) -> Result<(), Fault> {
        for file in fs::read_dir(&self.pins).map_err(fault("list the bpffs"))?.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let kinds = [XDP_LINK, INGRESS_LINK, EGRESS_LINK].into_iter().zip(self.programs.all());
            let program: Option<(&str, BorrowedFd<'_>)> = kinds.into_iter().find(|(kind, _)| name.starts_with(kind));
            let (Some((_, program)), Ok(link)) = (program, sys::open_pinned(&file.path())) else { continue };
            let place = sys::link_place(link.as_fd()).map_err(fault("look at a program's link"))?;
            if place.ifindex == 0 {
                fs::remove_file(file.path()).map_err(fault("unpin the link of an interface that has gone"))?;
            } else {
                sys::replace_program(link.as_fd(), program)
                    .map_err(fault("put a new program in the old one's place"))?;
            }
        }
        Ok(())
    }
}

/// The prefixes of the names of pinned links.
const XDP_LINK: &str = "xdp_link_";
const INGRESS_LINK: &str = "ingress_link_";
const EGRESS_LINK: &str = "egress_link_";

/// Detaches and unpins the programs of an agent with another layout: their sessions are reserved anew by the
/// next refresh.
pub(super) fn forget_others(mount: &Path) -> Result<(), Fault> {
    for dir in fs::read_dir(mount).map_err(fault("list the bpffs"))?.flatten() {
        let name = dir.file_name().to_string_lossy().into_owned();
        if !name.starts_with(super::LAYOUTS) || name == super::LAYOUT {
            continue;
        }
        forget(&dir.path())?;
    }
    Ok(())
}

/// Detaches all programs that are pinned in this directory, and removes it.
pub(super) fn forget(pins: &Path) -> Result<(), Fault> {
    let is_link = |name: &str| [XDP_LINK, INGRESS_LINK, EGRESS_LINK].iter().any(|kind| name.starts_with(kind));
    for file in fs::read_dir(pins).map_err(fault("list the bpffs"))?.flatten() {
        if is_link(&file.file_name().to_string_lossy()) {
            take_away(&file.path())?;
        } else {
            fs::remove_file(file.path()).map_err(fault("unpin what an older agent left"))?;
        }
    }
    fs::remove_dir(pins).map_err(fault("remove an older agent's directory in the bpffs"))
}

/// Detaches the program of a pinned link at once; does nothing if there is no such link.
fn take_away(path: &Path) -> Result<(), Fault> {
    let Ok(link) = sys::open_pinned(path) else { return Ok(()) };
    match sys::detach(link.as_fd()) {
        Err(error) if error.raw_os_error() != Some(libc::ENOLINK) => Err(fault("detach a program")(error)),
        _ => fs::remove_file(path).map_err(fault("unpin a program's link")),
    }
}
