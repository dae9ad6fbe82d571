//! Applications that reserve, change and cancel as fast as they are answered, and remember what was acknowledged.

use rpc::agent::{Answer, BookAnswer, Request};
use rpc::book::{AmountDoc, AskDoc, BindingDoc, ChangeDoc, FlowDoc, PartDoc, ReservationDoc};
use rpc::client::{Client, Error};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interface that is reserved.
pub const INTERFACE: &str = "near";
/// What is counted.
pub const LICENCE: &str = "licence/crash";
/// How many there are.
pub const LICENCES: u64 = 64;

/// Chance from a seed (SplitMix64, Steele, Lea and Flood 2014).
pub struct Chance(pub u64);

impl Chance {
    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n.max(1)
    }
}

/// What an application knows of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// How many licences it has; of several, the change to another was under way.
    pub counts: Vec<u64>,
    /// Whether it is cancelled; `None`: that was under way.
    pub cancelled: Option<bool>,
}

/// What an application had asked and not been answered.
#[derive(Clone, Debug)]
enum Asked {
    Create(Box<AskDoc>),
    Modify(String, u64),
    Cancel(String),
}

/// One application.
struct Application {
    number: u64,
    chance: Chance,
    serial: u64,
    known: BTreeMap<String, Known>,
    asked: Option<Asked>,
    acknowledged: u64,
}

/// All of them, while they run.
pub struct Runs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Application>>,
}

/// All of them.
pub struct Callers {
    applications: Vec<Application>,
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Changes that were not answered when the agent was killed.
    pub under_way: u64,
}

impl Callers {
    /// So many applications.
    pub fn new(count: u64, seed: u64) -> Callers {
        let one = |number| Application {
            number,
            chance: Chance(seed.wrapping_add(number)),
            serial: 0,
            known: BTreeMap::new(),
            asked: None,
            acknowledged: 0,
        };
        Callers { applications: (0..count).map(one).collect(), acknowledged: 0, under_way: 0 }
    }

    /// They begin.
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

    /// The agent is gone: what each of them knows.
    pub fn end(&mut self, runs: Runs) {
        runs.stop.store(true, Ordering::Relaxed);
        self.applications = runs.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        self.under_way += self.applications.iter().filter(|one| one.asked.is_some()).count() as u64;
    }

    /// Asks again what was not answered: the same request has one effect, whether or not it had it already.
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

    /// What all of them know.
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

    /// One change. An error: the agent is gone, and what was asked is remembered.
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

    /// Licences and packets, for a while, at once.
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
            duration_s: Some((500 + self.chance.below(8_000)) as f64 / 1e3),
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

/// How many licences a reservation has.
pub fn count(doc: &ReservationDoc) -> u64 {
    let licence = doc.parts.iter().find(|part| part.resource == LICENCE);
    licence.and_then(|part| part.steps.first()).map_or(0, |step| step.amount as u64)
}

/// A refusal is an answer; that the agent is gone is none.
fn answered(answer: Result<Answer, Error>) -> Result<Option<ReservationDoc>, Error> {
    match answer {
        Ok(Answer::Book(BookAnswer::Reservation(doc))) => Ok(Some(doc)),
        Ok(_) | Err(Error::Agent(_)) => Ok(None),
        Err(gone) => Err(gone),
    }
}
