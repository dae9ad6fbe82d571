//! The file of policy: the rules about who may reserve what. Without a file only operators may: root, the
//! agent's own user, and the group that `operators` of the agent's file names.
//!
//! ```toml
//! brokers = ["main"]                   # certificates of the role broker that say for whom they ask; default: none does;
//!                                      # a partner's with its domain, "anl/main": for its own people only
//! auditors = ["uid:1001", "@gid:27"]   # may read the audit of all decisions; default: root and the agent's own user alone
//!
//! [[rule]]                             # the first rule that is about a request decides; what no rule is about is denied
//! name = "physics"                     # refusals and the audit name it
//! who = ["uid:1000", "@gid:100"]       # names and groups (@), with * and ?; "*" is everybody of this domain;
//!                                      # partners' people only where a slash is written: "anl/*", "@anl/physics"
//! resource = ["net/eth1", "disk/*"]    # default: every resource
//! vo = ["atlas", "atlas/physics"]      # only holders of a token of this organisation, or of a group of it; `who` may then
//!                                      # be left out, and is everybody, partners' people too; default: with or without
//! label = ["HEP*"]                     # default: any or none
//! background = true                    # only background parts; false: only foreground; default: both
//! most = "30mbit"                      # in one request: 30mbit, 20mbps of a disk, 0.5 of a core, 2 licences
//! together = "100mbit"                 # of an owner at any instant, all reservations together
//! in_group = "200mbit"                 # of all who use this rule by one of its groups, at any instant
//! in_all = "500mbit"                   # of all who use this rule
//! reservations = 20                    # of an owner
//! longest = "8h"
//! ahead = "30d"
//! days = ["mon", "tue"]                # and hours, in UTC, 22:00-06:00 is over midnight; default: all
//! hours = "08:00-18:00"
//! from = "2026-11-01T00:00:00Z"
//! until = "2027-01-01T00:00:00Z"
//! flows = ["10.0.0.0/24 > *:5000-5100 udp", "host > 10.0.2.2"]   # whose packets a part may be bound to; default: any
//!                                      # two hosts' ("host > host"); only here may `*` leave an end open
//! grow = true                          # may make an agreement (sla/PEER) grow beyond its rate, up to its grows_to
//! cgroups = ["batch/*"]                # control groups that may be bound, and whose processes may; default: own processes
//! deny = true                          # none of the limits then
//!
//! [[rule]]                             # what is signalled (RSVP, Boomerang) through the local socket; operators need no rule for it
//! name = "calls"
//! who = ["@gid:100"]
//! signal = true                        # about what is signalled, and not about bookings; a rule that denies is about both
//!                                      # unless it says true or false
//! resource = ["net/eth1"]              # where the packets leave, or a receiver's come in; default: anywhere
//! source = ["10.0.0.5"]                # whose packets, an address or a prefix; default: anybody's
//! destination = ["10.0.2.0/24"]
//! most = "3mbit"                       # and `together`, `reservations`, `days`, `hours`, `from`, `until` as above
//! priority = 3                         # the highest pre-emption priority (RFC 3181); default: none may be said
//!
//! [[vo]]                               # a virtual organisation whose tokens are believed (docs/tokens.md); default: none is
//! name = "atlas"
//! key = "ed25519/a1b2..."              # its public key, as `sluice token key` prints it
//! domain = "anl"                       # what its tokens call us: they mean our alice by anl/alice; default: they have plain names
//! through = ["esnet"]                  # domains whose word about others' people is taken, as in esnet/lbnl/bob; default: none
//! revoked = "atlas.revoked"            # numbers of revoked blocks, one a line; read with this file
//! ```
//!
//! A file with only rules can also be that of the whole domain (`domain_policy` of the agent's file): both must then allow.

mod hours;
mod signal;
mod vo;

