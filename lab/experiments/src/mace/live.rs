//! Runs on real packets, side by side, each on a testbed of its own.

use super::sink::MaceSink;
use super::site::{CROWD, DESTINATION, MaceSite, TESTING};
use super::source::SourceThread;
use crate::experiment::RunOptions;
use bed::error::Error;
use bed::scratch;
use bed::testbed::UpOptions;
use sim::mace::QueueCounts;
use sim::mace::{MaceOutcome, Params, SourceTally, TrafficPart};
use std::time::{Duration, Instant};
use terms::Span;

/// The time from the start of all to that of the background, and from there to that of the flows: it fills the queue.
const LEAD: Duration = Duration::from_millis(300);
/// The time in which the last packets come.
const LAST: Duration = Duration::from_millis(1_500);
/// The longest delay of a packet at its source: what is later than this was not the load that was asked for.
const LATE: Duration = Duration::from_secs(1);
/// Questions to an agent before the run is given up.
const TRIES: usize = 4;
const LOOK: Duration = Duration::from_millis(200);

/// Plays runs side by side.
///
/// # Errors
/// A testbed does not come up; or the machine could not send the load, or count it: the run is void then.
pub(crate) fn play(all: &[Params], options: &RunOptions, said: &str) -> Result<Vec<MaceOutcome>, Error> {
    let up = UpOptions::usual()?;
    bed::Bed::possible()?;
    // Without the right to it the machine's other work may hold senders up.
    let _ = linux::process::go_first();
    scratch::sweep(&up.testbeds);
    let mut stands = Vec::new();
    for (n, params) in all.iter().enumerate() {
        options.patience.check()?;
        if options.progress {
            eprint!("\r{said}: testbed {} of {}      ", n + 1, all.len());
        }
        stands.push((MaceSite::up(params, &up)?, params));
    }
    let begin = Instant::now() + LEAD;
    let mut runs = Vec::new();
    for (site, params) in &stands {
        runs.push(LiveRun::start(site, params, begin)?);
    }
    let length = runs.iter().map(|run| run.length).max().unwrap_or_default();
    while runs.iter().any(|run| !run.is_done()) {
        runs.iter_mut().try_for_each(LiveRun::look)?;
        if options.progress {
            let seconds = begin.elapsed().as_secs();
            eprint!("\r{said}: {} runs side by side, {seconds} of {} s ", all.len(), length.as_secs());
        }
        options.patience.wait(LOOK)?;
    }
    options.patience.wait(LAST)?;
    if options.progress {
        eprintln!();
    }
    runs.into_iter().map(LiveRun::end).collect()
}

/// Asks again what a busy machine did not answer in time.
fn patiently<T>(ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    (1..TRIES).find_map(|_| ask().ok()).map_or_else(&ask, Ok)
}

/// A run that goes on.
struct LiveRun<'a> {
    site: &'a MaceSite,
    params: &'a Params,
    begin: Instant,
    length: Duration,
    sources: [SourceThread; 2],
    sink: MaceSink,
    /// The numbers of promoted flows from the end of the warm-up on, one a sampling period.
    promoted: Vec<usize>,
    next: Duration,
    /// The counters at the end of the warm-up.
    warm: Option<[QueueCounts; 2]>,
    answers: (u64, u64),
}

impl<'a> LiveRun<'a> {
    fn start(site: &'a MaceSite, params: &'a Params, begin: Instant) -> Result<LiveRun<'a>, Error> {
        let destination = site.host(DESTINATION)?;
        let sink = MaceSink::start(&destination, params)?;
        // The background begins earlier and ends with the flows.
        let longer = Params { duration: params.duration + Span::from_nanos(LEAD.as_nanos() as u64), ..params.clone() };
        let source = |name, part, begin| -> Result<SourceThread, Error> {
            let params = if part == TrafficPart::Background { &longer } else { params };
            Ok(SourceThread::start(site.host(name)?, destination.address, params, part, begin)?)
        };
        let sources =
            [source(TESTING, TrafficPart::Pool, begin + LEAD)?, source(CROWD, TrafficPart::Background, begin)?];
        let length = LEAD + Duration::from_nanos(params.duration.as_nanos());
        let next = Duration::from_nanos(params.warm_up.as_nanos()) + LEAD;
        Ok(LiveRun {
            site,
            params,
            begin,
            length,
            sources,
            sink,
            promoted: Vec::new(),
            next,
            warm: None,
            answers: (0, 0),
        })
    }

    fn is_done(&self) -> bool {
        self.sources.iter().all(SourceThread::is_done)
    }

    /// Asks the router once a period, from the end of the warm-up on.
    fn look(&mut self) -> Result<(), Error> {
        if self.begin.elapsed() < self.next {
            return Ok(());
        }
        self.next += Duration::from_nanos(self.params.sampling.as_nanos());
        if self.warm.is_none() {
            self.warm = Some(patiently(|| self.site.classes())?);
        }
        if let Some(doc) = patiently(|| self.site.mace())? {
            self.promoted.push(doc.promoted);
            self.answers = (doc.counts.admitted, doc.counts.refused);
        }
        Ok(())
    }

    fn end(self) -> Result<MaceOutcome, Error> {
        let counted = patiently(|| self.site.classes())?;
        let [pool, crowd] = self.sources;
        let (pool, crowd) = (pool.end()?, crowd.end()?);
        let latest = pool.latest().max(crowd.latest());
        if latest > LATE {
            return Err(Error::Void(format!("a packet was sent {latest:?} late: other work has the processors")));
        }
        let came = self.sink.end();
        let came = came.ok_or_else(|| Error::Void("the capture at the destination missed packets".into()))?;
        let joined =
            |(sent, came): (SourceTally, SourceTally)| SourceTally { came: came.came, arrived: came.arrived, ..sent };
        let models = pool.models().iter().cloned().zip(came.models().iter().cloned()).map(joined).collect();
        let warm = self.warm.unwrap_or_default();
        let seconds = (self.params.duration.as_nanos() - self.params.warm_up.as_nanos()) as f64 / 1e9;
        let since = |n: usize| QueueCounts {
            offered: counted[n].offered - warm[n].offered,
            dropped: counted[n].dropped - warm[n].dropped,
            sent: counted[n].sent - warm[n].sent,
            sent_bytes: counted[n].sent_bytes - warm[n].sent_bytes,
            ..QueueCounts::default()
        };
        let levels = [since(0), since(1)];
        let sent = levels[0].sent_bytes as f64 * 8.0 / seconds.max(1e-9);
        let mut promoted = self.promoted;
        promoted.sort_unstable();
        Ok(MaceOutcome {
            utilisation: 100.0 * sent / self.params.allocated.as_bps().max(1) as f64,
            flows: promoted.iter().sum::<usize>() as f64 / promoted.len().max(1) as f64,
            median_flows: promoted.get(promoted.len() / 2).copied().unwrap_or(0),
            most_flows: promoted.last().copied().unwrap_or(0),
            answers: self.answers,
            levels,
            models,
            background: (crowd.crowd(), crowd.crowd().saturating_sub(came.crowd())),
            ..MaceOutcome::default()
        })
    }
}
