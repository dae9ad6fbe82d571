//! A scheduler with its queues, for benchmarks: who comes, who goes.
//!
//! *Backlogged*: every class always holds packets; what goes out is replaced. *Drained*: 32 packets come for random
//! classes, then all go out, so classes become active and idle all the time.

use bench::Draw;
use std::hint::black_box;
use terms::{Bytes, Span, Time};
use traffic::plan::QueueSpec;
use traffic::queue::{Fifo, Pool};
use traffic::scheduler::{Scheduler, SchedulerClass};

/// Bytes of a packet.
pub const LEN: u32 = 1500;
/// A packet on a link of 10 Gb/s.
const GAP: Span = Span::from_nanos(1200);

/// A scheduler with its queues.
pub struct Plane {
    scheduler: Box<dyn Scheduler>,
    nodes: Vec<SchedulerClass>,
    queues: Vec<Fifo>,
    pool: Pool<u64>,
    order: Vec<u32>,
    next: usize,
    now: Time,
}

impl Plane {
    /// The scheduler's classes in `nodes`, all empty.
    pub fn new(scheduler: Box<dyn Scheduler>, nodes: Vec<SchedulerClass>) -> Plane {
        let spec = QueueSpec { packets: 64, bytes: Bytes::MAX };
        let last = nodes.iter().map(|n| n.0).max().unwrap_or(0);
        let queues = vec![Fifo::new(spec); last as usize + 1];
        let mut pool = Pool::new(1 << 20);
        pool.reserve(1 << 19);
        Plane { scheduler, nodes, queues, pool, order: Vec::new(), next: 0, now: Time::ZERO }
    }

    /// Draws the order of arrivals; *backlogged*: gives each class two packets.
    pub fn prepare(&mut self, classes: u32, backlogged: bool) {
        let mut draw = Draw::new(7);
        self.order = (0..1 << 16).map(|_| draw.next_u32() % classes).collect();
        if backlogged {
            for i in 0..self.nodes.len() {
                for _ in 0..2 {
                    self.enqueue(self.nodes[i]);
                }
            }
        }
    }

    fn enqueue(&mut self, node: SchedulerClass) {
        let queue = &mut self.queues[node.0 as usize];
        let was_empty = queue.is_empty();
        queue.push(&mut self.pool, LEN, 1).expect("room");
        if was_empty {
            self.scheduler.backlogged(self.now, node, LEN);
        }
    }

    fn dequeue(&mut self) -> Option<SchedulerClass> {
        let node = self.scheduler.choose(self.now)?;
        let queue = &mut self.queues[node.0 as usize];
        black_box(queue.pop(&mut self.pool));
        let next = queue.head_bytes(&self.pool);
        self.scheduler.served(self.now, node, LEN, next);
        self.now = self.now + GAP;
        Some(node)
    }

    /// Enqueues and dequeues so many packets.
    pub fn run(&mut self, packets: u64, backlogged: bool) {
        if backlogged {
            for _ in 0..packets {
                match self.dequeue() {
                    Some(node) => self.enqueue(node),
                    None => self.now = self.now + GAP,
                }
            }
            return;
        }
        for _ in 0..packets / 32 {
            for _ in 0..32 {
                let node = self.nodes[self.order[self.next] as usize];
                self.next = (self.next + 1) % self.order.len();
                self.enqueue(node);
            }
            let mut out = 0;
            while out < 32 {
                match self.dequeue() {
                    Some(_) => out += 1,
                    None => self.now = self.now + GAP,
                }
            }
        }
    }
}
