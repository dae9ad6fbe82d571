//! A pipe of fixed delay between a sender and a receiver, without a simulator: what is dropped is said by number, and all that
//! is said and done is written down.

use sim::tcp::sender::SenderPhase;
use sim::tcp::{AckTiming, Blocks, Conduct, ONE, Segment, TcpReceiver, TcpSender};
use std::collections::VecDeque;
use terms::{Span, Time};

/// What is on its way.
#[derive(Clone, Copy)]
enum OnTheWay {
    Syn,
    SynAck,
    Data(u32),
    Ack(u32, Blocks),
}

pub struct Pipe {
    pub conduct: Conduct,
    pub sender: TcpSender,
    pub receiver: TcpReceiver,
    /// One way.
    delay: Span,
    /// From one segment to the next on the wire.
    spacing: Span,
    free: Time,
    pub now: Time,
    on_the_way: VecDeque<(Time, OnTheWay)>,
    back: VecDeque<(Time, OnTheWay)>,
    /// Segments whose first copies are dropped: so many of each.
    pub drops: Vec<(u32, u32)>,
    pub lines: Vec<String>,
    /// Acknowledgements that were sent.
    pub acks: u32,
}

impl Pipe {
    pub fn new(conduct: Conduct, segments: u32, drops: &[(u32, u32)]) -> Pipe {
        Pipe {
            conduct,
            sender: TcpSender::new(&conduct, segments),
            receiver: TcpReceiver::default(),
            delay: Span::from_millis(50),
            spacing: Span::from_millis(1),
            free: Time::ZERO,
            now: Time::ZERO,
            on_the_way: VecDeque::new(),
            back: VecDeque::new(),
            drops: drops.to_vec(),
            lines: Vec::new(),
            acks: 0,
        }
    }

    /// Plays until the sender has all acknowledged, or until then.
    pub fn play(&mut self, until: Time) {
        self.sender.open(self.now);
        self.say();
        while !self.sender.is_finished() {
            let heads = [self.on_the_way.front(), self.back.front()];
            let wakes = [self.sender.wake_at(), self.receiver.wake_at()];
            let next = heads.iter().flatten().map(|(at, _)| *at).chain(wakes).min().unwrap_or(Time::FOREVER);
            if next > until {
                return;
            }
            self.now = next;
            if let Some((_, what)) = due(&mut self.on_the_way, next) {
                self.reach_receiver(what);
            } else if let Some((_, what)) = due(&mut self.back, next) {
                self.reach_sender(what);
            } else if self.receiver.wake(next) {
                self.answer();
            } else {
                self.sender.wake(&self.conduct, next);
                self.line("timeout");
                self.say();
            }
        }
    }

    fn reach_receiver(&mut self, what: OnTheWay) {
        match what {
            OnTheWay::Syn => self.back.push_back((self.now + self.delay, OnTheWay::SynAck)),
            OnTheWay::Data(segment) => {
                if self.receiver.arrived(&self.conduct, self.now, segment).0 == AckTiming::Now {
                    self.answer();
                }
            }
            OnTheWay::SynAck | OnTheWay::Ack(..) => unreachable!("it goes the other way"),
        }
    }

    fn answer(&mut self) {
        self.acks += 1;
        let (ack, blocks) = self.receiver.acknowledgement();
        self.back.push_back((self.now + self.delay, OnTheWay::Ack(ack, blocks)));
    }

    fn reach_sender(&mut self, what: OnTheWay) {
        match what {
            OnTheWay::SynAck => self.sender.opened(&self.conduct, self.now),
            OnTheWay::Ack(ack, blocks) => {
                let before = self.sender.phase();
                self.sender.acknowledged(&self.conduct, self.now, ack, &blocks);
                let sacked: Vec<String> =
                    blocks.iter().filter(|block| block.1 > 0).map(|(a, b)| format!(" {a}-{}", b - 1)).collect();
                let turn = match (before, self.sender.phase()) {
                    (a, b) if a == b => String::new(),
                    (_, phase) => format!("  -> {phase:?}"),
                };
                let sack = if sacked.is_empty() { String::new() } else { format!(" sack{}", sacked.concat()) };
                self.line(&format!("ack {ack}{sack}{turn}"));
            }
            OnTheWay::Syn | OnTheWay::Data(_) => unreachable!("it goes the other way"),
        }
        self.say();
    }

    fn say(&mut self) {
        while let Some(segment) = self.sender.poll(&self.conduct, self.now) {
            let start = self.free.max(self.now);
            self.free = start + self.spacing;
            let at = self.free + self.delay;
            match segment {
                Segment::Syn => self.on_the_way.push_back((at, OnTheWay::Syn)),
                Segment::New(n) | Segment::Again(n) => {
                    let dropped = self.drops.iter_mut().find(|(segment, left)| *segment == n && *left > 0);
                    let fate = if dropped.is_some() { " (dropped)" } else { "" };
                    match dropped {
                        Some(drop) => drop.1 -= 1,
                        None => self.on_the_way.push_back((at, OnTheWay::Data(n))),
                    }
                    let again = if matches!(segment, Segment::Again(_)) { " again" } else { "" };
                    self.line(&format!("    send {n}{again}{fate}"));
                }
            }
        }
    }

    fn line(&mut self, what: &str) {
        let window = self.sender.window() as f64 / f64::from(ONE);
        let (pipe, phase) = (self.sender.board().pipe(), self.sender.phase());
        let state = match phase {
            SenderPhase::Closed | SenderPhase::Opening => String::new(),
            _ => format!("{:>9}{:>8.2}{:>6}", format!("{phase:?}"), window, pipe),
        };
        let millis = self.now.as_nanos() / 1_000_000;
        self.lines.push(format!("{millis:>6} {state:<23}  {what}").trim_end().to_string());
    }
}

fn due(queue: &mut VecDeque<(Time, OnTheWay)>, now: Time) -> Option<(Time, OnTheWay)> {
    let is_due = queue.front().is_some_and(|(at, _)| *at == now);
    if is_due { queue.pop_front() } else { None }
}
