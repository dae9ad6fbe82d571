//! The cost of a token at an agent: when it is shown (signatures, shape, holder), and for each part of a request (its
//! checks). A usual one has three blocks; beside it the most that the bounds allow. The aim is 200 us a check.

use bench::{Bench, median, nanos};
use biscuit_auth::builder::{Algorithm, BlockBuilder};
use biscuit_auth::{Biscuit, KeyPair, PrivateKey};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use terms::book::{Caller, CallerRole, ResourceKind, VoToken};
use terms::ports::book::{Question, TokenPort};
use terms::{Span, Time, Window};
use trust::token::{HeldToken, Organisation, TokenGate, TokenGrant, TokenKey, TokenLimits};

const ROUNDS: usize = 7;
const TIMES: u32 = 200;

fn main() {
    let bench = Bench::from_args();
    if !["token_shown_us", "token_check_us", "token_check_most_us"].iter().any(|name| bench.wants(name)) {
        return;
    }
    let key = TokenKey::new();
    let organisation = Organisation {
        name: "atlas".into(),
        key: key.public(),
        domain: None,
        through: Vec::new(),
        revoked: BTreeSet::new(),
    };
    let gate = TokenGate::new("maui", vec![organisation.clone()]);
    let usual = usual(&key);
    // A gate keeps what it has read: a new one reads it for the first time.
    let shown = |gate: &TokenGate| gate.shown(black_box(&usual), "anl/alice").expect("good");
    let first = || shown(&TokenGate::new("maui", vec![organisation.clone()]));
    let usual = shown(&gate);
    let most = gate.shown(&most(&key), "anl/alice").expect("within the bounds");
    let (mut show, mut check, mut worst) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        show.push(each(|| drop(black_box(first()))));
        check.push(each(|| asked(&gate, &usual)));
        worst.push(each(|| asked(&gate, &most)));
    }
    bench.report("token_shown_us", median(&mut show), "us", ROUNDS);
    bench.report("token_check_us", median(&mut check), "us", ROUNDS);
    bench.report("token_check_most_us", median(&mut worst), "us", ROUNDS);
}

/// Microseconds of one.
fn each(mut work: impl FnMut()) -> f64 {
    nanos(|| (0..TIMES).for_each(|_| work())) / f64::from(TIMES) / 1e3
}

fn asked(gate: &TokenGate, token: &VoToken) {
    let caller = Caller {
        name: "anl/alice".into(),
        groups: Vec::new(),
        role: CallerRole::Owner,
        token: Some(Arc::new(token.clone())),
    };
    let now = Time::from_nanos(1_795_269_600 * Span::NANOS_PER_SEC);
    let question = Question {
        caller: &caller,
        resource: "net/eth1",
        label: "HEP",
        amount: 50_000_000,
        window: Window::new(now, now.saturating_add(Span::from_secs(3_600))).expect("a window"),
        length: Span::from_secs(3_600),
        now,
        background: false,
        together: 50_000_000,
        reservations: 1,
    };
    gate.check(token, black_box(&question)).expect("allowed");
}

/// A member of a group, and narrowed twice.
fn usual(key: &TokenKey) -> String {
    let grant = TokenGrant {
        vo: "atlas".into(),
        holder: "anl/alice".into(),
        groups: vec!["physics".into()],
        ..TokenGrant::default()
    };
    let network = |most| vec![(ResourceKind::Network, most)];
    let first =
        TokenLimits { resources: vec!["maui/net/*".into()], at_most: network(100_000_000), ..TokenLimits::default() };
    let second = TokenLimits { longest: Some(Span::from_secs(7_200)), at_most: network(60_000_000), ..first.clone() };
    let token = HeldToken::create(key, &grant).and_then(|token| token.attenuate(&first)?.attenuate(&second));
    token.and_then(|token| token.text()).expect("a token")
}

/// As many facts and checks as a block may have, each a join of all facts with themselves, and as many such blocks as fit.
fn most(key: &TokenKey) -> String {
    let file = std::env::temp_dir().join(format!("sluice-bench-token-{}", std::process::id()));
    key.write(&file).expect("written");
    let line = std::fs::read_to_string(&file).expect("read");
    let _ = std::fs::remove_file(&file);
    let hex = line.trim().strip_prefix("ed25519-private/").expect("a private key");
    let pair = KeyPair::from(&PrivateKey::from_bytes_hex(hex, Algorithm::Ed25519).expect("a key"));
    let number = u32::from_str_radix(&key.public().to_string()[8..16], 16).expect("hexadecimal");
    let load = |n: usize| {
        let facts: String = (0..n).map(|n| format!("a({n});")).collect();
        facts + &format!("check if a($x), a($y), $x == {0}, $y == {0};", n - 1).repeat(n)
    };
    let first = format!("vo(\"atlas\"); check if holder(\"anl/alice\");{}", load(15));
    let builder = Biscuit::builder().root_key_id(number).code(&first).expect("a block");
    let mut token = builder.build(&pair).expect("signed");
    loop {
        let block = BlockBuilder::new().code(load(8)).expect("a block");
        let next = token.append(block).expect("appended");
        if next.to_vec().expect("bytes").len() > trust::token::MAX_TOKEN || next.block_count() > 8 {
            return token.to_base64().expect("text");
        }
        token = next;
    }
}
