//! Interfaces: the configuration combined with the kernel's state.

use crate::config::{AgentConfig, InterfaceConfig};
use crate::planes::Planes;
use linux::ethtool;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::link::LinkState;
use node::io::{InterfaceState, Reservable};
use std::collections::BTreeMap;
use terms::{IfIndex, Rate};
use traffic::plan::LinkSpec;
use traffic::scheduler::SchedulerKind;

/// The interfaces that are up now, by index.
pub type Interfaces = BTreeMap<IfIndex, InterfaceState>;

/// Reads them all. Interfaces that the configuration does not name are known (their addresses are ours), but RSVP is
/// not spoken there and nothing is reservable.
///
/// # Errors
/// Netlink broke.
pub(crate) fn read(
    socket: &mut Socket,
    config: &AgentConfig,
    planes: &mut Planes,
) -> Result<Interfaces, linux::netlink::Error> {
    let links = socket.links()?;
    let addresses = socket.addresses()?;
    planes.know(links.iter().map(|link| (link.index, link.name.as_str())));
    let up = links.iter().filter(|link| link.up);
    Ok(up.map(|link| (link.index, state(link, &addresses, config, planes))).collect())
}

fn state(link: &LinkState, addresses: &[Address], config: &AgentConfig, planes: &Planes) -> InterfaceState {
    let wanted = config.interfaces.iter().find(|interface| interface.name == link.name);
    let rate = wanted.and_then(|wanted| rate(link, wanted));
    InterfaceState {
        index: link.index,
        name: link.name.clone(),
        addresses: addresses.iter().filter(|a| a.index == link.index).map(|a| a.address).collect(),
        mtu: link.mtu,
        rsvp: wanted.is_some(),
        link: wanted.zip(rate).map(|(wanted, rate)| Reservable {
            measured: measured(config, &link.name, rate),
            ..reservable(link, wanted, rate, planes)
        }),
    }
}

/// The rate set aside for flows that are admitted by measurement.
fn measured(config: &AgentConfig, name: &str, rate: Rate) -> Rate {
    config.mace.as_ref().filter(|mace| mace.interface == name).map_or(Rate::ZERO, |mace| mace.terms.allocated.of(rate))
}

fn reservable(link: &LinkState, wanted: &InterfaceConfig, rate: Rate, planes: &Planes) -> Reservable {
    let scheduler = planes.scheduler(link.index, wanted.scheduler);
    Reservable {
        spec: LinkSpec { rate, overhead: wanted.overhead, mtu: link.mtu, scheduler },
        assumed_holding: wanted.assumed_holding,
        signalled_share: wanted.signalled_share.of(rate),
        kept_back: wanted.kept_back.of(rate),
        // HTB bounds no delay, so none is exported.
        guaranteed: match wanted.delay_bound.filter(|_| scheduler == SchedulerKind::Hfsc) {
            Some(declared) if !planes.is_user(link.index) => {
                Some((link.mtu, declared.as_nanos().div_ceil(1_000) as u32))
            }
            _ => planes.error_terms(link.index),
        },
        measured: Rate::ZERO,
    }
}

/// The rate in the file, or else the rate that the driver of a real device reports; a software device invents
/// its rate.
fn rate(link: &LinkState, wanted: &InterfaceConfig) -> Option<Rate> {
    wanted.rate.or_else(|| {
        let reported = if link.kind.is_empty() { ethtool::link_speed(&link.name).ok().flatten() } else { None };
        reported.filter(|rate| *rate > Rate::ZERO)
    })
}

/// The reasons why an agent cannot start with these interfaces, one sentence each.
pub fn complaints(links: &[LinkState], config: &AgentConfig) -> Vec<String> {
    let mut wrong = Vec::new();
    for wanted in &config.interfaces {
        let Some(link) = links.iter().find(|link| link.name == wanted.name) else {
            let names: Vec<&str> = links.iter().filter(|l| !l.loopback).map(|l| l.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            wrong.push(format!("there is no interface {}; there are: {there}", wanted.name));
            continue;
        };
        if link.loopback {
            wrong.push(format!("{} is the loopback: nothing can be reserved on it", wanted.name));
        } else if rate(link, wanted).is_none() {
            let why = match link.kind.as_str() {
                "" => "its driver reports none".to_owned(),
                kind => format!("it is a {kind} device"),
            };
            let name = &wanted.name;
            wrong.push(format!(
                "the rate of {name} is unknown ({why}): write rate = \"100mbit\" (or what it is) under it"
            ));
        } else if wanted.kept_back.of(rate(link, wanted).unwrap_or(Rate::ZERO))
            >= rate(link, wanted).unwrap_or(Rate::ZERO)
        {
            wrong.push(format!("kept_back leaves nothing of {} to reserve", wanted.name));
        }
    }
    wrong
}
