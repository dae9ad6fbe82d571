//! The foreground flows of Figures 4 and 5, one after the other: UDP at a constant rate, or greedy TCP, as the seed's ttcp.

use super::garnet::Garnet;
use super::tcp_flow::TcpFlow;
use bed::cbr::Cbr;
use bed::error::Error;
use documents::book::FlowDoc;
use terms::Rate;

/// Length of a packet of UDP, IP header included.
const UDP_PACKET: u32 = 1_400;
/// Length of a full packet of TCP.
const TCP_PACKET: u32 = 1_500;
const PORT: u16 = 7_000;
const UDP: u8 = 17;

/// The source of the foreground flows.
pub enum ForegroundSource<'a> {
    /// UDP at the rate that each flow has.
    Paced {
        /// The testbed.
        garnet: &'a Garnet,
        /// The sender, silent between the flows.
        sender: Cbr,
    },
    /// A TCP connection for each flow, which sends what the path accepts.
    Greedy {
        /// The testbed.
        garnet: &'a Garnet,
        /// The present connection.
        flow: Option<TcpFlow>,
        /// The IP bytes that earlier connections brought to the receiver.
        before: u64,
    },
}

impl<'a> ForegroundSource<'a> {
    /// Prepares the source. It sends nothing yet.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn new(garnet: &'a Garnet, greedy: bool) -> Result<ForegroundSource<'a>, Error> {
        Ok(match greedy {
            true => ForegroundSource::Greedy { garnet, flow: None, before: 0 },
            false => ForegroundSource::Paced { garnet, sender: garnet.flow(PORT, UDP_PACKET)? },
        })
    }

    /// Returns the length of its packets, IP header included.
    pub fn packet(&self) -> u32 {
        match self {
            ForegroundSource::Paced { .. } => UDP_PACKET,
            ForegroundSource::Greedy { .. } => TCP_PACKET,
        }
    }

    /// Prepares the next flow and returns its binding. It sends nothing yet.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn prepare(&mut self) -> Result<FlowDoc, Error> {
        match self {
            ForegroundSource::Paced { garnet, .. } => {
                let [src, dst] = garnet.addresses()?.map(Some);
                Ok(FlowDoc { src, dst, protocol: Some(UDP), src_port: Some(PORT), dst_port: Some(PORT) })
            }
            ForegroundSource::Greedy { garnet, flow, .. } => {
                let made = garnet.greedy(PORT)?;
                let binding = made.binding();
                *flow = Some(made);
                Ok(binding)
            }
        }
    }

    /// Lets the prepared flow send; UDP at this rate.
    pub fn begin(&self, rate: Rate) {
        match self {
            ForegroundSource::Paced { sender, .. } => sender.set_rate(rate),
            ForegroundSource::Greedy { flow, .. } => flow.iter().for_each(TcpFlow::begin),
        }
    }

    /// Ends the present flow.
    pub fn end(&mut self) {
        match self {
            ForegroundSource::Paced { sender, .. } => sender.set_rate(Rate::ZERO),
            ForegroundSource::Greedy { flow, before, .. } => {
                *before += flow.take().map_or(0, |flow| flow.received());
            }
        }
    }

    /// Returns the IP bytes that UDP has sent, or TCP has brought to the receiver.
    pub fn bytes(&self) -> u64 {
        match self {
            ForegroundSource::Paced { sender, .. } => sender.count().sent * u64::from(UDP_PACKET),
            ForegroundSource::Greedy { flow, before, .. } => before + flow.as_ref().map_or(0, TcpFlow::received),
        }
    }

    /// Returns the IP bytes that have come to the receiver.
    pub fn delivered(&self) -> u64 {
        match self {
            ForegroundSource::Paced { sender, .. } => sender.count().received_bytes,
            ForegroundSource::Greedy { .. } => self.bytes(),
        }
    }
}
