//! The state that must survive a flood: reservations between applications, and bookings that a broker has
//! acknowledged. Also applications that come and go, with signed messages.

use super::carriers;
use super::slow::Slow;
use crate::reserve::ReservedFlow;
use crate::trial::{tspec, udp_flow};
use bed::error::Error;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use bed::{Bed, RECEIVER, SENDER};
use documents::agent::{Answer, EventDoc, FlowSpecDoc, Request, SessionId, StyleDoc};
use documents::rows::InstalledState;
use rpc::client::Client;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::{Rate, SenderTemplate, Session};

/// The number of reservations, and the rate of each.
const FLOWS: u16 = 20;
const RATE: Rate = Rate::from_kbps(100);
const FIRST_PORT: u16 = 7_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Reservations, each between two applications.
pub struct Established {
    all: Vec<One>,
}

struct One {
    flow: ReservedFlow,
    sender: Client,
    receiver: Option<Client>,
}

impl Established {
    /// Makes the reservations, and waits until the last is confirmed.
    pub fn set_up(bed: &Bed, patience: &Patience) -> Result<Established, Error> {
        let mut all = Vec::new();
        for n in 0..FLOWS {
            let flow = udp_flow(bed, FIRST_PORT + n)?;
            let (mut sender, mut receiver) = (bed.client(SENDER)?, bed.client(RECEIVER)?);
            receiver.call(Request::Receiver { session: flow.session })?;
            sender.call(Request::Sender { session: flow.session, sender: flow.sender, tspec: tspec(RATE), ttl: 63 })?;
            until(&mut receiver, |event| matches!(event, EventDoc::Path { .. }))?;
            let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(RATE) }];
            let senders = vec![flow.sender];
            receiver.call(Request::Reserve {
                session: flow.session,
                style: StyleDoc::Ff,
                senders,
                flowspecs,
                confirm: true,
            })?;
            until(&mut receiver, |event| matches!(event, EventDoc::Confirm { .. }))?;
            patience.check()?;
            all.push(One { flow, sender, receiver: Some(receiver) });
        }
        Ok(Established { all })
    }

    /// Returns the number of reservations.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the session and sender of each reservation.
    pub fn flows(&self) -> Vec<(Session, SenderTemplate)> {
        let of = |ReservedFlow { session, sender }: ReservedFlow| {
            let SessionId { dst, protocol, dst_port } = session;
            (Session { dst, protocol, dst_port }, SenderTemplate { src: sender.src, src_port: sender.src_port })
        };
        self.all.iter().map(|one| of(one.flow)).collect()
    }

    /// Ends one reservation, which the check must find.
    pub fn end_one(&mut self) {
        if let Some(one) = self.all.first_mut() {
            one.receiver = None;
        }
    }

    /// Returns the lost reservations: an application was told so, or a node or its kernel lacks one.
    pub fn lost(&mut self, bed: &Bed) -> Result<Vec<String>, Error> {
        let mut lost = Vec::new();
        let mut carriers = carriers(bed)?;
        for One { flow, sender, receiver } in &mut self.all {
            let port = flow.session.dst_port;
            let mut why = Vec::new();
            for client in std::iter::once(sender).chain(receiver.as_mut()) {
                while let Some((_, event)) = client.event(Duration::from_millis(1))? {
                    let gone =
                        matches!(event, EventDoc::ResvGone { .. } | EventDoc::PathGone { .. } | EventDoc::Error { .. });
                    why.extend(gone.then(|| format!("its application was told {event:?}")));
                }
            }
            for (name, client) in &mut carriers {
                let Answer::Reservations(rows) = client.call(Request::Reservations(Default::default()))? else {
                    continue;
                };
                let row = rows.iter().find(|row| (row.session, row.sender) == (flow.session, flow.sender));
                let state = row.and_then(|row| row.installed.as_ref()).map(|installed| installed.state);
                if state != Some(InstalledState::Installed) {
                    why.push(format!("at {name} it is {}", state.map_or("gone", InstalledState::as_str)));
                }
            }
            if !why.is_empty() {
                lost.push(format!("lost: the reservation of port {port}: {}", why.join("; ")));
            }
        }
        Ok(lost)
    }
}

fn until(client: &mut Client, wanted: impl Fn(&EventDoc) -> bool) -> Result<(), Error> {
    while let Some((_, event)) = client.event(PATIENCE)? {
        if wanted(&event) {
            return Ok(());
        }
        if let EventDoc::Error { .. } = event {
            return Err(Error::Void(format!("a reservation was refused before the load began: {event:?}")));
        }
    }
    Err(Error::Void("a reservation was not set up before the load began".to_owned()))
}

/// A broker, and the bookings that it acknowledged.
pub struct Bookings {
    program: PathBuf,
    place: String,
    acknowledged: Vec<String>,
    broker: Broker,
}

