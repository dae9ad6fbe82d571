//! The broker's configuration file. Everything has a default: without a file the broker of one machine listens on a
//! Unix socket and asks this machine's own agent, which it starts inside if none runs.
//!
//! ```toml
//! socket = "/run/sluice/broker.sock"   # the default; mode 0660, group `sluice`
//! state = "/var/lib/sluice/broker"     # the default: webhooks, and the journal of transactions
//! name = "main"                        # the name by which agents know this broker; over TLS: that of the certificate
//! most_skew = "1s"                     # the largest difference between the clocks of two agents of one reservation
//! operators = "sluice-operators"       # the group (name or number) whose members are operators beside root; the default
//! speakers = ["slurm"]                 # users (name or number) who may ask for other users of this machine, never for root; default: root alone
//! listen = ["0.0.0.0:8443"]            # mutual TLS, with what `tls` says
//! plain = ["127.0.0.1:8080"]           # without TLS: loopback only, and everybody there is `plain_as`
//! plain_as = "demo"
//! domain = "anl"                       # our own domain's name for its [[neighbour]]s: see `neighbours`
//!
//! [tls]                                # as `sluice ca` makes them; from here if relative
//! ca = "trust/ca.pem"
//! certificate = "trust/broker-main.pem"
//! key = "trust/broker-main.key"
//! revoked = "trust/revoked.pem"        # read again whenever it changes
//! [[tls.domain]]                       # partners, each with its own authority: see `rpc::domains`
//!
//! [[agent]]                            # default: the one of this machine
//! name = "maui"
//! socket = "/run/sluice/agent.sock"
//! [[agent]]
//! name = "glenwood"
//! address = "10.0.2.1:4711"            # on another machine: mutual TLS, with what `tls` says
//! domain = "anl"                       # whose agent it is; default: our own domain's
//!
//! [web]                                # for browsers (docs/web.md); default: none listens for them
//! listen = "127.0.0.1:8470"            # with TLS unless on the loopback
//! tls = true                           # with TLS there too; false: without, on the loopback alone
//! name = "broker.example.org"          # by which they call it, beside its address
//!
//! [webhooks]                           # default: none are allowed
//! allow = ["https://hooks.example.org/sluice/"]
//! ca = "/etc/ssl/certs/ca-certificates.crt"   # the default: who signs for the targets
//!
//! [mail]                               # default: no mail
//! sendmail = "/usr/sbin/sendmail"      # the default: the site's program
//! from = "sluice@example.org"
//! to = ["*@example.org"]               # the addresses that are allowed
//! per_hour = 200                       # the defaults: of all, of one owner
//! per_hour_of_one = 20
//!
//! [store]                              # a database that several brokers share: see `shared_store`; default: a file
//!
//! routes = "kernel"                    # or "configured": see `routing`, also for [costs]
//!
//! [topology]                           # what our domain publishes: see `domains::settings`
//!
//! [limits]                             # the defaults
//! connections = 1024                   # of each listener
//! connections_of_one = 64              # from one address, one /64 of IPv6, one user on the socket, of one certificate's name
//! handshakes = 256                     # of them, those that have not shown a certificate yet
//! body = "256kb"
//! head_time = "10s"                    # for TLS, a request's head, and its body, each
//! streams = 256                        # event streams at once
//! streams_of_one = 16                  # of one caller
//! ```

use crate::domains::settings::{self, TopologyFile, TopologySettings};
use crate::limits::{self, LimitsFile};
use crate::mail_settings::{self, MailFile};
use crate::neighbours::{self, DistantFile, NeighbourDomains, NeighbourFile};
use crate::routing::{self, RoutingSettings};
use crate::shared_store::{self, SharedStore, StoreFile};
use crate::web::{self, WebFile, WebSettings};
use documents::units;
use rpc::document::{Document, Mistake, read};
use rpc::domains::{self, DomainFile};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use terms::Span;
use toml::Spanned;
use trust::Files;

pub use crate::limits::Limits;
pub use crate::mail_settings::MailSettings;

