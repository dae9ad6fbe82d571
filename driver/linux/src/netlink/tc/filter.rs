//! eBPF classifiers at clsact: RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER (`linux/pkt_cls.h`, tc-bpf(8)).
//!
//! They are the substitute for TCX links on older kernels, and persist without their process.

use super::{HEADER, TCA_KIND, TCA_OPTIONS, TcHandle, header};
use crate::netlink::message::{Attributes, NetlinkMessage, u32_at};
use crate::netlink::socket::{Reply, Result, Socket};
use std::os::fd::{AsRawFd, BorrowedFd};
use terms::IfIndex;

/// A filter as the kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcFilter {
    /// Its hook: [`TcHandle::EGRESS`] or [`TcHandle::INGRESS`].
    pub parent: TcHandle,
    /// Its position among the filters, lowest first.
    pub priority: u16,
    /// Its handle.
    pub handle: u32,
    /// The kernel's id of its eBPF program; `None`: another kind of filter.
    pub program: Option<u32>,
}

const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// The program's verdict is that of the filter.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// For packets of every protocol (ETH_P_ALL), network order.
const ALL_PROTOCOLS: u16 = 3u16.to_be();

impl Socket {
    /// Attaches a program to clsact, or replaces the program of the same priority and handle; no packet
    /// passes without a program.
    ///
    /// # Errors
    /// EINVAL or ENOENT: there is no clsact.
    pub fn put_bpf_filter(
        &mut self,
        oif: IfIndex,
        parent: TcHandle,
        at: (u16, u32),
        program: BorrowedFd<'_>,
        name: &str,
    ) -> Result<()> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let message = NetlinkMessage::new(libc::RTM_NEWTFILTER, flags, &head(oif, parent, at))
            .attr_str(TCA_KIND, "bpf")
            .nest(TCA_OPTIONS, |m| {
                m.attr_u32(TCA_BPF_FD, program.as_raw_fd() as u32)
                    .attr_str(TCA_BPF_NAME, name)
                    .attr_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
            });
        self.request("put an eBPF filter", message)
    }

    /// Removes the filter of this priority and handle.
    pub fn delete_bpf_filter(&mut self, oif: IfIndex, parent: TcHandle, at: (u16, u32)) -> Result<()> {
        let message = NetlinkMessage::new(libc::RTM_DELTFILTER, 0, &head(oif, parent, at)).attr_str(TCA_KIND, "bpf");
        self.request("remove an eBPF filter", message)
    }

    /// All filters of this hook; none if there is no clsact.
    pub fn filters(&mut self, oif: IfIndex, parent: TcHandle) -> Result<Vec<TcFilter>> {
        let message = NetlinkMessage::new(libc::RTM_GETTFILTER, 0, &head(oif, parent, (0, 0)));
        match self.dump("list the filters", message) {
            Ok(replies) => Ok(replies.iter().filter_map(filter).filter(|f| f.handle != 0).collect()),
            Err(error) if matches!(error.errno, libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => Ok(vec![]),
            Err(error) => Err(error),
        }
    }
}

fn head(oif: IfIndex, parent: TcHandle, (priority, handle): (u16, u32)) -> [u8; HEADER] {
    let mut bytes = header(oif, TcHandle(handle), parent);
    let info = u32::from(priority) << 16 | if priority == 0 { 0 } else { u32::from(ALL_PROTOCOLS) };
    bytes[16..20].copy_from_slice(&info.to_ne_bytes());
    bytes
}

pub(in crate::netlink) fn filter(reply: &Reply) -> Option<TcFilter> {
    if reply.ty != libc::RTM_NEWTFILTER {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let bpf = attributes.string(TCA_KIND).as_deref() == Some("bpf");
    Some(TcFilter {
        handle: u32_at(&reply.body, 8)?,
        parent: TcHandle(u32_at(&reply.body, 12)?),
        priority: (u32_at(&reply.body, 16)? >> 16) as u16,
        program: if bpf { attributes.nest(TCA_OPTIONS).u32(TCA_BPF_ID) } else { None },
    })
}
