//! A tester around a node: its upstream end plays the sender's side, its downstream end the receiver's. The
//! node only has to implement RSVP or Boomerang. The tester stamps every message on its own interfaces: the
//! *signalling message handling time* of RFC 4883 is the time from the entry of a message into the node to
//! the exit of the message that it causes.

use super::boundary::{Boundary, MessageName, What, session_number};
use super::transit::{Protocol, RATE, TSPEC, request};
use bed::error::Error;
use linux::bpf::checkpoint::Checkpoint;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netns::Namespace;
use linux::sockets::{MessageReceiver, MessageSender, Outgoing};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use terms::{Adspec, FlowSpec, IfIndex, SenderTemplate, Session, Span, Style};
use traffic::edge::Side;
use wire::boomerang::{Hops, Opt};
use wire::{Builder, MessageType, RsvpHop};

/// A message of a session's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LifeMessage {
    /// A message of RSVP.
    Rsvp(MessageType),
    /// Boomerang's message that reserves.
    Reserve,
    /// Boomerang's message that releases.
    Release,
}

impl LifeMessage {
    /// Returns the message's name for people.
    pub fn name(self) -> String {
        match self {
            LifeMessage::Rsvp(kind) => format!("{kind:?}"),
            LifeMessage::Reserve => "Boomerang reservation".into(),
            LifeMessage::Release => "Boomerang release".into(),
        }
    }
}

impl Protocol {
    /// Returns the messages of a session's life, in order: the first half sets it up, the other tears it
    /// down.
    pub fn life(self) -> &'static [LifeMessage] {
        const RSVP: [LifeMessage; 4] = [
            LifeMessage::Rsvp(MessageType::Path),
            LifeMessage::Rsvp(MessageType::Resv),
            LifeMessage::Rsvp(MessageType::ResvTear),
            LifeMessage::Rsvp(MessageType::PathTear),
        ];
        match self {
            Protocol::Rsvp => &RSVP,
            Protocol::Boomerang => &[LifeMessage::Reserve, LifeMessage::Release],
        }
    }
}

/// One of the tester's interfaces.
pub struct TesterPort {
    /// The interface's index.
    pub interface: IfIndex,
    /// The tester's address there.
    pub own: Ipv4Addr,
    sender: MessageSender,
    /// Receives the node's messages to the tester, so that the kernel does not answer "protocol unreachable".
    _sink: MessageReceiver,
}

impl TesterPort {
    /// Opens the interface of this name in a namespace.
    ///
    /// # Errors
    /// No such interface, no IPv4 address there, or a missing privilege (CAP_NET_RAW).
    pub fn open(namespace: &Namespace, name: &str) -> Result<TesterPort, Error> {
        let what = || format!("look at {name}");
        let found = namespace.run(|| {
            let mut socket = Socket::open()?;
            let index = socket.link_by_name(name)?.index;
            socket.addresses().map(|all| (index, all))
        })?;
        let (interface, addresses) = found.map_err(SystemError::netlink(what()))?;
        let own = addresses.iter().find_map(|a| match a.address {
            IpAddr::V4(own) if a.index == interface => Some(own),
            _ => None,
        });
        let own = own.ok_or_else(|| Error::Testbed(format!("{name} has no IPv4 address")))?;
        let (sender, sink) =
            namespace.run(|| Ok::<_, SystemError>((MessageSender::open()?, MessageReceiver::open()?)))??;
        Ok(TesterPort { interface, own, sender, _sink: sink })
    }
}

/// The number of addresses of RSVP sessions in a /24 behind the downstream end. Each has all UDP ports.
const ADDRESSES: u32 = 250;
/// The number of ports for sessions to one address; one port is left.
const PORTS: u32 = 65_534;
/// The spare port and transaction, for messages without a session.
const SPARE: (u16, u32) = (65_535, u32::MAX);

/// The tester.
pub struct Tester {
    up: TesterPort,
    down: TesterPort,
    node: Ipv4Addr,
    behind: Option<Ipv4Addr>,
    /// Checkpoint 1.
    pub outer: Boundary,
}

