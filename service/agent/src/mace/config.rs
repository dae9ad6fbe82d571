//! `[mace]` of the configuration: flows that never signalled, on one interface.
//!
//! ```toml
//! [mace]
//! interface = "eth1"
//! applications = "applications"        # the list (docs/mace.md), from here if relative; SIGHUP reads it again
//! allocated = "30%"                    # of the link, or a rate, link headers included; the default
//! rule = "measured-sum"                # the default; measured-sum-departures, simple-sum, hoeffding or tangent
//! target = "90%"                       # v of the measured sums; the default, may be above 100%
//! nines = 3                            # of hoeffding: its bound is passed with a probability of 10^-3; the default
//! space = "1mbit"                      # 1/s of tangent; the default
//! shadow = ["simple-sum"]              # rules that are asked and do not decide; default: none
//! period = "5s"                        # between two samples; the default
//! window = 20                          # samples; the default
//! refused_for = "30s"                  # before a refused flow is asked about again; the default
//! candidates = 65536                   # flows that are counted at a time; the default
//! max_flows = 4096                     # promoted flows; the default
//! signalled = true                     # controlled load that RSVP or Boomerang asks for on that interface is admitted by the rule too,
//!                                      # within `allocated`; the default is false: such reservations are exact
//! booked = "200%"                      # of `allocated`: the most that may be booked at a time as `measured/eth1`; default: nothing
//! ```

use crate::config::InterfaceConfig;
use crate::document::{Document, Mistake};
use crate::fields::{RateShare, share, unit, within};
use documents::units;
use mace::RuleTerms;
use mace::io::MOST_SHADOWS;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use terms::book::ResourceKind;
use terms::{Amount, Rate, Span};
use toml::Spanned;

/// The section as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaceFile {
    interface: Spanned<String>,
    applications: PathBuf,
    allocated: Option<Spanned<String>>,
    rule: Option<Spanned<String>>,
    target: Option<Spanned<String>>,
    nines: Option<Spanned<u32>>,
    space: Option<Spanned<String>>,
    #[serde(default)]
    shadow: Vec<Spanned<String>>,
    period: Option<Spanned<String>>,
    window: Option<Spanned<u32>>,
    refused_for: Option<Spanned<String>>,
    candidates: Option<Spanned<u32>>,
    max_flows: Option<Spanned<u32>>,
    #[serde(default)]
    signalled: bool,
    booked: Option<Spanned<String>>,
}

/// Recognition and admission by measurement on one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaceConfig {
    /// The name of the interface.
    pub interface: String,
    /// The application list.
    pub applications: PathBuf,
    /// The terms on which flows are admitted.
    pub terms: MaceTerms,
    /// True: controlled load that is signalled there is admitted by measurement too.
    pub signalled: bool,
    /// The most that may be booked at a time, per cent of the rate that is set aside.
    pub booked: Option<u32>,
}

impl MaceConfig {
    /// The most that may be booked at a time at a link of this rate; `None`: nothing.
    pub(crate) fn bookable(&self, link: Rate) -> Option<Amount> {
        let share = self.terms.allocated.of(link).share(self.booked?.into(), 100);
        Some(ResourceKind::Measured.amount(share.as_bps()))
    }
}

/// The keys that say how flows are admitted, wherever they stand: in `[mace]`, or at a queue of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct MaceTermsText<'a> {
    /// `allocated`.
    pub allocated: Option<&'a Spanned<String>>,
    /// `rule`.
    pub rule: Option<&'a Spanned<String>>,
    /// `target`.
    pub target: Option<&'a Spanned<String>>,
    /// `nines`.
    pub nines: Option<&'a Spanned<u32>>,
    /// `space`.
    pub space: Option<&'a Spanned<String>>,
    /// `shadow`.
    pub shadow: &'a [Spanned<String>],
    /// `period`.
    pub period: Option<&'a Spanned<String>>,
    /// `window`.
    pub window: Option<&'a Spanned<u32>>,
    /// `refused_for`.
    pub refused_for: Option<&'a Spanned<String>>,
    /// `candidates`.
    pub candidates: Option<&'a Spanned<u32>>,
    /// `max_flows`.
    pub max_flows: Option<&'a Spanned<u32>>,
}

/// The values of these keys, with the defaults of those that are not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaceTerms {
    /// The rate set aside for promoted flows.
    pub allocated: RateShare,
    /// The rule that decides.
    pub rule: RuleTerms,
    /// The rules in shadow.
    pub shadow: Vec<RuleTerms>,
    /// Time between samples.
    pub period: Span,
    /// The samples of a window.
    pub window: u32,
    /// The time before a refused flow is asked about again.
    pub refused_for: Span,
    /// The places for candidates.
    pub candidates: usize,
    /// The most promoted flows.
    pub most_flows: usize,
}

/// The parameters that rules may have.
struct RuleNumbers {
    target: (u32, u32),
    nines: u32,
    space: Rate,
}

