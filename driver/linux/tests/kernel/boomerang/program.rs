//! What the program does with single messages.

use super::bed::{Say, bed, granted, refused};
use crate::scratch::in_netns;
use linux::boomerang::{DROP, PASS, Reason};
use terms::Rate;
use wire::boomerang::{Hops, Opt, Rates, Selector, TravelDirection};

const MBIT: u32 = 1_000_000;

#[test]
fn a_request_and_its_reply_reserve_both_ways_and_a_refresh_changes_nothing_but_the_expiry() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        for family in [Say::flow(1, 3 * MBIT, MBIT), Say::flow(1, 3 * MBIT, MBIT).v6()] {
            assert_eq!(bed.heard(&family), granted(3 * MBIT, MBIT));
            assert_eq!(bed.path.free(bed.east), Rate::from_mbps(7), "forward, where the request leaves");
            assert_eq!(bed.heard(&family.clone().reply()), granted(3 * MBIT, MBIT));
            assert_eq!(bed.path.free(bed.west), Rate::from_mbps(9), "reverse, where the reply leaves");
            let sessions = bed.sessions();
            assert_eq!(sessions.len(), 2);
            let forward = sessions.iter().find(|s| s.oif == bed.east).expect("forward");
            assert_eq!((forward.flow, forward.rate), (family.flow, Rate::from_mbps(3)));
            let reverse = sessions.iter().find(|s| s.oif == bed.west).expect("reverse");
            assert_eq!((reverse.flow.src, reverse.flow.dst_port), (family.flow.dst, family.flow.src_port));
            let again = family.clone().transaction(2);
            assert_eq!(bed.heard(&again), granted(3 * MBIT, MBIT));
            assert_eq!(bed.heard(&again.reply()), granted(3 * MBIT, MBIT));
            assert_eq!(bed.sessions().len(), 2);
            assert_eq!(bed.path.free(bed.east), Rate::from_mbps(7));
            let away = Say { rates: vec![Rates::default()], ..family.transaction(3) };
            assert_eq!(bed.heard(&away), granted(0, 0));
            assert_eq!(bed.heard(&away.reply()), granted(0, 0));
            assert_eq!((bed.sessions().len(), bed.path.free(bed.east)), (0, Rate::from_mbps(10)));
            assert_eq!(bed.path.free(bed.west), Rate::from_mbps(10));
        }
        assert!(bed.path.next_told().is_none());
        let counts = bed.path.counts().expect("counts");
        assert_eq!((counts.made, counts.refreshed, counts.released), (4, 4, 4));
    });
}

#[test]
fn what_does_not_fit_is_refused_with_what_is_there_and_nothing_changes() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        assert_eq!(bed.heard(&Say::flow(1, 7 * MBIT, 0)), granted(7 * MBIT, 0));
        assert_eq!(bed.heard(&Say::flow(2, 4 * MBIT, 5)), refused(3 * MBIT, 5));
        assert_eq!(bed.heard(&Say::flow(1, 11 * MBIT, 0).transaction(2)), refused(10 * MBIT, 0), "it holds 7 itself");
        assert_eq!(bed.heard(&Say::flow(3, 4 * MBIT, 0).nack()), refused(3 * MBIT, 0), "refused before, lowered only");
        assert_eq!(bed.heard(&Say::flow(3, MBIT, 0).nack()), refused(MBIT, 0));
        assert_eq!((bed.sessions().len(), bed.path.free(bed.east)), (1, Rate::from_mbps(3)));
        // The ledger has more: not ours to refuse.
        bed.path.set_room(bed.east, Rate::from_mbps(1));
        assert_eq!(bed.hear(&Say::flow(2, 4 * MBIT, 5)).verdict, DROP);
        let told = bed.path.next_told().expect("told");
        assert_eq!(
            (told.iif, told.reason, told.packet),
            (bed.west, Reason::Exhausted, Say::flow(2, 4 * MBIT, 5).packet())
        );
        bed.path.grow(bed.east, Rate::from_mbps(1), super::bed::CLASS).expect("grows");
        bed.path.set_room(bed.east, Rate::ZERO);
        assert_eq!(bed.heard(&Say::flow(2, 4 * MBIT, 5)), granted(4 * MBIT, 5));
        assert_eq!(bed.path.shrink(bed.east, Rate::from_mbps(1)), Rate::ZERO, "nothing is free");
    });
}

