//! A pair on real interfaces: opened, run by the clock, asleep when there is nothing to do.

use crate::link::WireSpec;
use crate::pair::FramePair;
use crate::way::{FrameWay, UnfitTree};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::frames::PacketFrames;
use linux::netlink::Socket;
use linux::poll::{Poll, PollInterest, Token};
use std::os::fd::AsFd;
use terms::{Span, Time};
use traffic::tree::TreeSpec;

/// Ethernet header and two VLAN tags, bytes.
pub(crate) const LINK_HEADER: usize = 14 + 8;
/// The token of what else is watched.
const WATCHED: Token = Token(2);

/// The parts of a live pair.
#[derive(Clone, Debug)]
pub struct LiveSpec {
    /// The two interfaces: where packets come in, and where they go.
    pub ends: [String; 2],
    /// The tree of each direction, with its seed.
    pub trees: [Option<(TreeSpec, u64)>; 2],
    /// The wire of each direction.
    pub wires: [WireSpec; 2],
    /// How long it looks for frames without sleeping after the last one.
    pub spin: Span,
}

/// A reason why a pair cannot go live.
#[derive(Debug)]
pub enum NotLive {
    /// A direction cannot be made.
    UnfitTree(UnfitTree),
    /// The kernel refuses.
    System(SystemError),
    /// The interface cannot be one of a pair: why, and what to do.
    Interface(String),
}

impl std::fmt::Display for NotLive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotLive::UnfitTree(unfit) => write!(f, "{unfit}"),
            NotLive::System(error) => write!(f, "{error}"),
            NotLive::Interface(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for NotLive {}

impl From<SystemError> for NotLive {
    fn from(error: SystemError) -> NotLive {
        NotLive::System(error)
    }
}

/// A pair at work.
#[derive(Debug)]
pub struct LivePair {
    pair: FramePair<PacketFrames>,
    poll: Poll,
    clock: Clock,
    spin: Span,
    /// The time of the last turn.
    last: Time,
}

impl LivePair {
    /// Opens two interfaces of this thread's network namespace.
    ///
    /// # Errors
    /// [`NotLive`].
    pub fn open(spec: LiveSpec, clock: Clock) -> Result<LivePair, NotLive> {
        let mtu = check(&spec.ends)?;
        let [there, back] = spec.trees;
        let (now, room) = (clock.now(), mtu as usize + LINK_HEADER);
        let there = FrameWay::new(there, spec.wires[0], room, now).map_err(NotLive::UnfitTree)?;
        let back = FrameWay::new(back, spec.wires[1], room, now).map_err(NotLive::UnfitTree)?;
        let ends = [PacketFrames::open(&spec.ends[0])?, PacketFrames::open(&spec.ends[1])?];
        let mut poll = Poll::new(clock)?;
        for (number, end) in ends.iter().enumerate() {
            poll.add(end, Token(number as u64), PollInterest::Read)?;
        }
        Ok(LivePair { pair: FramePair::new(ends, [there, back]), poll, clock, spin: spec.spin, last: now })
    }

    /// Also wakes, and returns from [`LivePair::run`], when this descriptor has data.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&mut self, fd: &impl AsFd) -> Result<(), SystemError> {
        self.poll.add(fd, WATCHED, PollInterest::Read)
    }

    /// Carries frames until `until`, or until what is watched has data: true.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(&mut self, until: Time) -> Result<bool, SystemError> {
        let mut busy = self.clock.now();
        let mut look = 0u32;
        loop {
            let now = self.clock.now();
            self.last = now;
            let turn = self.pair.turn(now)?;
            if now >= until {
                return Ok(false);
            }
            if turn.moved > 0 {
                busy = now;
            }
            look += 1;
            let awake = turn.moved > 0 || now < busy + self.spin;
            // Even a busy pair looks up now and then, or a flood would keep signals out.
            if awake && look < 1_024 {
                continue;
            }
            look = 0;
            let wake = if awake { Time::ZERO } else { turn.wake.map_or(until, |wake| wake.min(until)) };
            if self.poll.wait(Some(wake))?.iter().any(|ready| ready.token == WATCHED) {
                return Ok(true);
            }
        }
    }

    /// The time up to which everything was sent that was due.
    pub fn last_turn(&self) -> Time {
        self.last
    }

    /// The pair, with what the kernel dropped counted in.
    pub fn counted(&mut self) -> &FramePair<PacketFrames> {
        self.pair.count_missed();
        &self.pair
    }
}

/// Checks that both are there, are two, are Ethernet, and that the kernel does not route by them itself. Returns the MTU.
pub(crate) fn check(ends: &[String; 2]) -> Result<u32, NotLive> {
    let refuse = |words: String| Err(NotLive::Interface(words));
    if ends[0] == ends[1] {
        return refuse(format!("{} twice: a plane joins two interfaces", ends[0]));
    }
    let open = |error: linux::netlink::Error| SystemError::netlink("ask about links")(error);
    let mut socket = Socket::open().map_err(open)?;
    let mut mtu = 0;
    for name in ends {
        let link = socket.link_by_name(name).map_err(SystemError::netlink(format!("find the interface {name}")))?;
        if link.hardware != 1 {
            return refuse(format!("{name} is no Ethernet interface: a plane forwards Ethernet frames"));
        }
        let addresses = socket.addresses().map_err(open)?;
        if let Some(own) = addresses.iter().find(|a| a.index == link.index && a.address.is_ipv4()) {
            return refuse(format!(
                "{name} has the address {}: this host would answer beside the plane; remove it, or take another interface",
                own.address
            ));
        }
        mtu = mtu.max(link.mtu);
    }
    Ok(mtu)
}
