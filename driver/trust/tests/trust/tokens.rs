//! Tokens of virtual organisations: they give nothing by themselves, their holders can only narrow them, and
//! whoever forges, borrows, inflates or loads one gets a reason.

use biscuit_auth::builder::{Algorithm, BlockBuilder, Op, Unary};
use biscuit_auth::{Biscuit, KeyPair, PublicKey};
use std::collections::BTreeSet;
use std::sync::Arc;
use terms::book::{Caller, CallerRole, ResourceKind, VoToken};
use terms::ports::book::{Question, TokenPort};
use terms::{Span, Time, Window};
use trust::token::{
    Approval, ApprovalRequest, HeldToken, MAX_TOKEN, Organisation, TokenGate, TokenGrant, TokenKey, TokenLimits,
    TokenPublicKey,
};

const NOW: u64 = 1_795_269_600;
const MBIT: u64 = 1_000_000;

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * Span::NANOS_PER_SEC)
}

fn atlas(key: TokenPublicKey) -> Organisation {
    Organisation { name: "atlas".into(), key, domain: None, through: Vec::new(), revoked: BTreeSet::new() }
}

fn grant() -> TokenGrant {
    TokenGrant {
        vo: "atlas".into(),
        holder: "anl/alice".into(),
        groups: vec!["physics".into()],
        ..TokenGrant::default()
    }
}

/// An organisation's key, and a gate of `maui` that believes it.
fn house() -> (TokenKey, TokenGate) {
    let key = TokenKey::new();
    let gate = TokenGate::new("maui", vec![atlas(key.public())]);
    (key, gate)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, trust::Error>) -> String {
    result.unwrap_err().to_string()
}

/// The name by which a token of an organisation means a caller.
fn known(key: &TokenKey, domain: Option<&str>, through: &[&str], holder: &str, caller: &str) -> bool {
    let text = HeldToken::create(key, &TokenGrant { holder: holder.into(), ..grant() }).unwrap().text().unwrap();
    let through = through.iter().map(|name| (*name).to_owned()).collect();
    let organisation = Organisation { domain: domain.map(str::to_owned), through, ..atlas(key.public()) };
    TokenGate::new("maui", vec![organisation]).shown(&text, caller).is_ok()
}

/// A neighbour's word is about people of third domains: it makes nobody one of ours.
#[test]
fn a_neighbours_word_makes_nobody_one_of_ours() {
    let key = TokenKey::new();
    let esnet = &["esnet"][..];
    assert!(known(&key, Some("lbnl"), esnet, "anl/alice", "esnet/anl/alice"));
    for (holder, caller) in [
        ("lbnl/alice", "esnet/lbnl/alice"),      // ours come to us themselves
        ("lbnl/main/uid:0", "esnet/main/uid:0"), // root of a machine of ESnet's
        ("main/uid:0", "esnet/main/uid:0"),
        ("lbnl/bob", "esnet/bob"),
    ] {
        assert!(!known(&key, Some("lbnl"), esnet, holder, caller), "{holder} {caller}");
    }
    assert!(known(&key, Some("lbnl"), esnet, "lbnl/main/uid:0", "main/uid:0"), "of a machine of ours");
    assert!(known(&key, Some("lbnl"), esnet, "esnet/main/uid:0", "esnet/main/uid:0"), "under its own name");
    assert!(!known(&key, None, esnet, "main/uid:0", "esnet/main/uid:0"));
}

/// What the token says about `amount` of a resource from now on for this long.
fn asked(gate: &TokenGate, token: &VoToken, resource: &str, amount: u64, seconds: u64, now: u64) -> Result<(), String> {
    let caller = Caller {
        name: "anl/alice".into(),
        groups: Vec::new(),
        role: CallerRole::Owner,
        token: Some(Arc::new(token.clone())),
    };
    let question = Question {
        caller: &caller,
        resource,
        label: "HEP",
        amount,
        window: Window::new(at(now), at(now + seconds)).unwrap(),
        length: Span::from_secs(seconds),
        now: at(now),
        background: false,
        together: amount,
        reservations: 1,
    };
    gate.check(token, &question)
}

