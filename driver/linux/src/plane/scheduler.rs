//! The schedulers that this kernel has.

use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use terms::Fault;

/// The handle that no qdisc of ours has.
const TRIED: TcHandle = TcHandle::new(0x5c1e, 0);

/// True if the kernel has HFSC (`sch_hfsc`).
///
/// # Errors
/// As [`has_scheduler`].
pub fn has_hfsc(socket: &mut Socket) -> Result<bool, Fault> {
    has_scheduler(socket, "hfsc")
}

/// True if the kernel has this scheduler, one that does not begin without options.
///
/// The loopback is offered one without them. The kernel looks the scheduler up (and loads its module) before it reads the
/// options, and the scheduler refuses to begin: so nothing is made, whatever the answer.
///
/// # Errors
/// The kernel refuses for another reason (`CAP_NET_ADMIN` is missing).
pub fn has_scheduler(socket: &mut Socket, kind: &str) -> Result<bool, Fault> {
    let oif = socket.link_by_name("lo")?.index;
    let tried = socket.replace_qdisc(oif, TRIED, TcHandle::ROOT, &Discipline::Other(kind.to_owned()));
    match tried.map_err(|error| (error.errno, error)) {
        Err((libc::EINVAL, _)) => Ok(true),
        Err((libc::ENOENT, _)) => Ok(false),
        Err((_, error)) => Err(error.into()),
        Ok(()) => {
            socket.delete_qdisc(oif, TRIED, TcHandle::ROOT)?;
            Ok(true)
        }
    }
}
