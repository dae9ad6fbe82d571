//! The tester's default interfaces: the one towards the node, and the only other one there.

use super::tester::TesterPort;
use bed::error::Error;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netlink::route::{RouteAnswer, RouteQuery};
use linux::netns::Namespace;
use std::net::Ipv4Addr;
use terms::IfIndex;

/// Returns both ends, each in its namespace: upstream, downstream. Arguments are `[NETNS:]INTERFACE`.
///
/// # Errors
/// There is no such interface, or several would fit.
pub fn choose(target: Ipv4Addr, from: Option<&str>, to: Option<&str>) -> Result<[(Namespace, TesterPort); 2], Error> {
    let (at_up, near) = match from {
        Some(text) => split(text)?,
        None => {
            let here = Namespace::current()?;
            let near = towards(&here, target)?;
            (here, near)
        }
    };
    let up = TesterPort::open(&at_up, &near)?;
    let (at_down, far) = match to {
        Some(text) => split(text)?,
        None => {
            let same = if at_up.name().is_empty() { Namespace::current()? } else { Namespace::open(at_up.name())? };
            let far = other(&same, up.interface)?;
            (same, far)
        }
    };
    let down = TesterPort::open(&at_down, &far)?;
    Ok([(at_up, up), (at_down, down)])
}

fn split(text: &str) -> Result<(Namespace, String), Error> {
    Ok(match text.split_once(':') {
        Some((name, interface)) => (Namespace::open(name)?, interface.to_string()),
        None => (Namespace::current()?, text.to_string()),
    })
}

/// Returns the interface of the route to an address.
fn towards(here: &Namespace, target: Ipv4Addr) -> Result<String, Error> {
    let found = here.run(|| {
        let mut socket = Socket::open()?;
        match socket.route(&RouteQuery { dst: target.into(), src: None, iif: None })? {
            RouteAnswer::Out { oif, .. } => socket.link_by_index(oif).map(|link| Some(link.name)),
            _ => Ok(None),
        }
    })?;
    let found = found.map_err(SystemError::netlink(format!("look for the way to {target}")))?;
    found.ok_or_else(|| Error::Testbed(format!("{target} is not reached by any interface: say which with --from")))
}

/// Returns the only other interface that is up and has an IPv4 address.
fn other(here: &Namespace, near: IfIndex) -> Result<String, Error> {
    let found = here.run(|| {
        let mut socket = Socket::open()?;
        let addresses = socket.addresses()?;
        let links = socket.links()?;
        let fits = |link: &&linux::netlink::link::LinkState| {
            let addressed = addresses.iter().any(|a| a.index == link.index && a.address.is_ipv4());
            link.up && !link.loopback && link.index != near && addressed
        };
        Ok::<_, linux::netlink::Error>(links.iter().filter(fits).map(|link| link.name.clone()).collect::<Vec<_>>())
    })?;
    let mut found = found.map_err(SystemError::netlink("look for the interface behind the node"))?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::Testbed("no other interface here has an IPv4 address: say which with --to".into())),
        _ => Err(Error::Testbed(format!("which of {} is behind the node? Say it with --to", found.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{NEAR, ProfiledLine};

    #[test]
    fn ends_are_found_or_asked_for() {
        if let Err(error) = bed::Bed::possible() {
            return println!("SKIPPED: {error}");
        }
        let line = ProfiledLine::new().unwrap();
        let (up, node) = (line.upstream.name(), line.node.name());
        let alone = line.upstream.run(|| choose(NEAR.0, None, None).map(|_| ())).unwrap().unwrap_err().to_string();
        assert!(alone.contains("--to"), "{alone}");
        // The node itself has exactly two interfaces, so no argument is needed there.
        let both = line.node.run(|| choose(NEAR.1, None, None).map(|[up, down]| (up.1.interface, down.1.interface)));
        assert_eq!(both.unwrap().unwrap(), (line.interfaces[0], line.interfaces[1]));
        let (from, to) = (format!("{up}:up"), format!("{node}:to-down"));
        let [(at_up, _), (at_down, down)] = choose(NEAR.0, Some(&from), Some(&to)).unwrap();
        assert_eq!((at_up.name(), at_down.name(), down.interface), (up, node, line.interfaces[1]));
        let nowhere = choose(NEAR.0, Some("no-such-namespace:up"), None).map(|_| ()).unwrap_err().to_string();
        assert!(nowhere.contains("no-such-namespace"), "{nowhere}");
    }
}
