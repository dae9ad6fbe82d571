//! Starting and stopping a broker.

use crate::acceptance::Voice;
use crate::agents::AgentClient;
use crate::broker::Broker;
use crate::config::BrokerConfig;
use crate::domain_client::DomainClient;
use crate::domains::{self, KnownDomains};
use crate::listen::House;
use crate::mailer::Mailer;
use crate::neighbours::NeighbourDomain;
use crate::routes;
use crate::shelf::Shelf;
use crate::standby::{self, Reception};
use crate::transactions::{CoordinatorSettings, Learn, Transactions, Visits, in_folder, take_over};
use crate::web::WebDoor;
use crate::webhook::WebhookRegistry;
use crate::wire::Outward;
use linux::clock::Clock;
use rustls::ServerConfig;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::Store;
use store::postgres::JournalCandidate;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use trust::{Speaks, StatementSigner, TrustGate};

/// The longest wait at the start for the journal, and for agents that have something to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why a broker does not start: a sentence for the operator.
pub type Broken = String;

/// A broker that runs. It stops when this is dropped, in good order by [`RunningBroker::stop`].
#[derive(Debug)]
pub struct RunningBroker {
    /// The addresses that it listens on, with TLS and without.
    pub listens: Vec<SocketAddr>,
    /// The number of groups of an earlier broker that were finished.
    pub finished: usize,
    /// The broker, once it leads.
    broker: Seat,
    web: Option<Arc<WebDoor>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<Option<Broken>>,
    socket: PathBuf,
}

/// The place of the broker of this process: empty while another process leads.
type Seat = Arc<OnceLock<Arc<Broker>>>;

/// Shows if a broker still works.
#[derive(Debug)]
pub struct Pulse(Seat);

impl Pulse {
    /// Completes when the broker works: a task had its turn, so had a thread for blocking work, and no shared
    /// lock is held for ever. False if that failed.
    pub async fn beat(&self) -> bool {
        let seat = self.0.clone();
        let look = move || seat.get().map_or(0, |broker| broker.transactions.count() + broker.hooks.count());
        let turn = tokio::spawn(async move { tokio::task::spawn_blocking(look).await.is_ok() });
        turn.await.is_ok_and(|looked| looked)
    }
}

/// A broker that has opened everything that takes rights, and serves no request yet.
#[derive(Debug)]
pub struct Opened {
    config: BrokerConfig,
    begins: Begins,
    unix: std::os::unix::net::UnixListener,
    with_tls: Vec<(std::net::TcpListener, Arc<ServerConfig>, Arc<TrustGate>)>,
    without: Vec<std::net::TcpListener>,
    web: Option<(WebListener, Arc<WebDoor>)>,
    listens: Vec<SocketAddr>,
    operators: Option<u32>,
    to_brokers: Option<Outward>,
}

/// How the broker begins.
#[derive(Debug)]
enum Begins {
    /// At once: its journal is its own.
    Now(Arc<Broker>),
    /// When it leads, of those who share a database.
    Leading(Box<(JournalCandidate, BrokerParts)>),
}

/// All that a broker is made of but its journal.
#[derive(Debug)]
struct BrokerParts {
    config: BrokerConfig,
    gate: Option<Arc<TrustGate>>,
    agents: Vec<AgentClient>,
    settings: CoordinatorSettings,
    neighbours: (Vec<DomainClient>, Option<Voice>),
    door: Option<Arc<WebDoor>>,
    /// The process that sends mail, if there is to be mail.
    mailer: Option<Mailer>,
}

impl BrokerParts {
    /// The broker with this journal. It shares it with others if it is no folder's.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn broker(self, store: Box<dyn Store>) -> Result<Arc<Broker>, Broken> {
        let BrokerParts { config, gate, agents, settings, neighbours, door, mailer } = self;
        let transactions = Transactions::open(store, settings, agents.clone(), neighbours)?;
        let shelf = match &config.store {
            None => Shelf::Folder(config.state.clone()),
            Some(_) => Shelf::Journal(transactions.clone()),
        };
        let hooks = WebhookRegistry::open(&config, gate.clone(), shelf.clone(), mailer)?;
        let domains = Arc::new(KnownDomains::open(&config, gate.clone(), shelf)?);
        let mut broker = Broker::new(config.limits, agents, hooks, transactions, domains, door, config.routing);
        broker.gate = gate;
        Ok(Arc::new(broker))
    }
}

