//! The choice between several paths between two hosts, and the costs of links.
//!
//! ```toml
//! routes = "kernel"                     # the default: the path that the agents' kernels route by is what is reserved
//! # routes = "configured"               # packets are steered over what was reserved, by means of the operator's
//! [costs]                               # of leaving by an interface, in place of 1
//! "esnet-north/net/to-esnet-east" = 5
//! ```

use rpc::document::{Document, Mistake};
use std::collections::BTreeMap;
use toml::Spanned;

/// The most costs in a file.
const MOST: usize = 4_096;
/// The largest cost of a link.
const MOST_COST: u32 = 1_000_000;

/// The source of the path that packets take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RouteSource {
    /// The kernels' routes.
    #[default]
    Kernel,
    /// The operator steers packets over the path that was reserved.
    Configured,
}

/// The routing of a broker's paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoutingSettings {
    /// The source of the path.
    pub routes: RouteSource,
    /// The costs of leaving by some resources, as AGENT/RESOURCE; of others it is 1.
    pub costs: BTreeMap<String, u32>,
}

/// Reads the settings.
///
/// # Errors
/// The first [`Mistake`] in them.
pub fn read(
    document: &Document<'_>,
    routes: Option<&Spanned<String>>,
    costs: &BTreeMap<String, Spanned<u32>>,
    agents: &[&str],
) -> Result<RoutingSettings, Mistake> {
    let routes = match routes.map(|said| (said.get_ref().as_str(), said.span())) {
        None | Some(("kernel", _)) => RouteSource::Kernel,
        Some(("configured", _)) => RouteSource::Configured,
        Some((other, at)) => return Err(document.at(at, format!("routes is kernel or configured, not {other:?}"))),
    };
    if costs.len() > MOST {
        return Err(document.whole(format!("more than {MOST} costs")));
    }
    let mut read = BTreeMap::new();
    for (resource, cost) in costs {
        let known =
            resource.split_once('/').is_some_and(|(agent, rest)| agents.contains(&agent) && rest.starts_with("net/"));
        if !known {
            let what = format!("{resource:?} is no AGENT/net/INTERFACE of an [[agent]] of this file");
            return Err(document.at(cost.span(), what));
        }
        if !(1..=MOST_COST).contains(cost.get_ref()) {
            return Err(document.at(cost.span(), format!("a cost is 1 to {MOST_COST}")));
        }
        read.insert(resource.clone(), *cost.get_ref());
    }
    Ok(RoutingSettings { routes, costs: read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::path::Path;

    #[derive(Deserialize)]
    struct File {
        routes: Option<Spanned<String>>,
        #[serde(default)]
        costs: BTreeMap<String, Spanned<u32>>,
    }

    fn parse(text: &str) -> Result<RoutingSettings, String> {
        let document = Document::new(Path::new("/etc/sluice/broker.toml"), text);
        let file: File = document.parse().map_err(|mistake| mistake.to_string())?;
        read(&document, file.routes.as_ref(), &file.costs, &["a"]).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn settings_and_mistakes() {
        assert_eq!(parse("").unwrap(), RoutingSettings::default());
        let found = parse("routes = \"configured\"\n[costs]\n\"a/net/x\" = 7").unwrap();
        assert_eq!((found.routes, found.costs["a/net/x"]), (RouteSource::Configured, 7));
        for (text, why) in [
            ("routes = \"mine\"", ":1:"),
            ("[costs]\n\"b/net/x\" = 7", ":2:"),
            ("[costs]\n\"a/cpu\" = 7", "no AGENT/net/INTERFACE"),
            ("[costs]\n\"a/net/x\" = 0", "1 to 1000000"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