#[test]
fn a_reply_that_failed_takes_back_what_its_request_made_or_raised() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        assert_eq!(bed.heard(&Say::flow(1, 3 * MBIT, 0)), granted(3 * MBIT, 0));
        let raised = Say::flow(1, 5 * MBIT, 0).transaction(2);
        assert_eq!(bed.heard(&raised), granted(5 * MBIT, 0));
        let other = raised.clone().transaction(9).reply().nack();
        assert_eq!(bed.heard(&other), refused(5 * MBIT, 0));
        assert_eq!(bed.path.free(bed.east), Rate::from_mbps(5), "another transaction's failure");
        assert_eq!(bed.heard(&raised.reply().nack()), refused(5 * MBIT, 0));
        assert_eq!(bed.path.free(bed.east), Rate::from_mbps(7), "as before it was raised");
        let made = Say::flow(2, MBIT, 0).transaction(4);
        assert_eq!(bed.heard(&made), granted(MBIT, 0));
        assert_eq!(bed.heard(&made.reply().nack()), refused(MBIT, 0));
        assert_eq!((bed.sessions().len(), bed.path.free(bed.east)), (1, Rate::from_mbps(7)));
    });
}

#[test]
fn what_is_not_decided_in_the_kernel_is_told_whole_and_what_is_no_message_passes_untouched() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        let plain = Say::flow(1, MBIT, 0);
        let wider = Selector { src_port: 0, ..Selector::exact(wire::boomerang::Family::V4) };
        let rare = [
            Say { mask: Some(wider), ..plain.clone() },
            Say { flags: 2, ..plain.clone() },
            Say { rates: vec![Rates { forward: 2, reverse: 1 }, Rates { forward: 1, reverse: 1 }], ..plain.clone() },
            plain.clone().options(&[Opt::Uid(wire::boomerang::Uid { user: 1, credential: 2 })]),
            Say { flow: terms::FlowKey { dst: [224, 1, 1, 1].into(), ..plain.flow }, ..plain.clone() },
        ];
        for say in &rare {
            assert_eq!(bed.hear(say).verdict, DROP, "{say:?}");
            let told = bed.path.next_told().expect("told");
            assert_eq!((told.iif, told.reason, &told.packet), (bed.west, Reason::Rare, &say.packet()));
        }
        let nowhere = Say { flow: terms::FlowKey { dst: [10, 99, 0, 1].into(), ..plain.flow }, ..plain.clone() };
        assert_eq!(bed.hear(&nowhere).verdict, DROP);
        assert_eq!(bed.path.next_told().expect("told").reason, Reason::NoWay);
        assert_eq!(bed.hear(&Say::flow(5, 0, MBIT).reply()).verdict, DROP);
        assert_eq!(bed.path.next_told().expect("told").reason, Reason::Stranger);
        let mut wrong = plain.frame();
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        let mut ping = plain.frame();
        ping[14 + 24 + 8] ^= 1;
        let dying = Say { ttl: 1, ..plain.clone() }.frame();
        for frame in [wrong, ping, dying] {
            let ran = bed.path.run(&frame, bed.west).expect("test run");
            assert_eq!((ran.verdict, &ran.packet), (PASS, &frame));
        }
        bed.path.listen(bed.west, false).expect("a small number");
        assert_eq!(bed.hear(&plain).verdict, PASS, "nobody listens there");
        assert!(bed.path.next_told().is_none() && bed.sessions().is_empty());
    });
}

#[test]
fn hops_are_counted_and_a_long_refresh_is_shortened() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        for say in [Say::flow(1, MBIT, MBIT), Say::flow(1, MBIT, MBIT).v6()] {
            let say = Say { refresh: 200, ..say }.options(&[Opt::Hops(Hops { forward: 4, reverse: 65_535 })]);
            for (leg, counted) in [(TravelDirection::Request, [5, 65_535]), (TravelDirection::Reply, [4, 65_535])] {
                let say = Say { leg, ..say.clone() };
                assert_eq!(bed.heard(&say).refresh, 60);
                let ran = bed.hear(&say);
                let probe = wire::boomerang::ProbePacket::parse(&ran.packet[14..]).expect("a message");
                let hops = probe.message.options().find_map(|(_, option)| match option {
                    Opt::Hops(hops) => Some([hops.forward, hops.reverse]),
                    _ => None,
                });
                assert_eq!(hops, Some(counted));
            }
        }
        // 3.5 times 60 s, and not a tick too early.
        let ticks = 210_000_000_000_u64 >> 26;
        assert!(bed.sessions().iter().all(|s| (ticks..ticks + 2).contains(&s.left)), "{:?}", bed.sessions());
    });
}

