//! A tester around a node: its upstream end plays the sender's side, its downstream end the receiver's. It needs nothing
//! of the node but that it speaks RSVP, or Boomerang, and stamps every message on its own interfaces: *message handling
//! time* (RFC 4883 section 3.4.1) is from the entry of a message into the node to the exit of what it sets off.

use super::boundary::{Boundary, Name, What, session_number};
use super::transit::TSPEC;
use crate::error::Error;
use linux::bpf::checkpoint::Checkpoint;
use linux::error::Failed;
use linux::netlink::Socket;
use linux::netns::Namespace;
use linux::sockets::{Outgoing, Receiver, Sender};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use terms::{Adspec, FlowSpec, IfIndex, SenderTemplate, Session, Span, Style};
use traffic::edge::Side;
use wire::{Builder, MessageType, RsvpHop};

/// One of the tester's interfaces.
pub struct End {
    /// Its number.
    pub interface: IfIndex,
    /// Our address there.
    pub own: Ipv4Addr,
    /// The node's.
    pub node: Ipv4Addr,
    sender: Sender,
    /// Takes what the node sends to us, so that the kernel does not answer "protocol unreachable".
    _sink: Receiver,
}

impl End {
    /// The interface of this name, in a namespace; `node` is the node's address on that link.
    ///
    /// # Errors
    /// No such interface, no IPv4 address there, or no right (CAP_NET_RAW).
    pub fn open(namespace: &Namespace, name: &str, node: Ipv4Addr) -> Result<End, Error> {
        let what = || format!("look at {name}");
        let found = namespace.run(|| {
            let mut socket = Socket::open()?;
            let index = socket.link_by_name(name)?.index;
            socket.addresses().map(|all| (index, all))
        })?;
        let (interface, addresses) = found.map_err(Failed::netlink(what()))?;
        let own = addresses.iter().find_map(|a| match a.address {
            IpAddr::V4(own) if a.index == interface => Some(own),
            _ => None,
        });
        let own = own.ok_or_else(|| Error::Testbed(format!("{name} has no IPv4 address")))?;
        let (sender, sink) = namespace.run(|| Ok::<_, Failed>((Sender::open()?, Receiver::open()?)))??;
        Ok(End { interface, own, node, sender, _sink: sink })
    }
}

/// Where sessions go: 250 addresses of a /24 that the node routes downstream, all their UDP ports.
const ADDRESSES: u32 = 250;

/// The tester.
pub struct Tester {
    up: End,
    down: End,
    behind: Ipv4Addr,
    /// Checkpoint 1.
    pub outer: Boundary,
}

impl Tester {
    /// Between these ends; sessions go to addresses of `behind`/24.
    ///
    /// # Errors
    /// The kernel has no TCX, or we have no right (CAP_BPF, CAP_NET_ADMIN).
    pub fn new(
        (at_up, up): (&Namespace, End),
        (at_down, down): (&Namespace, End),
        behind: Ipv4Addr,
    ) -> Result<Tester, Error> {
        let hang = |interface, side| Checkpoint::hang(interface, side).map_err(|fault| Error::Void(fault.to_string()));
        let both = |interface| Ok::<_, Error>((hang(interface, Side::Egress)?, hang(interface, Side::Ingress)?));
        let (above, below) = (up.interface, down.interface);
        let (down_in, up_out) = at_up.run(|| both(above))??;
        let (up_in, down_out) = at_down.run(|| both(below))??;
        Ok(Tester { up, down, behind, outer: Boundary::new([down_in, down_out, up_in, up_out]) })
    }

    /// Session number `n`.
    pub fn session(&self, n: u32) -> Session {
        let [a, b, c, _] = self.behind.octets();
        let dst = [a, b, c, (n % ADDRESSES) as u8 + 1].into();
        Session { dst, protocol: 17, dst_port: (n / ADDRESSES % 0xfffe) as u16 + 1 }
    }

    /// What a message of session `n` is known by.
    pub fn name(&self, kind: MessageType, n: u32) -> Name {
        Name { what: What::Rsvp(kind), of: session_number(&self.session(n)) }
    }

    fn sender_template(&self) -> SenderTemplate {
        SenderTemplate { src: self.up.own.into(), src_port: 5004 }
    }

    /// An RSVP message of session `n`, without its answer. It waits for [`Tester::flush`].
    ///
    /// # Errors
    /// No Path has come through yet, so that there is no handle to answer by; or the kernel would not send.
    pub fn say(&mut self, kind: MessageType, n: u32) -> Result<(), Error> {
        let (session, template) = (self.session(n), self.sender_template());
        let downstream = matches!(kind, MessageType::Path | MessageType::PathTear);
        let end = if downstream { &self.up } else { &self.down };
        let lih = if downstream { Some(1) } else { self.outer.handle() };
        let lih = lih.ok_or_else(|| Error::Void("no Path has come through: nothing to answer".into()))?;
        let hop = RsvpHop { addr: end.own.into(), lih };
        let build = Builder::new(kind, TTL).session(&session).hop(&hop);
        let timed = matches!(kind, MessageType::Path | MessageType::Resv);
        let build = if timed { build.time_values(REFRESH) } else { build };
        let build = match kind {
            MessageType::Path => {
                build.sender_template(&template.into()).sender_tspec(&TSPEC).adspec(&Adspec::origin(1500))
            }
            MessageType::PathTear => build.sender_template(&template.into()).sender_tspec(&TSPEC),
            _ => {
                let flowspec = FlowSpec::ControlledLoad(TSPEC);
                build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template.into())
            }
        };
        let bytes = build.finish().unwrap_or_else(|_| unreachable!("seven short objects"));
        let (src, dst) = match downstream {
            true => (template.src, session.dst),
            false => (end.own.into(), end.node.into()),
        };
        let end = if downstream { &mut self.up } else { &mut self.down };
        let oif = Some(end.interface);
        let out = Outgoing { oif, src, dst, ttl: TTL, router_alert: downstream, bytes: &bytes };
        let mut lost = None;
        end.sender.push(&out, |failed| lost = Some(failed));
        lost.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Gives what waits to the kernel.
    ///
    /// # Errors
    /// It would not send.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut lost = None;
        for end in [&mut self.up, &mut self.down] {
            end.sender.flush(|failed| lost = Some(failed));
        }
        lost.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Sends a message and waits until what it sets off has come out; how long it was in the node, us. `None` if nothing
    /// came within `patience`.
    ///
    /// # Errors
    /// The kernel would not send.
    pub fn exchange(&mut self, kind: MessageType, n: u32, patience: Duration) -> Result<Option<f64>, Error> {
        self.say(kind, n)?;
        self.flush()?;
        let name = self.name(kind, n);
        self.wait(patience, |outer| outer.has_left(&name));
        Ok(self.outer.inside(&name))
    }

    /// Waits until something is so, looking at the checkpoints; whether it came.
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

/// TTL of messages, in their own header as well.
const TTL: u8 = 63;
/// R of what we say: so long that nothing needs to be refreshed during a measurement.
const REFRESH: Span = Span::from_secs(600);
/// How often the checkpoints are looked at.
const LOOK: Duration = Duration::from_micros(50);