impl Tester {
    /// Creates a tester between these ends. `node` is the node's address on the upstream link. Sessions go to
    /// the downstream end itself, whose kernel answers Boomerang like any ping; with `behind`, RSVP's go to
    /// addresses of that /24.
    ///
    /// # Errors
    /// The kernel has no TCX, or a privilege is missing (CAP_BPF, CAP_NET_ADMIN).
    pub fn new(
        (at_up, up): (&Namespace, TesterPort),
        (at_down, down): (&Namespace, TesterPort),
        node: Ipv4Addr,
        behind: Option<Ipv4Addr>,
    ) -> Result<Tester, Error> {
        let hang = |interface, side| Checkpoint::hang(interface, side).map_err(|fault| Error::Void(fault.to_string()));
        let both = |interface| Ok::<_, Error>((hang(interface, Side::Egress)?, hang(interface, Side::Ingress)?));
        let (above, below) = (up.interface, down.interface);
        let (down_in, up_out) = at_up.run(|| both(above))??;
        let (up_in, down_out) = at_down.run(|| both(below))??;
        let outer = Boundary::new([down_in, down_out, up_in, up_out]);
        Ok(Tester { up, down, node, behind, outer })
    }

    /// Forgets all messages and the hop, because another node may be connected now.
    pub fn begin(&mut self) {
        self.outer.forget_all();
    }

    /// Returns the number of distinct sessions of a protocol.
    pub fn most(&self, protocol: Protocol) -> u32 {
        match (protocol, self.behind) {
            (Protocol::Rsvp, Some(_)) => ADDRESSES * PORTS,
            _ => PORTS,
        }
    }

    /// Returns RSVP session number `n`.
    fn session(&self, n: u32) -> Session {
        let Some(behind) = self.behind else {
            return Session { dst: self.down.own.into(), protocol: 17, dst_port: (n % PORTS) as u16 + 1 };
        };
        let [a, b, c, _] = behind.octets();
        let dst = [a, b, c, (n % ADDRESSES) as u8 + 1].into();
        Session { dst, protocol: 17, dst_port: (n / ADDRESSES % PORTS) as u16 + 1 }
    }

    /// Returns the name of a message of session `n`.
    pub fn name(&self, part: LifeMessage, n: u32) -> MessageName {
        match part {
            LifeMessage::Rsvp(kind) => MessageName { what: What::Rsvp(kind), of: session_number(&self.session(n)) },
            LifeMessage::Reserve => MessageName { what: What::Request, of: u64::from(2 * n + 1) },
            LifeMessage::Release => MessageName { what: What::Request, of: u64::from(2 * n + 2) },
        }
    }

