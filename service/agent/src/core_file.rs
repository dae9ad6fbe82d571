//! `core = { premium = "45mbit", background = "30%" }` of an `[[interface]]`: the rates of the classes of
//! code points on an interface in the middle of a domain, where nothing is booked (see `control::core`).

use crate::document::{Document, Mistake};
use crate::fields::{RateShare, share};
use serde::Deserialize;
use terms::Rate;
use toml::Spanned;

/// The rates of a link that are set apart for each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreConfig {
    /// The rate of the class EF.
    pub premium: RateShare,
    /// The rate of the classes AF1x.
    pub background: RateShare,
}

impl Default for CoreConfig {
    /// No rates: the classes get what is booked.
    fn default() -> CoreConfig {
        CoreConfig { premium: RateShare::Rate(Rate::ZERO), background: RateShare::Rate(Rate::ZERO) }
    }
}

/// Foreground and background together have nine tenths of premium (seed 002 section 5.2).
const DEFAULT_BACKGROUND: u32 = 900;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoreFile {
    premium: Option<Spanned<String>>,
    background: Option<Spanned<String>>,
}

pub(crate) fn read(document: &Document<'_>, found: &CoreFile) -> Result<CoreConfig, Mistake> {
    let none = CoreConfig::default();
    let of =
        |text: &Option<Spanned<String>>, none: RateShare| text.as_ref().map_or(Ok(none), |text| share(document, text));
    Ok(CoreConfig { premium: of(&found.premium, none.premium)?, background: of(&found.background, none.background)? })
}

/// `background = "90%"`: thousandths.
pub(crate) fn background(document: &Document<'_>, text: Option<&Spanned<String>>) -> Result<u32, Mistake> {
    let Some(text) = text else { return Ok(DEFAULT_BACKGROUND) };
    match share(document, text)? {
        RateShare::PerMille(thousandths) => Ok(thousandths),
        RateShare::Rate(_) => Err(document.at(text.span(), "background is a share, such as 90%")),
    }
}
