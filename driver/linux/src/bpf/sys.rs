//! The eBPF system calls that are made directly (bpf(2)): links (by interface index; the kernel reports a
//! lost interface), pins, and test runs on prepared packets.

use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use traffic::edge::Side;

const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
pub(super) const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
pub(super) const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
/// Attach before all programs that are there already.
const BPF_F_BEFORE: u32 = 1 << 3;
/// The reference for the order is a link.
const BPF_F_LINK: u32 = 1 << 13;
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// `union bpf_attr`, of which each command reads its own beginning; the rest must be zero.
pub(super) type Attr = [u64; 16];

pub(super) fn bpf(command: libc::c_long, attr: &mut Attr) -> io::Result<i32> {
    // SAFETY: `attr` is valid for the length given; the commands used here keep no pointer beyond the call, and
    // every pointer put into `attr` is to memory that its caller keeps alive and of the length that it states.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of::<Attr>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

pub(super) fn owned(fd: i32) -> OwnedFd {
    // SAFETY: `fd` was just returned by the kernel and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(super) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Attaches a program after all others, or before them (`first`), at one side of an interface of the calling
/// thread's network namespace. It stays attached as long as the link is open or pinned.
pub fn attach(program: BorrowedFd<'_>, ifindex: u32, side: Side, first: bool) -> io::Result<OwnedFd> {
    let place = match side {
        Side::Ingress => BPF_TCX_INGRESS,
        Side::Egress => BPF_TCX_EGRESS,
    };
    let mut attr: Attr = [0; 16];
    attr[0] = pair(program.as_raw_fd() as u32, ifindex);
    attr[1] = pair(place, if first { BPF_F_BEFORE } else { 0 });
    bpf(BPF_LINK_CREATE, &mut attr).map(owned)
}

/// Attaches a program right before that of another link.
pub fn attach_before(program: BorrowedFd<'_>, ifindex: u32, side: Side, other: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let place = match side {
        Side::Ingress => BPF_TCX_INGRESS,
        Side::Egress => BPF_TCX_EGRESS,
    };
    let mut attr: Attr = [0; 16];
    attr[0] = pair(program.as_raw_fd() as u32, ifindex);
    attr[1] = pair(place, BPF_F_BEFORE | BPF_F_LINK);
    attr[2] = u64::from(other.as_raw_fd() as u32);
    bpf(BPF_LINK_CREATE, &mut attr).map(owned)
}

/// Replaces the program of a link; no packet passes without a program.
pub fn replace_program(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr: Attr = [0; 16];
    attr[0] = pair(link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    bpf(BPF_LINK_UPDATE, &mut attr).map(drop)
}

/// Detaches a link's program at once; merely closing the last reference to a link detaches it later.
pub fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr: Attr = [0; 16];
    attr[0] = u64::from(link.as_raw_fd() as u32);
    bpf(BPF_LINK_DETACH, &mut attr).map(drop)
}

/// Pins an object in a bpffs, where it outlives its process.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attr: Attr = [0; 16];
    attr[0] = path.as_ptr() as u64;
    attr[1] = u64::from(object.as_raw_fd() as u32);
    bpf(BPF_OBJ_PIN, &mut attr).map(drop)
}

/// Opens a pinned object.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attr: Attr = [0; 16];
    attr[0] = path.as_ptr() as u64;
    bpf(BPF_OBJ_GET, &mut attr).map(owned)
}

fn describe(object: BorrowedFd<'_>) -> io::Result<[u32; 64]> {
    let mut about = [0u32; 64];
    let mut attr: Attr = [0; 16];
    attr[0] = pair(object.as_raw_fd() as u32, size_of_val(&about) as u32);
    attr[1] = about.as_mut_ptr() as u64;
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(about)
}

/// The interface and the program of a TCX link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkPlace {
    /// The interface; 0 if it has gone.
    pub ifindex: u32,
    /// The kernel's id of the program.
    pub program: u32,
}

/// Reads the interface and the program of a TCX link.
pub fn link_place(link: BorrowedFd<'_>) -> io::Result<LinkPlace> {
    let about = describe(link)?; // struct bpf_link_info: type, id, prog_id, -, tcx.ifindex
    Ok(LinkPlace { ifindex: about[4], program: about[2] })
}

