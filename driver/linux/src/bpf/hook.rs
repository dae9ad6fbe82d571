//! The attachment of a program to one side of an interface: a TCX link if the kernel has them (6.6 and
//! later), else a clsact filter.
//!
//! Both let the packet go on to other programs. A TCX link is pinned, or it ends with its process; a filter
//! persists by itself. A clsact that existed before stays; one that was made for us is removed with the last
//! filter in it. The tests of this crate ran on Linux 6.18 and on the 6.1 of Debian 12.

use super::sys;
use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use terms::{Fault, IfIndex};
use traffic::edge::Side;

/// The way of attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hook {
    /// A TCX link, or a clsact filter if the kernel has no TCX.
    #[default]
    Best,
    /// A clsact filter in any case.
    Clsact,
}

/// The paths of a program's notes and pins.
#[derive(Clone, Debug)]
pub struct HookPaths {
    /// The directory of pins in the bpffs.
    pub pins: PathBuf,
    /// The state directory, with a note for each clsact that was made for us.
    pub notes: PathBuf,
    /// The way of attachment.
    pub hook: Hook,
    /// The place at an interface.
    pub place: HookPoint,
}

/// The place of a program of ours at an interface, and its names there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookPoint {
    /// The side.
    pub side: Side,
    /// True: before all other programs there; false: after them.
    pub first: bool,
    /// The prefix of the names of its pinned links.
    pub link: &'static str,
    /// The name of its filter.
    pub filter: &'static str,
    /// The priority of its filter, which is also the handle.
    pub priority: u16,
}

impl HookPoint {
    /// The priorities of all filters of ours: edges', flows', prefixes'.
    const OURS: std::ops::RangeInclusive<u16> = super::entry::MAJOR - 1..=super::entry::MAJOR + 1;
    /// The place of the flow program.
    pub const FLOWS: HookPoint = HookPoint {
        side: Side::Egress,
        first: false,
        link: LINK,
        filter: "sluice_egress",
        priority: super::entry::MAJOR,
    };

    /// The place of the program for prefixes: after all others.
    pub const MASKS: HookPoint = HookPoint {
        side: Side::Egress,
        first: false,
        link: BEHIND,
        filter: "sluice_masks",
        priority: super::entry::MAJOR + 1,
    };

    /// The place of the edge program at a side; at the egress it is before the flow program, which reads the
    /// marks.
    pub fn edge(side: Side) -> HookPoint {
        let priority = super::entry::MAJOR - 1;
        match side {
            Side::Ingress => HookPoint { side, first: false, link: "edge_in_", filter: "sluice_edge_in", priority },
            Side::Egress => HookPoint { side, first: true, link: "edge_out_", filter: "sluice_edge_out", priority },
        }
    }

    fn at(&self) -> TcHandle {
        match self.side {
            Side::Ingress => TcHandle::INGRESS,
            Side::Egress => TcHandle::EGRESS,
        }
    }

    fn id(&self) -> (u16, u32) {
        (self.priority, u32::from(self.priority))
    }
}

const CLSACT: TcHandle = TcHandle::new(0xffff, 0);
/// The number of retries, and the pause between them, while the last link of a program is still being
/// released.
const RETRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(2);

impl HookPaths {
    /// Paths under this state directory.
    pub fn under(state_dir: &Path, pins: &Path, hook: Hook, place: HookPoint) -> HookPaths {
        HookPaths { pins: pins.to_owned(), notes: state_dir.to_owned(), hook, place }
    }

    /// Attaches the program to an interface of the calling thread's network namespace.
    pub fn attach(&self, socket: &mut Socket, program: BorrowedFd<'_>, oif: IfIndex) -> Result<(), Fault> {
        if self.hook == Hook::Clsact {
            return self.put_filter(socket, program, oif);
        }
        match self.attach_link(program, oif) {
            Ok(link) => {
                let path = self.link(oif);
                let _ = fs::remove_file(&path); // of an interface that had this index before
                sys::pin(link.as_fd(), &path).map_err(fault("pin a program's link"))
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.put_filter(socket, program, oif),
            Err(error) => Err(fault("attach a program to the interface (TCX)")(error)),
        }
    }

    /// Detaches the program from an interface at once. A program that is not attached is no error.
    pub fn detach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        let path = self.link(oif);
        if let Ok(link) = sys::open_pinned(&path) {
            match sys::detach(link.as_fd()) {
                Err(error) if error.raw_os_error() != Some(libc::ENOLINK) => {
                    return Err(fault("detach a program")(error));
                }
                _ => {} // done, or the interface had gone
            }
            fs::remove_file(path).map_err(fault("unpin a program's link"))?;
        }
        self.remove_filter(socket, oif)
    }

