//! One flow of SCRAPI: what it registers at the agent, and what has become of it.

use documents::agent::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use rsvp_client::session::{KnownSender, ReserveRequest, SenderOffer, SessionUpcall, address_towards};
use rsvp_client::{Code, Failure, RsvpSession};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The minimum policed unit, bytes.
const LEAST_UNIT: u32 = 64;
/// TTL of a sender's packets to a group; it stays the sending program's business.
const TTL: u8 = 63;
/// Errors of the library's own functions start here.
pub const LOCAL_ERRORS: i32 = 256;

/// Destination, protocol and source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowName {
    /// The session's address and port.
    pub destination: SocketAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// The source; `None`: the route's address, or all senders.
    pub source: Option<SocketAddr>,
}

/// The service that a receiver asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Controlled load.
    ControlledLoad,
    /// Guaranteed service with a rate equal to the token rate, and no slack.
    Guaranteed,
}

/// The meaning of a bandwidth and of the shared style.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Translation {
    /// draft-lindell-rsvp-scrapi-02.
    #[default]
    Draft,
    /// Section 3.3 of the paper on RSVP with HFSC.
    Seed,
}

/// A receiver's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverRequest {
    /// The service.
    pub service: Service,
    /// Wildcard, shared explicit or fixed.
    pub style: StyleDoc,
}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowStatus {
    /// An error.
    Red,
    /// Nothing is reserved yet.
    Yellow,
    /// A reservation stands.
    Green,
}

/// One half of a flow: a sender's or a receiver's session.
#[derive(Debug)]
struct Half {
    session: RsvpSession,
    status: FlowStatus,
}

/// A flow.
#[derive(Debug)]
pub struct Flow {
    name: FlowName,
    sending: Option<Half>,
    receiving: Option<(Half, ReceiverRequest)>,
    error: i32,
}

/// The traffic that a bandwidth in bytes/s means.
///
/// # Errors
/// The bandwidth is no number of bytes per second.
pub fn traffic(bandwidth: f64, mtu: u32, translation: Translation) -> Result<TspecDoc, Failure> {
    if !(bandwidth.is_finite() && (0.125..=1e15).contains(&bandwidth)) {
        return Err(Failure::of(Code::Inval, format!("{bandwidth} is no bandwidth in bytes per second")));
    }
    let r_bps = (bandwidth * 8.0).round() as u64;
    let peak = match translation {
        Translation::Draft => None,
        Translation::Seed => Some(r_bps.saturating_mul(2)),
    };
    // A bucket below one packet would never let one pass.
    let b_bytes = ((bandwidth * 2.0).round() as u64).max(mtu.into());
    Ok(TspecDoc { r_bps, b_bytes, p_bps: peak, m_bytes: LEAST_UNIT, max_bytes: mtu })
}

impl Flow {
    /// A flow with nothing registered.
    pub fn new(name: FlowName) -> Flow {
        Flow { name, sending: None, receiving: None, error: 0 }
    }

    /// True if nothing is registered.
    pub fn is_idle(&self) -> bool {
        self.sending.is_none() && self.receiving.is_none()
    }

    /// The last error: 0, RSVP's code, or [`LOCAL_ERRORS`] and RAPI's.
    pub fn error(&self) -> i32 {
        self.error
    }

    /// Notes the failure of a call.
    pub fn failed(&mut self, failure: &Failure) {
        self.error = LOCAL_ERRORS + failure.code as i32;
    }

    /// Red where one half has an error, green where one has a reservation, else yellow.
    pub fn status(&self) -> FlowStatus {
        let halves = || self.sending.iter().chain(self.receiving.iter().map(|(half, _)| half));
        match () {
            () if self.is_idle() || halves().any(|half| half.status == FlowStatus::Red) => FlowStatus::Red,
            () if halves().any(|half| half.status == FlowStatus::Green) => FlowStatus::Green,
            () => FlowStatus::Yellow,
        }
    }

    /// The state of the sending or of the receiving half.
    pub fn half(&self, sending: bool) -> Option<FlowStatus> {
        let half = if sending { self.sending.as_ref() } else { self.receiving.as_ref().map(|(half, _)| half) };
        half.map(|half| half.status)
    }

