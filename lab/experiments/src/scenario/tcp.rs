//! TCP connections.

use super::file::GroupMember;
use super::names::{Counters, MAX_FLOWS, Reader};
use super::text::{RtoText, TcpText};
use rpc::document::Mistake;
use sim::map::RouteMap;
use sim::rng::Rng;
use sim::scenario::{NodeId, RtoSpec, Scenario, Tcp, TcpSpec};
use std::ops::Range;
use terms::{Span, Time};

/// The receiver's default port, and the first port of the senders.
const PORT: u16 = 5_001;
const FIRST_PORT: u16 = 10_000;
/// The group of connections without a group.
const ALONE: u32 = u32::MAX;
/// The random stream of start times. No source of the simulator uses it.
const STREAM: u64 = 1 << 41;

impl Reader<'_> {
    /// Reads the connections of an entry.
    pub(super) fn connections(
        &mut self,
        text: &TcpText,
        map: &RouteMap,
        scenario: &mut Scenario,
        names: &mut Vec<GroupMember>,
    ) -> Result<(), Mistake> {
        let tcp = self.behaviour(text)?;
        let at = text.name.span();
        let start = Time::ZERO + text.start.map_or(Span::ZERO, |span| span.0);
        let stop = text.stop.map_or(Time::FOREVER, |span| Time::ZERO + span.0);
        if stop <= start {
            return Err(self.wrong(at, "stop is not after start"));
        }
        for counters in self.copies(&text.repeat)? {
            let name = self.fill(text.name.get_ref(), &counters, at.clone())?;
            if names.iter().any(|known| known.name == name) {
                return Err(self.wrong(at, format!("the connection {name:?} is there twice")));
            }
            if names.len() >= MAX_FLOWS {
                return Err(self.wrong(at, format!("more than {MAX_FLOWS} connections")));
            }
            let number = scenario.connections.len();
            let own_port = FIRST_PORT + (number % 50_000) as u16;
            let (from, src_port) = self.tcp_end(text.from.get_ref(), &counters, own_port, text.from.span())?;
            let (to, dst_port) = self.tcp_end(text.to.get_ref(), &counters, PORT, text.to.span())?;
            if from == to {
                return Err(self.wrong(text.to.span(), "a connection from a node to itself"));
            }
            self.way(map, (from, text.from.span()), (to, text.to.span()))?;
            let group = match &text.group {
                Some(group) => {
                    let group = self.fill(group, &counters, at.clone())?;
                    Some(self.group(&group))
                }
                None => None,
            };
            let later = text.start_spread.map_or(0, |spread| {
                let mut chance = Rng::new(scenario.seed, STREAM + number as u64);
                chance.below(spread.0.as_nanos().max(1))
            });
            let start = start + Span::from_nanos(later);
            let bytes = text.bytes.map(|bytes| bytes.0);
            let ports = (src_port, dst_port);
            scenario.connections.push(TcpSpec {
                from,
                to,
                ports,
                start,
                stop,
                bytes,
                group: group.unwrap_or(ALONE),
                tcp,
            });
            names.push(GroupMember { name, group });
        }
        Ok(())
    }

    /// Reads a node with an optional port: `maui`, or `maui:5001`.
    fn tcp_end(&self, text: &str, counters: &Counters, port: u16, at: Range<usize>) -> Result<(NodeId, u16), Mistake> {
        let text = self.fill(text, counters, at.clone())?;
        if text.contains(':') { self.end(&text, at) } else { Ok((self.node(&text, at)?, port)) }
    }

    fn behaviour(&self, text: &TcpText) -> Result<Tcp, Mistake> {
        let usual = Tcp::default();
        let at = || text.name.span();
        let allowed = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(value);
            }
            Err(self.wrong(at(), format!("{name} is {value}: allowed is {least} to {most}")))
        };
        let mss = allowed("mss", text.mss.unwrap_or(usual.mss), 1, 65_000)?;
        let window = text.window.map_or(usual.window, |window| window.0);
        if window.get() < u64::from(mss) || window.get() > 1 << 30 {
            let message = format!("window is {}b: allowed is one segment ({mss}b) to 1gb", window.get());
            return Err(self.wrong(at(), message));
        }
        let threshold = text.initial_threshold.map(|n| allowed("initial_threshold", n, 2, 1 << 20)).transpose()?;
        Ok(Tcp {
            mss,
            window,
            initial_window: allowed("initial_window", text.initial_window.unwrap_or(usual.initial_window), 1, 1_000)?,
            initial_threshold: threshold.or(usual.initial_threshold),
            growth: text.growth.map_or(usual.growth, |growth| growth.0.0),
            limited_transmit: text.limited_transmit.unwrap_or(usual.limited_transmit),
            delayed_ack: text.delayed_ack.map(|span| span.0).filter(|span| *span > Span::ZERO),
            rto: self.rto(text, usual.rto)?,
            forget_on_timeout: text.forget_on_timeout.unwrap_or(usual.forget_on_timeout),
            rescue: text.rescue.unwrap_or(usual.rescue),
            dscp: text.dscp.map_or(usual.dscp, |dscp| dscp.0),
        })
    }

    fn rto(&self, text: &TcpText, usual: RtoSpec) -> Result<RtoSpec, Mistake> {
        let Some(spanned) = &text.rto else { return Ok(usual) };
        let RtoText { initial, floor, ceiling, tick } = *spanned.get_ref();
        let rto = RtoSpec {
            initial: initial.map_or(usual.initial, |span| span.0),
            floor: floor.map_or(usual.floor, |span| span.0),
            ceiling: ceiling.map_or(usual.ceiling, |span| span.0),
            tick: tick.map_or(usual.tick, |span| span.0),
        };
        if rto.tick == Span::ZERO || rto.initial == Span::ZERO || rto.floor > rto.ceiling {
            let message = "tick and initial are more than nothing, and floor is at most ceiling";
            return Err(self.wrong(spanned.span(), message));
        }
        Ok(rto)
    }
}