/// The broker, on a normal disk or a slow one.
enum Broker {
    Plain { _running: RunningProgram },
    Slow(Slow),
}

impl Bookings {
    /// Starts a broker over the agents of the testbed.
    pub fn begin(
        bed: &Bed,
        program: &Path,
        folder: &Path,
        slow_disk: bool,
        patience: &Patience,
    ) -> Result<Bookings, Error> {
        let socket = folder.join("broker.sock");
        let mut command = Command::new(program);
        command.arg("broker").arg("--socket").arg(&socket).arg("--state").arg(folder.join("broker")).arg("--no-agent");
        for node in [SENDER, bed::NEAR, bed::FAR, RECEIVER] {
            command.arg("--agent").arg(format!("{node}={}", bed.node(node)?.socket.display()));
        }
        let broker = if slow_disk {
            Broker::Slow(Slow::start(&mut command)?)
        } else {
            Broker::Plain { _running: start(command.stdout(Stdio::null()).stderr(Stdio::null()))? }
        };
        if !patience.wait_for(PATIENCE, || UnixStream::connect(&socket).is_ok())? {
            return Err(Error::Void("the broker does not answer".to_owned()));
        }
        let place = format!("unix:{}", socket.display());
        Ok(Bookings { program: program.to_owned(), place, acknowledged: Vec::new(), broker })
    }

    /// Describes the slow disk's effect on the broker.
    pub fn slowed(&self) -> Option<String> {
        match &self.broker {
            Broker::Slow(slow) => Some(slow.words()),
            Broker::Plain { .. } => None,
        }
    }

    /// Returns the number of acknowledged bookings.
    pub fn len(&self) -> usize {
        self.acknowledged.len()
    }

    /// Makes one more booking. One that is refused or not answered does not count as acknowledged.
    pub fn one_more(&mut self, patience: &Patience) -> Result<(), Error> {
        let words = ["--from", "10.0.0.1", "--to", "10.0.2.2", "--forward", "10kbit", "--for", "2h", "--json"];
        let mut command = Command::new(&self.program);
        command.arg("reserve").args(words).arg("--broker").arg(&self.place);
        match bed::program::output(&mut command, patience) {
            Ok(text) => self.acknowledged.extend(handle(&text)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => {}
        }
        Ok(())
    }

    /// Cancels a booking, unknown to the check, which must find it.
    pub fn cancel_one(&mut self) -> Result<(), Error> {
        if let Some(handle) = self.acknowledged.first() {
            let mut command = Command::new(&self.program);
            command.arg("cancel").arg(handle).arg("--broker").arg(&self.place);
            bed::program::output(&mut command, &Patience::endless())?;
        }
        Ok(())
    }

    /// Returns the acknowledged bookings that are gone.
    pub fn missing(&self) -> Result<Vec<String>, Error> {
        if self.acknowledged.is_empty() {
            return Err(Error::Void("the broker acknowledged no booking at all".to_owned()));
        }
        let mut missing = Vec::new();
        for handle in &self.acknowledged {
            let mut command = Command::new(&self.program);
            command.arg("list").arg(handle).arg("--json").arg("--broker").arg(&self.place);
            let text = bed::program::output(&mut command, &Patience::endless()).unwrap_or_default();
            if text.is_empty() || ["cancelled", "broken", "failed", "expired"].iter().any(|over| text.contains(over)) {
                missing.push(format!("lost: the booking {handle}"));
            }
        }
        Ok(missing)
    }
}

fn handle(text: &str) -> Option<String> {
    let found: serde_json::Value =
        serde_json::from_str(text.lines().last()?).or_else(|_| serde_json::from_str(text)).ok()?;
    ["handle", "id"].into_iter().find_map(|name| found.get(name)?.as_str().map(str::to_owned))
}

/// Applications at the neighbour that come and go as fast as they get answers. For each its agent signs a
/// Path and a PathTear.
pub struct Comers {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Starts the applications.
pub fn comers(bed: &Bed) -> Result<Comers, Error> {
    let (mut client, flow) = (bed.client(SENDER)?, udp_flow(bed, 9_000)?);
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (ended, counted) = (stop.clone(), count.clone());
    let thread = std::thread::spawn(move || {
        let mut port = 0_u16;
        while !ended.load(Ordering::Relaxed) {
            port = (port + 1) % 8_000;
            let mut session = flow.session;
            session.dst_port = 9_000 + port;
            let came = client.call(Request::Sender { session, sender: flow.sender, tspec: tspec(RATE), ttl: 63 });
            let went = client.call(Request::Release { session: Some(session) });
            if came.is_err() || went.is_err() {
                return;
            }
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    Ok(Comers { stop, count, thread })
}

impl Comers {
    /// Ends them. Returns how many came and went.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.count.load(Ordering::Relaxed)
    }
}
