//! Mistakes in configuration files: each is told with its line and what is wrong, and nothing is started.

use agent_service::signatures::Handshake;
use agent_service::{AgentConfig, AuthConfig, BoomerangConfig, Level, RateShare, SchedulerChoice};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use terms::{Rate, Span};
use traffic::scheduler::SchedulerKind;

fn parse(text: &str) -> Result<AgentConfig, String> {
    AgentConfig::parse(Path::new("agent.toml"), text).map_err(|mistake| mistake.to_string())
}

#[test]
fn a_full_file() {
    let config = parse(
        r#"
name = "maui"
auth = "none"
socket = "/tmp/a.sock"
state = "/tmp/state"
log = "debug"
policy = "policy.toml"
[rsvp]
refresh = "1s"
keep = 4
repair_wait = "500ms"
blockade = 5
refresh_reduction = true
hello = "2s"
max_paths = 7
max_unreserved = 9
max_senders = 5
[store]
any_filesystem = true
[[interface]]
name = "eth0"
rate = "10mbit"
overhead = "38b"
signalled_share = "62.5%"
kept_back = "500kbit"
assumed_holding = "1h"
premium = "4.5mbit"
background = "80%"
[[resource]]
name = "licence/solver"
capacity = 4
[[interface]]
name = "eth1"
[[multicast_route]]
group = "239.7.7.7"
sender = "10.0.0.1"
from = "eth0"
to = ["eth1"]
[[multicast_route]]
group = "ff1e::7"
from = "eth1"
to = ["eth0", "eth2"]
"#,
    )
    .unwrap();
    assert_eq!((config.name.as_str(), config.log), ("maui", Level::Debug));
    let rsvp = &config.rsvp;
    assert_eq!((rsvp.refresh, rsvp.keep, rsvp.max_paths), (Span::from_secs(1), 4, 7));
    assert_eq!((rsvp.max_unreserved, rsvp.max_senders), (9, 5));
    assert_eq!((rsvp.refresh_reduction, rsvp.hello), (true, Some(Span::from_secs(2))));
    assert_eq!((rsvp.repair_wait, rsvp.blockade), (Span::from_millis(500), 5));
    let eth0 = &config.interfaces[0];
    assert_eq!((eth0.premium, eth0.background), (Some(RateShare::Rate(Rate::from_kbps(4500))), 800));
    assert_eq!((config.store.any_filesystem, config.policy.as_deref()), (true, Some(Path::new("policy.toml"))));
    let resources: Vec<_> = config.resources.iter().map(|r| (r.name.as_str(), r.capacity)).collect();
    assert_eq!(resources, [("licence/solver", 4)]);
    assert_eq!((eth0.rate, eth0.overhead), (Some(Rate::from_mbps(10)), 38));
    assert_eq!(eth0.signalled_share, RateShare::PerMille(625));
    assert_eq!(eth0.signalled_share.of(Rate::from_mbps(10)), Rate::from_kbps(6250));
    assert_eq!(eth0.kept_back, RateShare::Rate(Rate::from_kbps(500)));
    assert_eq!(eth0.assumed_holding, Some(Span::from_secs(3_600)));
    assert_eq!(config.interfaces[1].rate, None, "to be asked of the driver");
    assert_eq!(config.interfaces[1].assumed_holding, None, "safe for ever");
    let [one, any] = &config.multicast_routes[..] else { panic!("two routes") };
    assert_eq!((one.group.to_string(), one.sender.to_string()), ("239.7.7.7".into(), "10.0.0.1".into()));
    assert_eq!((any.sender.to_string(), any.from.as_str(), any.to.len()), ("::".into(), "eth1", 2));
}

