//! The initiating side's timers: no reply came, or a refresh is due.

use super::{Initiator, SessionPhase, TRIES, upcall};
use crate::io::{AppId, BoomerangUpcall};
use crate::node::{Env, NodeSide};
use terms::probe::ProbeObserver;

impl Initiator {
    pub(crate) fn wake<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env) {
        while let Some((at, app)) = self.timers.first().copied() {
            if at > node.now() {
                return;
            }
            self.timers.pop_first();
            self.due(node, env, app);
        }
    }

    fn due<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId) {
        let Some(session) = self.sessions.get_mut(&app) else { return };
        if session.asked.no_echo {
            return self.ask(node, env, app);
        }
        if !session.answered {
            session.silent += 1;
        }
        let silent = session.silent;
        match session.phase {
            SessionPhase::Held => {
                if silent == TRIES {
                    upcall(node, app, BoomerangUpcall::Silent { messages: silent, over: false });
                }
                self.ask(node, env, app);
            }
            SessionPhase::Asking if silent < TRIES => self.tell(node, env, app),
            // A change that nobody answered: what was there before is said again.
            SessionPhase::Asking => {
                let Some(kept) = session.granted else {
                    upcall(node, app, BoomerangUpcall::Silent { messages: silent, over: true });
                    return self.give_up(node, env, app);
                };
                session.wanted = [kept].into();
                session.phase = SessionPhase::Held;
                upcall(node, app, BoomerangUpcall::Silent { messages: silent, over: false });
                self.ask(node, env, app);
            }
            SessionPhase::Releasing if silent < TRIES => self.tell(node, env, app),
            SessionPhase::Releasing => {
                self.forget(app);
                upcall(node, app, BoomerangUpcall::Released);
            }
        }
    }
}
