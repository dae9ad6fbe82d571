//! XDP programs and ingress programs of traffic control: attaching them, and running them on prepared
//! packets.

use super::sys::{Attr, BPF_LINK_CREATE, BPF_PROG_TEST_RUN, SkBuff, bpf, owned, pair};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const BPF_XDP: u32 = 37;

/// The mode in which an XDP program is attached to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Xdp {
    /// In the device's driver.
    Native = 1 << 2,
    /// After the driver, on packets that the kernel has already received.
    Generic = 1 << 1,
}

/// Attaches an XDP program to an interface that has none.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, how: Xdp) -> io::Result<OwnedFd> {
    let mut attr: Attr = [0; 16];
    attr[0] = pair(program.as_raw_fd() as u32, ifindex);
    attr[1] = pair(BPF_XDP, how as u32);
    bpf(BPF_LINK_CREATE, &mut attr).map(owned)
}

/// The result of a run on an incoming packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The program's verdict.
    pub verdict: u32,
    /// The packet afterwards, link header first.
    pub packet: Vec<u8>,
    /// Mean time of a run, ns.
    pub nanos: u32,
}

/// Runs an XDP program on a packet (link header first) that comes in by `ifindex`, which must have an XDP
/// program (0: no particular interface). No packet is sent, whatever the verdict.
pub fn run_xdp(program: BorrowedFd<'_>, packet: &[u8], ifindex: u32, times: u32) -> io::Result<Ran> {
    // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
    let mut context = [0, packet.len() as u32, 0, ifindex, 0, 0];
    run_in(program, packet, (ifindex != 0).then_some(&mut context[..]), times)
}

/// Like [`run_xdp`], for a program at the ingress of traffic control.
pub fn run_ingress(program: BorrowedFd<'_>, packet: &[u8], ifindex: u32, times: u32) -> io::Result<Ran> {
    let mut context = SkBuff { words: [0; 48] };
    context.words[9] = ifindex;
    context.words[10] = ifindex;
    run_in(program, packet, Some(&mut context.words[..]), times)
}

fn run_in(program: BorrowedFd<'_>, packet: &[u8], context: Option<&mut [u32]>, times: u32) -> io::Result<Ran> {
    let mut out = vec![0; packet.len() + 256];
    let mut attr: Attr = [0; 16];
    attr[0] = u64::from(program.as_raw_fd() as u32); // prog_fd, retval
    attr[1] = pair(packet.len() as u32, out.len() as u32); // data_size_in, data_size_out
    attr[2] = packet.as_ptr() as u64; // data_in
    attr[3] = out.as_mut_ptr() as u64; // data_out
    attr[4] = u64::from(times); // repeat, duration
    if let Some(context) = context {
        let size = size_of_val(context) as u32;
        attr[5] = pair(size, size); // ctx_size_in, ctx_size_out
        attr[6] = context.as_mut_ptr() as u64; // ctx_in
        attr[7] = attr[6]; // ctx_out
    }
    bpf(BPF_PROG_TEST_RUN, &mut attr)?;
    out.truncate((attr[1] >> 32) as usize);
    Ok(Ran { verdict: (attr[0] >> 32) as u32, packet: out, nanos: (attr[4] >> 32) as u32 })
}
