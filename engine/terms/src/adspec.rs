//! ADSPEC: the capabilities of a path, composed hop by hop (RFC 2210 section 3.3, RFC 2215 section 3).

use crate::{Rate, Span};

/// The general characterization parameters plus what each service adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adspec {
    /// A hop without integrated services was passed (global break bit).
    pub break_bit: bool,
    /// NUMBER_OF_IS_HOPS.
    pub is_hops: u32,
    /// AVAILABLE_PATH_BANDWIDTH: the least of the hops so far.
    pub bandwidth: Rate,
    /// MINIMUM_PATH_LATENCY; `None` is "indeterminate" (all ones on the wire).
    pub min_latency: Option<Span>,
    /// PATH_MTU, bytes.
    pub path_mtu: u32,
    /// Guaranteed service fragment; `None` if the sender did not offer it.
    pub guaranteed: Option<GuaranteedTerms>,
    /// Controlled load fragment's break bit; `None` if the sender did not offer it.
    pub controlled_load: Option<bool>,
}

/// Error terms of guaranteed service, RFC 2212 section 5. `c` in bytes, `d` in microseconds, as the RFC counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuaranteedTerms {
    /// A hop could not do guaranteed service.
    pub break_bit: bool,
    /// Sum of rate-dependent terms, bytes.
    pub c_tot: u32,
    /// Sum of rate-independent terms, microseconds.
    pub d_tot: u32,
    /// `c_tot` since the last reshaping point.
    pub c_sum: u32,
    /// `d_tot` since the last reshaping point.
    pub d_sum: u32,
}

/// The values that one hop exports for its outgoing interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopExport {
    /// The rate that could be reserved now.
    pub bandwidth: Rate,
    /// The interface's MTU, bytes.
    pub mtu: u32,
    /// Latency of the link, if known.
    pub latency: Option<Span>,
    /// `C` (bytes) and `D` (microseconds) of the plane; `None` where it keeps no bound: then the break bit is set.
    pub guaranteed: Option<(u32, u32)>,
}

impl Adspec {
    /// The Adspec that a sender starts with (RFC 2210 section 3.3): everything is still possible.
    pub fn origin(mtu: u32) -> Adspec {
        Adspec {
            break_bit: false,
            is_hops: 0,
            bandwidth: Rate::INFINITE,
            min_latency: Some(Span::ZERO),
            path_mtu: mtu,
            guaranteed: Some(GuaranteedTerms::default()),
            controlled_load: Some(false),
        }
    }

    /// The Adspec after one more hop (RFC 2215 section 3: sums, minima, sticky break bits; all saturate).
    pub fn through(&self, hop: &HopExport) -> Adspec {
        Adspec {
            break_bit: self.break_bit,
            is_hops: self.is_hops.saturating_add(1),
            bandwidth: self.bandwidth.min(hop.bandwidth),
            min_latency: match (self.min_latency, hop.latency) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                _ => None,
            },
            path_mtu: self.path_mtu.min(hop.mtu),
            guaranteed: self.guaranteed.map(|g| g.through(hop.guaranteed)),
            controlled_load: self.controlled_load,
        }
    }
}

impl GuaranteedTerms {
    fn through(self, terms: Option<(u32, u32)>) -> GuaranteedTerms {
        let Some((c, d)) = terms else {
            return GuaranteedTerms { break_bit: true, ..self };
        };
        GuaranteedTerms {
            break_bit: self.break_bit,
            c_tot: self.c_tot.saturating_add(c),
            d_tot: self.d_tot.saturating_add(d),
            c_sum: self.c_sum.saturating_add(c),
            d_sum: self.d_sum.saturating_add(d),
        }
    }
}
