//! Static senders and reservations in the configuration file.
//!
//! ```toml
//! [[static_sender]]
//! from = "10.0.0.1:5004"
//! to = "10.0.2.2:5004"
//! protocol = "udp"               # the default; or tcp, or a number
//! rate = "3mbit"                 # of IP bytes, headers included
//! burst = "64kb"                 # default: a quarter of a second at the rate, at least 8kb
//! peak = "10mbit"                # default: not bounded
//! min_unit = "64b"               # the default
//! max_packet = "1500b"           # the default
//! ttl = 64                       # of the data packets; the default
//!
//! [[static_reservation]]
//! session = "10.0.2.2:5004"
//! protocol = "udp"
//! style = "ff"                   # the default; or se, wf
//! senders = ["10.0.0.1:5004"]    # none for wf
//! rate = "3mbit"                 # and these four as above
//! burst = "64kb"
//! peak = "10mbit"
//! min_unit = "64b"
//! max_packet = "1500b"
//! service_rate = "4mbit"         # R: guaranteed service; left out: controlled load
//! ```

use crate::document::{Document, Mistake};
use crate::fields::unit;
use documents::agent::{FlowSpecDoc, SenderId, SessionId, StaticDoc, StyleDoc, TspecDoc};
use documents::units;
use serde::Deserialize;
use std::net::SocketAddr;
use terms::{Bytes, Rate};
use toml::Spanned;

/// The most statics of a node.
pub(crate) const MOST: usize = 4096;

type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SenderFile {
    from: Text,
    to: Text,
    protocol: Option<Text>,
    ttl: Option<u8>,
    rate: Text,
    burst: Option<Text>,
    peak: Option<Text>,
    min_unit: Option<Text>,
    max_packet: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReservationFile {
    session: Text,
    protocol: Option<Text>,
    #[serde(default)]
    senders: Vec<Text>,
    style: Option<StyleDoc>,
    service_rate: Option<Text>,
    rate: Text,
    burst: Option<Text>,
    peak: Option<Text>,
    min_unit: Option<Text>,
    max_packet: Option<Text>,
}

/// The token bucket of a sender or a reservation.
struct Traffic<'a> {
    rate: &'a Text,
    burst: &'a Option<Text>,
    peak: &'a Option<Text>,
    min_unit: &'a Option<Text>,
    max_packet: &'a Option<Text>,
}

/// Reads all statics of a file, senders first, with the checks of an application's calls.
pub(crate) fn read(
    document: &Document<'_>,
    senders: &[SenderFile],
    reservations: &[ReservationFile],
) -> Result<Vec<StaticDoc>, Mistake> {
    let mut all: Vec<StaticDoc> = Vec::new();
    let senders = senders.iter().map(|entry| (entry.to.span(), sender(document, entry)));
    let reservations = reservations.iter().map(|entry| (entry.session.span(), reservation(document, entry)));
    for (span, what) in senders.chain(reservations) {
        let what = what?;
        crate::calls::static_request(&what).map_err(|problem| document.at(span.clone(), problem.message))?;
        if all.iter().any(|known| known.is_of_same(&what)) {
            return Err(document.at(span, "the same sender, or a reservation of the same session, is there twice"));
        }
        all.push(what);
    }
    if all.len() > MOST {
        return Err(document.whole(format!("more than {MOST} static senders and reservations")));
    }
    Ok(all)
}

fn sender(document: &Document<'_>, entry: &SenderFile) -> Result<StaticDoc, Mistake> {
    let SenderFile { rate, burst, peak, min_unit, max_packet, .. } = entry;
    Ok(StaticDoc::Sender {
        session: session(document, &entry.to, &entry.protocol)?,
        sender: end(document, &entry.from)?,
        tspec: tspec(document, &Traffic { rate, burst, peak, min_unit, max_packet })?,
        ttl: entry.ttl.unwrap_or(64),
    })
}

fn reservation(document: &Document<'_>, entry: &ReservationFile) -> Result<StaticDoc, Mistake> {
    let ReservationFile { rate, burst, peak, min_unit, max_packet, .. } = entry;
    let tspec = tspec(document, &Traffic { rate, burst, peak, min_unit, max_packet })?;
    let flowspec = match &entry.service_rate {
        None => FlowSpecDoc::ControlledLoad { tspec },
        Some(text) => {
            let rate = unit(document, text, units::parse_rate)?;
            FlowSpecDoc::Guaranteed { tspec, rate_bps: rate.as_bps(), slack_us: 0 }
        }
    };
    let style = entry.style.unwrap_or(StyleDoc::Ff);
    let senders: Vec<SenderId> = entry.senders.iter().map(|text| end(document, text)).collect::<Result<_, _>>()?;
    let flowspecs = if style == StyleDoc::Ff { vec![flowspec; senders.len()] } else { vec![flowspec] };
    if senders.is_empty() != (style == StyleDoc::Wf) {
        return Err(document.at(entry.session.span(), "ff and se name senders = [...], wf names none"));
    }
    Ok(StaticDoc::Reservation {
        session: session(document, &entry.session, &entry.protocol)?,
        style,
        senders,
        flowspecs,
    })
}

fn session(document: &Document<'_>, text: &Text, protocol: &Option<Text>) -> Result<SessionId, Mistake> {
    let SenderId { src: dst, src_port: port } = end(document, text)?;
    let dst_port = u16::try_from(port).unwrap_or(0); // it was read as one
    let protocol = match protocol {
        None => 17,
        Some(text) => units::parse_protocol(text.get_ref()).map_err(|wrong| document.at(text.span(), wrong))?,
    };
    Ok(SessionId { dst, protocol, dst_port })
}

fn end(document: &Document<'_>, text: &Text) -> Result<SenderId, Mistake> {
    match text.get_ref().parse::<SocketAddr>() {
        Ok(end) => Ok(SenderId { src: end.ip(), src_port: end.port().into() }),
        Err(_) => {
            let wrong = format!("{:?} is no ADDRESS:PORT, such as 10.0.0.1:5004 or [2001:db8::1]:0", text.get_ref());
            Err(document.at(text.span(), wrong))
        }
    }
}

fn tspec(document: &Document<'_>, traffic: &Traffic<'_>) -> Result<TspecDoc, Mistake> {
    let rate = unit(document, traffic.rate, units::parse_rate)?;
    let size = |text: &Option<Text>, default: Bytes| match text {
        None => Ok(default),
        Some(text) => unit(document, text, units::parse_bytes),
    };
    let narrow = |text: &Option<Text>, default: u64| -> Result<u32, Mistake> {
        u32::try_from(size(text, Bytes::new(default))?.get()).map_err(|_| document.whole("a packet is at most 4gb"))
    };
    let peak = traffic.peak.as_ref().map(|text| unit(document, text, units::parse_rate)).transpose()?;
    Ok(TspecDoc {
        r_bps: rate.as_bps(),
        b_bytes: size(traffic.burst, units::usual_burst(rate))?.get(),
        p_bps: peak.map(Rate::as_bps),
        m_bytes: narrow(traffic.min_unit, 64)?,
        max_bytes: narrow(traffic.max_packet, 1500)?,
    })
}
