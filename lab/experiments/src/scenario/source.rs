//! Sources without congestion control, and their reservations.

use super::file::{GroupMember, ReservationSpec};
use super::names::{Counters, MAX_FLOWS, Reader};
use super::text::{FramesText, OnOffText, ParetoText, ServiceText, SourceText, TraceText};
use crate::capture::CaptureFile;
use crate::plane::packet;
use rpc::document::Mistake;
use sim::map::RouteMap;
use sim::scenario::{NodeId, Scenario, SendPattern, SourceId, SourceSpec, Trace, TraceId};
use std::path::Path;
use terms::{Bytes, FlowKey, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Time, Tspec};
use toml::Spanned;

const UDP: u8 = 17;
/// The largest number of packets in a trace.
const MAX_TRACE: usize = 10_000_000;

impl Reader<'_> {
    /// Reads the sources of an entry.
    pub(super) fn sources(
        &mut self,
        text: &SourceText,
        map: &RouteMap,
        scenario: &mut Scenario,
        names: &mut Vec<GroupMember>,
        reservations: &mut Vec<ReservationSpec>,
    ) -> Result<(), Mistake> {
        let pattern = self.pattern(text, scenario)?;
        for counters in self.copies(&text.repeat)? {
            let at = text.name.span();
            let name = self.fill(text.name.get_ref(), &counters, at.clone())?;
            if names.iter().any(|known| known.name == name) {
                return Err(self.wrong(at, format!("the source {name:?} is there twice")));
            }
            if names.len() >= MAX_FLOWS {
                return Err(self.wrong(at, format!("more than {MAX_FLOWS} sources")));
            }
            let (source, receiver) = self.source(text, &counters, map, pattern)?;
            let id = SourceId(scenario.sources.len());
            reservations.extend(self.reservation(text, id, &source, receiver)?);
            scenario.sources.push(source);
            let group = match &text.group {
                Some(group) => Some(self.fill(group, &counters, at)?),
                None => None,
            };
            let group = group.map(|group| self.group(&group));
            names.push(GroupMember { name, group });
        }
        Ok(())
    }

    fn source(
        &self,
        text: &SourceText,
        counters: &Counters,
        map: &RouteMap,
        pattern: SendPattern,
    ) -> Result<(SourceSpec, NodeId), Mistake> {
        let (from_at, to_at) = (text.from.span(), text.to.span());
        let (node, src_port) =
            self.end(&self.fill(text.from.get_ref(), counters, from_at.clone())?, from_at.clone())?;
        let (receiver, dst_port) = self.end(&self.fill(text.to.get_ref(), counters, to_at.clone())?, to_at.clone())?;
        let (src, dst) = self.way(map, (node, from_at), (receiver, to_at))?;
        let packet = match &text.packet {
            Some(packet) => match u32::try_from(packet.get_ref().0.get()) {
                Ok(length) if (28..=65_535).contains(&length) => length,
                _ => {
                    let message = "a packet is 28b to 65535b, IP and UDP headers included";
                    return Err(self.wrong(packet.span(), message));
                }
            },
            None if matches!(pattern, SendPattern::Trace(_)) => 28,
            None => return Err(self.wrong(text.name.span(), "a source needs packet, the length of its packets")),
        };
        let flow = FlowKey { src, dst, protocol: UDP, src_port, dst_port, wild: terms::Wild::NONE };
        Ok((SourceSpec { node, flow, packet, pattern, from: text.during.0, until: text.during.1 }, receiver))
    }

    fn pattern(&self, text: &SourceText, scenario: &mut Scenario) -> Result<SendPattern, Mistake> {
        let at = || text.name.span();
        if text.jitter > 100 {
            return Err(
                self.wrong(at(), format!("jitter is {}: allowed is 0 to 100 percent of an interval", text.jitter))
            );
        }
        let mut found = Vec::new();
        found.extend(text.cbr.map(|rate| SendPattern::Cbr { rate: rate.0, jitter_percent: text.jitter }));
        found.extend(text.on_off.map(|OnOffText { rate, on, off }| SendPattern::OnOff {
            rate: rate.0,
            on: on.0,
            off: off.0,
        }));
        found.extend(text.greedy.map(|greedy| SendPattern::Greedy { rate: greedy.rate.0, burst: greedy.burst }));
        found.extend(text.poisson.map(|rate| SendPattern::Poisson { rate: rate.0 }));
        let exponential = |OnOffText { rate, on, off }| SendPattern::Exponential { rate: rate.0, on: on.0, off: off.0 };
        found.extend(text.exponential.map(exponential));
        if let Some(pareto) = &text.pareto {
            found.push(self.pareto(pareto)?);
        }
        if let Some(frames) = &text.frames {
            found.push(self.frames(frames)?);
        }
        if let Some(trace) = &text.trace {
            found.push(SendPattern::Trace(TraceId(scenario.traces.len())));
            scenario.traces.push(self.trace(trace)?);
        }
        match found[..] {
            [pattern] => Ok(pattern),
            _ => Err(self.wrong(
                at(),
                "a source has exactly one of cbr, on_off, frames, greedy, poisson, exponential, pareto and trace",
            )),
        }
    }

    fn pareto(&self, text: &Spanned<ParetoText>) -> Result<SendPattern, Mistake> {
        let ParetoText { rate, on, off, shape } = *text.get_ref();
        if !(shape > 1.0 && shape <= 100.0) {
            let message = format!("the shape is {shape}: allowed is above 1, so that there is a mean, to 100");
            return Err(self.wrong(text.span(), message));
        }
        let shape_milli = ((shape * 1e3).round() as u32).max(1_001);
        Ok(SendPattern::Pareto { rate: rate.0, on: on.0, off: off.0, shape_milli })
    }

    fn frames(&self, text: &Spanned<FramesText>) -> Result<SendPattern, Mistake> {
        let FramesText { interval, packets, spread } = *text.get_ref();
        if interval.0 == Span::ZERO || packets == 0 || spread > 100 {
            let message = "a frame needs an interval, at least one packet, and a spread of 0 to 100 percent";
            return Err(self.wrong(text.span(), message));
        }
        Ok(SendPattern::Video { interval: interval.0, packets, spread_percent: spread })
    }

    /// Reads the packets of a capture in the order of their times, which count from the first.
    fn trace(&self, text: &Spanned<TraceText>) -> Result<Trace, Mistake> {
        let wrong = |message: String| self.wrong(text.span(), message);
        let TraceText { file, dst_port } = text.get_ref();
        let path = self.document.file().parent().unwrap_or(Path::new(".")).join(file);
        let bytes = std::fs::read(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        let capture = CaptureFile::new(&bytes).map_err(|what| wrong(format!("{}: {what}", path.display())))?;
        let mut found: Vec<(u64, u32)> = Vec::new();
        for record in capture {
            let record =
                record.map_err(|cut| wrong(format!("{}: {} (byte {})", path.display(), cut.what, cut.offset)))?;
            let Some((_, meta)) = packet::of_record(&record, Time::ZERO, record.number) else { continue };
            if dst_port.is_none_or(|port| port == meta.flow.dst_port) {
                found.push((record.nanos, meta.len));
            }
            if found.len() > MAX_TRACE {
                return Err(wrong(format!("more than {MAX_TRACE} packets: cut the capture")));
            }
        }
        found.sort_by_key(|(nanos, _)| *nanos);
        let Some(&(first, _)) = found.first() else {
            return Err(wrong(format!("{} has no such IP packets", path.display())));
        };
        Ok(Trace { packets: found.into_iter().map(|(nanos, len)| (Span::from_nanos(nanos - first), len)).collect() })
    }

    fn reservation(
        &self,
        text: &SourceText,
        source: SourceId,
        spec: &SourceSpec,
        receiver: NodeId,
    ) -> Result<Option<ReservationSpec>, Mistake> {
        let Some(spanned) = &text.reserve else { return Ok(None) };
        let wrong = |message: String| self.wrong(spanned.span(), message);
        let reserve = spanned.get_ref();
        let (r, b) = (reserve.rate.0, reserve.burst.0);
        if r == Rate::ZERO {
            return Err(wrong("a rate of zero reserves nothing".to_string()));
        }
        let min = reserve.min_unit.map_or(Bytes::new(64), |min| min.0);
        let m = u32::try_from(min.get()).map_err(|_| wrong("min_unit is too large".to_string()))?;
        let tspec = Tspec { r, b, p: Rate::INFINITE, m, M: spec.packet.max(m) };
        let flowspec = match reserve.service.0 {
            ServiceText::ControlledLoad => FlowSpec::ControlledLoad(tspec),
            ServiceText::Guaranteed => FlowSpec::Guaranteed(tspec, Rspec { R: r, S: Span::ZERO }),
        };
        let flow = spec.flow;
        Ok(Some(ReservationSpec {
            source,
            sender: spec.node,
            receiver,
            at: Time::ZERO + reserve.at.0,
            tspec,
            flowspec,
            session: Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port },
            template: SenderTemplate { src: flow.src, src_port: u32::from(flow.src_port) },
        }))
    }
}