/// The socket of this machine's broker.
pub const SOCKET: &str = "/run/sluice/broker.sock";
/// The default state folder of this machine's broker.
pub const STATE: &str = "/var/lib/sluice/broker";
/// The name of a broker without a certificate.
const NAME: &str = "broker";
/// The largest difference between agents' clocks that a file may allow.
const MAX_SKEW: Span = Span::from_secs(60);
/// The most agents of one broker.
const MAX_AGENTS: usize = 256;

/// The configuration of a broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerConfig {
    /// The Unix socket.
    pub socket: PathBuf,
    /// The group whose members are operators, by name or number; it need not exist.
    pub operators: String,
    /// The users who may ask for other users of this machine, beside root.
    pub speakers: Vec<u32>,
    /// The folder of webhooks, and of the journal of transactions.
    pub state: PathBuf,
    /// The database that several brokers share, in place of the journal and the webhooks of the folder.
    pub store: Option<SharedStore>,
    /// The name by which agents know this broker, unless its certificate says another.
    pub name: String,
    /// The largest difference between the clocks of two agents of one reservation.
    pub most_skew: Span,
    /// True: a journal that was restored from an older copy is used all the same. Only the command line says so.
    pub accept_older_journal: bool,
    /// The addresses to listen on with mutual TLS.
    pub listen: Vec<SocketAddr>,
    /// The files for TLS.
    pub tls: Option<Files>,
    /// The addresses to listen on without TLS.
    pub plain: Vec<SocketAddr>,
    /// The name of every caller without TLS.
    pub plain_as: String,
    /// The listener for browsers, if there is to be one.
    pub web: Option<WebSettings>,
    /// The agents over which it reserves.
    pub agents: Vec<AgentAt>,
    /// Our domain and its neighbours.
    pub neighbours: NeighbourDomains,
    /// True if the only agent is this machine's own by default, so that it may be started inside.
    pub own_agent: bool,
    /// Prefixes of the targets that webhooks may have.
    pub hooks: Vec<String>,
    /// The file of the authorities that sign for the targets.
    pub hooks_ca: PathBuf,
    /// How mail is sent, if it is.
    pub mail: Option<MailSettings>,
    /// The choice between several paths, and the costs of links.
    pub routing: RoutingSettings,
    /// How often and how coarsely our domain publishes what is free.
    pub topology: TopologySettings,
    /// Limits.
    pub limits: Limits,
}

/// An agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentAt {
    /// The name that precedes its resources: `maui/net/eth1`.
    pub name: String,
    /// The address.
    pub at: At,
}

/// The address of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// On this machine: its Unix socket.
    Socket(PathBuf),
    /// On another machine: its listener of mutual TLS.
    Tls {
        /// The host name or address that its certificate has.
        host: String,
        /// The port.
        port: u16,
        /// The partner's domain that the agent belongs to; `None`: our own.
        domain: Option<String>,
    },
}

