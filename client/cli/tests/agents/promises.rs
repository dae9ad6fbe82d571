//! Promises to brokers by a real agent, with a real journal: killed between promise and decision it comes back
//! promised; the decision, an operator's, and nobody else's, end it.

use super::rights::who::as_user;
use crate::bed::{refused, wait_for};
use crate::lone::{LICENCE, LICENCES, Lone, booked, licences};
use documents::agent::{Answer, BookAnswer, ChangeDoc, DecideDoc, PrepareDoc, PromisesDoc, Request};
use documents::book::{AmountDoc, EpochDoc, PrepareAskDoc, PromiseRows, ReservationDoc};
use documents::links::CallerDoc;
use linux::process::ProcessId;
use rpc::client::{Client, Error};
use std::os::unix::fs::PermissionsExt;

const POLICY: &str =
    "[[rule]]\nname = \"physics\"\nwho = [\"uid:0\", \"alice\"]\nresource = [\"licence/*\"]\nmost = \"50\"\n";
const EPOCH: EpochDoc = EpochDoc { number: 4, decisions: 0, nonce: 9 };

fn lone() -> Option<(Lone, ProcessId)> {
    let mut lone = Lone::new("policy = \"policy.toml\"")?;
    std::fs::write(lone.place.join("policy.toml"), POLICY).unwrap();
    let agent = lone.start();
    Some((lone, agent))
}

/// Kills it, and starts it again.
fn again(lone: &mut Lone, agent: &mut ProcessId) {
    agent.signal(9).unwrap();
    wait_for("the agent is dead", || (!agent.is_running()).then_some(()));
    *agent = lone.start();
}

/// The broker's connection, which speaks for alice.
fn broker(lone: &Lone) -> Client {
    let mut client = lone.client();
    let who = CallerDoc { name: "alice".to_owned(), groups: Vec::new(), role: "owner".to_owned(), token: None };
    client.call(Request::SpeakFor { who: Some(who) }).unwrap();
    client
}

fn transaction(n: u64) -> String {
    format!("{n:032x}")
}

fn prepare(n: u64, ask: PrepareAskDoc) -> Request {
    let coordinator = "main".to_owned();
    let (transaction, epoch) = (transaction(n), EPOCH);
    Request::BookPrepare(Box::new(PrepareDoc { transaction, member: 0, coordinator, epoch, serial: n, floor: 1, ask }))
}

fn decide(n: u64, commit: Option<u64>) -> Request {
    let coordinator = "main".to_owned();
    Request::BookDecide(DecideDoc { transaction: transaction(n), member: 0, coordinator, epoch: EPOCH, commit })
}

