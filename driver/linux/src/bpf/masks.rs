//! Flows of prefixes at the egress: the list of their shapes, and the program that looks them up (`bpf/masks.h`), which hangs
//! behind all others there, and only where there are such flows.

use super::entry::{RawKey, RawKinds};
use super::hook::{HookPaths, HookPoint};
use super::{broken, fault, present, sys};
use crate::netlink::Socket;
use aya::maps::{HashMap, Map, MapData};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use terms::{Fault, FlowKey, IfIndex};
use traffic::shapes::{MOST_SHAPES, Shape, Shapes};

/// What the name of the pinned program begins with.
pub(super) const PROGRAM: &str = "masks_";
/// And the names of its links.
pub(super) const LINK: &str = "behind_";

/// `struct shapes`: which bits of a packet's key count, the closest shape first.
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
    /// Notes that a flow of this kind came or went.
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
    /// With what was loaded or found pinned beside the flow program's.
    pub(super) fn assemble(flows: &HookPaths, program: OwnedFd, shapes: Map) -> Result<Masks, Fault> {
        let id = sys::program_id(program.as_fd()).map_err(fault("look at the program for prefixes"))?;
        let shapes = HashMap::try_from(shapes).map_err(|e| broken("open the map of shapes", &e))?;
        Ok(Masks { hooks: HookPaths { place: HookPoint::MASKS, ..flows.clone() }, program, id, shapes })
    }

    /// The program, for test runs.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// What hangs by an older build's program gets this one.
    pub(super) fn renew(&self) -> Result<(), Fault> {
        self.hooks.renew(self.program(), self.id)
    }

    /// Whether the program hangs at the egress of this interface.
    pub fn is_attached(&self, socket: &mut Socket, oif: IfIndex) -> bool {
        self.hooks.is_attached(socket, self.id, oif)
    }

    /// Hangs it there behind all others, again if it hangs there.
    ///
    /// # Errors
    /// The kernel will not.
    pub fn attach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.detach(socket, oif)?;
        self.hooks.attach(socket, self.program(), oif)
    }

    /// Takes it away; where it does not hang, nothing happens.
    ///
    /// # Errors
    /// The kernel will not.
    pub fn detach(&self, socket: &mut Socket, oif: IfIndex) -> Result<(), Fault> {
        self.hooks.detach(socket, oif)
    }

    /// Says which shapes the flows of an interface have: before the first of a shape comes, after the last went.
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

    /// Forgets the shapes of interfaces that are not `kept`, and takes the program from them.
    ///
    /// # Errors
    /// The kernel will not.
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

/// Where the link of the program at this interface is pinned, if it hangs there, under the bpffs at `mount`.
pub fn link_at(mount: &Path, oif: IfIndex) -> Option<OwnedFd> {
    let path: PathBuf = mount.join(super::LAYOUT).join(format!("{LINK}{}", oif.0));
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

impl RawKey {
    /// Keeps nothing, of no family: the end of the list.
    const NOTHING: RawKey = RawKey {
        ifindex: 0,
        src: [0; 16],
        dst: [0; 16],
        src_port: [0; 2],
        dst_port: [0; 2],
        protocol: 0,
        family: 0,
        wild: [0; 2],
    };

    /// The bits that count of the keys of a shape.
    fn keeping(shape: &Shape) -> RawKey {
        let port = |any: bool| if any { [0; 2] } else { [0xff; 2] };
        RawKey {
            ifindex: u32::MAX,
            src: leading(shape.is_ipv6, shape.src_wild),
            dst: leading(shape.is_ipv6, shape.dst_wild),
            src_port: port(shape.any_src_port),
            dst_port: port(shape.any_dst_port),
            protocol: if shape.any_protocol { 0 } else { 0xff },
            family: if shape.is_ipv6 { 6 } else { 4 },
            wild: [shape.src_wild, shape.dst_wild],
        }
    }
}

/// The bits of an address that count, as it lies in a key.
fn leading(is_ipv6: bool, wild: u8) -> [u8; 16] {
    let ones = (if is_ipv6 { 128_u32 } else { 32 }).saturating_sub(u32::from(wild));
    u128::MAX.checked_shl(128 - ones).unwrap_or(0).to_be_bytes()
}
