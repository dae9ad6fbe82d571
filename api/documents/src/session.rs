//! Sessions, senders, traffic and styles of RSVP, and the same as the engines have them.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use terms::{Adspec, Bytes, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Style, Tspec};

/// A session, as RFC 2205 names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SessionId {
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Destination port.
    pub dst_port: u16,
}

/// A sender of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SenderId {
    /// Source address.
    pub src: IpAddr,
    /// Source port; of ESP and AH with a virtual destination port (RFC 2207), the security parameter index.
    pub src_port: u32,
}

/// A Tspec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TspecDoc {
    /// Token rate, bit/s.
    pub r_bps: u64,
    /// Bucket depth, bytes.
    pub b_bytes: u64,
    /// Peak rate, bit/s; null: not bounded.
    pub p_bps: Option<u64>,
    /// Minimum policed unit, bytes.
    pub m_bytes: u32,
    /// Maximum packet size, bytes.
    #[serde(rename = "M_bytes")]
    pub max_bytes: u32,
}

/// A flowspec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum FlowSpecDoc {
    /// RFC 2211.
    ControlledLoad {
        /// The traffic.
        tspec: TspecDoc,
    },
    /// RFC 2212.
    Guaranteed {
        /// The traffic.
        tspec: TspecDoc,
        /// R, bit/s.
        #[serde(rename = "R_bps")]
        rate_bps: u64,
        /// S, microseconds.
        #[serde(rename = "S_us")]
        slack_us: u64,
    },
}

/// An ADSPEC (RFC 2210 section 3.3): the properties of the path so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdspecDoc {
    /// True if a hop without integrated services was passed.
    pub break_bit: bool,
    /// Hops with integrated services.
    pub hops: u32,
    /// Least bandwidth of the hops, bit/s; null: none of them says.
    pub bandwidth_bps: Option<u64>,
    /// Minimum latency of the path, microseconds; null: indeterminate.
    pub latency_us: Option<u64>,
    /// Path MTU, bytes.
    pub mtu: u32,
    /// The break bit of controlled load; null: the sender does not offer the service.
    pub controlled_load_break: Option<bool>,
    /// Guaranteed service; null: the sender does not offer it.
    pub guaranteed: Option<GuaranteedDoc>,
}

/// Error terms of guaranteed service (RFC 2212 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuaranteedDoc {
    /// True if a hop cannot do guaranteed service.
    pub break_bit: bool,
    /// Rate-dependent terms, bytes.
    pub c_tot_bytes: u32,
    /// Rate-independent terms, microseconds.
    pub d_tot_us: u32,
    /// `c_tot_bytes` since the last reshaping point.
    pub c_sum_bytes: u32,
    /// `d_tot_us` since the last reshaping point.
    pub d_sum_us: u32,
}

/// A reservation style.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StyleDoc {
    /// Fixed filter.
    Ff,
    /// Shared explicit.
    Se,
    /// Wildcard filter.
    Wf,
}

impl StyleDoc {
    /// The style's word: `ff`, `se` or `wf`.
    pub const fn as_str(self) -> &'static str {
        match self {
            StyleDoc::Ff => "ff",
            StyleDoc::Se => "se",
            StyleDoc::Wf => "wf",
        }
    }
}

/// A pre-emption priority; the higher number wins (RFC 3181).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PriorityDoc {
    /// Its strength against the `defending` of others.
    pub preempting: u16,
    /// Its strength against the `preempting` of others; at least its own `preempting`.
    pub defending: u16,
}

impl From<Session> for SessionId {
    fn from(s: Session) -> SessionId {
        SessionId { dst: s.dst, protocol: s.protocol, dst_port: s.dst_port }
    }
}

impl From<SessionId> for Session {
    fn from(s: SessionId) -> Session {
        Session { dst: s.dst, protocol: s.protocol, dst_port: s.dst_port }
    }
}

impl From<SenderTemplate> for SenderId {
    fn from(s: SenderTemplate) -> SenderId {
        SenderId { src: s.src, src_port: s.src_port }
    }
}

impl From<SenderId> for SenderTemplate {
    fn from(s: SenderId) -> SenderTemplate {
        SenderTemplate { src: s.src, src_port: s.src_port }
    }
}

impl From<Tspec> for TspecDoc {
    fn from(t: Tspec) -> TspecDoc {
        TspecDoc {
            r_bps: t.r.as_bps(),
            b_bytes: t.b.get(),
            p_bps: (!t.p.is_infinite()).then_some(t.p.as_bps()),
            m_bytes: t.m,
            max_bytes: t.M,
        }
    }
}

impl From<TspecDoc> for Tspec {
    fn from(t: TspecDoc) -> Tspec {
        Tspec {
            r: Rate::from_bps(t.r_bps),
            b: Bytes::new(t.b_bytes),
            p: t.p_bps.map_or(Rate::INFINITE, Rate::from_bps),
            m: t.m_bytes,
            M: t.max_bytes,
        }
    }
}

impl From<Adspec> for AdspecDoc {
    fn from(a: Adspec) -> AdspecDoc {
        AdspecDoc {
            break_bit: a.break_bit,
            hops: a.is_hops,
            bandwidth_bps: (!a.bandwidth.is_infinite()).then_some(a.bandwidth.as_bps()),
            latency_us: a.min_latency.map(Span::as_micros),
            mtu: a.path_mtu,
            controlled_load_break: a.controlled_load,
            guaranteed: a.guaranteed.map(|g| GuaranteedDoc {
                break_bit: g.break_bit,
                c_tot_bytes: g.c_tot,
                d_tot_us: g.d_tot,
                c_sum_bytes: g.c_sum,
                d_sum_us: g.d_sum,
            }),
        }
    }
}

impl From<FlowSpec> for FlowSpecDoc {
    fn from(f: FlowSpec) -> FlowSpecDoc {
        match f {
            FlowSpec::ControlledLoad(t) => FlowSpecDoc::ControlledLoad { tspec: t.into() },
            FlowSpec::Guaranteed(t, s) => {
                FlowSpecDoc::Guaranteed { tspec: t.into(), rate_bps: s.R.as_bps(), slack_us: s.S.as_micros() }
            }
        }
    }
}

impl From<FlowSpecDoc> for FlowSpec {
    fn from(f: FlowSpecDoc) -> FlowSpec {
        match f {
            FlowSpecDoc::ControlledLoad { tspec } => FlowSpec::ControlledLoad(tspec.into()),
            FlowSpecDoc::Guaranteed { tspec, rate_bps, slack_us } => {
                let rspec = Rspec { R: Rate::from_bps(rate_bps), S: Span::from_micros(slack_us) };
                FlowSpec::Guaranteed(tspec.into(), rspec)
            }
        }
    }
}

impl From<Style> for StyleDoc {
    fn from(s: Style) -> StyleDoc {
        match s {
            Style::Ff => StyleDoc::Ff,
            Style::Se => StyleDoc::Se,
            Style::Wf => StyleDoc::Wf,
        }
    }
}

impl From<StyleDoc> for Style {
    fn from(s: StyleDoc) -> Style {
        match s {
            StyleDoc::Ff => Style::Ff,
            StyleDoc::Se => Style::Se,
            StyleDoc::Wf => Style::Wf,
        }
    }
}