#[test]
fn a_holder_can_only_narrow_and_every_limit_has_an_edge() {
    let (key, gate) = house();
    let whole = HeldToken::create(&key, &grant()).unwrap();
    let token = gate.shown(&whole.text().unwrap(), "anl/alice").unwrap();
    assert_eq!((token.vo.as_str(), &token.groups[..]), ("atlas", &["physics".to_owned()][..]));
    assert_eq!(token.memberships().collect::<Vec<_>>(), ["atlas", "atlas/physics"]);
    asked(&gate, &token, "net/eth1", 1 << 50, 10_000, NOW).unwrap();
    asked(&gate, &token, "cpu", 4 * MBIT, 10, NOW).unwrap();

    let limits = TokenLimits {
        resources: vec!["maui/net/*".into(), "cpu".into(), "maui/*/scratch".into()],
        at_most: vec![(ResourceKind::Network, 100 * MBIT), (ResourceKind::Cpu, 2 * MBIT)],
        until: Some(at(NOW + 3_600)),
        longest: Some(Span::from_secs(1_800)),
        label: Some("HEP".into()),
    };
    let narrow = whole.attenuate(&limits).unwrap();
    let token = gate.shown(&narrow.text().unwrap(), "anl/alice").unwrap();
    let ask = |resource, amount, seconds, now| asked(&gate, &token, resource, amount, seconds, now);
    ask("net/eth1", 100 * MBIT, 1_800, NOW).unwrap();
    ask("cpu", 2 * MBIT, 1_800, NOW).unwrap();
    ask("disk/scratch", 1 << 40, 1_800, NOW).unwrap();
    ask("net/eth1", MBIT, 600, NOW + 3_000).unwrap();
    for (refused, check) in [
        (ask("net/eth1", 100 * MBIT + 1, 1_800, NOW), "$a <= 100000000"),
        (ask("cpu", 2 * MBIT + 1, 1_800, NOW), "$a <= 2000000"),
        (ask("disk/other", 1, 1_800, NOW), "resource($r)"),
        (ask("net/eth1", MBIT, 1_801, NOW), "$s <= 1800"),
        (ask("net/eth1", MBIT, 601, NOW + 3_000), "$e <= "),
        (ask("net/eth1", MBIT, 1, NOW + 3_600), "$e <= "),
    ] {
        let text = refused.unwrap_err();
        assert!(text.starts_with("the token does not allow it: check if") && text.contains(check), "{check}: {text}");
    }
    // Wider again is not possible: all blocks hold.
    let wide = narrow
        .attenuate(&TokenLimits { at_most: vec![(ResourceKind::Network, 1_000 * MBIT)], ..TokenLimits::default() });
    let token = gate.shown(&wide.unwrap().text().unwrap(), "anl/alice").unwrap();
    assert!(asked(&gate, &token, "net/eth1", 101 * MBIT, 60, NOW).is_err());
    // Sealed is sealed; nothing is no attenuation.
    let sealed = narrow.seal().unwrap();
    gate.shown(&sealed.text().unwrap(), "anl/alice").unwrap();
    assert!(sealed.attenuate(&limits).is_err() && sealed.seal().is_err());
    assert!(refusal(narrow.attenuate(&TokenLimits::default()).map(drop)).contains("give a limit"));
}

