//! Generated messages of all seven types and both address families: what they say, written by the builder, read back
//! by the views.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{Adspec, Bytes, FilterSpec, FlowSpec, GuaranteedTerms, Rate, Rspec, Session, Span, Style, Tspec};
use wire::{Builder, ErrorSpec, FilterObject, Message, MessageType, RsvpHop, UserError};

/// What a message says; parts that its type does not have are not used.
#[derive(Clone, PartialEq, Debug)]
pub struct Said {
    kind: MessageType,
    ttl: u8,
    session: Session,
    flags: u8,
    hop: RsvpHop,
    refresh: Span,
    sender: FilterObject,
    tspec: Tspec,
    adspec: Option<Adspec>,
    error: ErrorSpec,
    words: Option<(u32, u8, u16, String)>,
    confirm: Option<IpAddr>,
    scope: Option<Vec<IpAddr>>,
    style: Style,
    /// FF: a flowspec for each filter. SE: the first for all. WF: the first, no filter.
    flows: Vec<(FilterObject, FlowSpec)>,
    pub forward: Vec<(u8, u8, Vec<u8>)>,
}

fn host(v4: bool) -> BoxedStrategy<IpAddr> {
    if v4 {
        (0x0b00_0000u32..0x7f00_0000).prop_map(|a| IpAddr::V4(Ipv4Addr::from(a))).boxed()
    } else {
        any::<u64>().prop_map(|a| IpAddr::V6(Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(a)))).boxed()
    }
}

fn filter(v4: bool) -> BoxedStrategy<FilterObject> {
    let ports = (host(v4), any::<u16>())
        .prop_map(|(src, src_port)| FilterObject::Ports(FilterSpec { src, src_port: src_port.into() }));
    if v4 {
        return ports.boxed();
    }
    let label = (host(false), 0u32..1 << 20).prop_map(|(src, label)| match src {
        IpAddr::V6(src) => FilterObject::FlowLabel { src, label },
        IpAddr::V4(_) => unreachable!("asked for IPv6"),
    });
    prop_oneof![ports, label].boxed()
}

/// A rate that a float can say: 24 bits and a power of two.
fn rate() -> impl Strategy<Value = Rate> {
    (0u64..1 << 24, 0u32..36).prop_map(|(m, e)| Rate::from_bps(m << e))
}

fn tspec() -> impl Strategy<Value = Tspec> {
    let peak = prop_oneof![Just(Rate::INFINITE), rate()];
    (rate(), 0u64..1 << 24, 0u32..20, peak, any::<u32>(), any::<u32>()).prop_map(|(r, b, e, p, x, y)| Tspec {
        r,
        b: Bytes::new(b << e),
        p: p.max(r),
        m: x.min(y),
        M: x.max(y).max(1),
    })
}

fn flowspec() -> impl Strategy<Value = FlowSpec> {
    (tspec(), any::<bool>(), rate(), any::<u32>(), any::<bool>()).prop_map(|(mut t, unset, rate, slack, cl)| {
        if unset {
            t.M = 0;
        }
        let rspec = Rspec { R: rate.max(t.r), S: Span::from_micros(u64::from(slack)) };
        if cl { FlowSpec::ControlledLoad(t) } else { FlowSpec::Guaranteed(t, rspec) }
    })
}

fn adspec() -> impl Strategy<Value = Adspec> {
    let terms = any::<(bool, u32, u32, u32, u32)>()
        .prop_map(|(break_bit, c_tot, d_tot, c_sum, d_sum)| GuaranteedTerms { break_bit, c_tot, d_tot, c_sum, d_sum });
    let latency = prop_oneof![Just(None), (0..u32::MAX).prop_map(|us| Some(Span::from_micros(u64::from(us))))];
    let rest = (any::<bool>(), any::<u32>(), rate(), any::<u32>(), any::<Option<bool>>());
    (rest, latency, proptest::option::of(terms)).prop_map(|((break_bit, is_hops, bandwidth, path_mtu, cl), l, g)| {
        Adspec { break_bit, is_hops, bandwidth, min_latency: l, path_mtu, guaranteed: g, controlled_load: cl }
    })
}

