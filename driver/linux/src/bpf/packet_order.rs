//! For measurements: runs a program of the egress on packets of many flows, of another one in each run of a test run
//! (`bpf/packets.c`).

use super::sys::{self, SkBuff};
use super::{broken, classifier, fault, map};
use aya::EbpfLoader;
use aya::maps::{Array, Map, MapData};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use terms::Fault;

/// The compiled program.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/packets.o");

/// `struct ends`.
type RawEnds = [[u8; 4]; 2];

/// The loaded program, and the packets in their order.
pub struct PacketOrder {
    leader: OwnedFd,
    ends: Array<MapData, RawEnds>,
    progress: Array<MapData, [u32; 2]>,
    past: MapData,
}

impl PacketOrder {
    /// Loads the program with room for `most` packets.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn open(most: u32) -> Result<PacketOrder, Fault> {
        let loaded = EbpfLoader::new().map_max_entries("packets_ends", most).load(OBJECT);
        let mut object = loaded.map_err(|error| super::refused("load the packets", &error))?;
        let leader = classifier(&mut object, "packets")?;
        let ends = map(&mut object, "packets_ends")?;
        let progress = map(&mut object, "packets_progress")?;
        let Map::ProgramArray(past) = map(&mut object, "packets_past")? else {
            return Err(Fault { what: "find a map of the right kind in the object", code: 0 });
        };
        Ok(PacketOrder {
            leader,
            ends: Array::try_from(ends).map_err(|e| broken("open the map of packets", &e))?,
            progress: Array::try_from(progress).map_err(|e| broken("open the map of progress", &e))?,
            past,
        })
    }

    /// Sets the source and destination of a packet.
    ///
    /// # Errors
    /// There is no room for one of this number.
    pub fn set(&mut self, number: u32, src: Ipv4Addr, dst: Ipv4Addr) -> Result<(), Fault> {
        self.ends.set(number, [src.octets(), dst.octets()], 0).map_err(|e| broken("set a packet", &e))
    }

    /// From now on the packets go to this program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn past(&self, program: BorrowedFd<'_>) -> Result<(), Fault> {
        sys::put_program(self.past.fd().as_fd(), 0, program).map_err(fault("lead the packets past a program"))
    }

    /// Runs `times` packets, the first `count` in turn, each an Ethernet frame like this one; returns the mean time of a
    /// run, ns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn run(&mut self, frame: &[u8], context: &mut SkBuff, count: u32, times: u32) -> Result<u32, Fault> {
        self.progress.set(0, [0, count], 0).map_err(|e| broken("start the packets", &e))?;
        let ran = sys::test_runs(self.leader.as_fd(), frame, context, times).map_err(fault("run the packets"))?;
        Ok(ran.1)
    }
}
