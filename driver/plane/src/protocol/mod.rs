//! The messages between an agent and a plane over the plane's socket.
//!
//! A stream of parts, each with four bytes in front: its length, and in the highest bit whether more parts of the same
//! message follow. A request is at most [`MAX_REQUEST`] bytes; an answer may be as long as the plan, in parts of
//! [`PART`] bytes. One request, one answer, in order.

pub(crate) mod coded;
mod plan;

use crate::delays::{ClassDelay, ErrorTerms};
use crate::recognition::{RecognisedFlows, WatchSpec};
use crate::way::WayCounters;
use coded::{Coded, Rest, record};
use std::io::{self, Read, Write};
use terms::{Fault, FlowKey, IfIndex, Span};
use traffic::plan::{ClassId, Plan, PlanOp};
use traffic::plane::PlaneCounters;

/// The version of the protocol; a peer with another is refused.
pub const VERSION: u32 = 1;
/// The longest request, bytes: about 15,000 operations.
pub const MAX_REQUEST: usize = 4 << 20;
/// The longest answer that a client takes, bytes.
const MAX_ANSWER: usize = 512 << 20;
/// The longest part.
const PART: usize = 1 << 20;
const MORE: u32 = 1 << 31;

/// A request of a client.
#[derive(Clone, PartialEq, Debug)]
pub enum PlaneRequest {
    /// Who the plane is and what it serves; first of all.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Carry out a batch, as a whole or not at all.
    Apply(Vec<PlanOp>),
    /// The plan as it is installed.
    Read,
    /// The counters of classes and flows.
    Counters,
    /// The state of each pair.
    Status,
    /// Recognise flows that never signalled at an interface. A plane of before does not know it.
    Watch {
        /// The interface.
        oif: IfIndex,
        /// The wish.
        watch: WatchSpec,
    },
    /// The flows that were recognised there, once.
    TakeRecognised {
        /// The interface.
        oif: IfIndex,
    },
    /// The flows of a class, each with the time since its last packet.
    Silences {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
    },
}

/// The plane's answer.
#[derive(Clone, PartialEq, Debug)]
pub enum PlaneAnswer {
    /// To a hello.
    Hello(PlaneHello),
    /// The batch, or the watch, is in force.
    Applied,
    /// The plan.
    Plan(Plan),
    /// The counters.
    Counters(PlaneCounters),
    /// The state of each pair.
    Status(Vec<PairStatus>),
    /// The flows that were recognised.
    Recognised(RecognisedFlows),
    /// The flows of a class.
    Silences(Vec<(FlowKey, Span)>),
    /// It failed, and nothing has changed.
    Fault(Fault),
}

/// The plane, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaneHello {
    /// [`VERSION`].
    pub version: u32,
    /// The number of its network namespace: indices of interfaces mean nothing in another.
    pub netns: u64,
    /// The interfaces that it serves.
    pub interfaces: Vec<ServedInterface>,
}

/// An interface whose packets pass the plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedInterface {
    /// Its index.
    pub index: IfIndex,
    /// Its name.
    pub name: String,
    /// The terms that it exports for guaranteed service; `None`: no delay bound was declared.
    pub terms: Option<ErrorTerms>,
    /// Packets that went later than those terms promised since the plane's start.
    pub beyond: u64,
}

/// A pair, its counters and its classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairStatus {
    /// The host's interface.
    pub interface: String,
    /// Its other end, where the plane reads.
    pub inside: String,
    /// The interface by which the plane sends.
    pub outside: String,
    /// Why nothing passes; `None`: it does.
    pub down: Option<String>,
    /// The two directions: out of the host, and into it.
    pub ways: [WayCounters; 2],
    /// Frames inside, in each direction.
    pub inside_now: [u64; 2],
    /// The delays of each class.
    pub classes: Vec<(ClassId, ClassDelay)>,
}

record!(ErrorTerms { c, d });
record!(PlaneHello { version, netns, interfaces });
record!(ServedInterface { index, name, terms, beyond });
record!(PairStatus { interface, inside, outside, down, ways, inside_now, classes });

