//! Alarms: refreshes go out, state not refreshed ends. RFC 2205 section 3.7, RFC 2209 section 2.11.

use crate::engine::{Env, Rsvp, Timer};
use crate::io::Gone;
use crate::psb::Psb;
use crate::resv_refresh::Push;
use crate::rsb::Rsb;
use crate::table::BlockId;
use terms::probe::ProbeObserver;
use terms::{Session, Style, Time};

/// Most alarms in one wake-up; the rest is due at the next, which is at once.
const MOST_ALARMS: usize = 1024;

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn wake<E: Env>(&mut self, now: Time, env: &mut E) {
        self.sweep_on(now, env);
        for _ in 0..MOST_ALARMS {
            match self.timers.due_at(now) {
                Some(Timer::Path(id)) => self.path_alarm(now, env, id),
                Some(Timer::Resv(id)) => self.resv_alarm(now, env, id),
                Some(Timer::Session(id)) => self.adoption_ends(id),
                Some(Timer::Neighbour(n)) => self.neighbour_alarm(now, n),
                Some(Timer::Again) => self.again_alarm(now),
                Some(Timer::CatchUp) => self.catch_up_alarm(now),
                None => return,
            }
        }
    }

    fn path_alarm<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        if self.psbs[id].expires <= now && !self.fall_back(now, id) {
            return self.end_path(now, env, id, Gone::Expired);
        }
        if self.psbs[id].path_refresh_at <= now {
            self.path_refresh(now, env, id);
        }
        let due = self.psbs[id].request.is_some_and(|r| r.refresh_at <= now);
        if due {
            self.resv_refresh(now, id, Push::Now);
        }
        let psb = &mut self.psbs[id];
        match psb.next_deadline() {
            Time::FOREVER => self.timers.clear(&mut psb.alarm),
            at => self.timers.set(&mut psb.alarm, at, Timer::Path(id)),
        }
    }

    fn resv_alarm<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Rsb>) {
        if self.rsbs[id].expires <= now {
            if self.rsbs[id].style != Style::Se {
                return self.end_reservation(now, env, id, Gone::Expired);
            }
            // Of a shared-explicit request, the senders that were not named again.
            if !self.end_senders(now, env, id, |l| l.expires <= now, Gone::Expired) {
                return;
            }
        }
        let rsb = &mut self.rsbs[id];
        let at = rsb.expires;
        self.timers.set(&mut rsb.alarm, at, Timer::Resv(id));
    }

    /// Notes that flows of this session are in the plane from an earlier life of this node.
    pub(crate) fn adopted(&mut self, session: &Session, until: Time) {
        let Ok(sid) = self.session_for(session) else { return };
        let state = &mut self.sessions[sid];
        let until = state.adopted_until.map_or(until, |u| u.max(until));
        state.adopted_until = Some(until);
        self.timers.set(&mut state.alarm, until, Timer::Session(sid));
    }

    fn adoption_ends(&mut self, sid: BlockId<crate::session::SessionState>) {
        let state = &mut self.sessions[sid];
        state.adopted_until = None;
        self.timers.clear(&mut state.alarm);
        self.drop_if_idle(sid);
    }
}
