//! The agent's configuration file.
//!
//! ```toml
//! name = "maui"                        # default: the host's name
//! keys = "keys.toml"                   # the keys that neighbours share (see keys.rs), from here if relative;
//! auth = "none"                        # instead of `keys`: messages are neither signed nor checked
//! socket = "/run/sluice/agent.sock"    # the default
//! state = "/var/lib/sluice"            # the default
//! broker_user = "sluice-broker"        # the user (name or number) of this machine's broker, taken at its word as root is; default: none
//! operators = "sluice-operators"       # the group (name or number) whose members are operators beside root; the default
//! policy = "policy.toml"               # who may reserve what (see book/policy_file.rs); default: root and our own user
//! domain_policy = "domain.toml"        # the rules of the whole domain, the same file on all its machines: a booking needs
//!                                      # a rule here and one there; default: the domain has none of its own
//! plane_socket = "/run/sluice/plane.sock"  # of the plane in user space, where one is used; the default
//! max_flows = 65536                    # so many reserved flows have room in the kernel's plane; the default; at most 1048576
//! log = "info"                         # error, warn, info (the default) or debug
//!
//! [rsvp]
//! refresh = "30s"                      # R of RFC 2205 section 3.7; the default
//! keep = 3                             # K; the default
//! longest_refresh = "1h"               # of a neighbour that says a longer period, state lives as if it were this; the default
//! repair_wait = "2s"                   # W of section 3.6: how long a changed route settles before Paths follow it; the default
//! blockade = 3                         # Kb of section 3.5: for how many R a request that failed gives way to smaller ones
//! max_sessions = 1048576               # limits of the tables; the defaults
//! max_paths = 1048576
//! max_senders = 4096                   # of one session
//! max_reservations = 1048576
//! max_unreserved = 61440               # path states beyond as many as there are reservations; the default is 2,048 for each second of
//!                                      # refresh: a flood of senders does not fill links with refreshes
//! refresh_reduction = true             # RFC 2961, with neighbours that do it too; the default
//! hello = "10s"                        # with it: how often neighbours are asked whether they started anew; the default; "0s": never
//!
//! [store]
//! any_filesystem = true                # take network file systems and overlays for the state, which may forget; not unless said
//! audit_keep = 1000000                 # so many entries of the audit are kept at least; older ones go
//!
//! [[interface]]
//! name = "eth0"
//! rate = "100mbit"                     # of the link, link headers included; default: what the driver reports
//! overhead = "14b"                     # what the link adds to each IP packet; the default
//! signalled_share = "100%"             # of the rate, or a rate: what signalled reservations may hold together
//! kept_back = "2%"                     # of the rate, or a rate: what best effort and signalling always keep
//! assumed_holding = "1h"               # after which a booking may displace a signalled reservation; default: never
//! keys = "eth0.toml"                   # instead of what is said above for all interfaces
//! auth = "none"                        # likewise, instead of `keys`
//! handshake = "required"               # the default; "willing": senders that refuse it are taken without; "none"
//! reordering = 64                      # the default: by how many a signed message may be overtaken; 1: by none
//! premium = "45mbit"                   # what bookings may have together, IP bit/s or a share; default: all that is reservable
//! background = "90%"                   # of that, what foreground and background have together; the default (seed 002)
//! role = "edge"                        # or "core", "peer": whose premium marks are believed there; see `role`
//! plane = "auto"                       # who queues its packets: "kernel"; "user", which is `sluice plane serve`; the default is
//!                                      # "user" where such a process serves it when the agent starts, else "kernel"
//! scheduler = "auto"                   # of the kernel: "htb" or "hfsc"; the default is that which is there already, else "hfsc" where
//!                                      # the kernel has it (sch_hfsc), else "htb", which is also right beside [mace] and [boomerang]
//! delay_bound = "5ms"                  # how much later than its curve the kernel's "hfsc" sends a packet at most: exported for
//!                                      # guaranteed service (RFC 2212), declared and not measured; default: no such service there
//! core = { premium = "45mbit", background = "30%" }   # what the classes of code points get whatever is booked: see `core_file`
//!
//! [cpu]                                # processors and disks that can be reserved: see `host_file`
//! [[disk]]
//! [[resource]]                         # what is counted
//! name = "licence/solver"
//! capacity = 4
//!
//! [[sla]]                              # agreements with neighbouring domains: see `sla_file`
//!
//! [[broker]]                           # asked for its decisions about promises: see `book::broker_file`
//! name = "main"
//! address = "tls://10.0.0.9:8443"
//! [listen]                             # for callers from other machines, over mutual TLS: see `remote::config`
//! [mace]                               # flows that never signalled: see `mace::config`
//! [boomerang]                          # reservations inside ICMP echo: see `echo::config`
//! [[multicast_route]]                  # where no multicast routing daemon runs: see `mroutes`
//! [[static_sender]]                    # on behalf of hosts that do not signal: see docs/rsvp.md
//! [[static_reservation]]
//! [[receiver_proxy]]                   # for receivers here that do not signal: see `receiver_proxy`
//! ```

