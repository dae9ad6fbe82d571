//! PATH MESSAGE ARRIVES for a multicast session: RFC 2209 section 2.1, RFC 2205 section 3.9. Packets of one
//! sender come in by one interface, which multicast routing names; Paths that come in by another are
//! remembered and not forwarded.
//!
//! The path state without an interface in its key is the one that packets follow, as far as is known; if its
//! Paths came in by a wrong interface, it has no branches. Each other incoming interface has its own.

use crate::engine::{Env, Rsvp};
use crate::path::News;
use crate::psb::{Origin, OutgoingInterfaces, Psb};
use crate::receive::Arrival;
use crate::refusal::Refusal;
use crate::resv_refresh::Push;
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::boxed::Box;
use terms::ports::{MulticastTree, Oifs, RouteDecision};
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{IfIndex, SenderTemplate, Session, Time};

impl<P: ProbeObserver> Rsvp<P> {
    /// The distribution tree of a sender at this node, limited to interfaces with RSVP. If multicast routing
    /// has no answer, it has no branches, and packets may come in by any interface: a receiving host.
    pub(crate) fn tree<E: Env>(
        &self,
        env: &mut E,
        session: &Session,
        src: core::net::IpAddr,
        iif: Option<IfIndex>,
    ) -> MulticastTree {
        let RouteDecision::Tree(tree) = env.route(session.dst, Some(src), iif) else { return MulticastTree::default() };
        let onward = tree.oifs.as_slice().iter().copied();
        let comes_in = |oif: &IfIndex| Some(*oif) == tree.iif || (tree.iif.is_none() && Some(*oif) == iif);
        MulticastTree { iif: tree.iif, oifs: onward.filter(|oif| self.speaks_on(*oif) && !comes_in(oif)).collect() }
    }

    /// The outgoing interfaces of a local sender's packets: the interface that has its address (RFC 2205
    /// section 3.9), and, on a router, the branches from there.
    pub(crate) fn tree_from_here<E: Env>(
        &self,
        env: &mut E,
        session: &Session,
        src: core::net::IpAddr,
    ) -> OutgoingInterfaces {
        let mut oifs = self.tree(env, session, src, None).oifs;
        let own = self.interfaces.iter().find(|(_, i)| i.enabled && i.addresses.contains(&src));
        if let Some((own, _)) = own {
            oifs.add(*own);
        }
        OutgoingInterfaces::Tree(Box::new(oifs))
    }

