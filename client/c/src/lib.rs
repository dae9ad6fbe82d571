//! libsluice: the agent's local socket for C programs, as `include/sluice.h` says.
//!
//! Reading order: the header, [`connection`] (calls and answers, in safe Rust), then the C functions here.
//! Several parts as one reservation, by a broker: [`together_calls`], then `together` and what it is made of.
//! RSVP's own interfaces are `client/rapi` and `client/scrapi`.

mod broker;
pub mod connection;
mod given;
mod http;
mod needs;
mod strategy;
mod together;
pub mod together_calls;

use connection::{CallFailure, Connection};
use given::{Event, GivenFlow, GivenPart, GivenReservation, GivenWhen, put, text, text_or_none};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub(crate) const OK: c_int = 0;
pub(crate) const REFUSED: c_int = 1;
pub(crate) const MISUSE: c_int = 2;
pub(crate) const AWAY: c_int = 3;
pub(crate) const NOTHING: c_int = 4;

/// The object behind a C program's `sluice *`.
#[derive(Debug)]
pub struct ClientHandle {
    connection: Option<Connection>,
    why: CString,
}

impl ClientHandle {
    /// Stores the result of a call for `sluice_why`, and returns its code.
    fn went(&mut self, result: Result<(), CallFailure>) -> c_int {
        let (code, why) = match result {
            Ok(()) => return OK,
            Err(CallFailure::Refused(why)) => (REFUSED, why),
            Err(CallFailure::Misuse(why)) => (MISUSE, why),
            Err(CallFailure::Away(why)) => (AWAY, why),
            Err(CallFailure::Nothing) => (NOTHING, "nothing happened in time".to_owned()),
        };
        self.why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        code
    }
}

/// Runs a call on a connection. No panic crosses into C; every failure leaves a sentence for `sluice_why`.
///
/// # Safety
/// `s` is null or what `sluice_open` gave, not closed, and used by no other thread meanwhile.
unsafe fn with(s: *mut ClientHandle, call: impl FnOnce(&mut Connection) -> Result<(), CallFailure>) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { s.as_mut() }) else { return MISUSE };
    let result = catch_unwind(AssertUnwindSafe(|| match &mut handle.connection {
        Some(connection) => call(connection),
        None => Err(CallFailure::Away("this connection was never made".to_owned())),
    }));
    let result = result.unwrap_or_else(|_| Err(CallFailure::Away("libsluice broke; this is its fault".to_owned())));
    handle.went(result)
}

/// `sluice_open`.
///
/// # Safety
/// `socket` is null or a C string; `s` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_open(socket: *const c_char, s: *mut *mut ClientHandle) -> c_int {
    if s.is_null() {
        return MISUSE;
    }
    let mut handle = Box::new(ClientHandle { connection: None, why: CString::default() });
    // SAFETY: the caller's promise about `socket`.
    let opened = unsafe { text_or_none(socket) }.and_then(Connection::open).map(|made| handle.connection = Some(made));
    let code = handle.went(opened);
    // SAFETY: `s` is valid for a write, by the caller's promise.
    unsafe { s.write(Box::into_raw(handle)) };
    code
}

/// `sluice_close`.
///
/// # Safety
/// `s` is null or what `sluice_open` gave, and is never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_close(s: *mut ClientHandle) {
    if !s.is_null() {
        // SAFETY: it was made by `Box::into_raw` in `sluice_open`, and is given back once.
        drop(unsafe { Box::from_raw(s) });
    }
}

/// `sluice_why`.
///
/// # Safety
/// `s` is null or what `sluice_open` gave, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_why(s: *const ClientHandle) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { s.as_ref() }.map_or(c"there is no connection".as_ptr(), |handle| handle.why.as_ptr())
}

/// `sluice_reserve`.
///
/// # Safety
/// As the header says: `parts` holds `count`, texts are C strings or null where the header allows it,
/// `made` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_reserve(
    s: *mut ClientHandle,
    parts: *const GivenPart,
    count: usize,
    when: *const GivenWhen,
    label: *const c_char,
    key: *const c_char,
    made: *mut GivenReservation,
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            let mut ask = given::asked(parts, count, when)?;
            ask.label = text_or_none(label)?.unwrap_or_default().to_owned();
            ask.key = text_or_none(key)?.unwrap_or_default().to_owned();
            put(made, GivenReservation::of(&connection.reserve(ask)?));
            Ok(())
        })
    }
}