use crate::document::{Document, Mistake, read};
use crate::fields::unit;
use booking::policy::{Bindings, Effect, FlowPattern, Limits, NamePattern, Policy, Rule, Who, unfit_for_domain};
use documents::book::Instant;
use documents::units;
use hours::hours;
use serde::Deserialize;
use signal::signals;
use std::path::Path;
use terms::Time;
use terms::book::ResourceKind;
use toml::Spanned;
use trust::token::Organisation;
use vo::VoFile;

/// The most names, resources or labels in a rule.
const MOST_NAMES: usize = 256;
/// The longest name of a rule.
const MAX_TEXT: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    brokers: Vec<Spanned<String>>,
    #[serde(default)]
    auditors: Vec<Spanned<String>>,
    #[serde(default)]
    rule: Vec<RuleFile>,
    #[serde(default)]
    vo: Vec<VoFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    name: Spanned<String>,
    who: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    vo: Vec<Spanned<String>>,
    #[serde(default)]
    resource: Vec<Spanned<String>>,
    #[serde(default)]
    label: Vec<Spanned<String>>,
    background: Option<bool>,
    most: Option<Spanned<String>>,
    together: Option<Spanned<String>>,
    in_group: Option<Spanned<String>>,
    in_all: Option<Spanned<String>>,
    reservations: Option<usize>,
    longest: Option<Spanned<String>>,
    ahead: Option<Spanned<String>>,
    days: Option<Spanned<Vec<Spanned<String>>>>,
    hours: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    until: Option<Spanned<String>>,
    flows: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    cgroups: Vec<Spanned<String>>,
    #[serde(default)]
    grow: bool,
    signal: Option<bool>,
    #[serde(default)]
    source: Vec<Spanned<String>>,
    #[serde(default)]
    destination: Vec<Spanned<String>>,
    priority: Option<u16>,
    #[serde(default)]
    deny: bool,
}

/// The contents of a policy file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PolicyFile {
    /// The rules.
    pub policy: Policy,
    /// The names of brokers on other machines that may speak for others.
    pub brokers: Vec<String>,
    /// The virtual organisations whose tokens are believed.
    pub organisations: Vec<Organisation>,
}

/// The policy without a file: root, the agent's own user and the operators' group may reserve everything, all
/// others nothing.
pub fn usual(operators: Option<u32>) -> PolicyFile {
    let own = crate::speakers::own_uid().unwrap_or(0);
    let names = ["uid:0".to_owned(), format!("uid:{own}")];
    let names = names.iter().filter_map(|name| NamePattern::new(name).ok()).map(Who::Name);
    let group = operators.and_then(|group| NamePattern::new(&format!("gid:{group}")).ok()).map(Who::Group);
    let rule = Rule {
        name: "operators".to_owned(),
        who: names.chain(group).collect(),
        bindings: Bindings::any(),
        effect: Effect::Allow(Limits::default()),
        ..Rule::default()
    };
    PolicyFile { policy: Policy::new(vec![rule]).unwrap_or_default(), ..PolicyFile::default() }
}

/// Reads a file of a domain's rules.
///
/// # Errors
/// The first [`Mistake`] in it, also what belongs to a resource's own file.
pub fn load_of_domain(file: &Path) -> Result<Policy, Mistake> {
    let text = read(file)?;
    let found = parse(file, &text)?;
    let document = Document::new(file, &text);
    let others = !found.brokers.is_empty() || !found.organisations.is_empty() || found.policy.has_auditors();
    if others {
        return Err(
            document.whole("a domain's policy has rules only: brokers, auditors and [[vo]] are each agent's own")
        );
    }
    match unfit_for_domain(&found.policy) {
        Some(why) => Err(document.whole(why)),
        None => Ok(found.policy),
    }
}

/// Reads a file of policy.
///
/// # Errors
/// The first [`Mistake`] in it.
pub fn load(file: &Path) -> Result<PolicyFile, Mistake> {
    let text = read(file)?;
    parse(file, &text)
}

