//! The reservations of a command's connections: asked, standing, renewed, given back.
//!
//! *RSVP.* The agent here sends Path for what we send on the connection; at the far end the application or its agent
//! (`[[receiver_proxy]]`) sends Resv. *A booking* of the interface by which the packets leave, bound to the connection's
//! five-tuple, needs this agent alone.

use super::{Ends, RunArgs};
use crate::complain::Complaint;
use crate::places::AgentArgs;
use crate::run::way::{WayMeans, way_out};
use crate::run::{LEASE, PATIENCE, RENEW, renew, reservation};
use documents::agent::{EventDoc, FlowSpecDoc, Request, SenderId, SessionId, TspecDoc};
use documents::book::{AskDoc, BindingDoc, FlowDoc, PartDoc, WhenDoc};
use rpc::client::{Client, Error};
use rpc::place::Endpoint;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use terms::Rate;

const TCP: u8 = 6;
/// The time for which a host that answered no RSVP is not asked again, where there are other means.
const DEAF: Duration = Duration::from_secs(60);
/// The most such hosts that are remembered.
const MOST_DEAF: usize = 4096;
/// The interval between attempts to reach the agent.
const AGAIN: Duration = Duration::from_secs(1);
/// The looks in a row in which a connection must be missing to be over: a list is no snapshot.
const LOOKS: u8 = 2;
/// The same for one that was never seen: its thread may not have gone on yet.
const FIRST_LOOKS: u8 = 20;

/// The answer about a connection.
pub(super) enum Verdict {
    /// Its reservation is in force.
    Stands { by_rsvp: bool, took: Duration },
    /// There is none, and why.
    Refused(String),
}

/// By whom a connection is reserved.
enum Means {
    Rsvp,
    /// A booking of this handle.
    Booking(String),
}

struct Share {
    means: Means,
    /// The number of the connection's socket.
    cookie: u64,
    /// The time of the question, or of the last renewal.
    since: Instant,
    /// The looks in a row that missed its connection, and whether one has ever seen it.
    missed: u8,
    seen: bool,
}

/// All reservations of connections.
pub(super) struct Shares {
    agent: AgentArgs,
    client: Option<Client>,
    /// A second descriptor of the agent's connection, and whether it is watched.
    wire: Option<UnixStream>,
    is_new: bool,
    tried: Instant,
    rate: Rate,
    with: WayMeans,
    patience: Duration,
    most: usize,
    label: String,
    deaf: BTreeMap<IpAddr, Instant>,
    asked: BTreeMap<Ends, Share>,
    standing: BTreeMap<Ends, Share>,
    lost: u64,
}

impl Shares {
    /// With a connection to the agent.
    pub(super) fn new(args: &RunArgs, rate: Rate) -> Result<Shares, Complaint> {
        let label = if args.label.is_empty() { args.command[0].clone() } else { args.label.clone() };
        let mut shares = Shares {
            agent: args.agent.clone(),
            client: None,
            wire: None,
            is_new: false,
            tried: Instant::now(),
            rate,
            with: args.way.with,
            patience: Duration::from_nanos(args.way.patience.as_nanos()),
            most: args.each.connections as usize,
            label,
            deaf: BTreeMap::new(),
            asked: BTreeMap::new(),
            standing: BTreeMap::new(),
            lost: 0,
        };
        match shares.reach() {
            Err(complaint) if !args.or_best_effort => Err(complaint),
            _ => Ok(shares),
        }
    }

    fn reach(&mut self) -> Result<(), Complaint> {
        self.tried = Instant::now();
        let place = self.agent.place()?;
        let Endpoint::Socket(path) = &place else {
            return Err(Complaint::usage("connections are reserved by the agent of this machine"));
        };
        let no_agent = |error| Complaint::from(Error::Io { place: Box::new(place.clone()), error });
        let stream = UnixStream::connect(path).map_err(no_agent)?;
        self.wire = Some(stream.try_clone().map_err(no_agent)?);
        self.client = Some(Client::on(stream, path));
        self.is_new = true;
        Ok(())
    }

