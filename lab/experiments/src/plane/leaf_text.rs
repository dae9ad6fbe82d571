//! The parts of a leaf as a tree file states them. Each kind of shaper and meter takes exactly its own
//! parameters.

use super::words::{Ports, Prefix, Protocol, Word};
use serde::Deserialize;
use terms::{Bytes, Dscp, Rate, Span};
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::{AfClass, Marker};
use traffic::plan::QueueSpec;
use traffic::tree::{DropperSpec, LinkShape, MeterKind, MeterSpec, MultiFieldRule, QueueUnit, RasSpec, ShaperSpec};

/// A parameter's name, and true if it is stated.
type Stated = (&'static str, bool);

/// Checks that exactly these parameters are stated.
fn exactly(kind: &str, needed: &[&str], optional: &[&str], stated: &[Stated]) -> Result<(), String> {
    for (name, is) in stated {
        match (is, needed.contains(name), optional.contains(name)) {
            (false, true, _) => return Err(format!("{kind} needs {name}: it takes {}", needed.join(", "))),
            (true, false, false) => return Err(format!("{kind} has no {name}: it takes {}", needed.join(", "))),
            _ => {}
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleText {
    src: Option<Word<Prefix>>,
    dst: Option<Word<Prefix>>,
    protocol: Option<Word<Protocol>>,
    src_port: Option<Word<Ports>>,
    dst_port: Option<Word<Ports>>,
    dscp: Option<Word<Dscp>>,
}

impl RuleText {
    /// `None`: no field is stated.
    pub(crate) fn spec(&self) -> Option<MultiFieldRule> {
        let prefix = |p: Word<Prefix>| (p.0.0, p.0.1);
        let ports = |p: Word<Ports>| (p.0.0, p.0.1);
        let rule = MultiFieldRule {
            src: self.src.map(prefix),
            dst: self.dst.map(prefix),
            protocol: self.protocol.map(|p| p.0.0),
            src_ports: self.src_port.map(ports),
            dst_ports: self.dst_port.map(ports),
            dscp: self.dscp.map(|d| d.0),
        };
        (rule != MultiFieldRule::default()).then_some(rule)
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ShaperKind {
    Bucket,
    SrRas,
    TrRas,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShaperText {
    kind: ShaperKind,
    rate: Option<Word<Rate>>,
    depth: Option<Word<Bytes>>,
    buffer: Word<Bytes>,
    cir: Option<Word<Rate>>,
    pir: Option<Word<Rate>>,
    mir: Option<Word<Rate>>,
    cir_th: Option<Word<Bytes>>,
    pir_th: Option<Word<Bytes>>,
    mir_th: Option<Word<Bytes>>,
    k: Option<Word<Span>>,
    green: Option<bool>,
}

/// The default of K. RFC 2963 appendix A simulates 0.1 to 0.5 s.
const K: Span = Span::from_millis(300);

impl ShaperText {
    pub(crate) fn spec(&self) -> Result<ShaperSpec, String> {
        let stated = [
            ("rate", self.rate.is_some()),
            ("depth", self.depth.is_some()),
            ("cir", self.cir.is_some()),
            ("pir", self.pir.is_some()),
            ("mir", self.mir.is_some()),
            ("cir_th", self.cir_th.is_some()),
            ("pir_th", self.pir_th.is_some()),
            ("mir_th", self.mir_th.is_some()),
            ("k", self.k.is_some()),
            ("green", self.green.is_some()),
        ];
        let rate = |rate: Option<Word<Rate>>| rate.map_or(Rate::ZERO, |r| r.0);
        let size = |size: Option<Word<Bytes>>| size.map_or(Bytes::ZERO, |s| s.0);
        let green = self.green.unwrap_or(false);
        let ras = RasSpec { buffer: self.buffer.0, k: self.k.map_or(K, |k| k.0), green };
        match self.kind {
            ShaperKind::Bucket => {
                exactly("the shaper bucket", &["rate", "depth"], &[], &stated)?;
                Ok(ShaperSpec::Bucket { rate: rate(self.rate), depth: size(self.depth), buffer: self.buffer.0 })
            }
            ShaperKind::SrRas => {
                exactly("the shaper sr-ras", &["cir", "mir", "cir_th", "mir_th"], &["k", "green"], &stated)?;
                let (rates, thresholds) = ([self.cir, self.mir].map(rate), [self.cir_th, self.mir_th].map(size));
                Ok(ShaperSpec::SrRas { rates, thresholds, ras })
            }
            ShaperKind::TrRas => {
                let needed = ["cir", "pir", "mir", "cir_th", "pir_th", "mir_th"];
                exactly("the shaper tr-ras", &needed, &["k", "green"], &stated)?;
                let rates = [self.cir, self.pir, self.mir].map(rate);
                let thresholds = [self.cir_th, self.pir_th, self.mir_th].map(size);
                Ok(ShaperSpec::TrRas { rates, thresholds, ras })
            }
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MeterName {
    Srtcm,
    Trtcm,
    Rfc4115,
    Tswtcm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeterText {
    kind: MeterName,
    #[serde(default)]
    aware: bool,
    cir: Option<Word<Rate>>,
    pir: Option<Word<Rate>>,
    eir: Option<Word<Rate>>,
    cbs: Option<Word<Bytes>>,
    pbs: Option<Word<Bytes>>,
    ebs: Option<Word<Bytes>>,
    interval: Option<Word<Span>>,
}

impl MeterText {
    pub(crate) fn spec(&self) -> Result<MeterSpec, String> {
        let stated = [
            ("cir", self.cir.is_some()),
            ("pir", self.pir.is_some()),
            ("eir", self.eir.is_some()),
            ("cbs", self.cbs.is_some()),
            ("pbs", self.pbs.is_some()),
            ("ebs", self.ebs.is_some()),
            ("interval", self.interval.is_some()),
        ];
        let rate = |rate: Option<Word<Rate>>| rate.map_or(Rate::ZERO, |r| r.0);
        let size = |size: Option<Word<Bytes>>| size.map_or(Bytes::ZERO, |s| s.0);
        let [cir, pir, eir] = [self.cir, self.pir, self.eir].map(rate);
        let [cbs, pbs, ebs] = [self.cbs, self.pbs, self.ebs].map(size);
        let interval = self.interval.map_or(Span::ZERO, |i| i.0);
        let (needed, kind): (&[&str], _) = match self.kind {
            MeterName::Srtcm => (&["cir", "cbs", "ebs"], MeterKind::SrTcm { cir, cbs, ebs }),
            MeterName::Trtcm => (&["cir", "cbs", "pir", "pbs"], MeterKind::TrTcm { cir, cbs, pir, pbs }),
            MeterName::Rfc4115 => (&["cir", "cbs", "eir", "ebs"], MeterKind::Rfc4115 { cir, cbs, eir, ebs }),
            MeterName::Tswtcm => (&["cir", "pir", "interval"], MeterKind::TswTcm { ctr: cir, ptr: pir, interval }),
        };
        let name = ["srtcm", "trtcm", "rfc4115", "tswtcm"][self.kind as usize];
        exactly(&format!("the meter {name}"), needed, &[], &stated)?;
        Ok(MeterSpec { kind, aware: self.aware })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkerText {
    af: Option<u8>,
    green: Option<Word<Dscp>>,
    yellow: Option<Word<Dscp>>,
    red: Option<Word<Dscp>>,
}

impl MarkerText {
    pub(crate) fn spec(&self) -> Result<Marker, String> {
        match (self.af, self.green, self.yellow, self.red) {
            (Some(class), None, None, None) => {
                let class = AfClass::new(class).ok_or_else(|| format!("af is {class}: allowed is 1 to 4"))?;
                Ok(Marker::af(class))
            }
            (None, Some(green), Some(yellow), Some(red)) => Ok(Marker::new(green.0, yellow.0, red.0)),
            _ => Err("a marker takes either af, or green, yellow and red".into()),
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CouplingText {
    Coupled,
    Decoupled,
    Single,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnitText {
    Packets,
    Bytes,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveText {
    min: u32,
    max: u32,
    p: f64,
    #[serde(default)]
    gentle: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DropperText {
    coupling: Option<CouplingText>,
    unit: Option<UnitText>,
    weight: Option<f64>,
    slot: Option<Word<Span>>,
    green: CurveText,
    yellow: Option<CurveText>,
    red: Option<CurveText>,
}

impl DropperText {
    /// Without yellow and red, all colours use green's curve: RED. The default slot is that of a full packet.
    pub(crate) fn spec(&self, link: &LinkShape) -> Result<DropperSpec, String> {
        let curve = |text: CurveText| {
            if !(text.p > 0.0 && text.p <= 1.0) {
                return Err(format!("the probability p is {}: allowed is above 0, at most 1", text.p));
            }
            let max_p = ((text.p * 65_536.0).round() as u32).max(1);
            Ok(RedCurve { min: text.min, max: text.max, max_p, gentle: text.gentle })
        };
        let yellow = self.yellow.unwrap_or(self.green);
        let curves = [curve(self.green)?, curve(yellow)?, curve(self.red.unwrap_or(yellow))?];
        let weight = self.weight.unwrap_or(0.002);
        if !(weight > 0.0 && weight <= 1.0) {
            return Err(format!("the weight is {weight}: allowed is above 0, at most 1"));
        }
        let full = Bytes::new(1_500 + u64::from(link.overhead));
        Ok(DropperSpec {
            curves,
            weight: ((weight * 4_294_967_296.0).round() as u64).max(1),
            slot: self.slot.map_or_else(|| link.rate.span_for(full), |slot| slot.0),
            coupling: match self.coupling.unwrap_or(CouplingText::Coupled) {
                CouplingText::Coupled => Coupling::Coupled,
                CouplingText::Decoupled => Coupling::Decoupled,
                CouplingText::Single => Coupling::Single,
            },
            unit: match self.unit.unwrap_or(UnitText::Packets) {
                UnitText::Packets => QueueUnit::Packets,
                UnitText::Bytes => QueueUnit::Bytes,
            },
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueText {
    packets: u32,
    bytes: Word<Bytes>,
}

impl QueueText {
    pub(crate) fn spec(&self) -> QueueSpec {
        QueueSpec { packets: self.packets, bytes: self.bytes.0 }
    }
}
