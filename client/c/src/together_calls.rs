//! The C functions of co-reservations: `sluice_together_*` of the header.

use crate::broker::BrokerCalls;
use crate::connection::CallFailure;
use crate::given::{GivenWhen, letters, put, set, text, text_or_none};
use crate::http::LocalBroker;
use crate::needs::{NeededItem, NeededPart};
use crate::strategy::{MOST_ALTERNATIVES, MOST_PARTS, RequestOrder, StrategyStep};
use crate::together::{NewsItem, Together, TryLimits, WantedWindow};
use documents::book::PartDoc;
use documents::rest::PathWish;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The defaults of the limits.
const ATTEMPTS: usize = 20;
const PATIENCE_S: f64 = 60.0;

/// `struct sluice_item`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenItem {
    resource: *const c_char,
    amount: f64,
    from: *const c_char,
    to: *const c_char,
    reverse: f64,
}

/// `struct sluice_need`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenNeed {
    name: *const c_char,
    alternatives: usize,
    items: *const GivenItem,
    counts: *const usize,
    strategy: *const c_char,
}

/// `struct sluice_news`.
#[derive(Debug)]
#[repr(C)]
pub struct GivenNews {
    what: c_int,
    part: [c_char; 64],
    place: [c_char; 192],
    text: [c_char; 1024],
}

/// The object behind a C program's `sluice_together *`.
#[derive(Debug)]
pub struct TogetherHandle {
    together: Option<Together>,
    why: CString,
}

impl TogetherHandle {
    fn went(&mut self, result: Result<(), CallFailure>) -> c_int {
        let Err(failure) = result else { return crate::OK };
        self.why = CString::new(failure.words().replace('\0', " ")).unwrap_or_default();
        match failure {
            CallFailure::Refused(_) => crate::REFUSED,
            CallFailure::Misuse(_) => crate::MISUSE,
            CallFailure::Away(_) => crate::AWAY,
            CallFailure::Nothing => crate::NOTHING,
        }
    }
}

/// Runs a call. No panic crosses into C.
///
/// # Safety
/// `t` is null or what `sluice_together_make` gave, not closed, and used by no other thread meanwhile.
unsafe fn with(t: *mut TogetherHandle, call: impl FnOnce(&mut Together) -> Result<(), CallFailure>) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { t.as_mut() }) else { return crate::MISUSE };
    let result = catch_unwind(AssertUnwindSafe(|| match &mut handle.together {
        Some(together) => call(together),
        None => Err(CallFailure::Misuse("nothing was made".to_owned())),
    }));
    handle.went(result.unwrap_or_else(|_| Err(broke())))
}

fn broke() -> CallFailure {
    CallFailure::Away("libsluice broke; this is its fault".to_owned())
}

impl GivenItem {
    /// # Safety
    /// Its texts are C strings or null.
    unsafe fn read(&self) -> Result<NeededItem, CallFailure> {
        // SAFETY: the caller's promise.
        let (resource, from, to) =
            unsafe { (text_or_none(self.resource)?, text_or_none(self.from)?, text_or_none(self.to)?) };
        if let Some(resource) = resource {
            let mut part = PartDoc {
                resource: resource.split_once('/').map_or(resource, |(_, name)| name).to_owned(),
                ..PartDoc::default()
            };
            set(&mut part, self.amount)?;
            resource.clone_into(&mut part.resource);
            return Ok(NeededItem::Amount(part));
        }
        let address = |end: Option<&str>| {
            let end = end.unwrap_or_default();
            end.parse().map_err(|_| {
                CallFailure::Misuse(format!("{end:?} is no address: an item has a resource, or two hosts"))
            })
        };
        let rate = |amount: f64| -> Result<Option<u64>, CallFailure> {
            if !amount.is_finite() || !(0.0..1e18).contains(&amount) {
                return Err(CallFailure::Misuse(format!("{amount} is no rate")));
            }
            Ok((amount > 0.0).then_some(amount.ceil() as u64))
        };
        Ok(NeededItem::Hosts(PathWish {
            from: address(from)?,
            to: address(to)?,
            forward: rate(self.amount)?,
            reverse: rate(self.reverse)?,
            forward_at_least: None,
            reverse_at_least: None,
            background: None,
            packet_bytes: None,
            rtt_ms: None,
            flow: None,
            tree: false,
        }))
    }
}