/// The first file that this program's documentation showed, word for word (FAULTS.md O9): a later program takes it, and whatever was
/// added since has its default.
#[test]
fn files_of_before_mean_what_they_meant() {
    let first = r#"
name = "maui"                        # default: the host's name
auth = "none"                        # must be written out while RSVP integrity does not exist here
socket = "/run/sluice/agent.sock"    # the default
state = "/var/lib/sluice"            # the default
log = "info"                         # error, warn, info (the default) or debug

[rsvp]
refresh = "30s"                      # R of RFC 2205 section 3.7; the default
keep = 3                             # K; the default

[[interface]]
name = "eth0"
rate = "100mbit"                     # of the link, link headers included; default: what the driver reports
overhead = "14b"                     # what the link adds to each IP packet; the default
signalled_share = "100%"             # of the rate, or a rate: what signalled reservations may hold together
kept_back = "2%"                     # of the rate, or a rate: what best effort and signalling always keep
"#;
    let today =
        parse("name = \"maui\"\nauth = \"none\"\n[[interface]]\nname = \"eth0\"\nrate = \"100mbit\"\n").unwrap();
    let config = parse(first).unwrap();
    assert_eq!(config, today, "all that it says was the default, and is");
    let eth0 = &config.interfaces[0];
    assert_eq!((eth0.role, eth0.kept_back, eth0.overhead), (None, RateShare::PerMille(20), 14));
    assert!(config.listen.is_none() && config.policy.is_none() && config.resources.is_empty());
}

#[test]
fn processors_and_disks_are_what_the_file_says() {
    let text = "auth = \"none\"\n[groups]\nhold_back = true\nparent = \"/mine\"\n[cpu]\ncapacity = \"1.8\"\n\
        [[disk]]\nname = \"data\"\ndevice = \"/dev/sdb\"\ncapacity = \"200mbps\"\nrequest = \"64kb\"\n";
    let config = parse(text).unwrap();
    assert!(config.groups.hold_back && config.groups.parent == Path::new("/mine"));
    let cpu = config.cpu.unwrap();
    assert_eq!((cpu.capacity, cpu.kept_back.of(1_800_000)), (Some(1_800_000), 180_000));
    let disk = &config.disks[0];
    assert_eq!((disk.capacity, disk.kept_back, disk.request), (200_000_000, 10_000_000, Some(65_536)));
    let bare = parse("auth = \"none\"\n[cpu]\n").unwrap();
    assert!(!bare.groups.hold_back && bare.cpu.unwrap().capacity.is_none() && bare.disks.is_empty());
}

#[test]
fn defaults_are_the_machine_s_own_agent() {
    let config = parse("auth = \"none\"").unwrap();
    assert_eq!(config.socket, Path::new("/run/sluice/agent.sock"));
    assert_eq!(config.state, Path::new("/var/lib/sluice"));
    // An agent keeps 2,048 senders without a reservation for each second of its refresh period.
    // Refresh reduction and Hello are for neighbours that do them too.
    let rsvp = rsvp::io::Config {
        max_unreserved: 30 * 2_048,
        refresh_reduction: true,
        hello: Some(Span::from_secs(10)),
        ..rsvp::io::Config::default()
    };
    assert_eq!(config.rsvp, rsvp);
    assert!(!config.name.is_empty());
}

