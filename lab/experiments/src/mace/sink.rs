//! The destination counts packets, and the gaps between them by the kernel's stamps on the interface.

use super::site::PORT;
use super::source::{HEAD, OF_CROWD};
use bed::host::Host;
use linux::capture::Capture;
use linux::clock::Clock;
use linux::error::SystemError;
use sim::mace::{Params, SourceTally};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::Span;

/// The interval at which a waiting capture checks whether it should stop.
const LOOK: Span = Span::from_millis(50);

/// The packets that came.
#[derive(Clone, Debug)]
pub(super) struct Came {
    models: Vec<SourceTally>,
    crowd: u64,
    /// Packets that the capture itself missed: they make the run void.
    missed: u64,
}

impl Came {
    /// Returns the tally of each model.
    pub(super) fn models(&self) -> &[SourceTally] {
        &self.models
    }

    /// Returns the number of packets of the background.
    pub(super) fn crowd(&self) -> u64 {
        self.crowd
    }
}

/// A running capture.
pub(super) struct MaceSink {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Came>>,
    /// Holds the port, so that no sender hears that it is closed. It is not read.
    _socket: UdpSocket,
}

impl MaceSink {
    /// Starts to count at a host.
    pub(super) fn start(host: &Host, params: &Params) -> Result<MaceSink, SystemError> {
        let socket = host.udp(PORT, Duration::from_millis(50))?;
        let mut capture = host.namespace.run(|| Capture::udp_to(&host.interface, PORT, Clock::start()))??;
        let (stop, mut arrivals) = (Arc::new(AtomicBool::new(false)), Arrivals::new(params));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("mace-sink".into()).spawn(move || {
            // An interface that is gone ends the capture: what follows is missing, and that is seen.
            while let Ok(found) = capture.next(LOOK) {
                match found {
                    Some(frame) if !frame.outgoing => arrivals.take(frame.payload(), frame.stamp),
                    Some(_) => {}
                    None => {
                        arrivals.came.missed += capture.overrun().map_or(1, u64::from);
                        if told.load(Relaxed) {
                            break;
                        }
                    }
                }
            }
            arrivals.came
        });
        let thread = thread.map_err(SystemError::doing("start a thread"))?;
        Ok(MaceSink { stop, thread: Some(thread), _socket: socket })
    }

    /// Ends it. `None`: the capture itself has missed packets, so that its count is wrong.
    pub(super) fn end(mut self) -> Option<Came> {
        self.stop.store(true, Relaxed);
        // A panic there has already been reported by the panic hook.
        let came = self.thread.take().and_then(|thread| thread.join().ok());
        came.filter(|came| came.missed == 0)
    }
}

impl Drop for MaceSink {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Arrivals {
    came: Came,
    /// For each place the number of its flow, and when its last packet came, ns.
    last: Vec<(u32, u64)>,
}

impl Arrivals {
    fn new(params: &Params) -> Arrivals {
        let models = params.models.iter().map(|(model, _)| SourceTally::of(model.interval)).collect();
        Arrivals { came: Came { models, crowd: 0, missed: 0 }, last: vec![(u32::MAX, 0); params.pool] }
    }

    fn take(&mut self, payload: &[u8], stamp: u64) {
        let Some(head) = payload.get(..HEAD) else { return };
        let word = |n: usize| head[4 * n..].iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let (model, place, flow) = (word(0), word(1) as usize, word(2));
        if model == OF_CROWD {
            self.came.crowd += 1;
            return;
        }
        let Some(tally) = self.came.models.get_mut(model as usize) else { return };
        let Some(last) = self.last.get_mut(place) else { return };
        tally.came += 1;
        if last.0 == flow {
            tally.arrived.add(stamp.saturating_sub(last.1));
        }
        *last = (flow, stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{MaceLoad, Scenario};
    use super::*;

    #[test]
    fn gaps_are_those_within_a_flow() {
        let mut arrivals = Arrivals::new(&Scenario::One.params(MaceLoad::Together(130), true, true));
        let packet = |model: u32, place: u32, flow: u32| [model, place, flow].map(u32::to_be_bytes).concat();
        let ms = 1_000_000;
        arrivals.take(&packet(0, 0, 0), 10 * ms);
        arrivals.take(&packet(1, 1, 0), 20 * ms);
        arrivals.take(&packet(0, 0, 0), 51 * ms);
        arrivals.take(&packet(0, 0, 1), 60 * ms); // another flow
        arrivals.take(&packet(OF_CROWD, 3, 0), 61 * ms);
        arrivals.take(&packet(9, 0, 0), 62 * ms); // no such model
        arrivals.take(&packet(0, 99, 0), 62 * ms); // no such place
        arrivals.take(&[0; HEAD - 1], 62 * ms);
        let [listed, other] = &arrivals.came.models[..] else { panic!("two models") };
        assert_eq!((listed.came, other.came, arrivals.came.crowd), (3, 1, 1));
        assert_eq!((listed.arrived.all(), listed.arrived.near_share(), other.arrived.all()), (1, 1.0, 0));
    }
}
