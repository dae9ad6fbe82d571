//! The worst that a token bucket allows: the whole bucket at once, then nothing until it is full again.

use bed::host::Host;
use linux::error::SystemError;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use terms::{Bytes, Rate};

/// Bytes of IP and UDP header.
const HEADERS: u32 = 28;

/// A sender at work. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct GreedySource {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl GreedySource {
    /// Sends so many numbered packets of a length (IP header included), in bursts of the bucket, which fills at the rate.
    pub(super) fn start(
        from: &Host,
        to: (Ipv4Addr, u16),
        packets: u64,
        (packet, burst, rate): (u32, u32, Rate),
    ) -> Result<GreedySource, SystemError> {
        let socket = from.udp(to.1, Duration::from_millis(50))?;
        socket.connect(SocketAddr::from(to)).map_err(SystemError::doing("send the reserved flow"))?;
        let [stop, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (told, ended) = (stop.clone(), done.clone());
        let refill = Duration::from_nanos(rate.span_for(Bytes::new(u64::from(packet * burst))).as_nanos());
        let thread = std::thread::Builder::new().name("greedy".into()).spawn(move || {
            send(&socket, packets, (packet, burst), refill, &told);
            ended.store(true, Relaxed);
        });
        let thread = thread.map_err(SystemError::doing("start a thread"))?;
        Ok(GreedySource { stop, done, thread: Some(thread) })
    }

    /// True if all packets were sent.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }
}

impl Drop for GreedySource {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has already been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn send(socket: &UdpSocket, packets: u64, (packet, burst): (u32, u32), refill: Duration, stop: &AtomicBool) {
    let mut payload = vec![0x55; packet.saturating_sub(HEADERS) as usize];
    let mut number = 0u64;
    while number < packets && !stop.load(Relaxed) {
        for _ in 0..burst {
            payload[..8].copy_from_slice(&number.to_be_bytes());
            // What the local queue does not take was never sent: the number comes again.
            if number < packets && socket.send(&payload).is_ok() {
                number += 1;
            }
        }
        // From the last packet on, so that the bucket is full at the next burst, however long this one took.
        let next = Instant::now() + refill;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
