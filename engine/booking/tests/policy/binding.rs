//! Whose packets and processes may be bound: the patterns of flows, the verdict on processes case by case, and which rule
//! says so.

use booking::policy::{
    Bindings, Effect, FlowPattern, Limits, NamePattern, Policy, ProcessFacts, ProcessKind, Rule, Who, check,
};
use terms::book::{Binding, BoundFlow, Caller, CallerRole, Task};
use terms::ports::PolicyPort as _;
use terms::ports::book::BindQuestion;

fn caller(name: &str, role: CallerRole) -> Caller {
    Caller { name: name.into(), groups: Vec::new(), role, token: None }
}

/// `SRC[:PORT] DST[:PORT] [PROTOCOL]`, a dash for what is left open.
fn flow(text: &str) -> BoundFlow {
    let words: Vec<&str> = text.split(' ').collect();
    let end = |text: &str| {
        let (address, port) = text.split_once('#').unwrap_or((text, "-"));
        (address.parse().ok(), port.parse().ok())
    };
    let ((src, src_port), (dst, dst_port)) = (end(words[0]), end(words[1]));
    BoundFlow { src, dst, src_port, dst_port, protocol: words.get(2).and_then(|word| word.parse().ok()) }
}

#[test]
fn a_pattern_covers_what_lies_in_it_whole() {
    let table = [
        ("host > host", "10.0.0.1 10.0.0.2", true),
        ("host > host", "10.0.0.1#5 10.0.0.2#6 17", true),
        ("host > host", "10.0.0.1 -", false),
        ("host > host", "- - 6", false),
        ("* > *", "- - 6", true),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 -#5000 17", true),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 9.9.9.9#5100 17", true),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 -#5101 17", false),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 - 17", false),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 -#5000 6", false),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.0.7 -#5000", false),
        ("10.0.0.0/24 > *:5000-5100 udp", "10.0.1.7 -#5000 17", false),
        ("10.0.0.0/24 > *:5000-5100 udp", "- -#5000 17", false),
        ("10.0.0.0/24 > *", "fd00::1 -", false),
        ("0.0.0.0/0 > host", "10.0.0.7 10.0.0.8", true),
        ("0.0.0.0/0 > host", "- 10.0.0.8", false),
        ("10.0.0.7 > 10.0.0.8", "10.0.0.7 10.0.0.8 132", true),
        ("10.0.0.7 > 10.0.0.8", "10.0.0.7 10.0.0.9 132", false),
        ("[fd00::/16]:7 > fd00::2 tcp", "fd00::9#7 fd00::2 6", true),
        ("[fd00::/16]:7 > fd00::2 tcp", "fd01::9#7 fd00::2 6", false),
        ("::/0 > *", "fd01::9 -", true),
    ];
    for (pattern, named, covered) in table {
        assert_eq!(pattern.parse::<FlowPattern>().unwrap().covers(&flow(named)), covered, "{pattern:?} {named:?}");
    }
    assert_eq!("host > host".parse(), Ok(FlowPattern::HOSTS));
    assert_eq!("* > *".parse(), Ok(FlowPattern::ANY));
}

#[test]
fn what_is_no_pattern_is_none() {
    let wrong = [
        "",
        ">",
        "* >",
        "> *",
        "a > b",
        "10.0.0.0/33 > *",
        "10.0.0.0/ > *",
        "10.0.0.1:70000 > *",
        "* > *:9-8 udp",
        "* > *:-8",
        "* > * 46",
        "* > * 0",
        "* > * rsvp",
        "* > *:5 icmp",
        "* > * udp tcp",
        "10.0.0.1 > fd00::1",
        "[fd00::1 > *",
        "[fd00::1]5 > *",
        "[fd00::1]: > *",
    ];
    for text in wrong {
        assert!(text.parse::<FlowPattern>().is_err(), "{text:?}");
    }
}