#[test]
fn a_token_is_its_holders_under_every_name_of_theirs_and_no_other() {
    let key = TokenKey::new();
    let text = HeldToken::create(&key, &grant()).unwrap().text().unwrap();
    let gate = |domain: Option<&str>, through: &[&str]| {
        let through = through.iter().map(|name| (*name).to_owned()).collect();
        TokenGate::new("maui", vec![Organisation { domain: domain.map(str::to_owned), through, ..atlas(key.public()) }])
    };
    for (gate, name, good) in [
        (gate(None, &[]), "anl/alice", true),
        (gate(None, &[]), "alice", false),
        (gate(Some("anl"), &[]), "alice", true),   // at home
        (gate(Some("lbnl"), &[]), "alice", false), // another alice
        (gate(Some("lbnl"), &[]), "anl/alice", true),
        (gate(Some("lbnl"), &[]), "esnet/anl/alice", false), // ESnet's word is not taken
        (gate(Some("lbnl"), &["esnet"]), "esnet/anl/alice", true),
        (gate(Some("lbnl"), &["esnet"]), "esnet/anl/bob", false),
        (gate(Some("lbnl"), &["esnet"]), "nordu/esnet/anl/alice", false),
        (gate(Some("lbnl"), &["esnet", "nordu"]), "nordu/esnet/anl/alice", true),
        (gate(None, &["anl"]), "anl/alice", true), // a domain's own people are no others'
        (gate(Some("anl"), &[]), "main/uid:0", false),
    ] {
        let shown = gate.shown(&text, name);
        assert_eq!(shown.is_ok(), good, "{name}: {shown:?}");
        if !good {
            assert!(refusal(shown).contains("anl/alice's, and you are"), "{name}");
        }
    }
}

#[test]
fn what_is_forged_borrowed_damaged_or_revoked_is_refused() {
    let (key, gate) = house();
    let held = HeldToken::create(&key, &grant()).unwrap();
    let text = held.text().unwrap();
    let other = HeldToken::create(&TokenKey::new(), &grant()).unwrap().text().unwrap();
    assert!(
        refusal(gate.shown(&other, "anl/alice"))
            .contains("organisation that is not known here ([[vo]] of the policy: atlas)")
    );
    assert!(refusal(TokenGate::new("maui", Vec::new()).shown(&text, "anl/alice")).contains("none)"));
    let cms = HeldToken::create(&key, &TokenGrant { vo: "cms".into(), ..grant() }).unwrap().text().unwrap();
    assert!(refusal(gate.shown(&cms, "anl/alice")).contains("the key of atlas signed a token of \"cms\""));
    for n in (0..text.len()).step_by(7) {
        let mut broken = text.clone().into_bytes();
        broken[n] = if broken[n] == b'A' { b'B' } else { b'A' };
        let broken = String::from_utf8(broken).unwrap();
        // The last character may hold bits that say nothing.
        assert!(gate.shown(&broken, "anl/alice").is_err() || n + 4 > text.len(), "character {n}");
    }
    for junk in ["", "no token", "\u{0}", &"A".repeat(1 << 20), &text[..text.len() / 2]] {
        assert!(gate.shown(junk, "anl/alice").is_err());
    }
    assert!(refusal(gate.shown(&"A".repeat(1 << 20), "anl/alice")).contains(&format!("at most {MAX_TOKEN} bytes")));
    // A block's number revokes it and all that were made of it, and nothing else.
    let narrow = held.attenuate(&TokenLimits { label: Some("HEP".into()), ..TokenLimits::default() }).unwrap();
    let number = narrow.blocks().unwrap()[1].revocation.clone();
    let revoking = |number: &str| {
        let revoked = [number.to_owned()].into_iter().collect();
        TokenGate::new("maui", vec![Organisation { revoked, ..atlas(key.public()) }])
    };
    let strict = revoking(&number);
    strict.shown(&text, "anl/alice").unwrap();
    assert!(refusal(strict.shown(&narrow.text().unwrap(), "anl/alice")).contains(&number));
    // Revoked after it was shown: the next question finds out.
    let token = gate.shown(&narrow.text().unwrap(), "anl/alice").unwrap();
    assert_eq!(token.id, number);
    let later = revoking(&held.blocks().unwrap()[0].revocation);
    assert!(asked(&later, &token, "net/eth1", MBIT, 60, NOW).unwrap_err().contains("revoked"));
    let without = TokenGate::new("maui", Vec::new());
    assert!(asked(&without, &token, "net/eth1", MBIT, 60, NOW).unwrap_err().contains("not known here"));
    // More blocks than a token has are not even verified.
    let label = |n: u32| TokenLimits { label: Some(format!("l{n}")), ..TokenLimits::default() };
    let long = (0..8).fold(HeldToken::create(&key, &grant()).unwrap(), |token, n| token.attenuate(&label(n)).unwrap());
    assert!(refusal(gate.shown(&long.text().unwrap(), "anl/alice")).contains("at most 8 blocks"));
}

