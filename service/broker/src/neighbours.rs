//! The brokers of neighbouring domains, as the broker's own file names them.
//!
//! ```toml
//! domain = "anl"                       # our own domain's name, by which neighbours know it too
//! [[tls.domain]]                       # the neighbour's authority; only brokers of it are let in
//! name = "esnet"
//! ca = "trust/esnet.pem"
//! roles = ["broker"]
//! [[neighbour]]
//! name = "esnet"                       # one of tls.domain
//! address = "10.0.3.2:8443"            # its broker
//! links = ["anl-border/net/to-esnet-west"]   # where our packets to it leave
//! networks = ["10.0.4.0/22"]           # what is reached through it; default: nothing
//! [[distant]]                          # a domain behind a neighbour, for trees
//! name = "lbnl"                        # one of tls.domain
//! address = "10.0.8.2:8443"            # its broker, which ours asks in a tree
//! may_ask = true                       # its broker may ask ours for legs of its trees; default: false
//! ```

use documents::topology::network;
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::Spanned;
use topology::Network;
use trust::{CertificateRole, Domain, HOME};

/// The most neighbours.
const MOST: usize = 64;
/// The most links to one neighbour.
const MOST_LINKS: usize = 64;
/// The most networks that are reached through one neighbour.
const MOST_NETWORKS: usize = 1_024;

/// Our domain and its neighbours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NeighbourDomains {
    /// Our own name, by which the neighbours know us; `None`: we have none.
    pub own: Option<String>,
    /// The neighbours.
    pub all: Vec<NeighbourDomain>,
}

/// A neighbouring domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighbourDomain {
    /// Its name, which is the name of its authority here.
    pub name: String,
    /// The host of its broker.
    pub host: String,
    /// The port of its broker.
    pub port: u16,
    /// The resources of ours by which packets leave to it, as AGENT/RESOURCE.
    pub links: Vec<String>,
    /// The networks that are reached through it.
    pub networks: Vec<Network>,
    /// True: it is behind a neighbour, and asked in trees only.
    pub distant: bool,
    /// True: its broker may ask us for legs. A neighbour's always may.
    pub may_ask: bool,
}

/// A `[[distant]]` as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct DistantFile {
    name: Spanned<String>,
    address: Spanned<String>,
    #[serde(default)]
    may_ask: bool,
}

/// A `[[neighbour]]` as the file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct NeighbourFile {
    name: Spanned<String>,
    address: Spanned<String>,
    links: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
}

/// Reads our own name.
///
/// # Errors
/// It could not stand before a slash in the names of others.
fn own_name(document: &Document<'_>, found: Option<&Spanned<String>>) -> Result<Option<String>, Mistake> {
    let Some(name) = found else { return Ok(None) };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = name.get_ref();
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) || text.starts_with(['-', '.']) || text == HOME {
        let what = format!("{text:?} is no name of a domain: 1 to 64 letters, digits, - _ . and not {HOME:?}");
        return Err(document.at(name.span(), what));
    }
    Ok(Some(text.clone()))
}

/// Reads all neighbours of a file, and the domains behind them; `own` is our name there.
///
/// # Errors
/// The first [`Mistake`] in them.
pub fn read(
    document: &Document<'_>,
    (found, distant): (&[NeighbourFile], &[DistantFile]),
    own: Option<&Spanned<String>>,
    partners: &[Domain],
    agents: &[&str],
) -> Result<NeighbourDomains, Mistake> {
    let own = own_name(document, own)?;
    let domain = own.as_deref();
    if found.len() + distant.len() > MOST {
        return Err(document.whole(format!("more than {MOST} neighbours and distant domains")));
    }
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut all = Vec::with_capacity(found.len() + distant.len());
    let mut known = |name: &Spanned<String>| {
        let at = |what: String| document.at(name.span(), what);
        if domain.is_none() {
            return Err(at("neighbours know us by a name: write domain = \"NAME\" at the top".to_owned()));
        }
        let name = name.get_ref();
        if domain == Some(name) || !seen.insert(name.clone()) {
            return Err(at(format!("{name:?}: another domain is there once, and is not ourselves")));
        }
        let known = partners.iter().find(|partner| partner.name == *name);
        if known.is_none_or(|partner| partner.roles != [CertificateRole::Broker]) {
            let what = "needs a [[tls.domain]] of that name with roles = [\"broker\"]: its people do not ask us";
            return Err(at(format!("the domain {name:?} {what}")));
        }
        Ok(name.clone())
    };
    for one in found {
        let name = known(&one.name)?;
        let links = links(document, &one.links, agents, &mut taken)?;
        let (host, port) = address(document, &one.address)?;
        let networks = networks(document, &one.networks)?;
        all.push(NeighbourDomain { name, host, port, links, networks, distant: false, may_ask: true });
    }
    for one in distant {
        let name = known(&one.name)?;
        let (host, port) = address(document, &one.address)?;
        let (links, networks, may_ask) = (Vec::new(), Vec::new(), one.may_ask);
        all.push(NeighbourDomain { name, host, port, links, networks, distant: true, may_ask });
    }
    Ok(NeighbourDomains { own, all })
}

/// The host and port of a broker.
fn address(document: &Document<'_>, text: &Spanned<String>) -> Result<(String, u16), Mistake> {
    rpc::place::split(text.get_ref())
        .ok_or_else(|| document.at(text.span(), format!("{:?} is no HOST:PORT, such as 10.0.3.2:8443", text.get_ref())))
}

