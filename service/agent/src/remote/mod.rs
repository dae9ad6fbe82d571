//! Callers from other machines: the calls of the local socket, over mutual TLS.
//!
//! A process without rights reads their input ([`front`], its loop [`proxy`]). A thread of the agent
//! ([`keeper`]) starts, feeds and watches it over a channel, the only place where the agent accepts a
//! certificate's name ([`frames`]). For the agent's loop such a caller is one more local connection. The
//! table of rights ([`booking::policy::rights`]) limits its calls. Without `[listen]` there is no access.

pub mod config;
mod frames;
pub mod front;
mod keeper;
mod proxy;
mod said;
mod session;

pub use keeper::COMMAND;

use crate::alive::Done;
use config::ListenConfig;
use keeper::Keeper;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::notifier::Notifier;
use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use terms::Span;
use trust::{Identity, Speaks};

/// The most news that wait for the agent.
const MAX_NEWS: usize = 512;

/// News from the thread for the agent.
pub(crate) enum News {
    /// The front serves.
    Ready { pid: u32, restricted: bool },
    /// A caller was admitted: its calls come from this socket.
    Came { stream: UnixStream, identity: Identity, from: IpAddr },
    /// A caller was refused, or its connection was ended.
    Refused { from: IpAddr, why: String },
    /// A certificate or the list of revocations is bad; the one before stays in force.
    Complaint(String),
    /// The front has ended, and every connection with it; another one starts after this time.
    Ended { why: String, again_in: Span },
}

/// State that the agent and the thread share.
struct Shared {
    /// Fires when there is news for the agent.
    news: Notifier,
    /// Fires when a flag below changes.
    end: Notifier,
    ending: AtomicBool,
    /// True if certificates are to be read again.
    renew: AtomicBool,
    /// The number of the thread's rounds.
    rounds: AtomicU64,
}

/// Access for other machines, while it is open.
pub(crate) struct Remote {
    news: Receiver<News>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Opens access.
    ///
    /// # Errors
    /// A certificate, a key or an address cannot be used.
    pub(crate) fn open(config: &ListenConfig) -> Result<Remote, SystemError> {
        let clock = Clock::start();
        // Mistakes in our own files are told at once, before anybody comes.
        let tls = trust::server(&config.files, Arc::new(move || clock.today()), Speaks::Agent);
        tls.map_err(|error| SystemError::because("open [listen]", io::Error::other(error)))?;
        let listen = |address: &std::net::SocketAddr| {
            linux::tcp::listen(address).map_err(SystemError::doing(format!("listen on {address}")))
        };
        let listeners = config.addresses.iter().map(listen).collect::<Result<Vec<_>, SystemError>>()?;
        let (ending, renew) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            news: Notifier::new()?,
            end: Notifier::new()?,
            ending,
            renew,
            rounds: AtomicU64::new(0),
        });
        let (door, news) = sync_channel(MAX_NEWS);
        let keeper = Keeper { config: config.clone(), listeners, door, shared: shared.clone(), clock };
        let thread = std::thread::Builder::new().name("remote".to_owned());
        let thread = thread.spawn(move || keeper.run()).map_err(SystemError::doing("start a thread"))?;
        Ok(Remote { news, shared, thread: Some(thread) })
    }

    /// The notifier of news.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.shared.news
    }

    /// Takes the news that have come.
    pub(crate) fn take(&self) -> Vec<News> {
        self.shared.news.clear();
        self.news.try_iter().collect()
    }

    /// The progress of the thread: it completes a round at least once a second.
    pub(crate) fn pulse(&self) -> Done {
        Done { count: self.shared.rounds.load(Ordering::Relaxed), all: false }
    }

    /// Has certificates, key and revocations read again.
    pub(crate) fn renew(&self) {
        self.shared.renew.store(true, Ordering::Release);
        self.shared.end.notify();
    }
}

impl Drop for Remote {
    /// Closes access; the callers get the last words.
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.end.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