#[test]
fn the_sweep_takes_out_what_is_over_and_gives_it_back() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        for n in 0..10 {
            let refresh = if n < 5 { 1 } else { 30 };
            assert_eq!(bed.hear(&Say { refresh, ..Say::flow(n, MBIT, 0) }).verdict, linux::boomerang::REDIRECT);
        }
        assert_eq!(bed.path.free(bed.east), Rate::ZERO);
        let tick = bed.tick();
        assert!(bed.path.sweep(tick, 64).is_empty());
        let later = tick + (3_600_000_000 >> 26) + 2;
        let over = bed.path.sweep(later, 64);
        assert_eq!(over.len(), 5);
        assert!(over.iter().all(|expired| expired.session.rate == Rate::from_mbps(1)));
        assert_eq!(bed.path.free(bed.east), Rate::from_mbps(5));
        assert_eq!(bed.sessions().len(), 5);
        assert_eq!(bed.path.reclaim(bed.east).expect("counts"), Rate::from_mbps(10));
    });
}

#[test]
fn the_form_for_traffic_control_does_the_same() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        let say = Say::flow(1, 3 * MBIT, MBIT);
        let ran = bed.path.run_ingress(&say.frame(), bed.west).expect("test run");
        assert_eq!(ran.verdict, 7, "TC_ACT_REDIRECT");
        assert_eq!(bed.path.free(bed.east), Rate::from_mbps(7));
        let other = bed.hear(&say);
        assert_eq!(ran.packet, other.packet);
        let more = Say { flags: 2, ..say };
        assert_eq!(bed.path.run_ingress(&more.frame(), bed.west).expect("test run").verdict, 2, "TC_ACT_SHOT");
    });
}

#[test]
fn what_an_agent_of_another_layout_left_makes_room() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        assert_eq!(bed.hear(&Say::flow(1, MBIT, 0)).verdict, linux::boomerang::REDIRECT);
        let pins = bed.dir().join("bpf");
        std::fs::create_dir(pins.join("boomerang_v1")).expect("a directory");
        for file in std::fs::read_dir(pins.join("boomerang_v2")).expect("pinned").flatten() {
            std::fs::rename(file.path(), pins.join("boomerang_v1").join(file.file_name())).expect("renamed");
        }
        let next = super::bed::open_in(bed.dir(), 64);
        assert!(!pins.join("boomerang_v1").exists() && next.total().0 == 0, "it begins with an empty table");
        next.attach(bed.west, linux::boomerang::Hanging::Native).expect("nothing of the other hangs there");
    });
}

/// The request leaves a session with nothing in it, by which its reply is known.
#[test]
fn a_request_for_the_way_back_alone_makes_its_reply_known() {
    in_netns(|| {
        let mut bed = bed(64, Rate::from_mbps(10));
        for say in [Say::flow(1, 0, MBIT), Say::flow(1, 0, MBIT).v6()] {
            for transaction in [1, 2] {
                let say = say.clone().transaction(transaction);
                assert_eq!(bed.heard(&say), granted(0, MBIT));
                assert_eq!(bed.heard(&say.reply()), granted(0, MBIT));
                assert_eq!(
                    (bed.path.free(bed.east), bed.path.free(bed.west)),
                    (Rate::from_mbps(10), Rate::from_mbps(9))
                );
            }
            let away = Say { rates: vec![Rates::default()], ..say.transaction(3) };
            assert_eq!(bed.heard(&away), granted(0, 0));
            assert_eq!(bed.heard(&away.reply()), granted(0, 0));
            assert!(bed.sessions().is_empty());
        }
        assert!(bed.path.next_told().is_none(), "nobody is a stranger");
    });
}