    /// Queues a message of session `n` until [`Tester::flush`].
    ///
    /// # Errors
    /// No Path has come through yet, so a Resv has no destination; it came through unchanged, by a node that
    /// only forwards; or the kernel cannot send.
    pub fn say(&mut self, part: LifeMessage, n: u32) -> Result<(), Error> {
        let mut lost = None;
        match part {
            LifeMessage::Rsvp(kind @ (MessageType::Path | MessageType::PathTear)) => {
                let message = self.downwards(kind, n);
                let (src, dst) = (self.up.own.into(), self.session(n).dst);
                let packet = wire::ip::packet(src, dst, 46, TTL, true, &message);
                let packet = packet.unwrap_or_else(|_| unreachable!("two addresses of one family"));
                self.up.sender.push_packet(self.up.interface, self.node.into(), &packet, |f| lost = Some(f));
            }
            LifeMessage::Rsvp(kind) => {
                let hop = self.outer.hop();
                let (node, lih) =
                    hop.ok_or_else(|| Error::Void("no Path has come through: there is nobody to answer".into()))?;
                if node == self.up.own {
                    let unread = "the node passes a Path on unread: it does not speak RSVP on these interfaces";
                    return Err(Error::Void(unread.into()));
                }
                let bytes = self.upwards(kind, n, lih);
                let oif = Some(self.down.interface);
                let (src, dst) = (self.down.own.into(), node.into());
                let out = Outgoing { oif, src, dst, ttl: TTL, router_alert: false, bytes: &bytes };
                self.down.sender.push(&out, |failed| lost = Some(failed));
            }
            LifeMessage::Reserve | LifeMessage::Release => {
                let (port, rate) = ((n % PORTS) as u16 + 1, if part == LifeMessage::Reserve { RATE } else { 0 });
                let transaction = self.name(part, n).of as u32;
                let packet = request(self.up.own.into(), self.down.own.into(), port, transaction, rate, &[]);
                self.up.sender.push_packet(self.up.interface, self.node.into(), &packet, |f| lost = Some(f));
            }
        }
        lost.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Tests if the node knows Boomerang: it counts itself in a message that requests nothing.
    ///
    /// # Errors
    /// No message comes through within `patience`, or the kernel cannot send.
    pub fn is_aware(&mut self, patience: Duration) -> Result<bool, Error> {
        let (port, transaction) = SPARE;
        let counts = [Opt::Hops(Hops { forward: 0, reverse: 0 })];
        let packet = request(self.up.own.into(), self.down.own.into(), port, transaction, 0, &counts);
        let mut lost = None;
        self.up.sender.push_packet(self.up.interface, self.node.into(), &packet, |failed| lost = Some(failed));
        if let Some(failed) = lost {
            return Err(failed.into());
        }
        self.flush()?;
        let name = MessageName { what: What::Request, of: u64::from(transaction) };
        if !self.wait(patience, |outer| outer.has_left(&name)) {
            return Err(Error::Void(format!("no Boomerang message comes through the node within {patience:?}")));
        }
        Ok(self.outer.met().is_some_and(|met| met > 0))
    }

    fn downwards(&self, kind: MessageType, n: u32) -> Vec<u8> {
        let template = SenderTemplate { src: self.up.own.into(), src_port: 5004 };
        let hop = RsvpHop { addr: self.up.own.into(), lih: 1 };
        let build = Builder::new(kind, TTL).session(&self.session(n)).hop(&hop);
        let is_path = kind == MessageType::Path;
        let build = if is_path { build.time_values(REFRESH) } else { build };
        let build = build.sender_template(&template.into()).sender_tspec(&TSPEC);
        let build = if is_path { build.adspec(&Adspec::origin(1500)) } else { build };
        build.finish().unwrap_or_else(|_| unreachable!("seven short objects"))
    }

    fn upwards(&self, kind: MessageType, n: u32, lih: u32) -> Vec<u8> {
        let template = SenderTemplate { src: self.up.own.into(), src_port: 5004 };
        let hop = RsvpHop { addr: self.down.own.into(), lih };
        let build = Builder::new(kind, TTL).session(&self.session(n)).hop(&hop);
        let build = if kind == MessageType::Resv { build.time_values(REFRESH) } else { build };
        let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC));
        build.filter_spec(&template.into()).finish().unwrap_or_else(|_| unreachable!("seven short objects"))
    }

    /// Gives the queued messages to the kernel.
    ///
    /// # Errors
    /// The kernel cannot send.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut lost = None;
        for end in [&mut self.up, &mut self.down] {
            end.sender.flush(|failed| lost = Some(failed));
        }
        lost.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Sends a message and waits until the message that it causes has left the node. Returns the time in the
    /// node, us, or `None` after `patience`.
    ///
    /// # Errors
    /// The kernel cannot send.
    pub fn exchange(&mut self, part: LifeMessage, n: u32, patience: Duration) -> Result<Option<f64>, Error> {
        self.say(part, n)?;
        self.flush()?;
        let name = self.name(part, n);
        self.wait(patience, |outer| outer.has_left(&name));
        Ok(self.outer.inside(&name))
    }

    /// Reads the checkpoints until `done` is true, at most `patience`. Returns true if it became true.
    pub fn wait(&mut self, patience: Duration, mut done: impl FnMut(&Boundary) -> bool) -> bool {
        let begun = Instant::now();
        loop {
            self.outer.look();
            if done(&self.outer) {
                return true;
            }
            if begun.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The TTL of messages, also in their own header.
const TTL: u8 = 63;
/// R of the tester's messages: so long that no refresh is due during a measurement.
const REFRESH: Span = Span::from_secs(600);
/// The interval between two readings of the checkpoints.
const LOOK: Duration = Duration::from_micros(50);
