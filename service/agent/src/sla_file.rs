//! `[[sla]]`: agreements with neighbouring domains (seed 002, sections 4.1 and 6). Each is a resource `sla/PEER`, booked
//! as every other, and enforced on the packets that come in from the peer.
//!
//! ```toml
//! [[sla]]
//! peer = "anl"                         # the neighbouring domain, by the name that its certificates have here
//! interface = "eth1"                   # where its packets come in; the role of that interface is "peer"
//! rate = "55mbit"                      # what it may send as premium (EF), bit/s of IP bytes
//! grows_to = "60mbit"                  # what bookings may make of it by a rule with `grow = true`; default: it does not grow
//! background = "90%"                   # of that, what EF and AF1x may have together while there is background; default:
//!                                      # no background
//! most = "20mbit"                      # in one request; default: all of it
//! immediate_only = true                # bookings begin when they are asked for (within 10 s, since clocks differ); or
//! ahead = "30d"                        # they begin so far ahead at most; default: as far as any booking
//! meter = "trtcm,peak=50mbit,aware,mark-red"   # of AF1x: what exceeds the agreement is coloured (RFC 2698); default: dropped
//! transit = true                       # rules may let people of other domains book on it, whose way leads through here
//! from = "2026-11-01T00:00:00Z"        # when the agreement begins and ends; default: it always holds
//! until = "2027-11-01T00:00:00Z"
//! ```

use crate::config::InterfaceConfig;
use crate::document::{Document, Mistake};
use crate::fields::{RateShare, share, unit};
use crate::role::InterfaceRole;
use booking::policy::{Limits, SlaTerms};
use control::edges::SlaPlace;
use control::resources::Resource;
use documents::book::{Instant, MeterDoc};
use documents::units;
use serde::Deserialize;
use std::collections::BTreeMap;
use terms::book::{Guarantee, MeterTerms, ResourceKind};
use terms::{IfIndex, Rate, Span, Time};
use toml::Spanned;

/// The most agreements in a file.
const MAX_SLAS: usize = 64;
/// The longest name of a domain, bytes.
const MAX_PEER: usize = 60;
/// The time within which a booking begins that begins when it is asked for: clocks differ.
const AT_ONCE: Span = Span::from_secs(10);

/// An agreement with a neighbouring domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlaConfig {
    /// The domain.
    pub peer: String,
    /// The interface by which its packets come in.
    pub interface: String,
    /// The agreed rate of premium, bit/s of IP bytes.
    pub rate: Rate,
    /// The rate that it may grow to.
    pub grows_to: Option<Rate>,
    /// The part of it for foreground and background together while there is background, thousandths; zero: none.
    pub background: u32,
    /// The meter of AF1x; without one what exceeds the agreement is dropped.
    pub meter: Option<MeterTerms>,
    /// The limits of every request.
    pub limits: Limits,
    /// True if rules may let people of other domains book on it.
    pub transit: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlaFile {
    peer: Spanned<String>,
    interface: Spanned<String>,
    rate: Spanned<String>,
    grows_to: Option<Spanned<String>>,
    background: Option<Spanned<String>>,
    meter: Option<Spanned<String>>,
    most: Option<Spanned<String>>,
    immediate_only: Option<bool>,
    ahead: Option<Spanned<String>>,
    transit: Option<bool>,
    from: Option<Spanned<String>>,
    until: Option<Spanned<String>>,
}

impl SlaConfig {
    /// The name of the resource.
    pub fn resource(&self) -> String {
        format!("sla/{}", self.peer)
    }

    /// The resource as the ledger counts it.
    pub fn stock(&self) -> Resource {
        let amount = |rate: Rate| ResourceKind::Sla.amount(rate.as_bps());
        let capacity = amount(self.grows_to.unwrap_or(self.rate));
        let shared = amount(self.rate).thousandths(self.background);
        Resource { name: self.resource(), guarantee: Guarantee::Reserved, capacity, shared }
    }

    /// The limits as policy asks them.
    pub fn terms(&self) -> SlaTerms {
        let agreed = self.grows_to.map(|_| self.rate.as_bps());
        SlaTerms { resource: self.resource(), limits: self.limits.clone(), agreed, transit: self.transit }
    }
}

/// The interface of each agreement among those that there are, and its meter; `index` finds an interface by its name.
pub fn places(all: &[SlaConfig], index: impl Fn(&str) -> Option<IfIndex>) -> BTreeMap<String, SlaPlace> {
    all.iter().map(|sla| (sla.resource(), SlaPlace::new(index(&sla.interface), sla.meter))).collect()
}

