//! The caller on a connection: the peer whom the kernel or a certificate names, or a person for whom that
//! peer may speak.
//!
//! A broker knows people by their certificates and names the person for whom it asks. On this machine the
//! agent believes only root and its own user; from another machine, brokers that the policy names
//! (`brokers = ["main"]`). Every other caller is the one that the kernel or the certificate names. A name
//! that the kernel of a broker's machine gave, such as `uid:0`, has no meaning here: it becomes `main/uid:0`.
//!
//! Names belong to the authority that signed them. Our own domain's are plain, a partner's have its name in
//! front: `anl/alice`. A partner's broker is believed only where the policy names it
//! (`brokers = ["anl/main"]`), only for names of its own domain, and never for operators or auditors of ours.

use crate::book::convert::MAX_COORDINATOR;
use crate::calls::problem;
use booking::policy::rights::{Call, Right, Seat, Whose};
use booking::policy::{SignalClaim, SignalKey, Signalled};
use documents::agent::Problem;
use documents::links::CallerDoc;
use linux::process::PeerProcess;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use terms::book::{Caller, CallerRole, VoToken};
use trust::Identity;

/// The longest name of a caller or group, bytes.
const MAX_NAME: usize = 128;
/// The most groups of a caller.
const MAX_GROUPS: usize = 64;

/// The refusal to brokers that the policy does not name.
pub(crate) const NAMED_BROKERS: &str = "only for brokers that this agent's policy names: brokers = [\"NAME\"]";

/// The callers of all connections.
#[derive(Debug, Default)]
pub struct Speakers {
    all: BTreeMap<u64, Speaker>,
    /// The group whose members are operators.
    operators: Option<u32>,
    /// The user of this machine's broker.
    broker: Option<u32>,
    /// The signalled requests of the callers.
    pub(crate) signalled: Signalled,
}

#[derive(Debug)]
struct Speaker {
    peer: Caller,
    /// Of the peer itself, whomever it speaks for.
    seat: Seat,
    /// The identity of a peer from another machine.
    identity: Option<Identity>,
    instead: Option<Caller>,
    /// The priority at which it signals: the higher of preempting and defending (RFC 3181).
    urgency: Option<u16>,
}

impl Speakers {
    /// Starts empty; members of this group are operators, beside root and our own user.
    pub fn new(operators: Option<u32>) -> Speakers {
        Speakers { operators, ..Speakers::default() }
    }

    /// Takes the broker of this machine that runs as this user at its word, as it takes root.
    pub fn believing(self, broker: Option<u32>) -> Speakers {
        Speakers { broker, ..self }
    }

    /// Adds a connection of this machine.
    pub fn came(&mut self, client: u64, peer: &PeerProcess) {
        let in_group = |group: u32| peer.gid == group || peer.groups.contains(&group);
        let seat = match peer.uid {
            0 => Seat::Root,
            uid if own_uid() == Some(uid) || self.broker == Some(uid) => Seat::Root,
            _ if self.operators.is_some_and(in_group) => Seat::Operator,
            _ => Seat::Member,
        };
        let others = peer.groups.iter().filter(|group| **group != peer.gid);
        let caller = Caller {
            name: format!("uid:{}", peer.uid),
            groups: std::iter::once(&peer.gid).chain(others).map(|group| format!("gid:{group}")).collect(),
            role: if seat == Seat::Member { CallerRole::Owner } else { CallerRole::Operator },
            token: None,
        };
        self.all.insert(client, Speaker { peer: caller, seat, identity: None, instead: None, urgency: None });
    }

