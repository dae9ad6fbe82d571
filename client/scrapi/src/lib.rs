//! libscrapi: the simplified RSVP interface (draft-lindell-rsvp-scrapi-02) for C programs, as `include/scrapi.h` says.
//!
//! Reading order: the header, [`flow`] (what a flow registers and what becomes of it), then the C functions here.
//! The library has no thread: it acts inside its functions, under one lock.

mod address;
pub mod flow;

use documents::agent::StyleDoc;
use flow::{Flow, FlowName, FlowStatus, LOCAL_ERRORS, ReceiverRequest, Service, Translation, traffic};
use rsvp_client::{Code, Failure};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_ulong};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The MTU where no interface tells one, bytes.
const USUAL_MTU: u32 = 1500;

/// The state of the library in this process.
#[derive(Debug)]
struct Library {
    pid: u32,
    flows: BTreeMap<FlowName, Flow>,
    agent: PathBuf,
    translation: Translation,
    last_error: i32,
    errors: Stream,
    events: Stream,
}

/// A C stream for lines of text.
#[derive(Clone, Copy, Debug)]
enum Stream {
    StandardError,
    Silent,
    File(*mut libc::FILE),
}

// SAFETY: a FILE may be used from every thread; its lifetime is the program's business.
unsafe impl Send for Stream {}

impl Stream {
    fn line(self, text: &str) {
        match self {
            Stream::StandardError => eprintln!("{text}"),
            Stream::Silent => {}
            Stream::File(file) => {
                let line = CString::new(format!("{text}\n").replace('\0', " ")).unwrap_or_default();
                // SAFETY: the program gave an open stream and keeps it open.
                unsafe {
                    libc::fputs(line.as_ptr(), file);
                    libc::fflush(file);
                }
            }
        }
    }

    fn of(file: *mut libc::FILE) -> Stream {
        if file.is_null() { Stream::Silent } else { Stream::File(file) }
    }
}

static LIBRARY: Mutex<Option<Library>> = Mutex::new(None);

/// The library's state. A child of a fork starts with none: its copies of the connections are closed already.
fn library() -> MutexGuard<'static, Option<Library>> {
    let mut guard = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.as_ref().is_none_or(|library| library.pid != std::process::id()) {
        // The parent's descriptors must not be closed a second time.
        std::mem::forget(guard.take());
        *guard = Some(Library {
            pid: std::process::id(),
            flows: BTreeMap::new(),
            agent: PathBuf::from(rpc::places::AGENT_SOCKET),
            translation: Translation::default(),
            last_error: 0,
            errors: Stream::StandardError,
            events: Stream::Silent,
        });
    }
    guard
}

/// Runs with the library's state. No panic crosses into C.
fn with<T>(call: impl FnOnce(&mut Library) -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(|| library().as_mut().map(call))).ok().flatten()
}

impl Library {
    /// Reads what has come for every flow.
    fn turn(&mut self) -> Result<(), Failure> {
        let (errors, events) = (self.errors, self.events);
        let mut result = Ok(());
        for (name, flow) in &mut self.flows {
            let before = flow.error();
            let turned = flow.turn(&mut |words| events.line(&words));
            if let Err(failure) = &turned {
                flow.failed(failure);
            }
            if flow.error() != before && flow.error() != 0 {
                errors.line(&format!("scrapi: {name}: {}", words(flow.error()).to_string_lossy()));
            }
            result = result.and(turned);
        }
        result
    }

    /// Carries out a call on a flow; a failure is the flow's error and the last one.
    fn on(&mut self, name: FlowName, call: impl FnOnce(&mut Flow, &Path) -> Result<(), Failure>) -> bool {
        let flow = self.flows.entry(name).or_insert_with(|| Flow::new(name));
        let result = call(flow, &self.agent);
        if let Err(failure) = &result {
            flow.failed(failure);
            self.errors.line(&format!("scrapi: {name}: {}", failure.words));
        }
        self.last_error = flow.error();
        if flow.is_idle() && result.is_ok() {
            self.flows.remove(&name);
        }
        result.is_ok()
    }
}

/// The flow that three arguments name.
///
/// # Safety
/// The addresses are null or as long as their families say.
unsafe fn name(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
) -> Result<FlowName, Failure> {
    // SAFETY: the caller's promise.
    let (to, from) = unsafe { (address::read(destination), address::read(source)) };
    let destination = to.ok_or_else(|| Failure::of(Code::Inval, "a destination is an address of IP"))?;
    if from.is_none() && !source.is_null() {
        return Err(Failure::of(Code::Inval, "a source is an address of IP, or NULL"));
    }
    let protocol = u8::try_from(protocol).ok().filter(|protocol| *protocol > 0);
    let protocol = protocol.ok_or_else(|| Failure::of(Code::BadProto, "this is no protocol of IP"))?;
    Ok(FlowName { destination, protocol, source: from })
}