#[test]
fn an_approval_is_of_one_token_and_of_those_who_were_named() {
    let (key, gate) = house();
    let (head, other) = (TokenKey::new(), TokenKey::new());
    let wanted = TokenGrant { approvers: vec![head.public()], ..grant() };
    let held = HeldToken::create(&key, &wanted).unwrap();
    let allowed = |held: &HeldToken, amount| {
        let token = gate.shown(&held.text().unwrap(), "anl/alice").unwrap();
        asked(&gate, &token, "net/eth1", amount, 60, NOW)
    };
    assert!(allowed(&held, 1).unwrap_err().contains("approved(true) trusting ed25519/"), "nobody approved");
    let at_most = TokenLimits { at_most: vec![(ResourceKind::Network, 10 * MBIT)], ..TokenLimits::default() };
    let approve = |held: &HeldToken, by: &TokenKey| {
        let request = held.request().unwrap().text().unwrap();
        let approval = ApprovalRequest::parse(&request).unwrap().approve(by, &at_most).unwrap();
        Approval::parse(approval.text())
    };
    let good = held.approved(&approve(&held, &head)).unwrap();
    allowed(&good, 10 * MBIT).unwrap();
    assert!(allowed(&good, 10 * MBIT + 1).is_err(), "the approval has limits of its own");
    assert!(allowed(&held.approved(&approve(&held, &other)).unwrap(), 1).is_err(), "somebody else approved");
    let twin = HeldToken::create(&key, &wanted).unwrap();
    let borrowed = twin.approved(&approve(&held, &head));
    let shown = borrowed.and_then(|token| gate.shown(&token.text()?, "anl/alice"));
    assert!(shown.is_err(), "an approval of another token: {shown:?}");
    // The holder cannot say it in the approver's place.
    let root = PublicKey::from_bytes_hex(&key.public().to_string()[8..], Algorithm::Ed25519).unwrap();
    let biscuit = Biscuit::from_base64(held.text().unwrap(), root).unwrap();
    let own = biscuit.append(BlockBuilder::new().code("approved(true);").unwrap()).unwrap();
    let token = gate.shown(&own.to_base64().unwrap(), "anl/alice").unwrap();
    assert!(asked(&gate, &token, "net/eth1", 1, 60, NOW).is_err());
}

/// A token with this first block, signed by an organisation whose own key it is: also such are bounded.
fn loaded(first: &str, second: Option<&str>) -> Result<VoToken, trust::Error> {
    loaded_with(first, second.map(|source| BlockBuilder::new().code(source).unwrap()))
}

fn loaded_with(first: &str, second: Option<BlockBuilder>) -> Result<VoToken, trust::Error> {
    let file = std::env::temp_dir().join(format!("sluice-token-{}-{}", std::process::id(), NOW));
    let key = TokenKey::new();
    key.write(&file).unwrap();
    let line = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let private = line.trim().strip_prefix("ed25519-private/").unwrap();
    let private = biscuit_auth::PrivateKey::from_bytes_hex(private, Algorithm::Ed25519).unwrap();
    let number = u32::from_str_radix(&key.public().to_string()[8..16], 16).unwrap();
    let builder = Biscuit::builder().root_key_id(number).code(first).unwrap();
    let mut token = builder.build(&KeyPair::from(&private)).unwrap();
    if let Some(second) = second {
        token = token.append(second).unwrap();
    }
    TokenGate::new("maui", vec![atlas(key.public())]).shown(&token.to_base64().unwrap(), "anl/alice")
}