/// Any message.
pub fn said() -> impl Strategy<Value = Said> {
    (1u8..=7, any::<bool>()).prop_flat_map(|(kind, v4)| {
        let session = (host(v4), 1..=u8::MAX, 1..=u16::MAX).prop_map(|(dst, protocol, dst_port)| Session {
            dst,
            // IPsec has forms of its own, which seeds hold.
            protocol: if matches!(protocol, 50 | 51) { 6 } else { protocol },
            dst_port,
        });
        let hop = (host(v4), any::<u32>()).prop_map(|(addr, lih)| RsvpHop { addr, lih });
        let error = (host(v4), any::<(u8, u8, u16)>()).prop_map(|(node, (flags, code, value))| ErrorSpec {
            node,
            flags,
            code,
            value,
        });
        let style = prop_oneof![Just(Style::Ff), Just(Style::Se), Just(Style::Wf)];
        let flows = proptest::collection::vec((filter(v4), flowspec()), 1..5);
        let scope = proptest::option::of(proptest::collection::vec(host(v4), 1..5));
        let forward = (0xc3u8.., any::<u8>(), proptest::collection::vec(any::<[u8; 4]>(), 0..4));
        let forward = forward.prop_map(|(class, ctype, body)| (class, ctype, body.concat()));
        let head = (Just(kind), any::<(u8, u8, u32)>(), session, hop, filter(v4), tspec());
        let tail = (proptest::option::of(adspec()), error, proptest::option::of(any::<(u32, u8, u16)>()), ".{0,60}");
        let list = (proptest::option::of(host(v4)), scope, style, flows, proptest::collection::vec(forward, 0..3));
        (head, tail, list).prop_map(|(head, tail, list)| {
            let (kind, (ttl, flags, ms), session, hop, sender, tspec) = head;
            let text = tail.3.replace('\0', "");
            Said {
                kind: MessageType::from_number(kind).unwrap(),
                ttl,
                session,
                flags,
                hop,
                refresh: Span::from_millis(u64::from(ms)),
                sender,
                tspec,
                adspec: tail.0,
                error: tail.1,
                words: tail.2.map(|(e, s, v)| (e, s, v, UserError::fitting(&text).to_owned())),
                confirm: list.0,
                scope: list.1,
                style: list.2,
                flows: list.3,
                forward: list.4,
            }
        })
    })
}

impl Said {
    /// The recommended order of the RFC's BNF.
    pub fn write(&self) -> Vec<u8> {
        use MessageType::{Path, PathErr, PathTear, Resv, ResvConf, ResvErr, ResvTear};
        let kind = self.kind;
        let mut m = Builder::new(kind, self.ttl).session_flags(&self.session, self.flags);
        if matches!(kind, Path | Resv | ResvErr | PathTear | ResvTear) {
            m = m.hop(&self.hop);
        }
        if matches!(kind, Path | Resv) {
            m = m.time_values(self.refresh);
        }
        if matches!(kind, PathErr | ResvErr | ResvConf) {
            m = m.error_spec(&self.error);
        }
        if let Some((enterprise, sub_org, value, text)) =
            self.words.as_ref().filter(|_| matches!(kind, PathErr | ResvErr))
        {
            m = m.user_error(&UserError { enterprise: *enterprise, sub_org: *sub_org, value: *value, text });
        }
        m = match (kind, self.confirm) {
            (Resv, Some(who)) => m.confirm(who),
            (ResvConf, who) => m.confirm(who.unwrap_or(self.hop.addr)),
            _ => m,
        };
        if let Some(scope) = self.scope.as_ref().filter(|_| matches!(kind, Resv | ResvErr | ResvTear)) {
            m = m.scope(scope);
        }
        m = self.forward.iter().fold(m, |m, (class, ctype, body)| m.raw(*class, *ctype, body));
        match kind {
            Path => {
                m = m.sender_template(&self.sender).sender_tspec(&self.tspec);
                m = self.adspec.iter().fold(m, |m, a| m.adspec(a));
            }
            PathErr => m = m.sender_template(&self.sender).sender_tspec(&self.tspec),
            PathTear => m = m.sender_template(&self.sender),
            _ => m = self.write_flows(m.style(self.style)),
        }
        m.finish().expect("it is short")
    }

