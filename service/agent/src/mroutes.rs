//! Static multicast routes, for networks without a multicast routing daemon.
//!
//! ```toml
//! [[multicast_route]]
//! group = "239.7.7.7"
//! sender = "10.0.0.1"            # default: any sender
//! from = "eth0"                  # where its packets come in
//! to = ["eth1", "eth2"]          # and where they go out
//! ```
//!
//! The routes are in the kernel while the agent runs. A route waits for interfaces that do not exist yet.

use crate::document::{Document, Mistake};
use linux::error::SystemError;
use linux::mroute::MulticastRouter;
use linux::netlink::mfc::MulticastRoute;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use terms::IfIndex;
use toml::Spanned;

/// A route in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastRouteConfig {
    /// The multicast group.
    pub group: IpAddr,
    /// The sender; unspecified: any.
    pub sender: IpAddr,
    /// The interface at which its packets come in.
    pub from: String,
    /// The interfaces by which they go out.
    pub to: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteFile {
    group: Spanned<String>,
    sender: Option<Spanned<String>>,
    from: Spanned<String>,
    to: Vec<String>,
}

/// Reads the routes of a file.
pub(crate) fn read(document: &Document<'_>, found: &[RouteFile]) -> Result<Vec<MulticastRouteConfig>, Mistake> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for entry in found {
        let route = one(document, entry)?;
        if !seen.insert((route.group, route.sender)) {
            return Err(document.at(entry.group.span(), "two routes of one sender and group"));
        }
        all.push(route);
    }
    Ok(all)
}

fn one(document: &Document<'_>, entry: &RouteFile) -> Result<MulticastRouteConfig, Mistake> {
    let address = |text: &Spanned<String>| {
        text.get_ref()
            .parse::<IpAddr>()
            .map_err(|_| document.at(text.span(), format!("{:?} is no address", text.get_ref())))
    };
    let group = address(&entry.group)?;
    if !group.is_multicast() {
        return Err(document.at(entry.group.span(), format!("{group} is no multicast group")));
    }
    let any = if group.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let sender = match &entry.sender {
        None => any,
        Some(text) => match address(text)? {
            sender if sender.is_ipv4() == group.is_ipv4() && !sender.is_multicast() => sender,
            sender => return Err(document.at(text.span(), format!("{sender} cannot send to {group}"))),
        },
    };
    let from = entry.from.get_ref().clone();
    if entry.to.contains(&from) || entry.to.is_empty() {
        return Err(
            document.at(entry.from.span(), "a route goes out of at least one interface, and not where it comes in")
        );
    }
    Ok(MulticastRouteConfig { group, sender, from, to: entry.to.clone() })
}

/// The routes in the kernel.
#[derive(Default)]
pub(crate) struct MulticastRoutes {
    router: MulticastRouter,
    told: Vec<MulticastRoute>,
}

impl MulticastRoutes {
    /// Brings the kernel in line with the file, as far as the interfaces exist. Returns the errors.
    pub(crate) fn renew(
        &mut self,
        routes: &[MulticastRouteConfig],
        index: impl Fn(&str) -> Option<IfIndex>,
    ) -> Vec<SystemError> {
        let mut wrong = Vec::new();
        for route in routes {
            let oifs: Vec<IfIndex> = route.to.iter().filter_map(|name| index(name)).collect();
            let Some(iif) = index(&route.from).filter(|_| !oifs.is_empty()) else { continue };
            let wanted = MulticastRoute { group: route.group, src: route.sender, iif, oifs };
            if self.told.contains(&wanted) {
                continue;
            }
            match self.router.add(&wanted) {
                Ok(()) => {
                    self.told.retain(|told| (told.group, told.src) != (wanted.group, wanted.src));
                    self.told.push(wanted);
                }
                Err(failed) => wrong.push(failed),
            }
        }
        wrong
    }
}