/// Notes a failure that belongs to no flow; returns C's false.
fn failed(failure: &Failure) -> c_int {
    with(|library| {
        library.last_error = LOCAL_ERRORS + failure.code as i32;
        library.errors.line(&format!("scrapi: {}", failure.words));
    });
    0
}

/// Waits until a half of a flow is green or red, or the time is over; false: red.
fn wait(name: FlowName, sending: bool, msecs: c_ulong) -> bool {
    let deadline = Instant::now() + Duration::from_millis(msecs.min(u64::from(u32::MAX)));
    loop {
        let seen = with(|library| {
            // A failure is the flow's error, and its status tells.
            let _ = library.turn();
            let flow = library.flows.get(&name);
            let waits = flow.map(|flow| flow.descriptors().map(|fd| fd.as_raw_fd()).collect::<Vec<_>>());
            (flow.and_then(|flow| flow.half(sending)), waits.unwrap_or_default())
        });
        let Some((status, descriptors)) = seen else { return false };
        let left = deadline.saturating_duration_since(Instant::now());
        match status {
            Some(FlowStatus::Green) => return true,
            Some(FlowStatus::Yellow) if left.is_zero() => return true,
            Some(FlowStatus::Yellow) => {}
            Some(FlowStatus::Red) | None => return false,
        }
        let mut polled: Vec<libc::pollfd> =
            descriptors.into_iter().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let left = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX).max(1);
        // SAFETY: the array is as long as it says. A descriptor that another thread closed is told as such.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, left) };
    }
}

/// `scrapi_sender`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_sender(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
    bandwidth: f64,
    msecs: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = match unsafe { name(destination, protocol, source) } {
        Ok(name) => name,
        Err(failure) => return failed(&failure),
    };
    let done = with(|library| {
        let translation = library.translation;
        library.on(name, |flow, agent| {
            if bandwidth == 0.0 {
                flow.send_no_more();
                return Ok(());
            }
            flow.send(agent, traffic(bandwidth, largest_mtu(), translation)?)
        })
    });
    match done {
        Some(true) if bandwidth != 0.0 && msecs > 0 => wait(name, true, msecs).into(),
        Some(done) => done.into(),
        None => 0,
    }
}

/// `scrapi_receiver`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_receiver(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
    reserve: c_int,
    service: c_int,
    style: c_int,
    msecs: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = match unsafe { name(destination, protocol, source) } {
        Ok(name) => name,
        Err(failure) => return failed(&failure),
    };
    let service = match service {
        0 => Service::ControlledLoad,
        1 => Service::Guaranteed,
        _ => return failed(&Failure::of(Code::Inval, format!("{service} is no service"))),
    };
    let done = with(|library| {
        let style = match (style, library.translation) {
            (0, Translation::Draft) => StyleDoc::Wf,
            (0, Translation::Seed) => StyleDoc::Se,
            (1, _) => StyleDoc::Ff,
            _ => return failed_in(library, &Failure::of(Code::BadStyle, format!("{style} is no style"))),
        };
        library.on(name, |flow, agent| {
            if reserve == 0 {
                flow.receive_no_more();
                return Ok(());
            }
            flow.receive(agent, ReceiverRequest { service, style })
        })
    });
    match done {
        Some(true) if reserve != 0 && msecs > 0 => wait(name, false, msecs).into(),
        Some(done) => done.into(),
        None => 0,
    }
}

/// As [`failed`], where the lock is held.
fn failed_in(library: &mut Library, failure: &Failure) -> bool {
    library.last_error = LOCAL_ERRORS + failure.code as i32;
    library.errors.line(&format!("scrapi: {}", failure.words));
    false
}

/// `scrapi_close`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_close(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
) -> c_int {
    if destination.is_null() {
        return with(|library| library.flows.clear()).is_some().into();
    }
    // SAFETY: the caller's promise.
    match unsafe { name(destination, protocol, source) } {
        Ok(name) => with(|library| library.flows.remove(&name).is_some()).unwrap_or(false).into(),
        Err(failure) => failed(&failure),
    }
}

/// `scrapi_get_status`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_get_status(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
) -> c_int {
    // SAFETY: the caller's promise.
    let Ok(name) = (unsafe { name(destination, protocol, source) }) else { return 0 };
    let status = with(|library| library.flows.get(&name).map(Flow::status)).flatten();
    match status {
        None | Some(FlowStatus::Red) => 0,
        Some(FlowStatus::Yellow) => 1,
        Some(FlowStatus::Green) => 2,
    }
}

/// `scrapi_errno`.
///
/// # Safety
/// As `scrapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_errno(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { name(destination, protocol, source) };
    with(|library| match name {
        Ok(name) => library.flows.get(&name).map_or(0, Flow::error),
        Err(_) => library.last_error,
    })
    .unwrap_or(LOCAL_ERRORS + Code::Unknown as c_int)
}

