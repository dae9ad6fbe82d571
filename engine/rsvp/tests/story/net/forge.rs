//! Messages made by hand, as a neighbour (or a stranger) could send them.

use super::{Net, cl, tspec};
use rsvp::io::Input;
use std::net::IpAddr;
use terms::{Adspec, FlowSpec, IfIndex, SenderTemplate, Session, Span, Style, Tspec};
use wire::{Builder, ErrorSpec, MessageType, RsvpHop};

/// All that any of the seven messages may hold, and how it travels.
#[derive(Clone, Debug)]
pub struct Forged {
    pub iif: IfIndex,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub send_ttl: u8,
    pub session: Session,
    pub hop: RsvpHop,
    pub refresh: Span,
    pub template: SenderTemplate,
    pub tspec: Tspec,
    pub adspec: Option<Adspec>,
    pub flowspec: FlowSpec,
    pub style: Style,
    pub confirm: Option<IpAddr>,
    pub error: ErrorSpec,
    /// Any objects, put after the fixed ones of a Path or before STYLE.
    pub extra: Vec<(u8, u8, Vec<u8>)>,
}

impl Forged {
    pub fn bytes(&self, kind: MessageType) -> Vec<u8> {
        let filter = self.template.into();
        let mut m = Builder::new(kind, self.send_ttl).session(&self.session);
        if kind != MessageType::PathErr && kind != MessageType::ResvConf {
            m = m.hop(&self.hop);
        }
        if matches!(kind, MessageType::Path | MessageType::Resv) {
            m = m.time_values(self.refresh);
        }
        if matches!(kind, MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) {
            m = m.error_spec(&self.error);
        }
        if let (MessageType::Resv | MessageType::ResvConf, Some(confirm)) = (kind, self.confirm) {
            m = m.confirm(confirm);
        }
        for (class, ctype, body) in &self.extra {
            m = m.raw(*class, *ctype, body);
        }
        m = match kind {
            MessageType::Path | MessageType::PathTear | MessageType::PathErr => {
                let m = m.sender_template(&filter).sender_tspec(&self.tspec);
                match &self.adspec {
                    Some(adspec) if kind == MessageType::Path => m.adspec(adspec),
                    _ => m,
                }
            }
            _ => {
                let m = m.style(self.style).flowspec(&self.flowspec);
                if self.style == Style::Wf { m } else { m.filter_spec(&filter) }
            }
        };
        m.finish().expect("short")
    }
}

impl Net {
    fn forged(&self, node: usize, iif: u32, neighbour: IpAddr, lih: u32) -> Forged {
        let last = self.nodes.len() - 1;
        let here = self.interface(node, iif).addresses[0];
        Forged {
            iif: IfIndex(iif),
            src: neighbour,
            dst: here,
            ttl: 255,
            send_ttl: 255,
            session: self.session_at(last),
            hop: RsvpHop { addr: neighbour, lih },
            refresh: Span::from_secs(30),
            template: self.template_at(0),
            tspec: tspec(3),
            adspec: Some(Adspec::origin(1500)),
            flowspec: cl(3),
            style: Style::Ff,
            confirm: None,
            error: ErrorSpec { node: neighbour, flags: 0, code: 1, value: 2 },
            extra: Vec::new(),
        }
    }

    /// As the upstream neighbour of `node` in a line would send it.
    pub fn upstream_of(&self, node: usize) -> Forged {
        let far = if node == 1 { 1 } else { 2 };
        let neighbour = self.interface(node - 1, far).addresses[0];
        self.forged(node, 1, neighbour, 77)
    }

    /// As the downstream neighbour of `node` in a line would send it.
    pub fn downstream_of(&self, node: usize) -> Forged {
        let oif = if node == 0 { 1 } else { 2 };
        let neighbour = self.interface(node + 1, 1).addresses[0];
        self.forged(node, oif, neighbour, oif)
    }

    /// Hands a forged message to a node.
    pub fn inject(&mut self, node: usize, kind: MessageType, m: &Forged) {
        let bytes = m.bytes(kind);
        self.inject_bytes(node, m, &bytes);
    }

    pub fn inject_bytes(&mut self, node: usize, m: &Forged, bytes: &[u8]) {
        let Forged { iif, src, dst, ttl, .. } = *m;
        self.tell(node, Input::Message { iif, src, dst, ttl, bytes });
    }

    /// A Path from upstream, with one thing changed.
    pub fn inject_path(&mut self, node: usize, edit: impl FnOnce(&mut Forged)) {
        let mut m = self.upstream_of(node);
        m.dst = m.session.dst;
        edit(&mut m);
        self.inject(node, MessageType::Path, &m);
    }

    /// A Resv from downstream, with one thing changed.
    pub fn inject_resv(&mut self, node: usize, edit: impl FnOnce(&mut Forged)) {
        let mut m = self.downstream_of(node);
        edit(&mut m);
        self.inject(node, MessageType::Resv, &m);
    }
}