use crate::book::broker_file::{self, BrokerAddress, BrokerFile};
use crate::book::resources::{self, ResourceConfig, ResourceFile};
use crate::boomerang::config::{self as boomerang, BoomerangConfig, BoomerangFile};
use crate::core_file::{self, CoreConfig, CoreFile};
use crate::document::{Document, Mistake, read};
pub use crate::fields::RateShare;
use crate::fields::{host_name, link_rate, node_name, share, unit, within};
use crate::host_file::{self, CpuConfig, CpuFile, DiskConfig, DiskFile, GroupsConfig, GroupsFile};
pub use crate::log::Level;
use crate::mace::config::{self as mace, MaceConfig, MaceFile};
use crate::mroutes::{MulticastRouteConfig, RouteFile};
use crate::queueing;
pub use crate::queueing::{PlaneChoice, SchedulerChoice};
use crate::receiver_proxy::{self, ReceiverProxyFile, ReceiverProxyRule};
use crate::remote::config::{self as remote, ListenConfig, ListenFile};
use crate::role::{self, InterfaceRole};
pub(crate) use crate::rsvp_file::{RsvpFile, rsvp_config};
use crate::signatures::{self, AuthConfig};
use crate::sla_file::{self, SlaConfig, SlaFile};
use crate::statics_file::{ReservationFile, SenderFile};
use crate::store_file::{self, StoreConfig, StoreFile};
use documents::agent::StaticDoc;
use documents::units;
use linux::bpf::{MAX_FLOWS, MOST_FLOWS};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terms::{Rate, Span};
use toml::Spanned;
use traffic::scheduler::SchedulerKind;

/// The configuration of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentConfig {
    /// The node's name, for people and in refusals.
    pub name: String,
    /// The local socket.
    pub socket: PathBuf,
    /// The directory for state that outlives the process.
    pub state: PathBuf,
    /// The socket of the plane in user space.
    pub plane_socket: PathBuf,
    /// The folder of a bpffs for the kernel's programs and maps, which the command line says; `None`: one is mounted in the
    /// state directory.
    pub pins: Option<PathBuf>,
    /// The number of flows that the kernel's plane has room for.
    pub max_flows: u32,
    /// The user of this machine's broker, beside root.
    pub broker_user: Option<u32>,
    /// The group whose members are operators, by name or number; it need not exist.
    pub operators: String,
    /// The lowest level that is logged.
    pub log: Level,
    /// Timing and limits of RSVP.
    pub rsvp: rsvp::io::Config,
    /// The interfaces that speak RSVP, with their reservable rates; other interfaces are left alone.
    pub interfaces: Vec<InterfaceConfig>,
    /// Multicast routes to set.
    pub multicast_routes: Vec<MulticastRouteConfig>,
    /// Senders and reservations on behalf of hosts that do not signal.
    pub statics: Vec<StaticDoc>,
    /// The rights of the agent on the host's control groups.
    pub groups: GroupsConfig,
    /// The processors, if they can be reserved.
    pub cpu: Option<CpuConfig>,
    /// Disks that can be reserved.
    pub disks: Vec<DiskConfig>,
    /// Countable resources: `[[resource]]`.
    pub resources: Vec<ResourceConfig>,
    /// Agreements with neighbouring domains: `[[sla]]`.
    pub slas: Vec<SlaConfig>,
    /// The file of policy; `None`: root and the agent's own user may reserve.
    pub policy: Option<PathBuf>,
    /// The file of the domain's policy, beside which `policy` holds; `None`: there is none.
    pub domain_policy: Option<PathBuf>,
    /// The journal of bookings.
    pub store: StoreConfig,
    /// Boomerang, if the file has it.
    pub boomerang: Option<BoomerangConfig>,
    /// Flows that never signalled, if the file has them: `[mace]`.
    pub mace: Option<MaceConfig>,
    /// Access for callers from other machines; `None`: there is none.
    pub listen: Option<ListenConfig>,
    /// Brokers that are asked for their decisions: `[[broker]]`.
    pub brokers: Vec<BrokerAddress>,
    /// The senders that are answered for receivers here that do not signal: `[[receiver_proxy]]`.
    pub receiver_proxies: Vec<ReceiverProxyRule>,
}