/// `sluice_enquire`.
///
/// # Safety
/// As the header says: `resource` is a C string, `when` null or valid, `free` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_enquire(
    s: *mut ClientHandle,
    resource: *const c_char,
    when: *const GivenWhen,
    free: *mut f64,
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            let part = GivenPart { resource, amount: given::LEAST, at_least: 0.0, background: 0 };
            put(free, connection.enquire(given::asked(&part, 1, when)?)?);
            Ok(())
        })
    }
}

/// `sluice_bind_flow`.
///
/// # Safety
/// As the header says: `handle` is a C string, `flow` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_bind_flow(
    s: *mut ClientHandle,
    handle: *const c_char,
    part: usize,
    flow: *const GivenFlow,
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            let flow = flow.as_ref().map(|flow| flow.read()).transpose()?;
            connection.bind(text(handle)?, part, flow.map(documents::book::BindingDoc::Flow))
        })
    }
}

/// `sluice_bind_pid`.
///
/// # Safety
/// As the header says: `handle` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_bind_pid(s: *mut ClientHandle, handle: *const c_char, part: usize, pid: u32) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            connection.bind(text(handle)?, part, (pid != 0).then_some(documents::book::BindingDoc::Pid(pid)))
        })
    }
}

/// `sluice_modify`.
///
/// # Safety
/// As the header says: `handle` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_modify(s: *mut ClientHandle, handle: *const c_char, part: usize, amount: f64) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe { with(s, |connection| connection.modify(text(handle)?, part, amount)) }
}

/// `sluice_extend`.
///
/// # Safety
/// As the header says: `handle` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_extend(s: *mut ClientHandle, handle: *const c_char, end_s: i64) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe { with(s, |connection| connection.extend(text(handle)?, given::end(end_s)?)) }
}

/// `sluice_commit`.
///
/// # Safety
/// As the header says: `handle` is a C string, `now` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_commit(
    s: *mut ClientHandle,
    handle: *const c_char,
    now: *mut GivenReservation,
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            put(now, GivenReservation::of(&connection.commit(text(handle)?)?));
            Ok(())
        })
    }
}

/// `sluice_show`.
///
/// # Safety
/// As the header says: `handle` is a C string, `now` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_show(s: *mut ClientHandle, handle: *const c_char, now: *mut GivenReservation) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            put(now, GivenReservation::of(&connection.show(text(handle)?)?));
            Ok(())
        })
    }
}

/// `sluice_cancel`.
///
/// # Safety
/// As the header says: `handle` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_cancel(s: *mut ClientHandle, handle: *const c_char) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe { with(s, |connection| connection.cancel(text(handle)?)) }
}

/// `sluice_follow`.
///
/// # Safety
/// `s` is null or what `sluice_open` gave, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_follow(s: *mut ClientHandle, after: u64) -> c_int {
    // SAFETY: the caller's promise, passed on.
    unsafe { with(s, |connection| connection.follow(after)) }
}

/// `sluice_next_event`.
///
/// # Safety
/// As the header says: `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_next_event(s: *mut ClientHandle, timeout_ms: c_int, event: *mut Event) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            let patience = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
            put(event, Event::of(&connection.next_event(patience)?));
            Ok(())
        })
    }
}

/// `sluice_boomerang_reserve`.
///
/// # Safety
/// As the header says: `far_end` is a C string, `flow` valid, `number` and `granted` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_boomerang_reserve(
    s: *mut ClientHandle,
    far_end: *const c_char,
    flow: *const GivenFlow,
    forward_bps: u32,
    reverse_bps: u32,
    number: *mut u64,
    granted: *mut [u32; 2],
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(s, |connection| {
            let far_end = text(far_end)?;
            let far_end = far_end.parse().map_err(|_| CallFailure::Misuse(format!("{far_end:?} is no address")))?;
            let flow =
                flow.as_ref().ok_or_else(|| CallFailure::Misuse("a flow is needed".to_owned()))?.sites(far_end)?;
            let (session, rates) = connection.boomerang(far_end, flow, forward_bps, reverse_bps)?;
            put(number, session);
            put(granted, rates);
            Ok(())
        })
    }
}

/// `sluice_boomerang_release`.
///
/// # Safety
/// `s` is null or what `sluice_open` gave, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_boomerang_release(s: *mut ClientHandle, number: u64) -> c_int {
    // SAFETY: the caller's promise, passed on.
    unsafe { with(s, |connection| connection.release(number)) }
}
