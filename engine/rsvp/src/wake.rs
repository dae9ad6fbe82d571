//! Alarms: refreshes go out, state not refreshed ends. RFC 2205 section 3.7, RFC 2209 section 2.11.

use crate::io::Gone;
use crate::links::Env;
use crate::path_life::PathLife;
use crate::path_refresh::PathRefresh;
use crate::procedure::procedure;
use crate::repair::{Repair, Sweeps};
use crate::resv_refresh::{Push, ResvRefresh};
use crate::resv_tear::ResvTearing;
use crate::state::Timer;
use crate::state::psb::Psb;
use crate::state::rsb::Rsb;
use crate::state::table::BlockId;
use terms::Style;
use terms::probe::ProbeObserver;

/// Most alarms in one wake-up; the rest is due at the next, which is at once.
const MOST_ALARMS: usize = 1024;

procedure! {
    /// The alarms that are due.
    Alarms
}

impl<P: ProbeObserver, E: Env> Alarms<'_, P, E> {
    pub(crate) fn wake(&mut self, sweeps: &mut Sweeps) {
        Repair::new(self.env, self.state, self.signalling, self.probe).sweep_on(sweeps);
        for _ in 0..MOST_ALARMS {
            let due = self.state.alarms().due_at(self.signalling.now());
            match due {
                Some(Timer::Path(id)) => self.path_alarm(id),
                Some(Timer::Resv(id)) => self.resv_alarm(id),
                Some(Timer::Session(id)) => self.state.adoption_ends(id),
                Some(Timer::Neighbour(n)) => self.signalling.neighbour_alarm(self.state, n),
                Some(Timer::Again) => self.signalling.again_alarm(self.state),
                Some(Timer::CatchUp) => self.signalling.catch_up_alarm(self.state),
                None => return,
            }
        }
    }

    fn path_alarm(&mut self, id: BlockId<Psb>) {
        if self.state[id].expires <= self.signalling.now() && !self.life().fall_back(id) {
            return self.life().end_path(id, Gone::Expired);
        }
        if self.state[id].path_refresh_at <= self.signalling.now() {
            self.onward().path_refresh(id);
        }
        let due = self.state[id].request.is_some_and(|r| r.refresh_at <= self.signalling.now());
        if due {
            self.upstream().resv_refresh(id, Push::Now);
        }
        self.state.rearm_path(id);
    }

    fn resv_alarm(&mut self, id: BlockId<Rsb>) {
        if self.state[id].expires <= self.signalling.now() {
            if self.state[id].style != Style::Se {
                return self.ending().end_reservation(id, Gone::Expired);
            }
            // Of a shared-explicit request, the senders that were not named again.
            let now = self.signalling.now();
            if !self.ending().end_senders(id, |l| l.expires <= now, Gone::Expired) {
                return;
            }
        }
        self.state.rearm_resv(id);
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
    }

    fn onward(&mut self) -> PathRefresh<'_, P, E> {
        PathRefresh::new(self.env, self.state, self.signalling, self.probe)
    }

    fn ending(&mut self) -> ResvTearing<'_, P, E> {
        ResvTearing::new(self.env, self.state, self.signalling, self.probe)
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }
}