/// Reads a text that came from `file`.
///
/// # Errors
/// The first [`Mistake`] in it.
pub fn parse(file: &Path, text: &str) -> Result<PolicyFile, Mistake> {
    let document = Document::new(file, text);
    let found: File = document.parse()?;
    let rules = found.rule.iter().map(|entry| rule(&document, entry)).collect::<Result<Vec<_>, _>>()?;
    if found.auditors.len() > MOST_NAMES {
        return Err(document.whole(format!("at most {MOST_NAMES} auditors")));
    }
    let auditors = found.auditors.iter().map(|one| caller(&document, one)).collect::<Result<_, _>>()?;
    let policy = Policy::new(rules).map_err(|many| document.whole(many.to_string()))?.with_auditors(auditors);
    let brokers = found.brokers.iter().map(|name| broker(&document, name)).collect::<Result<_, _>>()?;
    let organisations = vo::organisations(&document, file, &found.vo)?;
    Ok(PolicyFile { policy, brokers, organisations })
}

fn broker(document: &Document<'_>, name: &Spanned<String>) -> Result<String, Mistake> {
    let text = name.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_name = |text: &str| !text.is_empty() && text.len() <= MAX_TEXT && text.chars().all(plain);
    match text.split_once('/') {
        // Our own domain's are known without it.
        Some((trust::HOME, own)) if is_name(own) => Ok(own.to_owned()),
        Some((domain, theirs)) if is_name(domain) && is_name(theirs) => Ok(text.clone()),
        None if is_name(text) => Ok(text.clone()),
        _ => {
            let wrong = format!(
                "{text:?} is no broker: write NAME of its certificate, sluice://broker/NAME, or DOMAIN/NAME of a partner's; \
                 none stands for others"
            );
            Err(document.at(name.span(), wrong))
        }
    }
}

fn rule(document: &Document<'_>, entry: &RuleFile) -> Result<Rule, Mistake> {
    let name = entry.name.get_ref().clone();
    if name.is_empty() || name.len() > MAX_TEXT || !name.chars().all(|c| c.is_ascii_graphic()) {
        let wrong = format!("{name:?} is no name of a rule: 1 to {MAX_TEXT} visible ASCII characters");
        return Err(document.at(entry.name.span(), wrong));
    }
    let who = who(document, entry)?;
    if [&entry.vo, &entry.resource, &entry.label].iter().any(|names| names.len() > MOST_NAMES) {
        return Err(document.at(entry.name.span(), format!("at most {MOST_NAMES} names in a rule")));
    }
    let limits = limits(document, entry)?;
    let bindings = bindings(document, entry)?;
    let plain = limits == Limits::default() && bindings == Bindings::default() && !entry.grow;
    let effect = match (entry.deny, plain) {
        (true, true) => Effect::Deny,
        (true, false) => return Err(document.at(entry.name.span(), "a rule that denies has no limits")),
        (false, _) => Effect::Allow(limits),
    };
    let patterns = |all: &[Spanned<String>]| {
        all.iter().map(|one| pattern(document, one, one.get_ref())).collect::<Result<Vec<_>, _>>()
    };
    Ok(Rule {
        name,
        who,
        vos: patterns(&entry.vo)?,
        resources: patterns(&entry.resource)?,
        labels: patterns(&entry.label)?,
        background: entry.background,
        grow: entry.grow,
        bindings,
        signal: entry.signal,
        signals: signals(document, entry)?,
        effect,
    })
}

/// The callers of a rule.
fn who(document: &Document<'_>, entry: &RuleFile) -> Result<Vec<Who>, Mistake> {
    let Some(who) = &entry.who else {
        if !entry.vo.is_empty() {
            return Ok(vec![Who::Everybody]); // the organisation vouches for them
        }
        return Err(document.at(entry.name.span(), "a rule is about somebody: say `who`, or `vo`"));
    };
    let names = who.get_ref();
    if names.is_empty() {
        return Err(document.at(who.span(), "a rule is about somebody: name them, or write \"*\""));
    }
    if names.len() > MOST_NAMES {
        return Err(document.at(who.span(), format!("at most {MOST_NAMES} names in a rule")));
    }
    names.iter().map(|one| caller(document, one)).collect()
}

