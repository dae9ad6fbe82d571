//! Values of a scenario file: windows, ends, units, the sweep.

use super::file::{MAX_POINTS, Reader, SweepText};
use daemon::document::Mistake;
use sim::scenario::{NodeId, Pattern, Scenario, SourceId};
use terms::{Rate, Span, Time};
use toml::Spanned;
use traffic::port::SchedulerKind;

impl Reader<'_> {
    pub(super) fn rate(&self, text: &Spanned<String>) -> Result<Rate, Mistake> {
        api::units::parse_rate(text.get_ref()).map_err(|wrong| self.document.at(text.span(), wrong))
    }

    pub(super) fn span(&self, text: &Spanned<String>) -> Result<Span, Mistake> {
        api::units::parse_span(text.get_ref()).map_err(|wrong| self.document.at(text.span(), wrong))
    }

    pub(super) fn scheduler(&self, text: &Spanned<String>) -> Result<SchedulerKind, Mistake> {
        match text.get_ref().as_str() {
            "htb" => Ok(SchedulerKind::Htb),
            "hfsc" => Ok(SchedulerKind::Hfsc),
            "priority" => Ok(SchedulerKind::Priority),
            other => Err(self.document.at(text.span(), format!("{other:?} is no scheduler: htb, hfsc or priority"))),
        }
    }

    /// `["2s", "12s"]`: from the first instant on, before the second.
    pub(super) fn window(&self, text: &Spanned<[String; 2]>) -> Result<(Time, Time), Mistake> {
        let wrong = |message: String| self.document.at(text.span(), message);
        let [from, until] = text.get_ref();
        let from = Time::ZERO + api::units::parse_span(from).map_err(wrong)?;
        let until = Time::ZERO + api::units::parse_span(until).map_err(wrong)?;
        if from >= until {
            return Err(wrong("the end is not after the start".to_string()));
        }
        Ok((from, until))
    }

    /// `"maui:5004"`.
    pub(super) fn end(&self, text: &Spanned<String>) -> Result<(NodeId, u16), Mistake> {
        let wrong = |message: String| self.document.at(text.span(), message);
        let parts = text.get_ref().rsplit_once(':');
        let (name, port) = parts.ok_or_else(|| wrong(format!("{:?}: write NODE:PORT", text.get_ref())))?;
        let port = port.parse().map_err(|_| wrong(format!("{port:?} is no port: 0 to 65535")))?;
        let node = self.nodes.get(name).copied().ok_or_else(|| wrong(format!("there is no node {name:?}")))?;
        Ok((node, port))
    }

    /// Whose rate is swept, and the points in order; one point without a sweep.
    #[allow(clippy::type_complexity)]
    pub(super) fn sweep(
        &self,
        found: Option<&SweepText>,
        names: &[String],
        scenario: &Scenario,
        reserves: bool,
    ) -> Result<(Option<SourceId>, Vec<(Option<Rate>, bool)>), Mistake> {
        let Some(sweep) = found else { return Ok((None, vec![(None, reserves)])) };
        let swept = match &sweep.source {
            None => None,
            Some(name) => {
                let wrong = |message: String| self.document.at(name.span(), message);
                let position = names.iter().position(|known| known == name.get_ref());
                let id = position.ok_or_else(|| wrong(format!("there is no source {:?}", name.get_ref())))?;
                if !matches!(scenario.sources[id].pattern, Pattern::Cbr { .. }) {
                    return Err(wrong("only a source with cbr has a rate to sweep".to_string()));
                }
                Some(SourceId(id))
            }
        };
        let mut rates: Vec<Option<Rate>> = Vec::new();
        for text in &sweep.rates {
            rates.push(Some(self.rate(text)?));
        }
        if swept.is_some() == rates.is_empty() {
            return Err(self.document.whole("a sweep of rates needs both `source` and `rates`"));
        }
        if rates.is_empty() {
            rates.push(None);
        }
        let ways = sweep.reserve.clone().unwrap_or_else(|| vec![reserves]);
        let count = rates.len().saturating_mul(ways.len());
        if count == 0 || count > MAX_POINTS {
            return Err(self
                .document
                .whole(format!("a sweep of {count} points: 1 to {MAX_POINTS} are allowed; split it")));
        }
        let points = ways.iter().flat_map(|&reserve| rates.iter().map(move |&rate| (rate, reserve)));
        Ok((swept, points.collect()))
    }
}