#[test]
fn mistakes_of_resources_and_limits_name_file_line_and_reason() {
    let interface = |rest: &str| format!("auth = \"none\"\n[[interface]]\nname = \"eth0\"\n{rest}\n");
    let resource = |name: &str, capacity: &str| {
        format!("auth = \"none\"\n[[resource]]\nname = \"{name}\"\ncapacity = {capacity}\n")
    };
    let table: &[(&str, String, &str)] = &[
        ("refresh", "auth = \"none\"\n[rsvp]\nrefresh = \"1ms\"".into(), "agent.toml:3: a refresh period is"),
        ("flows", "auth = \"none\"\nmax_flows = 0".into(), "agent.toml:2: max_flows = 0: from 1 to 1048576"),
        ("more flows", "max_flows = 2000000\nauth = \"none\"".into(), "agent.toml:1: max_flows = 2000000: from 1"),
        ("limit", "auth = \"none\"\n[rsvp]\nmax_sessions = 0".into(), "agent.toml:3: a limit is 1 to"),
        ("senders", "auth = \"none\"\n[rsvp]\nmax_senders = 0".into(), "agent.toml:3: a limit is 1 to"),
        ("W", "auth = \"none\"\n[rsvp]\nrepair_wait = \"2m\"".into(), "agent.toml:3: repair_wait is at most 1m"),
        ("W's unit", "auth = \"none\"\n[rsvp]\nrepair_wait = \"2\"".into(), "agent.toml:3: \"2\" has no unit"),
        ("Kb", "auth = \"none\"\n[rsvp]\n\nblockade = 0".into(), "agent.toml:4: blockade is 1 to 100"),
        ("keep", "auth = \"none\"\n[rsvp]\nkeep = 0".into(), "agent.toml:3: keep is 1 to 100"),
        ("premium", interface("premium = \"5\""), "agent.toml:4: \"5\" has no unit"),
        ("background", interface("background = \"5mbit\""), "agent.toml:4: background is a share"),
        ("no such kind", resource("disc", "10"), "agent.toml:3: \"disc\" is no resource"),
        ("an interface", resource("net/eth0", "10"), "agent.toml:3: an interface is an [[interface]]"),
        ("a disk", resource("disk/sda", "10"), "agent.toml:3: a disk is a [[disk]]"),
        ("no pieces", resource("licence/x", "1.5"), "agent.toml:4: invalid type"),
        ("less than none", resource("licence/x", "-1"), "agent.toml:4: invalid value"),
        ("nothing of it", resource("licence/x", "0"), "agent.toml:4: a capacity of nothing"),
        ("how many", resource("licence/x", "1").replace("capacity = 1", ""), "agent.toml:2: missing field `capacity`"),
        (
            "twice",
            resource("a/b", "1") + "[[resource]]\nname = \"a/b\"\ncapacity = 1\n",
            "agent.toml:6: the resource a/b is there twice",
        ),
    ];
    for (case, text, expected) in table {
        let told = parse(text).expect_err(case);
        assert!(told.starts_with(expected), "{case}: {told}\n expected: {expected}");
    }
}

