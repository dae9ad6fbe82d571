//! Calls about Boomerang, checked and turned into inputs of the node.

use super::turn::BoomerangTurn;
use super::{Owner, show};
use crate::calls::problem;
use booking::policy::rights::Call as Asks;
use boomerang::{AppId, ApplicationCall, SessionRequest, is_told_apart};
use documents::agent::{Answer, BoomerangAsk, BoomerangDoc, Problem};
use documents::boomerang::{MaskDoc, RatesDoc};
use linux::route::KernelRoutes;
use node::io::Input;
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use wire::boomerang::{Family, Rates, Selector, Uid};

/// The most pairs of rates in a request.
const MOST_RATES: usize = 64;

fn misuse(message: impl Into<String>) -> Problem {
    problem("misuse", message)
}

impl BoomerangTurn<'_> {
    /// Refuses the call if Boomerang is not in the configuration.
    fn speaks_boomerang(&self) -> Result<(), Problem> {
        match self.0.echo {
            Some(_) => Ok(()),
            None => Err(misuse("this agent does not speak Boomerang: write [boomerang] into its configuration")),
        }
    }

    pub(crate) fn reserve(&mut self, client: u64, ask: &BoomerangAsk, number: Option<u64>) -> Result<Answer, Problem> {
        self.speaks_boomerang()?;
        let asked = asked(ask, self.0.node.route_mut())?;
        if ask.auth.is_some_and(|id| {
            !self.0.config.boomerang.as_ref().is_some_and(|config| config.keys.iter().any(|key| key.id == id))
        }) {
            return Err(misuse("there is no such key: `keys` in [boomerang] names the file that they are in"));
        }
        if let Some(number) = number.filter(|number| self.owns(*number)) {
            self.0.signals().may_touch_echo(client, Asks::BoomerangReserve, number)?;
        }
        let claims = self.0.signals().may_echo(client, number, &asked)?;
        let Some(echo) = &mut self.0.echo else { return Err(misuse("this agent does not speak Boomerang")) };
        let app = match number {
            Some(number) if !echo.owners.contains_key(&AppId(number)) => return Err(unknown(number)),
            Some(number) => AppId(number),
            None => {
                echo.last += 1;
                AppId(echo.last)
            }
        };
        echo.owners.insert(app, Owner { client: Some(client), bound: ask.bound });
        self.0.speakers.count_echo(client, app.0, claims);
        self.0.tell(Input::Boomerang(ApplicationCall::Reserve { app, asked }));
        let sessions: Vec<_> = show::sessions(self.0).filter(|session| session.number == app.0).collect();
        let all_sessions = sessions.len() as u64;
        Ok(Answer::Boomerang(BoomerangDoc { sessions, blocks: Vec::new(), all_sessions, all_blocks: 0 }))
    }

    /// True if an application on this host asked for that session.
    fn owns(&self, number: u64) -> bool {
        self.0.echo.as_ref().is_some_and(|echo| echo.owners.contains_key(&AppId(number)))
    }

    pub(crate) fn sessions(&mut self, skip: u64) -> Result<Answer, Problem> {
        self.speaks_boomerang()?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        self.page(skip).map(Answer::Boomerang).map_err(|fault| problem("fault", fault.to_string()))
    }

    pub(crate) fn trace(&mut self, client: u64) -> Result<Answer, Problem> {
        self.speaks_boomerang()?;
        self.0.echo.iter_mut().for_each(|echo| echo.traced_by(client));
        Ok(Answer::Done)
    }

    pub(crate) fn release(&mut self, client: u64, number: u64) -> Result<Answer, Problem> {
        self.speaks_boomerang()?;
        let app = AppId(number);
        if self.owns(number) {
            self.0.signals().may_touch_echo(client, Asks::BoomerangRelease, number)?;
        }
        let Some(owner) = self.0.echo.as_mut().and_then(|echo| echo.owners.get_mut(&app)) else {
            return Err(unknown(number));
        };
        owner.client = Some(client);
        self.0.tell(Input::Boomerang(ApplicationCall::Release { app }));
        Ok(Answer::Done)
    }
}

fn unknown(number: u64) -> Problem {
    problem("refused", format!("there is no Boomerang session {number} here: `sluice boomerang sessions` lists them"))
}

