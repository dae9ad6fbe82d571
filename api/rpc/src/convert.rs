//! Conversion between the engine's types and the socket's documents.

use crate::agent::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use terms::{Bytes, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Style, Tspec};

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
