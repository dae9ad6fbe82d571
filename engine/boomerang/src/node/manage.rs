//! Reservation management (section 4.2.1, third step): compares a request with the free capacity and with
//! what the block holds. A refresh without a change touches only the block's timer.

use super::{Env, NodeSide};
use crate::demand::Whose;
use crate::half::life;
use crate::io::Event;
use crate::lock;
use crate::work::Work;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Rate, Refused};

impl<P: ProbeObserver> NodeSide<P> {
    /// Reserves `wanted` bit/s for a block, instead of its present rate. Returns the factor for KEY.
    ///
    /// # Errors
    /// The rate that is available, in bit/s; the state is unchanged.
    pub(super) fn manage(
        &mut self,
        env: &mut impl Env,
        id: u32,
        work: &Work,
        whose: &Whose,
        wanted: u32,
    ) -> Result<Option<u64>, u32> {
        self.probe.enter(ProbePoint::BoomerangManage);
        let managed = self.reserve(env, id, work, whose, wanted);
        self.probe.leave(ProbePoint::BoomerangManage);
        managed
    }

    fn reserve(
        &mut self,
        env: &mut impl Env,
        id: u32,
        work: &Work,
        whose: &Whose,
        wanted: u32,
    ) -> Result<Option<u64>, u32> {
        let Some((&key, &half)) = self.blocks.get(id) else { return Err(0) };
        let life = life(work.refresh.min(self.config.most_refresh));
        if half.handle.is_none() || half.rate != wanted || half.life != life {
            let request = whose.request(&self.config, &key, wanted, life, work.entry);
            let answer = match half.handle {
                Some(handle) => env.modify(self.now, handle, &request).map(|()| handle),
                None => env.add(self.now, &request),
            };
            let handle = answer.map_err(|refused| free(wanted, half.rate, refused))?;
            if half.rate != wanted {
                let rate = |bps: u32| Rate::from_bps(u64::from(bps));
                let (rate, before) = (rate(wanted), rate(half.rate));
                self.event(Event::Reserved { flow: key.flow, oif: key.oif, rate, before });
            }
            self.blocks.hold(id, handle, wanted, life);
        }
        self.blocks.confirm(id, work.transaction, half.rate);
        Ok(self.keep(id, work))
    }

    /// Extends a block's life by its message. A locked block without its key expires soon after its creation.
    /// Returns the factor for KEY.
    pub(super) fn keep(&mut self, id: u32, work: &Work) -> Option<u64> {
        let lasts = life(work.refresh.min(self.config.most_refresh));
        let lock = self.blocks.refresh(id, work.initiator, work.transaction, lasts)?.lock;
        let Some(prime) = lock.filter(|prime| !opens(*prime, work)) else {
            self.blocks.unlock(id);
            self.blocks.set_timer(id, self.now + lasts);
            return None;
        };
        if !self.blocks.has_timer(id) {
            self.blocks.set_timer(id, self.now + lock::PATIENCE);
            if let Some((key, _)) = self.blocks.get(id) {
                let (flow, oif) = (key.flow, key.oif);
                self.event(Event::Locked { flow, oif });
            }
        }
        // The key of the request's lock opens this one too.
        work.request_locked.is_none().then_some(prime)
    }

    /// True if a new block of this message must be locked.
    pub(super) fn is_suspicious(&self, work: &Work) -> bool {
        self.config.lock && !work.proven && !work.entry && work.request_locked != Some(false)
    }

    /// True if KEY has room for the lock that this message would need.
    pub(super) fn lock_fits(&self, work: &Work, there: Option<u32>) -> bool {
        let block = there.and_then(|id| self.blocks.get(id));
        let prime = match block {
            Some((_, half)) => half.lock.filter(|prime| !opens(*prime, work)),
            None => self.is_suspicious(work).then(|| lock::prime(self.secret, work.initiator, work.transaction)),
        };
        work.request_locked.is_some() || prime.is_none_or(|prime| work.key.max(1).checked_mul(prime).is_some())
    }
}

/// True if a message opens a lock.
fn opens(prime: u64, work: &Work) -> bool {
    match work.request_locked {
        Some(locked) => work.proven || !locked,
        None => work.proven || (work.key > 1 && work.key.is_multiple_of(prime)),
    }
}

/// The available rate in the message's terms: the plane's free rate, times `wanted` over the plane's asked rate.
fn free(wanted: u32, held: u32, refused: Refused) -> u32 {
    let Refused::Capacity { asked, free, .. } = refused else { return held };
    if asked == Rate::ZERO {
        return held;
    }
    let there_is = Rate::from_bps(u64::from(wanted)).share(free.as_bps(), asked.as_bps()).as_bps();
    u32::try_from(there_is).unwrap_or(u32::MAX).min(wanted).max(held)
}
