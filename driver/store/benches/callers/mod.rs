//! Callers of a journal, for the benchmarks of both stores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use store::{Batch, Journal, Store, Ticket};

/// Callers that each wait for their answer before they ask again.
pub struct Callers<S: Store> {
    journal: Journal<S>,
    answered: Arc<(Mutex<Vec<Ticket>>, Condvar)>,
    number: AtomicU64,
    batch: fn(u64) -> Batch,
    round: Duration,
}

impl<S: Store + 'static> Callers<S> {
    /// Callers of this store, who ask for these batches, by number, in rounds of this length.
    pub fn start(store: S, batch: fn(u64) -> Batch, round: Duration) -> Callers<S> {
        let answered: Arc<(Mutex<Vec<Ticket>>, Condvar)> = Arc::default();
        let to = answered.clone();
        let journal = Journal::start(store, move |answers| {
            let mut waiting = to.0.lock().expect("nobody panics");
            for answer in answers.drain(..) {
                answer.result.expect("written");
                waiting.push(answer.ticket);
            }
            to.1.notify_one();
        });
        Callers { journal: journal.expect("a thread"), answered, number: AtomicU64::new(0), batch, round }
    }

    /// Batches a second of so many callers.
    ///
    /// One thread stands for all callers, as the agent's loop does: each answer is followed by its caller's next batch.
    pub fn run(&self, callers: usize) -> f64 {
        let ask = || {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            self.journal.append(Ticket(number), (self.batch)(number)).expect("queued");
        };
        let (start, mut done, mut out) = (Instant::now(), 0_u64, callers);
        (0..callers).for_each(|_| ask());
        while out > 0 {
            let mut waiting = self.answered.0.lock().expect("nobody panics");
            while waiting.is_empty() {
                waiting = self.answered.1.wait(waiting).expect("nobody panics");
            }
            let came = std::mem::take(&mut *waiting).len();
            drop(waiting);
            done += came as u64;
            if start.elapsed() < self.round {
                (0..came).for_each(|_| ask());
            } else {
                out -= came;
            }
        }
        done as f64 / start.elapsed().as_secs_f64()
    }
}
