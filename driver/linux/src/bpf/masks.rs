//! Flows of prefixes at the egress: the list of their shapes, and the program that looks them up
//! (`bpf/masks.h`). It is attached after all others, and only to interfaces that have such flows.

use super::entry::{RawKey, RawKinds};
use super::hook::{BEHIND, HookPaths, HookPoint};
use super::{broken, fault, present, sys};
use crate::netlink::Socket;
use aya::maps::{HashMap, Map, MapData};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use terms::{Fault, FlowKey, IfIndex};
use traffic::shapes::{MOST_SHAPES, Shapes};

/// The prefix of the name of the pinned program.
pub(super) const PROGRAM: &str = "masks_";

/// `struct shapes`: the relevant bits of a packet's key, the closest shape first.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawShapes {
    keep: [RawKey; MOST_SHAPES],
}

// SAFETY: `repr(C)`, an array of `RawKey`, which has no padding and of which every bit pattern is a value.
unsafe impl aya::Pod for RawShapes {}

const _: () = assert!(size_of::<RawShapes>() == MOST_SHAPES * 44);

impl RawShapes {
    /// The shapes of an interface.
    pub fn new(shapes: &Shapes) -> RawShapes {
        let mut keep = [RawKey::NOTHING; MOST_SHAPES];
        for (keep, shape) in keep.iter_mut().zip(shapes.iter()) {
            *keep = RawKey::keeping(&shape);
        }
        RawShapes { keep }
    }
}

impl RawKinds {
    /// Counts one more flow of this kind, or one less.
    pub fn count(&mut self, flow: &FlowKey, comes: bool) {
        let flows = match (flow.is_of_any_sender(), flow.src_port == 0 && flow.dst_port == 0) {
            _ if flow.is_masked() => return,
            _ if flow.is_of_any_source_port() => &mut self.of_any_source_port,
            (true, true) => &mut self.of_any_sender_without_ports,
            (true, false) => &mut self.of_any_sender,
            (false, true) => &mut self.without_ports,
            (false, false) => return,
        };
        *flows = if comes { flows.saturating_add(1) } else { flows.saturating_sub(1) };
    }
}

/// The program and its map.
pub struct Masks {
    hooks: HookPaths,
    program: OwnedFd,
    id: u32,
    shapes: HashMap<MapData, u32, RawShapes>,
}

impl Masks {
    /// Puts together the program and the map that were loaded or found pinned beside those of the flow
    /// program.
    pub(super) fn assemble(flows: &HookPaths, program: OwnedFd, shapes: Map) -> Result<Masks, Fault> {
        let id = sys::program_id(program.as_fd()).map_err(fault("look at the program for prefixes"))?;
        let shapes = HashMap::try_from(shapes).map_err(|e| broken("open the map of shapes", &e))?;
        Ok(Masks { hooks: HookPaths { place: HookPoint::MASKS, ..flows.clone() }, program, id, shapes })
    }

    /// The program, for test runs.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Replaces an older build's program on all links by this one.
    pub(super) fn renew(&self) -> Result<(), Fault> {
        self.hooks.renew(self.program(), self.id)
    }

    /// The map of shapes.
    pub(super) fn shapes_mut(&mut self) -> &mut HashMap<MapData, u32, RawShapes> {
        &mut self.shapes
    }

    /// True if the program is attached to the egress of this interface.
    pub fn is_attached(&self, socket: &mut Socket, oif: IfIndex) -> bool {
        self.hooks.is_attached(socket, self.id, oif)
    }

    /// Attaches it after all other programs there, again if it is already attached.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.detach(socket, oif)?;
        self.hooks.attach(socket, self.program(), oif)
    }

    /// Detaches it; does nothing if it is not attached.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.hooks.detach(socket, oif)
    }

    /// Sets the shapes of an interface's flows. Call it before the first flow of a shape is added and after
    /// the last is removed.
    ///
    /// # Errors
    /// The map is full.
    pub fn put(&mut self, oif: IfIndex, shapes: &Shapes) -> Result<(), Fault> {
        if shapes.is_empty() {
            return present(self.shapes.remove(&oif.0), "remove from the map of shapes").map(drop);
        }
        let raw = RawShapes::new(shapes);
        self.shapes.insert(oif.0, raw, 0).map_err(|error| broken("write the map of shapes", &error))
    }

    /// Detaches the program from interfaces that are not `kept`, and removes their shapes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_only(&mut self, socket: &mut Socket, kept: impl Fn(IfIndex) -> bool) -> Result<(), Fault> {
        let there: Result<Vec<u32>, _> = self.shapes.keys().collect();
        for oif in there.map_err(|error| broken("read the map of shapes", &error))? {
            if !kept(IfIndex(oif)) {
                self.detach(socket, IfIndex(oif))?;
                self.put(IfIndex(oif), &Shapes::default())?;
            }
        }
        Ok(())
    }
}

/// The pinned link of the program at this interface, under the bpffs at `mount`; `None` if it is not
/// attached.
pub fn link_at(mount: &Path, oif: IfIndex) -> Option<OwnedFd> {
    let path: PathBuf = mount.join(super::LAYOUT).join(format!("{BEHIND}{}", oif.0));
    let link = sys::open_pinned(&path).ok()?;
    sys::link_place(link.as_fd()).is_ok_and(|place| place.ifindex == oif.0).then_some(link)
}

/// Unpins the programs of other builds and pins this one.
pub(super) fn pin_alone(dir: &Path, program: BorrowedFd<'_>, prefix: &str, name: &str) -> Result<(), Fault> {
    for file in fs::read_dir(dir).map_err(fault("list the bpffs"))?.flatten() {
        if file.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(file.path()).map_err(fault("unpin an older flow program"))?;
        }
    }
    sys::pin(program, &dir.join(name)).map_err(fault("pin the flow program"))
}