    /// Adds a connection from another machine.
    pub fn came_from_afar(&mut self, client: u64, identity: Identity) {
        let (seat, role) = match identity.role {
            trust::CertificateRole::Operator => (Seat::FarOperator, CallerRole::Operator),
            trust::CertificateRole::Auditor => (Seat::Auditor, CallerRole::Auditor),
            trust::CertificateRole::Requester => (Seat::Requester, CallerRole::Owner),
            trust::CertificateRole::Agent => (Seat::Agent, CallerRole::Owner),
            trust::CertificateRole::Broker => (Seat::Broker, CallerRole::Broker),
        };
        let peer = Caller { name: identity.known_as(), groups: identity.groups(), role, token: None };
        self.all.insert(client, Speaker { peer, seat, identity: Some(identity), instead: None, urgency: None });
    }

    /// The caller of this call on a connection, and its seat; `None`: the connection is not known. The right
    /// to speak for others is the peer's own.
    pub fn seat(&self, client: u64, call: Call) -> Option<(Seat, &Caller)> {
        let speaker = self.all.get(&client)?;
        Some(match &speaker.instead {
            Some(caller) if !call.is_of_peer() => (spoken_for(caller), caller),
            _ => (speaker.seat, &speaker.peer),
        })
    }

    /// The seat that a caller would have who signals here: users of this machine by their number, as the
    /// kernel names them; all others as if they had come by a certificate.
    pub fn seat_of(&self, who: &Caller) -> Seat {
        let uid = who.name.strip_prefix("uid:").and_then(|number| number.parse::<u32>().ok());
        let operators = self.operators.map(|group| format!("gid:{group}"));
        match uid {
            None => spoken_for(who),
            Some(0) => Seat::Root,
            Some(uid) if own_uid() == Some(uid) || self.broker == Some(uid) => Seat::Root,
            Some(_) if operators.is_some_and(|group| who.groups.contains(&group)) => Seat::Operator,
            Some(_) => Seat::Member,
        }
    }

    /// Sets the brokers that may speak for others. Returns the connections that lose this right and speak for
    /// themselves again.
    pub fn renew(&mut self, brokers: &[String]) -> Vec<u64> {
        let mut silenced = Vec::new();
        for (client, speaker) in &mut self.all {
            let Some(identity) = &speaker.identity else { continue };
            if !brokers.contains(&identity.known_as()) && speaker.instead.take().is_some() {
                silenced.push(*client);
            }
        }
        silenced
    }

    /// True if the peer may speak for others, and so coordinate bookings at several agents.
    pub fn coordinates(&self, client: u64, brokers: &[String]) -> bool {
        let Some(speaker) = self.all.get(&client) else { return false };
        match (Call::SpeakFor.at_most(speaker.seat), &speaker.identity) {
            (Right::Yes, _) => true,
            (Right::Rule, Some(identity)) => brokers.contains(&identity.known_as()),
            _ => false,
        }
    }

    /// The name under which the peer coordinates: it must be that of its certificate, and a partner's is put behind
    /// its domain. A broker of this machine has the name that root or our own user gives it.
    ///
    /// # Errors
    /// The name is another's.
    pub(crate) fn coordinates_as(&self, client: u64, name: &str) -> Result<String, Problem> {
        let Some(identity) = self.all.get(&client).and_then(|speaker| speaker.identity.as_ref()) else {
            return Ok(name.to_owned());
        };
        let known = identity.known_as();
        if name == identity.name || name == known {
            return Ok(known);
        }
        Err(problem("refused", format!("you are {known}: only {name} coordinates in the name of {name}")))
    }

    /// Gives a coordinator its name as it is known here.
    ///
    /// # Errors
    /// The name is another's.
    pub(crate) fn name_coordinator(&self, client: u64, call: &mut booking::Call) -> Result<(), Problem> {
        let name = match call {
            booking::Call::Prepare(call) => &mut call.coordinator,
            booking::Call::Decide(call) => &mut call.coordinator,
            booking::Call::Promises(call) => &mut call.coordinator,
            _ => return Ok(()),
        };
        let known = self.coordinates_as(client, name)?;
        if known.len() > MAX_COORDINATOR {
            let what = format!("a coordinator's name has at most {MAX_COORDINATOR} characters, its domain included");
            return Err(problem("misuse", what));
        }
        *name = known.into();
        Ok(())
    }

