//! For measurements: runs the XDP program on prepared messages, a different one in each run of a test run
//! (`bpf/parade.c`).

use super::FastPath;
use super::shared::{Shareable, Shared};
use crate::bpf::arriving::{self, Xdp};
use crate::bpf::{fault, map, refused, sys};
use aya::maps::{Array, Map, MapData};
use aya::programs::Xdp as XdpProgram;
use aya::{Ebpf, EbpfLoader};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use terms::{Fault, IfIndex};

/// The compiled programs.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/parade.o");

/// The program that only touches the row of a message's session.
pub static TOUCH: &[u8] = aya::include_bytes_aligned!("../../bpf/touch.o");

/// `struct step`: the fields in which two messages differ.
#[repr(C)]
#[derive(Debug)]
pub struct ScriptStep {
    words: [AtomicU32; 8],
}

// SAFETY: as demanded: `repr(C)`, 32 bytes of atomics.
unsafe impl Shareable for ScriptStep {}

impl ScriptStep {
    /// Takes the differing fields from an Ethernet frame of an IPv4 message with Router Alert.
    ///
    /// # Panics
    /// The frame is shorter than such a message.
    pub fn set(&self, frame: &[u8]) {
        let word = |at: usize| u32::from_ne_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let sums = u32::from_ne_bytes([frame[24], frame[25], frame[40], frame[41]]);
        let all = [26, 30, 50, 70, 74, 78].map(word).into_iter().chain([sums, 0]);
        self.words.iter().zip(all).for_each(|(place, value)| place.store(value, Relaxed));
    }
}

/// The loaded programs and maps for prepared messages.
pub struct PacketScript {
    parade: OwnedFd,
    forward: OwnedFd,
    sink: OwnedFd,
    arrived: Array<MapData, u64>,
    past: OwnedFd,
    steps: Shared<ScriptStep>,
    progress: Array<MapData, u64>,
}

impl PacketScript {
    /// Loads the programs with room for at most `most` messages.
    ///
    /// # Errors
    /// As [`FastPath::open`].
    pub fn open(most: u32) -> Result<PacketScript, Fault> {
        let mut object = EbpfLoader::new()
            .map_max_entries("steps", most)
            .load(OBJECT)
            .map_err(|error| refused("load the messages", &error))?;
        let (parade, forward) = (program(&mut object, "parade")?, program(&mut object, "forward")?);
        let sink = program(&mut object, "sink")?;
        let arrived = Array::try_from(map(&mut object, "arrived")?).map_err(|e| refused("open a map", &e))?;
        let held = |map: &MapData| map.fd().as_fd().try_clone_to_owned().map_err(fault("hold a map"));
        let (Map::Array(steps), Map::ProgramArray(past)) = (map(&mut object, "steps")?, map(&mut object, "past")?)
        else {
            return Err(Fault { what: "find a map of the right kind in the object", code: 0 });
        };
        let progress = Array::try_from(map(&mut object, "progress")?).map_err(|e| refused("open a map", &e))?;
        let (steps, past) = (held(&steps)?, held(&past)?);
        let steps = Shared::map(steps.as_fd(), most as usize).map_err(fault("map the messages into memory"))?;
        Ok(PacketScript { parade, forward, sink, arrived, past, steps, progress })
    }

    /// The messages, in their order.
    pub fn steps(&self) -> &[ScriptStep] {
        self.steps.all()
    }

    /// From now on the messages go to the XDP program of `path`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn past(&self, path: &FastPath) -> Result<(), Fault> {
        sys::put_program(self.past.as_fd(), 0, path.programs.xdp.as_fd())
            .map_err(fault("lead the messages past a program"))
    }

    /// From now on the messages go to the bare forwarder: the reference cost of any forwarding.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn past_forwarder(&self) -> Result<(), Fault> {
        sys::put_program(self.past.as_fd(), 0, self.forward.as_fd()).map_err(fault("lead the messages past a program"))
    }

    /// From now on the messages go to a program that only looks up and touches the row of each message's
    /// session in this table: the reference cost of memory for any program with such a table.
    ///
    /// # Errors
    /// As [`FastPath::open`].
    pub fn past_touch(&self, path: &FastPath) -> Result<(), Fault> {
        let mut object = EbpfLoader::new()
            .default_map_pin_directory(&path.pins)
            .load(TOUCH)
            .map_err(|error| refused("load the touch", &error))?;
        let touch = program(&mut object, "touch")?;
        sys::put_program(self.past.as_fd(), 0, touch.as_fd()).map_err(fault("lead the messages past a program"))
    }

    /// Runs `times` messages from number `first` of `count` on, as if they came in by `iif`; returns the mean
    /// time of a run, ns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn run(&mut self, frame: &[u8], iif: IfIndex, first: u32, count: u32, times: u32) -> Result<u32, Fault> {
        let progress = u64::from(first) | u64::from(count) << 32;
        self.progress.set(0, progress, 0).map_err(|error| refused("start the messages", &error))?;
        let ran = arriving::run_xdp(self.parade.as_fd(), frame, iif.0, times).map_err(fault("run the messages"))?;
        Ok(ran.nanos)
    }

    /// Attaches a program that counts and drops all frames to an interface, until the returned link is
    /// closed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sink(&self, iif: IfIndex) -> Result<OwnedFd, Fault> {
        arriving::attach_xdp(self.sink.as_fd(), iif.0, Xdp::Native).map_err(fault("attach the sink"))
    }

    /// The number of frames that reached a sink.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn arrived(&self) -> Result<u64, Fault> {
        self.arrived.get(&0, 0).map_err(|error| refused("read what arrived", &error))
    }

    /// Attaches the bare forwarder to an interface, until the returned link is closed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn forward(&self, iif: IfIndex) -> Result<OwnedFd, Fault> {
        arriving::attach_xdp(self.forward.as_fd(), iif.0, Xdp::Native).map_err(fault("attach the bare forwarder"))
    }
}

fn program(object: &mut Ebpf, name: &str) -> Result<OwnedFd, Fault> {
    let program: &mut XdpProgram = object
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or(Fault { what: "find a program in its object", code: 0 })?;
    program.load().map_err(|error| refused("load a program", &error))?;
    let fd = program.fd().map_err(|error| refused("hold a program", &error))?;
    fd.as_fd().try_clone_to_owned().map_err(fault("hold a program"))
}
