//! An agreement between domains on real packets: whatever a neighbour marks, what is premium of it is what is booked on
//! the agreement at this instant, also while no agent runs; and what exceeds the agreement is refused in words.

use crate::bed::{Bed, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AmountDoc, AskDoc, BackgroundDoc, ChangeDoc, Instant as At, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::Client;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use terms::{Span, Time};

/// A neighbour that lies, the border of this domain, and where its packets go.
fn border(name: &str) -> TestbedFile {
    border_with(name, "")
}

/// The same with more lines in the agreement.
fn border_with(name: &str, more: &str) -> TestbedFile {
    let text = format!(
        "name = \"{name}\"\n[[node]]\nname = \"liar\"\nkind = \"host\"\n[[node]]\nname = \"far\"\nkind = \"host\"\n\
         [[node]]\nname = \"border\"\nkind = \"router\"\nsettings = \"\"\"\n[[sla]]\npeer = \"anl\"\n\
         interface = \"to-liar\"\nrate = \"4mbit\"\nbackground = \"50%\"\nmost = \"3mbit\"\nahead = \"1h\"\n{more}\"\"\"\n\
         [[link]]\nbetween = [\"liar\", \"border\"]\nrate = \"20mbit\"\nrole = \"peer\"\n\
         [[link]]\nbetween = [\"border\", \"far\"]\nrate = \"20mbit\"\n\
         core = {{ premium = \"8mbit\", background = \"4mbit\" }}\n"
    );
    TestbedFile { keys: false, ..TestbedFile::parse(Path::new("border.toml"), &text).unwrap() }
}

/// Packets in the classes of EF and AF1x of the border's way out, as the kernel tells.
fn premium(bed: &Bed) -> [u64; 2] {
    let shown = bed.run("border", "tc", &["-s", "class", "show", "dev", "to-far"]);
    let of = |id: &str| {
        let class = shown.split("class htb ").find(|text| text.starts_with(id));
        let sent = class.and_then(|text| text.split("Sent ").nth(1));
        sent.and_then(|text| text.split(' ').nth(2)).map_or(0, |packets| packets.parse().unwrap())
    };
    [of("5c1c:5 "), of("5c1c:6 ")]
}

/// So many packets of 1,000 octets from the neighbour, about 500 a second, with this type-of-service octet. How many of
/// them were EF and AF1x behind the border, and how long it took.
fn flood(bed: &Bed, count: u32, octet: u8) -> ([u64; 2], f64) {
    let (before, began) = (premium(bed), Instant::now());
    let (count, octet) = (count.to_string(), octet.to_string());
    let mut ping = Command::new("ping");
    ping.args(["-n", "-q", "-Q", &octet, "-s", "972", "-c", &count, "-i", "0.002", "-W", "2", "10.0.1.2"]);
    // Its handle is used at exec, so it must live until then.
    let space = bed.netns("liar");
    space.enter_at_exec(&mut ping);
    // Where nothing comes back ping fails, and that is no failure here.
    let said = ping.output().unwrap();
    assert!(said.stderr.is_empty(), "{said:?}");
    let (after, took) = (premium(bed), began.elapsed().as_secs_f64());
    ([after[0] - before[0], after[1] - before[1]], took)
}

/// The most packets of 1,000 octets that a rate lets through in so many seconds, after the bucket was full.
fn most(bps: f64, seconds: f64) -> f64 {
    (bps / 8.0 * seconds + (bps / 8.0 * 0.1).max(8_192.0)) / 1_000.0
}

fn within(seen: u64, bps: f64, seconds: f64) {
    let most = most(bps, seconds);
    let seen = seen as f64;
    assert!(seen <= most + 1.0 && seen > most / 4.0, "{seen} packets in {seconds} s, {most} are booked");
}

fn part(rate: u64) -> PartDoc {
    PartDoc { resource: "sla/anl".into(), rate: Some(rate), ..PartDoc::default() }
}

fn ask(part: PartDoc) -> AskDoc {
    AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() }
}

fn reservation(client: &mut Client, request: Request) -> ReservationDoc {
    match client.call(request).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

fn in_force(client: &mut Client, handle: &str) -> ReservationDoc {
    let show = || Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() };
    wait_for("in force", || {
        let doc = reservation(client, show());
        (doc.parts[0].enforced == "in_force").then_some(doc)
    })
}

/// The neighbour's edges mark what they like: its agent is stopped, and with it the edge that would wipe the marks.
fn lying() -> Option<Bed> {
    let bed = Bed::of(border)?;
    let _ = bed.client("liar").call(Request::Stop);
    wait_for("the neighbour's edge is gone", || {
        let (seen, _) = flood(&bed, 1, 0);
        (seen == [0, 0] && Client::connect(&bed.home("liar").join("agent.sock")).is_err()).then_some(())
    });
    Some(bed)
}

const EF: u8 = 46 << 2;
const AF12: u8 = 12 << 2;

