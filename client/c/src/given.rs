//! The structures of the C header, byte for byte, and their conversion to and from the agent's documents.

use crate::connection::CallFailure;
use documents::book::{AskDoc, BackgroundDoc, BookEvent, FlowDoc, Instant, PartDoc, ReservationDoc, WhenDoc};
use documents::boomerang::{ClassifierDoc, MaskDoc, SitePrefix, between};
use std::ffi::{CStr, c_char, c_int};
use std::net::IpAddr;
use terms::Time;
use terms::book::ResourceKind;

/// `SLUICE_PARTS`.
const PARTS: usize = 16;
/// The smallest positive amount. An enquiry sends it, because the answer does not depend on the amount.
pub const LEAST: f64 = f64::MIN_POSITIVE;

/// `struct sluice_part`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenPart {
    pub resource: *const c_char,
    pub amount: f64,
    pub at_least: f64,
    pub background: c_int,
}

/// `struct sluice_when`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenWhen {
    start_s: i64,
    end_s: i64,
    duration_s: f64,
    hold_s: f64,
    earliest: c_int,
}

/// `struct sluice_flow`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenFlow {
    src: *const c_char,
    dst: *const c_char,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
}

/// `struct sluice_reservation`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenReservation {
    handle: [c_char; 64],
    state: [c_char; 16],
    parts: usize,
    now: [f64; PARTS],
}

/// `struct sluice_event`.
#[derive(Debug)]
#[repr(C)]
pub struct Event {
    seq: u64,
    handle: [c_char; 64],
    event: [c_char; 16],
    part: c_int,
    now: f64,
}

impl GivenReservation {
    /// Converts the agent's document.
    pub fn of(doc: &ReservationDoc) -> GivenReservation {
        let mut now = [0.0; PARTS];
        for (to, part) in now.iter_mut().zip(&doc.parts) {
            *to = part.now;
        }
        GivenReservation { handle: letters(&doc.handle), state: letters(&doc.state), parts: doc.parts.len(), now }
    }
}

impl Event {
    /// Converts the agent's event.
    pub fn of(doc: &BookEvent) -> Event {
        Event {
            seq: doc.seq,
            handle: letters(&doc.handle),
            event: letters(&doc.event),
            part: doc.part.and_then(|part| c_int::try_from(part).ok()).unwrap_or(-1),
            now: doc.to.unwrap_or(0.0),
        }
    }
}

impl GivenFlow {
    /// Reads the flow for Boomerang: hosts, or prefixes with a mask. A NULL destination is the far end.
    ///
    /// # Safety
    /// Its addresses are C strings or null.
    pub unsafe fn sites(&self, far_end: IpAddr) -> Result<(ClassifierDoc, Option<MaskDoc>), CallFailure> {
        let site = |at| -> Result<Option<SitePrefix>, CallFailure> {
            // SAFETY: the caller's promise.
            let text = unsafe { text_or_none(at) }?;
            text.map(|text| text.parse().map_err(CallFailure::Misuse)).transpose()
        };
        let (src, dst) = (site(self.src)?, site(self.dst)?);
        if src.is_none_or(|src| src.is_host()) && dst.is_none_or(|dst| dst.is_host()) {
            let (src, dst) = (src.map(|src| src.addr), dst.map(|dst| dst.addr));
            let protocol = if self.protocol == 0 { 17 } else { self.protocol };
            let (src_port, dst_port) = (self.src_port, self.dst_port);
            return Ok((ClassifierDoc { src, dst, protocol, src_port, dst_port }, None));
        }
        let port = |port: u16| (port != 0).then_some(port);
        let protocol = (self.protocol != 0).then_some(self.protocol);
        let dst = dst.unwrap_or_else(|| SitePrefix::host(far_end));
        let (flow, mask) = between(src, dst, protocol, (port(self.src_port), port(self.dst_port)));
        Ok((flow, Some(mask)))
    }

    /// Reads the flow for a binding.
    ///
    /// # Safety
    /// Its addresses are C strings or null.
    pub unsafe fn read(&self) -> Result<FlowDoc, CallFailure> {
        let address = |at| -> Result<Option<IpAddr>, CallFailure> {
            // SAFETY: the caller's promise.
            let Some(text) = (unsafe { text_or_none(at) })? else { return Ok(None) };
            text.parse().map(Some).map_err(|_| CallFailure::Misuse(format!("{text:?} is no address")))
        };
        Ok(FlowDoc {
            src: address(self.src)?,
            dst: address(self.dst)?,
            protocol: (self.protocol != 0).then_some(self.protocol),
            src_port: (self.src_port != 0).then_some(self.src_port),
            dst_port: (self.dst_port != 0).then_some(self.dst_port),
        })
    }
}