    /// Counts a session of Boomerang that policy allowed to a connection.
    pub(crate) fn count_echo(&mut self, client: u64, number: u64, claims: Vec<SignalClaim>) {
        let owner = self.of(client).name;
        self.signalled.count(SignalKey::Boomerang(number), owner, claims);
    }

    /// The priority at which a connection signals.
    pub(crate) fn urgent(&self, client: u64) -> Option<u16> {
        self.all.get(&client).and_then(|speaker| speaker.urgency)
    }

    /// Sets the priority of later requests, and returns the one before.
    pub(crate) fn urgency(&mut self, client: u64, urgency: Option<u16>) -> Option<u16> {
        let speaker = self.all.get_mut(&client)?;
        std::mem::replace(&mut speaker.urgency, urgency)
    }

    /// Sets the token that the present caller of a connection shows.
    pub(crate) fn show(&mut self, client: u64, token: Option<Arc<VoToken>>) {
        if let Some(speaker) = self.all.get_mut(&client) {
            speaker.instead.as_mut().unwrap_or(&mut speaker.peer).token = token;
        }
    }

    /// Removes a connection.
    pub fn went(&mut self, client: u64) {
        self.all.remove(&client);
        self.signalled.released(client, None);
    }

    /// The current caller on a connection; the default caller if the connection is not known.
    pub fn of(&self, client: u64) -> Caller {
        let speaker = self.all.get(&client);
        speaker.map_or_else(Caller::default, |one| one.instead.as_ref().unwrap_or(&one.peer).clone())
    }

    /// From now on the connection speaks for `who`; `None`: for itself again.
    ///
    /// # Errors
    /// It may not, or `who` is no valid caller.
    pub fn speak_for(&mut self, client: u64, who: Option<&CallerDoc>, brokers: &[String]) -> Result<(), Problem> {
        let instead = who.map(read).transpose()?;
        let nobody = || problem("refused", "nobody speaks here");
        let speaker = self.all.get_mut(&client).ok_or_else(nobody)?;
        speaker.instead = match (Call::SpeakFor.at_most(speaker.seat), &speaker.identity) {
            (Right::Yes, _) => instead,
            (Right::Rule, Some(identity)) if brokers.contains(&identity.known_as()) => {
                instead.map(|caller| through(identity, caller)).transpose()?
            }
            (Right::Rule, _) => {
                let what = format!("{}: {}", Call::SpeakFor.name(), NAMED_BROKERS);
                return Err(problem("refused", what));
            }
            (Right::No, _) => {
                return Err(problem("refused", Call::SpeakFor.refusal(speaker.seat, Whose::Any, &speaker.peer)));
            }
        };
        Ok(())
    }
}

/// The seat of a person for whom another speaks: that of their role, as if they had come by a certificate.
fn spoken_for(caller: &Caller) -> Seat {
    match caller.role {
        CallerRole::Owner => Seat::Requester,
        CallerRole::Auditor => Seat::Auditor,
        CallerRole::Operator => Seat::FarOperator,
        CallerRole::Broker => Seat::Broker,
    }
}

/// The caller under the name that a broker's certificate lets it use.
fn through(broker: &Identity, caller: Caller) -> Result<Caller, Problem> {
    let by = broker.known_as();
    if broker.domain.is_some() && caller.role != CallerRole::Owner {
        let what =
            format!("{by} is a partner's broker: it speaks for those who reserve, not for operators or auditors");
        return Err(problem("refused", what));
    }
    let here = |name: String| broker.vouches_for(&name);
    let groups = caller.groups.into_iter().map(here).collect();
    Ok(Caller { name: here(caller.name), groups, role: caller.role, token: None })
}

