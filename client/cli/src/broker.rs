//! `sluice broker`.

use crate::complain::Complaint;
use crate::places::PapersArgs;
use agent_service::AgentConfig;
use broker_service::web::WebSettings;
use broker_service::{AgentAt, At, BrokerConfig, Opened, Pulse};
use clap::Args;
use documents::agent::Request;
use linux::landlock::{self, Use};
use linux::notify::Supervisor;
use linux::privilege;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use trust::Files;

/// The default configuration files.
const BROKER_FILE: &str = "/etc/sluice/broker.toml";
const AGENT_FILE: &str = "/etc/sluice/agent.toml";
/// The limit for an inside agent to start or stop.
const AGENT_PATIENCE: Duration = Duration::from_secs(20);

/// `sluice broker`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice broker                                 all of one machine: an agent inside if none runs, a Unix socket\n  \
                  sluice broker --plain 127.0.0.1:8080 --plain-as demo     the same for programs that speak TCP\n  \
                  sluice broker --agent maui=/run/sluice/testbeds/seed/maui/agent.sock --agent glenwood=...\n  \
                  sluice broker --web 127.0.0.1:8470                       the same for browsers: `sluice web` signs one in\n  \
                  sluice broker --agent b=tls://10.0.0.2:4711 --agent c=tls://10.0.2.2:4711 --listen 0.0.0.0:8443 \\\n      \
                    --ca ca.pem --certificate broker-main.pem --certificate-key broker-main.key    agents on other machines\n  \
                  sluice broker --config /etc/sluice/broker.toml           mutual TLS, webhooks, limits: see docs/broker.md\n  \
                  curl --unix-socket /run/sluice/broker.sock http://b/v1/resources"
)]
pub struct BrokerArgs {
    /// The configuration file [default: /etc/sluice/broker.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An agent, instead of the file's: its socket, or tls://HOST:PORT; may be repeated
    #[arg(long, value_name = "NAME=PLACE")]
    pub agent: Vec<String>,
    /// Listen here with mutual TLS, instead of at the file's addresses; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Our certificates for callers and for agents on other machines, instead of the file's.
    #[command(flatten)]
    pub papers: PapersArgs,
    /// The list of revoked certificates; read again whenever it changes
    #[arg(long, value_name = "FILE")]
    pub revoked: Option<PathBuf>,
    /// The broker's Unix socket, instead of the file's
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The folder of webhooks and of the journal of transactions, instead of the file's
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Listen on the loopback without TLS
    #[arg(long, value_name = "ADDRESS:PORT", requires = "plain_as")]
    pub plain: Option<SocketAddr>,
    /// The caller's name for all connections there
    #[arg(long, value_name = "NAME", requires = "plain")]
    pub plain_as: Option<String>,
    /// Listen for browsers here, instead of at the file's address: on the loopback without TLS, elsewhere with TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub web: Option<SocketAddr>,
    /// Use a journal of transactions that was restored from an older copy: no other broker uses this one's name,
    /// and what it may have lost is decided at agents by `sluice resolve`
    #[arg(long)]
    pub accept_older_journal: bool,
    /// Start no agent, even if none runs
    #[arg(long)]
    pub no_agent: bool,
    /// Check the file for mistakes, and stop
    #[arg(long)]
    pub check: bool,
    /// Print the OpenAPI document, and stop
    #[arg(long, conflicts_with = "check")]
    pub openapi: bool,
}

/// Runs a broker in this process until it is interrupted.
pub fn run(args: &BrokerArgs) -> Result<ExitCode, Complaint> {
    if args.openapi {
        print!("{}", broker_service::openapi::text());
        return Ok(ExitCode::SUCCESS);
    }
    let supervisor = Supervisor::take();
    let config = config(args)?;
    if args.check {
        println!("no mistake found");
        return Ok(ExitCode::SUCCESS);
    }
    let own = own_agent(args, &config)?;
    let opened = broker_service::open(&config).map_err(Complaint::world)?;
    give_up(&config)?;
    let inside = own.map(Inside::watch).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = inside.as_ref().map(|(_, ended)| ended.clone());
    runtime.block_on(serve(&config, opened, ended, &supervisor))?;
    drop(runtime);
    inside.map_or(Ok(ExitCode::SUCCESS), |(socket, ended)| end(&socket, &ended))
}