    /// True if this program is attached to the interface.
    pub fn is_attached(&self, socket: &mut Socket, program: u32, oif: IfIndex) -> bool {
        if self.is_linked(program, oif) {
            return true;
        }
        let filters = socket.filters(oif, self.place.at()).unwrap_or_default();
        filters.iter().any(|f| (f.priority, f.handle) == self.place.id() && f.program == Some(program))
    }

    /// True if it is attached there by a TCX link.
    pub fn is_linked(&self, program: u32, oif: IfIndex) -> bool {
        let place = sys::open_pinned(&self.link(oif)).and_then(|link| sys::link_place(link.as_fd()));
        place.is_ok_and(|place| (place.ifindex, place.program) == (oif.0, program))
    }

    /// Removes the links of interfaces that are gone; gives links with another program this one, without a
    /// gap. (For a filter of another program [`HookPaths::is_attached`] is false, and the repair of that
    /// replaces it.)
    pub fn renew(&self, program: BorrowedFd<'_>, id: u32) -> Result<(), Fault> {
        for file in fs::read_dir(&self.pins).map_err(fault("list the bpffs"))?.flatten() {
            if !file.file_name().to_string_lossy().starts_with(self.place.link) {
                continue;
            }
            let Ok(link) = sys::open_pinned(&file.path()) else { continue };
            let place = sys::link_place(link.as_fd()).map_err(fault("look at a pinned link"))?;
            if place.ifindex == 0 {
                fs::remove_file(file.path()).map_err(fault("unpin the link of an interface that has gone"))?;
            } else if place.program != id {
                sys::replace_program(link.as_fd(), program)
                    .map_err(fault("put a new program in the old one's place"))?;
            }
        }
        Ok(())
    }

    /// Attaches by a TCX link. A link that a killed agent had not pinned yet is released with a delay: wait
    /// for it.
    fn attach_link(&self, program: BorrowedFd<'_>, oif: IfIndex) -> io::Result<OwnedFd> {
        let mut tries = 0;
        loop {
            match sys::attach(program, oif.0, self.place.side, self.place.first) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) && tries < RETRIES => {
                    tries += 1;
                    std::thread::sleep(RETRY);
                }
                other => return other,
            }
        }
    }

    fn put_filter(&self, socket: &mut Socket, program: BorrowedFd<'_>, oif: IfIndex) -> Result<(), Fault> {
        // Noted first: a stop in between leaves a note without a clsact, not a clsact of nobody.
        let note = self.note(oif);
        let noted = note.exists();
        fs::write(&note, "").map_err(fault("note that clsact is ours"))?;
        match socket.add_qdisc(oif, CLSACT, TcHandle::CLSACT, &Discipline::Clsact) {
            Ok(()) => {}
            Err(error) if error.errno == libc::EEXIST && noted => {}
            Err(error) => {
                fs::remove_file(&note).map_err(fault("forget the note on clsact"))?;
                if error.errno != libc::EEXIST {
                    return Err(error.into());
                }
            }
        }
        Ok(socket.put_bpf_filter(oif, self.place.at(), self.place.id(), program, self.place.filter)?)
    }

    fn remove_filter(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        if self.filter_is_there(socket, oif) {
            socket.delete_bpf_filter(oif, self.place.at(), self.place.id())?;
        }
        let note = self.note(oif);
        if !note.exists() {
            return Ok(());
        }
        let mut left = socket.filters(oif, TcHandle::EGRESS).unwrap_or_default();
        left.extend(socket.filters(oif, TcHandle::INGRESS).unwrap_or_default());
        if left.iter().any(|filter| HookPoint::OURS.contains(&filter.priority)) {
            return Ok(()); // another program of ours is still there
        }
        if left.is_empty() {
            match socket.delete_qdisc(oif, CLSACT, TcHandle::CLSACT) {
                Err(error) if !error.is_absent() && error.errno != libc::EINVAL => return Err(error.into()),
                _ => {} // done, or the interface had gone
            }
        }
        fs::remove_file(note).map_err(fault("forget that clsact was ours"))
    }

    fn filter_is_there(&self, socket: &mut Socket, oif: IfIndex) -> bool {
        let filters = socket.filters(oif, self.place.at()).unwrap_or_default();
        filters.iter().any(|filter| (filter.priority, filter.handle) == self.place.id())
    }

    fn link(&self, oif: IfIndex) -> PathBuf {
        self.pins.join(format!("{}{}", self.place.link, oif.0))
    }

    fn note(&self, oif: IfIndex) -> PathBuf {
        self.notes.join(format!("clsact_{}", oif.0))
    }
}

/// The prefix of the names of the flow program's pinned links.
pub(super) const LINK: &str = "egress_";
/// The prefix of the names of the links of the program for prefixes.
pub(super) const BEHIND: &str = "behind_";

/// For `map_err`: makes a [`Fault`] of the operation that failed.
pub(crate) fn fault(what: &'static str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault { what, code: error.raw_os_error().unwrap_or(0) }
}
