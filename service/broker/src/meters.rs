//! The reservations that are watched, and the readings of each for all who watch it.

use crate::id::ReservationId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// The most readings that wait for a listener; who is slower misses the oldest.
const WAITING: usize = 4;

/// A piece of a stream of readings.
#[derive(Clone, Debug)]
pub(crate) enum ReadingPiece {
    /// There are more to come.
    Text(Arc<str>),
    /// The last one.
    Over(Arc<str>),
}

/// The watched reservations, each with the channel of its readings.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<BTreeMap<ReservationId, broadcast::Sender<ReadingPiece>>>);

impl Meters {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<ReservationId, broadcast::Sender<ReadingPiece>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The readings of a reservation from now on; and the channel into which the caller must read it from now on, if it
    /// is not read yet.
    pub(crate) fn listen(
        &self,
        id: &ReservationId,
    ) -> (broadcast::Receiver<ReadingPiece>, Option<broadcast::Sender<ReadingPiece>>) {
        let mut all = self.locked();
        if let Some(known) = all.get(id) {
            return (known.subscribe(), None);
        }
        let (tell, listener) = broadcast::channel(WAITING);
        all.insert(id.clone(), tell.clone());
        (listener, Some(tell))
    }

    /// Forgets a reservation without listeners, or one that is over. True if it is forgotten.
    pub(crate) fn forget(&self, id: &ReservationId, tell: &broadcast::Sender<ReadingPiece>, ended: bool) -> bool {
        let mut all = self.locked();
        let goes = ended || tell.receiver_count() == 0;
        if goes {
            all.remove(id);
        }
        goes
    }
}
