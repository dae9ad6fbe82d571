//! Between each append and its answer the log was synced, and nothing of it was left unsynced when the answer left.

use crate::disk::Model;
use crate::script::{batch, options, scratch};
use crate::vfs::Layer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use store::sqlite::Sqlite;
use store::{Journal, Ticket};

const CALLERS: u64 = 8;
const EACH: u64 = 100;

/// Who waits for which answer: told how many syncs were complete, and how much of the log was not synced.
type Waiting = BTreeMap<Ticket, mpsc::Sender<(u64, usize)>>;

#[test]
fn a_completed_sync_lies_between_each_append_and_its_answer() {
    let directory = scratch("syncs");
    let layer = Layer::register("counting");
    let store = Sqlite::open(&directory.0, options(Some(&layer.name))).unwrap();
    let waiting: Arc<Mutex<Waiting>> = Arc::default();
    let (callers, state) = (waiting.clone(), layer.state.clone());
    let answered = move |answers: &mut Vec<store::Completion>| {
        // Read by the journal's own thread, so that nothing is written meanwhile.
        let (syncs, unsynced) = {
            let state = state.lock().unwrap();
            let log = state.disk.iter().find(|(path, _)| path.to_string_lossy().ends_with("-wal"));
            (state.syncs, log.map_or(0, |(_, Model { pending, .. })| pending.len()))
        };
        for answer in answers.drain(..) {
            answer.result.unwrap();
            callers.lock().unwrap().remove(&answer.ticket).unwrap().send((syncs, unsynced)).unwrap();
        }
    };
    let journal = Journal::start(store, answered).unwrap();
    let before = layer.state.lock().unwrap().syncs;
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (journal, waiting, state) = (&journal, &waiting, &layer.state);
            scope.spawn(move || {
                let (answer, told) = mpsc::channel();
                for n in 0..EACH {
                    let ticket = Ticket(caller * EACH + n);
                    waiting.lock().unwrap().insert(ticket, answer.clone());
                    let at_append = state.lock().unwrap().syncs;
                    journal.append(ticket, batch(ticket.0)).unwrap();
                    let (at_answer, unsynced) = told.recv().unwrap();
                    assert!(at_answer > at_append, "append {ticket:?} was answered without a sync");
                    assert_eq!(unsynced, 0, "append {ticket:?} was answered while the log had unsynced frames");
                }
            });
        }
    });
    drop(journal);
    let syncs = layer.state.lock().unwrap().syncs - before;
    assert!(syncs < CALLERS * EACH, "callers that wait together share a sync: {syncs} for {}", CALLERS * EACH);
}
