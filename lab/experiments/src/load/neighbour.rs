//! A further neighbour on the link with its key: it signs messages (RFC 2747), and answers challenges as
//! agents do.
//!
//! It is a station of its own on the link of the first host, in a namespace without a name.

use super::messages::{self, About, NODE};
use bed::error::Error;
use bed::patience::Patience;
use bed::{Bed, NEAR, SENDER};
use documents::agent::{Answer, Request};
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::netns::Namespace;
use linux::sockets::{Outgoing, RsvpSockets};
use rsvp::integrity::{IntegrityKey, Signer};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use terms::{SenderTemplate, Session, Time};
use wire::{Builder, Challenge, Message, MessageType};

/// Its address and interface. The link's prefix covers its two ends only, so both sides get a route.
const ADDRESS: [u8; 4] = [10, 0, 0, 5];
const WHOLE: u8 = 32;
const INTERFACE: &str = "station0";
/// The number of recent messages that are kept for a replay.
const MOST_SAID: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// The signature of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// A correct signature.
    Right,
    /// A correct signature on a message that was sent before.
    Again,
    /// A signature with another secret.
    Wrong,
}

/// A neighbour with the key.
pub struct Neighbour {
    sockets: RsvpSockets,
    /// The node's logical handle of the link.
    lih: u32,
    signer: Signer,
    forger: Signer,
    /// Existing sessions and their senders.
    others: Vec<(Session, SenderTemplate)>,
    said: VecDeque<Vec<u8>>,
    answered: u64,
    _namespace: Namespace,
}

impl Neighbour {
    /// Joins the link. Returns once it has answered a challenge and the node accepts a Path of its own.
    /// `others` are the sessions that it will try to tear.
    ///
    /// # Errors
    /// This kernel has no macvlan, or the agent does not accept its messages.
    pub fn come(
        bed: &Bed,
        name: &str,
        others: Vec<(Session, SenderTemplate)>,
        patience: &Patience,
    ) -> Result<Neighbour, Error> {
        let (namespace, lih) = station(bed, name)?;
        let file = bed.key_file(SENDER, NEAR)?;
        let table = agent_service::keys::load(&file).map_err(|mistake| Error::Testbed(mistake.to_string()))?;
        let Some(key) = table.keys().first() else { return Err(Error::Testbed("the link has no key".to_owned())) };
        let other = IntegrityKey::new(key.id, key.algorithm, b"the secret of some other link");
        let now = Clock::start().now().since(Time::ZERO).as_nanos();
        let sockets = namespace.run(RsvpSockets::open)??;
        let (signer, forger) = (Signer::new(key, now), Signer::new(&other, now));
        let (said, answered, _namespace) = (VecDeque::new(), 0, namespace);
        let mut neighbour = Neighbour { sockets, lih, signer, forger, others, said, answered, _namespace };
        neighbour.introduce(bed, patience)?;
        Ok(neighbour)
    }

    fn introduce(&mut self, bed: &Bed, patience: &Patience) -> Result<(), Error> {
        let about = About::nobody(ADDRESS.into(), self.lih, ADDRESS.into(), 0);
        let mut client = bed.client(NEAR)?;
        let known = patience.wait_for(PATIENCE, || {
            self.say(MessageType::Path, Seal::Right, &about);
            self.flush();
            self.listen();
            let rows = match client.call(Request::Senders(Default::default())) {
                Ok(Answer::Senders(rows)) => rows,
                _ => Vec::new(),
            };
            rows.iter().any(|row| row.phop == Some(ADDRESS.into()))
        })?;
        self.say(MessageType::PathTear, Seal::Right, &about);
        self.flush();
        match known {
            true => Ok(()),
            false => Err(Error::Void(format!("the agent of {NEAR} does not take what a neighbour with its key signs"))),
        }
    }

    /// Queues a message of a type with this serial number until [`Neighbour::flush`].
    pub fn one(&mut self, kind: MessageType, seal: Seal, serial: u32) {
        let mut about = About::nobody(ADDRESS.into(), self.lih, ADDRESS.into(), serial);
        // Every other tear is of a session that is there: it is not this neighbour's to tear.
        let tear = matches!(kind, MessageType::PathTear | MessageType::ResvTear) && serial.is_multiple_of(2);
        if let Some((session, template)) =
            self.others.get(serial as usize / 2 % self.others.len().max(1)).filter(|_| tear)
        {
            (about.session, about.template) = (*session, *template);
        }
        self.say(kind, seal, &about);
    }

    /// Forgets sent messages, because a flood of another type begins.
    pub fn forget(&mut self) {
        self.said.clear();
    }