impl Default for BrokerConfig {
    fn default() -> BrokerConfig {
        BrokerConfig {
            socket: SOCKET.into(),
            operators: rpc::places::OPERATORS.to_owned(),
            speakers: Vec::new(),
            state: STATE.into(),
            store: None,
            name: NAME.to_owned(),
            most_skew: Span::from_secs(1),
            accept_older_journal: false,
            listen: Vec::new(),
            tls: None,
            plain: Vec::new(),
            plain_as: String::new(),
            web: None,
            agents: vec![AgentAt { name: "here".to_owned(), at: At::Socket(rpc::places::AGENT_SOCKET.into()) }],
            neighbours: NeighbourDomains::default(),
            own_agent: true,
            hooks: Vec::new(),
            hooks_ca: "/etc/ssl/certs/ca-certificates.crt".into(),
            mail: None,
            routing: RoutingSettings::default(),
            topology: TopologySettings::default(),
            limits: Limits::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    socket: Option<PathBuf>,
    operators: Option<String>,
    #[serde(default)]
    speakers: Vec<Spanned<String>>,
    state: Option<PathBuf>,
    name: Option<Spanned<String>>,
    most_skew: Option<Spanned<String>>,
    #[serde(default)]
    listen: Vec<Spanned<SocketAddr>>,
    tls: Option<TlsFile>,
    #[serde(default)]
    plain: Vec<Spanned<SocketAddr>>,
    plain_as: Option<Spanned<String>>,
    web: Option<WebFile>,
    #[serde(default)]
    agent: Vec<AgentFile>,
    domain: Option<Spanned<String>>,
    #[serde(default)]
    neighbour: Vec<NeighbourFile>,
    #[serde(default)]
    distant: Vec<DistantFile>,
    webhooks: Option<HooksFile>,
    mail: Option<MailFile>,
    routes: Option<Spanned<String>>,
    #[serde(default)]
    costs: BTreeMap<String, Spanned<u32>>,
    topology: Option<TopologyFile>,
    limits: Option<LimitsFile>,
    store: Option<StoreFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFile {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    revoked: Option<PathBuf>,
    #[serde(default)]
    domain: Vec<DomainFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    name: Spanned<String>,
    socket: Option<PathBuf>,
    address: Option<Spanned<String>>,
    domain: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HooksFile {
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    ca: Option<PathBuf>,
}

impl BrokerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<BrokerConfig, Mistake> {
        BrokerConfig::parse(file, &read(file)?)
    }

    /// Reads a text that came from `file`.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<BrokerConfig, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let from = |path: PathBuf| file.parent().map_or(path.clone(), |dir| dir.join(path));
        let usual = BrokerConfig::default();
        if let (Some(first), None) = (found.listen.first(), &found.tls) {
            let what = "listening here needs [tls] with ca, certificate and key: `sluice ca` makes them";
            return Err(document.at(first.span(), what));
        }
        if let Some(open) = found.plain.iter().find(|address| !address.get_ref().ip().is_loopback()) {
            return Err(document.at(open.span(), "without TLS only on the loopback (127.0.0.1, ::1)"));
        }
        if let (Some(first), None) = (found.plain.first(), &found.plain_as) {
            let what = "without TLS nobody says who they are: plain_as = \"NAME\" says whom everybody is taken for";
            return Err(document.at(first.span(), what));
        }
        if let Some(name) = found.plain_as.as_ref().filter(|name| !is_name(name.get_ref())) {
            return Err(document.at(name.span(), "a name has 1 to 64 letters, digits, - _ . @"));
        }
        if let Some(name) = found.name.as_ref().filter(|name| !is_name(name.get_ref())) {
            return Err(document.at(name.span(), "a broker's name has 1 to 64 letters, digits, - _ . @"));
        }
        let most_skew = found.most_skew.map(|said| skew(&document, &said)).transpose()?;
        let tls = found.tls.map(|tls| files(&document, &tls)).transpose()?;
        let web = found.web.map(|web| web::read(&document, web, tls.is_some())).transpose()?;
        let own_agent = found.agent.is_empty();
        let agents = if own_agent { usual.agents } else { agents(&document, found.agent, tls.as_ref())? };
        let partners = tls.as_ref().map_or(&[][..], |files| &files.partners);
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let own = found.domain.as_ref();
        let others = (&found.neighbour[..], &found.distant[..]);
        let neighbours = neighbours::read(&document, others, own, partners, &names)?;
        let routing = routing::read(&document, found.routes.as_ref(), &found.costs, &names)?;
        let (hooks, hooks_ca) = match found.webhooks {
            Some(hooks) => (allowed(&document, hooks.allow)?, hooks.ca.map_or(usual.hooks_ca, from)),
            None => (Vec::new(), usual.hooks_ca),
        };
        Ok(BrokerConfig {
            socket: found.socket.unwrap_or(usual.socket),
            operators: found.operators.unwrap_or(usual.operators),
            speakers: found.speakers.iter().map(|user| speaker(&document, user)).collect::<Result<_, _>>()?,
            state: found.state.unwrap_or(usual.state),
            name: found.name.map_or(usual.name, Spanned::into_inner),
            most_skew: most_skew.unwrap_or(usual.most_skew),
            accept_older_journal: false,
            listen: found.listen.into_iter().map(Spanned::into_inner).collect(),
            tls,
            plain: found.plain.into_iter().map(Spanned::into_inner).collect(),
            plain_as: found.plain_as.map(Spanned::into_inner).unwrap_or_default(),
            web,
            agents,
            neighbours,
            own_agent,
            hooks,
            hooks_ca,
            mail: mail_settings::read(&document, found.mail)?,
            routing,
            topology: settings::read(&document, found.topology)?,
            limits: limits::read(&document, found.limits)?,
            store: shared_store::read(&document, found.store)?,
        })
    }
}

/// True if the name can stand before a slash, in a log and in a policy.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}

/// The user of that name or number.
fn speaker(document: &Document<'_>, found: &Spanned<String>) -> Result<u32, Mistake> {
    let name = found.get_ref();
    let user = name.parse().ok().or_else(|| Some(linux::privilege::User::named(name)?.uid));
    user.ok_or_else(|| document.at(found.span(), format!("{name:?} is no user: a name of /etc/passwd, or a number")))
}

fn skew(document: &Document<'_>, said: &Spanned<String>) -> Result<Span, Mistake> {
    let skew = units::parse_span(said.get_ref()).map_err(|wrong| document.at(said.span(), wrong))?;
    match skew >= Span::from_millis(1) && skew <= MAX_SKEW {
        true => Ok(skew),
        false => Err(document.at(said.span(), "most_skew is 1ms to 1m")),
    }
}

fn files(document: &Document<'_>, found: &TlsFile) -> Result<Files, Mistake> {
    let from = |path: &PathBuf| document.file().parent().map_or_else(|| path.clone(), |dir| dir.join(path));
    Ok(Files {
        ca: from(&found.ca),
        certificate: from(&found.certificate),
        key: from(&found.key),
        revoked: found.revoked.as_ref().map(from),
        partners: domains::read(document, &found.domain)?,
    })
}

fn agents(document: &Document<'_>, found: Vec<AgentFile>, tls: Option<&Files>) -> Result<Vec<AgentAt>, Mistake> {
    let mut seen = BTreeSet::new();
    if found.len() > MAX_AGENTS {
        return Err(document.whole(format!("more than {MAX_AGENTS} agents")));
    }
    // Names of resources begin with `net` and the like, so no agent can have such a name.
    let taken = ["net", "cpu", "disk", "licence", "sla", "measured"];
    let read = |agent: AgentFile| {
        let name = agent.name.get_ref();
        if !is_name(name) || taken.contains(&name.as_str()) || !seen.insert(name.clone()) {
            let what = format!(
                "{name:?}: an agent's name has 1 to 64 letters, digits, - _ . @, is no kind of resource, and is there once"
            );
            return Err(document.at(agent.name.span(), what));
        }
        let at = match (agent.socket, &agent.address) {
            (Some(socket), None) if agent.domain.is_none() => At::Socket(socket),
            (None, Some(address)) => elsewhere(document, address, tls, agent.domain.as_ref())?,
            _ => {
                return Err(document
                    .at(agent.name.span(), "an agent has either a socket or an address, and only there a domain"));
            }
        };
        Ok(AgentAt { name: name.clone(), at })
    };
    found.into_iter().map(read).collect()
}

fn elsewhere(
    document: &Document<'_>,
    address: &Spanned<String>,
    tls: Option<&Files>,
    domain: Option<&Spanned<String>>,
) -> Result<At, Mistake> {
    let text = address.get_ref();
    let found = rpc::place::split(text.strip_prefix("tls://").unwrap_or(text));
    let (host, port) = found.ok_or_else(|| {
        document.at(address.span(), format!("{text:?} is no HOST:PORT, such as 10.0.2.1:4711 or [fd00::1]:4711"))
    })?;
    let Some(tls) = tls else {
        let what = "an agent on another machine needs [tls] with ca, certificate and key: `sluice ca` makes them";
        return Err(document.at(address.span(), what));
    };
    let known = |name: &str| tls.partners.iter().any(|partner| partner.name == name);
    if let Some(domain) = domain.filter(|domain| !known(domain.get_ref())) {
        return Err(document.at(domain.span(), format!("{:?} is no [[tls.domain]]", domain.get_ref())));
    }
    Ok(At::Tls { host, port, domain: domain.map(|domain| domain.get_ref().clone()) })
}

fn allowed(document: &Document<'_>, found: Vec<Spanned<String>>) -> Result<Vec<String>, Mistake> {
    let read = |one: Spanned<String>| match crate::webhook::target::WebhookTarget::parse(one.get_ref()) {
        Ok(_) if one.get_ref().ends_with('/') => Ok(one.into_inner()),
        Ok(_) => Err(document.at(one.span(), "the beginning of a target ends with /, so that it ends at a whole name")),
        Err(what) => Err(document.at(one.span(), what)),
    };
    found.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BrokerConfig, Mistake> {
        BrokerConfig::parse(Path::new("/etc/sluice/broker.toml"), text)
    }

    #[test]
    fn nothing_said_is_everything_usual() {
        assert_eq!(parse("").unwrap(), BrokerConfig::default());
    }

    #[test]
    fn everything_said() {
        let config = parse(
            "socket = \"/tmp/b.sock\"\nlisten = [\"0.0.0.0:8443\"]\nplain = [\"127.0.0.1:80\", \"[::1]:80\"]\nplain_as = \"demo\"\n\
             [tls]\nca = \"trust/ca.pem\"\ncertificate = \"/x/b.pem\"\nkey = \"trust/b.key\"\n\
             [[agent]]\nname = \"maui\"\nsocket = \"/run/maui\"\n\
             [[agent]]\nname = \"far\"\naddress = \"[fd00::1]:4711\"\n\
             [webhooks]\nallow = [\"https://hooks.example.org/sluice/\"]\n\
             [limits]\nconnections = 10\nbody = \"8kb\"\nhead_time = \"2s\"\n",
        )
        .unwrap();
        let tls = config.tls.unwrap();
        assert_eq!((tls.ca, tls.certificate), ("/etc/sluice/trust/ca.pem".into(), "/x/b.pem".into()));
        assert_eq!(
            config.agents,
            [
                AgentAt { name: "maui".into(), at: At::Socket("/run/maui".into()) },
                AgentAt { name: "far".into(), at: At::Tls { host: "fd00::1".into(), port: 4711, domain: None } },
            ]
        );
        assert!(!config.own_agent);
        assert_eq!((config.limits.connections, config.limits.body), (10, 8192));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, why) in [
            ("listen = [\"0.0.0.0:1\"]", 1, "[tls]"),
            ("\nplain = [\"0.0.0.0:1\"]", 2, "loopback"),
            ("plain = [\"127.0.0.1:1\"]", 1, "plain_as"),
            ("speakers = [\"7\", \"no such user\"]", 1, "is no user"),
            ("plain_as = \"a b\"", 1, "a name"),
            ("[[agent]]\nname = \"net\"\nsocket = \"/x\"", 2, "no kind of resource"),
            ("[[agent]]\nname = \"a\"\nsocket = \"/x\"\n[[agent]]\nname = \"a\"\nsocket = \"/y\"", 5, "is there once"),
            ("[[agent]]\nname = \"a\"\naddress = \"b:1\"", 3, "[tls]"),
            ("[[agent]]\nname = \"a\"\naddress = \"b\"", 3, "no HOST:PORT"),
            ("[[agent]]\nname = \"a\"", 2, "either a socket or an address"),
            ("[webhooks]\nallow = [\"http://example.org/\"]", 2, "https"),
            ("[webhooks]\nallow = [\"https://example.org/a\"]", 2, "ends with /"),
            ("[web]\nlisten = \"0.0.0.0:1\"", 2, "need [tls]"),
            ("[web]\nlisten = \"0.0.0.0:1\"\ntls = false", 2, "loopback"),
            ("[web]\nlisten = \"127.0.0.1:1\"\nname = \"a/b\"", 3, "host name"),
            ("[limits]\nbody = \"1gb\"", 2, "1kb to 1mb"),
            ("[limits]\nconnections = 0", 2, "1 to 65536"),
            ("name = \"a b\"", 1, "a broker's name"),
            ("\nmost_skew = \"0s\"", 2, "1ms to 1m"),
            ("nonsense = 1", 1, "nonsense"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert_eq!(mistake.line, line, "{text}: {mistake}");
            assert!(mistake.message.contains(why), "{text}: {mistake}");
        }
    }
}