    /// The descriptor to watch, if it is a new one.
    pub(super) fn new_wire(&mut self) -> Option<&UnixStream> {
        std::mem::take(&mut self.is_new).then_some(self.wire.as_ref()).flatten()
    }

    /// True if a booking is about to be in force.
    pub(super) fn asks(&self) -> bool {
        self.asked.values().any(|share| matches!(share.means, Means::Booking(_)))
    }

    /// The number of reservations that stand.
    pub(super) fn standing(&self) -> usize {
        self.standing.len()
    }

    /// True if this connection has one, or has asked.
    pub(super) fn stands(&self, ends: &Ends) -> bool {
        self.standing.contains_key(ends) || self.asked.contains_key(ends)
    }

    /// The reservations that the far ends have given back since the last question.
    pub(super) fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Asks for the reservation of a connection; the answer comes with [`Shares::news`].
    ///
    /// # Errors
    /// It is refused at once.
    pub(super) fn ask(&mut self, ends: Ends, cookie: u64) -> Result<(), String> {
        if self.asked.len() + self.standing.len() >= self.most {
            return Err(format!("{} connections have a reservation: the limit (--connections)", self.most));
        }
        // One that the list has not missed yet: the same ports again.
        self.release(&ends);
        let deaf = self.deaf.get(&ends.remote.ip()).is_some_and(|since| since.elapsed() < DEAF);
        if self.with == WayMeans::Booking || (self.with == WayMeans::Auto && deaf) {
            return self.book(ends, cookie, Instant::now());
        }
        self.call(announce(&ends, self.rate))?;
        self.asked.insert(ends, Share { means: Means::Rsvp, cookie, since: Instant::now(), missed: 0, seen: false });
        Ok(())
    }

    fn book(&mut self, ends: Ends, cookie: u64, since: Instant) -> Result<(), String> {
        let (interface, _) = way_out(ends.remote.ip()).map_err(|complaint| complaint.to_string())?;
        let flow = FlowDoc {
            src: Some(ends.local.ip()),
            dst: Some(ends.remote.ip()),
            protocol: Some(TCP),
            src_port: Some(ends.local.port()),
            dst_port: Some(ends.remote.port()),
        };
        let part = PartDoc {
            resource: format!("net/{interface}"),
            rate: Some(self.rate.as_bps()),
            binding: Some(BindingDoc::Flow(flow)),
            ..PartDoc::default()
        };
        let ask = AskDoc {
            parts: vec![part],
            label: self.label.clone(),
            when: WhenDoc::lasting(LEASE.as_nanos() as f64 / 1e9),
            ..AskDoc::default()
        };
        let answer = self.call(Request::BookCreate(ask))?;
        let found = reservation(answer).map_err(|complaint| complaint.to_string())?;
        self.asked.insert(ends, Share { means: Means::Booking(found.handle), cookie, since, missed: 0, seen: false });
        Ok(())
    }

    fn call(&mut self, request: Request) -> Result<documents::agent::Answer, String> {
        if self.client.is_none() && self.tried.elapsed() >= AGAIN {
            self.again();
        }
        let Some(client) = &mut self.client else { return Err("no agent answers".to_owned()) };
        client.call(request).map_err(|error| {
            let text = error.to_string();
            if !matches!(error, Error::Agent(_)) {
                self.client = None;
            }
            text
        })
    }

    /// The next agent is asked for what the last one was.
    fn again(&mut self) {
        if self.reach().is_err() {
            return;
        }
        let all = self.asked.iter().chain(&self.standing);
        let signalled: Vec<Ends> =
            all.filter(|(_, share)| matches!(share.means, Means::Rsvp)).map(|(ends, _)| *ends).collect();
        for ends in signalled {
            // One that is refused now is lost; its connection goes on.
            if self.call(announce(&ends, self.rate)).is_err() {
                self.lost += 1;
            }
        }
    }