/// The flows and control groups that callers may bind under a rule.
fn bindings(document: &Document<'_>, entry: &RuleFile) -> Result<Bindings, Mistake> {
    if entry.cgroups.len().max(entry.flows.as_ref().map_or(0, Vec::len)) > MOST_NAMES {
        return Err(document.at(entry.name.span(), format!("at most {MOST_NAMES} flows or control groups in a rule")));
    }
    let flow = |text: &Spanned<String>| {
        let found = text.get_ref().parse::<FlowPattern>();
        found.map_err(|bad| document.at(text.span(), format!("{:?} names no flows: {bad}", text.get_ref())))
    };
    let cgroup = |text: &Spanned<String>| pattern(document, text, text.get_ref().trim_start_matches('/'));
    Ok(Bindings {
        flows: entry.flows.as_ref().map(|all| all.iter().map(flow).collect()).transpose()?,
        cgroups: entry.cgroups.iter().map(cgroup).collect::<Result<_, _>>()?,
    })
}

fn pattern(document: &Document<'_>, at: &Spanned<String>, text: &str) -> Result<NamePattern, Mistake> {
    NamePattern::new(text).map_err(|_| {
        let wrong = format!("{text:?} names nothing: 1 to {} characters, with * and ?", booking::policy::MOST_PATTERN);
        document.at(at.span(), wrong)
    })
}

fn caller(document: &Document<'_>, text: &Spanned<String>) -> Result<Who, Mistake> {
    match (text.get_ref().as_str(), text.get_ref().strip_prefix('@')) {
        ("*", _) => Ok(Who::Anyone),
        (_, Some(group)) => pattern(document, text, group).map(Who::Group),
        (name, None) => pattern(document, text, name).map(Who::Name),
    }
}

fn limits(document: &Document<'_>, entry: &RuleFile) -> Result<Limits, Mistake> {
    let amount = |text: &Option<Spanned<String>>| {
        text.as_ref().map(|text| unit(document, text, |text| amount(&entry.resource, text))).transpose()
    };
    let span =
        |text: &Option<Spanned<String>>| text.as_ref().map(|text| unit(document, text, units::parse_span)).transpose();
    let instant = |text: &Option<Spanned<String>>| -> Result<Option<Time>, Mistake> {
        let at = |text: &str| text.parse::<Instant>().map(|instant| instant.0);
        text.as_ref().map(|text| unit(document, text, at)).transpose()
    };
    Ok(Limits {
        amount: amount(&entry.most)?,
        together: amount(&entry.together)?,
        in_group: amount(&entry.in_group)?,
        in_all: amount(&entry.in_all)?,
        reservations: entry.reservations,
        length: span(&entry.longest)?,
        ahead: span(&entry.ahead)?,
        hours: hours(document, entry)?,
        from: instant(&entry.from)?,
        until: instant(&entry.until)?,
    })
}

