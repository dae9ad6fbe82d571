//! librapi: the RSVP application interface of The Open Group (C809) for C programs, as `include/rapi.h` says.
//!
//! Reading order: the header, `rsvp_client` (one session at the agent), [`upcall`] (the arguments of upcalls), then
//! the C functions here. `librsvp` of other systems talks to its daemon; this one to the agent's
//! local socket, in its JSON protocol.

mod errors;
mod intserv;
mod objects;
mod table;
pub mod upcall;
mod words;

use documents::agent::{SenderId, SessionId, StyleDoc};
use objects::{HEADER, RapiObject, form};
use rsvp_client::session::{self, ReserveRequest, RsvpSession, SenderOffer, SessionUpcall};
use rsvp_client::{Code, Failure};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicPtr;
use table::{SessionEntry, Table, lock};

const VERSION: c_int = 600;
const USE_INTSERV: c_uint = 0x10;
const GPI_SESSION: c_uint = 0x40;
const REQ_CONFIRM: c_uint = 0x20;
const UDP: u8 = 17;
const ESP: u8 = 50;
const AH: u8 = 51;
/// The most filters and flowspecs of one call; the agent takes no more.
const MOST_OBJECTS: c_int = 64;
/// The longest object, bytes.
const MOST_LENGTH: usize = 1 << 16;

/// `rapi_event_rtn_t`.
type Routine = unsafe extern "C" fn(
    c_uint,
    c_int,
    c_int,
    c_int,
    c_int,
    *mut c_void,
    c_uint,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// The program's routine and its argument.
#[derive(Clone, Copy, Debug)]
struct Upward {
    routine: Option<Routine>,
    argument: *mut c_void,
}

// SAFETY: the argument is only handed back to the program, which says in which thread by calling rapi_dispatch.
unsafe impl Send for Upward {}

static TABLE: AtomicPtr<Table<Upward>> = AtomicPtr::new(std::ptr::null_mut());

fn table() -> &'static Table<Upward> {
    Table::of_this_process(&TABLE)
}

/// Runs a call. No panic crosses into C.
fn result_of(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(call));
    let failure = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::of(Code::Unknown, "librapi broke; this is its fault"),
    };
    if let Some(errno) = failure.errno {
        // SAFETY: errno's place is valid in every thread.
        unsafe { *libc::__errno_location() = errno };
    }
    failure.code as c_int
}

/// The address in a `sockaddr`.
///
/// # Safety
/// `address` is null or a `sockaddr` as long as its family says.
unsafe fn address(address: *const c_void) -> Result<(IpAddr, u16), Failure> {
    if address.is_null() {
        return Err(Failure::of(Code::Inval, "an address is missing"));
    }
    // SAFETY: every sockaddr begins with its family.
    let family = i32::from(unsafe { address.cast::<u16>().read_unaligned() });
    let length = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        other => return Err(Failure::of(Code::Inval, format!("{other} is no address family of IP"))),
    };
    // SAFETY: as long as its family says, by the caller's promise.
    objects::read_socket_address(unsafe { std::slice::from_raw_parts(address.cast(), length) })
}

/// The object at a pointer, and the pointer after it.
///
/// # Safety
/// `object` is null or a RAPI object as long as its header says.
unsafe fn object<'a>(object: *const c_void) -> Result<(RapiObject<'a>, *const c_void), Failure> {
    if object.is_null() {
        return Err(Failure::of(Code::Inval, "an object is missing"));
    }
    // SAFETY: every object begins with its length and its format.
    let header = unsafe { object.cast::<[u32; 2]>().read_unaligned() };
    let length = header[0] as usize;
    if !(HEADER..=MOST_LENGTH).contains(&length) {
        return Err(Failure::of(Code::ObjLen, format!("an object says that it is {length} bytes long")));
    }
    // SAFETY: as long as its header says, by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(object.cast::<u8>(), length) };
    // SAFETY: one past the end of the same object.
    let next = unsafe { object.byte_add(length) };
    Ok((RapiObject { form: header[1], body: bytes.get(HEADER..).unwrap_or_default() }, next))
}