/// An application's request in the engine's terms.
fn asked(ask: &BoomerangAsk, routes: &mut KernelRoutes) -> Result<SessionRequest, Problem> {
    if ask.rates.is_empty() || ask.rates.len() > MOST_RATES {
        return Err(misuse(format!("1 to {MOST_RATES} pairs of rates")));
    }
    let rises =
        |pair: &[RatesDoc]| pair[1].forward_bps > pair[0].forward_bps || pair[1].reverse_bps > pair[0].reverse_bps;
    if ask.rates.windows(2).any(rises) {
        return Err(misuse("the pairs of rates go from the best down"));
    }
    if rates(&ask.rates[0]).is_zero() {
        return Err(misuse("a rate of zero in both directions reserves nothing: release it instead"));
    }
    if ask.far_end.is_multicast() != ask.no_echo {
        return Err(misuse("a group is asked with no_echo, a host without"));
    }
    let any_protocol = ask.mask.is_some_and(|mask| mask.protocol == 0);
    if ask.refresh_s == 0 || ask.ttl == 0 || (ask.flow.protocol == 0 && !any_protocol) {
        return Err(misuse("a refresh interval, a TTL and an IP protocol are not zero"));
    }
    let classifier = classifier(ask, routes)?;
    let family = Family::of(ask.far_end);
    let mask = ask.mask.as_ref().map_or(Ok(Selector::exact(family)), |mask| masked(mask, &ask.rates, family))?;
    let says = |bits: u16, port: u16| bits == 0 || port != 0;
    if classifier.flow_under(&mask).is_masked()
        && !(says(mask.src_port, classifier.src_port) && says(mask.dst_port, classifier.dst_port))
    {
        return Err(misuse("a port of prefixes is named, or left out of the mask: none is number 0"));
    }
    Ok(SessionRequest {
        far_end: ask.far_end,
        source: None,
        classifier,
        mask,
        rates: ask.rates.iter().map(rates).collect(),
        at_least: rates(&ask.at_least),
        refresh: ask.refresh_s,
        no_echo: ask.no_echo,
        uid: ask.uid.map(|(user, credential)| Uid { user, credential }),
        auth: ask.auth,
        count: !ask.no_echo,
        ttl: ask.ttl,
        router_alert: ask.router_alert,
    })
}

fn classifier(ask: &BoomerangAsk, routes: &mut KernelRoutes) -> Result<Selector, Problem> {
    let flow = &ask.flow;
    let dst = flow.dst.unwrap_or(ask.far_end);
    let src = match flow.src {
        Some(src) => src,
        None => match routes.route(ask.far_end, None, None) {
            RouteDecision::Out { source, .. } => source,
            _ => return Err(problem("refused", format!("there is no way to {}", ask.far_end))),
        },
    };
    if src.is_ipv4() != ask.far_end.is_ipv4() || dst.is_ipv4() != ask.far_end.is_ipv4() {
        return Err(misuse("the flow and the far end are of different address families"));
    }
    let key = terms::FlowKey {
        src,
        dst,
        protocol: flow.protocol,
        src_port: flow.src_port,
        dst_port: flow.dst_port,
        wild: terms::Wild::NONE,
    };
    Ok(Selector::of(&key))
}

fn masked(mask: &MaskDoc, rates: &[RatesDoc], family: Family) -> Result<Selector, Problem> {
    let fits = |address: &IpAddr| Family::of(*address) == family;
    if !fits(&mask.src) || !fits(&mask.dst) {
        return Err(misuse("the mask is of another address family"));
    }
    let &MaskDoc { src, dst, protocol, src_port, dst_port } = mask;
    let mask = Selector { src, dst, src_port, dst_port, protocol, tos: 0, flags: 0 };
    let backwards = rates.iter().any(|pair| pair.reverse_bps > 0) && !is_told_apart(&mask.turned());
    if backwards || !is_told_apart(&mask) {
        let way = if backwards { "in reverse " } else { "" };
        return Err(misuse(format!(
            "no node can tell {way}the packets of this mask apart: a mask may leave out both ports; or the source and its port, \
             or the source and both ports, without a reverse rate; or the last bits of addresses (a prefix, not other bits, and \
             not all of the destination) with either port, and the protocol, whole or not at all"
        )));
    }
    Ok(mask)
}

pub(super) fn rates(doc: &RatesDoc) -> Rates {
    Rates { forward: doc.forward_bps, reverse: doc.reverse_bps }
}