/// An amount in the unit of the resources' kind, which follows from their names.
fn amount(resources: &[Spanned<String>], text: &str) -> Result<u64, units::BadUnit> {
    let kinds = resources.iter().map(|name| {
        let name = name.get_ref();
        (name.contains('/') || name == "cpu").then(|| ResourceKind::of(name))
    });
    let kinds: Option<Vec<ResourceKind>> = kinds.collect();
    match kinds.as_deref() {
        Some([kind, others @ ..]) if others.iter().all(|other| other == kind) => super::resources::amount(*kind, text),
        _ => Err("an amount needs resources of one kind: name them, as in [\"net/*\"]".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::book::{Caller, CallerRole};

    fn read(text: &str) -> Result<Policy, String> {
        whole(text).map(|rules| rules.policy)
    }

    fn whole(text: &str) -> Result<PolicyFile, String> {
        parse(Path::new("policy.toml"), text).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn a_full_file() {
        let policy = read(
            r#"
[[rule]]
name = "physics"
who = ["uid:1000", "@gid:100", "*"]
resource = ["net/eth1"]
label = ["HEP*"]
background = false
most = "30mbit"
together = "100mbit"
reservations = 20
longest = "8h"
ahead = "30d"
days = ["mon", "sun"]
hours = "22:00-06:00"
from = "2026-11-01T00:00:00Z"
until = "2027-01-01T00:00:00Z"
flows = ["10.0.0.0/24 > *:5000-5100 udp", "host > 10.0.2.2"]
cgroups = ["/batch/*"]
[[rule]]
name = "discs"
who = ["*"]
resource = ["disk/*", "disk/a"]
most = "20mbps"
[[rule]]
name = "half-a-core"
who = ["*"]
resource = ["cpu"]
most = "0.5"
[[rule]]
name = "nobody"
who = ["*"]
deny = true
"#,
        )
        .unwrap();
        let limits = |n: usize| match &policy.rules()[n].effect {
            Effect::Allow(limits) => limits.clone(),
            Effect::Deny => panic!("rule {n} denies"),
        };
        assert_eq!((limits(0).amount, limits(0).together), (Some(30_000_000), Some(100_000_000)));
        assert!(limits(0).hours.is_some() && limits(0).from.is_some());
        let bindings = &policy.rules()[0].bindings;
        assert_eq!(bindings.flows.as_ref().unwrap()[1], "host > 10.0.2.2".parse().unwrap());
        assert_eq!(bindings.cgroups, [NamePattern::new("batch/*").unwrap()]);
        assert_eq!(policy.rules()[1].bindings, Bindings::default());
        assert_eq!((policy.rules()[0].who.len(), policy.rules()[0].background), (3, Some(false)));
        assert_eq!((limits(1).amount, limits(2).amount), (Some(160_000_000), Some(500_000)));
        assert_eq!(policy.rules()[3].effect, Effect::Deny);
        assert_eq!(read("").unwrap(), Policy::default());
        assert_eq!((usual(None).policy.rules().len(), usual(None).brokers.len()), (1, 0));
        assert_eq!(whole("brokers = [\"main\", \"b-2\"]").unwrap().brokers, ["main", "b-2"]);
        assert_eq!(whole("brokers = [\"home/main\", \"anl/main\"]").unwrap().brokers, ["main", "anl/main"]);
        assert!(whole("brokers = [\"a/b/c\"]").is_err() && whole("brokers = [\"/main\"]").is_err());
    }

    #[test]
    fn a_rule_about_what_is_signalled() {
        let policy = read(
            "[[rule]]\nname = \"calls\"\nwho = [\"uid:7\"]\nsignal = true\nresource = [\"net/eth1\"]\n\
             source = [\"10.0.0.5\"]\ndestination = [\"10.0.2.0/24\", \"fd00::/64\"]\nmost = \"3mbit\"\npriority = 3\n",
        )
        .unwrap();
        let rule = &policy.rules()[0];
        assert_eq!((rule.signal, rule.signals.priority), (Some(true), Some(3)));
        assert_eq!(
            rule.signals.destinations.iter().map(booking::policy::AddressPrefix::to_string).collect::<Vec<_>>(),
            ["10.0.2.0/24", "fd00::/64"]
        );
    }

    #[test]
    fn who_is_named_may_read_the_audit_and_nobody_else() {
        let caller =
            |name: &str, group: &str, role| Caller { name: name.into(), groups: vec![group.into()], role, token: None };
        let policy = read("auditors = [\"uid:7\", \"@gid:27\"]\n").unwrap();
        for (name, group, role, may) in [
            ("uid:7", "gid:7", CallerRole::Owner, true),
            ("uid:8", "gid:27", CallerRole::Owner, true),
            ("uid:8", "gid:8", CallerRole::Owner, false),
            ("alice", "gid:8", CallerRole::Auditor, true),
            ("uid:0", "gid:0", CallerRole::Operator, true),
        ] {
            assert_eq!(policy.may_audit(&caller(name, group, role)), may, "{name} {group}");
        }
        assert!(!usual(None).policy.may_audit(&caller("uid:8", "gid:8", CallerRole::Owner)), "default deny");
        assert!(read("auditors = [\"\"]\n").unwrap_err().starts_with("policy.toml:1: \"\" names nothing"));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let rule = |more: &str| format!("[[rule]]\nname = \"r\"\nwho = [\"*\"]\nresource = [\"net/*\"]\n{more}\n");
        let table = [
            (rule("most = \"30\""), "policy.toml:5: \"30\" has no unit"),
            (rule("most = \"-1mbit\""), "policy.toml:5: \"-1mbit\" does not begin with a number"),
            (rule("hours = \"08:00-08:00\""), "policy.toml:5: these days and hours are none at all"),
            (rule("from = \"tomorrow\""), "policy.toml:5: \"tomorrow\" is no time"),
            (rule("hours = \"08:00-24:01\""), "policy.toml:5: \"08:00-24:01\" are no hours"),
            (rule("days = [\"noday\"]"), "policy.toml:5: \"noday\" is no day"),
            (rule("deny = true\nmost = \"1mbit\""), "policy.toml:2: a rule that denies has no limits"),
            (
                rule("flows = [\"* > * rsvp\"]"),
                "policy.toml:5: \"* > * rsvp\" names no flows: flows are written SOURCE",
            ),
            (rule("cgroups = [\"/\"]"), "policy.toml:5: \"\" names nothing"),
            (rule("deny = true\nflows = [\"* > *\"]"), "policy.toml:2: a rule that denies has no limits"),
            (rule("colour = \"red\""), "policy.toml:5: unknown field `colour`"),
            (rule("longest = \"8\""), "policy.toml:5: \"8\" has no unit"),
            ("[[rule]]\nname = \"r\"\nwho = []\n".to_owned(), "policy.toml:3: a rule is about somebody"),
            ("[[rule]]\nname = \"r\"\nwho = [\"@\"]\n".to_owned(), "policy.toml:3: \"\" names nothing"),
            ("[[rule]]\nname = \"a b\"\nwho = [\"*\"]\n".to_owned(), "policy.toml:2: \"a b\" is no name"),
            (
                "[[rule]]\nname = \"r\"\nwho = [\"*\"]\nmost = \"1mbit\"\n".to_owned(),
                "policy.toml:4: an amount needs resources of one kind",
            ),
            (
                rule("source = [\"10.0.0.1\"]"),
                "policy.toml:2: source, destination and priority are of what is signalled",
            ),
            (rule("signal = true\nsource = [\"10.0.0.1/24\"]"), "policy.toml:6: \"10.0.0.1/24\" says something behind"),
            (rule("signal = true\nlongest = \"8h\""), "policy.toml:2: what is signalled begins now"),
            (rule("signal = true\nlabel = [\"x\"]"), "policy.toml:2: what is signalled has no label"),
            (rule("signal = true\ndeny = true\npriority = 1"), "policy.toml:2: a rule that denies has no priority"),
            (rule("priority = 65536"), "policy.toml:5: invalid value"),
            ("brokers = [\"*\"]\n".to_owned(), "policy.toml:1: \"*\" is no broker"),
            ("[[rule]]\nname = \"r\"\n".to_owned(), "policy.toml:2: a rule is about somebody: say"),
        ];
        for (text, expected) in table {
            let told = read(&text).unwrap_err();
            assert!(told.starts_with(expected), "{told}\n expected: {expected}");
        }
        let many = "[[rule]]\nname = \"r\"\nwho = [\"*\"]\n".repeat(booking::policy::MOST_RULES + 1);
        assert!(read(&many).unwrap_err().contains("at most 4096 rules"));
    }
}