/// The process that sends a broker's mail.
#[derive(Args, Debug)]
pub struct SendMailArgs {
    /// The site's program
    pub sendmail: PathBuf,
}

/// Sends a broker's mail, until the broker ends.
pub fn send_mail(args: &SendMailArgs) -> Result<ExitCode, Complaint> {
    broker_service::mailer::run(&args.sendmail)?;
    Ok(ExitCode::SUCCESS)
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
    if let Some(address) = args.web {
        let usual = WebSettings::at(address);
        let name = config.web.as_ref().and_then(|web| web.name.clone());
        config.web = Some(WebSettings { name, ..usual });
    }
    if config.tls.is_none() && config.web.as_ref().is_some_and(|web| web.tls) {
        let what =
            "browsers of other machines need TLS: --ca, --certificate and --certificate-key, or [tls] in the file";
        return Err(Complaint::usage(what));
    }
    config.socket = args.socket.clone().unwrap_or(config.socket);
    config.state = args.state.clone().unwrap_or(config.state);
    config.accept_older_journal = args.accept_older_journal;
    Ok(config)
}

/// Our certificates, if the command line names them.
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
    let (name, place) =
        text.split_once('=').filter(|(name, _)| broker_service::config::is_name(name)).ok_or_else(wrong)?;
    let at = match place.strip_prefix("tls://") {
        Some(address) => rpc::place::split(address).map(|(host, port)| At::Tls { host, port, domain: None }),
        None => Some(At::Socket(place.into())).filter(|_| !place.is_empty()),
    };
    Ok(AgentAt { name: name.to_owned(), at: at.ok_or_else(wrong)? })
}

async fn serve(
    config: &BrokerConfig,
    opened: Opened,
    inside: Option<Ended>,
    supervisor: &Supervisor,
) -> Result<(), Complaint> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut running = opened.serve().await.map_err(Complaint::world)?;
    let names: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    eprintln!("sluice: broker over {} on {}", names.join(", "), config.socket.display());
    for (number, address) in running.listens.iter().enumerate() {
        let how = if number < config.listen.len() { "mutual TLS" } else { "no TLS" };
        eprintln!("sluice: and on {address} ({how})");
    }
    if let Some((address, tls)) = running.web() {
        let how = if tls { "TLS" } else { "no TLS" };
        eprintln!("sluice: and for browsers on {address} ({how}): `sluice web` prints a link");
    }
    if running.finished > 0 {
        eprintln!(
            "sluice: changes over several agents that an earlier broker left open: {} finished",
            running.finished
        );
    }
    supervisor.ready();
    let signs = signs_of_life(supervisor, running.pulse());
    let why = tokio::select! {
        _ = end.recv() => None,
        _ = interrupt.recv() => None,
        how = death(inside) => {
            Some(format!("the agent that this broker started has ended ({how}); what is booked is kept: start it again"))
        }
        broken = running.broke() => Some(broken),
        never = signs => match never {},
    };
    supervisor.stopping();
    running.stop().await;
    why.map_or(Ok(()), |why| Err(Complaint::world(why)))
}

/// Sends the supervisor signs of life at its interval, as long as the broker works.
async fn signs_of_life(supervisor: &Supervisor, pulse: Pulse) -> Infallible {
    let Some((period, often)) = supervisor.watchdog() else { return std::future::pending().await };
    loop {
        // One that takes longer than the supervisor waits comes too late for it.
        if tokio::time::timeout(period, pulse.beat()).await == Ok(true) {
            supervisor.alive();
        }
        tokio::time::sleep(often).await;
    }
}

/// Waits until the agent that this broker started ends; without one, for ever.
async fn death(inside: Option<Ended>) -> String {
    let Some(mut inside) = inside else { return std::future::pending().await };
    match inside.wait_for(Option::is_some).await {
        Ok(status) => status.map_or_else(String::new, |status| status.to_string()),
        Err(_) => "the thread that waits for it is gone".to_owned(),
    }
}

/// The agent of this machine that this broker started: a process of its own, so that the broker has none of
/// its rights.
struct Inside {
    socket: PathBuf,
    child: Child,
}

/// The exit status of the inside agent, once it has ended.
type Ended = watch::Receiver<Option<ExitStatus>>;