    fn say(&mut self, kind: MessageType, seal: Seal, about: &About) {
        let bytes = match seal {
            Seal::Right => signed(&mut self.signer, kind, about),
            Seal::Wrong => signed(&mut self.forger, kind, about),
            Seal::Again => {
                let oldest = self.said.pop_front();
                self.said.extend(oldest.clone());
                oldest
            }
        };
        let Some(bytes) = bytes else { return };
        self.send(kind, &bytes);
        if seal == Seal::Right {
            self.said.truncate(MOST_SAID - 1);
            self.said.push_front(bytes);
        }
    }

    fn send(&mut self, kind: MessageType, bytes: &[u8]) {
        let through = messages::goes_through(kind);
        let dst = IpAddr::from(if through { messages::END } else { NODE });
        let (src, ttl) = (ADDRESS.into(), messages::ttl(kind));
        self.sockets.sender.push(&Outgoing { oif: None, src, dst, ttl, router_alert: through, bytes }, |_| ());
    }

    /// Gives the queued messages to the kernel.
    pub fn flush(&mut self) {
        self.sockets.sender.flush(|_| ());
    }

    /// Reads incoming messages, and answers challenges.
    pub fn listen(&mut self) {
        let mut cookies: Vec<(u64, Vec<u8>)> = Vec::new();
        loop {
            let more = self.sockets.receive(|message| {
                if let Ok(Message::IntegrityChallenge(asked)) = Message::parse(message.bytes) {
                    cookies.push((asked.challenge.key_id, asked.challenge.cookie.to_vec()));
                }
            });
            if !more.unwrap_or(false) {
                break;
            }
        }
        for (key_id, cookie) in cookies {
            let kind = MessageType::IntegrityResponse;
            let answer = Builder::new(kind, messages::ttl(kind)).challenge(&Challenge { key_id, cookie: &cookie });
            if let Some(bytes) = answer.finish().ok().and_then(|plain| self.signer.sign(&plain)) {
                self.send(kind, &bytes);
                self.answered += 1;
            }
        }
        self.flush();
    }

    /// Returns the node's logical handle of the link.
    pub fn lih(&self) -> u32 {
        self.lih
    }

    /// Returns the number of challenges that it answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }
}

/// Signs a message, or each message in a Bundle.
fn signed(signer: &mut Signer, kind: MessageType, about: &About) -> Option<Vec<u8>> {
    let plain = messages::whole(kind, about)?;
    let Ok(Message::Bundle(bundle)) = Message::parse(&plain) else { return signer.sign(&plain) };
    let mut build = Builder::new(kind, messages::ttl(kind));
    for part in bundle.messages() {
        build = build.sub_message(&signer.sign(part)?);
    }
    build.finish().ok()
}

/// Makes a namespace with a station on the first link, and returns the node's handle of that link. The
/// namespace has no name, so it disappears with its last user.
fn station(bed: &Bed, name: &str) -> Result<(Namespace, u32), Error> {
    let name = format!("{name}-station");
    let namespace = Namespace::create(&name)?;
    Namespace::delete(&name)?;
    let told = |what: &str, error: linux::netlink::Error| Error::Testbed(format!("{what}: {error}"));
    let (link, back) = (bed.interface(SENDER, NEAR)?, bed.interface(NEAR, SENDER)?);
    let (host, router) = (Namespace::open(&bed.node(SENDER)?.namespace)?, Namespace::open(&bed.node(NEAR)?.namespace)?);
    let made = host.run(|| {
        let mut socket = Socket::open()?;
        let parent = socket.link_by_name(&link)?.index;
        socket.add_station(INTERFACE, parent, namespace.as_fd())
    })?;
    made.map_err(|error| told("one more neighbour needs macvlan in this kernel", error))?;
    let to = |address: [u8; 4], prefix, gateway, oif| RouteEntry { dst: address.into(), prefix, gateway, oif };
    let here = namespace.run(|| {
        let mut socket = Socket::open()?;
        let index = socket.link_by_name(INTERFACE)?.index;
        socket.add_address(&Address { index, address: ADDRESS.into(), prefix: WHOLE })?;
        socket.set_link_up(index, true)?;
        socket.add_route(&to(NODE, WHOLE, None, index))?;
        socket.add_route(&to([10, 0, 0, 0], 8, Some(NODE.into()), index))
    })?;
    let there = router.run(|| {
        let mut socket = Socket::open()?;
        let index = socket.link_by_name(&back)?.index;
        socket.add_route(&to(ADDRESS, WHOLE, None, index)).map(|()| index.0)
    })?;
    let lih = here.and(there).map_err(|error| told("one more neighbour cannot be set up", error))?;
    Ok((namespace, lih))
}
