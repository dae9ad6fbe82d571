//! Questions to brokers that coordinate transactions over several agents, when this agent does not hear.
//!
//! The agent never reads what comes by TCP from another machine: it starts this program again for each question
//! ([`super::question`]), without capabilities, and reads one line of it.

use super::broker_file::BrokerAddress;
use super::question::{BrokerOutcome, BrokerQuestion, Heard};
use booking::Call;
use booking::promise::{Contradiction, DecideCall, DecisionQuestion};
use linux::error::SystemError;
use linux::notifier::Notifier;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trust::Files;

/// This very program, also after its file was replaced by another version.
const PROGRAM: &str = "/proc/self/exe";
/// The most questions that wait. The engine asks again, so one that finds no place is not lost.
const MOST_QUESTIONS: usize = 256;
/// The longest answer, bytes.
const MOST_ANSWER: u64 = 16 << 10;
/// The time that a question may take, and the pause after one that failed before the same broker is asked again.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(5);

/// The thread that asks, one question at a time.
#[derive(Debug)]
pub(crate) struct Coordinators {
    /// `None`: the file names no broker.
    questions: Option<SyncSender<DecisionQuestion>>,
    tray: Arc<Tray>,
}

#[derive(Debug)]
struct Tray {
    answers: Mutex<Vec<(DecisionQuestion, Heard)>>,
    notifier: Notifier,
}

/// An answer of a broker.
pub(crate) enum CoordinatorAnswer {
    /// The decision, for the engine.
    Decided(Call),
    /// The broker's journal has lost it: words for people.
    Unknown(String),
}

impl Coordinators {
    /// Starts the thread, if there is a broker to ask.
    ///
    /// # Errors
    /// No descriptor or no thread is left.
    pub(crate) fn start(brokers: &[BrokerAddress], files: Option<&Files>) -> Result<Coordinators, SystemError> {
        let tray = Arc::new(Tray { answers: Mutex::default(), notifier: Notifier::new()? });
        let Some(files) = files.filter(|_| !brokers.is_empty()) else {
            return Ok(Coordinators { questions: None, tray });
        };
        let (questions, asked) = sync_channel(MOST_QUESTIONS);
        // Partners' authorities vouch for none of our brokers.
        let files = Files { partners: Vec::new(), ..files.clone() };
        let asker = Asker {
            brokers: brokers.to_vec(),
            files,
            tray: tray.clone(),
            silent: BTreeMap::new(),
            last: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("coordinators".to_owned());
        thread.spawn(move || asker.run(&asked)).map_err(SystemError::doing("start the thread that asks brokers"))?;
        Ok(Coordinators { questions: Some(questions), tray })
    }

    /// The notifier to watch: it fires when there are answers.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.tray.notifier
    }

    /// Asks, if the file names this broker. Does not block.
    pub(crate) fn ask(&self, question: DecisionQuestion) {
        if let Some(questions) = &self.questions {
            let _ = questions.try_send(question);
        }
    }

    /// Takes the answers that have come.
    pub(crate) fn answers(&self) -> Vec<CoordinatorAnswer> {
        self.tray.notifier.clear();
        let heard = self.tray.answers.lock().map(|mut heard| std::mem::take(&mut *heard)).unwrap_or_default();
        heard.into_iter().filter_map(|(question, heard)| answer(question, &heard)).collect()
    }
}

/// The content of an answer; `None`: it is not decided yet.
fn answer(question: DecisionQuestion, heard: &Heard) -> Option<CoordinatorAnswer> {
    let DecisionQuestion { branch, coordinator, .. } = question;
    let decision = match heard.outcome() {
        BrokerOutcome::Decided(decision) => decision,
        BrokerOutcome::Unknown => {
            let transaction = branch.transaction;
            let text = format!(
                "the broker {coordinator} does not know any more what it decided about transaction {transaction}: \
                 decide what was promised to it with `sluice resolve`"
            );
            return Some(CoordinatorAnswer::Unknown(text));
        }
        BrokerOutcome::Open => return None,
    };
    let epoch = heard.epoch();
    Some(CoordinatorAnswer::Decided(Call::Decide(Box::new(DecideCall { branch, coordinator, epoch, decision }))))
}

struct Asker {
    brokers: Vec<BrokerAddress>,
    files: Files,
    tray: Arc<Tray>,
    /// Brokers that did not answer, and until when they are not asked.
    silent: BTreeMap<String, Instant>,
    /// The place at which each broker answered last.
    last: BTreeMap<String, usize>,
}

impl Asker {
    /// Asks until the agent ends.
    fn run(mut self, asked: &Receiver<DecisionQuestion>) {
        while let Ok(question) = asked.recv() {
            let Some(broker) = self.brokers.iter().find(|one| one.name == *question.coordinator) else { continue };
            let name = broker.name.clone();
            if self.silent.get(&name).is_some_and(|until| Instant::now() < *until) {
                continue;
            }
            let (transaction, epoch) = (question.branch.transaction, question.epoch.number);
            // A standby has no answer: the next one may lead. Who answered last is asked first the next time.
            let places = broker.places.clone();
            let first = self.last.get(&name).copied().unwrap_or(0);
            let order = (0..places.len()).map(|number| (first + number) % places.len());
            let ask = |number: usize| {
                let question = BrokerQuestion::new(&self.files, (&name, &places[number]), transaction, epoch);
                put(&question).map(|heard| (number, heard))
            };
            match order.into_iter().find_map(ask) {
                Some((number, heard)) => {
                    self.last.insert(name, number);
                    if let Ok(mut answers) = self.tray.answers.lock() {
                        answers.push((question, heard));
                    }
                    self.tray.notifier.notify();
                }
                None => _ = self.silent.insert(name, Instant::now() + PAUSE),
            }
        }
    }
}

/// Puts a question by a process of its own; `None`: no answer to it.
fn put(question: &BrokerQuestion) -> Option<Heard> {
    let mut command = Command::new(PROGRAM);
    command.arg(super::question::COMMAND).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    let line = serde_json::to_vec(question).ok()?;
    let told = child.stdin.take().is_some_and(|mut input| input.write_all(&line).is_ok());
    let output = child.stdout.take();
    let ended = ends(&mut child);
    let mut text = String::new();
    let read = output?.take(MOST_ANSWER).read_to_string(&mut text).is_ok();
    if told && ended && read { question.answer(&text) } else { None }
}

/// Waits for a process, and ends it when its time is over. True if it ended well by itself.
fn ends(child: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return false,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// The words for a decision that contradicts an earlier one of an operator or of time.
pub(crate) fn contradicted(what: &Contradiction) -> String {
    let which = what.handle.map_or_else(|| "a reservation that is no longer kept".to_owned(), |one| one.text());
    let (theirs, ours) = if what.committed { ("made", "dropped") } else { ("dropped", "made") };
    let transaction = what.branch.transaction;
    format!("transaction {transaction}: the other members have {theirs} the change; here it was {ours}: {which}")
}
