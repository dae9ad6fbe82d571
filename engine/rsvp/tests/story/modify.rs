//! A reservation changes: RFC 2205 section 2.5, RFC 2209 section 2.9. What is refused leaves what there was.

use crate::story::net::*;
use rsvp::io::{Event, Input};
use terms::{IfIndex, Rate, Span};

const R: Span = Span::from_secs(30);

fn settle(net: &mut Net) {
    net.run(Span::from_millis(30));
}

#[test]
fn three_changes_are_each_carried_to_every_hop() {
    let mut net = Net::reserved_line(R, 3);
    for mbps in [8, 1, 5] {
        net.ask(0, 3, cl(mbps));
        settle(&mut net);
        assert_eq!(net.held(), [mbps, mbps, mbps, 0]);
        assert_eq!(net.confirms(3).last().expect("confirmed").1, cl(mbps));
    }
    assert_eq!((net.resvs(), net.confirms(3).len()), (vec![1; 4], 4));
}

/// Three changes at once, before the first is installed anywhere: the last holds everywhere.
#[test]
fn changes_that_overtake_each_other_end_with_the_last() {
    let mut net = Net::reserved_line(R, 3);
    [8, 2, 6].into_iter().for_each(|mbps| net.ask(0, 3, cl(mbps)));
    settle(&mut net);
    assert_eq!(net.held(), [6, 6, 6, 0]);
    assert_eq!(net.confirms(3).last().expect("confirmed").1, cl(6));
    let tc = net.engine(1).traffic_control().next().expect("one");
    assert_eq!((tc.asked, tc.admitted, tc.installed), (cl(6), cl(6), Some(cl(6))));
}

/// Two changes are on their way to the plane: a report on the first says nothing about the second, and nothing goes
/// upstream before both are in.
#[test]
fn a_report_on_one_change_does_not_stand_for_the_next() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[1].env.silent = true;
    let (since, handle) = (net.now, net.engine(1).traffic_control().next().expect("one").handle);
    [8, 6].into_iter().for_each(|mbps| net.inject_resv(1, |m| m.flowspec = cl(mbps)));
    let installed = |net: &Net| net.engine(1).traffic_control().next().expect("one").installed;
    let upstream = |net: &Net| net.log.iter().filter(|(t, f, ..)| *t >= since && *f == 1).count();
    net.tell(1, Input::Installed { handle, result: Ok(()) });
    assert_eq!((installed(&net), upstream(&net)), (Some(cl(3)), 0));
    net.tell(1, Input::Installed { handle, result: Ok(()) });
    assert_eq!((installed(&net), upstream(&net)), (Some(cl(6)), 1));
}

/// Refreshes upstream go on while a change is on its way to the plane, and ask for what the plane has.
#[test]
fn refreshes_ask_for_what_is_installed() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[1].env.silent = true;
    net.ask(0, 3, cl(8));
    let since = net.now;
    net.run(Span::from_secs(46));
    assert!(net.log.iter().any(|(t, f, _, k)| *t > since && (*f, *k) == (1, "Resv")), "r1 has refreshed");
    assert_eq!(net.held(), [3, 8, 8, 0]);
    assert_eq!(net.engine(0).reservations().next().expect("one").flowspec, cl(3));
    net.nodes[1].env.silent = false;
    settle(&mut net);
    assert_eq!(net.held(), [8, 8, 8, 0]);
}

/// What was confirmed is no longer something to fall back from to an older request.
#[test]
fn a_confirmed_request_has_nothing_older_behind_it() {
    let mut net = Net::reserved_line(R, 3);
    net.ask(0, 3, cl(8));
    settle(&mut net);
    let mut m = net.upstream_of(3);
    m.dst = net.interface(3, 1).addresses[0];
    (m.flowspec, m.error.flags) = (cl(8), wire::iana::error::IN_PLACE);
    net.inject(3, wire::MessageType::ResvErr, &m);
    settle(&mut net);
    assert_eq!(net.held(), [0; 4], "not back to 3");
}

/// S20. An increase that the bottleneck refuses: the old reservation stays in place everywhere, also where the larger one
/// had been admitted on the way.
#[test]
fn a_refused_increase_leaves_the_old_reservation_everywhere() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[0].env.capacity.insert(IfIndex(1), Rate::from_mbps(10));
    let before = net.digests();
    net.ask(0, 3, cl(20));
    net.run(Span::from_millis(6));
    assert_eq!(net.held(), [3, 20, 20, 0], "on its way");
    settle(&mut net);
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let [error] = &net.errors(3)[..] else { panic!("one error") };
    assert_eq!((error.code, error.value, error.in_place), (1, 2, true));
    assert_eq!(error.text.as_deref(), Some("node snd interface eth1 asked 20mbit free 10mbit"));
    assert_eq!(error.flowspec, Some(cl(20)));
    assert_eq!(net.digests(), before);
    // And it lives on.
    net.run(Span::from_secs(600));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// A next hop that insists on what it cannot have keeps what it has: every refused request prolongs the old reservation