impl Coded for PlaneRequest {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            PlaneRequest::Hello { version } => {
                to.push(0);
                version.put(to);
            }
            PlaneRequest::Apply(ops) => {
                to.push(1);
                ops.put(to);
            }
            PlaneRequest::Read => to.push(2),
            PlaneRequest::Counters => to.push(3),
            PlaneRequest::Status => to.push(4),
            PlaneRequest::Watch { oif, watch } => {
                to.push(5);
                oif.put(to);
                watch.put(to);
            }
            PlaneRequest::TakeRecognised { oif } => {
                to.push(6);
                oif.put(to);
            }
            PlaneRequest::Silences { oif, class } => {
                to.push(7);
                oif.put(to);
                class.put(to);
            }
        }
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => PlaneRequest::Hello { version: u32::take(from)? },
            1 => PlaneRequest::Apply(Vec::take(from)?),
            2 => PlaneRequest::Read,
            3 => PlaneRequest::Counters,
            4 => PlaneRequest::Status,
            5 => PlaneRequest::Watch { oif: IfIndex::take(from)?, watch: WatchSpec::take(from)? },
            6 => PlaneRequest::TakeRecognised { oif: IfIndex::take(from)? },
            7 => PlaneRequest::Silences { oif: IfIndex::take(from)?, class: ClassId::take(from)? },
            _ => return None,
        })
    }
}

impl Coded for PlaneAnswer {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            PlaneAnswer::Hello(hello) => {
                to.push(0);
                hello.put(to);
            }
            PlaneAnswer::Applied => to.push(1),
            PlaneAnswer::Plan(plan) => {
                to.push(2);
                plan.put(to);
            }
            PlaneAnswer::Counters(counters) => {
                to.push(3);
                counters.put(to);
            }
            PlaneAnswer::Status(pairs) => {
                to.push(4);
                pairs.put(to);
            }
            PlaneAnswer::Fault(fault) => {
                to.push(5);
                fault.put(to);
            }
            PlaneAnswer::Recognised(flows) => {
                to.push(6);
                flows.put(to);
            }
            PlaneAnswer::Silences(flows) => {
                to.push(7);
                flows.put(to);
            }
        }
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => PlaneAnswer::Hello(PlaneHello::take(from)?),
            1 => PlaneAnswer::Applied,
            2 => PlaneAnswer::Plan(Plan::take(from)?),
            3 => PlaneAnswer::Counters(PlaneCounters::take(from)?),
            4 => PlaneAnswer::Status(Vec::take(from)?),
            5 => PlaneAnswer::Fault(Fault::take(from)?),
            6 => PlaneAnswer::Recognised(RecognisedFlows::take(from)?),
            7 => PlaneAnswer::Silences(Vec::take(from)?),
            _ => return None,
        })
    }
}

/// Bytes as a value that takes all of them.
fn whole<T: Coded>(bytes: &[u8]) -> io::Result<T> {
    let mut rest = Rest(bytes);
    let value = T::take(&mut rest).filter(|_| rest.0.is_empty());
    value.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message that makes no sense"))
}

fn send(to: &mut impl Write, value: &impl Coded) -> io::Result<()> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    let mut parts = bytes.chunks(PART).peekable();
    while let Some(part) = parts.next() {
        let more = if parts.peek().is_some() { MORE } else { 0 };
        to.write_all(&(part.len() as u32 | more).to_le_bytes())?;
        to.write_all(part)?;
    }
    Ok(())
}

/// A message of at most `most` bytes; `None`: the peer closed before one began.
fn receive(from: &mut impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut head = [0; 4];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    loop {
        let head_of = u32::from_le_bytes(head);
        let len = (head_of & !MORE) as usize;
        if len == 0 || len > PART || bytes.len() + len > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
        }
        let start = bytes.len();
        bytes.resize(start + len, 0);
        from.read_exact(&mut bytes[start..])?;
        if head_of & MORE == 0 {
            return Ok(Some(bytes));
        }
        from.read_exact(&mut head)?;
    }
}

/// Sends a request.
///
/// # Errors
/// The peer is gone; or the request is longer than [`MAX_REQUEST`], and nothing was sent.
pub fn send_request(to: &mut impl Write, request: &PlaneRequest) -> io::Result<()> {
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    if bytes.len() > MAX_REQUEST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    send(to, request)
}

/// Receives a request; `None`: the peer closed in good order.
///
/// # Errors
/// The peer is gone, or what it says makes no sense.
pub fn receive_request(from: &mut impl Read) -> io::Result<Option<PlaneRequest>> {
    receive(from, MAX_REQUEST)?.map(|bytes| whole(&bytes)).transpose()
}

/// Sends an answer.
///
/// # Errors
/// The peer is gone.
pub fn send_answer(to: &mut impl Write, answer: &PlaneAnswer) -> io::Result<()> {
    send(to, answer)
}

/// Receives an answer.
///
/// # Errors
/// The peer is gone, or what it says makes no sense.
pub fn receive_answer(from: &mut impl Read) -> io::Result<PlaneAnswer> {
    let bytes = receive(from, MAX_ANSWER)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    whole(&bytes)
}

#[cfg(test)]
mod tests;