impl GivenNeed {
    /// # Safety
    /// As the header says: `items` holds those of all alternatives, `counts` is null or holds as many as there are.
    unsafe fn read(&self) -> Result<NeededPart, CallFailure> {
        // SAFETY: the caller's promise.
        let name = unsafe { text(self.name) }?.to_owned();
        if !(1..=MOST_ALTERNATIVES).contains(&self.alternatives) || self.items.is_null() {
            return Err(CallFailure::Misuse(format!(
                "{name:?} needs 1 to {MOST_ALTERNATIVES} alternatives, and their items"
            )));
        }
        let (mut alternatives, mut at) = (Vec::new(), self.items);
        for number in 0..self.alternatives {
            // SAFETY: not null, and one for each alternative.
            let count = if self.counts.is_null() { 1 } else { unsafe { self.counts.add(number).read() } };
            if !(1..=MOST_PARTS).contains(&count) {
                return Err(CallFailure::Misuse(format!(
                    "an alternative of {name:?} has 1 to {MOST_PARTS} items, not {count}"
                )));
            }
            // SAFETY: the items of all alternatives are there, by the caller's promise.
            let given = unsafe { std::slice::from_raw_parts(at, count) };
            // SAFETY: their texts are C strings or null.
            alternatives.push(given.iter().map(|item| unsafe { item.read() }).collect::<Result<_, _>>()?);
            // SAFETY: at most one past the last item.
            at = unsafe { at.add(count) };
        }
        Ok(NeededPart { name, alternatives })
    }
}

/// # Safety
/// As the header says.
unsafe fn read(
    needs: *const GivenNeed,
    count: usize,
    strategy: *const c_char,
) -> Result<(Vec<NeededPart>, RequestOrder), CallFailure> {
    if needs.is_null() || !(1..=MOST_PARTS).contains(&count) {
        return Err(CallFailure::Misuse(format!("1 to {MOST_PARTS} parts, not {count}")));
    }
    // SAFETY: the caller's promise.
    let for_all = unsafe { text_or_none(strategy) }?.unwrap_or_default();
    let (mut all, mut order) = (Vec::new(), Vec::new());
    // SAFETY: not null, and `count` of them by the caller's promise.
    for given in unsafe { std::slice::from_raw_parts(needs, count) } {
        // SAFETY: the caller's promise.
        let (need, own) = unsafe { (given.read()?, text_or_none(given.strategy)?) };
        let steps = StrategyStep::all(own.unwrap_or(for_all)).map_err(CallFailure::Misuse)?;
        order.push((need.alternatives.len(), steps));
        all.push(need);
    }
    Ok((all, RequestOrder::new(order)))
}

fn window(when: Option<&GivenWhen>) -> Result<WantedWindow, CallFailure> {
    let for_how_long = || CallFailure::Misuse("for how long? duration_s, end_s, or SLUICE_FOREVER".to_owned());
    let (doc, hold) = when.ok_or_else(for_how_long)?.read()?;
    if hold.is_some() || doc.earliest {
        return Err(CallFailure::Misuse(
            "hold_s and earliest are not for several parts: say later in the strategy".to_owned(),
        ));
    }
    if doc.end.is_none() && doc.duration_s.is_none() {
        return Err(for_how_long());
    }
    Ok(WantedWindow { start: doc.start.map(|at| at.0), end: doc.end.map(|at| at.0), seconds: doc.duration_s })
}

