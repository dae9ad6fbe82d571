//! Recognition of flows that never signalled (`bpf/mace.c`): the program behind the flow program, its list of ports, its
//! events, and the bytes of each class as they come in.
//!
//! It is not pinned: an event without an agent has no reader, so the program goes with its process. Promoted flows are in
//! the flow map, which stays.

use super::entry::RawKey;
use super::{broken, classifier, fault, map, refused, sys};
use aya::EbpfLoader;
use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use terms::{Bytes, Fault, FlowKey, IfIndex, Span, WatchedPorts};
use traffic::edge::Side;
use traffic::plan::ClassId;

/// The compiled program.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/mace.o");

/// The candidates of a row.
const WAYS: usize = 4;
const PORTS: usize = 1 << 16;
/// The protocols of the list of ports, in its order.
const PROTOCOLS: [u8; 2] = [17, 6];

/// `struct settings`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawSettings {
    key: [u64; 2],
    mask: u32,
    quiet: u32,
}

// SAFETY: `repr(C)`, no padding (2 * 8 + 2 * 4 = 24, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawSettings {}

/// The loaded program and its maps.
pub struct FlowRecogniser {
    program: OwnedFd,
    link: Option<OwnedFd>,
    ports: Array<MapData, u32>,
    /// The thresholds that `ports` holds.
    watched: Vec<u32>,
    arrived: PerCpuArray<MapData, u64>,
    ring: RingBuf<MapData>,
}

impl FlowRecogniser {
    /// Loads the program with room for at least `candidates` flows (at most 2^22). One that was told is told again after
    /// `quiet` (whole seconds, rounded up). `key` keys the hash of the table.
    ///
    /// # Errors
    /// A capability is missing (CAP_BPF, CAP_NET_ADMIN), or the kernel lacks a feature of the program.
    pub fn open(candidates: usize, quiet: Span, key: [u64; 2]) -> Result<FlowRecogniser, Fault> {
        let rows = candidates.clamp(WAYS, 1 << 22).div_ceil(WAYS).next_power_of_two() as u32;
        let mut object = EbpfLoader::new()
            .map_max_entries("mace_rows", rows)
            .load(OBJECT)
            .map_err(|error| refused("load the program that recognises flows", &error))?;
        let program = classifier(&mut object, "sluice_mace")?;
        let mut settings: Array<MapData, RawSettings> = Array::try_from(map(&mut object, "mace_settings")?)
            .map_err(|error| broken("open the settings of recognition", &error))?;
        let quiet = u32::try_from(quiet.as_nanos().div_ceil(Span::NANOS_PER_SEC)).unwrap_or(u32::MAX / 2);
        let raw = RawSettings { key, mask: rows - 1, quiet };
        settings.set(0, raw, 0).map_err(|error| broken("write the settings of recognition", &error))?;
        let ring = match map(&mut object, "mace_told")? {
            ring @ Map::RingBuf(_) => RingBuf::try_from(ring),
            _ => return Err(Fault { what: "the ring of recognised flows is none", code: 0 }),
        };
        Ok(FlowRecogniser {
            program,
            link: None,
            ports: Array::try_from(map(&mut object, "mace_ports")?)
                .map_err(|error| broken("open the list of ports", &error))?,
            watched: vec![0; PROTOCOLS.len() * PORTS],
            arrived: PerCpuArray::try_from(map(&mut object, "mace_arrived")?)
                .map_err(|error| broken("open the counters of classes", &error))?,
            ring: ring.map_err(|error| broken("open the ring of recognised flows", &error))?,
        })
    }

    /// Attaches the program to the egress of an interface of this network namespace, behind all that is there; again, if it
    /// was attached.
    ///
    /// # Errors
    /// The kernel has no TCX links (before Linux 6.6), or refuses.
    pub fn attach(&mut self, oif: IfIndex) -> Result<(), Fault> {
        self.detach()?;
        let link = sys::attach(self.program.as_fd(), oif.0, Side::Egress, false)
            .map_err(fault("attach the program that recognises flows (needs TCX, Linux 6.6)"))?;
        self.link = Some(link);
        Ok(())
    }

    /// Detaches it at once; does nothing if it is not attached.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&mut self) -> Result<(), Fault> {
        let Some(link) = self.link.take() else { return Ok(()) };
        match sys::detach(link.as_fd()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOLINK) => Err(fault("detach a program")(error)),
            _ => Ok(()), // done, or the interface had gone
        }
    }

    /// Watches exactly these ports from now on.
    ///
    /// # Errors
    /// The kernel refuses; then some ports are as they were before.
    pub fn watch(&mut self, applications: &[WatchedPorts]) -> Result<(), Fault> {
        let mut wanted = vec![0; self.watched.len()];
        for application in applications {
            let Some(of) = PROTOCOLS.iter().position(|protocol| *protocol == application.protocol) else { continue };
            for port in application.ports.0..=application.ports.1 {
                wanted[of * PORTS + usize::from(port)] = application.threshold;
            }
        }
        for (at, threshold) in wanted.into_iter().enumerate() {
            if self.watched[at] != threshold {
                let written = self.ports.set(at as u32, threshold, 0);
                written.map_err(|error| broken("write the list of ports", &error))?;
                self.watched[at] = threshold;
            }
        }
        Ok(())
    }

    /// The bytes that a class has brought since the program was loaded, link headers included, on all processors.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn arrived(&self, class: ClassId) -> Result<Bytes, Fault> {
        let counted = self.arrived.get(&u32::from(class.0), 0);
        let counted = counted.map_err(|error| broken("read the counters of classes", &error))?;
        Ok(Bytes::new(counted.iter().fold(0, |sum: u64, bytes| sum.wrapping_add(*bytes))))
    }

    /// The next flow that has reached its threshold; `None` if there is none.
    pub fn next_recognised(&mut self) -> Option<(IfIndex, FlowKey)> {
        loop {
            let item = self.ring.next()?;
            if item.len() >= size_of::<RawKey>() {
                // SAFETY: the item has at least as many bytes, the read needs no alignment, and every bit pattern of a
                // `RawKey` is a value.
                let key = unsafe { std::ptr::read_unaligned(item.as_ptr().cast::<RawKey>()) };
                return Some(key.read());
            }
        }
    }

    /// A descriptor that is readable while a flow waits to be read.
    pub fn ring(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// The program, for test runs.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}
