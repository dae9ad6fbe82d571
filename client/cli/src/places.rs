//! The choice of the agent: `--socket` with a path or with `tls://HOST:PORT`, `--node` of a testbed, or this
//! machine's own; or of the broker: `--broker`.

use crate::complain::Complaint;
use crate::login::LoginFile;
use broker_service::client::{BrokerClient, BrokerEndpoint};
use clap::Args;
use documents::agent::Request;
use linux::clock::Clock;
use rpc::client::{Client, Error};
use rpc::place::Endpoint;
use rpc::tls::Papers;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The headings of these arguments in help.
const PLACES: &str = "Agent or broker";
const CERTIFICATES: &str = "Certificates";

/// The arguments that name an agent.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The agent's socket, or tls://HOST:PORT of one on another machine [env: SLUICE_SOCKET]
    #[arg(long, visible_alias = "agent", value_name = "PLACE", conflicts_with = "node", help_heading = PLACES)]
    pub socket: Option<String>,
    /// A node of a testbed made by `sluice up`: NODE, or TESTBED/NODE where several are up
    #[arg(long, short = 'n', value_name = "NODE", help_heading = PLACES)]
    pub node: Option<String>,
    /// Our certificates for an agent on another machine.
    #[command(flatten)]
    pub papers: PapersArgs,
}

/// Our certificates for other machines.
#[derive(Args, Clone, Default, Debug)]
pub struct PapersArgs {
    /// For tls:// and https://: the authority's certificate
    #[arg(long, visible_alias = "authority", env = "SLUICE_CA", value_name = "FILE", hide_short_help = true, help_heading = CERTIFICATES)]
    pub ca: Option<PathBuf>,
    /// For tls:// and https://: our certificate, as `sluice ca` makes it
    #[arg(long, env = "SLUICE_CERTIFICATE", value_name = "FILE", hide_short_help = true, help_heading = CERTIFICATES)]
    pub certificate: Option<PathBuf>,
    /// For tls:// and https://: its key
    #[arg(long, env = "SLUICE_KEY", value_name = "FILE", hide_short_help = true, help_heading = CERTIFICATES)]
    pub certificate_key: Option<PathBuf>,
}

impl PapersArgs {
    /// The place that a text names.
    pub fn place(&self, text: &str) -> Result<Endpoint, Complaint> {
        Endpoint::parse(text, &self.papers()?, now()).map_err(Complaint::usage)
    }

    /// The broker that a text names, or several of which one leads.
    pub fn broker(&self, text: &str) -> Result<BrokerClient, Complaint> {
        let doors = BrokerEndpoint::parse_all(text, &self.papers()?, &now()).map_err(Complaint::usage)?;
        Ok(BrokerClient::over(doors))
    }

    /// The certificates that are named, or else those of the login.
    fn papers(&self) -> Result<Papers, Complaint> {
        let PapersArgs { ca, certificate, certificate_key: key } = self.clone();
        if ca.is_some() || certificate.is_some() || key.is_some() {
            return Ok(Papers { ca, certificate, key });
        }
        let LoginFile { ca, certificate, certificate_key: key, .. } = LoginFile::of_user()?.clone();
        Ok(Papers { ca, certificate, key })
    }
}

fn now() -> trust::Now {
    let clock = Clock::start();
    Arc::new(move || clock.now())
}

/// A variable of the environment, unless it is empty.
fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The arguments that name an agent, or a broker over several.
#[derive(Args, Clone, Debug)]
pub struct BookArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// A broker: unix:PATH, https://HOST:PORT or http://127.0.0.1:PORT; several of which one leads: with commas [env: SLUICE_BROKER]
    #[arg(long, short = 'b', value_name = "PLACE", conflicts_with_all = ["socket", "node"], help_heading = PLACES)]
    pub broker: Option<String>,
    /// The token of a virtual organisation, which policies may ask for; `sluice token` makes it
    #[arg(long, env = "SLUICE_TOKEN", value_name = "FILE", hide_short_help = true, help_heading = PLACES)]
    pub token: Option<PathBuf>,
}