    /// The descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let halves = self.sending.iter().chain(self.receiving.iter().map(|(half, _)| half));
        halves.map(|half| half.session.descriptor())
    }

    /// Announces traffic, or changes it.
    ///
    /// # Errors
    /// The agent is away or refuses, or there is no route to the destination.
    pub fn send(&mut self, agent: &Path, tspec: TspecDoc) -> Result<(), Failure> {
        let sender = self.sender()?;
        let half = match &mut self.sending {
            Some(half) => half,
            none => none
                .insert(Half { session: RsvpSession::open(agent, self.name.session())?, status: FlowStatus::Yellow }),
        };
        half.session.send(SenderOffer { sender, tspec, ttl: TTL })?;
        if half.status == FlowStatus::Red {
            half.status = FlowStatus::Yellow;
        }
        self.error = 0;
        Ok(())
    }

    /// Ends the announcement.
    pub fn send_no_more(&mut self) {
        self.sending = None;
    }

    /// Asks for reservations for the senders that are there and those that come.
    ///
    /// # Errors
    /// The agent is away or refuses.
    pub fn receive(&mut self, agent: &Path, wanted: ReceiverRequest) -> Result<(), Failure> {
        match &mut self.receiving {
            Some((_, before)) => *before = wanted,
            none => {
                let session = RsvpSession::open(agent, self.name.session())?;
                *none = Some((Half { session, status: FlowStatus::Yellow }, wanted));
            }
        }
        self.error = 0;
        self.follow_senders()
    }

    /// Gives the reservations up.
    pub fn receive_no_more(&mut self) {
        self.receiving = None;
    }

    /// Reads what has come; `heard` gets each event in words.
    ///
    /// # Errors
    /// The agent went away, or refuses what a new sender asks for.
    pub fn turn(&mut self, heard: &mut impl FnMut(String)) -> Result<(), Failure> {
        let mut result = Ok(());
        if let Some(half) = &mut self.sending {
            result = result.and(half.session.turn());
            while let Some(upcall) = half.session.next_upcall() {
                heard(format!("{}: {upcall:?}", self.name));
                match &upcall {
                    SessionUpcall::Resv { flowspec: Some(_), .. } => half.status = FlowStatus::Green,
                    SessionUpcall::Resv { flowspec: None, .. } => half.status = FlowStatus::Yellow,
                    SessionUpcall::Error(error) if !error.resv => {
                        (half.status, self.error) = (FlowStatus::Red, error.code.into())
                    }
                    _ => {}
                }
            }
        }
        let mut senders_changed = false;
        if let Some((half, _)) = &mut self.receiving {
            result = result.and(half.session.turn());
            while let Some(upcall) = half.session.next_upcall() {
                heard(format!("{}: {upcall:?}", self.name));
                match &upcall {
                    SessionUpcall::Path(_) => senders_changed = true,
                    SessionUpcall::Confirm { .. } => (half.status, self.error) = (FlowStatus::Green, 0),
                    SessionUpcall::Error(error) if error.resv && !error.not_guilty => {
                        (half.status, self.error) = (FlowStatus::Red, error.code.into());
                    }
                    _ => {}
                }
            }
        }
        if senders_changed {
            result = result.and(self.follow_senders());
        }
        result
    }

    /// Asks for what the senders that are known now announce.
    fn follow_senders(&mut self) -> Result<(), Failure> {
        let source = self.name.source;
        let Some((half, wanted)) = &mut self.receiving else { return Ok(()) };
        let is_ours = |known: &&KnownSender| source.is_none_or(|source| is_from(&known.sender, source));
        let senders: Vec<&KnownSender> = half.session.senders().iter().filter(is_ours).collect();
        let wish = wish(*wanted, &senders);
        match wish {
            None => {
                half.status = FlowStatus::Yellow;
                half.session.reserve_no_more()
            }
            Some(wish) if half.session.wish() == Some(&wish) => Ok(()),
            Some(wish) => half.session.reserve(wish),
        }
    }

    fn sender(&self) -> Result<SenderId, Failure> {
        let (named, port) = self.name.source.map_or((None, 0), |source| (Some(source.ip()), source.port()));
        let named = named.filter(|address| !address.is_unspecified());
        let src = named.or_else(|| address_towards(self.name.destination.ip()));
        let src = src.ok_or_else(|| Failure::of(Code::Inval, "no route to the destination: name the source"))?;
        Ok(SenderId { src, src_port: port.into() })
    }
}

/// A source with port 0 is every port of its address; with the unspecified address, every address.
fn is_from(sender: &SenderId, source: SocketAddr) -> bool {
    let same_address = source.ip().is_unspecified() || source.ip() == sender.src;
    same_address && (source.port() == 0 || u32::from(source.port()) == sender.src_port)
}

