//! `sluice broker`.

use crate::complain::Complaint;
use crate::places::PapersArgs;
use api::agent::Request;
use clap::Args;
use daemon::AgentConfig;
use rest::{AgentAt, At, BrokerConfig};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trust::Files;

/// Read where they are, if nothing else is said.
const BROKER_FILE: &str = "/etc/sluice/broker.toml";
const AGENT_FILE: &str = "/etc/sluice/agent.toml";
/// How long an agent inside may take to start or stop.
const AGENT_PATIENCE: Duration = Duration::from_secs(20);

/// `sluice broker`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice broker                                 all of one machine: an agent inside if none runs, a Unix socket\n  \
                  sluice broker --plain 127.0.0.1:8080 --plain-as demo     the same for programs that speak TCP\n  \
                  sluice broker --agent maui=/run/sluice/testbeds/seed/maui/agent.sock --agent glenwood=...\n  \
                  sluice broker --agent b=tls://10.0.0.2:4711 --agent c=tls://10.0.2.2:4711 --listen 0.0.0.0:8443 \\\n      \
                    --ca ca.pem --certificate broker-main.pem --certificate-key broker-main.key    agents on other machines\n  \
                  sluice broker --config /etc/sluice/broker.toml           mutual TLS, webhooks, limits: see docs/broker.md\n  \
                  curl --unix-socket /run/sluice/broker.sock http://b/v1/resources"
)]
pub struct BrokerArgs {
    /// The configuration file [default: /etc/sluice/broker.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An agent, instead of those that the file names: its socket, or tls://HOST:PORT; may be repeated
    #[arg(long, value_name = "NAME=PLACE")]
    pub agent: Vec<String>,
    /// Listen here with mutual TLS, instead of where the file says; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Who we are to callers and to agents on other machines, instead of what the file says.
    #[command(flatten)]
    pub papers: PapersArgs,
    /// Certificates that are good no more; read again whenever it changes
    #[arg(long, value_name = "FILE")]
    pub revoked: Option<PathBuf>,
    /// The broker's Unix socket, instead of what the file says
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Where webhooks are kept, instead of what the file says
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Listen on the loopback without TLS
    #[arg(long, value_name = "ADDRESS:PORT", requires = "plain_as")]
    pub plain: Option<SocketAddr>,
    /// Whom everybody there is taken for
    #[arg(long, value_name = "NAME", requires = "plain")]
    pub plain_as: Option<String>,
    /// Start no agent, although none runs
    #[arg(long)]
    pub no_agent: bool,
    /// Look for mistakes in the file, and stop
    #[arg(long)]
    pub check: bool,
    /// Print the OpenAPI document, and stop
    #[arg(long, conflicts_with = "check")]
    pub openapi: bool,
}

