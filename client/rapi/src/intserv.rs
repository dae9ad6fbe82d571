//! Objects in the integrated-services format: the bytes of RFC 2210 section 3, which `wire` reads and writes.

use documents::agent::{AdspecDoc, FlowSpecDoc, TspecDoc};
use rsvp_client::{Code, Failure};
use terms::{Adspec, FlowSpec, GuaranteedTerms, Rate, Span, Tspec};
use wire::iana::{class, ctype};
use wire::{Builder, MessageType, Object};

/// The common header of a message and the header of its only object, bytes.
const HEADERS: usize = 12;

/// Reads a sender's Tspec.
///
/// # Errors
/// [`Code::Intserv`].
pub fn tspec(body: &[u8]) -> Result<TspecDoc, Failure> {
    let object = Object { class: class::SENDER_TSPEC, ctype: ctype::INTSERV, body, offset: 0 };
    wire::intserv::sender_tspec(&object).map(Into::into).map_err(|error| unreadable(error.what))
}

/// Reads a flowspec.
///
/// # Errors
/// [`Code::Intserv`].
pub fn flowspec(body: &[u8]) -> Result<FlowSpecDoc, Failure> {
    let object = Object { class: class::FLOWSPEC, ctype: ctype::INTSERV, body, offset: 0 };
    let (_, flowspec) = wire::intserv::flowspec(&object).map_err(|error| unreadable(error.what))?;
    flowspec.map(Into::into).ok_or_else(|| unreadable("an unknown service"))
}

/// The body of a Tspec.
pub fn tspec_body(tspec: &TspecDoc) -> Vec<u8> {
    body(|message| message.sender_tspec(&Tspec::from(*tspec)))
}

/// The body of a flowspec.
pub fn flowspec_body(flowspec: &FlowSpecDoc) -> Vec<u8> {
    body(|message| message.flowspec(&FlowSpec::from(*flowspec)))
}

/// The body of an ADSPEC.
pub fn adspec_body(adspec: &AdspecDoc) -> Vec<u8> {
    let guaranteed = adspec.guaranteed.map(|g| GuaranteedTerms {
        break_bit: g.break_bit,
        c_tot: g.c_tot_bytes,
        d_tot: g.d_tot_us,
        c_sum: g.c_sum_bytes,
        d_sum: g.d_sum_us,
    });
    let adspec = Adspec {
        break_bit: adspec.break_bit,
        is_hops: adspec.hops,
        bandwidth: adspec.bandwidth_bps.map_or(Rate::INFINITE, Rate::from_bps),
        min_latency: adspec.latency_us.map(Span::from_micros),
        path_mtu: adspec.mtu,
        guaranteed,
        controlled_load: adspec.controlled_load_break,
    };
    body(|message| message.adspec(&adspec))
}

fn body(write: impl FnOnce(Builder<Vec<u8>>) -> Builder<Vec<u8>>) -> Vec<u8> {
    let message = write(Builder::new(MessageType::Path, 1)).finish().unwrap_or_default();
    message.get(HEADERS..).unwrap_or_default().to_vec()
}

fn unreadable(what: &str) -> Failure {
    Failure::of(Code::Intserv, format!("an integrated-services object cannot be read: {what}"))
}
