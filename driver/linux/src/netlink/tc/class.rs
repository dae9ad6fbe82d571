//! Classes of HTB and HFSC: RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS.
//!
//! Rates are bytes/s, as in the kernel. HTB's bursts are *times* in the kernel: the duration of the burst at the
//! rate, in ticks of 64 ns; so a burst is read back exactly as it was written. `tc` goes through a table of
//! sizes and reads back other numbers than it wrote.

use super::hfsc::{self, HfscClass};
use super::{ECHO, HEADER, Stats, TCA_KIND, TCA_OPTIONS, TcHandle, header, stats};
use crate::netlink::message::{Attributes, NetlinkMessage, u32_at};
use crate::netlink::socket::{Error, Reply, Result, Socket};
use terms::IfIndex;

/// The tick of the packet scheduler, ns.
pub const TICK_NS: u64 = 64;

/// The parameters of an HTB class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtbClass {
    /// The guaranteed rate, bytes/s; not zero.
    pub rate: u64,
    /// The maximum rate, bytes/s; not below `rate`.
    pub ceil: u64,
    /// The duration of its burst at `rate`, ticks.
    pub burst: u32,
    /// The duration of its burst at `ceil`, ticks.
    pub ceil_burst: u32,
    /// Bytes per turn among classes that borrow.
    pub quantum: u32,
    /// Priority among classes that borrow, 0 first, at most 7.
    pub prio: u32,
    /// Bytes added to each packet for the link's overhead that the kernel does not count.
    pub overhead: u16,
}

/// The parameters of a class, by the discipline it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassKind {
    /// A class of HTB.
    Htb(HtbClass),
    /// A class of HFSC.
    Hfsc(HfscClass),
}

impl ClassKind {
    /// The parameters of an HTB class.
    pub fn htb(&self) -> Option<HtbClass> {
        if let ClassKind::Htb(htb) = self { Some(*htb) } else { None }
    }

    /// The parameters of an HFSC class.
    pub fn hfsc(&self) -> Option<HfscClass> {
        if let ClassKind::Hfsc(hfsc) = self { Some(*hfsc) } else { None }
    }

    fn name(&self) -> &'static str {
        match self {
            ClassKind::Htb(_) => "htb",
            ClassKind::Hfsc(_) => "hfsc",
        }
    }
}

/// A class as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcClass {
    /// Its interface.
    pub oif: IfIndex,
    /// Its handle.
    pub handle: TcHandle,
    /// Its parent class; if its parent is the qdisc itself, [`TcHandle::ROOT`] of HTB, the qdisc's handle of HFSC.
    pub parent: TcHandle,
    /// The handle of its queue; [`TcHandle::NONE`]: the kernel's default, or it has children.
    pub leaf: TcHandle,
    /// Its parameters; `None` if it is a class of another discipline.
    pub kind: Option<ClassKind>,
    /// Its counters.
    pub stats: Stats,
}

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// The length of `struct tc_ratespec`; two of them begin `struct tc_htb_opt`.
const RATESPEC: usize = 12;
/// The link layer whose packet lengths need no table.
const LINKLAYER_ETHERNET: u8 = 1;

impl Socket {
    /// All classes of an interface. HFSC lists its root as a class too, which is none of them.
    pub fn classes(&mut self, oif: IfIndex) -> Result<Vec<TcClass>> {
        let message = NetlinkMessage::new(libc::RTM_GETTCLASS, 0, &header(oif, TcHandle::NONE, TcHandle::NONE));
        let replies = self.dump("list the classes", message)?;
        Ok(replies.iter().filter_map(class).filter(|c| c.oif == oif && c.handle.minor() != 0).collect())
    }