/// Runs a broker in this process until it is interrupted.
pub fn run(args: &BrokerArgs) -> Result<ExitCode, Complaint> {
    if args.openapi {
        print!("{}", rest::openapi::text());
        return Ok(ExitCode::SUCCESS);
    }
    let config = config(args)?;
    if args.check {
        println!("no mistake found");
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let own = own_agent(args, &config)?;
    runtime.block_on(serve(&config))?;
    drop(runtime);
    own.map_or(Ok(ExitCode::SUCCESS), Inside::end)
}

fn config(args: &BrokerArgs) -> Result<BrokerConfig, Complaint> {
    let file = args.config.clone().or_else(|| Some(PathBuf::from(BROKER_FILE)).filter(|file| file.exists()));
    let read = file.map(|file| BrokerConfig::load(&file)).transpose();
    let mut config = read.map_err(|mistake| Complaint::usage(mistake.to_string()))?.unwrap_or_default();
    config.tls = files(args)?.or(config.tls);
    if !args.listen.is_empty() {
        config.listen.clone_from(&args.listen);
    }
    if !args.agent.is_empty() {
        config.own_agent = false;
        config.agents = args.agent.iter().map(|text| agent(text)).collect::<Result<_, _>>()?;
    }
    let afar = config.agents.iter().any(|agent| matches!(agent.at, At::Tls { .. }));
    if config.tls.is_none() && (afar || !config.listen.is_empty()) {
        let what =
            "other machines want to know who we are: --ca, --certificate and --certificate-key, or [tls] in the file";
        return Err(Complaint::usage(what));
    }
    if let Some(plain) = args.plain {
        if !plain.ip().is_loopback() {
            return Err(Complaint::usage(format!(
                "--plain {plain}: without TLS only on the loopback (127.0.0.1, ::1)"
            )));
        }
        config.plain = vec![plain];
        config.plain_as = args.plain_as.clone().unwrap_or_default();
    }
    config.socket = args.socket.clone().unwrap_or(config.socket);
    config.state = args.state.clone().unwrap_or(config.state);
    Ok(config)
}

/// Who we are, if the command line says so.
fn files(args: &BrokerArgs) -> Result<Option<Files>, Complaint> {
    let PapersArgs { ca, certificate, certificate_key } = args.papers.clone();
    match (ca, certificate, certificate_key) {
        (Some(ca), Some(certificate), Some(key)) => {
            Ok(Some(Files { ca, certificate, key, revoked: args.revoked.clone(), partners: Vec::new() }))
        }
        (None, None, None) => Ok(None),
        _ => Err(Complaint::usage("--ca, --certificate and --certificate-key go together")),
    }
}

fn agent(text: &str) -> Result<AgentAt, Complaint> {
    let wrong = || {
        let what =
            "write NAME=SOCKET or NAME=tls://HOST:PORT, as in maui=/run/sluice/agent.sock, b=tls://10.0.0.2:4711";
        Complaint::usage(format!("--agent {text}: {what}"))
    };
    let (name, place) = text.split_once('=').filter(|(name, _)| rest::config::is_name(name)).ok_or_else(wrong)?;
    let at = match place.strip_prefix("tls://") {
        Some(address) => api::place::split(address).map(|(host, port)| At::Tls { host, port, domain: None }),
        None => Some(At::Socket(place.into())).filter(|_| !place.is_empty()),
    };
    Ok(AgentAt { name: name.to_owned(), at: at.ok_or_else(wrong)? })
}

async fn serve(config: &BrokerConfig) -> Result<(), Complaint> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = rest::start(config).await.map_err(Complaint::world)?;
    let names: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    eprintln!("sluice: broker over {} on {}", names.join(", "), config.socket.display());
    for (number, address) in running.listens.iter().enumerate() {
        let how = if number < config.listen.len() { "mutual TLS" } else { "no TLS" };
        eprintln!("sluice: and on {address} ({how})");
    }
    if running.finished > 0 {
        eprintln!("sluice: {} reservations that an earlier broker left half booked are booked", running.finished);
    }
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}

/// An agent inside this process.
struct Inside {
    socket: PathBuf,
    thread: JoinHandle<()>,
    ended: Receiver<Result<(), String>>,
}

/// Starts this machine's own agent here, if it is what the broker asks and none runs.
fn own_agent(args: &BrokerArgs, config: &BrokerConfig) -> Result<Option<Inside>, Complaint> {
    let At::Socket(at) = &config.agents[0].at else { return Ok(None) };
    if args.no_agent || !config.own_agent || UnixStream::connect(at).is_ok() {
        return Ok(None);
    }
    let file = Path::new(AGENT_FILE);
    let agent = match file.exists() {
        true => AgentConfig::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))?,
        false => daemon::own::config().map_err(Complaint::world)?,
    };
    let socket = agent.socket.clone();
    let (to, ended) = channel();
    let thread = std::thread::Builder::new().name("agent".to_owned());
    let thread = thread.spawn(move || drop(to.send(daemon::run(agent).map_err(|error| error.to_string()))))?;
    let begun = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        if let Ok(Err(why)) = ended.try_recv() {
            return Err(Complaint::world(format!("no agent runs, and none can be started here: {why}")));
        }
        if begun.elapsed() > AGENT_PATIENCE {
            return Err(Complaint::world("no agent runs, and the one that was started says nothing"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(Inside { socket, thread, ended }))
}

impl Inside {
    /// Stops it, and tells how it went.
    fn end(self) -> Result<ExitCode, Complaint> {
        if let Ok(mut client) = api::client::Client::connect(&self.socket) {
            let _ = client.call(Request::Stop);
        }
        let result = self.ended.recv_timeout(AGENT_PATIENCE);
        match result {
            Ok(Ok(())) => drop(self.thread.join()),
            Ok(Err(why)) => return Err(Complaint::world(why)),
            Err(_) => return Err(Complaint::world("the agent inside does not stop")),
        }
        Ok(ExitCode::SUCCESS)
    }
}