/// The reservation for senders; `None`: there are none.
fn wish(wanted: ReceiverRequest, senders: &[&KnownSender]) -> Option<ReserveRequest> {
    let flowspec = |tspec: TspecDoc| match wanted.service {
        Service::ControlledLoad => FlowSpecDoc::ControlledLoad { tspec },
        Service::Guaranteed => FlowSpecDoc::Guaranteed { tspec, rate_bps: tspec.r_bps, slack_us: 0 },
    };
    let largest = senders.iter().map(|known| known.tspec).reduce(|a, b| TspecDoc {
        r_bps: a.r_bps.max(b.r_bps),
        b_bytes: a.b_bytes.max(b.b_bytes),
        p_bps: a.p_bps.zip(b.p_bps).map(|(a, b)| a.max(b)),
        m_bytes: a.m_bytes.min(b.m_bytes),
        max_bytes: a.max_bytes.max(b.max_bytes),
    })?;
    let named: Vec<SenderId> = senders.iter().map(|known| known.sender).collect();
    let (senders, flowspecs) = match wanted.style {
        StyleDoc::Ff => (named, senders.iter().map(|known| flowspec(known.tspec)).collect()),
        StyleDoc::Se => (named, vec![flowspec(largest)]),
        StyleDoc::Wf => (Vec::new(), vec![flowspec(largest)]),
    };
    Some(ReserveRequest { style: wanted.style, senders, flowspecs, confirm: true })
}

impl FlowName {
    fn session(&self) -> SessionId {
        let dst: IpAddr = self.destination.ip();
        SessionId { dst, protocol: self.protocol, dst_port: self.destination.port() }
    }
}

impl std::fmt::Display for FlowName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source {
            Some(source) => write!(f, "{source} -> {} protocol {}", self.destination, self.protocol),
            None => write!(f, "any -> {} protocol {}", self.destination, self.protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(src: &str, rate: u64) -> KnownSender {
        let sender = SenderId { src: src.parse().unwrap(), src_port: 4000 };
        let tspec = TspecDoc { r_bps: rate, b_bytes: 3000, p_bps: Some(2 * rate), m_bytes: 64, max_bytes: 1500 };
        KnownSender { sender, tspec, adspec: None }
    }

    #[test]
    fn a_bandwidth_means_the_traffic_of_draft_and_seed() {
        let draft = traffic(100_000.0, 1500, Translation::Draft).unwrap();
        assert_eq!((draft.r_bps, draft.b_bytes, draft.p_bps), (800_000, 200_000, None));
        assert_eq!((draft.m_bytes, draft.max_bytes), (64, 1500));
        let seed = traffic(100_000.0, 1500, Translation::Seed).unwrap();
        assert_eq!(seed.p_bps, Some(1_600_000));
        let slow = traffic(100.0, 1500, Translation::Draft).unwrap();
        assert_eq!(slow.b_bytes, 1500, "a slow sender's bucket holds one packet");
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert!(traffic(wrong, 1500, Translation::Draft).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_receiver_asks_for_what_its_senders_announce() {
        let (a, b) = (known("10.0.0.1", 1_000_000), known("10.0.0.2", 3_000_000));
        let asked = |service, style| wish(ReceiverRequest { service, style }, &[&a, &b]).unwrap();
        let distinct = asked(Service::ControlledLoad, StyleDoc::Ff);
        assert_eq!((distinct.senders.len(), distinct.flowspecs.len()), (2, 2));
        let shared = asked(Service::Guaranteed, StyleDoc::Wf);
        assert!(shared.senders.is_empty());
        let rate = match shared.flowspecs[0] {
            FlowSpecDoc::Guaranteed { rate_bps, slack_us: 0, .. } => rate_bps,
            other => panic!("{other:?}"),
        };
        assert_eq!(rate, 3_000_000, "R is the largest of the senders'");
        assert_eq!(asked(Service::ControlledLoad, StyleDoc::Se).senders.len(), 2);
        assert_eq!(wish(ReceiverRequest { service: Service::Guaranteed, style: StyleDoc::Ff }, &[]), None);
    }

    #[test]
    fn a_source_may_leave_port_or_address_open() {
        let sender = known("10.0.0.1", 1).sender;
        for (source, expected) in
            [("10.0.0.1:4000", true), ("10.0.0.1:0", true), ("0.0.0.0:4000", true), ("10.0.0.2:4000", false)]
        {
            assert_eq!(is_from(&sender, source.parse().unwrap()), expected, "{source}");
        }
    }
}
