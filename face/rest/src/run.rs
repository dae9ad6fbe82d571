//! Starting and stopping a broker.

use crate::broker::Broker;
use crate::config::BrokerConfig;
use crate::intent::Intents;
use crate::listen::House;
use crate::recover::{self, Recovery};
use crate::routes;
use crate::webhook::Hooks;
use crate::wire::Outward;
use linux::clock::Clock;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use trust::Speaks;

/// Why a broker does not start: a sentence for the operator.
pub type Broken = String;

/// A broker that runs; it stops when this is dropped, in good order by [`Running::stop`].
#[derive(Debug)]
pub struct Running {
    /// Where it listens with TLS, and without.
    pub listens: Vec<SocketAddr>,
    /// How many groups of an earlier broker were finished.
    pub finished: usize,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    socket: PathBuf,
}

/// Starts a broker; its agents may come later.
///
/// # Errors
/// A file, a port or the socket is not to be had.
pub async fn start(config: &BrokerConfig) -> Result<Running, Broken> {
    let clock = Clock::start();
    let now: trust::Now = Arc::new(move || clock.today());
    let tls = config
        .tls
        .as_ref()
        .map(|files| trust::server(files, now.clone(), Speaks::Http))
        .transpose()
        .map_err(|error| error.to_string())?;
    let client = config.tls.as_ref().map(|files| trust::client(files, now, Speaks::Agent)).transpose();
    let client = client.map_err(|error| error.to_string())?;
    let hooks = Hooks::open(config, tls.as_ref().map(|(_, gate)| gate.clone()))?;
    let gate = tls.as_ref().map(|(_, gate)| gate.clone());
    let outward = client.zip(gate).map(|(config, gate)| Outward { config, gate });
    let intents = Intents::open(&config.state)?;
    let broker = Arc::new(Broker::new(config, hooks, intents, outward));
    let (stop, stopped) = watch::channel(false);
    let house = House::new(routes::router(broker.clone()), config.limits, stopped.clone());
    let mut tasks = JoinSet::new();
    let (mut listens, mut with_tls, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let unix =
        unix_socket(&config.socket).map_err(|error| format!("listen on {}: {error}", config.socket.display()))?;
    for address in &config.listen {
        let (tls, gate) = tls.clone().ok_or("listening needs [tls]")?;
        let listener = tcp(address, &mut listens).await?;
        with_tls.push((listener, TlsAcceptor::from(tls), gate));
    }
    for address in &config.plain {
        without.push(tcp(address, &mut listens).await?);
    }
    // First what an earlier broker left half done, then the first request.
    let mut recovery = Recovery::default();
    let done = recovery.pass(&broker).await;
    let finished = recovery.finished;
    tasks.spawn(recover::run(broker.clone(), recovery, done, stopped));
    broker.hooks.start(&broker);
    let seats = house.seats();
    for (listener, acceptor, gate) in with_tls {
        tasks.spawn(house.clone().tls(listener, acceptor, gate, seats.clone()));
    }
    for listener in without {
        tasks.spawn(house.clone().plain(listener, config.plain_as.as_str().into()));
    }
    tasks.spawn(house.unix(unix, linux::process::group_id(&config.operators)));
    Ok(Running { listens, finished, stop, tasks, socket: config.socket.clone() })
}

impl Running {
    /// Answers what was begun, and ends.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for Running {
    /// The name goes with the broker.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

async fn tcp(address: &SocketAddr, listens: &mut Vec<SocketAddr>) -> Result<TcpListener, Broken> {
    let wrong = |error: io::Error| format!("listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    listens.push(listener.local_addr().map_err(wrong)?);
    Ok(listener)
}

/// Mode 0660, group `sluice` where there is one; what a killed broker left is replaced.
fn unix_socket(path: &Path) -> io::Result<UnixListener> {
    let listener = linux::files::listen(path, linux::process::group_id("sluice"))?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}