/// An error in words.
fn words(error: c_int) -> &'static CStr {
    match error {
        0 => c"no error",
        1 => c"admission control refused: there is no room",
        2 => c"policy refused",
        3 => c"no path information for this reservation",
        4 => c"no sender information for this reservation",
        5 => c"conflicting reservation style",
        6 => c"unknown reservation style",
        7 => c"conflicting destination ports",
        8 => c"conflicting sender ports",
        12 => c"service preempted",
        13 => c"unknown object class",
        14 => c"unknown object C-Type",
        20 => c"the agent refused the call: an address is not this host's, or its lists do not fit",
        21 => c"traffic control error",
        22 => c"traffic control system error",
        23 => c"RSVP system error",
        257 => c"an argument is invalid",
        258 => c"too many flows",
        261 => c"there is no such style",
        262 => c"a system call failed",
        265 => c"no RSVP agent answers on this host",
        271 => c"this is no protocol of IP",
        _ => c"unknown error",
    }
}

/// `scrapi_errlist`.
#[unsafe(no_mangle)]
pub extern "C" fn scrapi_errlist(error: c_int) -> *const c_char {
    words(error).as_ptr()
}

/// `scrapi_perror`.
///
/// # Safety
/// As `scrapi.h` says; `text` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_perror(
    destination: *const libc::sockaddr,
    protocol: c_int,
    source: *const libc::sockaddr,
    text: *const c_char,
) {
    // SAFETY: the caller's promises.
    let (error, text) = unsafe {
        let text = if text.is_null() { "scrapi".into() } else { CStr::from_ptr(text).to_string_lossy() };
        (scrapi_errno(destination, protocol, source), text)
    };
    with(|library| library.errors.line(&format!("{text}: {}", words(error).to_string_lossy())));
}

/// `scrapi_stderr`.
///
/// # Safety
/// `stream` is null or a stream that stays open as long as the library uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_stderr(stream: *mut libc::FILE) {
    with(|library| library.errors = Stream::of(stream));
}

/// `scrapi_debug`.
///
/// # Safety
/// As [`scrapi_stderr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_debug(stream: *mut libc::FILE) {
    with(|library| library.events = Stream::of(stream));
}

/// `scrapi_poll_list`.
///
/// # Safety
/// `set` is null or a set for `select`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_poll_list(set: *mut libc::fd_set) {
    if set.is_null() {
        return;
    }
    with(|library| {
        for descriptor in library.flows.values().flat_map(Flow::descriptors) {
            let descriptor = descriptor.as_raw_fd();
            if usize::try_from(descriptor).is_ok_and(|descriptor| descriptor < libc::FD_SETSIZE) {
                // SAFETY: a valid set, and a descriptor that it has room for.
                unsafe { libc::FD_SET(descriptor, set) };
            }
        }
    });
}

/// `scrapi_dispatch`.
#[unsafe(no_mangle)]
pub extern "C" fn scrapi_dispatch() -> c_int {
    let turned = with(|library| {
        let turned = library.turn();
        if let Err(failure) = &turned {
            library.last_error = LOCAL_ERRORS + failure.code as i32;
        }
        turned.is_ok()
    });
    turned.unwrap_or(false).into()
}

/// `scrapi_translation`.
#[unsafe(no_mangle)]
pub extern "C" fn scrapi_translation(translation: c_int) {
    let translation = if translation == 1 { Translation::Seed } else { Translation::Draft };
    with(|library| library.translation = translation);
}

/// `scrapi_agent`.
///
/// # Safety
/// `socket` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scrapi_agent(socket: *const c_char) {
    // SAFETY: a C string, by the caller's promise.
    let socket = (!socket.is_null()).then(|| unsafe { CStr::from_ptr(socket) });
    let path =
        socket.map_or(Path::new(rpc::places::AGENT_SOCKET), |text| Path::new(OsStr::from_bytes(text.to_bytes())));
    with(|library| library.agent = path.to_owned());
}

/// The largest MTU of this host's interfaces but the loopback's, bytes.
fn largest_mtu() -> u32 {
    // The files of /sys tell of the namespace that mounted it, which may be another; the socket is of ours.
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0")) else { return USUAL_MTU };
    let mut largest = 0;
    // SAFETY: the list ends with an entry of zeros, and is freed once; each name is a C string that fits its field.
    unsafe {
        let list = libc::if_nameindex();
        let mut entry = list;
        while !entry.is_null() && !(*entry).if_name.is_null() {
            let mut request: libc::ifreq = std::mem::zeroed();
            let name = CStr::from_ptr((*entry).if_name).to_bytes_with_nul();
            for (to, from) in request.ifr_name.iter_mut().zip(name) {
                *to = *from as c_char;
            }
            if name != b"lo\0" && libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) == 0 {
                largest = largest.max(u32::try_from(request.ifr_ifru.ifru_mtu).unwrap_or(0));
            }
            entry = entry.add(1);
        }
        if !list.is_null() {
            libc::if_freenameindex(list);
        }
    }
    if largest == 0 { USUAL_MTU } else { largest }
}