/// (RFC 2205 section 3.5), and an accepted one takes its place.
#[test]
fn who_insists_on_more_keeps_what_there_is() {
    let mut net = Net::reserved_line(R, 3);
    for node in [2, 3] {
        net.mute(node);
    }
    for _ in 0..40 {
        net.inject_resv(1, |m| m.flowspec = cl(200));
        net.run(Span::from_secs(30));
    }
    let tc = net.engine(1).traffic_control().next().expect("in place");
    assert_eq!((tc.asked, tc.admitted, tc.installed), (cl(200), cl(3), Some(cl(3))));
    // Content with what it has, it is shown as such.
    net.inject_resv(1, |_| {});
    let tc = net.engine(1).traffic_control().next().expect("in place");
    assert_eq!((tc.asked, tc.admitted), (cl(3), cl(3)));
}

/// Refused at the first hop already: nothing went further.
#[test]
fn a_refused_increase_stops_where_it_is_refused() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[2].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
    let (before, calls, since) = (net.digests(), net.nodes[1].env.calls, net.now);
    net.ask(0, 3, cl(20));
    settle(&mut net);
    assert_eq!((net.digests(), net.nodes[1].env.calls), (before, calls));
    assert_eq!((net.count("ResvErr", since), net.count("Resv", since)), (1, 2), "asked, refused, asked as before");
}

/// The sender changes its Tspec: traffic control hears of it, the reservation stays what it is.
#[test]
fn a_new_tspec_travels_down_the_path() {
    let mut net = Net::reserved_line(R, 3);
    let calls: Vec<_> = net.nodes.iter().map(|n| n.env.calls).collect();
    net.announce(0, 3, 4);
    settle(&mut net);
    assert!(net.engine(3).paths().all(|p| p.tspec == tspec(4)));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let after: Vec<_> = net.nodes.iter().map(|n| n.env.calls).collect();
    assert_eq!(after, [calls[0] + 1, calls[1] + 1, calls[2] + 1, calls[3]], "Path_Te is told once to each");
}

/// A chain of requests refused one after the other falls back to the one that was good.
#[test]
fn refusals_of_several_requests_fall_back_to_the_good_one() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[1].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
    [20, 30, 40].into_iter().for_each(|mbps| net.ask(0, 3, cl(mbps)));
    settle(&mut net);
    assert_eq!((net.held(), net.errors(3).len()), (vec![3, 3, 3, 0], 3));
    assert_eq!(net.saw(1, |e| matches!(e, Event::Refused { .. })).len(), 3);
}

/// An error about an older request strikes that one from what can be fallen back to: it is not asked again.
#[test]
fn what_was_refused_is_not_asked_again() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[1].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
    net.ask(0, 3, cl(20));
    net.run(Span::from_millis(4));
    net.ask(0, 3, cl(30));
    settle(&mut net);
    let refused: Vec<_> = net.errors(3).iter().map(|e| e.flowspec).collect();
    assert_eq!(refused, [Some(cl(20)), Some(cl(30))]);
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// A change that the plane cannot carry out undoes the reservation; nothing of it is left, and the receiver knows why.
#[test]
fn a_change_that_the_plane_cannot_make_ends_the_reservation() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[1].env.failing = Some(terms::Fault { what: "class could not be changed", code: 12 });
    net.ask(0, 3, cl(5));
    settle(&mut net);
    assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
    let [error] = &net.errors(3)[..] else { panic!("one error") };
    assert_eq!((error.code, error.value, error.in_place), (22, 12, false));
    assert_eq!(error.text.as_deref(), Some("node r1 class could not be changed (errno 12)"));
}

/// A late report about a reservation that was torn meanwhile changes nothing.
#[test]
fn a_report_after_the_tear_is_ignored() {
    let mut net = Net::reserved_line(R, 3);
    let handle = net.engine(1).traffic_control().next().expect("one").handle;
    net.release(3);
    settle(&mut net);
    let before = net.digests();
    net.tell(1, Input::Installed { handle, result: Ok(()) });
    net.tell(1, Input::Installed { handle, result: Err(terms::Fault { what: "late", code: 0 }) });
    settle(&mut net);
    assert_eq!(net.digests(), before);
}
