//! Values that several sections of a configuration file have: names, rates, shares of a link, values with a unit.

use crate::document::{Document, Mistake};
use documents::units;
use terms::Rate;
use toml::Spanned;

/// A part of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateShare {
    /// Thousandths of the link's rate.
    PerMille(u32),
    /// A rate.
    Rate(Rate),
}

impl RateShare {
    /// The rate on a link of rate `link`, rounded down.
    pub fn of(self, link: Rate) -> Rate {
        match self {
            RateShare::PerMille(n) => link.share(n.into(), 1000),
            RateShare::Rate(rate) => rate.min(link),
        }
    }
}

/// A node's name, which can be part of a file name, a namespace name and a refusal.
///
/// # Errors
/// It is empty, too long, or has other characters.
pub fn node_name(document: &Document<'_>, name: &Spanned<String>) -> Result<String, Mistake> {
    let text = name.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > 32 || !text.chars().all(plain) || text.starts_with('-') {
        let wrong = format!("{text:?} is no name: use 1 to 32 letters, digits, - and _, not beginning with -");
        return Err(document.at(name.span(), wrong));
    }
    Ok(text.clone())
}

/// The host name of this machine.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// A link's rate: not zero, and within the limits of the kernel's shapers.
///
/// # Errors
/// It is no rate, or outside these limits.
pub fn link_rate(document: &Document<'_>, text: &Spanned<String>) -> Result<Rate, Mistake> {
    let rate = unit(document, text, units::parse_rate)?;
    if rate < Rate::from_kbps(8) || rate > Rate::from_mbps(1_000_000) {
        return Err(document.at(text.span(), format!("a link of {rate} is not supported: 8kbit to 1000gbit")));
    }
    Ok(rate)
}

/// A share of a link: a percentage with at most one decimal place, or a rate.
///
/// # Errors
/// It is neither.
pub fn share(document: &Document<'_>, text: &Spanned<String>) -> Result<RateShare, Mistake> {
    let Some(percent) = text.get_ref().strip_suffix('%') else {
        return unit(document, text, units::parse_rate).map(RateShare::Rate);
    };
    let (whole, tenth) = percent.trim().split_once('.').unwrap_or((percent.trim(), "0"));
    let per_mille = match (whole.parse::<u32>(), tenth.parse::<u32>()) {
        (Ok(whole @ 0..=100), Ok(tenth @ 0..=9)) if tenth < 10 => whole * 10 + tenth,
        _ => 1001,
    };
    if per_mille > 1000 {
        return Err(document.at(text.span(), format!("{:?} is no share: 0% to 100%, or a rate", text.get_ref())));
    }
    Ok(RateShare::PerMille(per_mille))
}

/// A value with a unit, or the mistake at its place.
pub(crate) fn unit<T>(
    document: &Document<'_>,
    text: &Spanned<String>,
    parse: impl FnOnce(&str) -> Result<T, units::BadUnit>,
) -> Result<T, Mistake> {
    parse(text.get_ref()).map_err(|wrong| document.at(text.span(), wrong))
}

/// A number from `least` to `most`; `usual` if the file says none.
pub(crate) fn within(
    document: &Document<'_>,
    number: Option<&Spanned<u32>>,
    usual: u32,
    (least, most): (u32, u32),
    what: &str,
) -> Result<u32, Mistake> {
    let Some(number) = number else { return Ok(usual) };
    if (least..=most).contains(number.get_ref()) {
        return Ok(*number.get_ref());
    }
    Err(document.at(number.span(), format!("{what} = {}: from {least} to {most}", number.get_ref())))
}