/// `count` objects back to back.
///
/// # Safety
/// `first` points to `count` objects.
unsafe fn list<'a>(count: c_int, first: *const c_void) -> Result<Vec<RapiObject<'a>>, Failure> {
    match count {
        0 => return Ok(Vec::new()),
        n if n < 0 => return Err(Failure::of(Code::Inval, "a negative number of objects")),
        n if n > MOST_OBJECTS => return Err(Failure::of(Code::Overflow, "too many objects")),
        _ => {}
    }
    let (mut found, mut at) = (Vec::new(), first);
    for _ in 0..count {
        // SAFETY: the caller's promise.
        let (one, next) = unsafe { object(at) }?;
        found.push(one);
        at = next;
    }
    Ok(found)
}

fn no_policy(policy: *const c_void) -> Result<(), Failure> {
    let none = policy.is_null();
    none.then_some(()).ok_or_else(|| Failure::of(Code::Unsupported, "policy data is not carried"))
}

/// `rapi_session`.
///
/// # Safety
/// As `rapi.h` says: `dest` is a `sockaddr`, `errnop` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_session(
    dest: *const c_void,
    protocol: c_int,
    flags: c_uint,
    routine: Option<Routine>,
    argument: *mut c_void,
    errnop: *mut c_int,
) -> c_uint {
    let mut number = 0;
    let code = result_of(|| {
        // SAFETY: the caller's promise.
        let (dst, dst_port) = unsafe { address(dest) }?;
        let protocol = match protocol {
            0 => UDP,
            n => u8::try_from(n).map_err(|_| Failure::of(Code::BadProto, format!("{n} is no protocol of IP")))?,
        };
        let gpi = flags & GPI_SESSION != 0;
        if gpi != matches!(protocol, ESP | AH) {
            return Err(Failure::of(Code::GpiSess, "GPI sessions are those of ESP and AH"));
        }
        if gpi && dst_port == 0 {
            return Err(Failure::of(Code::BadVdPort, "a session of ESP or AH needs a virtual destination port"));
        }
        let session = RsvpSession::open(&table().socket(), SessionId { dst, protocol, dst_port })?;
        let routine = Upward { routine, argument };
        number = table().add(SessionEntry { session, gpi, intserv: flags & USE_INTSERV != 0, routine });
        Ok(())
    });
    if !errnop.is_null() {
        // SAFETY: valid for a write, by the caller's promise.
        unsafe { errnop.write(code) };
    }
    number
}

/// `rapi_sender`.
///
/// # Safety
/// As `rapi.h` says: pointers are null, or a `sockaddr` and objects as long as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_sender(
    sid: c_uint,
    _flags: c_uint,
    host: *const c_void,
    template: *const c_void,
    tspec: *const c_void,
    adspec: *const c_void,
    policy: *const c_void,
    ttl: c_int,
) -> c_int {
    result_of(|| {
        let shared = table().get(sid)?;
        let mut entry = lock(&shared);
        if host.is_null() {
            return entry.session.send_no_more();
        }
        no_policy(policy)?;
        if !adspec.is_null() {
            // SAFETY: the caller's promise.
            let (given, _) = unsafe { object(adspec) }?;
            if given.form != form::EMPTY {
                return Err(Failure::of(Code::Unsupported, "the agent makes the ADSPEC of a sender"));
            }
        }
        // SAFETY: the caller's promise.
        let (host, template) = unsafe { (address(host)?, filter_or_none(template)?) };
        let sender = sender_of(&entry, host, template)?;
        if tspec.is_null() {
            return Err(Failure::of(Code::NoTspec, "a sender needs a Tspec"));
        }
        // SAFETY: the caller's promise.
        let tspec = unsafe { object(tspec) }?.0.tspec()?;
        let ttl = u8::try_from(ttl).map_err(|_| Failure::of(Code::Inval, format!("{ttl} is no TTL")))?;
        entry.session.send(SenderOffer { sender, tspec, ttl })
    })
}

