//! The arguments of the commands about bookings.

use super::times::Repeat;
use super::which::WhichArgs;
use crate::places::{AgentArgs, BookArgs};
use clap::Args;
use documents::book::MeterDoc;
use documents::may::Signal;
use std::net::SocketAddr;
use terms::{Bytes, Span};

/// A request of `sluice reserve`, `sluice enquire` or `sluice may`.
#[derive(Args, Debug)]
pub struct WantArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// Resources with amounts: net/eth1=3mbit, cpu=0.5, disk/data=20mbps, licence/solver=2; with a least
    /// amount: net/eth1=30mbit:10mbit; of a broker: maui/net/eth1=3mbit
    #[arg(
        value_name = "RESOURCE=AMOUNT",
        required_unless_present_any = ["forward", "reverse", "to"])]
    pub parts: Vec<String>,
    /// Between two hosts, --from ADDR --to ADDR: the forward rate; with a least rate: 6mbit:2mbit
    #[arg(long, value_name = "RATE", requires = "to", help_heading = "Between two hosts")]
    pub forward: Option<String>,
    /// Between two hosts: the reverse rate
    #[arg(long, value_name = "RATE", requires = "to", help_heading = "Between two hosts")]
    pub reverse: Option<String>,
    /// The window: 14:00..15:30, now..+2h, "friday 08:00..10:00"; open at its end: now..
    #[arg(long, short = 'w', value_name = "FROM..UNTIL", conflicts_with = "duration", help_heading = "When")]
    pub window: Option<String>,
    /// The start [default: now]; an address here is the sending host, as with --source
    #[arg(long, value_name = "WHEN|ADDR[:PORT]", help_heading = "When")]
    pub from: Vec<String>,
    /// The duration: 10m, 2h; or ever
    #[arg(long = "for", value_name = "TIME", value_parser = lasting, help_heading = "When")]
    pub duration: Option<Lasting>,
    /// The earliest window that fits: not before --from, over by --by
    #[arg(long, requires = "duration", conflicts_with = "window", help_heading = "When")]
    pub earliest: bool,
    /// The volume to move by --by, at a constant or stepped rate; AMOUNT is then the highest usable rate
    #[arg(long, value_name = "SIZE", requires = "by", conflicts_with_all = ["window", "duration", "earliest"], help_heading = "When")]
    pub volume: Option<String>,
    /// The deadline
    #[arg(long, value_name = "WHEN", help_heading = "When")]
    pub by: Option<String>,
    /// Repeat the window at the same time of day
    #[arg(long, value_enum, requires = "window", conflicts_with_all = ["volume", "earliest"], help_heading = "When")]
    pub repeat: Option<Repeat>,
    /// The number of windows
    #[arg(long, value_name = "N", requires = "repeat", help_heading = "When", hide_short_help = true)]
    pub times: Option<usize>,
    /// The end of the repetition
    #[arg(long, value_name = "WHEN", requires = "repeat", help_heading = "When", hide_short_help = true)]
    pub until: Option<String>,
    /// Reserve those windows of a recurrence that fit, even if others do not
    #[arg(long, requires = "repeat", help_heading = "When", hide_short_help = true)]
    pub some: bool,
    /// Use what foreground bookings leave, with this weight against other background bookings
    #[arg(long, value_name = "WEIGHT", help_heading = "Background", hide_short_help = true)]
    pub background: Option<u32>,
    /// The least amount: below it the booking is suspended, and its owner is told
    #[arg(long, value_name = "AMOUNT", requires = "background", help_heading = "Background", hide_short_help = true)]
    pub floor: Option<String>,
    /// Colour what exceeds the rate (AF11, AF12, AF13) instead of dropping it: srtcm, trtcm or rfc4115, with peak=RATE,
    /// excess=RATE, burst=SIZE, peak-burst=SIZE, excess-burst=SIZE, aware, mark-red behind commas
    #[arg(long, value_name = "METER", value_parser = MeterDoc::parse, requires = "background", help_heading = "Background", hide_short_help = true)]
    pub meter: Option<MeterDoc>,
    /// The least size of its packets, IP header included: it sets the cost of headers [default: 1000b]
    #[arg(long, value_name = "SIZE", value_parser = documents::units::parse_bytes, help_heading = "How the packets travel", hide_short_help = true)]
    pub packet: Option<Bytes>,
    /// The longest round-trip time: the burst is what the sender sends in this time [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, help_heading = "How the packets travel", hide_short_help = true)]
    pub rtt: Option<Span>,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE", help_heading = "When", hide_short_help = true)]
    pub zone: Option<String>,
    /// A label of your choice
    #[arg(long, default_value = "")]
    pub label: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice reserve`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice reserve net/eth1=3mbit cpu=0.5 --for 1h          now, both or neither\n  \
                        sluice reserve net/eth1=40mbit -w \"friday 14:00..15:30\" --to 10.0.2.2:5001 --protocol tcp\n  \
                        sluice reserve --from 10.0.0.1 --to 10.0.2.2 --forward 6mbit --for 1h    over all agents on the way\n\
                        More options and examples: --help")]
#[command(
    after_long_help = "Examples:\n  sluice reserve net/eth1=3mbit cpu=0.5 --for 1h          now, both or neither\n  \
                        sluice reserve net/eth1=3mbit --for ever                until it is given back\n  \
                        sluice reserve net/eth1=40mbit -w \"friday 14:00..15:30\" --to 10.0.2.2:5001 --protocol tcp\n  \
                        sluice reserve net/eth1=30mbit:10mbit --for 2h --earliest --by \"tomorrow 08:00\"\n  \
                        sluice reserve net/eth1 --volume 200gb --by \"friday 08:00\"\n  \
                        sluice reserve licence/solver=2 -w 09:00..17:00 --repeat weekdays --times 10\n\n\
                        Between two hosts, over all agents on the way, from a broker (--broker, SLUICE_BROKER, or this machine's own):\n  \
                        sluice reserve --from 10.0.0.1 --to 10.0.2.2 --forward 6mbit --reverse 500kbit --for 1h\n  \
                        sluice reserve --from 10.0.0.1:4000 --to 10.0.2.2:5004 --protocol udp --forward 6mbit:2mbit -w 14:00..15:00\n  \
                        sluice reserve --from 10.0.0.1 --to 10.0.2.2 --volume 200gb --by \"friday 08:00\"\n  \
                        sluice reserve --from 10.0.0.1 --to 10.0.10.2 --forward 6mbit --for 1h --tree    the broker asks each domain itself\n\n\
                        Until there is room:\n  sluice reserve net/eth1=40mbit --for 10m --wait 2h\n\n\
                        With a notice before its end:\n  sluice reserve net/eth1=40mbit --for 8h --notify 10m\n  \
                        sluice reserve maui/net/eth1=40mbit --for 8h --notify 10m --mail alice@example.org --broker https://broker:8443"
)]
pub struct ReserveArgs {
    /// The request.
    #[command(flatten)]
    pub want: WantArgs,
    /// Over several domains: the broker asks each domain's broker itself, instead of the next domain only
    #[arg(long, requires = "to", help_heading = "Between two hosts", hide_short_help = true)]
    pub tree: bool,
    /// Ask again for so long while there is no room
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, help_heading = "When")]
    pub wait: Option<Span>,
    /// Only hold the reservation for this time: book it with `sluice commit`
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, hide_short_help = true)]
    pub hold: Option<Span>,
    /// Tell so long before the end that it ends soon: event ends_soon, webhooks, and mail with --mail
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, help_heading = "Notice", hide_short_help = true)]
    pub notify: Option<Span>,
    /// Of a broker: also by mail, to this address
    #[arg(long, value_name = "ADDRESS", requires = "notify", help_heading = "Notice", hide_short_help = true)]
    pub mail: Option<String>,
    /// A key for this request: repeats of it with the same key have one effect in all
    #[arg(long, default_value = "", hide_short_help = true)]
    pub key: String,
    /// The group of the reservation
    #[arg(long, default_value = "", hide_short_help = true)]
    pub group: String,
    /// The packets or processes.
    #[command(flatten)]
    pub whose: WhoseArgs,
}

/// `sluice enquire`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice enquire net/eth1=30mbit --for 1h\n  sluice enquire net/eth1 --volume 200gb --by \"friday 08:00\"\n  \
                  sluice enquire --from 10.0.0.1 --to 10.0.2.2 --for 1h        between two hosts: how much could there be?"
)]
pub struct EnquireArgs {
    /// The request.
    #[command(flatten)]
    pub want: WantArgs,
    /// The packets.
    #[command(flatten)]
    pub packets: PacketArgs,
}

/// `sluice may`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice may me net/eth1=3mbit --for 1h                     what am I allowed?\n  \
                  sluice may uid:1000 net/eth1=3mbit -w 14:00..15:30         a user of the agent's machine\n  \
                  sluice may alice --member hep maui/net/eth1=3mbit --broker https://broker:8443\n\n\
                  What is signalled, by RSVP as sender or receiver, or by Boomerang:\n  \
                  sluice may me --signal send --from 10.0.0.1 --to 10.0.2.2 --forward 3mbit\n  \
                  sluice may uid:1000 --signal receive --from 10.0.0.1 --to 10.0.2.2 --forward 3mbit --priority 3\n  \
                  sluice may me --signal boomerang --from 10.0.0.1 --to 10.0.2.2 --forward 3mbit --reverse 1mbit\n\n\
                  Everybody may ask about themselves; about others operators, auditors, and whom the policy's `auditors` name.\n\
                  Exit status 1: some of it would be refused. Whether there is room is what `sluice enquire` asks.")]
pub struct MayArgs {
    /// The caller: the name of a certificate, uid:1000 of a user of the agent's machine, or me
    pub who: String,
    /// A group of the caller: of their certificate, or gid:27
    #[arg(long, value_name = "GROUP")]
    pub member: Vec<String>,
    /// Ask about signalling instead of a booking: send or receive by RSVP, or boomerang
    #[arg(long, value_name = "HOW", conflicts_with_all = ["parts", "window", "duration", "volume", "background"], requires = "to")]
    pub signal: Option<Signal>,
    /// The pre-emption priority (RFC 3181)
    #[arg(long, value_name = "N", requires = "signal")]
    pub priority: Option<u16>,
    /// The agent of a broker at which it is signalled
    #[arg(long, value_name = "AGENT", requires = "signal")]
    pub at: Option<String>,
    /// The request.
    #[command(flatten)]
    pub want: WantArgs,
    /// The packets.
    #[command(flatten)]
    pub packets: PacketArgs,
}

/// The packets of a flow.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct PacketArgs {
    /// The destination of the packets: ADDRESS or ADDRESS:PORT
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = end, help_heading = "Whose packets or processes")]
    pub to: Option<End>,
    /// The source of the packets: ADDRESS or ADDRESS:PORT
    #[arg(long = "source", value_name = "ADDR[:PORT]", value_parser = end, help_heading = "Whose packets or processes")]
    pub source: Option<End>,
    /// IP protocol: udp, tcp or a number
    #[arg(long, value_parser = documents::units::parse_protocol, help_heading = "Whose packets or processes")]
    pub protocol: Option<u8>,
}

/// The packets or processes that a part serves.
#[derive(Args, Clone, Debug, Default)]
pub struct WhoseArgs {
    /// The packets.
    #[command(flatten)]
    pub packets: PacketArgs,
    /// All threads of this process
    #[arg(long, conflicts_with_all = ["to", "source", "tid", "cgroup"], help_heading = "Whose packets or processes")]
    pub pid: Option<u32>,
    /// Only this thread
    #[arg(long, conflicts_with_all = ["to", "source", "cgroup"], help_heading = "Whose packets or processes")]
    pub tid: Option<u32>,
    /// This control group: its processors, its disk, or of an interface all packets that its processes send
    #[arg(long, value_name = "PATH", conflicts_with_all = ["to", "source"], help_heading = "Whose packets or processes")]
    pub cgroup: Option<String>,
}

/// An address with or without a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The address.
    pub address: std::net::IpAddr,
    /// The port.
    pub port: Option<u16>,
}

/// A duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// This time.
    Span(Span),
    /// Until it is cancelled.
    Ever,
}

/// Reads a duration: `2h`, or `ever`.
pub fn lasting(text: &str) -> Result<Lasting, String> {
    match text {
        "ever" | "forever" => Ok(Lasting::Ever),
        text => documents::units::parse_span(text).map(Lasting::Span),
    }
}

/// Reads an address with or without a port.
pub fn end(text: &str) -> Result<End, String> {
    if let Ok(address) = text.parse() {
        return Ok(End { address, port: None });
    }
    let both: Result<SocketAddr, _> = text.parse();
    both.map(|both| End { address: both.ip(), port: Some(both.port()) })
        .map_err(|_| format!("{text:?} is no address: write 10.0.2.2, 10.0.2.2:5001 or [fd00::2]:5001"))
}

/// `sluice modify`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice modify HANDLE --amount 5mbit\n  sluice modify HANDLE --end +1h           an hour longer\n  \
                        sluice modify HANDLE --forward 5mbit     between two hosts, at every agent on the way\n  \
                        If the new does not fit, the old stays."
)]
pub struct ModifyArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The reservation.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The new amount of part --part, in its unit
    #[arg(long)]
    pub amount: Option<String>,
    /// The number of the part, from 0
    #[arg(long, default_value_t = 0)]
    pub part: usize,
    /// Between two hosts: the forward rate
    #[arg(long, value_name = "RATE", conflicts_with = "amount")]
    pub forward: Option<String>,
    /// Between two hosts: the reverse rate
    #[arg(long, value_name = "RATE", conflicts_with = "amount")]
    pub reverse: Option<String>,
    /// A new start
    #[arg(long, value_name = "WHEN")]
    pub start: Option<String>,
    /// A new end; +1h: this much later than the present end; "forever": open
    #[arg(long, value_name = "WHEN")]
    pub end: Option<String>,
    /// Another label
    #[arg(long)]
    pub label: Option<String>,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice bind`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice bind HANDLE --source 10.0.0.1:41234 --to 10.0.2.2:5001 --protocol tcp\n  \
                        sluice bind HANDLE --part 1 --pid 4711\n  \
                        sluice bind HANDLE --cgroup /system.slice/nginx.service    what nginx sends, or its processors\n  sluice bind HANDLE --nobody\n  \
                        A reservation between two hosts is bound at every agent on the way, both directions.")]
