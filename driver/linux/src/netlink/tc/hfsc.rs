//! The parameters of an HFSC class (`struct tc_service_curve`, tc-hfsc(7)).
//!
//! Rates are bytes/s and durations microseconds, both of 32 bits in the kernel: rates end at 34.36 Gbit/s. The kernel
//! keeps them scaled, and tells each back exactly as it was written (`m2sm`, `sm2m`, `d2dx`, `dx2d` in `sch_hfsc.c`).
//! A curve that a change leaves out stays as it was, so a class is always written with the same curves.

use super::super::message::{Attributes, NetlinkMessage, u32_at};

/// A curve of two slopes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcCurve {
    /// The first slope, bytes/s.
    pub m1: u32,
    /// The duration of the first slope, microseconds.
    pub d: u32,
    /// The slope after it, bytes/s.
    pub m2: u32,
}

impl TcCurve {
    /// One slope, bytes/s.
    pub const fn linear(rate: u32) -> TcCurve {
        TcCurve { m1: rate, d: 0, m2: rate }
    }

    /// The highest slope, bytes/s.
    pub fn highest(self) -> u32 {
        if self.d == 0 { self.m2 } else { self.m1.max(self.m2) }
    }
}

/// The parameters of an HFSC class. `None`: it has no such curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HfscClass {
    /// The service that is guaranteed; only of a class without children.
    pub real_time: Option<TcCurve>,
    /// The share of what is not guaranteed.
    pub link_share: Option<TcCurve>,
    /// The most that link-sharing gives.
    pub upper_limit: Option<TcCurve>,
}

const TCA_HFSC_RSC: u16 = 1;
const TCA_HFSC_FSC: u16 = 2;
const TCA_HFSC_USC: u16 = 3;

pub(super) fn write(class: &HfscClass, into: NetlinkMessage) -> NetlinkMessage {
    let curves = [(TCA_HFSC_RSC, class.real_time), (TCA_HFSC_FSC, class.link_share), (TCA_HFSC_USC, class.upper_limit)];
    curves.into_iter().fold(into, |message, (ty, curve)| match curve {
        Some(TcCurve { m1, d, m2 }) => {
            let mut bytes = [0; 12];
            for (at, word) in [m1, d, m2].into_iter().enumerate() {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
            }
            message.attr(ty, &bytes)
        }
        None => message,
    })
}

pub(super) fn read(options: Attributes<'_>) -> HfscClass {
    let curve = |ty| {
        let bytes = options.get(ty)?;
        Some(TcCurve { m1: u32_at(bytes, 0)?, d: u32_at(bytes, 4)?, m2: u32_at(bytes, 8)? })
    };
    HfscClass { real_time: curve(TCA_HFSC_RSC), link_share: curve(TCA_HFSC_FSC), upper_limit: curve(TCA_HFSC_USC) }
}