impl GivenWhen {
    /// Reads the times; also for how long it is only held, seconds.
    pub fn read(&self) -> Result<(WhenDoc, Option<f64>), CallFailure> {
        let positive = |seconds: f64| (seconds > 0.0).then_some(seconds);
        if !self.duration_s.is_finite() || !self.hold_s.is_finite() || self.duration_s < 0.0 || self.hold_s < 0.0 {
            return Err(CallFailure::Misuse("a span of time is a positive number of seconds".to_owned()));
        }
        let when = WhenDoc {
            start: if self.start_s == 0 { None } else { Some(instant(self.start_s)?) },
            end: if self.end_s == 0 { None } else { Some(end(self.end_s)?) },
            duration_s: positive(self.duration_s),
            earliest: self.earliest != 0,
            ..WhenDoc::default()
        };
        Ok((when, positive(self.hold_s)))
    }
}

/// Builds a request from these parts.
///
/// # Safety
/// `parts` holds `count` of them with C strings inside; `when` is null or valid.
pub unsafe fn asked(parts: *const GivenPart, count: usize, when: *const GivenWhen) -> Result<AskDoc, CallFailure> {
    if parts.is_null() || count == 0 || count > PARTS {
        return Err(CallFailure::Misuse(format!("1 to {PARTS} parts, not {count}")));
    }
    let mut ask = AskDoc::default();
    // SAFETY: not null, and `count` of them by the caller's promise.
    for part in unsafe { std::slice::from_raw_parts(parts, count) } {
        // SAFETY: the caller's promise.
        ask.parts.push(unsafe { part.read() }?);
    }
    // SAFETY: the caller's promise.
    let Some(when) = (unsafe { when.as_ref() }) else { return Ok(ask) };
    (ask.when, ask.hold_s) = when.read()?;
    Ok(ask)
}

impl GivenPart {
    unsafe fn read(&self) -> Result<PartDoc, CallFailure> {
        // SAFETY: the caller's promise.
        let resource = unsafe { text(self.resource) }?;
        let mut part = PartDoc { resource: resource.to_owned(), ..PartDoc::default() };
        set(&mut part, self.amount)?;
        part.at_least = (self.at_least > 0.0).then_some(self.at_least);
        part.background = (self.background != 0).then_some(BackgroundDoc { weight: 1, floor: 0.0 });
        Ok(part)
    }
}

/// Stores an amount in the field for the kind of the part's resource.
pub fn set(part: &mut PartDoc, amount: f64) -> Result<(), CallFailure> {
    if !amount.is_finite() || amount <= 0.0 || amount >= 1.8e19 {
        return Err(CallFailure::Misuse(format!("{amount} is no amount")));
    }
    let whole = amount.ceil() as u64;
    match ResourceKind::of(&part.resource) {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => part.rate = Some(whole),
        ResourceKind::Cpu => part.cores = Some(amount.max(1e-6)),
        ResourceKind::Disk => part.bytes_per_s = Some(whole),
        ResourceKind::Countable => part.count = Some(whole),
    }
    Ok(())
}

/// `SLUICE_FOREVER`.
const FOREVER: i64 = i64::MAX;

/// Converts the end of a reservation. Zero is an error.
pub fn end(seconds: i64) -> Result<Instant, CallFailure> {
    match seconds {
        FOREVER => Ok(Instant(Time::FOREVER)),
        0 => Err(CallFailure::Misuse("until when? SLUICE_FOREVER is until it is given back".to_owned())),
        seconds => instant(seconds),
    }
}

fn instant(seconds: i64) -> Result<Instant, CallFailure> {
    let nanos = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    nanos
        .map(|nanos| Instant(Time::from_nanos(nanos)))
        .ok_or_else(|| CallFailure::Misuse(format!("{seconds} is no time")))
}

/// Reads a text that is required.
///
/// # Safety
/// `at` is null or a C string that lives as long as the call.
pub unsafe fn text<'a>(at: *const c_char) -> Result<&'a str, CallFailure> {
    // SAFETY: the caller's promise.
    unsafe { text_or_none(at) }?.ok_or_else(|| CallFailure::Misuse("a text is missing".to_owned()))
}

/// Reads a text that may be null.
///
/// # Safety
/// As [`text`].
pub unsafe fn text_or_none<'a>(at: *const c_char) -> Result<Option<&'a str>, CallFailure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and a C string by the caller's promise.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(Some).map_err(|_| CallFailure::Misuse("a text is no UTF-8".to_owned()))
}

/// Writes a value through a pointer from C. Does nothing if the pointer is null.
///
/// # Safety
/// `to` is null or valid for a write.
pub unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, and valid by the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Copies a text into a field that ends with a zero. Excess bytes are cut off; the agent sends none.
pub fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut all = [0; N];
    for (to, byte) in all[..N - 1].iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    all
}