/// The listener for browsers, and TLS without certificates of callers, if it has TLS.
type WebListener = (std::net::TcpListener, Option<Arc<ServerConfig>>);

/// Starts a broker; its agents may come later.
///
/// # Errors
/// A file, a port or the socket is not available.
pub async fn start(config: &BrokerConfig) -> Result<RunningBroker, Broken> {
    open(config)?.serve().await
}

/// Opens files, ports and the socket; the rest needs no rights but those of its user.
///
/// # Errors
/// One of them is not available.
pub fn open(config: &BrokerConfig) -> Result<Opened, Broken> {
    let clock = Clock::start();
    let now: trust::Now = Arc::new(move || clock.today());
    let tls = config
        .tls
        .as_ref()
        .map(|files| trust::server(files, now.clone(), Speaks::Http))
        .transpose()
        .map_err(|error| error.to_string())?;
    let client = |speaks| {
        let client = config.tls.as_ref().map(|files| trust::client(files, now.clone(), speaks)).transpose();
        client.map_err(|error| error.to_string())
    };
    let gate = tls.as_ref().map(|(_, gate)| gate.clone());
    let outward = client(Speaks::Agent)?.zip(gate.clone()).map(|(config, gate)| Outward { config, gate });
    let to_brokers = client(Speaks::Http)?.zip(gate.clone()).map(|(config, gate)| Outward { config, gate });
    let agents: Vec<AgentClient> =
        config.agents.iter().map(|at| AgentClient::new(at.clone(), outward.clone())).collect();
    let own = outward.as_ref().and_then(|outward| outward.gate.own()).map(|own| own.name.clone());
    let settings = CoordinatorSettings {
        // Over TLS agents know us by our certificate.
        name: own.unwrap_or_else(|| config.name.clone()),
        most_skew: config.most_skew,
        accept_older: config.accept_older_journal,
    };
    let neighbours = neighbour_clients(config, to_brokers.as_ref())?;
    let journal = settings.name.clone();
    let mailer = config.mail.as_ref().map(|mail| Mailer::start(&mail.sendmail)).transpose()?;
    let mut parts = BrokerParts { config: config.clone(), gate, agents, settings, neighbours, door: None, mailer };
    // What is wrong with an own journal is said before anything listens.
    let own = config.store.is_none().then(|| in_folder(&config.state)).transpose()?;
    let (mut listens, mut with_tls, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let web = web_listener(config, now, clock)?;
    parts.door = web.as_ref().map(|(_, door)| door.clone());
    let unix =
        unix_socket(&config.socket).map_err(|error| format!("listen on {}: {error}", config.socket.display()))?;
    for address in &config.listen {
        let (tls, gate) = tls.clone().ok_or("listening needs [tls]")?;
        with_tls.push((tcp(address, &mut listens)?, tls, gate));
    }
    for address in &config.plain {
        without.push(tcp(address, &mut listens)?);
    }
    let operators = linux::process::group_id(&config.operators);
    let begins = match (own, &config.store) {
        (Some(store), _) => Begins::Now(parts.broker(store)?),
        (None, shared) => {
            let place = listens.first().map_or_else(|| config.socket.display().to_string(), SocketAddr::to_string);
            let options = shared.as_ref().ok_or("there is no journal")?.options(&journal, &place)?;
            let candidate = JournalCandidate::new(options).map_err(|error| error.to_string())?;
            Begins::Leading(Box::new((candidate, parts)))
        }
    };
    Ok(Opened { config: config.clone(), begins, unix, with_tls, without, web, listens, operators, to_brokers })
}

/// Binds the listener for browsers, if there is to be one.
///
/// # Errors
/// Its address is not available, or a file is not.
fn web_listener(
    config: &BrokerConfig,
    now: trust::Now,
    clock: Clock,
) -> Result<Option<(WebListener, Arc<WebDoor>)>, Broken> {
    let Some(settings) = &config.web else { return Ok(None) };
    let tls = match (settings.tls, &config.tls) {
        (false, _) => None,
        (true, Some(files)) => Some(trust::server_for_all(files, now).map_err(|error| error.to_string())?),
        (true, None) => return Err("browsers with TLS need [tls]".to_owned()),
    };
    let mut address = Vec::new();
    let listener = tcp(&settings.listen, &mut address)?;
    let door = WebDoor::new(settings.clone(), address[0], clock);
    Ok(Some(((listener, tls), Arc::new(door))))
}

/// The clients of neighbours' brokers, and what we sign for them.
///
/// # Errors
/// A file is not available, or is none of ECDSA on P-256.
fn neighbour_clients(
    config: &BrokerConfig,
    outward: Option<&Outward>,
) -> Result<(Vec<DomainClient>, Option<Voice>), Broken> {
    let (Some(files), Some(outward), Some(own)) = (&config.tls, outward, &config.neighbours.own) else {
        return Ok((Vec::new(), None));
    };
    let signer = StatementSigner::open(files).map_err(|error| error.to_string())?;
    let voice = Voice { domain: own.clone(), signer, gate: outward.gate.clone() };
    let client = |neighbour: &NeighbourDomain| DomainClient::new(neighbour.clone(), outward.clone());
    Ok((config.neighbours.all.iter().map(client).collect(), Some(voice)))
}

impl Opened {
    /// Finishes what an earlier broker left half done, then serves. A broker that shares a database serves at once, as a
    /// standby.
    ///
    /// # Errors
    /// A socket cannot be registered for waiting.
    pub async fn serve(self) -> Result<RunningBroker, Broken> {
        let Opened { config, begins, unix, with_tls, without, web, listens, operators, to_brokers } = self;
        let (stop, stopped) = watch::channel(false);
        let (reception, seat) = (Reception::new(), Seat::default());
        let house = House::new(reception.clone(), config.limits, stopped.clone());
        let mut tasks = JoinSet::new();
        let wrong = |error: io::Error| format!("wait for callers: {error}");
        let unix = UnixListener::from_std(unix).map_err(wrong)?;
        let mut finished = 0;
        match begins {
            Begins::Now(broker) => {
                let _ = seat.set(broker.clone());
                finished = begin(&broker, &config, to_brokers, (&mut tasks, &stopped)).await?;
                reception.open(routes::router(broker), None);
            }
            Begins::Leading(shared) => {
                let share = lead(*shared, reception, seat.clone(), to_brokers, stopped);
                tasks.spawn(share);
            }
        }
        let seats = house.seats();
        for (listener, tls, gate) in with_tls {
            let listener = TcpListener::from_std(listener).map_err(wrong)?;
            let serving = house.clone().tls(listener, TlsAcceptor::from(tls), gate, seats.clone());
            tasks.spawn(ends(serving));
        }
        for listener in without {
            let listener = TcpListener::from_std(listener).map_err(wrong)?;
            tasks.spawn(ends(house.clone().plain(listener, config.plain_as.as_str().into())));
        }
        let door = web.as_ref().map(|(_, door)| door.clone());
        if let Some(((listener, tls), door)) = web {
            let listener = TcpListener::from_std(listener).map_err(wrong)?;
            tasks.spawn(ends(house.clone().browsers(listener, tls.map(TlsAcceptor::from), door)));
        }
        tasks.spawn(ends(house.unix(unix, operators, config.speakers.clone())));
        Ok(RunningBroker { listens, finished, broker: seat, web: door, stop, tasks, socket: config.socket })
    }
}

/// Waits until this broker leads, then serves until it does not, or is stopped.
async fn lead(
    (candidate, parts): (JournalCandidate, BrokerParts),
    reception: Arc<Reception>,
    seat: Seat,
    to_brokers: Option<Outward>,
    mut stopped: watch::Receiver<bool>,
) -> Option<Broken> {
    let store = match standby::lead(candidate, &reception, &mut stopped).await {
        Ok(store) => store?,
        Err(why) => return Some(why),
    };
    let (lease, epoch, config) = (store.lease(), store.epoch(), parts.config.clone());
    // The journal is read, which takes as long as the database does.
    let made = tokio::task::spawn_blocking(move || parts.broker(store)).await;
    let broker = match made.map_err(|error| error.to_string()).and_then(|made| made) {
        Ok(broker) => broker,
        Err(why) => return Some(why),
    };
    let _ = seat.set(broker.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(standby::lost(lease.clone(), stopped.clone()));
    match begin(&broker, &config, to_brokers, (&mut tasks, &stopped)).await {
        Ok(finished) => {
            eprintln!("sluice: this broker leads (epoch {epoch}); {finished} changes of an earlier one finished")
        }
        Err(why) => return Some(why),
    }
    reception.open(routes::router(broker), Some(lease));
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(None) if *stopped.borrow() => {}
            Ok(None) => return Some("a part of the broker has ended".to_owned()),
            Ok(broken) => return broken,
            Err(error) => return Some(format!("a part of the broker has ended: {error}")),
        }
    }
    None
}

