//! Webhooks: signed events go in order to targets that the configuration allows, and are repeated until they
//! are accepted.
//!
//! A webhook is a place in its owner's stream of events. Events that were not accepted are read again from
//! the agents, so no queue grows here. Webhooks and their places are kept as one document of the broker's [`Shelf`].

mod deliver;
pub mod mail;
mod post;
pub(crate) mod target;

pub use target::WebhookTarget;

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::config::BrokerConfig;
use crate::follow::EventCursor;
use crate::id::base32;
use crate::mailer::Mailer;
use crate::problem::{Answer, Problem};
use crate::shelf::{Shelf, Writing};
use documents::book::EventWord;
use documents::links::CallerDoc;
use documents::rest::{Event, Webhook, WebhookWish};
use mail::{MailAddress, MailCount, MailPattern};
use post::Poster;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use terms::Time;
use tokio::task::JoinHandle;
use trust::{CertificateRole, Identity, TrustGate};

/// The name of the document.
const DOCUMENT: &str = "webhooks";
/// The most webhooks, of all and of one owner.
const MAX_HOOKS: usize = 1_000;
const MAX_OF_ONE: usize = 32;

/// A target of events: a URL, or an address of mail.
#[derive(Clone, PartialEq, Eq, Debug)]
enum HookTarget {
    Web(WebhookTarget),
    Mail(MailAddress),
}

impl HookTarget {
    fn parse(text: &str) -> Result<HookTarget, String> {
        match text.strip_prefix(mail::SCHEME) {
            Some(address) => MailAddress::parse(address).map(HookTarget::Mail),
            None => WebhookTarget::parse(text).map(HookTarget::Web),
        }
    }

    fn text(&self) -> String {
        match self {
            HookTarget::Web(target) => target.text(),
            HookTarget::Mail(address) => format!("{}{}", mail::SCHEME, address.text()),
        }
    }
}

/// The process that sends mail, and the addresses that are allowed.
#[derive(Debug)]
struct PostOffice {
    mailer: Mailer,
    from: MailAddress,
    allowed: Vec<MailPattern>,
    count: Mutex<MailCount>,
}

/// All webhooks.
#[derive(Debug)]
pub struct WebhookRegistry {
    allowed: Vec<WebhookTarget>,
    poster: Poster,
    office: Option<PostOffice>,
    gate: Option<Arc<TrustGate>>,
    shelf: Shelf,
    all: Mutex<BTreeMap<String, Hook>>,
}

/// A webhook and its task.
#[derive(Debug)]
struct Hook {
    kept: Kept,
    failures: u32,
    last_failure: Option<String>,
    task: Option<JoinHandle<()>>,
}

/// The part of a webhook that outlives the process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Kept {
    id: String,
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    /// The kinds of events; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<String>,
    secret: String,
    owner: CallerDoc,
    /// If the owner showed a certificate: it must be valid at each delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
    place: String,
}

/// The stored data of a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Certificate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    role: String,
    name: String,
    serial: Vec<u8>,
    not_before_ns: u64,
    not_after_ns: u64,
}

impl Certificate {
    fn of(identity: &Identity) -> Certificate {
        Certificate {
            domain: identity.domain.clone(),
            role: identity.role.name().to_owned(),
            name: identity.name.clone(),
            serial: identity.serial.clone(),
            not_before_ns: identity.not_before.as_nanos(),
            not_after_ns: identity.not_after.as_nanos(),
        }
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity {
            domain: self.domain.clone(),
            groups: Vec::new(),
            role: CertificateRole::named(&self.role)?,
            name: self.name.clone(),
            serial: self.serial.clone(),
            not_before: Time::from_nanos(self.not_before_ns),
            not_after: Time::from_nanos(self.not_after_ns),
        })
    }
}

impl WebhookRegistry {
    /// Opens the webhooks that the shelf has; `gate` knows the valid certificates.
    ///
    /// # Errors
    /// The document exists and cannot be read.
    pub fn open(
        config: &BrokerConfig,
        gate: Option<Arc<TrustGate>>,
        shelf: Shelf,
        mailer: Option<Mailer>,
    ) -> Result<WebhookRegistry, String> {
        let kept: Vec<Kept> = shelf.read(DOCUMENT)?;
        let hook = |kept: Kept| (kept.id.clone(), Hook { kept, failures: 0, last_failure: None, task: None });
        Ok(WebhookRegistry {
            allowed: config.hooks.iter().filter_map(|text| WebhookTarget::parse(text).ok()).collect(),
            poster: Poster::new(&config.hooks_ca),
            office: config.mail.as_ref().zip(mailer).map(|(settings, mailer)| PostOffice {
                mailer,
                from: settings.from.clone(),
                allowed: settings.to.clone(),
                count: Mutex::new(MailCount::new(settings.per_hour, settings.per_hour_of_one)),
            }),
            gate,
            all: Mutex::new(kept.into_iter().map(hook).collect()),
            shelf,
        })
    }