/// A token is a program of strangers: what could cost more than a little is not evaluated.
#[test]
fn tokens_that_could_cost_time_are_refused_before_they_are_evaluated() {
    const FIRST: &str = "vo(\"atlas\"); check if holder(\"anl/alice\");";
    loaded(FIRST, None).unwrap();
    let facts = |n: usize| (0..n).map(|i| format!("a({i});")).collect::<String>();
    let checks = |n: usize| "check if amount($a), $a <= 5;".repeat(n);
    let long = format!("check if label($l), $l == \"{}\";", "x".repeat(129));
    let wide = format!("check if amount($a), {};", ["$a <= 5"; 9].join(", "));
    let deep = format!("check if amount($a), {};", ["$a <= 5"; 60].join(" || "));
    for (second, why) in [
        // A loop, and facts that make facts.
        ("p(0); p($x) <- p($x);".to_owned(), "has rules"),
        ("b($x) <- amount($x);".to_owned(), "has rules"),
        // A join of many facts with themselves.
        (format!("{} check if a($x), a($y), a($z), $x == $z;", facts(8)), "more than 2 facts"),
        (facts(9), "more than 8 facts"),
        (checks(9), "8 facts or checks"),
        (wide, "8 conditions"),
        (deep, "128 operations"),
        ("check if label($l), $l.matches(\"a\");".to_owned(), "Regex"),
        ("check if amount($a), $a * $a > 5;".to_owned(), "Mul"),
        ("s({1, 2}); check if s($s), $s.all($x -> $x > 0);".to_owned(), "block 1"),
        (long, "too long"),
        ("check if label($l), $l == \"a\\\"b\";".to_owned(), "characters"),
    ] {
        let text = refusal(loaded(FIRST, Some(&second)));
        assert!(text.contains(why) && text.contains("block 1"), "{second}: {text}");
    }
    // Brackets in brackets, which no reader of text has seen: a reader that goes into each would not come back.
    for (levels, good) in [(4, true), (7, false), (1_000, false)] {
        let mut block = BlockBuilder::new().code("check if amount($a), $a <= 500000000;").unwrap();
        let ops = &mut block.checks[0].queries[0].expressions[0].ops;
        ops.extend(std::iter::repeat_n(Op::Unary(Unary::Parens), levels));
        let begun = std::time::Instant::now();
        let shown = loaded_with(FIRST, Some(block));
        assert_eq!(shown.is_ok(), good, "{levels}: {shown:?}");
        let text = if good { String::new() } else { refusal(shown) };
        assert!(good || text.contains("deeper than 6"), "{levels}: {text}");
        assert!(begun.elapsed().as_secs() < 5, "{levels}");
    }
    for first in [
        "vo(\"atlas\");",
        "vo(\"atlas\"); check if holder($x);",
        "vo(\"atlas\"); check if holder(\"anl/alice\") or true;",
    ] {
        assert!(refusal(loaded(first, None)).contains("bound to no holder"), "{first}");
    }
    // The most that is within the bounds takes little.
    let most = format!("{}{}", facts(15), "check if a($x), a($y), $x == 14, $y == 14;".repeat(15));
    let token = loaded(&format!("{FIRST}{most}"), None);
    assert!(token.is_ok(), "{token:?}");
}

#[test]
fn keys_are_files_of_one_line_and_private_ones_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = std::env::temp_dir().join(format!("sluice-token-keys-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (private, public) = (dir.join("k"), dir.join("k.pub"));
    let key = TokenKey::new();
    key.write(&private).unwrap();
    key.public().write(&public).unwrap();
    assert_eq!(std::fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(TokenKey::read(&private).unwrap().public(), TokenPublicKey::read(&public).unwrap());
    assert!(TokenKey::read(&public).is_err() && TokenPublicKey::read(&private).is_err());
    assert!(TokenPublicKey::parse("ed25519/12").is_err());
    let told = TokenPublicKey::read(&private).unwrap_err().to_string();
    assert!(!told.contains(&std::fs::read_to_string(&private).unwrap()[20..40]), "a private key is not shown: {told}");
    assert!(!format!("{key:?}").contains("private"));
    std::fs::remove_dir_all(&dir).unwrap();
}
