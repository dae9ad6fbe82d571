//! The edges and trusted interfaces of a node, from the roles of its interfaces ([`crate::role`]).

use crate::config::AgentConfig;
use crate::drive::Drive;
use crate::interfaces::Interfaces;
use crate::log::Level;
use crate::role::InterfaceRole;
use crate::sla_file;
use node::io::Input;
use std::collections::BTreeSet;
use terms::IfIndex;
use traffic::edge::{EdgeAt, Side};

/// The edges and trusted interfaces that exist whatever is booked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The sides at which premium marks without a booking are wiped.
    pub edges: BTreeSet<EdgeAt>,
    /// The interfaces with trusted marks.
    pub believed: BTreeSet<IfIndex>,
}

impl Standing {
    /// Derives them from the roles of the interfaces that exist.
    pub fn of(config: &AgentConfig, interfaces: &Interfaces) -> Standing {
        let mut standing = Standing::default();
        for state in interfaces.values() {
            let Some(named) = config.interfaces.iter().find(|named| named.name == state.name) else { continue };
            let at = |side| EdgeAt { interface: state.index, side };
            match named.role {
                Some(InterfaceRole::Core) => standing.believed.insert(state.index),
                Some(InterfaceRole::Edge | InterfaceRole::Peer) | None => standing.edges.insert(at(Side::Ingress)),
            };
            standing.edges.insert(at(Side::Egress));
        }
        standing
    }
}

/// The warning about an interface without a role.
pub(crate) fn undeclared(name: &str) -> String {
    format!(
        "nobody has said who is behind {name}: it is taken for an edge, where premium marks that nobody booked are wiped; \
         write role = \"edge\", \"core\" or \"peer\" under it"
    )
}

impl Drive {
    /// Makes the edges of the interfaces that there are now.
    pub(crate) fn tell_roles(&mut self) {
        let standing = Standing::of(&self.config, &self.interfaces);
        let index = |name: &str| self.interfaces.values().find(|state| state.name == name).map(|state| state.index);
        let slas = sla_file::places(&self.config.slas, index);
        self.tell(Input::Roles { edges: standing.edges, trusted: standing.believed, slas });
    }

    /// Warns of interfaces without a role; once, at the start.
    pub(crate) fn warn_of_roles(&mut self) {
        let undeclared: Vec<String> = undeclared_of(&self.config).map(|(_, text)| text).collect();
        undeclared.iter().for_each(|text| self.console.announce(Level::Warn, "role", text));
    }
}

/// Each interface of the file without a role, and a sentence about it.
pub fn undeclared_of(config: &AgentConfig) -> impl Iterator<Item = (&str, String)> + '_ {
    let without = config.interfaces.iter().filter(|named| named.role.is_none());
    without.map(|named| (named.name.as_str(), undeclared(&named.name)))
}
