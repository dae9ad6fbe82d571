//! `sluice profile bench`: a node as a black box, with the terms of RFC 4883 and the procedure of
//! draft-feher-bmwg-benchres-method: unloaded *signalling message handling time*; *maximum signalling burst*,
//! *maximum signalling load*, *maximum session load*, each the most at which the node is *loss-free*; then
//! handling time against load. Set-up and tear-down come in pairs, so that a load of messages leaves no load
//! of sessions; messages are equally spaced.
//!
//! A search doubles the load until messages are lost, and then halves the gap until it is an eighth or less.

use super::boundary::MessageName;
use super::sample::{Estimate, Samples};
use super::tester::{LifeMessage, Tester};
use super::transit::Protocol;
use bed::error::Error;
use bed::patience::Patience;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The limits of a benchmark.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlackboxPlan {
    /// The protocol of the tester's messages.
    pub protocol: Protocol,
    /// Samples of each handling time.
    pub repetitions: usize,
    /// The largest burst that is tried.
    pub most_burst: u64,
    /// The largest load that is tried, messages a second.
    pub most_load: u64,
    /// The most sessions that are tried.
    pub most_sessions: u64,
    /// The length of each load.
    pub lasting: Duration,
}

impl BlackboxPlan {
    /// Returns the usual plan, or a quick one.
    pub fn new(protocol: Protocol, quick: bool, most_sessions: u64) -> BlackboxPlan {
        match quick {
            true => BlackboxPlan {
                protocol,
                repetitions: 20,
                most_burst: 64,
                most_load: 400,
                most_sessions: most_sessions.min(200),
                lasting: Duration::from_millis(300),
            },
            false => BlackboxPlan {
                protocol,
                repetitions: 300,
                most_burst: 8_192,
                most_load: 100_000,
                most_sessions,
                lasting: Duration::from_secs(2),
            },
        }
    }
}

/// The largest load at which the node is loss-free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LossFreeLimit {
    /// The largest loss-free load.
    pub most: u64,
    /// The smallest load at which messages were lost; null if none was.
    pub lossy: Option<u64>,
}

/// The handling time of one kind of message under one load, us.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Handling {
    /// The load, messages per second or sessions.
    pub load: u64,
    /// The kind of message.
    pub message: String,
    /// The time in the node.
    pub us: Estimate,
    /// *Signalling message deficit*: the share of messages that the node did not pass on.
    pub deficit: f64,
}

/// The results of a benchmark.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct BlackboxResult {
    /// The protocol's name, RSVP or Boomerang.
    pub protocol: &'static str,
    /// Handling times without load.
    pub unloaded: Vec<Handling>,
    /// Maximum signalling burst: messages back to back.
    pub burst: Option<LossFreeLimit>,
    /// Maximum signalling load: messages a second.
    pub load: Option<LossFreeLimit>,
    /// Maximum session load: simultaneous sessions.
    pub sessions: Option<LossFreeLimit>,
    /// Handling time against signalling load.
    pub against_load: Vec<Handling>,
    /// Handling time against session load.
    pub against_sessions: Vec<Handling>,
}

impl BlackboxResult {
    /// Formats the results for people.
    pub fn text(&self, target: &str) -> String {
        let mut text = format!(
            "{} at {target}, a black box, by the words of RFC 4883: times from the entry of a message to the exit of what \
             it sets off\n\nSignalling message handling time, unloaded (us)\n{}\n",
            self.protocol,
            table(&self.unloaded, "")
        );
        let limits = [
            ("maximum signalling burst", self.burst, "messages back to back"),
            ("maximum signalling load", self.load, "messages a second"),
            ("maximum session load", self.sessions, "sessions"),
        ];
        let mut grid = TextTable::new(&[("loss-free up to", Align::Left), ("", Align::Right), ("", Align::Left)]);
        for (what, limit, unit) in limits {
            let Some(LossFreeLimit { most, lossy }) = limit else { continue };
            let lossy = lossy.map_or("; no more was tried".into(), |lossy| format!("; lossy at {lossy}"));
            grid.row([what.to_string(), most.to_string(), format!("{unit}{lossy}")]);
        }
        text += &format!("{grid}\nHandling time against signalling load (us)\n");
        text += &table(&self.against_load, "messages/s").to_string();
        text += "\nHandling time against session load (us)\n";
        text += &table(&self.against_sessions, "sessions").to_string();
        text
    }

    /// Formats the results as an object for scripts, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("an outcome is text and numbers"))
    }
}

