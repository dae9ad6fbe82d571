//! A bounded number of places, and a share for each caller, so that a caller with a full share leaves places
//! to the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places and the callers that have them.
#[derive(Debug)]
pub struct Rooms {
    all: Arc<Semaphore>,
    of_one: usize,
    callers: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Rooms {
    /// Places for `most` in all, and for `of_one` of one caller.
    pub fn new(most: usize, of_one: usize) -> Rooms {
        Rooms { all: Arc::new(Semaphore::new(most)), of_one: of_one.clamp(1, most.max(1)), callers: Mutex::default() }
    }

    /// Waits for a place of the caller's share, then for one of all.
    pub async fn enter(&self, caller: &str) -> Option<Room> {
        let own = self.own(caller).acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Room { _all: all, _own: own })
    }

    /// A place, if one is free now.
    pub fn try_enter(&self, caller: &str) -> Option<Room> {
        let own = self.own(caller).try_acquire_owned().ok()?;
        let all = self.all.clone().try_acquire_owned().ok()?;
        Some(Room { _all: all, _own: own })
    }

    fn own(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        // Callers that neither have nor await a place are forgotten.
        callers.retain(|_, own| Arc::strong_count(own) > 1 || own.available_permits() < self.of_one);
        callers.entry(caller.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.of_one))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_room_for_the_others() {
        let rooms = Rooms::new(5, 2);
        let mut mallory: Vec<Room> = (0..2).filter_map(|_| rooms.try_enter("mallory")).collect();
        assert_eq!(mallory.len(), 2);
        assert!(rooms.try_enter("mallory").is_none());
        let alice = rooms.try_enter("alice").unwrap();
        assert!(rooms.try_enter("bob").is_some_and(|_| rooms.try_enter("carol").is_some()));
        mallory.pop();
        assert!(rooms.try_enter("mallory").is_some());
        drop((alice, mallory));
        let _again = rooms.try_enter("dora").unwrap();
        assert_eq!(rooms.callers.lock().unwrap().len(), 1, "nobody is remembered who is gone");
    }
}
