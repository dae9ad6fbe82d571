//! One session: its connection to the agent, what it registered there, and the upcalls that wait.
//!
//! Each session has a connection of its own, which the agent takes for one application: releasing a session or
//! ending the process ends all that it registered. While the agent is away the session tries again, and
//! registers everything anew.

use crate::failure::Failure;
use crate::fork::ClosedInChild;
use crate::wakeup::Wakeup;
use documents::agent::{AdspecDoc, EventDoc, FlowSpecDoc, Request, SenderId, SessionId, StyleDoc, TspecDoc};
use rpc::client::{Client, Error};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The most upcalls of one session that wait for a dispatch; the oldest go first.
const MOST_WAITING: usize = 4096;
/// The most senders of one session that path events list.
const MOST_SENDERS: usize = 1024;

/// A sender as path events tell it.
#[derive(Clone, PartialEq, Debug)]
pub struct KnownSender {
    /// Its address and port.
    pub sender: SenderId,
    /// Its traffic.
    pub tspec: TspecDoc,
    /// The properties of the path, if the sender asks for them.
    pub adspec: Option<AdspecDoc>,
}

/// The registered sender of a session.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SenderOffer {
    /// Its address and port.
    pub sender: SenderId,
    /// Its traffic.
    pub tspec: TspecDoc,
    /// TTL of its data packets.
    pub ttl: u8,
}

/// The reservation that a session asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct ReserveRequest {
    /// The style.
    pub style: StyleDoc,
    /// The senders; none for a wildcard.
    pub senders: Vec<SenderId>,
    /// One flowspec, or one for each sender of fixed style.
    pub flowspecs: Vec<FlowSpecDoc>,
    /// True if a confirmation is wanted.
    pub confirm: bool,
}

/// An event of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionUpcall {
    /// The senders that are known now.
    Path(Vec<KnownSender>),
    /// The reservation for this session's sender; `None`: it is gone.
    Resv {
        /// The sender.
        sender: SenderId,
        /// The style of the receivers.
        style: StyleDoc,
        /// The reservation.
        flowspec: Option<FlowSpecDoc>,
    },
    /// A reservation is confirmed.
    Confirm {
        /// The sender.
        sender: SenderId,
        /// The style that was asked for.
        style: StyleDoc,
        /// The flowspec that is confirmed.
        flowspec: FlowSpecDoc,
    },
    /// PATH_ERROR or RESV_ERROR.
    Error(ErrorUpcall),
}

/// PATH_ERROR or RESV_ERROR.
#[derive(Clone, PartialEq, Debug)]
pub struct ErrorUpcall {
    /// True if it answers a reservation.
    pub resv: bool,
    /// The style that was asked for.
    pub style: StyleDoc,
    /// Error code, RFC 2205 appendix B.
    pub code: u8,
    /// Error value.
    pub value: u16,
    /// The node that found the error.
    pub node: IpAddr,
    /// An older reservation stays in place.
    pub in_place: bool,
    /// The request of another receiver failed.
    pub not_guilty: bool,
    /// The senders that it is about.
    pub senders: Vec<SenderId>,
    /// The flowspec that was refused.
    pub flowspec: Option<FlowSpecDoc>,
    /// The Tspec of the sender that was refused.
    pub tspec: Option<TspecDoc>,
}

/// A connection to the agent; the fields are dropped in this order.
#[derive(Debug)]
struct Connection {
    _closed_in_child: ClosedInChild,
    client: Client,
}

/// A session.
#[derive(Debug)]
pub struct RsvpSession {
    id: SessionId,
    socket: PathBuf,
    connection: Option<Connection>,
    wakeup: Wakeup,
    /// True if path events are wanted: the destination is a group or an address of this host.
    receives: bool,
    offer: Option<SenderOffer>,
    wish: Option<ReserveRequest>,
    senders: Vec<KnownSender>,
    waiting: VecDeque<SessionUpcall>,
}