pub struct BindArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The reservation.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The number of the part, from 0 [default: 0, or all parts between two hosts]
    #[arg(long)]
    pub part: Option<usize>,
    /// Remove the binding
    #[arg(long, conflicts_with_all = ["to", "source", "pid", "tid", "cgroup"])]
    pub nobody: bool,
    /// The packets or processes.
    #[command(flatten)]
    pub whose: WhoseArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice commit`.
#[derive(Args, Debug)]
pub struct HandleArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The handles of reservations, or the first letters of them
    #[arg(required_unless_present = "last", value_name = "HANDLE")]
    pub handles: Vec<String>,
    /// The newest reservation that we may see
    #[arg(long, conflicts_with = "handles")]
    pub last: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice resolve`.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("decision").required(true).args(["commit", "abort"]),
    after_help = "Examples:\n  sluice list --state promised\n  sluice resolve HANDLE --abort\n\n  \
                  A promise waits for its broker's decision. If that broker is gone for ever, ask at the other agents \
                  of the transaction what was decided (sluice audit --handle HANDLE), and decide the same here. It is \
                  written to the audit; if the broker comes back and decided otherwise, the agent says so."
)]
pub struct ResolveArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The reservation.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The promised change comes true
    #[arg(long)]
    pub commit: bool,
    /// The promised change is dropped
    #[arg(long)]
    pub abort: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice list`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice list                      what is not over\n  sluice list HANDLE               one, and what happened to it\n  \
                        sluice list --resource net/eth1 --window \"friday 00:00..24:00\" --json"
)]
pub struct ListArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// The handle of one reservation, or the first letters of it, to show its history too
    pub handle: Option<String>,
    /// Show the newest reservation
    #[arg(long, conflicts_with = "handle")]
    pub last: bool,
    /// Only reservations of this owner
    #[arg(long)]
    pub owner: Option<String>,
    /// Only reservations of this group
    #[arg(long)]
    pub group: Option<String>,
    /// Only reservations with this label
    #[arg(long)]
    pub label: Option<String>,
    /// Only reservations with a part of this resource
    #[arg(long)]
    pub resource: Option<String>,
    /// Only reservations in this state: held, promised, booked, active, suspended, ended, cancelled,
    /// expired
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// Only reservations with a window that meets this one: 14:00..15:30, "friday 00:00..24:00"
    #[arg(long, short = 'w', value_name = "FROM..UNTIL")]
    pub window: Option<String>,
    /// Also reservations that are over
    #[arg(long, conflicts_with = "states")]
    pub all: bool,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `sluice audit`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice audit                          the last 50 decisions\n  \
                        sluice audit --since \"2026-11-27 08:00\" --who uid:1000\n  \
                        sluice audit --handle HANDLE          who did what to a reservation, and which rule let them\n  \
                        sluice audit --follow --json          one object a line, as they are made\n  \
                        sluice audit --broker unix:broker.sock   what each domain on the way has accepted and signed\n\n\
                        Root and the agent's own user may read it, and whom the policy names: auditors = [\"uid:1000\"]")]
pub struct AuditArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The broker, unix:PATH or https://HOST:PORT: what other domains have accepted, and signed
    #[arg(long, short = 'b', value_name = "PLACE", conflicts_with_all = ["socket", "node", "since", "follow"])]
    pub broker: Option<String>,
    /// Only decisions about this reservation
    #[arg(long)]
    pub handle: Option<String>,
    /// Only decisions about requests of this caller: uid:1000, alice
    #[arg(long, alias = "owner", value_name = "NAME")]
    pub who: Option<String>,
    /// Only decisions made at this time or later; a time of day alone means its last occurrence
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only the last N decisions [default: 50, or all with --since, --handle or --who]
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// Go on, and show new decisions as they are made
    #[arg(long)]
    pub follow: bool,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `sluice calendar`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice calendar                            every resource, the next 24 hours\n  \
                        sluice calendar net/eth1 --window \"monday 08:00..friday 18:00\"\n  \
                        sluice calendar net/eth1 --ics > eth1.ics   for calendar programs: what is reserved there")]
pub struct CalendarArgs {
    /// The agent or the broker.
    #[command(flatten)]
    pub book: BookArgs,
    /// Only these resources [default: all]
    pub resources: Vec<String>,
    /// The window to show
    #[arg(long, short = 'w', value_name = "FROM..UNTIL", default_value = "now..+24h")]
    pub window: String,
    /// The time zone [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print the reservations that meet the window as a calendar file (iCalendar)
    #[arg(long, conflicts_with = "json")]
    pub ics: bool,
}