/// Starts this machine's own agent, if the broker uses it and none runs.
fn own_agent(args: &BrokerArgs, config: &BrokerConfig) -> Result<Option<Inside>, Complaint> {
    let At::Socket(at) = &config.agents[0].at else { return Ok(None) };
    if args.no_agent || !config.own_agent || UnixStream::connect(at).is_ok() {
        return Ok(None);
    }
    let mut command = Command::new("/proc/self/exe");
    let file = Path::new(AGENT_FILE);
    command.arg(agent_service::own::COMMAND);
    let socket = if file.exists() {
        command.arg("--config").arg(file);
        AgentConfig::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))?.socket
    } else {
        rpc::places::AGENT_SOCKET.into()
    };
    // A terminal's Ctrl-C is for the broker, which stops it when all is answered. It does not outlive the broker: its input
    // ends with us. (The kernel's parent-death signal would be held back, as this process may signal nobody.)
    command.stdin(Stdio::piped()).process_group(0);
    let mut inside = Inside { socket, child: command.spawn()? };
    let begun = Instant::now();
    while UnixStream::connect(&inside.socket).is_err() {
        if let Some(status) = inside.child.try_wait()? {
            let what = format!("no agent runs, and none can be started here ({status}); its reason is above");
            return Err(Complaint::world(what));
        }
        if begun.elapsed() > AGENT_PATIENCE {
            return Err(Complaint::world("no agent runs, and the one that was started says nothing"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(inside))
}

impl Inside {
    /// Waits for its end on a thread of its own.
    fn watch(mut self) -> Result<(PathBuf, Ended), Complaint> {
        let (tell, ended) = watch::channel(None);
        let thread = std::thread::Builder::new().name("agent".to_owned());
        // `wait` would close it, and the agent end.
        let input = self.child.stdin.take();
        thread.spawn(move || {
            if let Ok(status) = self.child.wait() {
                let _ = tell.send(Some(status));
            }
            drop(input);
        })?;
        Ok((self.socket, ended))
    }
}

/// Stops the agent, and reports a failure of it.
fn end(socket: &Path, ended: &Ended) -> Result<ExitCode, Complaint> {
    if let Ok(mut client) = rpc::client::Client::connect(socket) {
        let _ = client.call(Request::Stop);
    }
    let begun = Instant::now();
    while begun.elapsed() < AGENT_PATIENCE {
        match *ended.borrow() {
            Some(status) if status.success() => return Ok(ExitCode::SUCCESS),
            Some(status) => {
                return Err(Complaint::world(format!("the agent that this broker started ended: {status}")));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(Complaint::world("the agent that this broker started does not stop"))
}

/// Files with which a program finds other hosts and users, beside its libraries.
const SYSTEM: [&str; 18] = [
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/dev",
    "/run/systemd/resolve",
    "/run/nscd",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ssl",
    "/etc/localtime",
    "/etc/ld.so.cache",
];

/// Gives up all capabilities, and access to other files, because this process reads input of strangers. Must
/// run before the second thread starts.
fn give_up(config: &BrokerConfig) -> Result<(), Complaint> {
    // One that cannot be made is complained about when something is to be kept there.
    let _ = std::fs::create_dir_all(&config.state);
    let folder =
        |path: &Path| path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.push(config.hooks_ca.clone());
    // The folders: a list of revocations is replaced by a new file.
    read.extend(config.tls.iter().flat_map(Files::paths).map(folder));
    let mut places: Vec<(&Path, Use)> = read.iter().map(|path| (path.as_path(), Use::Read)).collect();
    let socket = folder(&config.socket);
    places.extend([(config.state.as_path(), Use::Write), (socket.as_path(), Use::Remove)]);
    privilege::give_up_capabilities().map_err(|failed| Complaint::world(failed.to_string()))?;
    if !landlock::only(&places).map_err(|failed| Complaint::world(failed.to_string()))? {
        eprintln!(
            "sluice: this kernel has no Landlock: the broker holds no capability, but its user's files are open to it"
        );
    }
    // What is read again while it runs must be readable now.
    for path in config
        .tls
        .iter()
        .flat_map(|files| files.revoked.iter().chain(files.partners.iter().flat_map(|one| &one.revoked)))
    {
        std::fs::File::open(path).map_err(|error| {
            let what = "cannot be read again without capabilities: make file and folder readable for the broker's user";
            Complaint::world(format!("{}: {what} ({error})", path.display()))
        })?;
    }
    Ok(())
}