fn open(client: &mut Client) -> PromiseRows {
    let doc = PromisesDoc { coordinator: "main".to_owned(), epoch: EPOCH, after: None };
    match client.call(Request::BookPromises(doc)).unwrap() {
        Answer::Book(BookAnswer::Promises(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

fn show(lone: &Lone, handle: &str) -> ReservationDoc {
    booked(&mut lone.client(), Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() })
        .unwrap()
}

/// The count of a reservation's part, and the free count in its window.
fn counts(lone: &Lone, doc: &ReservationDoc) -> (f64, f64) {
    let step = show(lone, &doc.handle).parts[0].steps[0];
    let window = documents::book::WindowDoc { start: step.start, end: step.end.unwrap() };
    let rows = match lone.client().call(Request::resources(Some(window))).unwrap() {
        Answer::Book(BookAnswer::Resources(rows)) => rows,
        other => panic!("{other:?}"),
    };
    let row = rows.into_iter().find(|row| row.resource == LICENCE).unwrap();
    (step.amount, row.timeline.iter().map(|step| step.amount).fold(f64::MAX, f64::min))
}

#[test]
fn a_killed_agent_comes_back_promised_and_is_decided() {
    let Some((mut lone, mut agent)) = lone() else { return };
    let all = LICENCES as f64;
    let made = booked(&mut broker(&lone), prepare(1, PrepareAskDoc::Create(licences(5)))).unwrap();
    let promise = made.promise.clone().unwrap();
    assert_eq!((made.state.as_str(), made.owner.as_str()), ("promised", "alice"));
    assert_eq!((promise.transaction, promise.coordinator.as_str()), (transaction(1), "main"));
    again(&mut lone, &mut agent);
    assert_eq!(show(&lone, &made.handle).state, "promised");
    assert_eq!(counts(&lone, &made), (5.0, all - 5.0));
    let rows = open(&mut broker(&lone));
    assert_eq!(
        rows.rows.iter().map(|row| (row.transaction.clone(), row.epoch)).collect::<Vec<_>>(),
        [(transaction(1), 4)]
    );
    assert!(rows.clock_ns.abs_diff(promise.clock_ns) < 600_000_000_000);
    // The same question again, after the crash, has the same answer.
    assert_eq!(booked(&mut broker(&lone), prepare(1, PrepareAskDoc::Create(licences(5)))).unwrap().handle, made.handle);
    let kept = booked(&mut broker(&lone), decide(1, Some(1))).unwrap();
    assert_eq!((kept.handle, kept.state, kept.promise), (made.handle.clone(), "booked".to_owned(), None));
    again(&mut lone, &mut agent);
    assert_eq!(show(&lone, &made.handle).state, "booked");

    // A change: the greater of old and new counts, over a crash too, until it is aborted.
    let amounts = vec![AmountDoc { count: Some(9), ..AmountDoc::default() }];
    let change = ChangeDoc { amounts, ..ChangeDoc::default() };
    let more = PrepareAskDoc::Modify { handle: made.handle.clone(), change };
    booked(&mut broker(&lone), prepare(2, more)).unwrap();
    assert_eq!(counts(&lone, &made), (5.0, all - 9.0));
    let problem = refused(broker(&lone).call(Request::BookCancel { handle: made.handle.clone() }));
    assert_eq!(problem.refusal.unwrap().reason, "undecided");
    again(&mut lone, &mut agent);
    assert_eq!(counts(&lone, &made), (5.0, all - 9.0));
    booked(&mut broker(&lone), decide(2, None)).unwrap();
    again(&mut lone, &mut agent);
    assert_eq!(counts(&lone, &made), (5.0, all - 5.0));
    assert!(open(&mut broker(&lone)).rows.is_empty());
    // What was decided and acknowledged is acknowledged again, also by an agent that was killed meanwhile.
    assert!(matches!(broker(&lone).call(decide(2, None)), Ok(Answer::Book(BookAnswer::Nothing))));
    booked(&mut broker(&lone), Request::BookCancel { handle: made.handle }).unwrap();
}

#[test]
fn an_operator_resolves_what_no_broker_decides() {
    let Some((mut lone, mut agent)) = lone() else { return };
    let made = |n| booked(&mut broker(&lone), prepare(n, PrepareAskDoc::Create(licences(5)))).unwrap().handle;
    let (one, two) = (made(1), made(2));
    let listed = lone.printed(&["list", "--state", "promised", "--json"]);
    assert!(listed.contains(&one) && listed.contains(&two), "{listed}");
    let problem = refused(broker(&lone).call(Request::BookResolve { handle: one.clone(), commit: true }));
    assert!(problem.message.contains("operators"), "alice is none: {}", problem.message);
    assert!(!lone.sluice(&["resolve", &one]).status.success(), "which?");
    assert_eq!(lone.printed(&["resolve", &one, "--commit"]), format!("{one}  booked\n"));
    let json: serde_json::Value = serde_json::from_str(&lone.printed(&["resolve", &two, "--abort", "--json"])).unwrap();
    assert_eq!((json["handle"].as_str(), json["state"].as_str()), (Some(two.as_str()), Some("cancelled")));
    let again_said = lone.sluice(&["resolve", &two, "--abort"]);
    assert!(String::from_utf8_lossy(&again_said.stderr).contains("nothing of it is promised"));
    let audit = lone.printed(&["audit", "--json"]);
    assert_eq!(audit.matches(r#""verb":"resolve""#).count(), 2, "{audit}");
    // The broker comes back after all, to an agent that has been killed meanwhile, and says otherwise.
    again(&mut lone, &mut agent);
    booked(&mut broker(&lone), decide(1, None)).unwrap();
    booked(&mut broker(&lone), decide(2, None)).unwrap();
    assert!(lone.log().contains("event=contradicted"), "{}", lone.log());
    assert!(lone.printed(&["list", &one]).contains("contradicted"));
    assert!(!lone.printed(&["list", &two]).contains("contradicted"), "both have dropped it");
}

#[test]
fn strangers_and_older_starts_are_refused() {
    let Some((lone, _)) = lone() else { return };
    let made = booked(&mut broker(&lone), prepare(1, PrepareAskDoc::Create(licences(5)))).unwrap();
    // A user of this machine coordinates nothing, decides nothing, and is told of no promise.
    for path in [lone.place.join("."), lone.socket()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let socket = lone.socket();
    let said: Vec<Result<Answer, Error>> = as_user(65_533, &[], move || {
        let mut client = Client::connect(&socket).unwrap();
        let doc = PromisesDoc { coordinator: "main".to_owned(), epoch: EPOCH, after: None };
        let ask = PrepareAskDoc::Create(licences(1));
        [prepare(3, ask), decide(1, None), Request::BookPromises(doc)].map(|request| client.call(request)).into()
    });
    for said in said {
        assert_eq!(refused(said).kind, "refused");
    }
    // Whom no rule allows it has no promise either, and what makes no sense is said so.
    let problem = refused(broker(&lone).call(prepare(3, PrepareAskDoc::Create(licences(51)))));
    assert_eq!(problem.refusal.unwrap().reason, "policy");
    let mut held = licences(1);
    held.hold_s = Some(3.0);
    assert!(refused(broker(&lone).call(prepare(3, PrepareAskDoc::Create(held)))).message.contains("hold_s"));
    // An older start of the same broker is told which newer one is known.
    let Request::BookDecide(mut doc) = decide(1, None) else { unreachable!() };
    doc.epoch.number = 3;
    let refusal = refused(broker(&lone).call(Request::BookDecide(doc))).refusal.unwrap();
    assert_eq!((refusal.reason.as_str(), refusal.known), ("outdated", Some(EPOCH)));
    assert_eq!(show(&lone, &made.handle).state, "promised");
}
