//! The sources on real sockets: the packets of [`PooledTraffic`], at their times, from one thread for hundreds of flows.

use super::site::{CROWD_PORT, ETHERNET, HEADERS, PORT, port_of};
use bed::host::Host;
use linux::error::SystemError;
use sim::mace::{Params, PooledTraffic, SourceTally, TrafficEvent, TrafficPart};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval at which a waiting thread checks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);
/// The head of each packet: model, place, number of its flow at that place.
pub(super) const HEAD: usize = 12;
/// In the place of the model: a packet of the background.
pub(super) const OF_CROWD: u32 = u32::MAX;
const LONGEST: usize = 1_600;

/// The packets that a thread has sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    models: Vec<SourceTally>,
    crowd: u64,
    latest: Duration,
}

impl Sent {
    /// Returns the tally of each model.
    pub(super) fn models(&self) -> &[SourceTally] {
        &self.models
    }

    /// Returns the number of packets of the background.
    pub(super) fn crowd(&self) -> u64 {
        self.crowd
    }

    /// Returns the greatest delay of a packet.
    pub(super) fn latest(&self) -> Duration {
        self.latest
    }
}

/// A thread that sends. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct SourceThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Sent, SystemError>>>,
}

impl SourceThread {
    /// Starts to send a part of a run's traffic from a host, with time 0 at `begin`.
    pub(super) fn start(
        from: Host,
        to: Ipv4Addr,
        params: &Params,
        part: TrafficPart,
        begin: Instant,
    ) -> Result<SourceThread, SystemError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut sender = Sender::new(from, to, params.clone())?;
        let (params, told) = (params.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("mace-send".into()).spawn(move || {
            // Without the right to it other work on the machine delays packets, and the gaps where they are generated say so.
            let _ = linux::process::keep_time();
            let mut traffic = PooledTraffic::new(&params, part);
            sender.run(&mut traffic, begin, &told)?;
            Ok(sender.sent)
        });
        let thread = thread.map_err(SystemError::doing("start a thread"))?;
        Ok(SourceThread { stop, thread: Some(thread) })
    }

    /// True if all is sent, or the thread has failed.
    pub(super) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it.
    pub(super) fn end(mut self) -> Result<Sent, SystemError> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().map(JoinHandle::join);
        // A panic there has already been reported by the panic hook.
        let gone = || std::io::Error::other("the thread that sends has panicked");
        thread.and_then(Result::ok).unwrap_or_else(|| Err(SystemError::because("send", gone())))
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A flow at its place.
struct Flow {
    socket: Option<UdpSocket>,
    number: u32,
    last: Option<Instant>,
}

struct Sender {
    from: Host,
    to: SocketAddr,
    params: Params,
    flows: Vec<Flow>,
    crowd: Vec<Option<UdpSocket>>,
    packet: Vec<u8>,
    sent: Sent,
}

impl Sender {
    fn new(from: Host, to: Ipv4Addr, params: Params) -> Result<Sender, SystemError> {
        let models = params.models.iter().map(|(model, _)| SourceTally::of(model.interval)).collect();
        let flows = (0..params.pool).map(|_| Flow { socket: None, number: 0, last: None }).collect();
        let crowd = (0..sim::mace::traffic::BACKGROUND).map(|_| None).collect();
        let sent = Sent { models, crowd: 0, latest: Duration::ZERO };
        let (to, packet) = (SocketAddr::from((to, PORT)), vec![0x55; LONGEST]);
        Ok(Sender { from, to, params, flows, crowd, packet, sent })
    }

    fn run(&mut self, traffic: &mut PooledTraffic, begin: Instant, stop: &AtomicBool) -> Result<(), SystemError> {
        while let Some((at, event)) = traffic.next_event() {
            if at >= self.params.duration.as_nanos() {
                return Ok(());
            }
            let due = begin + Duration::from_nanos(at);
            while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                if stop.load(Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(left.min(LOOK));
            }
            self.sent.latest = self.sent.latest.max(due.elapsed());
            self.happens(event)?;
        }
        Ok(())
    }

    fn happens(&mut self, event: TrafficEvent) -> Result<(), SystemError> {
        match event {
            TrafficEvent::Packet { place, bytes } => self.packet_of(place, bytes),
            TrafficEvent::Ended { place } => {
                let number = self.flows[place].number + 1;
                self.flows[place] = Flow { socket: None, number, last: None };
                Ok(())
            }
            TrafficEvent::Background { source, bytes } => {
                if self.crowd[source].is_none() {
                    self.crowd[source] = Some(self.from.udp(CROWD_PORT + source as u16, LOOK)?);
                }
                let packet = written(&mut self.packet, [OF_CROWD, source as u32, 0], bytes);
                // What the local queue does not take was never sent.
                let sent = self.crowd[source].as_ref().is_some_and(|socket| socket.send_to(packet, self.to).is_ok());
                self.sent.crowd += u64::from(sent);
                Ok(())
            }
        }
    }

    fn packet_of(&mut self, place: usize, bytes: u32) -> Result<(), SystemError> {
        let (model, flow) = (self.params.model_of(place), &mut self.flows[place]);
        if flow.socket.is_none() {
            // The places of a model are apart by the number of models, so that no two flows have one port.
            let flows = place as u64 + self.params.pool as u64 * u64::from(flow.number);
            flow.socket = Some(self.from.udp(port_of(model, flows), LOOK)?);
        }
        let packet = written(&mut self.packet, [model as u32, place as u32, flow.number], bytes);
        let now = Instant::now();
        if flow.socket.as_ref().is_some_and(|socket| socket.send_to(packet, self.to).is_ok()) {
            let tally = &mut self.sent.models[model];
            tally.sent += 1;
            tally.sent_bytes += u64::from(bytes);
            if let Some(last) = flow.last.replace(now) {
                tally.generated.add(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
            }
        }
        Ok(())
    }
}

/// Writes the head of a packet of so many wire bytes, and returns its data.
fn written(packet: &mut [u8], head: [u32; 3], wire: u32) -> &[u8] {
    for (word, value) in packet.chunks_exact_mut(4).zip(head) {
        word.copy_from_slice(&value.to_be_bytes());
    }
    let length = (wire.saturating_sub(ETHERNET + HEADERS) as usize).clamp(HEAD, LONGEST);
    &packet[..length]
}
