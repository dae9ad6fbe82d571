//! Signalling by connections of this machine, as policy sees it. The engine decides
//! ([`booking::policy::Signalled`]).

use crate::calls::{AppRequest, problem};
use crate::drive::{AgentNode, Drive};
use crate::news::Names;
use crate::speakers::Speakers;
use booking::policy::rights::{Call, Right, Whose};
use booking::policy::{AddressPrefix, Asker, EndPoint, Policy, SignalClaim, SignalKey, Signalled};
use boomerang::SessionRequest;
use documents::agent::{Problem, SignalDoc};
use documents::may::Signal;
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::{FilterSpec, FlowSpec, Session, Style, Time};
use wire::boomerang::Selector;

/// The callers, the policy and the routes, at one time of the calendar.
pub(crate) struct SignalTurn<'a> {
    speakers: &'a mut Speakers,
    node: &'a mut AgentNode,
    names: &'a Names,
    /// The time of day.
    now: Time,
}

impl Drive {
    /// The parts that a decision of policy about signalling needs.
    pub(crate) fn signals(&mut self) -> SignalTurn<'_> {
        let now = self.book.calendar(self.clock.now());
        SignalTurn { speakers: &mut self.speakers, node: &mut self.node, names: &self.names, now }
    }
}

impl SignalTurn<'_> {
    /// Asks policy whether a connection may signal this. An admitted request counts from now on.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(crate) fn may(&mut self, client: u64, request: &AppRequest) -> Result<(), Problem> {
        match *request {
            AppRequest::Sender(session, template, tspec, _) => {
                let claim = SignalClaim {
                    resource: Some(self.towards(session.dst)),
                    inward: false,
                    src: host(template.src),
                    dst: host(session.dst),
                    amount: tspec.r.as_bps(),
                };
                self.ask_policy(client, Some(SignalKey::Sender(client, session, template)), vec![claim])
            }
            AppRequest::SenderGone(session, template) => {
                self.speakers.signalled.gone(SignalKey::Sender(client, session, template));
                Ok(())
            }
            AppRequest::Receiver(session) => {
                let (src, dst) = (EndPoint::Unsaid, host(session.dst));
                self.ask_policy(client, None, vec![SignalClaim { resource: None, inward: true, src, dst, amount: 0 }])
            }
            AppRequest::Reserve { session, style, ref filters, ref flowspecs, .. } => {
                let claims = self.reserved(&session, style, filters, flowspecs);
                self.ask_policy(client, Some(SignalKey::Reserve(client, session)), claims)
            }
            AppRequest::Priority(priority) => {
                let asked = priority.map(|said| said.preempting.max(said.defending));
                let before = self.speakers.urgency(client, asked);
                let told =
                    self.as_asker(client, |policy, signalled, asker| signalled.may_be_urgent(policy, asker, client));
                if told.is_err() {
                    self.speakers.urgency(client, before);
                }
                told
            }
            AppRequest::Release(session) => {
                self.speakers.signalled.released(client, session);
                Ok(())
            }
        }
    }

    /// The same of a session of Boomerang. It is counted when it has a number.
    pub(crate) fn may_echo(
        &mut self,
        client: u64,
        number: Option<u64>,
        asked: &SessionRequest,
    ) -> Result<Vec<SignalClaim>, Problem> {
        let most = |of: fn(&wire::boomerang::Rates) -> u32| asked.rates.iter().map(of).max().unwrap_or(0).into();
        let ends = ends(&asked.classifier, &asked.mask);
        let claims = echoed(self, asked.far_end, ends, most(|rates| rates.forward), most(|rates| rates.reverse));
        let key = number.map(SignalKey::Boomerang);
        self.as_asker(client, |policy, signalled, asker| signalled.may(policy, asker, key, &claims).map(|_| ()))?;
        Ok(claims)
    }

    /// Checks that a connection may change or release a session of Boomerang: its owner may, and operators.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn may_touch_echo(&self, client: u64, call: Call, number: u64) -> Result<(), Problem> {
        let nobody = || problem("refused", "nobody speaks here");
        let (seat, caller) = self.speakers.seat(client, call).ok_or_else(nobody)?;
        let own = self.speakers.signalled.owner(number) == Some(&caller.name);
        let whose = if own { Whose::Own } else { Whose::Others };
        match call.right(seat, whose) {
            Right::No => Err(problem("refused", call.refusal(seat, whose, caller))),
            Right::Yes | Right::Rule => Ok(()),
        }
    }

    fn ask_policy(&mut self, client: u64, key: Option<SignalKey>, claims: Vec<SignalClaim>) -> Result<(), Problem> {
        self.as_asker(client, |policy, signalled, asker| match key {
            Some(key) => signalled.ask(policy, asker, key, claims),
            None => signalled.may(policy, asker, None, &claims).map(|_| ()),
        })
    }

    fn as_asker(
        &mut self,
        client: u64,
        ask: impl FnOnce(&Policy, &mut Signalled, &Asker<'_>) -> Result<(), (String, String)>,
    ) -> Result<(), Problem> {
        let nobody = || problem("refused", "nobody speaks here");
        let (seat, caller) = self.speakers.seat(client, Call::Reserve).ok_or_else(nobody)?;
        let caller = caller.clone();
        let asker = Asker { caller: &caller, seat, priority: self.speakers.urgent(client), now: self.now };
        ask(self.node.policy().rules(), &mut self.speakers.signalled, &asker).map_err(|(rule, why)| {
            match rule.is_empty() {
                true => problem("refused", why),
                false => problem("refused", format!("the rule \"{rule}\" says no: {why}")),
            }
        })
    }

    /// The resource of the interface by which packets go to an address and come from it; empty: no route.
    fn towards(&mut self, there: IpAddr) -> String {
        match self.node.route_mut().route(there, None, None) {
            RouteDecision::Out { oif, .. } => {
                self.names.get(&oif).map(|name| format!("net/{name}")).unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    /// The claims of a receiver's reservation: one rate for each sender, or one that all share.
    fn reserved(
        &mut self,
        session: &Session,
        style: Style,
        from: &[FilterSpec],
        much: &[FlowSpec],
    ) -> Vec<SignalClaim> {
        let dst = host(session.dst);
        let most = much.iter().map(|flowspec| flowspec.rate().as_bps()).max().unwrap_or(0);
        if from.is_empty() || style == Style::Wf {
            return vec![SignalClaim {
                resource: Some(String::new()),
                inward: true,
                src: EndPoint::Anywhere,
                dst,
                amount: most,
            }];
        }
        let mut claims: Vec<SignalClaim> = Vec::new();
        for (n, sender) in from.iter().enumerate() {
            let resource = Some(self.towards(sender.src));
            let shared = style == Style::Se && claims.iter().any(|claim| claim.resource == resource);
            let own = much.get(n).map_or(most, |flowspec| flowspec.rate().as_bps());
            let amount = match style {
                _ if shared => 0,
                Style::Ff => own,
                Style::Se | Style::Wf => most,
            };
            claims.push(SignalClaim { resource, inward: true, src: host(sender.src), dst, amount });
        }
        claims
    }
}

/// The claims of a Boomerang session, in both directions.
fn echoed(
    turn: &mut SignalTurn<'_>,
    far_end: IpAddr,
    (src, dst): (EndPoint, EndPoint),
    forward: u64,
    reverse: u64,
) -> Vec<SignalClaim> {
    let out = turn.towards(far_end);
    let there = SignalClaim { resource: Some(out.clone()), inward: false, src, dst, amount: forward };
    let back = SignalClaim { resource: Some(out), inward: true, src: dst, dst: src, amount: reverse };
    [there, back].into_iter().filter(|claim| claim.amount > 0).collect()
}

/// The claims that policy would decide about, were this signalled.
///
/// # Errors
/// `misuse`: this cannot be signalled.
pub(crate) fn would_claim(turn: &mut SignalTurn<'_>, signal: &SignalDoc) -> Result<Vec<SignalClaim>, Problem> {
    let prefix = |text: &String| -> Result<AddressPrefix, Problem> {
        let found: documents::boomerang::SitePrefix = text.parse().map_err(|wrong: String| problem("misuse", wrong))?;
        Ok(AddressPrefix { addr: found.addr, length: found.length })
    };
    let to = prefix(&signal.dst)?;
    let from = signal.src.as_ref().map(prefix).transpose()?;
    let hosts = [Some(to), from].into_iter().flatten().all(|end| end == AddressPrefix::host(end.addr));
    let (src, dst) = (from.map_or(EndPoint::Anywhere, EndPoint::Of), EndPoint::Of(to));
    let amount = signal.rate;
    match (signal.how, from) {
        (Signal::Send | Signal::Receive, _) if !hosts => {
            Err(problem("misuse", "RSVP names hosts, and no prefixes; Boomerang may name prefixes"))
        }
        (Signal::Send | Signal::Receive, _) if signal.reverse > 0 => {
            Err(problem("misuse", "RSVP reserves one way: reverse is of Boomerang"))
        }
        (Signal::Send, Some(_)) => {
            Ok(vec![SignalClaim { resource: Some(turn.towards(to.addr)), inward: false, src, dst, amount }])
        }
        (Signal::Send | Signal::Boomerang, None) => Err(problem("misuse", "from where? give src")),
        (Signal::Receive, from) => {
            let resource = Some(from.map(|from| turn.towards(from.addr)).unwrap_or_default());
            Ok(vec![SignalClaim { resource, inward: true, src, dst, amount }])
        }
        (Signal::Boomerang, Some(_)) => match echoed(turn, to.addr, (src, dst), amount, signal.reverse) {
            claims if claims.is_empty() => Err(problem("misuse", "how much? give rate, reverse, or both")),
            claims => Ok(claims),
        },
    }
}

fn host(addr: IpAddr) -> EndPoint {
    EndPoint::Of(AddressPrefix::host(addr))
}

/// The source and the destination of a session's forward packets.
fn ends(flow: &Selector, mask: &Selector) -> (EndPoint, EndPoint) {
    let end = |addr, mask| {
        let length = match mask {
            IpAddr::V4(mask) => mask.to_bits().leading_ones(),
            IpAddr::V6(mask) => mask.to_bits().leading_ones(),
        };
        EndPoint::Of(AddressPrefix { addr, length: length as u8 })
    };
    (end(flow.src, mask.src), end(flow.dst, mask.dst))
}