/// An interface in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceConfig {
    /// Name.
    pub name: String,
    /// The rate of the link, link headers included; `None`: the rate that the driver reports.
    pub rate: Option<Rate>,
    /// The link's overhead for each IP packet, bytes.
    pub overhead: u32,
    /// The most that signalled reservations may hold together.
    pub signalled_share: RateShare,
    /// The share that stays with best effort and signalling.
    pub kept_back: RateShare,
    /// The time for which a signalled reservation is safe from bookings; `None`: for ever.
    pub assumed_holding: Option<Span>,
    /// The messages that are accepted there.
    pub auth: AuthConfig,
    /// The most that bookings may have together; `None`: all that is reservable.
    pub premium: Option<RateShare>,
    /// The part of it for foreground and background together while there is background, thousandths.
    pub background: u32,
    /// Who queues its packets.
    pub plane: PlaneChoice,
    /// How the kernel queues them.
    pub scheduler: SchedulerChoice,
    /// The longest time that a packet of guaranteed service waits in the kernel's HFSC beyond its curve, as the operator
    /// declares it; `None`: no such service there.
    pub delay_bound: Option<Span>,
    /// The rates of the classes of code points, independent of bookings.
    pub core: CoreConfig,
    /// The kind of neighbour behind it; `None`: not declared, so it counts as an edge.
    pub role: Option<InterfaceRole>,
}

impl InterfaceConfig {
    /// True unless its packets are certainly not queued by the kernel's HFSC.
    fn may_bound_delay(&self) -> bool {
        self.plane != PlaneChoice::User && self.scheduler != SchedulerChoice::Given(SchedulerKind::Htb)
    }
}

/// The default share of best effort and signalling: 2 %.
pub const DEFAULT_KEPT_BACK: RateShare = RateShare::PerMille(20);
/// The overhead of Ethernet as the kernel counts it: addresses and type, without preamble and check sequence,
/// bytes.
pub const DEFAULT_OVERHEAD: u32 = 14;
/// The most interfaces in a file.
const MAX_INTERFACES: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<Spanned<String>>,
    auth: Option<Spanned<String>>,
    keys: Option<Spanned<PathBuf>>,
    socket: Option<PathBuf>,
    state: Option<PathBuf>,
    plane_socket: Option<PathBuf>,
    max_flows: Option<Spanned<u32>>,
    broker_user: Option<Spanned<String>>,
    operators: Option<Spanned<String>>,
    log: Option<Spanned<String>>,
    rsvp: Option<RsvpFile>,
    #[serde(default)]
    interface: Vec<InterfaceFile>,
    #[serde(default)]
    multicast_route: Vec<RouteFile>,
    #[serde(default)]
    static_sender: Vec<SenderFile>,
    #[serde(default)]
    static_reservation: Vec<ReservationFile>,
    #[serde(default)]
    receiver_proxy: Vec<ReceiverProxyFile>,
    groups: Option<GroupsFile>,
    cpu: Option<CpuFile>,
    #[serde(default)]
    disk: Vec<DiskFile>,
    #[serde(default)]
    resource: Vec<ResourceFile>,
    #[serde(default)]
    sla: Vec<SlaFile>,
    policy: Option<PathBuf>,
    domain_policy: Option<PathBuf>,
    store: Option<Spanned<StoreFile>>,
    boomerang: Option<BoomerangFile>,
    mace: Option<MaceFile>,
    listen: Option<ListenFile>,
    #[serde(default)]
    broker: Vec<BrokerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceFile {
    name: Spanned<String>,
    rate: Option<Spanned<String>>,
    overhead: Option<Spanned<String>>,
    signalled_share: Option<Spanned<String>>,
    kept_back: Option<Spanned<String>>,
    assumed_holding: Option<Spanned<String>>,
    auth: Option<Spanned<String>>,
    keys: Option<Spanned<PathBuf>>,
    handshake: Option<Spanned<String>>,
    reordering: Option<Spanned<u32>>,
    premium: Option<Spanned<String>>,
    background: Option<Spanned<String>>,
    plane: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
    delay_bound: Option<Spanned<String>>,
    #[serde(default)]
    core: CoreFile,
    role: Option<Spanned<String>>,
}