impl RsvpSession {
    /// Opens a session at the agent that listens on `socket`.
    ///
    /// # Errors
    /// No agent answers there, it refuses the session, or the system has no descriptors left.
    pub fn open(socket: &Path, id: SessionId) -> Result<RsvpSession, Failure> {
        let mut session = RsvpSession {
            id,
            socket: socket.to_owned(),
            connection: None,
            wakeup: Wakeup::new()?,
            receives: id.dst.is_multicast() || is_of_this_host(id.dst),
            offer: None,
            wish: None,
            senders: Vec::new(),
            waiting: VecDeque::new(),
        };
        session.connect()?;
        Ok(session)
    }

    /// The destination and protocol.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The registered sender.
    pub fn offer(&self) -> Option<&SenderOffer> {
        self.offer.as_ref()
    }

    /// The senders that path events told of.
    pub fn senders(&self) -> &[KnownSender] {
        &self.senders
    }

    /// The reservation that is asked for.
    pub fn wish(&self) -> Option<&ReserveRequest> {
        self.wish.as_ref()
    }

    /// A descriptor that is readable when [`RsvpSession::turn`] or [`RsvpSession::next_upcall`] has something to do. It is
    /// the same as long as the session lives.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wakeup.descriptor()
    }

    /// Registers the sender, or changes its traffic; another address takes the place of the one before.
    ///
    /// # Errors
    /// The agent refuses the sender, or is away.
    pub fn send(&mut self, offer: SenderOffer) -> Result<(), Failure> {
        if let Some(before) = self.offer.filter(|before| before.sender != offer.sender) {
            self.call(Request::SenderGone { session: self.id, sender: before.sender })?;
            self.offer = None;
        }
        let SenderOffer { sender, tspec, ttl } = offer;
        self.call(Request::Sender { session: self.id, sender, tspec, ttl })?;
        self.offer = Some(offer);
        Ok(())
    }

    /// Withdraws the sender.
    ///
    /// # Errors
    /// The agent is away; it forgets the sender by itself.
    pub fn send_no_more(&mut self) -> Result<(), Failure> {
        let Some(before) = self.offer.take() else { return Ok(()) };
        self.call(Request::SenderGone { session: self.id, sender: before.sender })
    }

    /// Asks for a reservation, or changes the one that was asked for.
    ///
    /// # Errors
    /// The agent refuses the request as such, or is away. The path's answer comes as an [`SessionUpcall`].
    pub fn reserve(&mut self, wish: ReserveRequest) -> Result<(), Failure> {
        let ReserveRequest { style, senders, flowspecs, confirm } = wish.clone();
        self.call(Request::Reserve { session: self.id, style, senders, flowspecs, confirm })?;
        self.wish = Some(wish);
        Ok(())
    }

    /// Gives the reservation up; path events go on.
    ///
    /// # Errors
    /// The agent is away; it forgets the reservation by itself.
    pub fn reserve_no_more(&mut self) -> Result<(), Failure> {
        match self.wish.take() {
            Some(_) => self.call(Request::Release { session: Some(self.id) }),
            None => Ok(()),
        }
    }

    /// Reads what has come, and connects again where the agent was away. Never waits for an event.
    ///
    /// # Errors
    /// The agent went away; said once for each time.
    pub fn turn(&mut self) -> Result<(), Failure> {
        let retried = self.wakeup.clear();
        if self.connection.is_none() && (!retried || self.connect().is_err()) {
            return Ok(());
        }
        let read = self.read_events();
        if read.is_err() {
            self.went_away();
        }
        self.wake_for_waiting();
        read
    }

    /// The next upcall.
    pub fn next_upcall(&mut self) -> Option<SessionUpcall> {
        let upcall = self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.wakeup.clear();
        }
        upcall
    }

    fn read_events(&mut self) -> Result<(), Failure> {
        while let Some(connection) = &mut self.connection {
            match connection.client.event_here() {
                Ok(Some((_, event))) => self.heard(event),
                Ok(None) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn heard(&mut self, event: EventDoc) {
        let upcall = match event {
            EventDoc::Path { session, sender, tspec, adspec, .. } if session == self.id => {
                let known = KnownSender { sender, tspec, adspec };
                match self.senders.iter().position(|other| other.sender == sender) {
                    Some(place) => self.senders[place] = known,
                    None if self.senders.len() < MOST_SENDERS => self.senders.push(known),
                    None => return,
                }
                SessionUpcall::Path(self.senders.clone())
            }
            EventDoc::PathGone { session, sender } if session == self.id => {
                self.senders.retain(|other| other.sender != sender);
                SessionUpcall::Path(self.senders.clone())
            }
            EventDoc::Resv { session, sender, style, flowspec } if session == self.id => {
                SessionUpcall::Resv { sender, style: style.unwrap_or(StyleDoc::Ff), flowspec: Some(flowspec) }
            }
            EventDoc::ResvGone { session, sender } if session == self.id => {
                SessionUpcall::Resv { sender, style: StyleDoc::Ff, flowspec: None }
            }
            EventDoc::Confirm { session, sender, flowspec, .. } if session == self.id => {
                SessionUpcall::Confirm { sender, style: self.style(), flowspec }
            }
            EventDoc::Error { session, sender, answers, node, code, value, in_place, not_guilty, flowspec, .. }
                if session == self.id =>
            {
                let resv = answers == "resv";
                let senders = match sender {
                    Some(sender) => vec![sender],
                    None if resv => self.wish.as_ref().map(|wish| wish.senders.clone()).unwrap_or_default(),
                    None => Vec::new(),
                };
                let tspec = self.offer.filter(|_| !resv).map(|offer| offer.tspec);
                let style = self.style();
                SessionUpcall::Error(ErrorUpcall {
                    resv,
                    style,
                    code,
                    value,
                    node,
                    in_place,
                    not_guilty,
                    senders,
                    flowspec,
                    tspec,
                })
            }
            _ => return,
        };
        self.queue(upcall);
    }

    /// Queues an upcall; a list of senders takes the place of one that still waits at the end.
    fn queue(&mut self, upcall: SessionUpcall) {
        if matches!((&upcall, self.waiting.back()), (SessionUpcall::Path(_), Some(SessionUpcall::Path(_)))) {
            self.waiting.pop_back();
        }
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(upcall);
    }

    fn style(&self) -> StyleDoc {
        self.wish.as_ref().map_or(StyleDoc::Ff, |wish| wish.style)
    }

    fn call(&mut self, request: Request) -> Result<(), Failure> {
        let Some(connection) = &mut self.connection else { return Err(Failure::away()) };
        let result = connection.client.call(request).map(drop);
        match result {
            Ok(()) | Err(Error::Agent(_)) => {}
            Err(_) => self.went_away(),
        }
        if self.connection.as_ref().is_some_and(|connection| connection.client.has_event()) {
            self.wakeup.set();
        }
        result.map_err(Failure::from)
    }

    /// Connects, and registers what is wanted.
    fn connect(&mut self) -> Result<(), Failure> {
        let stream = UnixStream::connect(&self.socket).map_err(|error| Failure::no_agent(&self.socket, &error))?;
        self.wakeup.watch(stream.as_fd())?;
        let closed_in_child = ClosedInChild::new(stream.as_fd())?;
        self.connection =
            Some(Connection { _closed_in_child: closed_in_child, client: Client::on(stream, &self.socket) });
        let registered = self.register();
        if registered.is_err() {
            self.went_away();
        }
        registered
    }

    fn register(&mut self) -> Result<(), Failure> {
        if self.receives {
            self.call(Request::Receiver { session: self.id })?;
        }
        if let Some(SenderOffer { sender, tspec, ttl }) = self.offer {
            self.call(Request::Sender { session: self.id, sender, tspec, ttl })?;
        }
        match self.wish.clone() {
            Some(wish) => self.reserve(wish),
            None => Ok(()),
        }
    }

    fn went_away(&mut self) {
        self.connection = None;
        if !self.senders.is_empty() {
            self.senders.clear();
            self.queue(SessionUpcall::Path(Vec::new()));
        }
        self.wakeup.retry();
        self.wake_for_waiting();
    }

    fn wake_for_waiting(&mut self) {
        if !self.waiting.is_empty() {
            self.wakeup.set();
        }
    }
}

/// True if packets to the address end at this host: a socket can be bound to it.
fn is_of_this_host(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// This host's address on the route to a destination.
pub fn address_towards(destination: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if destination.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(destination, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
