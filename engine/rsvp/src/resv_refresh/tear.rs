//! The request to a previous hop is withdrawn: our own ResvTear, RFC 2209 section 2.10.

use super::ResvRefresh;
use super::shared::{FILTER_BYTES, FIXED_PART};
use crate::io::Upcall;
use crate::neighbour::About;
use crate::outbox::HOP_TTL;
use crate::state::psb::{Origin, Phop, Psb, UpstreamRequest};
use crate::state::table::BlockId;
use alloc::vec::Vec;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, Style};
use wire::{Builder, MessageType, RsvpHop};

impl<P: ProbeObserver> ResvRefresh<'_, P> {
    /// Withdraws the request to the previous hop, or tells a local sender that its reservation is gone.
    pub(crate) fn unreserve(&mut self, id: BlockId<Psb>) {
        let (sid, session, template) = self.state.sender_of(id);
        let Some(request) = self.state[id].request else { return };
        match self.state[id].origin {
            Origin::Local(app) => {
                self.state[id].request = None;
                self.signalling.tell(app, Upcall::ResvGone { session, template });
            }
            Origin::Hop(_) if request.style == Style::Ff => self.resv_tear_upstream(id),
            Origin::Hop(phop) => {
                let asked = |id: &BlockId<Psb>| self.state[*id].request.is_some_and(|r| r.style == request.style);
                let all: Vec<_> = self.state.senders_by(sid, &phop).into_iter().filter(asked).collect();
                self.shared_tear(&all, request.style);
            }
        }
    }

    /// Sends a ResvTear to the previous hop for one sender, if there was a request for it. A request that
    /// others share with it stays.
    pub(crate) fn resv_tear_upstream(&mut self, id: BlockId<Psb>) {
        let (sid, ..) = self.state.sender_of(id);
        let Some(phop) = self.state[id].phop().copied() else { return };
        let Some(request) = self.state[id].request else { return };
        if request.style == Style::Wf {
            let shared = self.state.senders(sid).filter(|other| *other != id).any(|other| {
                let other = &self.state[other];
                other.request.is_some() && other.phop().is_some_and(|hop| hop.is_same(&phop))
            });
            if shared {
                self.state[id].request = None;
                return;
            }
        }
        if request.style != Style::Ff {
            return self.shared_tear(&[id], request.style);
        }
        self.state[id].request = None;
        self.state[id].confirm = None;
        let other = self.state[id].other.as_ref().map(|o| o.phop);
        for phop in [Some(phop), other].into_iter().flatten() {
            self.send_resv_tear(id, &phop, &request);
        }
    }

    fn send_resv_tear(&mut self, id: BlockId<Psb>, phop: &Phop, request: &UpstreamRequest) {
        let (_, session, template) = self.state.sender_of(id);
        let Some(src) = self.signalling.links().address_on(phop.iif, phop.addr) else { return };
        let build =
            Builder::new(MessageType::ResvTear, HOP_TTL).session(&session).hop(&RsvpHop { addr: src, lih: phop.lih });
        let build = self
            .with_what_the_tear_carries(build)
            .style(Style::Ff)
            .flowspec(&request.flowspec)
            .filter_spec(&template.into());
        let out = (phop.by(), src, phop.addr);
        self.signalling.send_to_hop_about(self.state, MessageType::ResvTear, out, build, Some(About::Resv(id)));
    }

    /// Adds the objects of the ResvTear that set this one off that must be passed on (RFC 2205 section 3.10).
    pub(crate) fn with_what_the_tear_carries(&self, build: Builder) -> Builder {
        self.signalling
            .carried()
            .iter()
            .fold(build, |build, object| build.raw(object.class, object.ctype, &object.body))
    }

    /// Sends a ResvTear to the previous hop of these senders, for the request made for them.
    pub(crate) fn shared_tear(&mut self, gone: &[BlockId<Psb>], style: Style) {
        let Some(first) = gone.first() else { return };
        let (_, session, _) = self.state.sender_of(*first);
        let psb = &self.state[*first];
        let (Some(phop), Some(request)) = (psb.phop().copied(), psb.request) else { return };
        let other = psb.other.as_ref().map(|o| o.phop);
        let filters: Vec<FilterSpec> = gone.iter().map(|id| self.state.key(*id).1).collect();
        for id in gone {
            self.state[*id].request = None;
            self.state[*id].confirm = None;
        }
        for phop in [Some(phop), other].into_iter().flatten() {
            let Some(src) = self.signalling.links().address_on(phop.iif, phop.addr) else { continue };
            let mtu = self.signalling.links().mtu(phop.iif).map_or(0, |mtu| mtu as usize);
            let carried: usize = self.signalling.carried().iter().map(|f| f.body.len() + 4).sum();
            let fit = (mtu.saturating_sub(FIXED_PART + carried) / FILTER_BYTES).max(1);
            let parts: Vec<&[FilterSpec]> =
                if style == Style::Wf { alloc::vec![&[]] } else { filters.chunks(fit).collect() };
            for part in parts {
                let build = Builder::new(MessageType::ResvTear, HOP_TTL)
                    .session(&session)
                    .hop(&RsvpHop { addr: src, lih: phop.lih });
                let build = self.with_what_the_tear_carries(build).style(style).flowspec(&request.flowspec);
                let build = part.iter().fold(build, |build, filter| build.filter_spec(&(*filter).into()));
                self.signalling.send_to_hop(self.state, MessageType::ResvTear, (phop.by(), src, phop.addr), build);
            }
        }
    }
}