#[test]
fn mistakes_name_file_line_and_reason() {
    let interface = |rest: &str| format!("auth = \"none\"\n[[interface]]\nname = \"eth0\"\n{rest}\n");
    let mroute = |group: &str, to: &str| {
        format!("auth = \"none\"\n[[multicast_route]]\ngroup = \"{group}\"\nfrom = \"a\"\nto = {to}\n")
    };
    let disk = |rest: &str| format!("auth = \"none\"\n[[disk]]\nname = \"d\"\ndevice = \"sda\"\n{rest}\n");
    let table: &[(&str, String, &str)] = &[
        ("cores", "auth = \"none\"\n[cpu]\ncapacity = \"two\"".into(), "agent.toml:3: \"two\" is no number of cores"),
        (
            "nothing left",
            "auth = \"none\"\n[cpu]\ncapacity = \"1\"\nkept_back = \"100%\"".into(),
            "agent.toml:4: kept_back leaves",
        ),
        ("parent", "auth = \"none\"\n[groups]\nparent = \"/a/../b\"".into(), "agent.toml:3: a group is written"),
        ("disk's capacity", disk("capacity = \"1bps\""), "agent.toml:5: a disk of less than 1mbps"),
        ("nothing of the disk", disk("capacity = \"9mbps\"\nkept_back = \"10mbps\""), "agent.toml:6: kept_back leaves"),
        ("request", disk("capacity = \"9mbps\"\nrequest = \"1b\""), "agent.toml:6: a request is 512b to 64mb"),
        ("no auth", "name = \"a\"".into(), "agent.toml: `auth` is missing"),
        ("other auth", "\nauth = \"md5\"".into(), "agent.toml:2: auth = \"md5\" is not known"),
        ("keys and none", "keys = \"k\"\nauth = \"none\"".into(), "agent.toml:2: there are keys and auth = \"none\""),
        ("no auth there", interface("").replace("auth = \"none\"\n", ""), "agent.toml: `auth` is missing: write keys"),
        ("both there", interface("keys = \"k\"\nauth = \"none\""), "agent.toml:5: there are keys and auth"),
        (
            "handshake",
            interface("keys = \"k\"\nhandshake = \"firm\""),
            "agent.toml:5: handshake = \"firm\" is not known",
        ),
        ("reordering", interface("keys = \"k\"\nreordering = 65"), "agent.toml:5: reordering is 1 "),
        ("no reordering", interface("keys = \"k\"\nreordering = 0"), "agent.toml:5: reordering is 1 (every message"),
        ("no keys to order", interface("reordering = 7"), "agent.toml:4: without keys no order is kept"),
        ("no keys to shake", interface("handshake = \"none\""), "agent.toml:4: without keys there is no handshake"),
        ("unknown key", "auth = \"none\"\nsokcet = \"x\"".into(), "agent.toml:2: unknown field `sokcet`"),
        ("unknown key below", interface("rat = \"1mbit\""), "agent.toml:4: unknown field `rat`"),
        ("syntax", "auth = \"none\"\n[[interface".into(), "agent.toml:2: "),
        ("type", "auth = \"none\"\nname = 3".into(), "agent.toml:2: invalid type"),
        ("twice in TOML", "auth = \"none\"\nauth = \"none\"".into(), "agent.toml:2: duplicate key"),
        ("bad name", "auth = \"none\"\nname = \"a/b\"".into(), "agent.toml:2: \"a/b\" is no name"),
        ("bad level", "auth = \"none\"\nlog = \"loud\"".into(), "agent.toml:2: \"loud\" is no log level"),
        ("no name", "auth = \"none\"\n[[interface]]\nrate = \"1mbit\"".into(), "agent.toml:2: missing field `name`"),
        ("no unit", interface("rate = \"10\""), "agent.toml:4: \"10\" has no unit"),
        ("bad unit", interface("rate = \"10mbut\""), "agent.toml:4: \"mbut\" is no unit of rate"),
        ("no rate", interface("rate = \"0bit\""), "agent.toml:4: a link of 0bit is not supported"),
        ("bad share", interface("kept_back = \"110%\""), "agent.toml:4: \"110%\" is no share"),
        ("all kept", interface("rate = \"1mbit\"\nkept_back = \"100%\""), "agent.toml:5: kept_back leaves nothing"),
        ("overhead", interface("overhead = \"1kb\""), "agent.toml:4: an overhead is at most 256b"),
        (
            "bad name",
            "auth = \"none\"\n[[interface]]\nname = \"much-too-long-name\"".into(),
            "agent.toml:3: \"much-too",
        ),
        ("twice", interface("[[interface]]\nname = \"eth0\""), "agent.toml:5: the interface eth0 is there twice"),
        ("no group", mroute("10.0.0.1", "[\"b\"]"), "agent.toml:3: 10.0.0.1 is no multicast group"),
        ("no address", mroute("some", "[\"b\"]"), "agent.toml:3: \"some\" is no address"),
        ("back again", mroute("239.1.1.1", "[\"a\"]"), "agent.toml:4: a route goes out of"),
        ("nowhere", mroute("239.1.1.1", "[]"), "agent.toml:4: a route goes out of"),
        (
            "family",
            mroute("239.1.1.1", "[\"b\"]\nsender = \"fd00::1\""),
            "agent.toml:6: fd00::1 cannot send to 239.1.1.1",
        ),
    ];
    for (case, text, expected) in table {
        let told = parse(text).expect_err(case);
        assert!(told.starts_with(expected), "{case}: {told}\n expected: {expected}");
        assert!(!told.contains('\n'), "{case}: one line, not {told:?}");
    }
}

