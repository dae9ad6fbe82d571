//! PATH MESSAGE ARRIVES: RFC 2209 section 2.1. Path state is made or refreshed, and a change is sent on.

use crate::arrival::Arrival;
use crate::links::Env;
use crate::passed_on::carried;
use crate::path_life::PathLife;
use crate::procedure::procedure;
use crate::refusal::Refusal;
use crate::refuse::{Faulty, Refusing};
use crate::state::psb::{News, Origin, OutgoingInterfaces, Phop};
use alloc::boxed::Box;
use terms::ports::Oifs;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{SenderTemplate, Session};
use wire::Path;

/// The reason why a new sender is dropped.
const CROWDED: &str = "more senders without a reservation than are kept";

/// The flag of the SESSION object (RFC 2205 section A.1).
const E_POLICE: u8 = 0x01;

procedure! {
    /// The arrival of a Path.
    PathArrival, measured
}

impl<P: ProbeObserver, E: Env> PathArrival<'_, P, E> {
    pub(crate) fn path_arrives(&mut self, from: &Arrival, path: &Path<'_>) {
        let Some(template) = path.sender.ports() else {
            return self.signalling.drop_message(self.state, from, "senders by flow label are not handled");
        };
        let session = path.session;
        let faulty = Faulty { session, hop: path.hop, template, tspec: path.tspec };
        if self.signalling.links().is_ours(template.src) {
            return self.signalling.drop_message(self.state, from, "a Path of our own sender came back: a loop");
        }
        if self.is_crowded(&session) && self.life().find_path(&session, &template).is_none() {
            return self.signalling.drop_message(self.state, from, CROWDED);
        }
        let forward = match carried(&path.envelope) {
            Ok(forward) => forward,
            Err(refusal) => return self.errors().path_refused(from, &faulty, &refusal),
        };
        let phop = Phop { iif: from.iif, addr: path.hop.addr, lih: path.hop.lih, non_rsvp: !from.direct };
        let news = News {
            origin: Origin::Hop(phop),
            tspec: path.tspec,
            adspec: path.adspec.map(|a| a.terms),
            fragments: path.adspec.map(|a| a.unknown_onward()).unwrap_or_default().into(),
            ttl: from.ttl.saturating_sub(1),
            forward: forward.into(),
            refresh: path.refresh.min(self.state.config().longest_refresh),
            entry: path.session_flags & E_POLICE != 0,
        };
        if session.dst.is_multicast() {
            if let Err(refusal) = self.multicast_path(from, &session, &template, news) {
                self.errors().path_refused(from, &faulty, &refusal);
            }
            return;
        }
        let out = self.step(ProbePoint::Route, |rsvp| {
            rsvp.signalling.links().way_out(rsvp.env, &session, template.src, Some(from.iif))
        });
        if out.takes(from.iif) {
            return self.signalling.drop_message(self.state, from, "the Path came in where it would go out: a loop");
        }
        match self.life().find_path(&session, &template) {
            Some(id) if self.state.local_sender(id).is_some() => {
                self.signalling.drop_message(self.state, from, "a Path for a sender of our own");
            }
            Some(id) => self.life().path_known(id, out, news),
            None => {
                if let Err(refusal) = self.life().path_new(&session, &template, out, news) {
                    self.errors().path_refused(from, &faulty, &refusal);
                }
            }
        }
    }

    /// True if there are as many senders without a reservation as allowed, and this session has no
    /// reservation either: a flood of senders must not make us send more refreshes than the links bear, nor
    /// take all memory.
    fn is_crowded(&self, session: &Session) -> bool {
        self.state.is_crowded() && !self.state.is_reserved(session)
    }

    pub(crate) fn multicast_path(
        &mut self,
        from: &Arrival,
        session: &Session,
        template: &SenderTemplate,
        news: News,
    ) -> Result<(), Refusal> {
        let known = self.life().find_path(session, template);
        if known.is_some_and(|id| self.state.local_sender(id).is_some()) {
            self.signalling.drop_message(self.state, from, "a Path for a sender of our own");
            return Ok(());
        }
        let tree = self.step(ProbePoint::Route, |rsvp| {
            rsvp.signalling.links().tree(rsvp.env, session, template.src, Some(from.iif))
        });
        let before = known.and_then(|id| self.state[id].phop().map(|p| p.iif));
        let right = tree.iif.or(before).is_none_or(|iif| iif == from.iif);
        let branches = if right { tree.oifs } else { Oifs::NONE };
        let out = OutgoingInterfaces::Tree(Box::new(branches));
        match known {
            None => self.life().path_new(session, template, out, news),
            Some(id) if before == Some(from.iif) => {
                self.life().path_known(id, out, news);
                Ok(())
            }
            Some(id) if right => {
                self.life().set_aside(id);
                self.life().forget_aside(id, from.iif);
                self.life().path_known(id, out, news);
                Ok(())
            }
            Some(id) => self.life().path_aside(id, news),
        }
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
    }

    fn errors(&mut self) -> Refusing<'_> {
        Refusing::new(self.state, self.signalling)
    }
}