/// The caller that a document names.
///
/// # Errors
/// The name, a group or the role is invalid.
pub(crate) fn read(doc: &CallerDoc) -> Result<Caller, Problem> {
    let role = match doc.role.as_str() {
        "owner" => CallerRole::Owner,
        "auditor" => CallerRole::Auditor,
        "operator" => CallerRole::Operator,
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
    Ok(Caller { name: doc.name.clone(), groups: doc.groups.clone(), role, token: None })
}

/// Our own user, as the kernel shows it.
pub(crate) fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|meta| meta.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(name: &str, role: &str) -> CallerDoc {
        CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned(), token: None }
    }

    #[test]
    fn only_the_trusted_speak_for_others() {
        let mut speakers = Speakers::default();
        speakers.came(16, &PeerProcess { pid: 1, uid: 0, gid: 0, groups: Vec::new() });
        speakers.came(17, &PeerProcess { pid: 2, uid: 65_533, gid: 100, groups: vec![27] });
        assert_eq!((speakers.of(16).name.as_str(), speakers.of(16).role), ("uid:0", CallerRole::Operator));
        assert_eq!((speakers.of(17).name.as_str(), speakers.of(17).role), ("uid:65533", CallerRole::Owner));
        speakers.speak_for(16, Some(&doc("alice", "owner")), &[]).unwrap();
        assert_eq!((speakers.of(16).name.as_str(), speakers.of(16).role), ("alice", CallerRole::Owner));
        assert_eq!(speakers.speak_for(17, Some(&doc("alice", "owner")), &[]).unwrap_err().kind, "refused");
        assert_eq!(speakers.of(17).name, "uid:65533");
        for wrong in [doc("", "owner"), doc("a\nb", "owner"), doc("alice", "emperor"), doc(&"x".repeat(129), "owner")] {
            assert_eq!(speakers.speak_for(16, Some(&wrong), &[]).unwrap_err().kind, "misuse", "{wrong:?}");
        }
        assert_eq!(speakers.of(16).name, "alice", "what was refused changes nothing");
        speakers.speak_for(16, None, &[]).unwrap();
        assert_eq!(speakers.of(16).name, "uid:0");
        speakers.went(16);
        assert_eq!(speakers.of(16), Caller::default());
        assert_eq!(speakers.speak_for(16, None, &[]).unwrap_err().kind, "refused");
    }

    /// The agent believes the broker's own user as it believes root, and no other.
    #[test]
    fn the_brokers_user_speaks_for_others_where_it_is_named() {
        let peer = |uid| PeerProcess { pid: 3, uid, gid: uid, groups: Vec::new() };
        let mut speakers = Speakers::new(None).believing(Some(4242));
        speakers.came(1, &peer(4242));
        speakers.came(2, &peer(4243));
        speakers.speak_for(1, Some(&doc("alice", "owner")), &[]).unwrap();
        assert_eq!(speakers.of(1).name, "alice");
        assert_eq!(speakers.speak_for(2, Some(&doc("alice", "owner")), &[]).unwrap_err().kind, "refused");
        let mut without = Speakers::new(None);
        without.came(1, &peer(4242));
        assert_eq!(without.speak_for(1, Some(&doc("alice", "owner")), &[]).unwrap_err().kind, "refused");
    }

    #[test]
    fn from_afar_only_brokers_that_the_policy_names() {
        let identity = |role, name: &str| Identity {
            domain: None,
            role,
            name: name.to_owned(),
            groups: vec!["staff".to_owned()],
            serial: vec![1],
            not_before: terms::Time::ZERO,
            not_after: terms::Time::FOREVER,
        };
        let mut speakers = Speakers::default();
        let brokers = ["main".to_owned()];
        for (client, role, name) in [
            (1, trust::CertificateRole::Broker, "main"),
            (2, trust::CertificateRole::Broker, "other"),
            (3, trust::CertificateRole::Requester, "main"),
            (4, trust::CertificateRole::Operator, "main"),
            (5, trust::CertificateRole::Agent, "main"),
        ] {
            speakers.came_from_afar(client, identity(role, name));
            let said = speakers.speak_for(client, Some(&doc("alice", "owner")), &brokers);
            assert_eq!(said.is_ok(), client == 1, "{role} {name}");
        }
        assert_eq!(
            (1..=6).map(|client| speakers.coordinates(client, &brokers)).collect::<Vec<_>>(),
            [true, false, false, false, false, false]
        );
        assert!(!speakers.coordinates(1, &[]));
        assert_eq!((speakers.of(1).name.as_str(), speakers.of(3).name.as_str()), ("alice", "main"));
        assert_eq!((speakers.of(4).role, speakers.of(5).role), (CallerRole::Operator, CallerRole::Owner));
        // Root of the broker's machine is not root here.
        let root = CallerDoc { groups: vec!["gid:0".to_owned(), "staff".to_owned()], ..doc("uid:0", "operator") };
        speakers.speak_for(1, Some(&root), &brokers).unwrap();
        let caller = speakers.of(1);
        assert_eq!((caller.name.as_str(), caller.groups), ("main/uid:0", vec!["main/gid:0".into(), "staff".into()]));
        // The policy changes its mind.
        assert_eq!(speakers.renew(&brokers), Vec::<u64>::new());
        assert_eq!(speakers.renew(&[]), [1]);
        assert_eq!(speakers.of(1).name, "main");
    }

    #[test]
    fn a_partners_names_are_its_own() {
        let identity = |domain: Option<&str>, role, name: &str| Identity {
            domain: domain.map(str::to_owned),
            role,
            name: name.to_owned(),
            groups: vec!["physics".to_owned()],
            serial: vec![1],
            not_before: terms::Time::ZERO,
            not_after: terms::Time::FOREVER,
        };
        let mut speakers = Speakers::default();
        speakers.came_from_afar(1, identity(Some("anl"), trust::CertificateRole::Requester, "alice"));
        let alice = speakers.of(1);
        assert_eq!((alice.name.as_str(), alice.groups), ("anl/alice", vec!["anl/physics".to_owned()]));
        // Its broker `main` is not ours, whatever the policy says of ours.
        speakers.came_from_afar(2, identity(Some("anl"), trust::CertificateRole::Broker, "main"));
        let said = speakers.speak_for(2, Some(&doc("bob", "owner")), &["main".to_owned()]);
        assert_eq!(said.unwrap_err().kind, "refused");
        // Where the policy takes it at its word, that is for its own people.
        let brokers = ["anl/main".to_owned()];
        for (said, known) in [
            ("bob", "anl/bob"),
            ("uid:0", "anl/main/uid:0"),
            ("home/root", "anl/main/home/root"),
            ("/root", "anl/main//root"),
        ] {
            speakers.speak_for(2, Some(&doc(said, "owner")), &brokers).unwrap();
            assert_eq!(speakers.of(2).name, known);
            assert_eq!(speakers.of(2).domain(), Some("anl"));
        }
        for role in ["operator", "auditor"] {
            assert_eq!(speakers.speak_for(2, Some(&doc("bob", role)), &brokers).unwrap_err().kind, "refused");
        }
        // Our own broker knows partners' people as we do; what it makes up of its own machine is not a partner's.
        speakers.came_from_afar(3, identity(None, trust::CertificateRole::Broker, "main"));
        for (said, known, domain) in [
            ("anl/alice", "anl/alice", Some("anl")),
            ("bob", "bob", None),
            ("uid:7", "main/uid:7", None),
            ("anl/uid:0", "main/anl/uid:0", Some("main")),
        ] {
            speakers.speak_for(3, Some(&doc(said, "owner")), &["main".to_owned()]).unwrap();
            let caller = speakers.of(3);
            assert_eq!((caller.name.as_str(), caller.domain()), (known, domain));
        }
    }
}
