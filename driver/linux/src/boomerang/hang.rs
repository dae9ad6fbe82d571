//! Where the programs hang: one at what comes in, one at what leaves; pinned, so that they stay when the agent goes.

use super::{FastPath, PAST_THE_END};
use crate::bpf::arriving::{self, Xdp};
use crate::bpf::{fault, masks, sys};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use terms::{Fault, IfIndex};
use traffic::edge::Side;

/// How the program hangs at an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hanging {
    /// XDP in the device's driver; frames leave without a look at the kernel's own stack where the next device takes them.
    Native,
    /// The ingress of traffic control.
    Ingress,
}

impl FastPath {
    /// Hangs the program at what comes in by an interface of the calling thread's network namespace, for good: XDP in
    /// the device's driver where `native`, else at the ingress of traffic control.
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

    /// Takes the program from what comes in by an interface.
    ///
    /// # Errors
    /// The kernel will not.
    pub fn detach(&self, iif: IfIndex) -> Result<(), Fault> {
        [Hanging::Native, Hanging::Ingress].into_iter().try_for_each(|how| take_away(&self.link(iif, how)))
    }

    /// Hangs the program that polices sessions behind all others at the egress of an interface, again if it hangs there:
    /// after the flow program, which otherwise would wipe what this one says. Only that for flows of prefixes stays behind
    /// it, so that a session which lies in one has its own bucket.
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

    /// Takes it away.
    ///
    /// # Errors
    /// The kernel will not.
    pub fn leave_unpoliced(&self, oif: IfIndex) -> Result<(), Fault> {
        take_away(&self.pins.join(format!("{EGRESS_LINK}{}", oif.0)))
    }

    /// How the program hangs at what comes in by this interface, if it does.
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

    /// Gives what hangs there this build's programs; forgets the links of interfaces that have gone.
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

/// What the names of pinned links begin with.
const XDP_LINK: &str = "xdp_link_";
const INGRESS_LINK: &str = "ingress_link_";
const EGRESS_LINK: &str = "egress_link_";

/// Takes from their interfaces what an agent of another layout left, and forgets it: its sessions are reserved anew by
/// their next refresh.
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

/// Takes from their interfaces what is pinned in this directory, and forgets all of it.
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

/// Takes what hangs by a pinned link from its interface, at once; nothing if there is none.
fn take_away(path: &Path) -> Result<(), Fault> {
    let Ok(link) = sys::open_pinned(path) else { return Ok(()) };
    match sys::detach(link.as_fd()) {
        Err(error) if error.raw_os_error() != Some(libc::ENOLINK) => Err(fault("detach a program")(error)),
        _ => fs::remove_file(path).map_err(fault("unpin a program's link")),
    }
}