/// Reads every `[[sla]]`.
pub(crate) fn read(
    document: &Document<'_>,
    found: &[SlaFile],
    interfaces: &[InterfaceConfig],
) -> Result<Vec<SlaConfig>, Mistake> {
    if found.len() > MAX_SLAS {
        return Err(document.whole(format!("more than {MAX_SLAS} agreements ([[sla]])")));
    }
    let mut all: Vec<SlaConfig> = Vec::new();
    for entry in found {
        let sla = one(document, entry, interfaces)?;
        if all.iter().any(|other| other.peer == sla.peer) {
            return Err(document.at(entry.peer.span(), format!("the agreement with {} is there twice", sla.peer)));
        }
        if let Some(other) = all.iter().find(|other| other.interface == sla.interface) {
            let what = format!("{} is where the packets of {} come in already", sla.interface, other.peer);
            return Err(document.at(entry.interface.span(), what));
        }
        all.push(sla);
    }
    Ok(all)
}

fn one(document: &Document<'_>, entry: &SlaFile, interfaces: &[InterfaceConfig]) -> Result<SlaConfig, Mistake> {
    let peer = entry.peer.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if peer.is_empty() || peer.len() > MAX_PEER || !peer.chars().all(plain) {
        let what = format!("{peer:?} is no name of a domain: 1 to {MAX_PEER} letters, digits, - _ .");
        return Err(document.at(entry.peer.span(), what));
    }
    let interface = entry.interface.get_ref();
    match interfaces.iter().find(|one| one.name == *interface) {
        None => {
            let what =
                format!("there is no [[interface]] {interface}: an agreement is about the packets that come in there");
            return Err(document.at(entry.interface.span(), what));
        }
        Some(one) if one.role != Some(InterfaceRole::Peer) => {
            let what = format!("write role = \"peer\" under the [[interface]] {interface}: {peer} is behind it");
            return Err(document.at(entry.interface.span(), what));
        }
        Some(_) => {}
    }
    let rate = unit(document, &entry.rate, units::parse_rate)?;
    if rate == Rate::ZERO {
        return Err(document.at(entry.rate.span(), "an agreement about nothing: leave the [[sla]] out"));
    }
    let grows_to = entry.grows_to.as_ref().map(|text| unit(document, text, units::parse_rate)).transpose()?;
    if let (Some(text), true) = (&entry.grows_to, grows_to.is_some_and(|most| most <= rate)) {
        return Err(document.at(text.span(), format!("grows_to is more than the agreed {rate}")));
    }
    let background = match &entry.background {
        None => 0,
        Some(text) => match share(document, text)? {
            RateShare::PerMille(thousandths) => thousandths,
            RateShare::Rate(_) => return Err(document.at(text.span(), "background is a share, such as 90%")),
        },
    };
    let meter = entry.meter.as_ref().map(|text| meter(document, text, background)).transpose()?;
    let limits = limits(document, entry, grows_to.unwrap_or(rate))?;
    let transit = entry.transit.unwrap_or(false);
    let (peer, interface) = (peer.clone(), interface.clone());
    Ok(SlaConfig { peer, interface, rate, grows_to, background, meter, limits, transit })
}

/// The meter of AF1x. Its committed rate is what is booked, so a peak rate below that counts as that.
fn meter(document: &Document<'_>, text: &Spanned<String>, background: u32) -> Result<MeterTerms, Mistake> {
    if background == 0 {
        let what =
            "a meter is of AF1x, which this agreement does not have: write background = \"90%\" or such beside it";
        return Err(document.at(text.span(), what));
    }
    let terms = MeterDoc::parse(text.get_ref()).and_then(|doc| doc.terms());
    let terms = terms.and_then(|terms| match terms.fault(Rate::ZERO) {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(terms),
    });
    terms.map_err(|wrong| document.at(text.span(), wrong))
}

