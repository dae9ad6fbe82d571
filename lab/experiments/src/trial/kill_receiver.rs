//! The receiver's agent is killed. The last router keeps the reservation for its lifetime after the last
//! refresh that it received, never less, and tears upstream; one round trip later every ledger is empty,
//! while path state stays as long as the sender refreshes it (RFC 2205 sections 3.7 and 3.1.6).

use super::{ReservedTrial, kill, slots};
use bed::error::Error;
use bed::patience::Patience;
use bed::{Bed, CARRIERS, FAR, RECEIVER};
use documents::agent::{Answer, Request};
use linux::clock::Clock;
use rpc::client::Client;
use serde::Serialize;
use std::time::{Duration, Instant};
use terms::{Rate, Span};

const RATE: Rate = Rate::from_kbps(3_300);
const PORT: u16 = 6_005;
/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The results, milliseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KillReceiver {
    /// The least lifetime: (K + 0.5) x 1.5 x R with K = 3.
    pub lifetime_ms: f64,
    /// The time from the last Resv at the last router to the end of its reservation. It is the upper bound,
    /// so a value below the lifetime is certainly an early end.
    pub lived_ms: f64,
    /// The largest error of `lived_ms`.
    pub uncertainty_ms: f64,
    /// The time from there until every ledger was empty.
    pub emptied_ms: f64,
    /// The number of path states at the last router afterwards.
    pub path_states: usize,
}

/// Runs the trial on a testbed whose RSVP refreshes every `refresh`.
///
/// # Errors
/// The reservation fails, never expires, or the user stops the run.
pub fn run(bed: &Bed, refresh: Span, patience: &Patience) -> Result<KillReceiver, Error> {
    let stream = ReservedTrial::start(bed, PORT, RATE, Clock::start())?;
    let mut far = bed.client(FAR)?;
    let mut watch = Watch::start(&mut far)?;
    // A refresh or two, so that it is a refresh that is the last.
    let warm = Instant::now() + Duration::from_nanos(refresh.as_nanos() * 2);
    while Instant::now() < warm {
        patience.check()?;
        watch.look(&mut far)?;
    }
    kill(bed, RECEIVER)?;
    let lifetime = Duration::from_nanos(refresh.as_nanos() / 4 * 21);
    let deadline = Instant::now() + lifetime * 3;
    let gone = loop {
        patience.check()?;
        if watch.look(&mut far)? == 0 {
            break Instant::now();
        }
        if Instant::now() > deadline {
            return Err(Error::Void(format!("{FAR} still holds the reservation after {:?}", lifetime * 3)));
        }
    };
    let emptied = wait_until_empty(bed, patience)?;
    let path_states = match far.call(Request::Senders(Default::default()))? {
        Answer::Senders(rows) => rows.iter().filter(|row| row.session == stream.flow.session).count(),
        _ => 0,
    };
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    Ok(KillReceiver {
        lifetime_ms: ms(lifetime),
        lived_ms: ms(gone - watch.last_resv),
        uncertainty_ms: ms(watch.longest * 2),
        emptied_ms: ms(emptied - gone),
        path_states,
    })
}

/// Polls the last router for the arrival of Resv messages.
struct Watch {
    messages: u64,
    /// A time before which the last Resv did not arrive.
    last_resv: Instant,
    before: Instant,
    /// The longest time between two looks.
    longest: Duration,
}

impl Watch {
    fn start(far: &mut Client) -> Result<Watch, Error> {
        let now = Instant::now();
        Ok(Watch { messages: resv_messages(far)?, last_resv: now, before: now, longest: Duration::ZERO })
    }

    /// Returns the number of slots in use.
    fn look(&mut self, far: &mut Client) -> Result<usize, Error> {
        std::thread::sleep(LOOK);
        let begin = Instant::now();
        let messages = resv_messages(far)?;
        if messages != self.messages {
            // It came after the look before this one.
            (self.messages, self.last_resv) = (messages, self.before);
        }
        let held = slots(far)?;
        self.longest = self.longest.max(self.before.elapsed());
        self.before = begin;
        Ok(held)
    }
}

fn resv_messages(client: &mut Client) -> Result<u64, Error> {
    match client.call(Request::Counters)? {
        Answer::Counters(rows) => Ok(rows.iter().find(|row| row.name == "Resv").map_or(0, |row| row.received)),
        other => Err(Error::Void(format!("an agent answered {other:?} when asked for its counters"))),
    }
}

fn wait_until_empty(bed: &Bed, patience: &Patience) -> Result<Instant, Error> {
    let mut clients = CARRIERS.iter().map(|name| bed.client(name)).collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now();
    loop {
        patience.check()?;
        let mut held = 0;
        for client in &mut clients {
            held += slots(client)?;
        }
        if held == 0 {
            return Ok(Instant::now());
        }
        if begin.elapsed() > Duration::from_secs(5) {
            return Err(Error::Void("ledgers still hold the reservation 5 s after its end".into()));
        }
    }
}

impl std::fmt::Display for KillReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the reservation lived {:.0} ms after its last refresh (known to {:.0} ms; lifetime {:.0} ms); every ledger \
             was empty {:.1} ms later; {} path state remains",
            self.lived_ms, self.uncertainty_ms, self.lifetime_ms, self.emptied_ms, self.path_states
        )
    }
}

impl KillReceiver {
    /// Returns the expected results that did not appear, in words. `slack_ms` is the delay that this
    /// machine's scheduling may add.
    pub fn shortfalls(&self, slack_ms: f64) -> Vec<String> {
        let mut found = Vec::new();
        if self.lived_ms < self.lifetime_ms {
            found.push(format!("the reservation expired early: {self:?}"));
        }
        if self.lived_ms > self.lifetime_ms + self.uncertainty_ms + slack_ms {
            found.push(format!("the reservation lived too long: {self:?}"));
        }
        if self.emptied_ms > slack_ms {
            found.push(format!("the ledgers were not empty a round trip later: {self:?}"));
        }
        if self.path_states == 0 {
            found.push(format!("the path state went: {self:?}"));
        }
        found
    }
}
