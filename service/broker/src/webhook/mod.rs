//! Webhooks: signed events go in order to targets that the configuration allows, and are repeated until they
//! are accepted.
//!
//! A webhook is a place in its owner's stream of events. Events that were not accepted are read again from
//! the agents, so no queue grows here. Webhooks and their places are kept as one document of the broker's [`Shelf`].

mod deliver;
mod post;
pub(crate) mod target;

pub use target::WebhookTarget;

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::config::BrokerConfig;
use crate::follow::EventCursor;
use crate::id::base32;
use crate::problem::{Answer, Problem};
use crate::shelf::{Shelf, Writing};
use documents::links::CallerDoc;
use documents::rest::{Webhook, WebhookWish};
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

/// All webhooks.
#[derive(Debug)]
pub struct WebhookRegistry {
    allowed: Vec<WebhookTarget>,
    poster: Poster,
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
    pub fn open(config: &BrokerConfig, gate: Option<Arc<TrustGate>>, shelf: Shelf) -> Result<WebhookRegistry, String> {
        let kept: Vec<Kept> = shelf.read(DOCUMENT)?;
        let hook = |kept: Kept| (kept.id.clone(), Hook { kept, failures: 0, last_failure: None, task: None });
        Ok(WebhookRegistry {
            allowed: config.hooks.iter().filter_map(|text| WebhookTarget::parse(text).ok()).collect(),
            poster: Poster::new(&config.hooks_ca),
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
        let target = WebhookTarget::parse(&wish.url).map_err(Problem::misuse)?;
        if caller.role == "auditor" {
            return Err(Problem::forbidden("an auditor reads and makes nothing"));
        }
        if !self.allows(&target) {
            return Err(Problem::forbidden(
                "this target is not on the broker's list of allowed ones: [webhooks] allow",
            ));
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
        let kept = Kept {
            id: id.clone(),
            url: target.text(),
            reservation: wish.reservation,
            secret: secret.clone(),
            owner: caller.clone(),
            certificate,
            place: String::new(),
        };
        let writing = self.enter(kept, caller)?;
        if let Err(error) = writing.done().await {
            self.locked().remove(&id);
            return Err(Problem::unavailable(format!("the webhook cannot be written down: {error}")));
        }
        let mut all = self.locked();
        let made = all.get_mut(&id).map(|hook| {
            hook.task = Some(tokio::spawn(deliver::run(broker.clone(), id.clone())));
            row(hook, Some(secret))
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

    fn allows(&self, target: &WebhookTarget) -> bool {
        self.allowed.iter().any(|allowed| target.is_below(allowed))
    }

    /// The webhook to deliver, if that is still allowed.
    fn due(&self, id: &str) -> Result<Option<Kept>, String> {
        let Some(kept) = self.locked().get(id).map(|hook| hook.kept.clone()) else { return Ok(None) };
        let target = WebhookTarget::parse(&kept.url)?;
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