    /// Starts the delivery of all webhooks.
    pub fn start(&self, broker: &Arc<Broker>) {
        for (id, hook) in self.locked().iter_mut() {
            hook.task = Some(tokio::spawn(deliver::run(broker.clone(), id.clone())));
        }
    }

    /// Ends the delivery of all webhooks: nothing is delivered or written down when this returns.
    pub async fn end(&self) {
        let tasks: Vec<JoinHandle<()>> = self.locked().values_mut().filter_map(|hook| hook.task.take()).collect();
        tasks.iter().for_each(JoinHandle::abort);
        for task in tasks {
            // It was aborted, or has ended before.
            let _ = task.await;
        }
    }

    /// The number of webhooks.
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// The caller's webhooks; for an operator or auditor, all.
    pub fn list(&self, caller: &CallerDoc) -> Vec<Webhook> {
        let all = self.locked();
        all.values().filter(|hook| may_see(caller, &hook.kept)).map(|hook| row(hook, None)).collect()
    }

    /// Adds a webhook.
    ///
    /// # Errors
    /// 403: the target is not allowed; 422: it is none; 429: too many; 503: it cannot be written down.
    pub async fn add(
        &self,
        broker: &Arc<Broker>,
        peer: &ConnectionPeer,
        caller: &CallerDoc,
        wish: WebhookWish,
    ) -> Answer<Webhook> {
        let target = HookTarget::parse(&wish.url).map_err(Problem::misuse)?;
        if caller.role == "auditor" {
            return Err(Problem::forbidden("an auditor reads and makes nothing"));
        }
        if !self.allows(&target) {
            return Err(Problem::forbidden(
                "this target is not on the broker's list of allowed ones: [webhooks] allow, [mail] to",
            ));
        }
        if let Some(wrong) =
            wish.events.iter().find(|word| !EventWord::ALL.iter().any(|one| one.as_str() == word.as_str()))
        {
            return Err(Problem::misuse(format!("{wrong:?} is no kind of event, such as ends_soon")));
        }
        let secret = wish.secret.map_or_else(|| draw().map_err(|error| Problem::unavailable(error.to_string())), Ok)?;
        if !(16..=128).contains(&secret.len()) || !secret.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Problem::misuse("a secret has 16 to 128 visible ASCII characters"));
        }
        let id = draw().map_err(|error| Problem::unavailable(error.to_string()))?;
        let certificate = match peer {
            ConnectionPeer::Certificate { identity, .. } => Some(Certificate::of(identity)),
            _ => None,
        };
        let is_mail = matches!(target, HookTarget::Mail(_));
        // A notice may have come before somebody could ask for mail about it.
        let place = match (is_mail, &wish.reservation) {
            (true, Some(_)) => EventCursor::oldest(&broker.names()).to_string(),
            _ => String::new(),
        };
        let kept = Kept {
            id: id.clone(),
            url: target.text(),
            reservation: wish.reservation,
            events: wish.events,
            secret: secret.clone(),
            // A token is shown with a request; what outlives it keeps none.
            owner: CallerDoc { token: None, ..caller.clone() },
            certificate,
            place,
        };
        let writing = self.enter(kept, caller)?;
        if let Err(error) = writing.done().await {
            self.locked().remove(&id);
            return Err(Problem::unavailable(format!("the webhook cannot be written down: {error}")));
        }
        let mut all = self.locked();
        let made = all.get_mut(&id).map(|hook| {
            hook.task = Some(tokio::spawn(deliver::run(broker.clone(), id.clone())));
            row(hook, Some(secret).filter(|_| !is_mail))
        });
        made.ok_or_else(Problem::not_found)
    }

    /// Enters a webhook, and begins to write it down.
    fn enter(&self, kept: Kept, caller: &CallerDoc) -> Answer<Writing> {
        let mut all = self.locked();
        let of_one = all.values().filter(|hook| hook.kept.owner.name == caller.name).count();
        if all.len() >= MAX_HOOKS || of_one >= MAX_OF_ONE {
            return Err(Problem::limit(format!("at most {MAX_OF_ONE} webhooks of one owner, {MAX_HOOKS} of all")));
        }
        all.insert(kept.id.clone(), Hook { kept, failures: 0, last_failure: None, task: None });
        Ok(self.write(&all))
    }

    /// Removes a webhook.
    ///
    /// # Errors
    /// 404: there is none, or it belongs to another owner; 503: the change cannot be written down.
    pub async fn remove(&self, caller: &CallerDoc, id: &str) -> Answer<()> {
        let (hook, writing) = {
            let mut all = self.locked();
            let mine = |hook: &Hook| hook.kept.owner.name == caller.name || caller.role == "operator";
            if !all.get(id).is_some_and(mine) {
                return Err(Problem::not_found());
            }
            let Some(hook) = all.remove(id) else { return Err(Problem::not_found()) };
            (hook, self.write(&all))
        };
        if let Err(error) = writing.done().await {
            self.locked().insert(id.to_owned(), hook);
            return Err(Problem::unavailable(format!("that cannot be written down: {error}")));
        }
        if let Some(task) = hook.task {
            task.abort();
        }
        Ok(())
    }

    fn allows(&self, target: &HookTarget) -> bool {
        match target {
            HookTarget::Web(target) => self.allowed.iter().any(|allowed| target.is_below(allowed)),
            HookTarget::Mail(address) => {
                self.office.iter().flat_map(|office| &office.allowed).any(|allowed| allowed.allows(address))
            }
        }
    }

    /// Sends events by mail.
    async fn write_to(&self, broker: &str, kept: &Kept, to: &MailAddress, events: &[Event]) -> Result<(), String> {
        let Some(office) = &self.office else { return Err("this broker sends no mail: [mail]".to_owned()) };
        let now = std::time::Instant::now();
        office.count.lock().unwrap_or_else(PoisonError::into_inner).take(&kept.owner.name, now)?;
        office.mailer.send(&office.from, to, mail::written(&office.from, to, broker, events)).await
    }

    /// Ends what was about one reservation that is over.
    fn over(&self, id: &str) {
        let mut all = self.locked();
        if all.remove(id).is_some() {
            // If this write fails, it is found over again at the next start.
            drop(self.write(&all));
        }
    }

    /// The webhook to deliver, if that is still allowed.
    fn due(&self, id: &str) -> Result<Option<Kept>, String> {
        let Some(kept) = self.locked().get(id).map(|hook| hook.kept.clone()) else { return Ok(None) };
        let target = HookTarget::parse(&kept.url)?;
        if !self.allows(&target) {
            return Err("the target is not allowed any more".to_owned());
        }
        if let Some(certificate) = &kept.certificate {
            let (Some(identity), Some(gate)) = (certificate.identity(), &self.gate) else {
                return Err("the owner's certificate cannot be checked".to_owned());
            };
            gate.admit(&identity).map_err(|error| error.to_string())?;
        }
        Ok(Some(kept))
    }

    /// Records that events up to here were accepted.
    fn taken(&self, id: &str, place: &EventCursor) {
        let mut all = self.locked();
        if let Some(hook) = all.get_mut(id) {
            hook.kept.place = place.to_string();
            (hook.failures, hook.last_failure) = (0, None);
        }
        // If this write fails, or ends after we do, events come twice, which receivers must bear anyway.
        drop(self.write(&all));
    }

    /// Records a failure; returns the number of failures in a row.
    fn failed(&self, id: &str, why: String) -> u32 {
        let mut all = self.locked();
        let Some(hook) = all.get_mut(id) else { return 0 };
        hook.failures = hook.failures.saturating_add(1);
        hook.last_failure = Some(why);
        hook.failures
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Hook>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all webhooks down. Writings end in the order in which they begin, which is that of the changes.
    fn write(&self, all: &BTreeMap<String, Hook>) -> Writing {
        let kept: Vec<&Kept> = all.values().map(|hook| &hook.kept).collect();
        self.shelf.write(DOCUMENT, &kept)
    }
}

fn may_see(caller: &CallerDoc, kept: &Kept) -> bool {
    kept.owner.name == caller.name || matches!(caller.role.as_str(), "operator" | "auditor")
}

fn row(hook: &Hook, secret: Option<String>) -> Webhook {
    Webhook {
        id: hook.kept.id.clone(),
        url: hook.kept.url.clone(),
        reservation: hook.kept.reservation.clone(),
        events: hook.kept.events.clone(),
        secret,
        delivered: hook.kept.place.clone(),
        failures: hook.failures,
        last_failure: hook.last_failure.clone(),
    }
}

/// Draws 160 random bits, as text.
fn draw() -> io::Result<String> {
    let mut bytes = [0; 20];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(base32(&bytes))
}