    fn write_flows(&self, m: Builder) -> Builder {
        let first = &self.flows[0].1;
        match self.style {
            Style::Ff => self.flows.iter().fold(m, |m, (filter, spec)| m.flowspec(spec).filter_spec(filter)),
            Style::Se => self.flows.iter().fold(m.flowspec(first), |m, (filter, _)| m.filter_spec(filter)),
            Style::Wf => m.flowspec(first),
        }
    }

    /// What the bytes say, over a copy of what was said (for the parts that the type does not have).
    pub fn read(&self, bytes: &[u8]) -> Said {
        let message = Message::parse(bytes).expect("we wrote it");
        let envelope = message.envelope();
        let mut said = Said {
            kind: message.kind(),
            ttl: envelope.header.send_ttl,
            session: message.session().unwrap(),
            ..self.clone()
        };
        said.forward = envelope.forwarded().map(|o| (o.class, o.ctype, o.body.to_vec())).collect();
        let text = |u: Option<UserError<'_>>| u.map(|u| (u.enterprise, u.sub_org, u.value, u.text.to_owned()));
        match message {
            Message::Path(m) => {
                (said.flags, said.hop, said.refresh) = (m.session_flags, m.hop, m.refresh);
                (said.sender, said.tspec, said.adspec) = (m.sender, m.tspec, m.adspec.map(|a| a.terms));
            }
            Message::PathErr(m) => {
                (said.error, said.words) = (m.error, text(m.user_error));
                (said.sender, said.tspec) = (m.sender.unwrap(), m.tspec.unwrap());
            }
            Message::PathTear(m) => (said.hop, said.sender) = (m.hop, m.sender),
            Message::Resv(m) => {
                (said.hop, said.refresh, said.confirm, said.style) = (m.hop, m.refresh, m.confirm, m.style);
                said.scope = m.scope.map(|s| s.iter().collect());
                said.read_flows(m.flows().map(|f| (f.filter, f.flow.spec)));
            }
            Message::ResvErr(m) => {
                (said.hop, said.error, said.words, said.style) = (m.hop, m.error, text(m.user_error), m.style);
                said.scope = m.scope.map(|s| s.iter().collect());
                said.read_flows(m.flows().map(|f| (f.filter, f.flow.unwrap().spec)));
            }
            Message::ResvTear(m) => {
                (said.hop, said.style) = (m.hop, m.style);
                said.scope = m.scope.map(|s| s.iter().collect());
                said.read_flows(m.flows().map(|f| (f.filter, f.flow.unwrap().spec)));
            }
            Message::ResvConf(m) => {
                (said.error, said.style) = (m.error, m.style);
                assert_eq!(m.confirm, self.confirm.unwrap_or(self.hop.addr));
                said.read_flows(m.flows().map(|f| (f.filter, f.flow.spec)));
            }
            _ => unreachable!("one of the seven was written"),
        }
        said
    }

    /// SE and WF say less than a list of pairs: what they leave out is taken from what was said.
    fn read_flows(&mut self, flows: impl Iterator<Item = (Option<FilterObject>, Option<FlowSpec>)>) {
        let said = self.flows.clone();
        let shared = self.style != Style::Ff;
        self.flows = flows
            .enumerate()
            .map(|(i, (filter, spec))| {
                assert!(!shared || spec == Some(said[0].1), "shared styles have one flowspec");
                let spec = if shared { said[i].1 } else { spec.unwrap() };
                (filter.unwrap_or(said[i].0), spec)
            })
            .collect();
        if self.style == Style::Wf {
            assert_eq!(self.flows.len(), 1);
            self.flows = said;
        }
    }
}
