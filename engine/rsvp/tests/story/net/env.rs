//! The surroundings of a node: a routing table, and a traffic control that admits by rate and reports a millisecond
//! later that the plane has it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::ports::{RHandle, Route, TcRequest, TrafficControl, Way};
use terms::{Adspec, Fault, FlowSpec, Hop, IfIndex, Rate, Refused, Span, Time};

pub const INSTALL_DELAY: Span = Span::from_millis(1);

#[derive(Default)]
pub struct Env {
    pub routes: BTreeMap<IpAddr, Way>,
    pub capacity: BTreeMap<IfIndex, Rate>,
    pub held: BTreeMap<RHandle, (IfIndex, FlowSpec)>,
    /// Interfaces whose plane keeps a delay bound: C and D.
    pub guaranteed: BTreeMap<IfIndex, (u32, u32)>,
    /// The next reports are this fault.
    pub failing: Option<Fault>,
    /// Refuse everything with this.
    pub refusing: Option<Refused>,
    /// What is advertised of every interface.
    pub mtu: u32,
    /// Reports stay out while this is set.
    pub silent: bool,
    /// How often anything was asked of traffic control.
    pub calls: usize,
    fresh: Vec<RHandle>,
    reports: Vec<(Time, RHandle)>,
    handles: u64,
}

impl Env {
    /// Rate held on an interface.
    pub fn rate_on(&self, oif: u32) -> Rate {
        let on = self.held.values().filter(|(o, _)| o.0 == oif);
        on.fold(Rate::from_bps(0), |sum, (_, f)| sum.saturating_add(f.rate()))
    }

    pub fn date_reports(&mut self, now: Time) {
        let fresh = core::mem::take(&mut self.fresh);
        self.reports.extend(fresh.into_iter().map(|h| (now + INSTALL_DELAY, h)));
    }

    pub fn next_report(&self) -> Option<Time> {
        self.reports.iter().map(|(t, _)| *t).min().filter(|_| !self.silent)
    }

    pub fn take_report(&mut self, now: Time) -> Option<(RHandle, Result<(), Fault>)> {
        let place = self.reports.iter().position(|(t, _)| *t <= now).filter(|_| !self.silent)?;
        let (_, handle) = self.reports.remove(place);
        match self.failing {
            Some(fault) => {
                self.held.remove(&handle);
                Some((handle, Err(fault)))
            }
            None => Some((handle, Ok(()))),
        }
    }

    fn admit(&self, request: &TcRequest<'_>, but: Option<RHandle>) -> Result<(), Refused> {
        if let Some(refused) = self.refusing {
            return Err(refused);
        }
        let interface = request.oif;
        if matches!(request.flowspec, FlowSpec::Guaranteed(..)) && !self.guaranteed.contains_key(&interface) {
            return Err(Refused::NoDelayBound { interface });
        }
        let others = self.held.iter().filter(|(h, (oif, _))| *oif == interface && Some(**h) != but);
        let used = others.fold(Rate::from_bps(0), |sum, (_, (_, f))| sum.saturating_add(f.rate()));
        let free = self.capacity.get(&interface).copied().unwrap_or_default().saturating_sub(used);
        let asked = request.flowspec.rate();
        if asked > free { Err(Refused::Capacity { interface, asked, free }) } else { Ok(()) }
    }
}

impl Route for Env {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> Way {
        self.routes.get(&dst).copied().unwrap_or(Way::None)
    }
}

impl TrafficControl for Env {
    fn add(&mut self, _: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.calls += 1;
        self.admit(request, None)?;
        self.handles += 1;
        let handle = RHandle(self.handles);
        self.held.insert(handle, (request.oif, request.flowspec));
        self.fresh.push(handle);
        Ok(handle)
    }

    fn modify(&mut self, _: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        self.calls += 1;
        self.admit(request, Some(handle))?;
        self.held.insert(handle, (request.oif, request.flowspec));
        self.fresh.push(handle);
        Ok(())
    }

    fn remove(&mut self, _: Time, handle: RHandle) {
        self.calls += 1;
        self.held.remove(&handle);
    }

    fn advertise(&self, _: Time, oif: IfIndex, arriving: &Adspec) -> Adspec {
        let used = self.rate_on(oif.0);
        let bandwidth = self.capacity.get(&oif).copied().unwrap_or_default().saturating_sub(used);
        let guaranteed = self.guaranteed.get(&oif).copied();
        arriving.through(&Hop {
            bandwidth,
            mtu: if self.mtu == 0 { 1500 } else { self.mtu },
            latency: Some(Span::from_millis(1)),
            guaranteed,
        })
    }
}
