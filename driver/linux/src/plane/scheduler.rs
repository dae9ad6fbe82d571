//! The schedulers that this kernel has.

use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use terms::Fault;

/// The links that are made for a try. A namespace has one agent, so what has these names is an earlier one's, which was
/// stopped in its try.
const ENDS: [&str; 2] = ["sluice-try0", "sluice-try1"];

/// True if the kernel has HFSC (`sch_hfsc`): it is tried on a pair of links that are made for it and removed.
///
/// # Errors
/// No such pair can be made, or the kernel refuses for another reason (`CAP_NET_ADMIN` is missing).
pub fn has_hfsc(socket: &mut Socket) -> Result<bool, Fault> {
    if let Ok(left) = socket.link_by_name(ENDS[0]) {
        socket.delete_link(left.index)?;
    }
    socket.add_veth(ENDS[0], ENDS[1], None)?;
    let oif = socket.link_by_name(ENDS[0])?.index;
    let root = Discipline::Hfsc { default: 1, overhead: 0 };
    let tried = socket.add_qdisc(oif, TcHandle::new(1, 0), TcHandle::ROOT, &root);
    socket.delete_link(oif)?;
    match tried {
        Ok(()) => Ok(true),
        Err(error) if error.errno == libc::ENOENT => Ok(false),
        Err(error) => Err(error.into()),
    }
}