fn limits(attempts: usize, patience_s: f64) -> Result<TryLimits, CallFailure> {
    let attempts = if attempts == 0 { ATTEMPTS } else { attempts };
    let patience_s = if patience_s == 0.0 { PATIENCE_S } else { patience_s };
    if attempts > 1000 || !(0.0..=1e6).contains(&patience_s) {
        return Err(CallFailure::Misuse(format!("at most 1,000 requests and 10^6 s, not {attempts} and {patience_s}")));
    }
    Ok(TryLimits { attempts, patience: Duration::from_secs_f64(patience_s) })
}

/// `sluice_together_make`.
///
/// # Safety
/// As the header says: `needs` holds `count`, texts are C strings or null where the header allows it, `t` is valid
/// for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_make(
    broker: *const c_char,
    needs: *const GivenNeed,
    count: usize,
    strategy: *const c_char,
    when: *const GivenWhen,
    name: *const c_char,
    attempts: usize,
    patience_s: f64,
    t: *mut *mut TogetherHandle,
) -> c_int {
    if t.is_null() {
        return crate::MISUSE;
    }
    let mut handle = Box::new(TogetherHandle { together: None, why: CString::default() });
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promises, passed on.
        let (address, asked, window, name) = unsafe {
            let address = LocalBroker::parse(text_or_none(broker)?)?;
            (address, read(needs, count, strategy)?, window(when.as_ref())?, text_or_none(name)?.unwrap_or_default())
        };
        let limits = limits(attempts, patience_s)?;
        let (made, result) = Together::make(BrokerCalls::at(address), asked, window, name, limits);
        handle.together = Some(made);
        result
    }));
    let code = handle.went(result.unwrap_or_else(|_| Err(broke())));
    // SAFETY: `t` is valid for a write, by the caller's promise.
    unsafe { t.write(Box::into_raw(handle)) };
    code
}

/// `sluice_together_close`.
///
/// # Safety
/// `t` is null or what `sluice_together_make` gave, and is never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_close(t: *mut TogetherHandle) {
    if !t.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and is given back once.
        drop(unsafe { Box::from_raw(t) });
    }
}

/// `sluice_together_why`.
///
/// # Safety
/// `t` is null or what `sluice_together_make` gave, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_why(t: *const TogetherHandle) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { t.as_ref() }.map_or(c"nothing was made".as_ptr(), |handle| handle.why.as_ptr())
}

/// `sluice_together_next`.
///
/// # Safety
/// As the header says: `news` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_next(
    t: *mut TogetherHandle,
    timeout_ms: c_int,
    news: *mut GivenNews,
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(t, |together| {
            let patience = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
            let NewsItem { what, part, place, text } = together.next(patience)?;
            put(
                news,
                GivenNews { what: what as c_int, part: letters(&part), place: letters(&place), text: letters(&text) },
            );
            Ok(())
        })
    }
}

/// `sluice_together_state`.
///
/// # Safety
/// As the header says: `id` and `state` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_state(
    t: *mut TogetherHandle,
    id: *mut [c_char; 96],
    state: *mut [c_char; 16],
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(t, |together| {
            let now = together.reservation().ok_or_else(|| CallFailure::Misuse("nothing was made".to_owned()))?;
            put(id, letters(&now.id));
            put(state, letters(&now.state));
            Ok(())
        })
    }
}

/// `sluice_together_place`.
///
/// # Safety
/// As the header says: `place` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_place(
    t: *mut TogetherHandle,
    part: usize,
    place: *mut [c_char; 192],
) -> c_int {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        with(t, |together| {
            let found = together.place(part).ok_or_else(|| CallFailure::Misuse(format!("there is no part {part}")))?;
            put(place, letters(&found));
            Ok(())
        })
    }
}

/// `sluice_together_cancel`.
///
/// # Safety
/// `t` is null or what `sluice_together_make` gave, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_together_cancel(t: *mut TogetherHandle) -> c_int {
    // SAFETY: the caller's promise, passed on.
    unsafe { with(t, Together::cancel) }
}
