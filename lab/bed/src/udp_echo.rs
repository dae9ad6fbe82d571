//! The round-trip time between two hosts, by UDP echo over the path of the reservations.

use crate::error::Error;
use crate::host::Host;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes in a probe, about as many as in a Resv message.
const PROBE: usize = 100;
/// A probe that takes longer counts as lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// The number of lost probes from which on the path is too bad to measure.
const MOST_LOST: usize = 10;

/// Sends `count` probes to `port` of `to`, one after the other. Returns their round-trip times, sorted.
///
/// # Errors
/// The path loses too many probes.
pub fn round_trips(from: &Host, to: &Host, port: u16, count: usize) -> Result<Vec<Duration>, Error> {
    let mirror = to.udp(port, Duration::from_millis(50))?;
    let source = from.udp(0, PATIENCE)?;
    let target = SocketAddr::from((to.address, port));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0u8; 256];
            while !stop.load(Relaxed) {
                if let Ok((length, back)) = mirror.recv_from(&mut buffer) {
                    // A probe that cannot be answered is a lost one.
                    let _ = mirror.send_to(&buffer[..length], back);
                }
            }
        });
        let found = probe(&source, target, count);
        stop.store(true, Relaxed);
        found
    })
}

fn probe(source: &std::net::UdpSocket, target: SocketAddr, count: usize) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::with_capacity(count);
    let (mut lost, mut number) = (0, 0u64);
    while times.len() < count {
        number += 1;
        let mut probe = [0u8; PROBE];
        probe[..8].copy_from_slice(&number.to_be_bytes());
        let begin = Instant::now();
        let answered = source.send_to(&probe, target).and_then(|_| {
            loop {
                let mut answer = [0u8; PROBE];
                source.recv(&mut answer)?;
                if answer == probe {
                    break Ok(begin.elapsed());
                }
            }
        });
        match answered {
            Ok(time) => times.push(time),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && lost < MOST_LOST => {
                lost += 1;
            }
            Err(error) => return Err(Error::Void(format!("no echo from {target}: {error}"))),
        }
    }
    times.sort_unstable();
    Ok(times)
}