#[test]
fn a_domain_that_lies_has_what_is_booked_on_its_agreement() {
    let Some(bed) = lying() else { return };
    for octet in [EF, AF12] {
        assert_eq!(flood(&bed, 100, octet).0, [0, 0], "nothing is booked: nothing of it is premium");
    }
    let mut client = bed.client("border");
    let booked = reservation(&mut client, Request::BookCreate(ask(part(1_000_000))));
    let doc = in_force(&mut client, &booked.handle);
    let means = doc.parts[0].means.clone().unwrap();
    assert_eq!(means, "EF of all anl at the ingress of to-liar, 1000000 bit/s, bucket 12500 B");
    let (seen, took) = flood(&bed, 1_000, EF);
    within(seen[0], 1e6, took);
    assert_eq!((seen[1], flood(&bed, 100, AF12).0), (0, [0, 0]), "only EF is booked");
    let measured = wait_for("it is measured", || in_force(&mut client, &booked.handle).parts[0].measured);
    assert!(measured.refused.is_some(), "{measured:?}");

    // Twice as much, and no more than that, also while no agent runs and after one has come back.
    let amounts = vec![AmountDoc { part: 0, rate: Some(2_000_000), ..AmountDoc::default() }];
    let change = ChangeDoc { amounts, ..ChangeDoc::default() };
    reservation(&mut client, Request::BookModify { handle: booked.handle.clone(), change });
    in_force(&mut client, &booked.handle);
    let (seen, took) = flood(&bed, 1_000, EF);
    within(seen[0], 2e6, took);
    bed.kill("border");
    let (seen, took) = flood(&bed, 1_000, EF);
    within(seen[0], 2e6, took);
    bed.start("border");
    let mut client = bed.client("border");
    in_force(&mut client, &booked.handle);
    let (seen, took) = flood(&bed, 1_000, EF);
    within(seen[0], 2e6, took);

    // Background is the other service.
    let background = PartDoc { background: Some(BackgroundDoc { weight: 1, floor: 0.0 }), ..part(1_000_000) };
    assert!(client.call(Request::BookCreate(ask(background))).is_ok());
    let cancel = Request::BookCancel { handle: booked.handle.clone() };
    reservation(&mut client, cancel);
    wait_for("only background is left", || {
        let ([ef, _], _) = flood(&bed, 20, EF);
        let ([_, af], took) = flood(&bed, 500, AF12);
        (ef == 0 && af > 0 && af as f64 <= most(1e6, took) + 1.0).then_some(())
    });
}

#[test]
fn what_exceeds_an_agreement_is_refused_in_words() {
    let Some(bed) = Bed::of(border) else { return };
    let mut client = bed.client("border");
    let mut refused = |ask: AskDoc| client.call(Request::BookCreate(ask)).unwrap_err().to_string();
    let one = refused(ask(part(3_500_000)));
    assert!(one.contains("sla/anl") && one.contains("3500kbit is asked, 3mbit at once are allowed"), "{one}");
    let soon = linux::clock::Clock::start().today() + Span::from_secs(7_200);
    let later = WhenDoc { start: Some(At(soon)), end: Some(At(soon + Span::from_secs(60))), ..WhenDoc::default() };
    let late = refused(AskDoc { when: later, ..ask(part(1_000_000)) });
    assert!(late.contains("at most 1 h ahead are allowed"), "{late}");
    let bound = PartDoc { binding: Some(documents::book::BindingDoc::Pid(1)), ..part(1_000_000) };
    let bound = refused(ask(bound));
    assert!(bound.contains("leave its part unbound"), "{bound}");
    let forever = WhenDoc { end: Some(At(Time::FOREVER)), ..WhenDoc::default() };
    let mut client = bed.client("border");
    reservation(&mut client, Request::BookCreate(AskDoc { when: forever, ..ask(part(3_000_000)) }));
    let sum = client.call(Request::BookCreate(ask(part(1_000_001)))).unwrap_err().to_string();
    assert!(sum.contains("asked 1000001 bit/s, free 1000000 from"), "{sum}");
    reservation(&mut client, Request::BookCreate(ask(part(1_000_000))));
}

/// An agreement that began in the past and ends in half an hour, and one that has not begun.
#[test]
fn an_agreement_holds_in_its_time_only() {
    let now = linux::clock::Clock::start().today();
    let text = |time: Time| serde_json::to_value(At(time)).unwrap().as_str().unwrap().to_owned();
    let (past, soon) = (
        text(Time::from_nanos(now.as_nanos() - Span::from_secs(3_600).as_nanos())),
        text(now + Span::from_secs(1_800)),
    );
    let ends = format!("from = \"{past}\"\nuntil = \"{soon}\"\n");
    let Some(bed) = Bed::of(|name| border_with(name, &ends)) else { return };
    let mut client = bed.client("border");
    let kept = reservation(&mut client, Request::BookCreate(ask(part(1_000_000))));
    let long = AskDoc { when: WhenDoc::lasting(3_600.0), ..ask(part(1_000_000)) };
    let over = client.call(Request::BookCreate(long)).unwrap_err().to_string();
    assert!(over.contains("sla/anl") && over.contains("it ends after it is allowed"), "{over}");
    let longer = ChangeDoc { end: Some(At(now + Span::from_secs(3_500))), ..ChangeDoc::default() };
    let modify = Request::BookModify { handle: kept.handle.clone(), change: longer };
    let over = client.call(modify).unwrap_err().to_string();
    assert!(over.contains("it ends after it is allowed"), "{over}");
    let now = in_force(&mut client, &kept.handle);
    assert_eq!((now.version, &now.parts[0].steps), (kept.version, &kept.parts[0].steps), "nothing has changed");
    drop(bed);

    let Some(bed) = Bed::of(|name| border_with(name, &format!("from = \"{soon}\"\n"))) else { return };
    let early = bed.client("border").call(Request::BookCreate(ask(part(1_000_000)))).unwrap_err().to_string();
    assert!(early.contains("sla/anl") && early.contains("it begins before it is allowed"), "{early}");
}