/// Begins the work of a broker: its transactions, webhooks and domains. Returns the number of changes that an earlier
/// broker had not finished.
async fn begin(
    broker: &Arc<Broker>,
    config: &BrokerConfig,
    to_brokers: Option<Outward>,
    (tasks, stopped): (&mut JoinSet<Option<Broken>>, &watch::Receiver<bool>),
) -> Result<usize, Broken> {
    let finished = coordinate(broker, &config.state, tasks, stopped).await?;
    broker.hooks.start(broker);
    tasks.spawn(ends(domains::keep(broker.clone(), to_brokers, stopped.clone())));
    Ok(finished)
}

/// A part whose end is no fault that it can name.
async fn ends(part: impl Future<Output = ()>) -> Option<Broken> {
    part.await;
    None
}

/// Starts the coordinator: reads its journal, says what was decided, takes over what an earlier broker left
/// open, and visits every agent. Returns the number of changes that an earlier broker had not finished.
async fn coordinate(
    broker: &Arc<Broker>,
    state: &Path,
    tasks: &mut JoinSet<Option<Broken>>,
    stopped: &watch::Receiver<bool>,
) -> Result<usize, Broken> {
    let transactions = &broker.transactions;
    let before = transactions.count();
    let answers = transactions.start()?;
    tasks.spawn(transactions.clone().run(answers, stopped.clone()));
    transactions.settled(PATIENCE).await?;
    let earlier = take_over(transactions, state).await?;
    let all = Arc::downgrade(broker);
    let learn: Learn = Arc::new(move |group| {
        // A key that stands for two groups was used at another broker: this one refuses neither.
        let _ = all.upgrade().map(|broker| broker.use_key(group));
    });
    let visits = (0..broker.agents.len()).map(|agent| Visits::new(transactions.clone(), agent, learn.clone()));
    let mut first = JoinSet::new();
    for mut visits in visits {
        first.spawn(async move {
            visits.visit().await;
            visits
        });
    }
    while let Some(visited) = first.join_next().await {
        let visits = visited.map_err(|error| format!("a visit to an agent failed: {error}"))?;
        let stopped = stopped.clone();
        tasks.spawn(ends(visits.run(stopped)));
    }
    for domain in 0..transactions.domains().len() {
        tasks.spawn(ends(transactions.clone().greet_domain(domain, stopped.clone())));
    }
    transactions.settled(PATIENCE).await?;
    Ok(before.saturating_sub(transactions.count()) + earlier)
}

