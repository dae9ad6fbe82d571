//! The registries: message types, class numbers, C-Types, error codes, service and parameter numbers, with their names.
//!
//! RFC 2205 appendices A and B; RFC 2210; RFC 2207 (GPI); RFC 2747 (integrity); RFC 2961 (refresh reduction);
//! RFC 3175 (aggregates); RFC 3209 (hello); RFC 5284 (user error). A name here does not mean that this crate decodes the item.

/// IP protocol number of RSVP.
pub const IPPROTO_RSVP: u8 = 46;

/// Msg Type of the common header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum MessageType {
    /// RFC 2205 section 3.1.3.
    Path = 1,
    /// RFC 2205 section 3.1.4.
    Resv = 2,
    /// RFC 2205 section 3.1.7.
    PathErr = 3,
    /// RFC 2205 section 3.1.8.
    ResvErr = 4,
    /// RFC 2205 section 3.1.5.
    PathTear = 5,
    /// RFC 2205 section 3.1.6.
    ResvTear = 6,
    /// RFC 2205 section 3.1.9.
    ResvConf = 7,
    /// RFC 2961 section 3.3.
    Bundle = 12,
    /// RFC 2961 section 4.4.
    Ack = 13,
    /// RFC 2961 section 5.1.
    Srefresh = 15,
    /// RFC 3209 section 5.
    Hello = 20,
    /// RFC 2747 section 4.3.
    IntegrityChallenge = 25,
    /// RFC 2747 section 4.3.
    IntegrityResponse = 26,
}

