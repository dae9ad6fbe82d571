//! How often and how coarsely a domain publishes what is free in it.
//!
//! ```toml
//! [topology]                     # the defaults
//! refresh = "10s"                # our own is computed anew, and the neighbours are asked
//! step = "10m"                   # what is free: the least in each interval of this length
//! unit = "1mbit"                 # rounded down to a multiple of this
//! ahead = "1d"                   # how far ahead; after that the last step goes on
//! networks = ["10.0.0.0/16"]     # the networks to publish; default: those of our agents' interfaces
//! ```

use documents::topology::network;
use documents::units;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::time::Duration;
use terms::Span;
use toml::Spanned;
use topology::coarse::Grain;
use topology::{Network, advertisement};

/// The settings of the exchange between domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologySettings {
    /// The time between two rounds.
    pub refresh: Duration,
    /// How coarse what is free is published.
    pub grain: Grain,
    /// How far ahead.
    pub ahead: Span,
    /// The networks to publish; empty: those of our agents' interfaces.
    pub networks: Vec<Network>,
}

impl Default for TopologySettings {
    fn default() -> TopologySettings {
        let grain = Grain { step: Span::from_secs(600), unit: terms::Rate::from_mbps(1) };
        TopologySettings {
            refresh: Duration::from_secs(10),
            grain,
            ahead: Span::from_secs(86_400),
            networks: Vec::new(),
        }
    }
}

impl TopologySettings {
    /// The time for which an advertisement is believed: several rounds may fail.
    pub fn life(&self) -> Span {
        let rounds = Span::from_nanos(self.refresh.as_nanos() as u64).mul_div_ceil(6, 1);
        rounds.max(Span::from_secs(30)).min(advertisement::MOST_LIFE)
    }
}

/// `[topology]` as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    refresh: Option<Spanned<String>>,
    step: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    ahead: Option<Spanned<String>>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
}

/// Reads the settings.
///
/// # Errors
/// The first [`Mistake`] in them.
pub fn read(document: &Document<'_>, found: Option<TopologyFile>) -> Result<TopologySettings, Mistake> {
    let mut settings = TopologySettings::default();
    let Some(found) = found else { return Ok(settings) };
    let span = |said: &Spanned<String>, least: u64, most: u64, what: &str| {
        let span = units::parse_span(said.get_ref()).map_err(|wrong| document.at(said.span(), wrong))?;
        match (Span::from_secs(least)..=Span::from_secs(most)).contains(&span) {
            true => Ok(span),
            false => Err(document.at(said.span(), what)),
        }
    };
    if let Some(said) = &found.refresh {
        settings.refresh = Duration::from_nanos(span(said, 1, 600, "refresh is 1s to 10m")?.as_nanos());
    }
    if let Some(said) = &found.step {
        settings.grain.step = span(said, 1, 86_400, "step is 1s to 1d")?;
    }
    if let Some(said) = &found.ahead {
        settings.ahead = span(said, 60, 31 * 86_400, "ahead is 1m to 31d")?;
    }
    if let Some(said) = &found.unit {
        settings.grain.unit = units::parse_rate(said.get_ref()).map_err(|wrong| document.at(said.span(), wrong))?;
        if settings.grain.unit.as_bps() == 0 {
            return Err(document.at(said.span(), "unit is at least 1bit"));
        }
    }
    let steps = settings.ahead.as_nanos() / settings.grain.step.as_nanos() + 2;
    if steps > advertisement::MOST_STEPS as u64 {
        let at = found.step.or(found.ahead).map_or(0..0, |said| said.span());
        let what =
            format!("ahead has {steps} steps; at most {} are published: a longer step", advertisement::MOST_STEPS);
        return Err(document.at(at, what));
    }
    for said in &found.networks {
        let wrong = || document.at(said.span(), format!("{:?} is no network, such as 10.0.0.0/16", said.get_ref()));
        let (address, prefix) = network(said.get_ref()).ok_or_else(wrong)?;
        settings.networks.push(Network::of(address, prefix));
    }
    if settings.networks.len() > advertisement::MOST_NETWORKS {
        return Err(document.whole(format!("more than {} networks", advertisement::MOST_NETWORKS)));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[derive(Deserialize)]
    struct File {
        topology: Option<TopologyFile>,
    }

    fn parse(text: &str) -> Result<TopologySettings, String> {
        let document = Document::new(Path::new("/etc/sluice/broker.toml"), text);
        let file: File = document.parse().map_err(|mistake| mistake.to_string())?;
        read(&document, file.topology).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn settings_and_mistakes() {
        assert_eq!(parse("").unwrap(), TopologySettings::default());
        let text = "[topology]\nrefresh = \"1s\"\nstep = \"1m\"\nunit = \"100kbit\"\nahead = \"1h\"\nnetworks = [\"10.0.9.9/16\"]";
        let found = parse(text).unwrap();
        assert_eq!((found.refresh, found.life()), (Duration::from_secs(1), Span::from_secs(30)));
        assert_eq!(found.networks, [Network::of([10, 0, 0, 0].into(), 16)]);
        assert_eq!((found.grain.step, found.grain.unit.as_bps()), (Span::from_secs(60), 100_000));
        for (line, why) in [
            ("refresh = \"0s\"", "1s to 10m"),
            ("step = \"2d\"", "1s to 1d"),
            ("step = \"1s\"", "at most 512"),
            ("ahead = \"1y\"", ":2:"),
            ("unit = \"0bit\"", "at least 1bit"),
            ("networks = [\"10.0.0.0\"]", "no network"),
            ("networks = [\"10.0.0.0/33\"]", "no network"),
            ("other = 1", "other"),
        ] {
            let said = parse(&format!("[topology]\n{line}\n")).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
