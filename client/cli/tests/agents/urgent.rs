//! Pre-emption (RFC 3181) and delay bounds (RFC 2212) as `sluice rsvp receive` asks for them, between real agents.

use super::interop::three;
use crate::bed::{Bed, SLUICE, expect, tspec, wait_for};
use documents::agent::{EventDoc, FlowSpecDoc, PriorityDoc, Request, SenderId, SessionId, StyleDoc};
use rpc::client::Client;
use std::process::{Command, Output};

const SRC: [u8; 4] = [10, 0, 0, 1];
const DST: [u8; 4] = [10, 0, 1, 2];
/// Two of them do not fit on 10 Mbit/s.
const RATE: u64 = 6_000_000;

fn session(port: u16) -> SessionId {
    SessionId { dst: DST.into(), protocol: 17, dst_port: port }
}

fn sender_id() -> SenderId {
    SenderId { src: SRC.into(), src_port: 5004 }
}

fn announce(bed: &Bed, port: u16) -> Client {
    let mut client = bed.client("a");
    let request = Request::Sender { session: session(port), sender: sender_id(), tspec: tspec(RATE), ttl: 64 };
    client.call(request).unwrap();
    client
}

/// `sluice rsvp receive --once`, which ends with the first answer.
fn receive(bed: &Bed, port: u16, more: &[&str]) -> Output {
    let mut command = Command::new(SLUICE);
    command.args(["rsvp", "receive", "--once", "--for", "20s", "--reserve", "same", "--session"]);
    command.arg(format!("10.0.1.2:{port}")).args(more);
    command.arg("--socket").arg(bed.home("c").join("agent.sock")).output().unwrap()
}

#[test]
fn a_more_urgent_reservation_takes_the_place_of_another() {
    let Some(bed) = Bed::of(three) else { return };
    let _senders = [5001, 5002, 5003].map(|port| announce(&bed, port));
    let mut ordinary = bed.client("c");
    let priority = Some(PriorityDoc { preempting: 1, defending: 4 });
    ordinary.call(Request::Priority { priority }).unwrap();
    ordinary.call(Request::Receiver { session: session(5001) }).unwrap();
    expect(&mut ordinary, "a path", |event| matches!(event, EventDoc::Path { .. }));
    let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(RATE) }];
    let senders = vec![sender_id()];
    let request = Request::Reserve { session: session(5001), style: StyleDoc::Ff, senders, flowspecs, confirm: true };
    ordinary.call(request).unwrap();
    expect(&mut ordinary, "held", |event| matches!(event, EventDoc::Confirm { .. }));

    // As urgent as the defence is not enough, and no priority at all is less.
    for more in [&["--priority", "4:4"][..], &[]] {
        let refused = receive(&bed, 5002, more);
        assert_eq!(refused.status.code(), Some(1), "{more:?}: {refused:?}");
        let said = String::from_utf8(refused.stdout).unwrap() + &String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("free"), "{more:?}: what was asked and what is free: {said}");
    }
    assert_eq!(bed.reservations("a").len(), 1);

    let taken = receive(&bed, 5003, &["--priority", "5:5"]);
    assert!(taken.status.success(), "{taken:?}");
    let displaced = |event: &EventDoc| matches!(event, EventDoc::Error { code: 12, .. });
    let (_, event) = expect(&mut ordinary, "pre-empted", displaced);
    let EventDoc::Error { text, .. } = event else { unreachable!() };
    assert!(text.as_deref().is_some_and(|text| text.contains("a request of preemption priority 5")), "{text:?}");
    // It went with the command, and nothing is left of either.
    wait_for("the urgent one is gone", || {
        let urgent = bed.reservations("a").iter().any(|row| row.session == session(5003));
        (!urgent).then_some(())
    });
}

/// The kernel's plane keeps no delay bound, and a hop of the path says so before anybody asks for one.
#[test]
fn a_delay_bound_that_no_hop_keeps_is_refused_in_words() {
    let Some(bed) = Bed::of(three) else { return };
    let _sender = announce(&bed, 5001);
    let refused = receive(&bed, 5001, &["--service", "guaranteed", "--delay", "20ms"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("keeps no delay bound"), "{said}");
    assert!(bed.reservations("a").is_empty());
    // Without its service the option is a mistake of the command line.
    let wrong = receive(&bed, 5001, &["--delay", "20ms"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    // A rate of one's own instead of a bound gets as far as admission.
    let rate = receive(&bed, 5001, &["--service", "guaranteed", "--service-rate", "7mbit"]);
    assert_eq!(rate.status.code(), Some(1), "{rate:?}");
}