/// Puts a program into a program array, for tail calls.
pub fn put_program(array: BorrowedFd<'_>, index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    let mut attr: Attr = [0; 16];
    attr[0] = u64::from(array.as_raw_fd() as u32);
    attr[1] = std::ptr::from_ref(&index) as u64;
    attr[2] = std::ptr::from_ref(&program) as u64;
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// The most entries of a map.
pub fn map_room(map: BorrowedFd<'_>) -> io::Result<u32> {
    let about = describe(map)?; // struct bpf_map_info: type, id, key_size, value_size, max_entries
    Ok(about[4])
}

/// The kernel's memory for a map, bytes.
pub fn map_memory(map: BorrowedFd<'_>) -> io::Result<u64> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()))?;
    let charged = about.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    charged.ok_or_else(|| io::Error::other("the kernel does not say a map's memory"))
}

/// The kernel's id of a program.
pub fn program_id(program: BorrowedFd<'_>) -> io::Result<u32> {
    let about = describe(program)?; // struct bpf_prog_info: type, id
    Ok(about[1])
}

/// Runs a program on a packet (link header first) that leaves as `context` says; returns its verdict. For
/// tests: no packet is sent.
pub fn test_run(program: BorrowedFd<'_>, packet: &[u8], context: &mut SkBuff) -> io::Result<i32> {
    test_runs(program, packet, context, 1).map(|(verdict, _)| verdict)
}

/// Like [`test_run`]; also returns the packet as the program left it.
pub fn test_run_through(program: BorrowedFd<'_>, packet: &[u8], context: &mut SkBuff) -> io::Result<(i32, Vec<u8>)> {
    let mut out = vec![0; packet.len() + 256];
    let (verdict, _) = test_runs_into(program, packet, context, 1, &mut out)?;
    Ok((verdict, out))
}

/// Like [`test_run`], `times` times; also returns the mean time of a run, ns.
pub fn test_runs(program: BorrowedFd<'_>, packet: &[u8], context: &mut SkBuff, times: u32) -> io::Result<(i32, u32)> {
    test_runs_into(program, packet, context, times, &mut Vec::new())
}

fn test_runs_into(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: &mut SkBuff,
    times: u32,
    out: &mut Vec<u8>,
) -> io::Result<(i32, u32)> {
    let mut attr: Attr = [0; 16];
    attr[0] = u64::from(program.as_raw_fd() as u32); // prog_fd, retval
    attr[1] = pair(packet.len() as u32, out.len() as u32); // data_size_in, data_size_out
    attr[2] = packet.as_ptr() as u64; // data_in
    attr[3] = if out.is_empty() { 0 } else { out.as_mut_ptr() as u64 }; // data_out
    attr[4] = u64::from(times); // repeat, duration
    attr[5] = pair(size_of::<SkBuff>() as u32, size_of::<SkBuff>() as u32); // ctx_size_in, ctx_size_out
    let at = std::ptr::from_mut(context) as u64;
    attr[6] = at; // ctx_in
    attr[7] = at; // ctx_out
    bpf(BPF_PROG_TEST_RUN, &mut attr)?;
    out.truncate((attr[1] >> 32) as usize);
    Ok(((attr[0] >> 32) as i32, (attr[4] >> 32) as u32))
}

/// `struct __sk_buff`: a program's view of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SkBuff {
    pub(super) words: [u32; 48],
}

impl SkBuff {
    /// A packet that leaves by `ifindex` with this priority; it has `gso_segs` segments of `gso_size` bytes
    /// if not 0.
    pub fn leaving(ifindex: u32, priority: u32, gso_segs: u32, gso_size: u32) -> SkBuff {
        let mut words = [0; 48];
        words[8] = priority;
        words[10] = ifindex;
        words[41] = gso_segs;
        words[44] = gso_size;
        SkBuff { words }
    }

    /// The same packet, having come in by this interface; one from [`SkBuff::leaving`] alone is sent by this
    /// host.
    #[must_use]
    pub fn from(mut self, ifindex: u32) -> SkBuff {
        self.words[9] = ifindex;
        self
    }

    /// The same packet, of which the flow program has read the headers and knows no flow (`bpf/packet.h`).
    #[must_use]
    pub fn read(mut self, protocol: u8, (src_port, dst_port): (u16, u16)) -> SkBuff {
        const READ: u32 = 0x100;
        self.words[13] = u32::from(src_port) << 16 | u32::from(dst_port);
        self.words[14] = READ | u32::from(protocol);
        self
    }

    /// The words that programs leave for those behind them.
    pub fn scratch(&self) -> [u32; 5] {
        [12, 13, 14, 15, 16].map(|at| self.words[at])
    }

    /// The priority with which the packet leaves.
    pub fn priority(&self) -> u32 {
        self.words[8]
    }
}

/// Mounts a bpffs on `dir` unless it has one.
pub fn mount_bpffs(dir: &Path) -> io::Result<()> {
    if is_bpffs(dir)? {
        return Ok(());
    }
    Ok(rustix::mount::mount(c"sluice", dir, c"bpf", MountFlags::empty(), c"mode=0700")?)
}

/// True if the file system of `dir` is also mounted in process 1's mount namespace, and so outlives the
/// processes of this one. `None`: it cannot be determined.
pub fn outlives_us(dir: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(dir).ok()?.dev();
    let mounts = std::fs::read_to_string("/proc/1/mountinfo").ok()?;
    Some(is_mounted(&mounts, libc::major(device), libc::minor(device)))
}

/// True if a text in the form of `/proc/PID/mountinfo` (proc(5)) lists this device, as the third word of a
/// line.
fn is_mounted(mounts: &str, major: u32, minor: u32) -> bool {
    let wanted = format!("{major}:{minor}");
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(wanted.as_str()))
}

/// Unmounts the bpffs from `dir`; its pinned objects end unless another reference holds them.
pub fn unmount_bpffs(dir: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(dir, UnmountFlags::DETACH)?)
}

/// True if `dir` is on a bpffs.
pub fn is_bpffs(dir: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statfs(dir)?.f_type as i64 == BPF_FS_MAGIC)
}

/// Waits until every eBPF program that runs now has ended (`membarrier(2)`, `MEMBARRIER_CMD_GLOBAL`: the kernel waits
/// for all readers of RCU, and programs are such readers). Takes about 20 ms.
pub fn wait_for_programs() {
    const GLOBAL: libc::c_int = 1;
    // SAFETY: no memory is passed.
    if unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } != 0 {
        // A kernel that keeps processors free of its own work (`nohz_full`) has no such call. A program runs for
        // microseconds, and is not put aside for longer than a scheduler's period.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mounts = "22 28 0:20 / /sys rw,nosuid shared:2 - sysfs sysfs rw\n\
                      31 28 0:205 / /var/lib/sluice/bpf rw shared:9 - bpf sluice rw,mode=700\n";
        assert!(is_mounted(mounts, 0, 205) && is_mounted(mounts, 0, 20));
        assert!(!is_mounted(mounts, 0, 2) && !is_mounted(mounts, 20, 0) && !is_mounted("", 0, 20));
        // proc(5) is mounted wherever a program looks at it by way of /proc.
        assert_eq!(outlives_us(Path::new("/nowhere/at/all")), None);
    }
}
