//! Who comes to the agent, and what they may ask: connections of this machine and of others.

use super::Agent;
use crate::calls::problem;
use crate::log::Level;
use crate::remote::News;
use crate::rights;
use crate::sla_file::SlaConfig;
use crate::speakers::NAMED_BROKERS;
use documents::agent::{DecideDoc, Problem, PromisesDoc, Request};
use documents::links::{CallerDoc, LinkRow, MAX_ROUTES, RouteRow};
use linux::route::KernelRoutes;
use std::net::IpAddr;
use std::sync::Arc;
use terms::ports::{Route, RouteDecision};

impl Agent {
    /// Takes new connections of this machine.
    pub(crate) fn accept(&mut self) {
        for (client, peer) in self.drive.console.accept() {
            let fields: [(&str, &dyn std::fmt::Display); 4] =
                [("client", &client), ("pid", &peer.pid), ("uid", &peer.uid), ("gid", &peer.gid)];
            self.drive.console.line(Level::Info, "connected", &fields);
            self.drive.speakers.came(client, &peer);
        }
    }

    /// Takes a trusted peer at its word, and writes down whose.
    pub(crate) fn speak_for(&mut self, client: u64, who: Option<&CallerDoc>) -> Result<(), Problem> {
        self.drive.speakers.speak_for(client, who, &self.drive.book.brokers)?;
        self.drive.forget_follower(client); // what it followed was somebody else's
        self.show_token(client, who.and_then(|who| who.token.as_deref()))?;
        let name = self.drive.speakers.of(client).name;
        self.drive.console.line(Level::Debug, "speaks_for", &[("client", &client), ("name", &name)]);
        Ok(())
    }

    /// Takes the token that a caller shows, if it is the caller's own and its organisation is believed here.
    pub(crate) fn show_token(&mut self, client: u64, token: Option<&str>) -> Result<(), Problem> {
        let (tokens, speakers) = (self.drive.node.policy().tokens(), &self.drive.speakers);
        let shown = token.map(|text| tokens.shown(text, &speakers.of(client).name).map(Arc::new)).transpose();
        let shown = shown.map_err(|error| problem("refused", error.to_string()));
        // After a refusal none is shown: an earlier one would stand for what the caller did not ask.
        self.drive.speakers.show(client, shown.as_ref().ok().cloned().flatten());
        shown.map(drop)
    }

    /// The links of this machine, for a search of paths.
    pub(crate) fn links(&mut self) -> Result<Vec<LinkRow>, Problem> {
        let addresses = self.drive.netlink.addresses().map_err(|error| problem("fault", error.to_string()))?;
        let of = |index| addresses.iter().filter(move |address| address.index == index);
        let slas = &self.drive.config.slas;
        let agreed = |name: &str| slas.iter().filter(|sla| sla.interface == *name).map(SlaConfig::resource).collect();
        let row = |state: &node::io::InterfaceState| LinkRow {
            interface: state.name.clone(),
            addresses: of(state.index).map(|one| format!("{}/{}", one.address, one.prefix)).collect(),
            resource: state.link.map(|_| format!("net/{}", state.name)),
            rate_wire_bps: state.link.map(|link| link.spec.rate.as_bps()),
            mtu: state.mtu,
            slas: agreed(&state.name),
        };
        Ok(self.drive.interfaces.values().map(row).collect())
    }

    /// The kernel's ways out to some addresses, for a search of paths.
    pub(crate) fn routes(&self, to: &[IpAddr]) -> Result<Vec<RouteRow>, Problem> {
        if to.len() > MAX_ROUTES {
            return Err(problem("misuse", format!("at most {MAX_ROUTES} addresses at once")));
        }
        let mut kernel = KernelRoutes::open().map_err(|error| problem("fault", error.to_string()))?;
        let row = |to: &IpAddr| {
            let nothing = RouteRow { to: *to, interface: None, gateway: None, local: false };
            match kernel.route(*to, None, None) {
                RouteDecision::Local => RouteRow { local: true, ..nothing },
                RouteDecision::Out { oif, gateway, .. } => {
                    let name = self.drive.interfaces.get(&oif).map(|state| state.name.clone());
                    RouteRow { interface: name, gateway, ..nothing }
                }
                RouteDecision::Tree(_) | RouteDecision::None => nothing,
            }
        };
        Ok(to.iter().map(row).collect())
    }

    /// Handles the news: callers that were admitted or refused, and the state of the front.
    pub(crate) fn answer_door(&mut self) {
        let Some(remote) = &self.remote else { return };
        let console = &mut self.drive.console;
        for news in remote.take() {
            match news {
                News::Came { stream, identity, from } => {
                    let Some(client) = console.adopt(stream) else { continue };
                    let fields: [(&str, &dyn std::fmt::Display); 3] =
                        [("client", &client), ("who", &identity), ("from", &from)];
                    console.line(Level::Info, "connected", &fields);
                    self.drive.speakers.came_from_afar(client, identity);
                }
                News::Refused { from, why } => {
                    let fields: [(&str, &dyn std::fmt::Display); 2] = [("from", &from), ("text", &why)];
                    console.line(Level::Warn, "caller_refused", &fields);
                }
                News::Complaint(what) => {
                    console.announce(Level::Error, "revocations", &format!("{what}; what was before holds"))
                }
                News::Ready { pid, restricted } => {
                    let fields: [(&str, &dyn std::fmt::Display); 2] = [("pid", &pid), ("restricted", &restricted)];
                    console.line(Level::Info, "front_serves", &fields);
                }
                News::Ended { why, again_in } => {
                    let text = format!(
                        "{why}; callers from other machines are cut off, another starts in {} ms",
                        again_in.as_millis()
                    );
                    console.announce(Level::Error, "front_ended", &text);
                }
            }
        }
    }

    /// Checks that a connection may make this call at all, before its contents are examined.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn may(&self, client: u64, request: &Request) -> Result<(), Problem> {
        let call = rights::call(request);
        let nobody = || problem("refused", "nobody speaks here");
        let (seat, caller) = self.drive.speakers.seat(client, call).ok_or_else(nobody)?;
        self.drive.node.policy().rules().may_ask(seat, call, caller).map_err(|why| problem("refused", why))?;
        if call.is_for_brokers(seat) && !self.drive.speakers.coordinates(client, &self.drive.book.brokers) {
            return Err(problem("refused", format!("{}: {NAMED_BROKERS}", call.name())));
        }
        let (coordinator, plain) = match request {
            Request::BookPrepare(doc) => (&doc.coordinator, Some(rights::plain(&doc.ask))),
            Request::BookDecide(DecideDoc { coordinator, .. }) => (coordinator, None),
            Request::BookPromises(PromisesDoc { coordinator, .. }) => (coordinator, None),
            _ => return Ok(()),
        };
        self.drive.speakers.coordinates_as(client, coordinator)?;
        // The one for whom it speaks may make the call that is to be promised.
        let Some((plain, (seat, caller))) =
            plain.and_then(|call| Some((call, self.drive.speakers.seat(client, call)?)))
        else {
            return Ok(());
        };
        self.drive.node.policy().rules().may_ask(seat, plain, caller).map_err(|why| problem("refused", why))
    }
}
