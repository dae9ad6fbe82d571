//! Words for scenarios: who sends, who asks, what is held where, who heard what.

use super::Net;
use rsvp::io::{AppCall, AppId, ErrorReport, Event, Input, Upcall};
use terms::{Bytes, FilterSpec, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Style, Time, Tspec};

pub const SENDER: AppId = AppId(1);
pub const RECEIVER: AppId = AppId(2);

pub fn tspec(mbps: u64) -> Tspec {
    let rate = Rate::from_mbps(mbps);
    Tspec { r: rate, b: Bytes::new(8192), p: rate, m: 64, M: 1500 }
}

pub fn cl(mbps: u64) -> FlowSpec {
    FlowSpec::ControlledLoad(tspec(mbps))
}

pub fn gs(mbps: u64) -> FlowSpec {
    FlowSpec::Guaranteed(tspec(mbps), Rspec { R: Rate::from_mbps(mbps), S: Span::ZERO })
}

impl Net {
    /// The session of UDP port 5004 at a node.
    pub fn session_at(&self, node: usize) -> Session {
        Session { dst: self.addr(node), protocol: 17, dst_port: 5004 }
    }

    /// The sender on UDP port 5004 of a node.
    pub fn template_at(&self, node: usize) -> SenderTemplate {
        SenderTemplate { src: self.addr(node), src_port: 5004 }
    }

    /// A sender on `from` announces itself to `to`.
    pub fn announce(&mut self, from: usize, to: usize, mbps: u64) {
        let (session, template) = (self.session_at(to), self.template_at(from));
        self.tell(from, Input::App(AppCall::Sender { app: SENDER, session, template, tspec: tspec(mbps), ttl: 63 }));
    }

    pub fn silence(&mut self, from: usize, to: usize) {
        let (session, template) = (self.session_at(to), self.template_at(from));
        self.tell(from, Input::App(AppCall::SenderGone { app: SENDER, session, template }));
    }

    /// The receiver at `to` asks for what `from` sends.
    pub fn ask(&mut self, from: usize, to: usize, flowspec: FlowSpec) {
        let (session, filter) = (self.session_at(to), self.template_at(from));
        let (filters, flowspecs): (&[FilterSpec], &[FlowSpec]) = (&[filter], &[flowspec]);
        let (app, style, confirm) = (RECEIVER, Style::Ff, true);
        self.tell(to, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    }

    /// An application on `node` sends to a session.
    pub fn sends(&mut self, node: usize, app: u64, session: Session, port: u32, mbps: u64) -> SenderTemplate {
        let template = SenderTemplate { src_port: port, ..self.template_at(node) };
        let (app, tspec) = (AppId(app), tspec(mbps));
        self.tell(node, Input::App(AppCall::Sender { app, session, template, tspec, ttl: 63 }));
        template
    }

    /// An application on `node` asks for a session in a shared style.
    pub fn shares(&mut self, node: usize, session: Session, style: Style, filters: &[FilterSpec], flowspec: FlowSpec) {
        let (app, flowspecs, confirm) = (RECEIVER, &[flowspec][..], true);
        self.tell(node, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    }

    /// An application on `node` gives up what it asked for a session.
    pub fn leaves(&mut self, node: usize, session: Session) {
        self.tell(node, Input::App(AppCall::Release { app: RECEIVER, session: Some(session) }));
    }

    /// Mbit/s that a node holds on one interface.
    pub fn on(&self, node: usize, oif: u32) -> u64 {
        self.nodes[node].env.rate_on(oif).as_bps() / 1_000_000
    }

    pub fn release(&mut self, to: usize) {
        let session = Some(self.session_at(to));
        self.tell(to, Input::App(AppCall::Release { app: RECEIVER, session }));
    }

    /// Mbit/s that each node holds, on all its interfaces together.
    pub fn held(&self) -> Vec<u64> {
        let rate = |n: &super::Node| n.env.held.values().map(|(_, f)| f.rate().as_bps()).sum::<u64>();
        self.nodes.iter().map(|n| rate(n) / 1_000_000).collect()
    }

    /// Path states of each node.
    pub fn paths(&self) -> Vec<usize> {
        self.nodes.iter().map(|n| n.engine.as_ref().map_or(0, |e| e.paths().count())).collect()
    }

    /// Reservation states of each node.
    pub fn resvs(&self) -> Vec<usize> {
        self.nodes.iter().map(|n| n.engine.as_ref().map_or(0, |e| e.reservations().count())).collect()
    }

    /// What all nodes promise and know.
    pub fn digests(&self) -> Vec<u64> {
        self.nodes.iter().map(|n| n.engine.as_ref().map_or(0, rsvp::Rsvp::digest)).collect()
    }

    pub fn confirms(&self, node: usize) -> Vec<(Time, FlowSpec)> {
        let all = self.nodes[node].upcalls.iter();
        all.filter_map(|(t, _, u)| match u {
            Upcall::Confirm { flowspec, .. } => Some((*t, *flowspec)),
            _ => None,
        })
        .collect()
    }

    pub fn errors(&self, node: usize) -> Vec<ErrorReport> {
        let all = self.nodes[node].upcalls.iter();
        all.filter_map(|(_, _, u)| match u {
            Upcall::Error { error, .. } => Some(error.clone()),
            _ => None,
        })
        .collect()
    }

    pub fn heard(&self, node: usize, of: impl Fn(&Upcall) -> bool) -> usize {
        self.nodes[node].upcalls.iter().filter(|(_, _, u)| of(u)).count()
    }

    pub fn saw(&self, node: usize, of: impl Fn(&Event) -> bool) -> Vec<Time> {
        self.nodes[node].events.iter().filter(|(_, e)| of(e)).map(|(t, _)| *t).collect()
    }

    /// How many messages of a type went over links since a time.
    pub fn count(&self, kind: &str, since: Time) -> usize {
        self.log.iter().filter(|(t, _, _, k)| *k == kind && *t >= since).count()
    }

    /// Why messages were dropped at a node.
    pub fn drops(&self, node: usize) -> Vec<&'static str> {
        let all = self.nodes[node].events.iter();
        all.filter_map(|(_, e)| match e {
            Event::Dropped { why, .. } => Some(*why),
            _ => None,
        })
        .collect()
    }

    /// A line `snd - r1 - r2 - rcv` with a confirmed reservation from end to end.
    pub fn reserved_line(refresh: Span, mbps: u64) -> Net {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], refresh);
        net.announce(0, 3, mbps);
        net.run(Span::from_millis(10));
        net.ask(0, 3, cl(mbps));
        net.run(Span::from_millis(20));
        assert_eq!(net.confirms(3).len(), 1, "confirmed");
        net
    }
}

impl Net {
    /// The receiver at `to` asks for what `from` sends to another port.
    pub fn ask_port(&mut self, from: usize, to: usize, port: u16, flowspec: FlowSpec) {
        let session = Session { dst_port: port, ..self.session_at(to) };
        let filter = self.template_at(from);
        let (filters, flowspecs): (&[FilterSpec], &[FlowSpec]) = (&[filter], &[flowspec]);
        let (app, style, confirm) = (RECEIVER, Style::Ff, false);
        self.tell(to, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    }
}
