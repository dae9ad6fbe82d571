//! The traffic that leaves the premium interface, second by second: per class, IP bytes, header included.

use bed::error::Error;
use linux::netlink::Socket;
use linux::netns::Namespace;
use std::time::{Duration, Instant};
use terms::IfIndex;
use traffic::plan::ClassId;

/// Bytes of link header that the kernel counts with each packet.
const ETHERNET: u64 = 14;
/// The longest time in which a reading counts as instantaneous, and the number of attempts.
const AT_ONCE: Duration = Duration::from_micros(400);
const TRIES: usize = 25;
/// The length below which a second began late.
const SHORT: Duration = Duration::from_millis(750);

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MeterReading {
    /// The time of the reading.
    pub at: Instant,
    /// IP bytes of the foreground class.
    pub foreground: u64,
    /// IP bytes of the background class.
    pub background: u64,
    /// IP bytes of best effort.
    pub best_effort: u64,
    /// IP bytes that the foreground's sender has sent.
    pub offered: u64,
}

/// The rates in one second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Second {
    /// Foreground, Mb/s of IP bytes.
    pub foreground: f64,
    /// Background, Mb/s of IP bytes.
    pub background: f64,
    /// Best effort, Mb/s of IP bytes.
    pub best_effort: f64,
    /// The foreground sender's rate, Mb/s of IP bytes.
    pub offered: f64,
    /// The length of the interval, seconds.
    pub length: f64,
}

impl Second {
    /// Computes the rates between two readings.
    pub fn between(before: &MeterReading, after: &MeterReading) -> Second {
        let length = after.at.duration_since(before.at).as_secs_f64().max(1e-9);
        // A class that came anew has counted from zero.
        let rate = |before: u64, after: u64| {
            after.saturating_sub(if after < before { 0 } else { before }) as f64 * 8e-6 / length
        };
        Second {
            foreground: rate(before.foreground, after.foreground),
            background: rate(before.background, after.background),
            best_effort: rate(before.best_effort, after.best_effort),
            offered: rate(before.offered, after.offered),
            length,
        }
    }
}

/// Computes the rates of each second. A late reading, on a busy machine, would leave almost nothing for the
/// second that follows; such seconds are merged into one rate.
pub fn seconds(readings: &[MeterReading]) -> Vec<Second> {
    let mut all: Vec<Second> = readings.windows(2).map(|pair| Second::between(&pair[0], &pair[1])).collect();
    for n in 0..all.len() {
        let since = |from: usize| readings[n + 1].at.duration_since(readings[from].at);
        let mut from = n;
        while from > 0 && since(from) < SHORT * (n + 1 - from) as u32 {
            from -= 1;
        }
        if from < n {
            let whole = Second::between(&readings[from], &readings[n + 1]);
            all[from..=n].fill(Second { length: whole.length / (n + 1 - from) as f64, ..whole });
        }
    }
    all
}

/// A reader of an interface's classes.
pub struct ClassMeter {
    socket: Socket,
    oif: IfIndex,
}

impl ClassMeter {
    /// Opens the meter of an interface in a namespace.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<ClassMeter, Error> {
        let opened = namespace.run(|| {
            let mut socket = Socket::open()?;
            let oif = socket.link_by_name(interface)?.index;
            Ok::<_, linux::netlink::Error>(ClassMeter { socket, oif })
        })?;
        opened.map_err(|error| Error::Void(format!("cannot read the classes of {interface}: {error}")))
    }

    /// Reads the counters, and `offered` at the same moment. Repeats a reading that the machine interrupted,
    /// because one of the two would be later than the other.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn read(&mut self, offered: impl Fn() -> u64) -> Result<MeterReading, Error> {
        let mut best: Option<(Duration, MeterReading)> = None;
        for _ in 0..TRIES {
            let (at, offered) = (Instant::now(), offered());
            let reading = self.read_once(at, offered)?;
            let took = at.elapsed();
            if best.as_ref().is_none_or(|(least, _)| took < *least) {
                best = Some((took, reading));
            }
            if took < AT_ONCE {
                break;
            }
        }
        best.map(|(_, reading)| reading).ok_or_else(|| Error::Void("nothing was read".into()))
    }

    fn read_once(&mut self, at: Instant, offered: u64) -> Result<MeterReading, Error> {
        let classes = self.socket.classes(self.oif);
        let classes = classes.map_err(|error| Error::Void(format!("cannot read the classes: {error}")))?;
        let of = |id: ClassId| {
            let class = classes.iter().find(|class| class.handle.minor() == id.0);
            class.map_or(0, |class| class.stats.bytes.saturating_sub(class.stats.packets * ETHERNET))
        };
        let (foreground, background) = (of(ClassId::PREMIUM), of(ClassId::BACKGROUND));
        Ok(MeterReading { at, foreground, background, best_effort: of(ClassId::BEST_EFFORT), offered })
    }
}

/// Returns the time until that second of the run begins.
pub fn until(begin: Instant, second: u32) -> Duration {
    (begin + Duration::from_secs(second.into())).saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reading_spoils_no_second() {
        let begin = Instant::now();
        // One byte a microsecond; the reading of second 2 comes at 2.999, that of 5 at 6.9 and that of 6 right after.
        let at = |micros: u64| MeterReading {
            at: begin + Duration::from_micros(micros),
            foreground: micros,
            background: micros / 1_000_000 * 1_000_000,
            best_effort: 0,
            offered: micros,
        };
        let readings = [0, 1_000_000, 2_999_000, 3_000_000, 4_000_000, 6_900_000, 6_900_010, 7_000_000].map(at);
        let seconds = seconds(&readings);
        assert_eq!(seconds.len(), 7);
        for second in &seconds {
            assert!((second.foreground - 8.0).abs() < 1e-6 && second.background > 4.0, "{seconds:?}");
        }
        let length: f64 = seconds.iter().map(|second| second.length).sum();
        assert!((length - 7.0).abs() < 1e-6, "{length}");
    }
}