    /// The answers that have come.
    pub(super) fn news(&mut self) -> Vec<(Ends, Verdict)> {
        let mut all = Vec::new();
        loop {
            match self.client.as_mut().map(Client::event_here) {
                Some(Ok(Some((_, event)))) => all.extend(self.hear(&event)),
                Some(Err(_)) => self.client = None,
                Some(Ok(None)) | None => break,
            }
        }
        let late = |share: &Share, patience| share.since.elapsed() >= patience;
        let silent = self.asked.iter().filter(|(_, share)| match share.means {
            Means::Rsvp => late(share, self.patience),
            Means::Booking(_) => true,
        });
        let silent: Vec<Ends> = silent.map(|(ends, _)| *ends).collect();
        for ends in silent {
            all.extend(self.unanswered(ends).map(|verdict| (ends, verdict)));
        }
        all
    }

    /// Takes an event about a connection.
    fn hear(&mut self, event: &EventDoc) -> Option<(Ends, Verdict)> {
        match event {
            EventDoc::Resv { session, sender, flowspec, .. } => {
                let (FlowSpecDoc::ControlledLoad { tspec } | FlowSpecDoc::Guaranteed { tspec, .. }) = flowspec;
                let ends = ends_of(session, sender);
                // One that was booked meanwhile stays booked.
                let asked = self.asked.get(&ends).is_some_and(|share| matches!(share.means, Means::Rsvp));
                if !asked || tspec.r_bps < self.rate.as_bps() {
                    return None;
                }
                let share = self.asked.remove(&ends)?;
                let took = share.since.elapsed();
                self.standing.insert(ends, Share { since: Instant::now(), ..share });
                Some((ends, Verdict::Stands { by_rsvp: true, took }))
            }
            EventDoc::ResvGone { session, sender } if self.standing.contains_key(&ends_of(session, sender)) => {
                self.lost += 1;
                None
            }
            EventDoc::Error { session, sender: Some(sender), meaning, text, node, .. } => {
                let ends = ends_of(session, sender);
                if !matches!(self.asked.get(&ends)?.means, Means::Rsvp) {
                    return None;
                }
                let share = self.asked.remove(&ends)?;
                self.give_back(&ends, &share);
                let words = text.as_ref().map_or(String::new(), |text| format!(": {text}"));
                Some((ends, Verdict::Refused(format!("{node} refuses by RSVP: {meaning}{words}"))))
            }
            _ => None,
        }
    }

    /// Looks after a question without an answer: RSVP that waited long enough, or a booking.
    fn unanswered(&mut self, ends: Ends) -> Option<Verdict> {
        let share = self.asked.remove(&ends)?;
        let Means::Booking(handle) = &share.means else { return self.silent(ends, &share) };
        let show = Request::BookShow { handle: Some(handle.clone()), filter: Default::default() };
        let shown = self.call(show).and_then(|answer| reservation(answer).map_err(|complaint| complaint.to_string()));
        let part = shown.as_ref().ok().and_then(|found| found.parts.first());
        match part {
            Some(part) if part.enforced == "in_force" => {
                let took = share.since.elapsed();
                self.standing.insert(ends, Share { since: Instant::now(), ..share });
                Some(Verdict::Stands { by_rsvp: false, took })
            }
            Some(part) if part.enforced != "failed" && share.since.elapsed() < self.patience + PATIENCE => {
                self.asked.insert(ends, share);
                None
            }
            _ => {
                let why = part.and_then(|part| part.fault.clone());
                let why = why.or(shown.err()).unwrap_or_else(|| "it is not in force in time".to_owned());
                self.give_back(&ends, &share);
                Some(Verdict::Refused(format!("booked, but not to be had: {why}")))
            }
        }
    }

