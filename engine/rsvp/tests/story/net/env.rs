//! The surroundings of a node: a routing table, and a traffic control that admits by rate and reports a millisecond
//! later that the plane has it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::ports::{MulticastTree, Police, Preemption, RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, Fault, FilterSpec, FlowSpec, HopExport, IfIndex, Rate, Refused, Span, Style, Time, Tspec};

pub const INSTALL_DELAY: Span = Span::from_millis(1);

#[derive(Default)]
pub struct Env {
    pub routes: BTreeMap<IpAddr, RouteDecision>,
    /// Routes by destination and source, before the others.
    pub by_source: BTreeMap<(IpAddr, IpAddr), RouteDecision>,
    /// Multicast routes: by group and sender.
    pub trees: BTreeMap<(IpAddr, IpAddr), MulticastTree>,
    pub capacity: BTreeMap<IfIndex, Rate>,
    pub held: BTreeMap<RHandle, (IfIndex, FlowSpec)>,
    /// What else was asked for with each reservation.
    pub terms: BTreeMap<RHandle, Terms>,
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

/// What a reservation is for besides its flowspec.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    pub oif: IfIndex,
    pub style: Style,
    pub filters: Vec<FilterSpec>,
    pub police: Police,
    pub path_te: Tspec,
    pub priority: Option<Preemption>,
}

impl Terms {
    fn of(request: &TcRequest<'_>) -> Terms {
        let TcRequest { oif, style, police, path_te, priority, .. } = *request;
        Terms { oif, style, filters: request.filters.to_vec(), police, path_te, priority }
    }
}

impl Env {
    /// The terms of the one reservation on an interface.
    pub fn terms_on(&self, oif: u32) -> Terms {
        let on: Vec<_> = self.held.keys().filter_map(|h| self.terms.get(h)).filter(|t| t.oif.0 == oif).collect();
        assert_eq!(on.len(), 1, "one reservation on interface {oif}");
        on[0].clone()
    }

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
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        if let (true, Some(src)) = (dst.is_multicast(), src) {
            return self.trees.get(&(dst, src)).map_or(RouteDecision::None, |tree| RouteDecision::Tree(*tree));
        }
        let by_source = src.and_then(|src| self.by_source.get(&(dst, src)));
        by_source.or_else(|| self.routes.get(&dst)).copied().unwrap_or(RouteDecision::None)
    }
}

impl TrafficControl for Env {
    fn add(&mut self, _: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.calls += 1;
        self.admit(request, None)?;
        self.handles += 1;
        let handle = RHandle(self.handles);
        self.held.insert(handle, (request.oif, request.flowspec));
        self.terms.insert(handle, Terms::of(request));
        self.fresh.push(handle);
        Ok(handle)
    }

    fn modify(&mut self, _: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        self.calls += 1;
        self.admit(request, Some(handle))?;
        self.held.insert(handle, (request.oif, request.flowspec));
        self.terms.insert(handle, Terms::of(request));
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
        arriving.through(&HopExport {
            bandwidth,
            mtu: if self.mtu == 0 { 1500 } else { self.mtu },
            latency: Some(Span::from_millis(1)),
            guaranteed,
        })
    }
}