pub(crate) fn read(
    document: &Document<'_>,
    file: &Path,
    found: &MaceFile,
    interfaces: &[InterfaceConfig],
) -> Result<MaceConfig, Mistake> {
    let name = found.interface.get_ref();
    if !interfaces.iter().any(|interface| interface.name == *name) {
        let wrong = format!("there is no [[interface]] named {name}");
        return Err(document.at(found.interface.span(), wrong));
    }
    let text = MaceTermsText {
        allocated: found.allocated.as_ref(),
        rule: found.rule.as_ref(),
        target: found.target.as_ref(),
        nines: found.nines.as_ref(),
        space: found.space.as_ref(),
        shadow: &found.shadow,
        period: found.period.as_ref(),
        window: found.window.as_ref(),
        refused_for: found.refused_for.as_ref(),
        candidates: found.candidates.as_ref(),
        max_flows: found.max_flows.as_ref(),
    };
    Ok(MaceConfig {
        interface: name.clone(),
        applications: file.parent().map_or_else(|| found.applications.clone(), |dir| dir.join(&found.applications)),
        terms: terms(document, &text)?,
        signalled: found.signalled,
        booked: found.booked.as_ref().map(|text| percent(document, text, "share to be booked")).transpose()?,
    })
}

/// Reads the keys that say how flows are admitted.
///
/// # Errors
/// The first that is out of its limits, with its place.
pub fn terms(document: &Document<'_>, text: &MaceTermsText<'_>) -> Result<MaceTerms, Mistake> {
    let numbers = RuleNumbers {
        target: target(document, text.target)?,
        nines: within(document, text.nines, 3, (1, 32), "nines")?,
        space: match text.space {
            None => Rate::from_mbps(1),
            Some(text) => match unit(document, text, units::parse_rate)? {
                Rate::ZERO => return Err(document.at(text.span(), "a space of zero admits nothing")),
                rate => rate,
            },
        },
    };
    if let Some(beyond) = text.shadow.get(MOST_SHADOWS) {
        return Err(document.at(beyond.span(), format!("at most {MOST_SHADOWS} rules in shadow")));
    }
    let usual = RuleTerms::MeasuredSum { target: numbers.target, departures: false };
    Ok(MaceTerms {
        allocated: match text.allocated {
            None => RateShare::PerMille(300),
            Some(text) => share(document, text)?,
        },
        rule: text.rule.map_or(Ok(usual), |text| rule(document, text, &numbers))?,
        shadow: text.shadow.iter().map(|text| rule(document, text, &numbers)).collect::<Result<_, _>>()?,
        period: span(document, text.period, Span::from_secs(5), Span::from_millis(100))?,
        window: within(document, text.window, 20, (1, 100_000), "window")?,
        refused_for: span(document, text.refused_for, Span::from_secs(30), Span::from_secs(1))?,
        candidates: within(document, text.candidates, 65_536, (16, 1 << 22), "candidates")? as usize,
        most_flows: within(document, text.max_flows, 4_096, (1, 65_536), "max_flows")? as usize,
    })
}

fn rule(document: &Document<'_>, text: &Spanned<String>, numbers: &RuleNumbers) -> Result<RuleTerms, Mistake> {
    let RuleNumbers { target, nines, space } = *numbers;
    Ok(match text.get_ref().as_str() {
        "measured-sum" => RuleTerms::MeasuredSum { target, departures: false },
        "measured-sum-departures" => RuleTerms::MeasuredSum { target, departures: true },
        "simple-sum" => RuleTerms::SimpleSum,
        "hoeffding" => RuleTerms::Hoeffding { nines },
        "tangent" => RuleTerms::Tangent { space },
        other => {
            let known = "measured-sum, measured-sum-departures, simple-sum, hoeffding or tangent";
            return Err(document.at(text.span(), format!("{other:?} is no rule: write {known}")));
        }
    })
}

fn target(document: &Document<'_>, text: Option<&Spanned<String>>) -> Result<(u32, u32), Mistake> {
    let Some(text) = text else { return Ok((90, 100)) };
    percent(document, text, "target").map(|percent| (percent, 100))
}

fn percent(document: &Document<'_>, text: &Spanned<String>, what: &str) -> Result<u32, Mistake> {
    let percent = text.get_ref().strip_suffix('%').and_then(|percent| percent.trim().parse().ok());
    let percent = percent.filter(|percent| (1..=1_000).contains(percent));
    percent.ok_or_else(|| document.at(text.span(), format!("{:?} is no {what}: 1% to 1000%", text.get_ref())))
}

fn span(document: &Document<'_>, text: Option<&Spanned<String>>, usual: Span, least: Span) -> Result<Span, Mistake> {
    let Some(text) = text else { return Ok(usual) };
    let span = unit(document, text, units::parse_span)?;
    if span < least || span > Span::from_secs(86_400) {
        let wrong = format!("{}: from {} ms to 24h", text.get_ref(), least.as_millis());
        return Err(document.at(text.span(), wrong));
    }
    Ok(span)
}