    /// The far end reserves nothing.
    fn silent(&mut self, ends: Ends, share: &Share) -> Option<Verdict> {
        self.give_back(&ends, share);
        let host = ends.remote.ip();
        if self.with != WayMeans::Auto {
            let ms = self.patience.as_millis();
            return Some(Verdict::Refused(format!("{host} reserved nothing by RSVP in {ms} ms")));
        }
        if self.deaf.len() >= MOST_DEAF {
            self.deaf.clear();
        }
        self.deaf.insert(host, Instant::now());
        self.book(ends, share.cookie, share.since).err().map(Verdict::Refused)
    }

    /// Keeps the reservations of these connections, and gives those back that are missing.
    pub(super) fn keep(&mut self, is_there: impl Fn(&Ends) -> bool) {
        let mut gone = Vec::new();
        for (ends, share) in &mut self.standing {
            let there = is_there(ends);
            share.seen |= there;
            share.missed = if there { 0 } else { share.missed + 1 };
            if share.missed >= if share.seen { LOOKS } else { FIRST_LOOKS } {
                gone.push(*ends);
            }
        }
        gone.iter().for_each(|ends| self.release(ends));
    }

    /// A connection has ended: the next may need its share at once.
    pub(super) fn ended(&mut self, ends: &Ends, cookie: u64) {
        if self.standing.get(ends).is_some_and(|share| share.cookie == cookie) {
            self.release(ends);
        }
    }

    fn release(&mut self, ends: &Ends) {
        if let Some(share) = self.standing.remove(ends) {
            self.give_back(ends, &share);
        }
    }

    fn give_back(&mut self, ends: &Ends, share: &Share) {
        // What is not given back now ends with the connection to the agent, or with its lease.
        let _ = match &share.means {
            Means::Rsvp => {
                let (session, sender) = names(ends);
                self.call(Request::SenderGone { session, sender })
            }
            Means::Booking(handle) => self.call(Request::BookCancel { handle: handle.clone() }),
        };
    }

    /// Renews leases, and looks for an agent that went away.
    pub(super) fn tend(&mut self) {
        if self.client.is_none() && self.tried.elapsed() >= AGAIN {
            self.again();
        }
        let Some(client) = &mut self.client else { return };
        for (ends, share) in &mut self.standing {
            let Means::Booking(handle) = &share.means else { continue };
            if share.since.elapsed() >= RENEW {
                share.since = Instant::now();
                if let Err(complaint) = renew(client, handle) {
                    eprintln!("sluice: {ends}: the reservation cannot be made longer: {complaint}");
                }
            }
        }
    }

    /// At the end.
    pub(super) fn give_all_back(&mut self) {
        let all = std::mem::take(&mut self.asked).into_iter().chain(std::mem::take(&mut self.standing));
        for (ends, share) in all.collect::<Vec<_>>() {
            self.give_back(&ends, &share);
        }
    }
}

fn names(ends: &Ends) -> (SessionId, SenderId) {
    let session = SessionId { dst: ends.remote.ip(), protocol: TCP, dst_port: ends.remote.port() };
    (session, SenderId { src: ends.local.ip(), src_port: ends.local.port().into() })
}

fn ends_of(session: &SessionId, sender: &SenderId) -> Ends {
    // Wider numbers are of no connection.
    let port = u16::try_from(sender.src_port).unwrap_or(0);
    Ends { local: (sender.src, port).into(), remote: (session.dst, session.dst_port).into() }
}

/// The call that makes the agent send Path.
fn announce(ends: &Ends, rate: Rate) -> Request {
    let (session, sender) = names(ends);
    let tspec = TspecDoc {
        r_bps: rate.as_bps(),
        b_bytes: documents::units::usual_burst(rate).get(),
        p_bps: None,
        m_bytes: 64,
        max_bytes: 1_500,
    };
    Request::Sender { session, sender, tspec, ttl: 64 }
}
