//! `sluice demo --web`: a broker over the testbed that listens for browsers, and the figures of the last seconds, which the
//! demonstration reports to it as it goes.

use crate::video::rtp::{self, RtpPacket};
use crate::video::show::{self, Shown};
use bed::Bed;
use bed::broker_up;
use bed::error::Error;
use bed::patience::Patience;
use bed::testbed::UpOptions;
use broker_service::client::{BrokerClient, BrokerEndpoint};
use documents::overview::ReadingWish;
use std::net::SocketAddr;
use terms::{Rate, Span, Time};

/// The time over which the figures are counted.
const OVER: Span = Span::from_secs(2);
/// Packets and pictures of the last moment are still on their way.
const LATE: Span = Span::from_millis(300);

/// The broker of a demonstration.
pub struct DemoPages {
    client: BrokerClient,
    link: String,
}

impl DemoPages {
    /// Starts a broker over the testbed; it goes with the testbed.
    ///
    /// # Errors
    /// It does not start, or gives no ticket.
    pub fn open(bed: &Bed, up: &UpOptions, at: SocketAddr, patience: &Patience) -> Result<DemoPages, Error> {
        let broker = broker_up::start(bed.name(), bed.nodes(), up, Some(at), patience);
        let broker = broker.map_err(|error| Error::Testbed(error.to_string()))?;
        let client = BrokerClient::new(BrokerEndpoint::Socket(broker.socket));
        let ticket = client.ticket().map_err(|error| Error::Testbed(error.to_string()))?;
        Ok(DemoPages { client, link: ticket.address })
    }

    /// The link that signs a browser in.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Reports the last seconds. The pictures are for people: what cannot be told is left out.
    pub fn tell(&self, now: Time, shown: &[Shown], came: &[RtpPacket], flood: Rate, reserved: bool) {
        let until = now.saturating_sub(LATE);
        let from = until.saturating_sub(OVER);
        let screen = show::screen(shown, from, until);
        let tally = rtp::tally(came, from, until);
        // If nothing came there are no gaps to count.
        let loss = if tally.expected == 0 { 1.0 } else { tally.loss() };
        let mbps = |bits: f64| bits / 1e6;
        let seconds = OVER.as_nanos() as f64 / 1e9;
        let rows = [
            ("video: frames per second", screen.fps, "/s"),
            ("video: packets lost", loss * 100.0, "%"),
            ("video: received", mbps(tally.bytes.get() as f64 * 8.0 / seconds), "Mbit/s"),
            ("flood: offered", mbps(flood.as_bps() as f64), "Mbit/s"),
            ("video: reserved", f64::from(u8::from(reserved)), "of 1"),
        ];
        for (name, value, unit) in rows {
            let _ = self.client.report(name, &ReadingWish { value, unit: unit.to_owned() });
        }
    }
}
