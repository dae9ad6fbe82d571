//! `sluice broker`.

use crate::complain::Complaint;
use api::agent::Request;
use clap::Args;
use daemon::AgentConfig;
use rest::{AgentAt, BrokerConfig};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
                  sluice broker --config /etc/sluice/broker.toml           mutual TLS, webhooks, limits: see docs/broker.md\n  \
                  curl --unix-socket /run/sluice/broker.sock http://b/v1/resources"
)]
pub struct BrokerArgs {
    /// The configuration file [default: /etc/sluice/broker.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An agent, instead of those that the file names; may be repeated
    #[arg(long, value_name = "NAME=SOCKET")]
    pub agent: Vec<String>,
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
    if !args.agent.is_empty() {
        config.own_agent = false;
        config.agents = args.agent.iter().map(|text| agent(text)).collect::<Result<_, _>>()?;
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

fn agent(text: &str) -> Result<AgentAt, Complaint> {
    match text.split_once('=') {
        Some((name, socket)) if rest::config::is_name(name) && !socket.is_empty() => {
            Ok(AgentAt { name: name.to_owned(), socket: socket.into() })
        }
        _ => Err(Complaint::usage(format!("--agent {text}: write NAME=SOCKET, as in maui=/run/sluice/agent.sock"))),
    }
}

async fn serve(config: &BrokerConfig) -> Result<(), Complaint> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = rest::start(config).await.map_err(Complaint::world)?;
    let names: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    eprintln!("sluice: broker over {} on {}", names.join(", "), config.socket.display());
    for address in &running.listens {
        let how = if config.plain.is_empty() { "mutual TLS" } else { "TCP" };
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
    let at = &config.agents[0].socket;
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