/// # Safety
/// `template` is null or a RAPI object.
unsafe fn filter_or_none(template: *const c_void) -> Result<Option<(SenderId, bool)>, Failure> {
    if template.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let (given, _) = unsafe { object(template) }?;
    if given.form == form::EMPTY { Ok(None) } else { given.filter().map(Some) }
}

/// The sender's address: the template's, else the local host's, else that of the route to the destination.
fn sender_of(
    entry: &SessionEntry<Upward>,
    (host, port): (IpAddr, u16),
    template: Option<(SenderId, bool)>,
) -> Result<SenderId, Failure> {
    let (mut sender, gpi) = template.unwrap_or((SenderId { src: host, src_port: port.into() }, entry.gpi));
    if gpi != entry.gpi || (entry.gpi && template.is_none()) {
        return Err(Failure::of(Code::GpiSess, "a GPI session needs a GPI template, and others must not have one"));
    }
    if sender.src.is_unspecified() {
        let found = if host.is_unspecified() { session::address_towards(entry.session.id().dst) } else { Some(host) };
        sender.src = found.ok_or_else(|| Failure::of(Code::Inval, "no route to the destination: name the sender"))?;
    }
    Ok(sender)
}

/// `rapi_reserve`.
///
/// # Safety
/// As `rapi.h` says: the lists hold as many objects as the counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_reserve(
    sid: c_uint,
    flags: c_uint,
    _host: *const c_void,
    style: c_int,
    _extension: *const c_void,
    policy: *const c_void,
    filter_count: c_int,
    filters: *const c_void,
    flowspec_count: c_int,
    flowspecs: *const c_void,
) -> c_int {
    result_of(|| {
        let shared = table().get(sid)?;
        let mut entry = lock(&shared);
        if flowspec_count == 0 {
            return entry.session.reserve_no_more();
        }
        no_policy(policy)?;
        // SAFETY: the caller's promises.
        let (filters, flowspecs) = unsafe { (list(filter_count, filters)?, list(flowspec_count, flowspecs)?) };
        let style = match style {
            1 => StyleDoc::Wf,
            2 => StyleDoc::Ff,
            3 => StyleDoc::Se,
            _ => return Err(Failure::of(Code::BadStyle, format!("{style} is no style"))),
        };
        let fits = match style {
            StyleDoc::Wf => filters.len() <= 1 && flowspecs.len() == 1,
            StyleDoc::Ff => !filters.is_empty() && filters.len() == flowspecs.len(),
            StyleDoc::Se => !filters.is_empty() && flowspecs.len() == 1,
        };
        if !fits {
            let (n, m) = (filters.len(), flowspecs.len());
            return Err(Failure::of(Code::NFfs, format!("{n} filters and {m} flowspecs do not fit the style")));
        }
        let mut senders = Vec::new();
        for filter in filters {
            let (sender, gpi) = filter.filter()?;
            if gpi != entry.gpi {
                return Err(Failure::of(Code::GpiSess, "GPI filters belong to GPI sessions, and to no others"));
            }
            senders.push(sender);
        }
        if style == StyleDoc::Wf {
            senders.clear();
        }
        let flowspecs = flowspecs.iter().map(RapiObject::flowspec).collect::<Result<_, _>>()?;
        entry.session.reserve(ReserveRequest { style, senders, flowspecs, confirm: flags & REQ_CONFIRM != 0 })
    })
}

/// `rapi_release`.
#[unsafe(no_mangle)]
pub extern "C" fn rapi_release(sid: c_uint) -> c_int {
    result_of(|| table().remove(sid))
}

/// `rapi_getfd`.
#[unsafe(no_mangle)]
pub extern "C" fn rapi_getfd(sid: c_uint) -> c_int {
    let found = catch_unwind(|| table().get(sid).map(|shared| lock(&shared).session.descriptor().as_raw_fd()));
    found.ok().and_then(Result::ok).unwrap_or(-1)
}

/// `rapi_dispatch`.
#[unsafe(no_mangle)]
pub extern "C" fn rapi_dispatch() -> c_int {
    result_of(|| table().dispatch(run))
}

