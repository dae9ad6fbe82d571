//! Checkpoints on the wire: the times at which signalling messages pass one side of an interface
//! (`bpf/checkpoint.c`).
//!
//! Each [`Checkpoint`] has its own program on a TCX link (Linux 6.6), which ends with it; nothing is pinned.
//! The stamp is taken first, before the program reads the packet. The program costs about 0.2 us per
//! signalling message, which is part of any interval measured across it.

use super::{fault, refused, sys};
use aya::maps::{MapData, RingBuf};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};
use std::os::fd::{AsFd, OwnedFd};
use terms::{Fault, IfIndex};
use traffic::edge::Side;

/// The compiled program.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/checkpoint.o");

/// A message that passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The time of passage: the kernel's monotonic clock, ns.
    pub at: u64,
    /// The first bytes of the message, at most 128, from the IP header on.
    pub bytes: Vec<u8>,
}

/// A program that watches one side of one interface, until this is dropped.
pub struct Checkpoint {
    ring: RingBuf<MapData>,
    _link: OwnedFd,
    _program: Ebpf,
}

impl Checkpoint {
    /// Attaches the program in the network namespace of this thread: before all other programs at ingress,
    /// after all others at egress.
    ///
    /// # Errors
    /// A capability is missing (CAP_BPF, CAP_NET_ADMIN), there is no such interface, or the kernel has no TCX.
    pub fn hang(interface: IfIndex, side: Side) -> Result<Checkpoint, Fault> {
        let mut object =
            EbpfLoader::new().load(OBJECT).map_err(|error| refused("load the checkpoint program", &error))?;
        let program: &mut SchedClassifier = object
            .program_mut("sluice_checkpoint")
            .and_then(|program| program.try_into().ok())
            .ok_or(Fault { what: "the checkpoint program is not in its object", code: 0 })?;
        program.load().map_err(|error| refused("load the checkpoint program", &error))?;
        let fd = program.fd().map_err(|error| refused("hold the checkpoint program", &error))?;
        let first = side == Side::Ingress;
        let link = sys::attach(fd.as_fd(), interface.0, side, first).map_err(fault("attach a checkpoint (TCX)"))?;
        let map =
            object.take_map("seen").ok_or(Fault { what: "the checkpoint's map is not in its object", code: 0 })?;
        let ring = RingBuf::try_from(map).map_err(|error| refused("read a checkpoint", &error))?;
        Ok(Checkpoint { ring, _link: link, _program: object })
    }

    /// The next message that passed; `None` if there is none.
    pub fn take(&mut self) -> Option<Passed> {
        loop {
            let item = self.ring.next()?;
            let Some((head, bytes)) = item.split_first_chunk::<16>() else { continue };
            let at = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
            let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
            let bytes = bytes.get(..len).unwrap_or(bytes).to_vec();
            return Some(Passed { at, bytes });
        }
    }
}
