//! Client applications that reserve, change and cancel as fast as they get answers, and record the
//! acknowledgements.

use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AmountDoc, AskDoc, BindingDoc, ChangeDoc, FlowDoc, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::{Client, Error};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::Rng;

/// The interface whose bandwidth is reserved.
pub const INTERFACE: &str = "near";
/// The countable resource.
pub const LICENCE: &str = "licence/crash";
/// The capacity of [`LICENCE`].
pub const LICENCES: u64 = 64;

/// The state of a reservation, as acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The possible numbers of licences. Several: a change was not answered.
    pub counts: Vec<u64>,
    /// True if it is cancelled; `None`: a cancellation was not answered.
    pub cancelled: Option<bool>,
}

/// A request without an answer.
#[derive(Clone, Debug)]
enum Asked {
    Create(Box<AskDoc>),
    Modify(String, u64),
    Cancel(String),
}

/// One application.
struct Application {
    number: u64,
    chance: Rng,
    serial: u64,
    known: BTreeMap<String, Known>,
    asked: Option<Asked>,
    acknowledged: u64,
}

/// The running threads of all applications.
pub struct Runs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Application>>,
}

/// All applications.
pub struct Callers {
    applications: Vec<Application>,
    /// The number of acknowledged changes.
    pub acknowledged: u64,
    /// The number of changes without an answer when the agent was killed.
    pub under_way: u64,
}

impl Callers {
    /// Creates `count` applications.
    pub fn new(count: u64, seed: u64) -> Callers {
        let one = |number| Application {
            number,
            chance: Rng::seeded(seed.wrapping_add(number)),
            serial: 0,
            known: BTreeMap::new(),
            asked: None,
            acknowledged: 0,
        };
        Callers { applications: (0..count).map(one).collect(), acknowledged: 0, under_way: 0 }
    }

    /// Starts the applications.
    pub fn begin(&mut self, socket: &Path) -> Runs {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = self.applications.drain(..).map(|mut application| {
            let (stop, socket) = (stop.clone(), socket.to_owned());
            std::thread::spawn(move || {
                // It ends when the agent does.
                if let Ok(mut client) = Client::connect(&socket) {
                    while !stop.load(Ordering::Relaxed) && application.act(&mut client).is_ok() {}
                }
                application
            })
        });
        Runs { threads: threads.collect(), stop }
    }

    /// Collects the applications after the agent was killed.
    pub fn end(&mut self, runs: Runs) {
        runs.stop.store(true, Ordering::Relaxed);
        self.applications = runs.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        self.under_way += self.applications.iter().filter(|one| one.asked.is_some()).count() as u64;
    }

    /// Settles the requests without an answer: repeats reservations, whose key makes that safe, and notes the
    /// doubt otherwise.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn ask_again(&mut self, client: &mut Client) -> Result<(), Error> {
        for application in &mut self.applications {
            match application.asked.take() {
                Some(Asked::Create(ask)) => application.create(client, *ask)?,
                Some(Asked::Modify(handle, count)) => application.doubt(&handle, |known| known.counts.push(count)),
                Some(Asked::Cancel(handle)) => application.doubt(&handle, |known| known.cancelled = None),
                None => {}
            }
        }
        self.acknowledged = self.applications.iter().map(|one| one.acknowledged).sum();
        Ok(())
    }

    /// Returns the reservations of all applications.
    pub fn known(&mut self) -> impl Iterator<Item = &mut BTreeMap<String, Known>> {
        self.applications.iter_mut().map(|application| &mut application.known)
    }
}

impl Application {
    fn doubt(&mut self, handle: &str, doubt: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known.get_mut(handle) {
            doubt(known);
        }
    }

    /// Makes one change. An error means that the agent is gone; the request is recorded.
    fn act(&mut self, client: &mut Client) -> Result<(), Error> {
        std::thread::sleep(Duration::from_micros(self.chance.below(2_000)));
        let open: Vec<&String> =
            self.known.iter().filter(|(_, known)| known.cancelled == Some(false)).map(|(handle, _)| handle).collect();
        let chosen = open.get(self.chance.below(open.len() as u64) as usize).map(|handle| (*handle).clone());
        match (self.chance.below(4), chosen) {
            (0, Some(handle)) => self.modify(client, handle),
            (1, Some(handle)) => self.cancel(client, handle),
            _ => {
                let ask = self.wish();
                self.asked = Some(Asked::Create(Box::new(ask.clone())));
                self.create(client, ask)
            }
        }
    }

    /// Builds a request for licences and packets together, for a while, from now on.
    fn wish(&mut self) -> AskDoc {
        self.serial += 1;
        let port = 1_024 + (self.number * 16_000 + self.serial % 16_000) as u16;
        let flow = FlowDoc { protocol: Some(17), dst_port: Some(port), ..FlowDoc::default() };
        let count = 1 + self.chance.below(3);
        let licence = PartDoc { resource: LICENCE.to_owned(), count: Some(count), ..PartDoc::default() };
        let net = PartDoc {
            resource: format!("net/{INTERFACE}"),
            rate: Some(100_000 * (1 + self.chance.below(20))),
            binding: Some(BindingDoc::Flow(flow)),
            ..PartDoc::default()
        };
        AskDoc {
            parts: vec![licence, net],
            when: WhenDoc::lasting((500 + self.chance.below(8_000)) as f64 / 1e3),
            key: format!("{}-{}", self.number, self.serial),
            ..AskDoc::default()
        }
    }

    fn create(&mut self, client: &mut Client, ask: AskDoc) -> Result<(), Error> {
        if let Some(doc) = answered(client.call(Request::BookCreate(ask)))? {
            self.known.insert(doc.handle.clone(), Known { counts: vec![count(&doc)], cancelled: Some(false) });
            self.acknowledged += 1;
        }
        self.asked = None;
        Ok(())
    }

    fn modify(&mut self, client: &mut Client, handle: String) -> Result<(), Error> {
        let wanted = 1 + self.chance.below(4);
        self.asked = Some(Asked::Modify(handle.clone(), wanted));
        let amounts = vec![AmountDoc { part: 0, count: Some(wanted), ..AmountDoc::default() }];
        let change = ChangeDoc { amounts, ..ChangeDoc::default() };
        if answered(client.call(Request::BookModify { handle: handle.clone(), change }))?.is_some() {
            self.doubt(&handle, |known| known.counts = vec![wanted]);
            self.acknowledged += 1;
        }
        self.asked = None;
        Ok(())
    }

    fn cancel(&mut self, client: &mut Client, handle: String) -> Result<(), Error> {
        self.asked = Some(Asked::Cancel(handle.clone()));
        if answered(client.call(Request::BookCancel { handle: handle.clone() }))?.is_some() {
            self.doubt(&handle, |known| known.cancelled = Some(true));
            self.acknowledged += 1;
        }
        self.asked = None;
        Ok(())
    }
}

/// Returns the number of licences in a reservation.
pub fn count(doc: &ReservationDoc) -> u64 {
    let licence = doc.parts.iter().find(|part| part.resource == LICENCE);
    licence.and_then(|part| part.steps.first()).map_or(0, |step| step.amount as u64)
}

/// Reads an answer. A refusal is `None`; a lost agent is an error.
fn answered(answer: Result<Answer, Error>) -> Result<Option<ReservationDoc>, Error> {
    match answer {
        Ok(Answer::Book(BookAnswer::Reservation(doc))) => Ok(Some(doc)),
        Ok(_) | Err(Error::Agent(_)) => Ok(None),
        Err(gone) => Err(gone),
    }
}
