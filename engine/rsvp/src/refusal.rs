//! The reason of a refusal, as RFC 2205 appendix B codes it and as people read it (RFC 5284 USER_ERROR_SPEC).

use crate::io::ErrorReport;
use alloc::format;
use alloc::string::String;
use core::net::IpAddr;
use terms::ports::Preemption;
use terms::{Fault, FlowSpec, Style};
use wire::ErrorSpec;
use wire::iana::error;

/// The enterprise number that our error texts carry (RFC 5612: for documentation, so no vendor has it).
pub(crate) const ENTERPRISE: u32 = 32_473;

/// Values of error code 23 (RSVP system error), which RFC 2205 leaves to the implementation.
pub(crate) mod system {
    /// A table of ours is full.
    pub const TABLE_FULL: u16 = 1;
}

/// Values of error code 20 (API error), which RFC 2205 leaves to the implementation.
pub(crate) mod api {
    /// The destination or source is not one that this node can send from or receive at.
    pub const ADDRESS: u16 = 1;
    /// Filters and flowspecs do not pair.
    pub const LISTS: u16 = 3;
    /// Another application has this already.
    pub const TAKEN: u16 = 4;
}

/// An error on its way to an ERROR_SPEC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// Error code.
    pub code: u8,
    /// Error value.
    pub value: u16,
    /// An older reservation stays.
    pub in_place: bool,
    /// Its text, for people.
    pub text: Option<String>,
}

/// The low 16 bits of a style's option vector (RFC 2205 section A.7), the value of error code 5.
pub(crate) fn option_vector(style: Style) -> u16 {
    match style {
        Style::Ff => 0b01010,
        Style::Se => 0b10010,
        Style::Wf => 0b10001,
    }
}

impl Refusal {
    /// A refusal without a text.
    pub fn code(code: u8, value: u16) -> Refusal {
        Refusal { code, value, in_place: false, text: None }
    }

    /// A refusal with a text.
    pub fn worded(code: u8, value: u16, text: &str) -> Refusal {
        Refusal { text: Some(String::from(text)), ..Refusal::code(code, value) }
    }

    /// A service that is not offered.
    pub fn unsupported_service(number: u8) -> Refusal {
        let text = wire::intserv::unsupported(number);
        Refusal::worded(error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED, text)
    }

    /// A table of this engine is full.
    pub fn table_full(what: &str, limit: usize) -> Refusal {
        Refusal {
            code: error::RSVP_SYSTEM,
            value: system::TABLE_FULL,
            in_place: false,
            text: Some(format!("{what}: the limit of {limit} is reached")),
        }
    }

    /// The plane could not install an admitted reservation.
    pub fn fault(node: &str, fault: &Fault) -> Refusal {
        Refusal {
            code: error::TRAFFIC_CONTROL_SYSTEM,
            value: u16::try_from(fault.code).unwrap_or(0),
            in_place: false,
            text: Some(format!("node {node} {fault}")),
        }
    }

    /// Another reservation, or (`None`) an advance booking, has taken this one's capacity.
    pub fn displaced(node: &str, by: Option<Preemption>) -> Refusal {
        let whose = match by {
            Some(by) => format!("a request of preemption priority {}", by.preempting),
            None => String::from("an advance booking"),
        };
        let text = Some(format!("node {node} gave the capacity to {whose}"));
        Refusal { code: error::PREEMPTED, value: 0, in_place: false, text }
    }

    /// The refusal as an ERROR_SPEC of `node`.
    pub fn spec(&self, node: IpAddr) -> ErrorSpec {
        let flags = if self.in_place { error::IN_PLACE } else { 0 };
        ErrorSpec { node, flags, code: self.code, value: self.value }
    }

    /// The refusal as a report for an application or an event.
    pub fn report(&self, node: IpAddr, flowspec: Option<FlowSpec>) -> ErrorReport {
        ErrorReport {
            node,
            code: self.code,
            value: self.value,
            in_place: self.in_place,
            not_guilty: false,
            text: self.text.clone(),
            flowspec,
        }
    }
}

/// The refusal of an API call that is not supported or not meaningful.
pub(crate) fn api_refusal(value: u16, text: String) -> Refusal {
    Refusal { code: error::API, value, in_place: false, text: Some(text) }
}
