//! Queueing disciplines: RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC.

use super::{ECHO, HEADER, Stats, TCA_KIND, TCA_OPTIONS, TCA_STAB, TcHandle, header, stats};
use crate::netlink::message::{Attributes, NetlinkMessage, u16_at, u32_at};
use crate::netlink::socket::{Error, Reply, Result, Socket};
use terms::IfIndex;

/// The kind of a qdisc. Only kinds that we install are read in detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Hierarchical token bucket; unclassified packets go to the default class.
    Htb {
        /// The minor number of the default class.
        default: u16,
    },
    /// Hierarchical fair service curves; unclassified packets go to the default class, and are dropped without one.
    Hfsc {
        /// The minor number of the default class.
        default: u16,
        /// Bytes added to each packet for the link's overhead that the kernel does not count (a size table without
        /// rows, tc-stab(8)): HFSC has none of its own. The counters of its classes include them.
        overhead: u16,
    },
    /// A queue of limited length in packets.
    Pfifo {
        /// The most packets.
        limit: u32,
    },
    /// A queue of limited length in bytes, as the kernel counts them.
    Bfifo {
        /// The most bytes.
        limit: u32,
    },
    /// The hook for eBPF programs without TCX links.
    Clsact,
    /// Another kind, by its kernel name; made without options.
    Other(String),
}

impl Discipline {
    /// The kernel's name of the kind.
    pub fn name(&self) -> &str {
        match self {
            Discipline::Htb { .. } => "htb",
            Discipline::Hfsc { .. } => "hfsc",
            Discipline::Pfifo { .. } => "pfifo",
            Discipline::Bfifo { .. } => "bfifo",
            Discipline::Clsact => "clsact",
            Discipline::Other(name) => name,
        }
    }
}

/// A qdisc as the kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// Its interface.
    pub oif: IfIndex,
    /// Its handle; [`TcHandle::NONE`]: it is a default of the kernel.
    pub handle: TcHandle,
    /// [`TcHandle::ROOT`], or the class whose queue it is.
    pub parent: TcHandle,
    /// Its kind.
    pub discipline: Discipline,
    /// Its counters.
    pub stats: Stats,
}

const TCA_HTB_INIT: u16 = 2;
/// The version of HTB that the kernel accepts, and a divisor that has no effect if every quantum is given.
const HTB_VERSION: u32 = 3;
const HTB_RATE_TO_QUANTUM: u32 = 10;
const TCA_STAB_BASE: u16 = 1;
/// The length of `struct tc_sizespec`, and the place of its overhead.
const SIZESPEC: usize = 24;
const SIZESPEC_OVERHEAD: usize = 4;

impl Socket {
    /// All qdiscs of an interface.
    pub fn qdiscs(&mut self, oif: IfIndex) -> Result<Vec<Qdisc>> {
        let message = NetlinkMessage::new(libc::RTM_GETQDISC, 0, &header(oif, TcHandle::NONE, TcHandle::NONE));
        let replies = self.dump("list the qdiscs", message)?;
        Ok(replies.iter().filter_map(qdisc).filter(|q| q.oif == oif).collect())
    }