impl BookArgs {
    /// Connects to the agent, and shows it the token.
    pub fn connect(&self) -> Result<Client, Complaint> {
        let mut client = self.agent.connect()?;
        if let Some(token) = self.token()? {
            client.call(Request::ShowToken { token: Some(token) })?;
        }
        Ok(client)
    }

    /// The token, if one is given.
    fn token(&self) -> Result<Option<String>, Complaint> {
        let file = match &self.token {
            Some(said) => Some(said),
            None => LoginFile::of_user()?.token.as_ref(),
        };
        file.filter(|file| !file.as_os_str().is_empty()).map(|file| crate::token::text(file)).transpose()
    }

    /// The broker that is meant, if it is one. The command line takes precedence over the environment, and that over the
    /// login. `path`: only a broker can do this, so that the default is this machine's own.
    pub fn broker(&self, path: bool) -> Result<Option<BrokerClient>, Complaint> {
        let text = match &self.broker {
            None if self.agent.is_said() => return Ok(None),
            None => usual_broker(path)?,
            said => said.clone(),
        };
        match text {
            Some(text) => Ok(Some(self.agent.papers.broker(&text)?.showing(self.token()?))),
            None if path => Ok(Some(BrokerClient::new(BrokerEndpoint::own()).showing(self.token()?))),
            None => Ok(None),
        }
    }
}

/// The broker of the environment, or else of the login, unless the environment names an agent. `path`: only a broker can
/// do this.
pub fn usual_broker(path: bool) -> Result<Option<String>, Complaint> {
    match from_environment("SLUICE_BROKER") {
        None if path || from_environment("SLUICE_SOCKET").is_none() => Ok(LoginFile::of_user()?.broker.clone()),
        said => Ok(said),
    }
}

impl AgentArgs {
    /// Connects.
    pub fn connect(&self) -> Result<Client, Complaint> {
        let own = self.node.is_none() && self.written()?.is_none();
        Client::reach(&self.place()?).map_err(|error| match error {
            // Who has named a broker for everything may not know that this is no question for it.
            Error::Io { .. } if own && matches!(usual_broker(true), Ok(Some(_))) => Complaint::world(format!(
                "{error}; a broker is named, but this is asked of an agent: its socket, or --node of a testbed"
            )),
            error => error.into(),
        })
    }

    /// The agent that is meant.
    pub fn place(&self) -> Result<Endpoint, Complaint> {
        if let Some(node) = &self.node {
            return find_node(Path::new(rpc::places::TESTBEDS), node).map(Endpoint::Socket);
        }
        match self.written()? {
            Some(text) => self.papers.place(&text),
            None => Ok(Endpoint::Socket(rpc::places::AGENT_SOCKET.into())),
        }
    }

    /// True if the agent is on another machine.
    pub fn is_remote(&self) -> bool {
        self.node.is_none() && matches!(self.written(), Ok(Some(text)) if Endpoint::is_remote(&text))
    }

    /// The value of `--socket`, or else of the environment, or else of the login.
    fn written(&self) -> Result<Option<String>, Complaint> {
        match self.socket.clone().or_else(|| from_environment("SLUICE_SOCKET")) {
            None => Ok(LoginFile::of_user()?.socket.clone()),
            said => Ok(said),
        }
    }

    /// True if the command line names an agent.
    fn is_said(&self) -> bool {
        self.socket.is_some() || self.node.is_some()
    }
}

fn find_node(testbeds: &Path, node: &str) -> Result<PathBuf, Complaint> {
    if let Some((testbed, node)) = node.split_once('/') {
        return Ok(rpc::places::node_socket_in(testbeds, testbed, node));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(testbeds).into_iter().flatten().flatten() {
        let testbed = entry.file_name().to_string_lossy().into_owned();
        let socket = rpc::places::node_socket_in(testbeds, &testbed, node);
        if socket.exists() {
            found.push((testbed, socket));
        }
    }
    match found.len() {
        0 => Err(Complaint::world(format!("no testbed that is up has a node {node:?}: `sluice up FILE` makes one"))),
        1 => Ok(found.remove(0).1),
        _ => {
            let names: Vec<String> = found.iter().map(|(testbed, _)| format!("{testbed}/{node}")).collect();
            Err(Complaint::usage(format!("several testbeds have a node {node:?}: write {}", names.join(" or "))))
        }
    }
}
