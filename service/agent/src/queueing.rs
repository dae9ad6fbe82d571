//! Who queues the packets of an interface, and by which scheduler, as the configuration says it.

use crate::document::{Document, Mistake};
use crate::fields::unit;
use documents::units;
use terms::Span;
use toml::Spanned;
use traffic::scheduler::SchedulerKind;

/// Who queues the packets of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlaneChoice {
    /// A plane in user space that serves it when the agent starts, else the kernel.
    #[default]
    Auto,
    /// The kernel.
    Kernel,
    /// A plane in user space.
    User,
}

/// By which scheduler the kernel queues the packets of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedulerChoice {
    /// That which is there already; else HFSC if the kernel has it, else HTB. Beside recognised flows and Boomerang's
    /// programs HTB, for its priorities.
    #[default]
    Auto,
    /// This one.
    Given(SchedulerKind),
}

/// The longest bound that is exported: the limit of RFC 2215 section 3.4's unit is far beyond it.
const LONGEST_BOUND: Span = Span::from_secs(1);

/// Who queues packets.
pub(crate) fn plane(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<PlaneChoice, Mistake> {
    let Some(text) = found else { return Ok(PlaneChoice::Auto) };
    match text.get_ref().as_str() {
        "auto" => Ok(PlaneChoice::Auto),
        "kernel" => Ok(PlaneChoice::Kernel),
        "user" => Ok(PlaneChoice::User),
        other => Err(document.at(text.span(), format!("{other:?} is no plane: auto, kernel or user"))),
    }
}

/// By which scheduler the kernel does.
pub(crate) fn scheduler(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<SchedulerChoice, Mistake> {
    let Some(text) = found else { return Ok(SchedulerChoice::Auto) };
    match text.get_ref().as_str() {
        "auto" => Ok(SchedulerChoice::Auto),
        "htb" => Ok(SchedulerChoice::Given(SchedulerKind::Htb)),
        "hfsc" => Ok(SchedulerChoice::Given(SchedulerKind::Hfsc)),
        other => Err(document.at(text.span(), format!("{other:?} is no scheduler: auto, htb or hfsc"))),
    }
}

/// The delay that its HFSC is declared to bound.
pub(crate) fn delay_bound(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<Option<Span>, Mistake> {
    let Some(text) = found else { return Ok(None) };
    match unit(document, text, units::parse_span)? {
        bound if bound > Span::ZERO && bound <= LONGEST_BOUND => Ok(Some(bound)),
        _ => Err(document.at(text.span(), "delay_bound is more than 0 and at most 1s")),
    }
}