impl MessageType {
    /// The type with this number, if it is known.
    pub const fn from_number(number: u8) -> Option<MessageType> {
        Some(match number {
            1 => MessageType::Path,
            2 => MessageType::Resv,
            3 => MessageType::PathErr,
            4 => MessageType::ResvErr,
            5 => MessageType::PathTear,
            6 => MessageType::ResvTear,
            7 => MessageType::ResvConf,
            12 => MessageType::Bundle,
            13 => MessageType::Ack,
            15 => MessageType::Srefresh,
            20 => MessageType::Hello,
            25 => MessageType::IntegrityChallenge,
            26 => MessageType::IntegrityResponse,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The RFC's name.
    pub const fn name(self) -> &'static str {
        match self {
            MessageType::Path => "Path",
            MessageType::Resv => "Resv",
            MessageType::PathErr => "PathErr",
            MessageType::ResvErr => "ResvErr",
            MessageType::PathTear => "PathTear",
            MessageType::ResvTear => "ResvTear",
            MessageType::ResvConf => "ResvConf",
            MessageType::Bundle => "Bundle",
            MessageType::Ack => "Ack",
            MessageType::Srefresh => "Srefresh",
            MessageType::Hello => "Hello",
            MessageType::IntegrityChallenge => "Integrity Challenge",
            MessageType::IntegrityResponse => "Integrity Response",
        }
    }
}

/// Class numbers (RFC 2205 appendix A and later).
pub mod class {
    /// Ignored wherever it stands.
    pub const NULL: u8 = 0;
    /// Destination of the flow.
    pub const SESSION: u8 = 1;
    /// The neighbour that sent the message.
    pub const RSVP_HOP: u8 = 3;
    /// RFC 2747.
    pub const INTEGRITY: u8 = 4;
    /// Refresh period.
    pub const TIME_VALUES: u8 = 5;
    /// An error, or a confirmation.
    pub const ERROR_SPEC: u8 = 6;
    /// Senders that a wildcard reservation is forwarded to.
    pub const SCOPE: u8 = 7;
    /// Reservation style.
    pub const STYLE: u8 = 8;
    /// The requested service and rate.
    pub const FLOWSPEC: u8 = 9;
    /// The sender whose packets use the reservation.
    pub const FILTER_SPEC: u8 = 10;
    /// The address and port of a sender.
    pub const SENDER_TEMPLATE: u8 = 11;
    /// The traffic that a sender announces.
    pub const SENDER_TSPEC: u8 = 12;
    /// The capabilities of the path.
    pub const ADSPEC: u8 = 13;
    /// RFC 2750.
    pub const POLICY_DATA: u8 = 14;
    /// The receiver that asks for a confirmation.
    pub const RESV_CONFIRM: u8 = 15;
    /// RFC 3209: the instance number of a neighbour.
    pub const HELLO: u8 = 22;
    /// RFC 2961: the identifier of a message.
    pub const MESSAGE_ID: u8 = 23;
    /// RFC 2961: MESSAGE_ID_ACK and MESSAGE_ID_NACK.
    pub const MESSAGE_ID_ACK: u8 = 24;
    /// RFC 2961: the messages that a summary refresh repeats.
    pub const MESSAGE_ID_LIST: u8 = 25;
    /// RFC 2747: the cookie that must be signed.
    pub const CHALLENGE: u8 = 64;
    /// RFC 5284: text for people.
    pub const USER_ERROR_SPEC: u8 = 194;

    /// The RFC's name, or `"UNKNOWN"`.
    pub const fn name(class: u8) -> &'static str {
        match class {
            NULL => "NULL",
            SESSION => "SESSION",
            RSVP_HOP => "RSVP_HOP",
            INTEGRITY => "INTEGRITY",
            TIME_VALUES => "TIME_VALUES",
            ERROR_SPEC => "ERROR_SPEC",
            SCOPE => "SCOPE",
            STYLE => "STYLE",
            FLOWSPEC => "FLOWSPEC",
            FILTER_SPEC => "FILTER_SPEC",
            SENDER_TEMPLATE => "SENDER_TEMPLATE",
            SENDER_TSPEC => "SENDER_TSPEC",
            ADSPEC => "ADSPEC",
            POLICY_DATA => "POLICY_DATA",
            RESV_CONFIRM => "RESV_CONFIRM",
            HELLO => "HELLO",
            MESSAGE_ID => "MESSAGE_ID",
            MESSAGE_ID_ACK => "MESSAGE_ID_ACK",
            MESSAGE_ID_LIST => "MESSAGE_ID_LIST",
            CHALLENGE => "CHALLENGE",
            USER_ERROR_SPEC => "USER_ERROR_SPEC",
            _ => "UNKNOWN",
        }
    }
}

/// C-Types. Where a class has one form per address family, 1 is IPv4 and 2 is IPv6.
pub mod ctype {
    /// The IPv4 form, or the only form.
    pub const IPV4: u8 = 1;
    /// The IPv6 form.
    pub const IPV6: u8 = 2;
    /// FILTER_SPEC and SENDER_TEMPLATE with an IPv6 flow label.
    pub const IPV6_FLOW_LABEL: u8 = 3;
    /// FLOWSPEC, SENDER_TSPEC and ADSPEC of RFC 2210.
    pub const INTSERV: u8 = 2;
    /// MESSAGE_ID_ACK.
    pub const MESSAGE_ID_ACK: u8 = 1;
    /// MESSAGE_ID_NACK.
    pub const MESSAGE_ID_NACK: u8 = 2;
    /// HELLO REQUEST.
    pub const HELLO_REQUEST: u8 = 1;
    /// HELLO ACK.
    pub const HELLO_ACK: u8 = 2;
    /// SESSION for IPsec, IPv4 (RFC 2207).
    pub const SESSION_GPI_IPV4: u8 = 3;
    /// SESSION for IPsec, IPv6 (RFC 2207).
    pub const SESSION_GPI_IPV6: u8 = 4;
    /// FILTER_SPEC and SENDER_TEMPLATE for IPsec, IPv4 (RFC 2207).
    pub const FILTER_GPI_IPV4: u8 = 4;
    /// FILTER_SPEC and SENDER_TEMPLATE for IPsec, IPv6 (RFC 2207).
    pub const FILTER_GPI_IPV6: u8 = 5;
    /// SESSION, FILTER_SPEC and SENDER_TEMPLATE of an aggregate reservation, IPv4 (RFC 3175).
    pub const AGGREGATE_IPV4: u8 = 9;
    /// SESSION, FILTER_SPEC and SENDER_TEMPLATE of an aggregate reservation, IPv6 (RFC 3175).
    pub const AGGREGATE_IPV6: u8 = 10;
}

/// Error codes (RFC 2205 appendix B) and the values we send.
pub mod error {
    /// A confirmation, not an error.
    pub const CONFIRMATION: u8 = 0;
    /// Admission control failure.
    pub const ADMISSION: u8 = 1;
    /// Policy control failure.
    pub const POLICY: u8 = 2;
    /// No path information for this Resv.
    pub const NO_PATH: u8 = 3;
    /// No sender information for this Resv.
    pub const NO_SENDER: u8 = 4;
    /// Conflicting reservation style.
    pub const BAD_STYLE: u8 = 5;
    /// Unknown reservation style.
    pub const UNKNOWN_STYLE: u8 = 6;
    /// Conflicting destination ports.
    pub const BAD_DSTPORT: u8 = 7;
    /// Conflicting sender ports.
    pub const BAD_SNDPORT: u8 = 8;
    /// Service preempted.
    pub const PREEMPTED: u8 = 12;
    /// Unknown object class.
    pub const UNKNOWN_CLASS: u8 = 13;
    /// Unknown object C-Type.
    pub const UNKNOWN_CTYPE: u8 = 14;
    /// API error.
    pub const API: u8 = 20;
    /// Traffic control error.
    pub const TRAFFIC_CONTROL: u8 = 21;
    /// Traffic control system error.
    pub const TRAFFIC_CONTROL_SYSTEM: u8 = 22;
    /// RSVP system error.
    pub const RSVP_SYSTEM: u8 = 23;