fn table(of: &[Handling], load: &str) -> TextTable {
    let right = Align::Right;
    let head =
        [(load, right), ("message", Align::Left), ("median", right), ("95 %", right), ("n", right), ("deficit", right)];
    let mut grid = TextTable::new(&head);
    for Handling { load: at, message, us, deficit } in of {
        let at = if load.is_empty() { String::new() } else { at.to_string() };
        let (median, interval) = (format!("{:.1}", us.median), format!("{:.1} - {:.1}", us.low, us.high));
        grid.row([at, message.clone(), median, interval, us.n.to_string(), format!("{:.2} %", deficit * 100.0)]);
    }
    grid
}

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The load at which each search begins.
const LEAST: u64 = 16;
/// The pause between two messages without load.
const GAP: Duration = Duration::from_millis(2);
/// The number of sessions that are set up together.
const WINDOW: usize = 32;
/// The distance, in sessions, between consecutive messages of a session under load, so that each finds its
/// predecessor done.
const APART: u32 = 64;

/// A measurement in progress.
struct Run<'a> {
    tester: &'a mut Tester,
    plan: BlackboxPlan,
    patience: &'a Patience,
    next: u32,
}

/// Runs the benchmark.
///
/// # Errors
/// The node does not implement the protocol or lets no session through, or the user stops the run.
pub fn run(
    tester: &mut Tester,
    plan: BlackboxPlan,
    patience: &Patience,
    say: &mut dyn FnMut(String),
) -> Result<BlackboxResult, Error> {
    tester.begin();
    if plan.protocol == Protocol::Boomerang && !tester.is_aware(PATIENCE)? {
        let unread = "the node passes a Boomerang message on unread: it does not speak it on these interfaces";
        return Err(Error::Void(unread.into()));
    }
    let most = u64::from(tester.most(plan.protocol));
    let plan = BlackboxPlan {
        most_sessions: plan.most_sessions.min(most / 4),
        most_burst: plan.most_burst.min(most / 4),
        ..plan
    };
    let mut run = Run { tester, plan, patience, next: 0 };
    let mut found = BlackboxResult { protocol: plan.protocol.name(), ..BlackboxResult::default() };
    say("unloaded".into());
    found.unloaded = run.lives(0)?;
    let burst = &mut |burst| run.burst(burst);
    found.burst = Some(search(LEAST, plan.most_burst, burst, &mut |tried| {
        say(format!("maximum signalling burst: {tried}"));
    })?);
    let load = &mut |rate| run.load(rate).map(|(_, deficit)| deficit == 0.0);
    let load = search(LEAST, plan.most_load, load, &mut |tried| say(format!("maximum signalling load: {tried}")))?;
    found.load = Some(load);
    for share in [10, 50, 90] {
        let rate = (load.most * share / 100).max(1);
        say(format!("{rate} messages a second"));
        found.against_load.extend(run.load(rate)?.0);
    }
    let (limit, against) = run.sessions(say)?;
    found.sessions = Some(limit);
    found.against_sessions = against;
    Ok(found)
}

/// Searches for the largest load at which `holds` is true: doubles, then halves. A loss counts only if it
/// repeats at once, because on a busy machine a single one may be chance.
fn search(
    least: u64,
    most: u64,
    holds: &mut dyn FnMut(u64) -> Result<bool, Error>,
    say: &mut dyn FnMut(String),
) -> Result<LossFreeLimit, Error> {
    let mut try_it = |at: u64| {
        let held = holds(at)? || holds(at)?;
        say(format!("{at} {}", if held { "loss-free" } else { "lossy" }));
        Ok::<_, Error>(held)
    };
    let (mut good, mut bad) = (0, None);
    let mut next = least.min(most);
    while bad.is_none() && good < most {
        match try_it(next)? {
            true => good = next,
            false => bad = Some(next),
        }
        next = (next * 2).min(most);
    }
    while let Some(worst) = bad.filter(|worst| worst - good > good.div_ceil(8).max(1)) {
        let between = good.midpoint(worst);
        match try_it(between)? {
            true => good = between,
            false => bad = Some(between),
        }
    }
    Ok(LossFreeLimit { most: good, lossy: bad })
}