fn links(
    document: &Document<'_>,
    found: &Spanned<Vec<Spanned<String>>>,
    agents: &[&str],
    taken: &mut BTreeSet<String>,
) -> Result<Vec<String>, Mistake> {
    if found.get_ref().is_empty() || found.get_ref().len() > MOST_LINKS {
        return Err(document.at(found.span(), format!("a neighbour has 1 to {MOST_LINKS} links")));
    }
    let one = |link: &Spanned<String>| {
        let text = link.get_ref();
        let known = |agent: &str| agents.contains(&agent);
        let good = text.split_once('/').is_some_and(|(agent, rest)| known(agent) && rest.starts_with("net/"));
        if !good {
            let what = format!("{text:?} is no AGENT/net/INTERFACE of an [[agent]] of this file");
            return Err(document.at(link.span(), what));
        }
        if !taken.insert(text.clone()) {
            return Err(document.at(link.span(), format!("{text:?} leads to two neighbours, or twice to one")));
        }
        Ok(text.clone())
    };
    found.get_ref().iter().map(one).collect()
}

/// A network as the file has it: the bits behind the prefix are zero.
fn parsed(text: &str) -> Option<Network> {
    let (address, prefix) = network(text)?;
    Some(Network::of(address, prefix)).filter(|network| network.address() == address)
}

fn networks(document: &Document<'_>, found: &[Spanned<String>]) -> Result<Vec<Network>, Mistake> {
    if let Some(first) = found.get(MOST_NETWORKS) {
        return Err(document.at(first.span(), format!("more than {MOST_NETWORKS} networks of one neighbour")));
    }
    let read = |one: &Spanned<String>| {
        let wrong = || document.at(one.span(), format!("{:?} is no network, such as 10.0.4.0/22", one.get_ref()));
        parsed(one.get_ref()).ok_or_else(wrong)
    };
    found.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[derive(Deserialize)]
    struct File {
        domain: Option<Spanned<String>>,
        #[serde(default)]
        neighbour: Vec<NeighbourFile>,
        #[serde(default)]
        distant: Vec<DistantFile>,
    }

    fn parse(text: &str) -> Result<Vec<NeighbourDomain>, String> {
        let partner =
            |name: &str, role| Domain { name: name.into(), ca: "/ca".into(), revoked: None, roles: vec![role] };
        let partners = [partner("esnet", CertificateRole::Broker), partner("mren", CertificateRole::Requester)];
        let document = Document::new(Path::new("/etc/sluice/broker.toml"), text);
        let file: File = document.parse().map_err(|mistake| mistake.to_string())?;
        let (near, distant) = (&file.neighbour[..], &file.distant[..]);
        let found = read(&document, (near, distant), file.domain.as_ref(), &partners, &["a"]);
        found.map(|found| found.all).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn neighbours_are_domains_with_links() {
        let text = "domain = \"anl\"\n[[neighbour]]\nname = \"esnet\"\naddress = \"10.0.3.2:8443\"\nlinks = [\"a/net/eth1\"]\n\
             networks = [\"10.0.4.0/22\"]";
        let links = vec!["a/net/eth1".to_owned()];
        let networks = vec![parsed("10.0.4.0/22").unwrap()];
        let esnet = NeighbourDomain {
            name: "esnet".into(),
            host: "10.0.3.2".into(),
            port: 8443,
            links,
            networks,
            distant: false,
            may_ask: true,
        };
        assert_eq!(parse(text), Ok(vec![esnet]));
        // One behind it may not ask unless the file says so.
        for (words, may_ask) in [("", false), ("may_ask = false", false), ("may_ask = true", true)] {
            let text = format!("domain = \"anl\"\n[[distant]]\nname = \"esnet\"\naddress = \"10.0.8.2:8443\"\n{words}");
            let found = parse(&text).unwrap();
            assert_eq!((found[0].distant, found[0].may_ask, found[0].links.len()), (true, may_ask, 0), "{text}");
        }
        assert_eq!(parse("domain = \"anl\""), Ok(vec![]));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let one = |name: &str, address: &str, links: &str| {
            format!("domain = \"anl\"\n[[neighbour]]\nname = \"{name}\"\naddress = \"{address}\"\nlinks = [{links}]\n")
        };
        for (text, line, why) in [
            ("domain = \"a/b\"".to_owned(), 1, "no name of a domain"),
            ("domain = \"home\"".to_owned(), 1, "no name of a domain"),
            (one("esnet", "e:1", "")[15..].to_owned(), 2, "write domain ="),
            (one("anl", "e:1", ""), 3, "not ourselves"),
            (one("lbnl", "e:1", ""), 3, "[[tls.domain]]"),
            (one("mren", "e:1", ""), 3, "roles = [\"broker\"]"),
            (one("esnet", "e:1", ""), 5, "1 to 64 links"),
            (one("esnet", "e", "\"a/net/x\""), 4, "no HOST:PORT"),
            (one("esnet", "e:1", "\"b/net/x\""), 5, "of an [[agent]]"),
            (one("esnet", "e:1", "\"a/cpu\""), 5, "of an [[agent]]"),
            (one("esnet", "e:1", "\"a/net/x\", \"a/net/x\""), 5, "two neighbours"),
            (one("esnet", "e:1", "\"a/net/x\"") + "[[distant]]\nname = \"esnet\"\naddress = \"e:1\"", 7, "there once"),
            (one("esnet", "e:1", "\"a/net/x\"") + "networks = [\"10.0.4.1/22\"]", 6, "no network"),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(&format!(":{line}:")) && said.contains(why), "{text}: {said}");
        }
    }
}