    pub(crate) fn multicast_path<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        session: &Session,
        template: &SenderTemplate,
        news: News,
    ) -> Result<(), Refusal> {
        let known = self.find_path(session, template);
        if known.is_some_and(|id| self.local_sender(id).is_some()) {
            self.drop_message(from, "a Path for a sender of our own");
            return Ok(());
        }
        let tree = self.step(ProbePoint::Route, |rsvp| rsvp.tree(env, session, template.src, Some(from.iif)));
        let before = known.and_then(|id| self.psbs[id].phop().map(|p| p.iif));
        let right = tree.iif.or(before).is_none_or(|iif| iif == from.iif);
        let branches = if right { tree.oifs } else { Oifs::NONE };
        let out = OutgoingInterfaces::Tree(Box::new(branches));
        match known {
            None => self.path_new(now, env, session, template, out, news),
            Some(id) if before == Some(from.iif) => {
                self.path_known(now, env, id, out, news);
                Ok(())
            }
            Some(id) if right => {
                self.set_aside(id);
                self.forget_aside(id, from.iif);
                self.path_known(now, env, id, out, news);
                Ok(())
            }
            Some(id) => self.path_aside(now, id, news),
        }
    }

    /// Keeps a Path that came in by an interface that its sender's packets do not use.
    fn path_aside(&mut self, now: Time, id: BlockId<Psb>, news: News) -> Result<(), Refusal> {
        let (sid, _, template) = self.sender_of(id);
        let key = (sid, template, Some(news.phop.iif));
        let block = self.block_of(now, news, OutgoingInterfaces::Nowhere);
        match self.psbs.find(&key) {
            Some(aside) => {
                let alarm = core::mem::take(&mut self.psbs[aside].alarm);
                self.psbs[aside] = Psb { alarm, ..block };
                self.arm_path(aside);
            }
            None if self.psbs.len() >= self.config.max_paths => {
                return Err(Refusal::table_full("path states", self.config.max_paths));
            }
            None if self.room_for_sender(sid).is_err() => return self.room_for_sender(sid),
            None => {
                let aside = self.psbs.insert(&mut self.sessions[sid].psbs, key, block);
                self.arm_path(aside);
            }
        }
        Ok(())
    }

    /// Called when packets of the sender come in by another interface now: the old previous hop is
    /// remembered, and the request to it is torn down.
    fn set_aside(&mut self, id: BlockId<Psb>) {
        let (sid, _, template) = self.sender_of(id);
        self.resv_tear_upstream(id);
        self.psbs[id].blockade = None;
        let news = self.news_of(id);
        let key = (sid, template, Some(news.phop.iif));
        let room = self.psbs.len() < self.config.max_paths && self.room_for_sender(sid).is_ok();
        if self.psbs.find(&key).is_none() && room {
            let since = self.psbs[id].phop_since;
            let block =
                Psb { expires: self.psbs[id].expires, ..self.block_of(since, news, OutgoingInterfaces::Nowhere) };
            let aside = self.psbs.insert(&mut self.sessions[sid].psbs, key, block);
            self.arm_path(aside);
        }
    }

    /// Forgets the path state of an incoming interface that the path itself now uses.
    fn forget_aside(&mut self, id: BlockId<Psb>, iif: IfIndex) {
        let (sid, template, _) = self.psbs.key(id);
        if let Some(aside) = self.psbs.find(&(sid, template, Some(iif))) {
            self.drop_aside(aside);
        }
    }

    /// Forgets a path state that was only remembered.
    pub(crate) fn drop_aside(&mut self, aside: BlockId<Psb>) {
        let (sid, ..) = self.sender_of(aside);
        let mut gone = self.psbs.remove(&mut self.sessions[sid].psbs, aside);
        self.timers.clear(&mut gone.alarm);
    }

    /// Called when the path that packets followed is gone. If Paths came in by other interfaces as well, the
    /// youngest of those takes its place, as the best that local receivers have now.
    pub(crate) fn take_up_aside(&mut self, now: Time, sid: BlockId<SessionState>, template: &SenderTemplate) {
        let there = self.interfaces.keys().filter_map(|iif| self.psbs.find(&(sid, *template, Some(*iif))));
        let Some(aside) = there.max_by_key(|id| self.psbs[*id].phop_since) else { return };
        let mut block = self.psbs.remove(&mut self.sessions[sid].psbs, aside);
        self.timers.clear(&mut block.alarm);
        block.out = OutgoingInterfaces::Tree(Box::new(Oifs::NONE));
        let id = self.psbs.insert(&mut self.sessions[sid].psbs, (sid, *template, None), block);
        self.sender_came(id);
        self.path_event(id);
        self.resv_refresh(now, id, Push::IfNew);
        self.arm_path(id);
    }

    /// Follows a change of multicast routing: of a sender's incoming interface, or of its branches.
    pub(crate) fn tree_changed<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        let (sid, session, template) = self.sender_of(id);
        let Some(phop) = self.psbs[id].phop().copied() else {
            let out = self.tree_from_here(env, &session, template.src);
            return self.rerouted(now, env, id, out);
        };
        let tree = self.tree(env, &session, template.src, Some(phop.iif));
        let out = |oifs| OutgoingInterfaces::Tree(Box::new(oifs));
        let Some(iif) = tree.iif.filter(|iif| *iif != phop.iif) else {
            return self.rerouted(now, env, id, out(tree.oifs));
        };
        // Packets come in elsewhere. If Paths have been heard from there, they are what counts now.
        match self.psbs.find(&(sid, template, Some(iif))) {
            Some(aside) => {
                let news = self.news_of(aside);
                let expires = self.psbs[aside].expires;
                self.set_aside(id);
                self.drop_aside(aside);
                self.path_known(now, env, id, out(tree.oifs), news);
                self.psbs[id].expires = expires;
                self.arm_path(id);
            }
            None => self.rerouted(now, env, id, out(Oifs::NONE)),
        }
    }

    fn news_of(&self, id: BlockId<Psb>) -> News {
        let psb = &self.psbs[id];
        let Origin::Hop(phop) = psb.origin else { unreachable!("what is remembered came from a neighbour") };
        News {
            phop,
            tspec: psb.tspec,
            adspec: psb.adspec,
            fragments: psb.fragments.clone(),
            ttl: psb.ttl,
            forward: psb.forward.clone(),
            refresh: psb.refresh,
            entry: psb.entry,
        }
    }

    fn rerouted<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, out: OutgoingInterfaces) {
        if self.psbs[id].out != out {
            self.reroute(now, env, id, out);
        }
    }
}
