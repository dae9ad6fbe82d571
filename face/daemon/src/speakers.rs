//! Who speaks on a connection: the peer whom the kernel names, or somebody for whom that peer may speak.
//!
//! A broker knows people by their certificates and says for whom it asks. Only root and the agent's own user are taken
//! at their word; everybody else is who the kernel says they are.

use crate::agent::Agent;
use crate::calls::problem;
use crate::config::Level;
use api::agent::Problem;
use api::links::{CallerDoc, LinkRow};
use linux::process::Peer;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use terms::book::{Caller, Role};

/// The longest name of a caller or group, bytes.
const MAX_NAME: usize = 128;
/// Most groups of a caller.
const MAX_GROUPS: usize = 64;

/// The speakers of all connections.
#[derive(Debug, Default)]
pub struct Speakers {
    all: BTreeMap<u64, Speaker>,
}

#[derive(Debug)]
struct Speaker {
    peer: Caller,
    trusted: bool,
    instead: Option<Caller>,
}

impl Speakers {
    /// A connection came.
    pub fn came(&mut self, client: u64, peer: &Peer) {
        let trusted = peer.uid == 0 || own_uid() == Some(peer.uid);
        let caller = Caller {
            name: format!("uid:{}", peer.uid),
            groups: vec![format!("gid:{}", peer.gid)],
            role: if trusted { Role::Operator } else { Role::Owner },
        };
        self.all.insert(client, Speaker { peer: caller, trusted, instead: None });
    }

    /// It went.
    pub fn went(&mut self, client: u64) {
        self.all.remove(&client);
    }

    /// Who speaks there now; of a connection that is not known, nobody in particular.
    pub fn of(&self, client: u64) -> Caller {
        let speaker = self.all.get(&client);
        speaker.map_or_else(Caller::default, |one| one.instead.as_ref().unwrap_or(&one.peer).clone())
    }

    /// From now on the connection speaks for somebody else; `None`: for itself again.
    ///
    /// # Errors
    /// It may not, or what it says is no caller.
    pub fn speak_for(&mut self, client: u64, who: Option<&CallerDoc>) -> Result<(), Problem> {
        let instead = who.map(read).transpose()?;
        match self.all.get_mut(&client) {
            Some(speaker) if speaker.trusted => speaker.instead = instead,
            _ => return Err(problem("refused", "only root and the agent's own user may speak for others")),
        }
        Ok(())
    }
}

fn read(doc: &CallerDoc) -> Result<Caller, Problem> {
    let role = match doc.role.as_str() {
        "owner" => Role::Owner,
        "auditor" => Role::Auditor,
        "operator" => Role::Operator,
        other => return Err(problem("misuse", format!("{other:?} is no role: owner, auditor or operator"))),
    };
    // Names go into logs and audit records as they are.
    let plain =
        |name: &String| !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(|c| c.is_ascii_graphic());
    if !plain(&doc.name) || doc.groups.len() > MAX_GROUPS || !doc.groups.iter().all(plain) {
        let what = format!(
            "a caller has a name and at most {MAX_GROUPS} groups, each 1 to {MAX_NAME} visible ASCII characters"
        );
        return Err(problem("misuse", what));
    }
    Ok(Caller { name: doc.name.clone(), groups: doc.groups.clone(), role })
}

/// Ours, as the kernel shows it.
pub(crate) fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|meta| meta.uid())
}

impl Agent {
    /// Takes a trusted peer at its word, and writes down whose.
    pub(crate) fn speak_for(&mut self, client: u64, who: Option<&CallerDoc>) -> Result<(), Problem> {
        self.speakers.speak_for(client, who)?;
        let name = self.speakers.of(client).name;
        self.log.line(self.clock.now(), Level::Debug, "speaks_for", &[("client", &client), ("name", &name)]);
        Ok(())
    }

    /// The links of this machine, for whoever looks for paths.
    pub(crate) fn links(&mut self) -> Result<Vec<LinkRow>, Problem> {
        let addresses = self.netlink.addresses().map_err(|error| problem("fault", error.to_string()))?;
        let of = |index| addresses.iter().filter(move |address| address.index == index);
        let row = |state: &node::io::InterfaceState| LinkRow {
            interface: state.name.clone(),
            addresses: of(state.index).map(|one| format!("{}/{}", one.address, one.prefix)).collect(),
            resource: state.link.map(|_| format!("net/{}", state.name)),
            rate_wire_bps: state.link.map(|link| link.spec.rate.as_bps()),
            mtu: state.mtu,
        };
        Ok(self.interfaces.values().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(name: &str, role: &str) -> CallerDoc {
        CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned() }
    }

    #[test]
    fn only_the_trusted_speak_for_others() {
        let mut speakers = Speakers::default();
        speakers.came(16, &Peer { pid: 1, uid: 0, gid: 0 });
        speakers.came(17, &Peer { pid: 2, uid: 65_533, gid: 100 });
        assert_eq!((speakers.of(16).name.as_str(), speakers.of(16).role), ("uid:0", Role::Operator));
        assert_eq!((speakers.of(17).name.as_str(), speakers.of(17).role), ("uid:65533", Role::Owner));
        speakers.speak_for(16, Some(&doc("alice", "owner"))).unwrap();
        assert_eq!((speakers.of(16).name.as_str(), speakers.of(16).role), ("alice", Role::Owner));
        assert_eq!(speakers.speak_for(17, Some(&doc("alice", "owner"))).unwrap_err().kind, "refused");
        assert_eq!(speakers.of(17).name, "uid:65533");
        for wrong in [doc("", "owner"), doc("a\nb", "owner"), doc("alice", "emperor"), doc(&"x".repeat(129), "owner")] {
            assert_eq!(speakers.speak_for(16, Some(&wrong)).unwrap_err().kind, "misuse", "{wrong:?}");
        }
        assert_eq!(speakers.of(16).name, "alice", "what was refused changes nothing");
        speakers.speak_for(16, None).unwrap();
        assert_eq!(speakers.of(16).name, "uid:0");
        speakers.went(16);
        assert_eq!(speakers.of(16), Caller::default());
        assert_eq!(speakers.speak_for(16, None).unwrap_err().kind, "refused");
    }
}