/// Calls the program's routine.
fn run(sid: u32, upcall: &SessionUpcall, intserv: bool, gpi: bool, upward: Upward) {
    let Some(routine) = upward.routine else { return };
    let mut made = upcall::arguments(upcall, intserv, gpi);
    // A sockaddr is aligned; the bytes of `node` may not be.
    let mut node = [0u64; 4];
    for (index, byte) in made.node.iter().enumerate().take(size_of_val(&node)) {
        node[index / 8] |= u64::from_ne_bytes([*byte, 0, 0, 0, 0, 0, 0, 0]) << (8 * (index % 8));
    }
    let node = if made.node.is_empty() { std::ptr::null_mut() } else { node.as_mut_ptr().cast() };
    let (filters, flowspecs, adspecs) = (made.filters.count(), made.flowspecs.count(), made.adspecs.count());
    // SAFETY: the program promised a routine of this type; all that it gets lives until it returns.
    unsafe {
        routine(
            sid,
            made.event,
            made.style,
            made.code,
            made.value,
            node,
            made.flags,
            filters,
            made.filters.as_mut_ptr().cast(),
            flowspecs,
            made.flowspecs.as_mut_ptr().cast(),
            adspecs,
            made.adspecs.as_mut_ptr().cast(),
            upward.argument,
        );
    }
}

/// `rapi_version`.
#[unsafe(no_mangle)]
pub extern "C" fn rapi_version() -> c_int {
    VERSION
}

/// `rapi_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn rapi_strerror(code: c_int, value: c_int) -> *const c_char {
    /// RSVP's code for errors of the interface; the value is then a code of the interface.
    const API_ERROR: c_int = 20;
    let asked = if code == API_ERROR && value != 0 { value } else { code };
    errors::words(asked).map_or(std::ptr::null(), CStr::as_ptr)
}

/// `rapi_agent`.
///
/// # Safety
/// `socket` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_agent(socket: *const c_char) -> c_int {
    result_of(|| {
        // SAFETY: a C string, by the caller's promise.
        let socket = (!socket.is_null()).then(|| unsafe { CStr::from_ptr(socket) });
        table().set_socket(socket.map(|text| Path::new(OsStr::from_bytes(text.to_bytes()))));
        Ok(())
    })
}

/// Writes words into a buffer, cut and with a final zero.
///
/// # Safety
/// `given` is null or a RAPI object; `buffer` is null or valid for `length` bytes.
unsafe fn put_words(given: *const c_void, buffer: *mut c_char, length: c_int, words: fn(&RapiObject<'_>) -> String) {
    let room = usize::try_from(length).unwrap_or(0);
    if buffer.is_null() || room == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let found = unsafe { object(given) };
    let text = catch_unwind(|| found.map_or("[?]".to_owned(), |(object, _)| words(&object))).unwrap_or_default();
    let bytes = text.as_bytes();
    let bytes = &bytes[..bytes.len().min(room - 1)];
    // SAFETY: `bytes` and the zero fit into `length` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len());
        buffer.add(bytes.len()).write(0);
    }
}

/// `rapi_fmt_flowspec`.
///
/// # Safety
/// As `rapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_fmt_flowspec(given: *const c_void, buffer: *mut c_char, length: c_int) {
    // SAFETY: the caller's promises, passed on.
    unsafe { put_words(given, buffer, length, words::flowspec) }
}

/// `rapi_fmt_tspec`.
///
/// # Safety
/// As `rapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_fmt_tspec(given: *const c_void, buffer: *mut c_char, length: c_int) {
    // SAFETY: the caller's promises, passed on.
    unsafe { put_words(given, buffer, length, words::tspec) }
}

/// `rapi_fmt_adspec`.
///
/// # Safety
/// As `rapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_fmt_adspec(given: *const c_void, buffer: *mut c_char, length: c_int) {
    // SAFETY: the caller's promises, passed on.
    unsafe { put_words(given, buffer, length, words::adspec) }
}

/// `rapi_fmt_filtspec`.
///
/// # Safety
/// As `rapi.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rapi_fmt_filtspec(given: *const c_void, buffer: *mut c_char, length: c_int) {
    // SAFETY: the caller's promises, passed on.
    unsafe { put_words(given, buffer, length, words::filter) }
}
