//! PATH TEAR MESSAGE ARRIVES: RFC 2209 section 2.2; and the end of path state for other reasons.

use crate::arrival::Arrival;
use crate::io::Gone;
use crate::links::Env;
use crate::passed_on::carried;
use crate::path_life::PathLife;
use crate::path_refresh::PathRefresh;
use crate::procedure::procedure;
use crate::state::psb::Phop;
use terms::probe::{ProbeObserver, ProbePoint};
use wire::PathTear;

procedure! {
    /// The arrival of a PathTear.
    PathTearing, measured
}

impl<P: ProbeObserver, E: Env> PathTearing<'_, P, E> {
    pub(crate) fn path_tear_arrives(&mut self, from: &Arrival, tear: &PathTear<'_>) {
        let known = tear.sender.ports().and_then(|template| self.life().find_path(&tear.session, &template));
        let Some(id) = known else {
            return self.signalling.drop_message(self.state, from, "PathTear for a sender that we do not know");
        };
        let is_from = |p: &Phop| p.addr == tear.hop.addr && p.iif == from.iif;
        if self.state[id].other.as_ref().is_some_and(|o| is_from(&o.phop)) {
            self.state[id].other = None;
            return;
        }
        if !self.state[id].phop().is_some_and(is_from) {
            // Multicast: a path that was only remembered (RFC 2205 section 3.1.5).
            let (sid, template, _) = self.state.key(id);
            let aside = self.state.psb(&(sid, template, Some(from.iif)));
            if let Some(aside) = aside.filter(|a| self.state[*a].phop().is_some_and(is_from)) {
                return self.state.drop_aside(aside);
            }
            return self.signalling.drop_message(self.state, from, "PathTear from a node that is not the previous hop");
        }
        if self.life().fall_back(id) {
            return;
        }
        let Ok(forward) = carried(&tear.envelope) else {
            return self.signalling.drop_message(self.state, from, "PathTear with too much to be passed on");
        };
        self.step(ProbePoint::TearPsb, |rsvp| {
            rsvp.onward().path_tear_on(id, &forward);
            rsvp.life().forget_path(id, Gone::Torn);
        });
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
    }

    fn onward(&mut self) -> PathRefresh<'_, P, E> {
        PathRefresh::new(self.env, self.state, self.signalling, self.probe)
    }
}