fn limits(document: &Document<'_>, entry: &SlaFile, rate: Rate) -> Result<Limits, Mistake> {
    let most = entry.most.as_ref().map(|text| unit(document, text, units::parse_rate)).transpose()?;
    if let (Some(text), true) = (&entry.most, most.is_some_and(|most| most == Rate::ZERO || most > rate)) {
        return Err(document.at(text.span(), format!("most is more than 0 and at most the agreed {rate}")));
    }
    let ahead = match (&entry.ahead, entry.immediate_only.unwrap_or(false)) {
        (Some(text), true) => {
            let what = "ahead and immediate_only exclude each other: write one of them";
            return Err(document.at(text.span(), what));
        }
        (Some(text), false) => Some(unit(document, text, units::parse_span)?),
        (None, true) => Some(AT_ONCE),
        (None, false) => None,
    };
    let instant = |text: &Option<Spanned<String>>| -> Result<Option<Time>, Mistake> {
        let read = |text: &Spanned<String>| text.get_ref().parse().map_err(|wrong| document.at(text.span(), wrong));
        Ok(text.as_ref().map(read).transpose()?.map(|Instant(time)| time))
    };
    let (from, until) = (instant(&entry.from)?, instant(&entry.until)?);
    if let (Some(text), true) = (&entry.until, from.zip(until).is_some_and(|(from, until)| from >= until)) {
        return Err(document.at(text.span(), "the agreement ends before it begins"));
    }
    Ok(Limits { amount: most.map(Rate::as_bps), ahead, from, until, ..Limits::default() })
}

#[cfg(test)]
mod tests {
    use crate::config::AgentConfig;
    use std::path::Path;
    use terms::Rate;
    use terms::book::{MeterForm, MeterTerms};

    fn read(sla: &str) -> Result<AgentConfig, String> {
        let text = format!(
            "auth = \"none\"\n[[interface]]\nname = \"eth1\"\nrate = \"60mbit\"\nrole = \"peer\"\n\
             [[interface]]\nname = \"eth2\"\nrate = \"60mbit\"\n{sla}"
        );
        AgentConfig::parse(Path::new("agent.toml"), &text).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn an_agreement_is_a_resource_with_limits() {
        let sla = "[[sla]]\npeer = \"anl\"\ninterface = \"eth1\"\nrate = \"55mbit\"\n";
        let config = read(&format!("{sla}background = \"90%\"\nmost = \"20mbit\"\nimmediate_only = true\n")).unwrap();
        let stock = config.slas[0].stock();
        assert_eq!(
            (stock.name.as_str(), stock.capacity.count(), stock.shared.count()),
            ("sla/anl", 55_000_000, 49_500_000)
        );
        let limits = config.slas[0].terms().limits;
        assert_eq!((limits.amount, limits.ahead), (Some(20_000_000), Some(super::AT_ONCE)));
        assert!(read("").unwrap().slas.is_empty());
        let grows = read(&format!("{sla}grows_to = \"60mbit\"\nmost = \"58mbit\"\n")).unwrap();
        let (stock, terms) = (grows.slas[0].stock(), grows.slas[0].terms());
        assert_eq!((stock.capacity.count(), terms.agreed), (60_000_000, Some(55_000_000)));
        let shared = format!("{sla}background = \"90%\"\n");
        let metered = read(&format!("{shared}meter = \"trtcm,peak=50mbit,aware,mark-red\"\n")).unwrap();
        let terms = MeterTerms::new(MeterForm::TrTcm).with_rate(Some(Rate::from_mbps(50)));
        assert_eq!(metered.slas[0].meter, Some(terms.aware(true).marking_red(true)));
        for (wrong, why) in [
            (format!("{sla}meter = \"srtcm\"\n"), "of AF1x, which this agreement does not have"),
            (format!("{shared}meter = \"tswtcm\"\n"), "no kind of meter"),
            (format!("{shared}meter = \"srtcm,burst=100b\"\n"), "a whole packet"),
            (format!("{sla}{sla}"), "twice"),
            (sla.replace("eth1", "eth9"), "no [[interface]] eth9"),
            (sla.replace("eth1", "eth2"), "role = \"peer\""),
            (sla.replace("\"anl\"", "\"a/b\""), "no name of a domain"),
            (sla.replace("55mbit", "0bit"), "about nothing"),
            (format!("{sla}most = \"56mbit\"\n"), "at most the agreed"),
            (format!("{sla}immediate_only = true\nahead = \"1h\"\n"), "exclude each other"),
            (format!("{sla}background = \"5mbit\"\n"), "a share"),
            (format!("{sla}grows_to = \"55mbit\"\n"), "more than the agreed"),
            (format!("{sla}from = \"2027-01-01T00:00:00Z\"\nuntil = \"2026-01-01T00:00:00Z\"\n"), "before it begins"),
            (format!("{sla}{}", sla.replace("\"anl\"", "\"lbnl\"")), "packets of anl come in already"),
        ] {
            let told = read(&wrong).unwrap_err();
            assert!(told.contains(why), "{wrong}: {told}");
        }
    }
}