/// The verdict alone: what must never be bound cannot be tried out on a machine that is needed.
#[test]
fn the_verdict_on_processes() {
    let alice = caller("uid:1000", CallerRole::Owner);
    let (root, auditor) = (caller("uid:0", CallerRole::Operator), caller("uid:1000", CallerRole::Auditor));
    let (remote, named) = (caller("alice", CallerRole::Owner), caller("uid:1000@x", CallerRole::Owner));
    let far = caller("chief", CallerRole::Operator);
    let batch = [NamePattern::new("batch/*").unwrap()];
    let seen = |sort, uid, group: &str| Some(ProcessFacts { sort, uid, cgroups: vec![group.into()] });
    let own = seen(ProcessKind::Ordinary, Some(1000), "user/1000");
    let others = seen(ProcessKind::Ordinary, Some(1001), "user/1001");
    let setuid = seen(ProcessKind::Ordinary, None, "user/1000");
    let job = seen(ProcessKind::Ordinary, Some(1001), "batch/7");
    type Case<'a> = (&'a str, &'a Caller, &'a [NamePattern], &'a Option<ProcessFacts>, bool);
    let table: [Case<'_>; 15] = [
        ("one's own", &alice, &[], &own, true),
        ("one's own, as an auditor", &auditor, &[], &own, true),
        ("another's", &alice, &[], &others, false),
        ("a program with root's rights that one started", &alice, &[], &setuid, false),
        ("another's in a group of the rule", &alice, &batch, &job, true),
        ("another's in another group", &alice, &batch, &others, false),
        ("anybody's, by root", &root, &[], &others, true),
        ("a setuid program, by root", &root, &[], &setuid, true),
        ("from afar", &remote, &[], &own, false),
        ("from afar, by a name that looks like a user's", &named, &[], &own, false),
        ("from afar, in a group of the rule", &remote, &batch, &job, true),
        ("by an operator from afar", &far, &[], &others, true),
        ("what is not there", &alice, &batch, &None, false),
        ("what is not there, by root", &root, &batch, &None, false),
        (
            "in no group that is known",
            &remote,
            &batch,
            &Some(ProcessFacts { sort: ProcessKind::Ordinary, uid: None, cgroups: vec![] }),
            false,
        ),
    ];
    for (what, caller, groups, seen, may) in table {
        assert_eq!(check(caller, groups, seen.as_ref()).is_ok(), may, "{what}");
    }
    // Nobody, whatever a rule says: not root, not the owner.
    let everything = [NamePattern::new("*").unwrap()];
    for sort in [ProcessKind::Kernel, ProcessKind::First, ProcessKind::Agent] {
        for caller in [&alice, &root, &remote, &far] {
            let seen = seen(sort, Some(1000), "batch/7");
            assert!(check(caller, &everything, seen.as_ref()).is_err(), "{sort:?} {caller:?}");
        }
    }
}

#[test]
fn the_first_rule_that_is_about_it_says_so() {
    let rule = |name: &str, who: &str, flows: Option<&str>, effect| Rule {
        name: name.into(),
        who: vec![Who::Name(NamePattern::new(who).unwrap())],
        resources: vec![NamePattern::new("net/*").unwrap()],
        bindings: Bindings { flows: flows.map(|text| vec![text.parse().unwrap()]), cgroups: Vec::new() },
        effect,
        ..Rule::default()
    };
    let yes = || Effect::Allow(Limits { amount: Some(1), ..Limits::default() });
    let policy = Policy::new(vec![
        rule("barred", "mallory", Some("* > *"), Effect::Deny),
        rule("web", "web", Some("10.0.0.1:80 > * tcp"), yes()),
        rule("rest", "*", None, yes()),
    ])
    .unwrap();
    let ask = |name: &str, role, resource: &str, named: &str| {
        let binding = Binding::Flow(flow(named));
        let caller = caller(name, role);
        let verdict = policy.may_bind(&BindQuestion {
            caller: &caller,
            resource,
            label: "",
            background: false,
            binding: &binding,
        });
        (verdict.rule, verdict.denied.is_none())
    };
    let said = |rule: &str, may| (rule.to_owned(), may);
    let exact = "10.0.0.1#80 10.0.0.2#9 6";
    assert_eq!(ask("mallory", CallerRole::Owner, "net/eth1", exact), said("barred", false));
    assert_eq!(ask("web", CallerRole::Owner, "net/eth1", exact), said("web", true));
    assert_eq!(ask("web", CallerRole::Owner, "net/eth1", "10.0.0.1#80 - 6"), said("web", true));
    assert_eq!(
        ask("web", CallerRole::Owner, "net/eth1", "10.0.0.1 10.0.0.2"),
        said("web", false),
        "hosts are not what it names"
    );
    assert_eq!(ask("ann", CallerRole::Owner, "net/eth1", exact), said("rest", true));
    // The finding: a protocol alone takes everybody's packets.
    for protocol in ["6", "17", "46"] {
        assert_eq!(ask("ann", CallerRole::Owner, "net/eth1", &format!("- - {protocol}")), said("rest", false));
    }
    assert_eq!(ask("ann", CallerRole::Owner, "net/eth1", "10.0.0.1 -"), said("rest", false));
    assert_eq!(ask("ann", CallerRole::Owner, "disk/sda", exact), said("", false), "what nobody allows is denied");
    assert_eq!(ask("chief", CallerRole::Operator, "net/eth1", "- - 6"), said("rest", true), "operators may");
    // Without an eye on the machine no process is anybody's.
    let own = Binding::Process(Task { number: 7, start: 7 });
    let root = caller("uid:0", CallerRole::Operator);
    let q = BindQuestion { caller: &root, resource: "cpu", label: "", background: false, binding: &own };
    assert!(Policy::open().may_bind(&q).denied.unwrap().contains("process 7 cannot be bound"));
    let seen = ProcessFacts { sort: ProcessKind::Ordinary, uid: Some(5), cgroups: Vec::new() };
    assert_eq!(Policy::open().binding(&q, Some(&seen)).denied, None);
}