impl AgentConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<AgentConfig, Mistake> {
        AgentConfig::parse(file, &read(file)?)
    }

    /// Reads a text that came from `file`.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<AgentConfig, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let auth = signatures::said(&document, found.auth.as_ref(), found.keys.as_ref())?;
        if auth.is_none() && found.interface.is_empty() {
            return Err(document.whole(signatures::MISSING));
        }
        let name = match &found.name {
            Some(name) => node_name(&document, name)?,
            None => host_name(),
        };
        let log = match &found.log {
            Some(level) => level.get_ref().parse().map_err(|wrong: String| document.at(level.span(), wrong))?,
            None => Level::Info,
        };
        let interfaces = interfaces(&document, &found.interface, auth.as_ref())?;
        Ok(AgentConfig {
            name,
            socket: found.socket.unwrap_or_else(|| rpc::places::AGENT_SOCKET.into()),
            state: found.state.unwrap_or_else(|| rpc::places::AGENT_STATE.into()),
            plane_socket: found.plane_socket.unwrap_or_else(|| rpc::places::PLANE_SOCKET.into()),
            pins: None,
            max_flows: within(&document, found.max_flows.as_ref(), MAX_FLOWS, (1, MOST_FLOWS), "max_flows")?,
            broker_user: found.broker_user.as_ref().map(|user| broker_user(&document, user)).transpose()?,
            operators: operators(&document, found.operators.as_ref())?,
            log,
            rsvp: rsvp_config(&document, found.rsvp.as_ref())?,
            multicast_routes: crate::mroutes::read(&document, &found.multicast_route)?,
            slas: sla_file::read(&document, &found.sla, &interfaces)?,
            mace: found.mace.as_ref().map(|found| mace::read(&document, file, found, &interfaces)).transpose()?,
            interfaces,
            statics: crate::statics_file::read(&document, &found.static_sender, &found.static_reservation)?,
            receiver_proxies: receiver_proxy::read(&document, &found.receiver_proxy)?,
            groups: host_file::groups(&document, found.groups.as_ref())?,
            cpu: host_file::cpu(&document, found.cpu.as_ref())?,
            disks: host_file::disks(&document, &found.disk)?,
            resources: resources::read(&document, &found.resource)?,
            policy: found.policy.map(|path| beside(file, &path)),
            domain_policy: found.domain_policy.map(|path| beside(file, &path)),
            store: store_file::read(&document, found.store.as_ref())?,
            boomerang: found.boomerang.as_ref().map(|found| boomerang::read(&document, found)).transpose()?,
            brokers: broker_file::read(&document, &found.broker, found.listen.is_some())?,
            listen: found.listen.as_ref().map(|found| remote::read(&document, file, found)).transpose()?,
        })
    }
}

/// A path in a file is relative to the file's folder.
fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
}

