//! A data plane for tests that does exactly what it is told, watches the law at every single operation, and can fail.

use control::classes::guaranteed;
use control::edges::PartId;
use control::io::{InterfaceState, PlanId, Reservable};
use control::tc::{ControlOutput, Tc};
use std::collections::{BTreeSet, VecDeque};
use terms::ports::{Preemption, RHandle, TcRequest};
use terms::{
    Bytes, Fault, FilterSpec, FlowKey, FlowSpec, IfIndex, Rate, Rspec, SenderTemplate, Session, Span, Time, Tspec,
};
use traffic::plan::{LinkSpec, Plan, PlanOp};

pub const OIF: IfIndex = IfIndex(2);
pub const LIFETIME: Span = Span::from_millis(5_250);

pub fn reservable(mbit: u64) -> Reservable {
    Reservable {
        spec: LinkSpec {
            rate: Rate::from_mbps(mbit),
            overhead: 14,
            mtu: 1500,
            scheduler: traffic::scheduler::SchedulerKind::Htb,
        },
        signalled_share: Rate::from_mbps(mbit),
        kept_back: Rate::from_mbps(1),
        assumed_holding: None,
        guaranteed: Some((0, 1_212)),
        measured: Rate::ZERO,
    }
}

pub fn interface(link: Option<Reservable>) -> InterfaceState {
    InterfaceState {
        index: OIF,
        name: "eth1".into(),
        addresses: vec!["10.0.2.1".parse().unwrap()],
        mtu: 1500,
        rsvp: true,
        link,
    }
}

pub fn session(port: u16) -> Session {
    Session { dst: "10.0.3.2".parse().unwrap(), protocol: 17, dst_port: port }
}

pub fn sender() -> SenderTemplate {
    SenderTemplate { src: "10.0.1.2".parse().unwrap(), src_port: 9 }
}

pub fn tspec(kbit: u64) -> Tspec {
    Tspec { r: Rate::from_kbps(kbit), b: Bytes::new(30_000), p: Rate::INFINITE, m: 200, M: 1400 }
}

pub fn controlled_load(kbit: u64) -> FlowSpec {
    FlowSpec::ControlledLoad(tspec(kbit))
}

pub fn guaranteed_service(kbit: u64, service_kbit: u64) -> FlowSpec {
    FlowSpec::Guaranteed(tspec(kbit), Rspec { R: Rate::from_kbps(service_kbit), S: Span::ZERO })
}

pub fn request(port: u16, flowspec: FlowSpec, filters: &[FilterSpec]) -> TcRequest<'_> {
    let path_te = *flowspec.tspec();
    TcRequest {
        oif: OIF,
        session: session(port),
        style: terms::Style::Ff,
        filters,
        wild: terms::Wild::NONE,
        flowspec,
        path_te,
        police: terms::ports::Police::default(),
        lifetime: LIFETIME,
        priority: None,
    }
}

/// The plane.
#[derive(Default)]
pub struct World {
    pub plan: Plan,
    pub under_way: VecDeque<(PlanId, Vec<PlanOp>)>,
    pub installed: Vec<(RHandle, Result<(), Fault>)>,
    pub displaced: Vec<(RHandle, Option<Preemption>)>,
    pub events: Vec<control::io::Event>,
    pub enforced: Vec<(PartId, Result<(), Fault>)>,
    pub trusted: BTreeSet<IfIndex>,
    pub promoted: Vec<(FlowKey, Result<(), Fault>)>,
    pub by_measurement: Vec<control::tc::SignalledFlow>,
}

impl World {
    /// Takes what was said; returns how many operations that was.
    pub fn drain(&mut self, tc: &mut Tc) -> usize {
        let mut count = 0;
        tc.end_turn();
        while let Some(said) = tc.poll() {
            match said {
                ControlOutput::Plan(id, ops) => {
                    assert!(!ops.is_empty(), "an empty batch");
                    count += ops.len();
                    self.under_way.push_back((id, ops));
                }
                ControlOutput::Event(event) => self.events.push(event),
                ControlOutput::Installed(handle, result) => self.installed.push((handle, result)),
                ControlOutput::Displaced(handle, by) => self.displaced.push((handle, by)),
                ControlOutput::Enforced(part, result) => self.enforced.push((part, result)),
                ControlOutput::Promoted { flow, result, .. } => self.promoted.push((flow, result)),
                ControlOutput::ByMeasurement(news) => self.by_measurement.push(news),
                ControlOutput::Trust(interfaces) => self.trusted = interfaces,
            }
        }
        count
    }

    /// Carries the oldest batch out, or fails at it and leaves nothing of it.
    pub fn answer(&mut self, tc: &mut Tc, now: Time, ok: bool) {
        let Some((id, ops)) = self.under_way.pop_front() else { return };
        let result = if ok { Ok(()) } else { Err(Fault { what: "the plane said no", code: 16 }) };
        if ok {
            ops.iter().for_each(|op| self.apply(op));
            self.check_sums(ops.last());
        }
        tc.plan_done(now, id, result);
        self.drain(tc);
    }

    /// Carries everything out.
    pub fn settle(&mut self, tc: &mut Tc, now: Time) {
        self.drain(tc);
        while !self.under_way.is_empty() {
            self.answer(tc, now, true);
        }
    }

    /// Carries one operation out.
    pub fn apply(&mut self, op: &PlanOp) {
        if let PlanOp::DropClass { oif, class } = op {
            let link = &self.plan.links[oif];
            assert!(link.flows.values().all(|entry| entry.class != *class), "class dropped under its flows: {op:?}");
        }
        self.plan.apply(op);
        self.check_sums(Some(op));
        if let PlanOp::Flow { oif, flow, entry } = op {
            let link = &self.plan.links[oif];
            assert!(link.classes.contains_key(&entry.class), "no class for {flow:?}");
        }
    }

    fn check_sums(&self, after: Option<&PlanOp>) {
        for link in self.plan.links.values() {
            let sum = link.classes.values().map(guaranteed).fold(Rate::ZERO, Rate::saturating_add);
            assert!(sum <= link.link.rate, "classes sum to {sum} over {} after {after:?}", link.link.rate);
        }
    }
}
