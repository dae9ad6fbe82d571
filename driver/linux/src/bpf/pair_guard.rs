//! The frames of a pair that a plane in user space serves: the host's own stack never takes them, and what happens to them
//! when the plane is dead is decided before it dies.
//!
//! A packet socket sees a frame before traffic control does. So a filter of two to four instructions at the ingress of both
//! ends is enough: it drops every frame (*closed*), or sends it to the other end (*open*). It outlives the process. While the
//! plane lives, *open* has a second program in front that drops, on a TCX link that ends with the process.

use super::sys::{self, Attr, bpf, owned, pair};
use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use terms::{Fault, IfIndex};
use traffic::edge::Side;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";
/// `TC_ACT_SHOT`.
const DROP: u32 = 2;
/// The helper `bpf_redirect(ifindex, flags)`.
const REDIRECT: u32 = 23;
/// Behind the filters of the kernel's plane.
const PRIORITY: u16 = super::entry::MAJOR + 2;
const PLACE: (u16, u32) = (PRIORITY, PRIORITY as u32);
const CLSACT: TcHandle = TcHandle::new(0xffff, 0);

/// The fate of a pair's frames while no plane lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenDead {
    /// They are dropped.
    #[default]
    Closed,
    /// The kernel passes them from end to end, unqueued and unpoliced.
    Open,
}

/// The filters of a pair, and what holds them back while this lives.
#[derive(Debug)]
pub struct PairGuard {
    _holds: Vec<OwnedFd>,
}

impl PairGuard {
    /// Puts the filters at both ends, in this thread's network namespace; those of an earlier plane are replaced.
    ///
    /// # Errors
    /// A capability is missing (CAP_BPF, CAP_NET_ADMIN), or the kernel has no TCX (Linux 6.6), which *open* needs.
    pub fn put(ends: [IfIndex; 2], when_dead: WhenDead) -> Result<PairGuard, Fault> {
        let fault = super::hook::fault;
        let mut holds = Vec::new();
        let drop_all = load(&[set(0, DROP), EXIT]).map_err(fault("load the filter of a pair"))?;
        if when_dead == WhenDead::Open {
            for end in ends {
                let held = sys::attach(drop_all.as_fd(), end.0, Side::Ingress, true);
                holds.push(
                    held.map_err(fault("hold the kernel's path back (TCX, Linux 6.6; else when_dead = \"closed\")"))?,
                );
            }
        }
        let mut socket = Socket::open()?;
        for [from, to] in [ends, [ends[1], ends[0]]] {
            match socket.add_qdisc(from, CLSACT, TcHandle::CLSACT, &Discipline::Clsact) {
                Err(error) if error.errno != libc::EEXIST => return Err(error.into()),
                _ => {}
            }
            let program = match when_dead {
                WhenDead::Closed => None,
                WhenDead::Open => Some(
                    load(&[set(1, to.0), set(2, 0), call(REDIRECT), EXIT])
                        .map_err(fault("load the filter of a pair"))?,
                ),
            };
            let program = program.as_ref().unwrap_or(&drop_all);
            socket.put_bpf_filter(from, TcHandle::INGRESS, PLACE, program.as_fd(), "sluice_pair")?;
        }
        Ok(PairGuard { _holds: holds })
    }

    /// Removes the filters of a pair.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(ends: [IfIndex; 2]) -> Result<(), Fault> {
        let mut socket = Socket::open()?;
        for end in ends {
            let ingress = socket.filters(end, TcHandle::INGRESS)?;
            if ingress.iter().any(|filter| (filter.priority, filter.handle) == PLACE) {
                socket.delete_bpf_filter(end, TcHandle::INGRESS, PLACE)?;
                let left = [TcHandle::INGRESS, TcHandle::EGRESS].map(|at| socket.filters(end, at).map(|all| all.len()));
                if let [Ok(0), Ok(0)] = left {
                    socket.delete_qdisc(end, CLSACT, TcHandle::CLSACT)?;
                }
            }
        }
        Ok(())
    }
}

/// `exit`.
const EXIT: u64 = 0x95;

/// `r = value`.
const fn set(register: u8, value: u32) -> u64 {
    0xb7 | (register as u64) << 8 | (value as u64) << 32
}

/// `call helper`.
const fn call(helper: u32) -> u64 {
    0x85 | (helper as u64) << 32
}

fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let mut attr: Attr = [0; 16];
    attr[0] = pair(BPF_PROG_TYPE_SCHED_CLS, program.len() as u32);
    attr[1] = program.as_ptr() as u64;
    attr[2] = LICENCE.as_ptr() as u64;
    bpf(BPF_PROG_LOAD, &mut attr).map(owned)
}
