//! Floods from strangers, of every class: what is established lives on, and nobody fills another's place.

use super::*;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use rsvp::io::{AppCall, AppId};

/// Floods of every class from a link without keys, faster than the node works: nobody that is established is lost, and
/// every refresh that the kernel had room for was served. (In strict order the first three end all that is there.)
#[test]
fn a_flood_of_any_class_ends_nothing() {
    const FLOODS: Span = Span::from_secs(14);
    let spoofed = |kind: MessageType, n: u64| -> Datagram {
        let src = IpAddr::from([10, 0, 1, 2 + (n % 200) as u8]);
        (1, src, [10, 0, 1, 1].into(), 63, Builder::new(kind, 63).finish().unwrap())
    };
    let changed = |n: u64| {
        let mut changed = path((n % u64::from(ESTABLISHED)) as u32);
        changed.3 = 62 - (n % 50) as u8;
        changed
    };
    type Flood<'a> = Box<dyn Fn(u64) -> Datagram + 'a>;
    let of = |kind| Box::new(move |n| spoofed(kind, n)) as Flood<'_>;
    let floods: [(&str, Flood<'_>); 12] = [
        ("Hello", of(MessageType::Hello)),
        ("Ack", of(MessageType::Ack)),
        ("PathTear", of(MessageType::PathTear)),
        ("ResvTear", of(MessageType::ResvTear)),
        ("PathErr", of(MessageType::PathErr)),
        ("Srefresh", of(MessageType::Srefresh)),
        ("Bundle", of(MessageType::Bundle)),
        ("challenges", of(MessageType::IntegrityChallenge)),
        ("changes of what is there", Box::new(changed)),
        ("copies of refreshes", Box::new(|n| path((n % 8) as u32))),
        ("Resvs for nobody", Box::new(|n| resv(ESTABLISHED + n as u32 % 100_000))),
        ("garbage", Box::new(|n| (1, [10, 0, 1, 2].into(), [10, 0, 1, 1].into(), 63, vec![n as u8; 40]))),
    ];
    for (name, flood) in floods {
        let (_, lost, node) = flooded(true, FLOODS, 12_000, flood);
        assert_eq!(lost, 0, "established state died of a flood: {name}");
        let refreshes = node.intake.as_ref().unwrap().counted(IntakeClass::Refresh);
        let due = u64::from(ESTABLISHED) * 2 * (FLOODS.as_nanos() / R.as_nanos());
        assert!(refreshes.taken + 300 >= due, "{name}: {refreshes:?} of {due}");
    }
}

/// The same while every Path of what is established differs from the one before, as those do whose Adspec follows what else
/// is booked: a change has no copy to be known by. It waits with what is about reserved sessions, and what a stranger says
/// of others, whatever its type, does not wait there.
#[test]
fn what_changes_all_the_time_lives_through_a_flood_as_well() {
    const FLOODS: Span = Span::from_secs(14);
    let changing = |n: u32, round: u64| {
        let mut changing = path(n);
        changing.3 = 63 - (round % 2) as u8;
        changing
    };
    let of_strangers = |kind| move |n: u64| about(kind, ESTABLISHED + n as u32 % 100_000);
    for kind in [
        MessageType::PathErr,
        MessageType::ResvErr,
        MessageType::ResvConf,
        MessageType::PathTear,
        MessageType::ResvTear,
    ] {
        let (_, lost, _) = flooded_while(true, FLOODS, 12_000, changing, of_strangers(kind));
        assert_eq!(lost, 0, "established state died of a flood of {kind:?}");
    }
    for kind in [MessageType::Srefresh, MessageType::Bundle] {
        let (_, lost, _) = flooded_while(true, FLOODS, 12_000, changing, |_| bare(kind));
        assert_eq!(lost, 0, "established state died of a flood of {kind:?}");
    }
}

/// New senders are let go where there are as many without a reservation as may be; who has one still gets more senders.
#[test]
fn senders_without_a_reservation_are_so_many_and_no_more() {
    let mut node = Node::new(true);
    node.engine = Rsvp::new(Config { refresh: R, max_unreserved: 10, ..Config::default() }, 5);
    for n in [1, 2] {
        let addresses = vec![IpAddr::from([10, 0, n as u8, 1])];
        let state = Interface { name: format!("if{n}"), addresses, mtu: 1500, enabled: true };
        node.tell(Input::Interface { interface: IfIndex(n), state: Some(state) });
    }
    node.message(&path(1));
    node.message(&resv(1));
    (2..100).for_each(|n| node.message(&path(n)));
    assert_eq!(node.created, 11, "ten and the one that has a reservation");
    let mut other = path(1);
    let template = SenderTemplate { src: [10, 8, 0, 2].into(), src_port: 9 };
    let build = Builder::new(MessageType::Path, 63).session(&session(1));
    let build = build.hop(&RsvpHop { addr: [10, 0, 1, 3].into(), lih: 7 }).time_values(R);
    other.4 = build.sender_template(&template.into()).sender_tspec(&tspec()).finish().unwrap();
    node.message(&other);
    assert_eq!(node.created, 12, "another sender of a session with a reservation");
    let waited = Span::from_secs(60);
    node.now = node.now + waited;
    while node.engine.wake_at().is_some_and(|at| at <= node.now) {
        node.tell(Input::Wake);
    }
    node.message(&path(200));
    assert_eq!(node.created, 13, "when they have gone there is room again");
}

/// No class fills the places of another, and no copy of a refresh takes one.
#[test]
fn each_class_has_its_own_room_and_a_refresh_waits_once() {
    let (mut node, _) = small();
    (2..40).for_each(|n| node.message(&path(n)));
    let mut intake = Intake::new(Limits { known: 64, new: 8, bytes: 64_000 }, 7);
    let kinds = [MessageType::Hello, MessageType::PathTear, MessageType::PathErr, MessageType::IntegrityChallenge];
    for kind in kinds {
        for n in 0..1_000_u32 {
            let [.., a, b] = n.to_be_bytes();
            let mut bytes = bare(kind);
            (bytes.1, bytes.4) = (IpAddr::from([10, 9, a, b]), vec![0; 1_000]);
            bytes.4[..8].copy_from_slice(&[0x10, kind.number(), 0, 0, 63, 0, 3, 232]);
            offer(&mut intake, &mut node, &bytes);
        }
    }
    (1_000..3_000)
        .for_each(|n| assert!(n > 1_100 || offered(&mut intake, &mut node, &path(n)) != IntakeOutcome::Already));
    for n in 1..40 {
        assert!(offer(&mut intake, &mut node, &path(n)), "the refresh of {n} finds room");
        assert_eq!(offered(&mut intake, &mut node, &path(n)), IntakeOutcome::Already, "its copy none");
    }
    let mut served = 0;
    while let Some(waiting) = intake.take() {
        served += usize::from(waiting.class() == IntakeClass::Refresh);
        intake.give_back(waiting, Span::from_micros(10));
    }
    assert_eq!(served, 39);
    assert!(offer(&mut intake, &mut node, &path(1)), "when it has been served it may come again");
}

/// Somebody writes a neighbour's address until its half is full: what the neighbour says for others still comes in.
#[test]
fn a_half_that_was_filled_under_a_neighbours_name() {
    let (mut node, _) = small();
    let mut intake = Intake::new(Limits { known: 64, new: 64, bytes: 1 << 20 }, 7);
    let taken = (0..1_000).filter(|n| offer(&mut intake, &mut node, &path(8 + 8 * n))).count();
    assert_eq!(taken, 32, "one source, one hop");
    let other = |n: u32| {
        let mut other = path(8 * n);
        other.1 = [10, 8, 1, n as u8].into();
        other
    };
    assert!((1..=8).all(|n| offer(&mut intake, &mut node, &other(n))), "other senders behind the same hop");
    let more = (9..200).filter(|n| offer(&mut intake, &mut node, &other(*n))).count();
    assert_eq!(more, 8, "and a quarter is left for other neighbours");
    assert!((0..16).all(|n| offer(&mut intake, &mut node, &path(9 + 8 * n))), "which they find");
}

/// Keys on an interface: what is not signed by its neighbour never waits, and what was heard does not wait again.
#[test]
fn a_stranger_takes_no_place_where_keys_are_wanted() {
    let key = |secret| IntegrityKey::new(7, Algorithm::HmacSha256, secret);
    let table = |secret| {
        let mut table = KeyTable::new(vec![key(secret)]).unwrap();
        table.handshake = false;
        AuthMode::Keys(table)
    };
    let says = |secret, n: u32| {
        // The neighbour behind interface 1, who signs.
        let mut engine = Rsvp::new(Config { refresh: R, auth: table(secret), ..Config::default() }, 5);
        let mut world = World(0, 9);
        let state =
            Interface { name: "up".to_owned(), addresses: vec![[10, 0, 9, 1].into()], mtu: 1500, enabled: true };
        engine.handle(Time::ZERO, &mut world, Input::Interface { interface: IfIndex(9), state: Some(state) });
        while engine.poll().is_some() {}
        engine.handle(Time::ZERO, &mut world, Input::SequencesReserved { from: u64::from(n) * 100, upto: 1 << 40 });
        let (app, template) = (AppId(1), SenderTemplate { src: [10, 0, 9, 1].into(), src_port: 9 });
        let call = AppCall::Sender { app, session: session(n), template, tspec: tspec(), ttl: 63 };
        while engine.poll().is_some() {}
        engine.handle(Time::ZERO, &mut world, Input::App(call));
        while let Some(output) = engine.poll() {
            if let Output::Send(d) = output {
                return (1, d.src, d.dst, d.ttl, d.bytes);
            }
        }
        panic!("nothing was sent")
    };
    let mut node = Node::new(true);
    node.tell(Input::Auth { interface: IfIndex(1), auth: table(b"ours") });
    let mut intake = Intake::new(Limits::default(), 7);
    let mut flood: Vec<Datagram> = (0..=255)
        .filter_map(MessageType::from_number)
        .filter(|kind| *kind != MessageType::IntegrityChallenge)
        .map(bare)
        .collect();
    flood.push(path(3));
    flood.push(says(b"theirs", 3));
    let mut spoilt = says(b"ours", 3);
    *spoilt.4.last_mut().unwrap() ^= 1;
    flood.push(spoilt);
    for datagram in &flood {
        assert!(matches!(offered(&mut intake, &mut node, datagram), IntakeOutcome::Refused(_)), "{:02x?}", datagram.4);
    }
    assert!(intake.is_empty());
    let genuine = says(b"ours", 3);
    assert_eq!(offered(&mut intake, &mut node, &genuine), IntakeOutcome::Waits);
    let waiting = intake.take().unwrap();
    node.tell(Input::Waited(&waiting));
    assert_eq!(node.created, 1, "and is taken in");
    assert!(matches!(offered(&mut intake, &mut node, &genuine), IntakeOutcome::Refused(_)), "heard before");
    // Classes overtake one another by more than the window of numbers: each number was taken when it came.
    for n in [4, 5] {
        assert_eq!(offered(&mut intake, &mut node, &says(b"ours", n)), IntakeOutcome::Waits);
    }
    let (first, second) = (intake.take().unwrap(), intake.take().unwrap());
    node.tell(Input::Waited(&second));
    node.tell(Input::Waited(&first));
    assert_eq!(node.created, 3, "neither is stale for having waited");
    let next = says(b"ours", 6);
    assert_eq!(offered(&mut intake, &mut node, &next), IntakeOutcome::Waits);
    // The keys change while it waits.
    node.tell(Input::Auth { interface: IfIndex(1), auth: table(b"other") });
    let waiting = intake.take().unwrap();
    node.tell(Input::Waited(&waiting));
    assert_eq!(node.created, 3, "what the old key proved is proved by the new one, or not at all");
}