impl Run<'_> {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next % self.numbers()
    }

    /// Returns the limit of session numbers.
    fn numbers(&self) -> u32 {
        self.tester.most(self.plan.protocol) / 2
    }

    /// Plays whole lives of sessions, one message at a time.
    fn lives(&mut self, sessions: u64) -> Result<Vec<Handling>, Error> {
        let life = self.plan.protocol.life();
        let mut samples = vec![Samples::default(); life.len()];
        for _ in 0..self.plan.repetitions {
            self.patience.check()?;
            let n = self.fresh();
            for (part, samples) in life.iter().zip(&mut samples) {
                match self.tester.exchange(*part, n, PATIENCE)? {
                    Some(us) => samples.add(us, false),
                    None if samples.values.is_empty() => {
                        let what = format!("no {} comes through the node within {PATIENCE:?}", part.name());
                        return Err(Error::Void(what));
                    }
                    None => samples.discarded += 1,
                }
                std::thread::sleep(GAP);
            }
            self.tester.outer.forget();
        }
        Ok(handling(sessions, life.iter().zip(samples)))
    }

    /// Sends `burst` first messages back to back, and tears the sessions down. Returns true if all came
    /// through.
    fn burst(&mut self, burst: u64) -> Result<bool, Error> {
        self.patience.check()?;
        let (first, last) = self.ends();
        let who: Vec<u32> = (0..burst).map(|_| self.fresh()).collect();
        let came = self.all(first, &who)?;
        for some in who.chunks(WINDOW) {
            self.all(last, some)?;
        }
        self.tester.outer.forget();
        Ok(came)
    }

    /// Returns the first message of a session, and the one that removes all of it.
    fn ends(&self) -> (LifeMessage, LifeMessage) {
        let life = self.plan.protocol.life();
        (life[0], life[life.len() - 1])
    }

    /// Sends one message of each session, back to back. Returns true if all came through.
    fn all(&mut self, part: LifeMessage, who: &[u32]) -> Result<bool, Error> {
        for n in who {
            self.tester.say(part, *n)?;
        }
        self.tester.flush()?;
        let names: Vec<MessageName> = who.iter().map(|n| self.tester.name(part, *n)).collect();
        Ok(self.tester.wait(PATIENCE, |outer| names.iter().rev().all(|name| outer.has_left(name))))
    }

    /// Sends `rate` messages per second, equally spaced, set-ups and tear-downs in turn. Returns the handling
    /// times, and the share of messages that the node did not pass on.
    fn load(&mut self, rate: u64) -> Result<(Vec<Handling>, f64), Error> {
        let life = self.plan.protocol.life();
        // A Path must have come through before anything can be answered.
        self.lives_of_one()?;
        let count = (rate as f64 * self.plan.lasting.as_secs_f64()) as u64 / life.len() as u64;
        let count = count.max(8) as u32;
        let (first, numbers) = (self.next + 1, self.numbers());
        self.next += count;
        let begun = Instant::now();
        let mut sent = 0u64;
        for turn in 0..count + APART * (life.len() as u32 - 1) {
            if turn % 256 == 0 {
                self.patience.check()?;
            }
            for (place, part) in life.iter().enumerate() {
                let Some(at) = turn.checked_sub(APART * place as u32).filter(|at| *at < count) else { continue };
                let due = Duration::from_secs_f64(sent as f64 / rate as f64);
                while begun.elapsed() < due {
                    self.tester.outer.look();
                    std::thread::yield_now();
                }
                self.tester.say(*part, (first + at) % numbers)?;
                self.tester.flush()?;
                sent += 1;
            }
        }
        let achieved = sent as f64 / begun.elapsed().as_secs_f64();
        let mut found = Vec::new();
        let (mut all_entered, mut all_left) = (0, 0);
        for part in life {
            let who = (first..first + count).map(|n| n % numbers);
            let names: Vec<MessageName> = who.map(|n| self.tester.name(*part, n)).collect();
            self.tester.wait(PATIENCE, |outer| names.iter().rev().all(|name| outer.has_left(name)));
            let (entered, left) = self.tester.outer.count(names.iter());
            (all_entered, all_left) = (all_entered + entered, all_left + left);
            let values = names.iter().filter_map(|name| self.tester.outer.inside(name)).collect();
            let deficit = 1.0 - left as f64 / entered.max(1) as f64;
            let samples = Samples { values, discarded: 0 };
            if let Some(us) = samples.estimate(1) {
                found.push(Handling { load: rate, message: part.name(), us, deficit });
            }
        }
        self.tester.outer.forget();
        // A load that the tester itself cannot keep up is none that the node has stood.
        let kept_up = achieved > rate as f64 * 0.9;
        let deficit = 1.0 - all_left as f64 / all_entered.max(1) as f64;
        Ok((found, if kept_up { deficit } else { deficit.max(f64::MIN_POSITIVE) }))
    }

    fn lives_of_one(&mut self) -> Result<(), Error> {
        let n = self.fresh();
        for part in self.plan.protocol.life() {
            self.tester.exchange(*part, n, PATIENCE)?;
        }
        self.tester.outer.forget();
        Ok(())
    }

    /// Sets up all sessions of `some`. Returns true if the node admits all.
    fn set_up(&mut self, parts: &[LifeMessage], some: &[u32]) -> Result<bool, Error> {
        let mut in_place = true;
        for part in parts {
            in_place &= self.all(*part, some)?;
        }
        Ok(in_place)
    }

    /// Adds sessions until the node rejects some twice, with handling times on the way. Then tears all of
    /// them down.
    fn sessions(&mut self, say: &mut dyn FnMut(String)) -> Result<(LossFreeLimit, Vec<Handling>), Error> {
        let life = self.plan.protocol.life();
        let (set_up, tear) = life.split_at(life.len() / 2);
        let mut there: Vec<u32> = Vec::new();
        let mut lossy = None;
        let mut against = Vec::new();
        let marks = [0, 1, 4].map(|quarter| self.plan.most_sessions * quarter / 4);
        let mut marks = marks.into_iter().peekable();
        loop {
            if let Some(mark) = marks.next_if(|mark| there.len() as u64 >= *mark) {
                say(format!("maximum session load: {} are there", there.len()));
                let held = std::mem::take(&mut self.plan.repetitions);
                self.plan.repetitions = held.min(50);
                let found = self.lives(there.len() as u64);
                self.plan.repetitions = held;
                against.extend(found?);
                if mark >= self.plan.most_sessions {
                    break;
                }
                continue;
            }
            self.patience.check()?;
            let left = (self.plan.most_sessions as usize - there.len()).min(WINDOW);
            let mut some: Vec<u32> = (0..left).map(|_| self.fresh()).collect();
            let mut in_place = self.set_up(set_up, &some)?;
            if !in_place {
                // A loss that does not come again is chance.
                for part in tear {
                    self.all(*part, &some)?;
                }
                self.tester.outer.forget();
                some.fill_with(|| self.fresh());
                in_place = self.set_up(set_up, &some)?;
            }
            there.extend(&some);
            if !in_place {
                lossy = Some(there.len() as u64);
                break;
            }
            self.tester.outer.forget();
        }
        let most = if lossy.is_some() { there.len().saturating_sub(WINDOW) } else { there.len() } as u64;
        for some in there.chunks(WINDOW) {
            for part in tear {
                // What was not let in says nothing when it is torn down.
                let patient = lossy.is_none() || some.len() == WINDOW;
                if patient {
                    self.all(*part, some)?;
                }
            }
            self.tester.outer.forget();
        }
        Ok((LossFreeLimit { most, lossy }, against))
    }
}