/// By which scheduler the kernel queues an interface, and the bound that is declared for it.
#[test]
fn a_scheduler_and_its_delay_bound() {
    let interface = |rest: &str| parse(&format!("auth = \"none\"\n[[interface]]\nname = \"eth0\"\n{rest}\n"));
    let said =
        |rest: &str| interface(rest).map(|config| (config.interfaces[0].scheduler, config.interfaces[0].delay_bound));
    assert_eq!(said(""), Ok((SchedulerChoice::Auto, None)));
    assert_eq!(said("scheduler = \"htb\""), Ok((SchedulerChoice::Given(SchedulerKind::Htb), None)));
    let bounded = (SchedulerChoice::Given(SchedulerKind::Hfsc), Some(Span::from_millis(5)));
    assert_eq!(said("scheduler = \"hfsc\"\ndelay_bound = \"5ms\""), Ok(bounded));
    for (rest, expected) in [
        ("scheduler = \"cake\"", "agent.toml:4: \"cake\" is no scheduler: auto, htb or hfsc"),
        ("delay_bound = \"2s\"", "agent.toml:4: delay_bound is more than 0 and at most 1s"),
        ("scheduler = \"htb\"\ndelay_bound = \"5ms\"", "agent.toml:5: only the kernel's hfsc"),
        ("plane = \"user\"\ndelay_bound = \"5ms\"", "agent.toml:5: only the kernel's hfsc"),
    ] {
        let told = interface(rest).expect_err(rest);
        assert!(told.starts_with(expected), "{rest}: {told}");
    }
}

#[test]
fn hello_goes_with_refresh_reduction_and_not_too_often() {
    let told = |rsvp: &str| parse(&format!("auth = \"none\"\n[rsvp]\n{rsvp}")).map(|config| config.rsvp.hello);
    assert_eq!(told("refresh_reduction = true"), Ok(Some(Span::from_secs(10))));
    assert_eq!(told("refresh_reduction = true\nhello = \"0s\""), Ok(None), "never");
    assert_eq!(told("refresh_reduction = false"), Ok(None));
    assert_eq!(told("keep = 3"), Ok(Some(Span::from_secs(10))), "both are on unless said");
    let plain = parse("auth = \"none\"\n").unwrap().rsvp;
    assert_eq!((plain.refresh_reduction, plain.hello), (true, Some(Span::from_secs(10))));
    for (rsvp, line) in
        [("refresh_reduction = false\nhello = \"1s\"", 4), ("refresh_reduction = true\nhello = \"99ms\"", 4)]
    {
        let mistake = told(rsvp).unwrap_err();
        assert!(mistake.starts_with(&format!("agent.toml:{line}: hello is 100ms or more, or 0s")), "{mistake}");
    }
}

#[test]
fn brokers_that_are_asked() {
    let listen = "[listen]\naddress = \"10.0.0.2:4711\"\nca = \"ca.pem\"\ncertificate = \"b.pem\"\nkey = \"b.key\"\n";
    let broker = |name: &str, address: &str| format!("[[broker]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    let file = |brokers: &str, listen: &str| parse(&format!("auth = \"none\"\n[cpu]\n{listen}{brokers}"));
    let two = broker("main", "tls://10.0.0.9:8443") + &broker("spare", "tls://[fd00::1]:443");
    let config = file(&two, listen).unwrap();
    let known: Vec<_> = config.brokers.iter().map(|one| (one.name.as_str(), one.places.clone())).collect();
    let place = |host: &str, port: u16| (host.to_owned(), port);
    assert_eq!(known, [("main", vec![place("10.0.0.9", 8443)]), ("spare", vec![place("fd00::1", 443)])]);
    let several = "[[broker]]\nname = \"main\"\naddresses = [\"tls://a:1\", \"tls://b:2\"]\n";
    assert_eq!(file(several, listen).unwrap().brokers[0].places, [place("a", 1), place("b", 2)]);
    assert!(file("", "").unwrap().brokers.is_empty());
    let one = broker("main", "tls://b:1");
    for (brokers, listen, said) in [
        (one.clone(), "", "agent.toml:4: a broker is asked under the certificate of [listen]"),
        (one.clone() + &one, listen, "each broker once"),
        (broker("anl/main", "tls://b:1"), listen, "no name of a broker of our own domain"),
        (broker("", "tls://b:1"), listen, "no name of a broker"),
        (broker("main", "https://b:1"), listen, "tls://HOST:PORT"),
        (broker("main", "tls://b"), listen, "tls://HOST:PORT"),
        ("[[broker]]\nname = \"main\"\n".to_owned(), listen, "where is it asked"),
        ("[[broker]]\nname = \"main\"\naddresses = [\"https://a:1\"]\n".to_owned(), listen, "tls://HOST:PORT"),
        (one.clone() + "addresses = [\"tls://a:1\"]\n", listen, "where is it asked"),
    ] {
        let mistake = file(&brokers, listen).unwrap_err();
        assert!(mistake.contains(said), "{brokers}: {mistake}");
    }
}

