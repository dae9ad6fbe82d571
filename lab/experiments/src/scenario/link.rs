//! Links, and the conditioner and queue in each of their directions.

use super::file::usual_queue;
use super::names::{MAX_NODES, Reader};
use super::text::{ConditionerText, File, LinkText, QueueText, WayText};
use crate::plane::TreeFile;
use rpc::document::Mistake;
use sim::scenario::{EgressSpec, LinkConditioner, LinkId, NO_LIMIT, Queue, QueueSpec, Scenario, SimLinkSpec, af1};
use std::path::Path;
use terms::{Rate, Span};
use toml::Spanned;
use traffic::port::SchedulerKind;
use traffic::tree::{LinkShape, ShaperSpec};

impl Reader<'_> {
    /// Reads all links into the scenario. Returns the default queue of directions.
    pub(super) fn links(&mut self, found: &File, scenario: &mut Scenario) -> Result<Queue, Mistake> {
        let scheduler = found.scheduler.map_or(SchedulerKind::Htb, |text| text.0.0);
        for text in &found.link {
            self.link_entry(text, scheduler, scenario)?;
        }
        if scenario.links.len() > MAX_NODES {
            let count = scenario.links.len();
            return Err(self.document.whole(format!("{count} links: at most {MAX_NODES} are allowed")));
        }
        // A dropper in it is timed for each link of its own; here for a link that sends nothing faster.
        let slowest = scenario.links.iter().map(|link| (link.rate, link.overhead)).min();
        match &found.queue {
            Some(queue) if queue.get_ref().mace.is_some() => Err(self
                .wrong(queue.span(), "mace is of the queue of one link, and counts what comes there: write it there")),
            Some(queue) => self.queue(queue, slowest.unwrap_or((Rate::from_mbps(10), 0))),
            None => Ok(usual_queue()),
        }
    }

    fn link_entry(&mut self, text: &LinkText, usual: SchedulerKind, scenario: &mut Scenario) -> Result<(), Mistake> {
        let at = text.between.span();
        let rate = text.rate.get_ref().0;
        if rate == Rate::ZERO {
            let message = "a link of rate zero carries nothing: give it a rate, or leave it out";
            return Err(self.wrong(text.rate.span(), message));
        }
        let mtu = text.mtu.unwrap_or(1_500);
        if !(68..=65_535).contains(&mtu) {
            return Err(self.wrong(at, format!("an mtu of {mtu}: allowed is 68 to 65535, bytes of IP packet")));
        }
        for counters in self.copies(&text.repeat)? {
            let [a, b] = text.between.get_ref();
            let (a, b) = (self.fill(a, &counters, at.clone())?, self.fill(b, &counters, at.clone())?);
            let ends = (self.node(&a, at.clone())?, self.node(&b, at.clone())?);
            if ends.0 == ends.1 {
                return Err(self.wrong(at, "a link from a node to itself"));
            }
            let delay = text.delay.map_or(Span::ZERO, |delay| delay.0);
            let scheduler = text.scheduler.map_or(usual, |text| text.0.0);
            let link = SimLinkSpec::ethernet(ends.0, ends.1, rate, delay, scheduler);
            let link = SimLinkSpec { overhead: text.overhead.unwrap_or(link.overhead), mtu, ..link };
            let id = LinkId(scenario.links.len());
            scenario.links.push(link);
            if self.links.insert((a.clone(), b.clone()), id).is_some() {
                return Err(self.wrong(at, format!("the link {a}-{b} is there twice")));
            }
            for (side, way) in [&text.there, &text.back].into_iter().enumerate() {
                let egress = self.way_out(text, way.as_ref(), side, id, &link)?;
                let node = &scenario.nodes[link.ends[side].0];
                if node.agent && egress.as_ref().is_some_and(|egress| matches!(egress.queue, Queue::Mace(_))) {
                    let wrong = format!("{} has an agent: a queue recognises flows at nodes without one", node.name);
                    return Err(self.wrong(at, wrong));
                }
                scenario.egress.extend(egress);
            }
        }
        Ok(())
    }

    /// Reads conditioner and queue of one direction, or the queue of the link for both.
    fn way_out(
        &self,
        text: &LinkText,
        way: Option<&Spanned<WayText>>,
        side: usize,
        link: LinkId,
        spec: &SimLinkSpec,
    ) -> Result<Option<EgressSpec>, Mistake> {
        let own = way.map(Spanned::get_ref);
        let queue = own.and_then(|way| way.queue.as_ref()).or(text.queue.as_ref());
        let conditioner = own.and_then(|way| way.conditioner.as_ref());
        if queue.is_none() && conditioner.is_none() {
            return Ok(None);
        }
        let conditioner = conditioner.map(|text| self.conditioner(text, spec.rate)).transpose()?;
        let queue = match queue {
            Some(queue) => self.queue(queue, (spec.rate, spec.overhead))?,
            None => Queue::UNLIMITED,
        };
        Ok(Some(EgressSpec { link, side, conditioner, queue }))
    }

    fn conditioner(&self, text: &Spanned<ConditionerText>, line: Rate) -> Result<LinkConditioner, Mistake> {
        let parts = text.get_ref();
        let within = |found: Result<_, String>, at| found.map_err(|message| self.wrong(at, message));
        let shaper = match &parts.shaper {
            Some(shaper) => Some(within(shaper.get_ref().spec(), shaper.span())?),
            None => None,
        };
        if let (Some(ShaperSpec::TrRas { rates: [.., mir], .. } | ShaperSpec::SrRas { rates: [.., mir], .. }), Some(at)) =
            (shaper, &parts.shaper)
            && mir > line
        {
            return Err(self.wrong(at.span(), format!("mir is {mir}: allowed is at most the link's rate, {line}")));
        }
        let meter = match &parts.meter {
            Some(meter) => Some(meter.get_ref().spec().map_err(|message| self.wrong(meter.span(), message))?),
            None => None,
        };
        let marker = match &parts.marker {
            Some(marker) => marker.get_ref().spec().map_err(|message| self.wrong(marker.span(), message))?,
            None => af1(),
        };
        if shaper.is_none() && meter.is_none() {
            return Err(self.wrong(text.span(), "a conditioner needs a shaper or a meter"));
        }
        Ok(LinkConditioner { shaper, meter, marker })
    }

    fn queue(&self, text: &Spanned<QueueText>, (rate, overhead): (Rate, u32)) -> Result<Queue, Mistake> {
        let found = text.get_ref();
        if let Some(mace) = &found.mace {
            return self.mace(mace, text, rate);
        }
        if let Some(tree) = &found.tree {
            return self.tree(tree, (rate, overhead));
        }
        let (packets, bytes) = (found.packets.unwrap_or(NO_LIMIT.packets), found.bytes.map_or(NO_LIMIT.bytes, |b| b.0));
        let queue = QueueSpec { packets, bytes };
        if packets == 0 || bytes.get() == 0 {
            return Err(self.wrong(text.span(), "a queue for nothing: allowed is 1 packet, 1b and more"));
        }
        let marker = match &found.marker {
            Some(marker) => marker.get_ref().spec().map_err(|message| self.wrong(marker.span(), message))?,
            None => af1(),
        };
        let Some(dropper) = &found.dropper else { return Ok(Queue::Fifo(queue)) };
        let shape = LinkShape { rate, overhead, scheduler: SchedulerKind::Priority };
        let dropper = dropper.get_ref().spec(&shape).map_err(|message| self.wrong(dropper.span(), message))?;
        Ok(Queue::Rio { dropper, marker, queue })
    }

    fn tree(&self, text: &Spanned<String>, (rate, overhead): (Rate, u32)) -> Result<Queue, Mistake> {
        let beside = self.document.file().parent().unwrap_or(Path::new("."));
        let found = TreeFile::load(&beside.join(text.get_ref()))?;
        let mut spec = found.spec;
        // The tree is written for a link; here it is told which.
        (spec.link.rate, spec.link.overhead) = (rate, overhead);
        traffic::tree::check(&spec).map_err(|refused| self.wrong(text.span(), refused.to_string()))?;
        Ok(Queue::Tree(Box::new(spec)))
    }
}