/// The user of that name or number.
fn broker_user(document: &Document<'_>, found: &Spanned<String>) -> Result<u32, Mistake> {
    let name = found.get_ref();
    let user = name.parse().ok().or_else(|| Some(linux::privilege::User::named(name)?.uid));
    user.ok_or_else(|| document.at(found.span(), format!("{name:?} is no user: a name of /etc/passwd, or a number")))
}

/// The name or number of a group.
fn operators(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<String, Mistake> {
    let Some(group) = found else { return Ok(rpc::places::OPERATORS.to_owned()) };
    let text = group.get_ref();
    if text.is_empty() || text.len() > 32 || !text.chars().all(|c| c.is_ascii_graphic() && !":,@".contains(c)) {
        let wrong = format!("{text:?} is no group: its name, as /etc/group has it, or its number");
        return Err(document.at(group.span(), wrong));
    }
    Ok(text.clone())
}

fn interfaces(
    document: &Document<'_>,
    found: &[InterfaceFile],
    otherwise: Option<&AuthConfig>,
) -> Result<Vec<InterfaceConfig>, Mistake> {
    let mut seen = BTreeMap::new();
    if found.len() > MAX_INTERFACES {
        return Err(document.whole(format!("more than {MAX_INTERFACES} interfaces")));
    }
    found
        .iter()
        .map(|entry| {
            let name = entry.name.get_ref();
            if name.is_empty() || name.len() > 15 || name.contains(['/', ' ']) {
                return Err(document.at(entry.name.span(), format!("{name:?} is no interface name")));
            }
            if seen.insert(name.clone(), ()).is_some() {
                return Err(document.at(entry.name.span(), format!("the interface {name} is there twice")));
            }
            interface(document, entry, otherwise)
        })
        .collect()
}

fn interface(
    document: &Document<'_>,
    entry: &InterfaceFile,
    otherwise: Option<&AuthConfig>,
) -> Result<InterfaceConfig, Mistake> {
    let rate = entry.rate.as_ref().map(|rate| link_rate(document, rate)).transpose()?;
    let overhead = match &entry.overhead {
        None => DEFAULT_OVERHEAD,
        Some(text) => match unit(document, text, units::parse_bytes)?.get() {
            bytes @ 0..=256 => bytes as u32,
            _ => return Err(document.at(text.span(), "an overhead is at most 256b a packet")),
        },
    };
    let share_or = |text: &Option<Spanned<String>>, default: RateShare| match text {
        Some(text) => share(document, text),
        None => Ok(default),
    };
    let config = InterfaceConfig {
        name: entry.name.get_ref().clone(),
        rate,
        overhead,
        signalled_share: share_or(&entry.signalled_share, RateShare::PerMille(1000))?,
        kept_back: share_or(&entry.kept_back, DEFAULT_KEPT_BACK)?,
        assumed_holding: entry
            .assumed_holding
            .as_ref()
            .map(|text| unit(document, text, units::parse_span))
            .transpose()?,
        auth: signatures::of_interface(
            document,
            signatures::said(document, entry.auth.as_ref(), entry.keys.as_ref())?.as_ref().or(otherwise),
            entry.handshake.as_ref(),
            entry.reordering.as_ref(),
        )?,
        premium: entry.premium.as_ref().map(|text| share(document, text)).transpose()?,
        background: core_file::background(document, entry.background.as_ref())?,
        core: core_file::read(document, &entry.core)?,
        plane: queueing::plane(document, entry.plane.as_ref())?,
        scheduler: queueing::scheduler(document, entry.scheduler.as_ref())?,
        delay_bound: queueing::delay_bound(document, entry.delay_bound.as_ref())?,
        role: role::read(document, entry.role.as_ref())?,
    };
    if let Some(text) = entry.delay_bound.as_ref().filter(|_| !config.may_bound_delay()) {
        let words =
            "only the kernel's hfsc has a delay_bound here; a plane in user space declares its own, in its file";
        return Err(document.at(text.span(), words));
    }
    if let (Some(rate), Some(text)) = (rate, &entry.kept_back)
        && config.kept_back.of(rate) >= rate
    {
        return Err(document.at(text.span(), "kept_back leaves nothing of the link to reserve"));
    }
    Ok(config)
}