#[test]
fn keys_of_the_file_hold_where_an_interface_says_nothing() {
    let text = "keys = \"all.keys\"\n[[interface]]\nname = \"a\"\n[[interface]]\nname = \"b\"\nkeys = \"/etc/b.keys\"\n\
                handshake = \"willing\"\nreordering = 8\n[[interface]]\nname = \"c\"\nauth = \"none\"\n";
    let config = AgentConfig::parse(Path::new("/etc/sluice/agent.toml"), text).unwrap();
    let auth: Vec<AuthConfig> = config.interfaces.into_iter().map(|interface| interface.auth).collect();
    let keys = |file: &str, handshake, reordering| AuthConfig::Keys { file: file.into(), handshake, reordering };
    let expected = [
        keys("/etc/sluice/all.keys", Handshake::Required, 64),
        keys("/etc/b.keys", Handshake::Willing, 8),
        AuthConfig::None,
    ];
    assert_eq!(auth, expected);
}

#[test]
fn what_an_interface_says_of_signed_messages_reaches_its_keys() {
    let dir = std::env::temp_dir().join(format!("agent-reordering-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(dir.join("k")).unwrap();
    writeln!(file, "[[key]]\nid = 1\nalgorithm = \"hmac-sha-256\"\nsecret = \"{}\"", "07".repeat(32)).unwrap();
    let text = "keys = \"k\"\n[[interface]]\nname = \"a\"\n[[interface]]\nname = \"b\"\nreordering = 8\n\
                handshake = \"willing\"\n";
    let config = AgentConfig::parse(&dir.join("agent.toml"), text).unwrap();
    let auth = agent_service::auth::load(&config);
    std::fs::remove_dir_all(&dir).unwrap();
    let auth = auth.unwrap();
    let of = |name: &str| match &auth[name] {
        rsvp::integrity::AuthMode::Keys(table) => (table.window, table.handshake, table.unwilling),
        rsvp::integrity::AuthMode::None => panic!("no keys on {name}"),
    };
    assert_eq!((of("a"), of("b")), ((64, true, false), (8, true, true)));
}

#[test]
fn static_senders_and_reservations() {
    let good = "auth = \"none\"\n[[static_sender]]\nfrom = \"10.0.0.1:5004\"\nto = \"10.0.2.2:5004\"\nrate = \"1mbit\"\n\
                [[static_reservation]]\nsession = \"[fd00::2]:5004\"\nprotocol = \"tcp\"\nstyle = \"ff\"\n\
                senders = [\"[fd00::1]:1\", \"[fd00::1]:2\"]\nrate = \"1mbit\"\nservice_rate = \"2mbit\"\n";
    let statics = parse(good).unwrap().statics;
    assert_eq!(statics.len(), 2);
    assert_eq!((statics[0].session().protocol, statics[1].session().protocol), (17, 6));
    let table = [
        (("5004\"\nto", "port\"\nto"), "agent.toml:3: \"10.0.0.1:port\" is no ADDRESS:PORT"),
        (("\"tcp\"", "\"0\""), "agent.toml:8: \"0\" is no IP protocol"),
        (("\"ff\"", "\"wf\""), "agent.toml:7: ff and se name senders"),
        (("\"ff\"", "\"xx\""), "agent.toml:9: unknown variant `xx`"),
        (("[fd00::1]:1", "10.0.0.1:1"), "agent.toml:7: sender and session are of different"),
        (("\"2mbit\"", "\"0.5mbit\""), "agent.toml:7: R of guaranteed service"),
        (("to = \"10.0.2.2:5004\"", "to = \"0.0.0.0:5004\""), "agent.toml:4: a session needs a destination"),
    ];
    for ((from, to), expected) in table {
        let told = parse(&good.replacen(from, to, 1)).expect_err(to);
        assert!(told.starts_with(expected), "{told}\n expected: {expected}");
    }
    let twice = good.to_owned() + good.split_once('\n').unwrap().1;
    assert!(parse(&twice).unwrap_err().contains("there twice"));
}

#[test]
fn a_missing_file_is_named() {
    let told = AgentConfig::load(Path::new("/nonexistent/agent.toml")).unwrap_err().to_string();
    assert!(told.starts_with("/nonexistent/agent.toml: cannot be read: No such file"), "{told}");
}

#[test]
fn boomerang_is_off_unless_the_file_has_its_section() {
    assert_eq!(parse("auth = \"none\"").unwrap().boomerang, None);
    let config = parse("auth = \"none\"\n[boomerang]\n").unwrap().boomerang.unwrap();
    assert_eq!(config, BoomerangConfig::default());
    let text = "auth = \"none\"\n[boomerang]\nreplies = \"any\"\nlock = true\nmost_refresh = \"30s\"\nper_source = 50\n\
                burst = \"50ms\"\nleast_burst = \"3kb\"\nmax_sessions = 9\nfast_sessions = 1000000\n[[boomerang.gather]]\ninterface = \"eth0\"\n\
                to = \"10.0.2.2\"\nrate = \"6mbit\"";
    let config = parse(text).unwrap().boomerang.unwrap();
    assert_eq!((config.lock, config.most_refresh, config.per_source, config.max_sessions), (true, 30, 50, 9));
    assert_eq!((config.gather[0].rate, config.gather.len(), config.fast_sessions), (6_000_000, 1, 1_000_000));
    for (line, words) in [
        ("replies = \"all\"", "replies is"),
        ("require_auth = true", "require_auth without keys"),
        ("most_refresh = \"300s\"", "most_refresh is 1s to 255s"),
        ("per_source = 3", "per_source is at least 10"),
        ("burst = \"9s\"", "burst is 1ms to 4s"),
        ("least_burst = \"100b\"", "least_burst is"),
        ("max_masks = 0", "a limit is 1 to"),
        ("fast_sessions = 20000000", "a limit is 1 to 12000000"),
        ("keys = \"/nowhere/keys.toml\"", "the keys cannot be read"),
        ("dance = 1", "unknown field"),
    ] {
        let wrong = parse(&format!("auth = \"none\"\n[boomerang]\n{line}\n")).expect_err(line);
        assert!(wrong.contains(words), "{wrong}");
    }
}

/// Keys for Boomerang are in a file as those of RSVP are; with them replies must be proven unless the file says otherwise.
#[test]
fn with_keys_replies_are_to_be_proven() {
    let folder = std::env::temp_dir().join(format!("sluice-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let keys = folder.join("keys.toml");
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&keys).unwrap();
    file.write_all(b"[[key]]\nid = 7\nalgorithm = \"hmac-sha-256\"\nsecret = \"00112233445566778899aabbccddeeff\"\n")
        .unwrap();
    let text = format!("auth = \"none\"\n[boomerang]\nkeys = {keys:?}\n");
    let config = parse(&text).unwrap().boomerang.unwrap();
    assert_eq!((config.keys[0].id, format!("{:?}", config.replies).as_str()), (7, "Authenticated"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_interface_has_a_role_or_none() {
    let text = |role: &str| format!("auth = \"none\"\n[[interface]]\nname = \"eth0\"\n{role}");
    let role = |role: &str| parse(&text(role)).map(|config| config.interfaces[0].role.map(|role| role.name()));
    for name in ["edge", "core", "peer"] {
        assert_eq!(role(&format!("role = {name:?}")), Ok(Some(name)));
    }
    assert_eq!(role(""), Ok(None), "an edge, and a warning");
    assert!(
        role("role = \"trusted\"").unwrap_err().starts_with("agent.toml:4: \"trusted\" is no role: edge, core or peer")
    );
}