    /// One class; `None` if it does not exist.
    pub fn class(&mut self, oif: IfIndex, handle: TcHandle) -> Result<Option<TcClass>> {
        const WHAT: &str = "look a class up";
        match self.get(WHAT, NetlinkMessage::new(libc::RTM_GETTCLASS, ECHO, &header(oif, handle, TcHandle::NONE))) {
            Ok(reply) => class(&reply).map(Some).ok_or(Error::strange(WHAT)),
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a class. The kernel silently places a class whose parent is absent elsewhere: read it back
    /// afterwards.
    ///
    /// # Errors
    /// EEXIST: the class exists.
    pub fn add_class(&mut self, oif: IfIndex, handle: TcHandle, parent: TcHandle, kind: &ClassKind) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.request("add a class", describe(flags, oif, handle, parent, kind))
    }

    /// Changes the parameters of a class; its counters and its queue stay.
    ///
    /// # Errors
    /// ENOENT: the class does not exist.
    pub fn change_class(&mut self, oif: IfIndex, handle: TcHandle, parent: TcHandle, kind: &ClassKind) -> Result<()> {
        self.request("change a class", describe(0, oif, handle, parent, kind))
    }

    /// Removes a class.
    ///
    /// # Errors
    /// EBUSY: it has children.
    pub fn delete_class(&mut self, oif: IfIndex, handle: TcHandle) -> Result<()> {
        self.request(
            "remove a class",
            NetlinkMessage::new(libc::RTM_DELTCLASS, 0, &header(oif, handle, TcHandle::NONE)),
        )
    }
}

fn describe(flags: i32, oif: IfIndex, handle: TcHandle, parent: TcHandle, kind: &ClassKind) -> NetlinkMessage {
    NetlinkMessage::new(libc::RTM_NEWTCLASS, flags as u16, &header(oif, handle, parent))
        .attr_str(TCA_KIND, kind.name())
        .nest(TCA_OPTIONS, |m| match kind {
            ClassKind::Htb(htb) => write_htb(htb, m),
            ClassKind::Hfsc(hfsc) => hfsc::write(hfsc, m),
        })
}

fn write_htb(htb: &HtbClass, into: NetlinkMessage) -> NetlinkMessage {
    let mut parms = Vec::with_capacity(44);
    for rate in [htb.rate, htb.ceil] {
        parms.extend_from_slice(&[0, LINKLAYER_ETHERNET]);
        parms.extend_from_slice(&htb.overhead.to_ne_bytes());
        parms.extend_from_slice(&[0; 4]);
        parms.extend_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    }
    for word in [htb.burst, htb.ceil_burst, htb.quantum, 0, htb.prio] {
        parms.extend_from_slice(&word.to_ne_bytes());
    }
    into.attr(TCA_HTB_PARMS, &parms).attr_u64(TCA_HTB_RATE64, htb.rate).attr_u64(TCA_HTB_CEIL64, htb.ceil)
}

pub(in crate::netlink) fn class(reply: &Reply) -> Option<TcClass> {
    if reply.ty != libc::RTM_NEWTCLASS {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let options = attributes.nest(TCA_OPTIONS);
    let kind = match attributes.string(TCA_KIND).as_deref() {
        Some("htb") => read_htb(options).map(ClassKind::Htb),
        Some("hfsc") => Some(ClassKind::Hfsc(hfsc::read(options))),
        _ => None,
    };
    Some(TcClass {
        oif: IfIndex(u32_at(&reply.body, 4)?),
        handle: TcHandle(u32_at(&reply.body, 8)?),
        parent: TcHandle(u32_at(&reply.body, 12)?),
        leaf: TcHandle(u32_at(&reply.body, 16)?),
        kind,
        stats: stats(attributes),
    })
}

fn read_htb(options: Attributes<'_>) -> Option<HtbClass> {
    let parms = options.get(TCA_HTB_PARMS)?;
    let word = |at: usize| u32_at(parms, at);
    let narrow = |at: usize| word(at).map(u64::from);
    Some(HtbClass {
        rate: options.u64(TCA_HTB_RATE64).or_else(|| narrow(8))?,
        ceil: options.u64(TCA_HTB_CEIL64).or_else(|| narrow(RATESPEC + 8))?,
        burst: word(2 * RATESPEC)?,
        ceil_burst: word(2 * RATESPEC + 4)?,
        quantum: word(2 * RATESPEC + 8)?,
        prio: word(2 * RATESPEC + 16)?,
        overhead: u16::from_ne_bytes([*parms.get(2)?, *parms.get(3)?]),
    })
}