fn handling<'a>(load: u64, of: impl Iterator<Item = (&'a LifeMessage, Samples)>) -> Vec<Handling> {
    let one = |(part, samples): (&LifeMessage, Samples)| {
        let (came, gone) = (samples.values.len(), samples.discarded);
        let deficit = gone as f64 / (came + gone).max(1) as f64;
        Some(Handling { load, message: part.name(), us: samples.estimate(1)?, deficit })
    };
    of.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_the_edge() {
        for edge in [16, 17, 100, 1_000] {
            let mut tried = 0;
            let mut holds = |load| Ok(load <= edge);
            let found = search(16, 4_096, &mut holds, &mut |_| tried += 1);
            let LossFreeLimit { most, lossy } = found.unwrap();
            assert!(most <= edge && edge < lossy.unwrap(), "{edge}: {most}");
            assert!(edge as f64 / most as f64 <= 1.13 && tried < 14, "{edge}: {most}, {tried} tries");
        }
        let quiet =
            |most, holds: &mut dyn FnMut(u64) -> Result<bool, Error>| search(16, most, holds, &mut |_| ()).unwrap();
        assert_eq!(quiet(400, &mut |_| Ok(true)), LossFreeLimit { most: 400, lossy: None });
        assert_eq!(quiet(400, &mut |_| Ok(false)), LossFreeLimit { most: 0, lossy: Some(1) });
        let mut hiccup = false;
        let once = &mut |_| {
            hiccup = !hiccup;
            Ok(!hiccup)
        };
        assert_eq!(
            quiet(64, once),
            LossFreeLimit { most: 64, lossy: None },
            "a loss that does not come again is chance"
        );
    }
}