impl RunningBroker {
    /// Waits until a serving task has ended without a stop, which is our own fault: a listener, or the
    /// recovery. The others go on, but the broker is incomplete.
    pub async fn broke(&mut self) -> Broken {
        match self.tasks.join_next().await {
            Some(Err(error)) => format!("a part of the broker has ended: {error}"),
            Some(Ok(Some(broken))) => broken,
            _ => "a part of the broker has ended".to_owned(),
        }
    }

    /// The address for browsers, and true if it speaks TLS; `None`: there is no such listener.
    pub fn web(&self) -> Option<(SocketAddr, bool)> {
        self.web.as_ref().map(|door| (door.address(), door.has_tls()))
    }

    /// True if this broker leads: it has its journal, and callers are let in.
    pub fn leads(&self) -> bool {
        self.broker.get().is_some()
    }

    /// The pulse of the broker.
    pub fn pulse(&self) -> Pulse {
        Pulse(self.broker.clone())
    }

    /// Answers the requests under way, and ends.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        if let Some(broker) = self.broker.get() {
            broker.hooks.end().await;
            broker.transactions.close().await;
        }
    }
}

impl Drop for RunningBroker {
    /// The socket's name goes with the broker, and its journal is closed.
    fn drop(&mut self) {
        drop(self.broker.get().and_then(|broker| broker.transactions.take_journal()));
        let _ = fs::remove_file(&self.socket);
    }
}

fn tcp(address: &SocketAddr, listens: &mut Vec<SocketAddr>) -> Result<std::net::TcpListener, Broken> {
    let wrong = |error: io::Error| format!("listen on {address}: {error}");
    let listener = linux::tcp::listen(address).map_err(wrong)?;
    listens.push(listener.local_addr().map_err(wrong)?);
    Ok(listener)
}

/// A socket of mode 0660, group `sluice` if it exists; it replaces the socket of a killed broker.
fn unix_socket(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let listener = linux::files::listen(path, linux::process::group_id("sluice"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
