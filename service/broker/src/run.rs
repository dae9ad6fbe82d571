//! Starting and stopping a broker.

use crate::acceptance::Voice;
use crate::agents::AgentClient;
use crate::broker::Broker;
use crate::config::BrokerConfig;
use crate::domain_client::DomainClient;
use crate::domains::{self, KnownDomains};
use crate::listen::House;
use crate::neighbours::NeighbourDomain;
use crate::routes;
use crate::transactions::{CoordinatorSettings, Learn, Transactions, Visits, take_over};
use crate::web::WebDoor;
use crate::webhook::WebhookRegistry;
use crate::wire::Outward;
use linux::clock::Clock;
use rustls::ServerConfig;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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
    broker: Arc<Broker>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<Option<Broken>>,
    socket: PathBuf,
}

/// Shows if a broker still works.
#[derive(Debug)]
pub struct Pulse(Arc<Broker>);

impl Pulse {
    /// Completes when the broker works: a task had its turn, so had a thread for blocking work, and no shared
    /// lock is held for ever. False if that failed.
    pub async fn beat(&self) -> bool {
        let broker = self.0.clone();
        let look = move || broker.transactions.count() + broker.hooks.count();
        let turn = tokio::spawn(async move { tokio::task::spawn_blocking(look).await.is_ok() });
        turn.await.is_ok_and(|looked| looked)
    }
}

/// A broker that has opened everything that takes rights, and serves no request yet.
#[derive(Debug)]
pub struct Opened {
    config: BrokerConfig,
    broker: Arc<Broker>,
    unix: std::os::unix::net::UnixListener,
    with_tls: Vec<(std::net::TcpListener, Arc<ServerConfig>, Arc<TrustGate>)>,
    without: Vec<std::net::TcpListener>,
    web: Option<WebListener>,
    listens: Vec<SocketAddr>,
    operators: Option<u32>,
    to_brokers: Option<Outward>,
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
    let hooks = WebhookRegistry::open(config, tls.as_ref().map(|(_, gate)| gate.clone()))?;
    let gate = tls.as_ref().map(|(_, gate)| gate.clone());
    let outward = client(Speaks::Agent)?.zip(gate.clone()).map(|(config, gate)| Outward { config, gate });
    let to_brokers = client(Speaks::Http)?.zip(gate.clone()).map(|(config, gate)| Outward { config, gate });
    let domains = Arc::new(KnownDomains::open(config, gate)?);
    let agents: Vec<AgentClient> =
        config.agents.iter().map(|at| AgentClient::new(at.clone(), outward.clone())).collect();
    let own = outward.as_ref().and_then(|outward| outward.gate.own()).map(|own| own.name.clone());
    let settings = CoordinatorSettings {
        // Over TLS agents know us by our certificate.
        name: own.unwrap_or_else(|| config.name.clone()),
        most_skew: config.most_skew,
        accept_older: config.accept_older_journal,
    };
    let clients = neighbour_clients(config, to_brokers.as_ref())?;
    let transactions = Transactions::open(&config.state, settings, agents.clone(), clients)?;
    let (mut listens, mut with_tls, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let (web, door) = web_listener(config, now, clock)?.unzip();
    let routing = config.routing.clone();
    let mut broker = Broker::new(config.limits, agents, hooks, transactions, domains, door, routing);
    broker.gate = tls.as_ref().map(|(_, gate)| gate.clone());
    let broker = Arc::new(broker);
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
    Ok(Opened { config: config.clone(), broker, unix, with_tls, without, web, listens, operators, to_brokers })
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
    /// Finishes what an earlier broker left half done, then serves.
    ///
    /// # Errors
    /// A socket cannot be registered for waiting.
    pub async fn serve(self) -> Result<RunningBroker, Broken> {
        let Opened { config, broker, unix, with_tls, without, web, listens, operators, to_brokers } = self;
        let (stop, stopped) = watch::channel(false);
        let house = House::new(routes::router(broker.clone()), config.limits, stopped.clone());
        let mut tasks = JoinSet::new();
        let wrong = |error: io::Error| format!("wait for callers: {error}");
        let unix = UnixListener::from_std(unix).map_err(wrong)?;
        let finished = coordinate(&broker, &config.state, &mut tasks, &stopped).await?;
        broker.hooks.start(&broker);
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
        if let Some(((listener, tls), door)) = web.zip(broker.web.clone()) {
            let listener = TcpListener::from_std(listener).map_err(wrong)?;
            tasks.spawn(ends(house.clone().browsers(listener, tls.map(TlsAcceptor::from), door)));
        }
        tasks.spawn(ends(domains::keep(broker.clone(), to_brokers, stopped)));
        tasks.spawn(ends(house.unix(unix, operators)));
        Ok(RunningBroker { listens, finished, broker, stop, tasks, socket: config.socket })
    }
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
        self.broker.web.as_ref().map(|door| (door.address(), door.has_tls()))
    }

    /// The pulse of the broker.
    pub fn pulse(&self) -> Pulse {
        Pulse(self.broker.clone())
    }

    /// Answers the requests under way, and ends.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.broker.transactions.close().await;
    }
}

impl Drop for RunningBroker {
    /// The socket's name goes with the broker, and its journal is closed.
    fn drop(&mut self) {
        drop(self.broker.transactions.take_journal());
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