    /// ADMISSION: the delay bound cannot be met.
    pub const ADMISSION_DELAY: u16 = 1;
    /// ADMISSION: the bandwidth is not there.
    pub const ADMISSION_BANDWIDTH: u16 = 2;
    /// ADMISSION: the flow's maximum packet size is above the interface's MTU.
    pub const ADMISSION_MTU: u16 = 3;
    /// TRAFFIC_CONTROL: two services for one flow.
    pub const TC_SERVICE_CONFLICT: u16 = 1;
    /// TRAFFIC_CONTROL: service unsupported.
    pub const TC_SERVICE_UNSUPPORTED: u16 = 2;
    /// TRAFFIC_CONTROL: bad flowspec value.
    pub const TC_BAD_FLOWSPEC: u16 = 3;
    /// TRAFFIC_CONTROL: bad Tspec value.
    pub const TC_BAD_TSPEC: u16 = 4;
    /// TRAFFIC_CONTROL: bad Adspec value.
    pub const TC_BAD_ADSPEC: u16 = 5;

    /// ERROR_SPEC flag: the reservation that failed is still in place.
    pub const IN_PLACE: u8 = 0x01;
    /// ERROR_SPEC flag: the receiver's own request is not what failed.
    pub const NOT_GUILTY: u8 = 0x02;

    /// The error code in words.
    pub const fn name(code: u8) -> &'static str {
        match code {
            CONFIRMATION => "Confirmation",
            ADMISSION => "Admission control failure",
            POLICY => "Policy control failure",
            NO_PATH => "No path information for this Resv message",
            NO_SENDER => "No sender information for this Resv message",
            BAD_STYLE => "Conflicting reservation style",
            UNKNOWN_STYLE => "Unknown reservation style",
            BAD_DSTPORT => "Conflicting dest ports",
            BAD_SNDPORT => "Conflicting sender ports",
            PREEMPTED => "Service preempted",
            UNKNOWN_CLASS => "Unknown object class",
            UNKNOWN_CTYPE => "Unknown object C-Type",
            API => "API error",
            TRAFFIC_CONTROL => "Traffic control error",
            TRAFFIC_CONTROL_SYSTEM => "Traffic control system error",
            RSVP_SYSTEM => "RSVP system error",
            _ => "unassigned",
        }
    }
}

/// Flags of the common header.
pub mod flag {
    /// The sender does refresh reduction (RFC 2961 section 2).
    pub const REFRESH_REDUCTION: u8 = 0x1;
}

/// Types of policy elements (RFC 2750 section 3).
pub mod policy {
    /// PREEMPTION_PRI (RFC 3181).
    pub const PREEMPTION_PRI: u16 = 3;
}

/// Service numbers (RFC 2215 section 3, RFC 2997).
pub mod service {
    /// Default (global) parameters.
    pub const GENERAL: u8 = 1;
    /// Guaranteed, RFC 2212.
    pub const GUARANTEED: u8 = 2;
    /// Controlled load, RFC 2211.
    pub const CONTROLLED_LOAD: u8 = 5;
    /// Null service, RFC 2997 (recognised).
    pub const NULL: u8 = 6;
}

/// Parameter numbers (RFC 2210, RFC 2212, RFC 2215).
pub mod parameter {
    /// NUMBER_OF_IS_HOPS.
    pub const IS_HOPS: u8 = 4;
    /// AVAILABLE_PATH_BANDWIDTH, float, bytes/s.
    pub const PATH_BANDWIDTH: u8 = 6;
    /// MINIMUM_PATH_LATENCY, microseconds.
    pub const MIN_LATENCY: u8 = 8;
    /// PATH_MTU, bytes.
    pub const PATH_MTU: u8 = 10;
    /// NULL_SERVICE_TSPEC: the maximum packet size alone (RFC 2997 section 5).
    pub const NULL_SERVICE_TSPEC: u8 = 128;
    /// TOKEN_BUCKET_TSPEC.
    pub const TOKEN_BUCKET_TSPEC: u8 = 127;
    /// Guaranteed service Rspec.
    pub const RSPEC: u8 = 130;
    /// C composed end to end, bytes.
    pub const C_TOT: u8 = 133;
    /// D composed end to end, microseconds.
    pub const D_TOT: u8 = 134;
    /// C since the last reshaping point.
    pub const C_SUM: u8 = 135;
    /// D since the last reshaping point.
    pub const D_SUM: u8 = 136;
}