    /// The root qdisc of an interface; `None` if the kernel reports none (it is down and never had one).
    pub fn root_qdisc(&mut self, oif: IfIndex) -> Result<Option<Qdisc>> {
        const WHAT: &str = "look the root qdisc up";
        let message = NetlinkMessage::new(libc::RTM_GETQDISC, ECHO, &header(oif, TcHandle::NONE, TcHandle::ROOT));
        match self.get(WHAT, message) {
            Ok(reply) => qdisc(&reply).map(Some).ok_or(Error::strange(WHAT)),
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The queue of a class; `None`: the kernel's default.
    pub fn leaf_qdisc(&mut self, oif: IfIndex, class: TcHandle) -> Result<Option<Qdisc>> {
        const WHAT: &str = "look a class's queue up";
        let message = NetlinkMessage::new(libc::RTM_GETQDISC, ECHO, &header(oif, TcHandle::NONE, class));
        match self.get(WHAT, message) {
            Ok(reply) => qdisc(&reply).map(Some).ok_or(Error::strange(WHAT)),
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a qdisc in a place that has only the kernel's default.
    ///
    /// # Errors
    /// EEXIST: the place has a qdisc; ENOENT: this kernel has no such discipline.
    pub fn add_qdisc(&mut self, oif: IfIndex, handle: TcHandle, parent: TcHandle, what: &Discipline) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.request("add a qdisc", describe(flags, oif, handle, parent, what))
    }

    /// Changes the parameters of a qdisc; packets in it stay.
    ///
    /// # Errors
    /// EINVAL: another kind of queue has this handle; remove that one first.
    pub fn replace_qdisc(&mut self, oif: IfIndex, handle: TcHandle, parent: TcHandle, what: &Discipline) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.request("change a qdisc", describe(flags, oif, handle, parent, what))
    }

    /// Removes a qdisc; the kernel restores its default.
    pub fn delete_qdisc(&mut self, oif: IfIndex, handle: TcHandle, parent: TcHandle) -> Result<()> {
        self.request("remove a qdisc", NetlinkMessage::new(libc::RTM_DELQDISC, 0, &header(oif, handle, parent)))
    }
}

fn describe(flags: i32, oif: IfIndex, handle: TcHandle, parent: TcHandle, what: &Discipline) -> NetlinkMessage {
    let message = NetlinkMessage::new(libc::RTM_NEWQDISC, flags as u16, &header(oif, handle, parent))
        .attr_str(TCA_KIND, what.name());
    match what {
        Discipline::Htb { default } => {
            let mut init = Vec::new();
            for word in [HTB_VERSION, HTB_RATE_TO_QUANTUM, u32::from(*default), 0, 0] {
                init.extend_from_slice(&word.to_ne_bytes());
            }
            message.nest(TCA_OPTIONS, |m| m.attr(TCA_HTB_INIT, &init))
        }
        Discipline::Hfsc { default, overhead } => {
            let mut sizes = [0; SIZESPEC];
            sizes[SIZESPEC_OVERHEAD..][..4].copy_from_slice(&i32::from(*overhead).to_ne_bytes());
            message.attr(TCA_OPTIONS, &default.to_ne_bytes()).nest(TCA_STAB, |m| m.attr(TCA_STAB_BASE, &sizes))
        }
        Discipline::Pfifo { limit } | Discipline::Bfifo { limit } => message.attr_u32(TCA_OPTIONS, *limit),
        Discipline::Clsact | Discipline::Other(_) => message,
    }
}

pub(in crate::netlink) fn qdisc(reply: &Reply) -> Option<Qdisc> {
    if reply.ty != libc::RTM_NEWQDISC {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let limit = attributes.u32(TCA_OPTIONS).unwrap_or(0);
    let discipline = match attributes.string(TCA_KIND)?.as_str() {
        "htb" => {
            let init = attributes.nest(TCA_OPTIONS).get(TCA_HTB_INIT).unwrap_or(&[]);
            Discipline::Htb { default: u32_at(init, 8).unwrap_or(0) as u16 }
        }
        "hfsc" => {
            let sizes = attributes.nest(TCA_STAB).get(TCA_STAB_BASE).unwrap_or(&[]);
            let default = attributes.get(TCA_OPTIONS).and_then(|options| u16_at(options, 0)).unwrap_or(0);
            Discipline::Hfsc { default, overhead: u32_at(sizes, SIZESPEC_OVERHEAD).unwrap_or(0) as u16 }
        }
        "pfifo" => Discipline::Pfifo { limit },
        "bfifo" => Discipline::Bfifo { limit },
        "clsact" => Discipline::Clsact,
        other => Discipline::Other(other.to_owned()),
    };
    Some(Qdisc {
        oif: IfIndex(u32_at(&reply.body, 4)?),
        handle: TcHandle(u32_at(&reply.body, 8)?),
        parent: TcHandle(u32_at(&reply.body, 12)?),
        discipline,
        stats: stats(attributes),
    })
}
