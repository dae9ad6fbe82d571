//! The kernel plane: what is told is there, what is refused leaves no trace, what others own is left alone.

use crate::bed::{Bed, base, bed, entry, flow_op, key, link_spec, plan_of, spec};
use crate::scratch;
use linux::bpf::Hook;
use linux::netlink::tc::TcHandle;
use linux::netlink::tc::class::{ClassKind, HtbClass};
use linux::netlink::tc::hfsc::{HfscClass, TcCurve};
use linux::netlink::tc::qdisc::Discipline;
use linux::plane::compile;
use linux::plane::{FaultInjection, KernelPlane, PlaneDrift, has_hfsc};
use std::process::Command;
use terms::{Bytes, IfIndex, Rate, ServiceCurve, Span};
use traffic::plan::{ClassId, ClassSpec, LinkSpec, Plan, PlanOp, QueueSpec};
use traffic::scheduler::SchedulerKind;

const OWN: ClassId = ClassId::FIRST_OWN;

#[test]
fn the_kernel_has_what_was_told() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        assert_eq!(plane.read(), Ok(Plan::default()));
        let mut ops = bed.base(3_300);
        ops.extend([bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000), bed.class(OWN, 0, 1), bed.flow(2, OWN, 100)]);
        plane.apply(&ops).expect("fits");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        let (classes, qdiscs) = bed.shown();
        let rates: Vec<(u16, u64, u64)> = classes
            .iter()
            .filter_map(|c| {
                let (kind, minor) = (c.kind?, c.handle.minor());
                let most = compile::most(&kind);
                let guaranteed = if minor == ClassId::LINK.0 { most } else { compile::guaranteed(&kind) };
                Some((minor, guaranteed * 8, most * 8))
            })
            .collect();
        let all = 10_000_000;
        let wanted = [(1, all, all), (2, 6_500_000, all), (3, 200_000, all), (4, 3_300_000, all), (16, 8, all)];
        assert_eq!(rates, wanted);
        let qdiscs = qdiscs.iter().filter(|qdisc| qdisc.discipline != Discipline::Clsact);
        assert_eq!(qdiscs.count(), 1 + 4, "the root and a queue for each class");
        // Told again, nothing is written.
        plane.rig(FaultInjection::DieAfter(0));
        assert_eq!(plane.apply(&ops), Ok(()));
    });
}

#[test]
fn changes_are_made_in_place_and_by_difference() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        let mut change = vec![
            bed.class(ClassId::BEST_EFFORT, 4_000, 7),
            bed.class(ClassId::CONTROLLED_LOAD, 5_800, 2),
            bed.flow(1, ClassId::CONTROLLED_LOAD, 5_000),
        ];
        plane.apply(&change).expect("fits");
        // Another kind of queue, another limit of it, and a link of another rate: ceilings follow.
        for (packets, bytes) in [(100, 9_000), (100, 10_000), (7, 1 << 20)] {
            let queue = QueueSpec { packets, bytes: Bytes::new(bytes) };
            let class = ClassSpec { queue, ..spec(5_800, 2) };
            change.push(PlanOp::Class { oif: bed.oif, class: ClassId::CONTROLLED_LOAD, spec: class });
            plane.apply(&change).expect("fits");
            ops.append(&mut change);
            assert_eq!(plane.read(), Ok(plan_of(&ops)));
        }
        let faster = LinkSpec { rate: Rate::from_mbps(100), ..link_spec() };
        ops.push(PlanOp::Link { oif: bed.oif, spec: faster });
        plane.apply(&ops).expect("fits");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        // Frames of another length: HTB keeps the first quantum of a class with children.
        let longer = LinkSpec { mtu: 1_400, overhead: 38, ..faster };
        ops.push(PlanOp::Link { oif: bed.oif, spec: longer });
        plane.apply(&ops[ops.len() - 1..]).expect("fits");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        let slower = PlanOp::Link { oif: bed.oif, spec: LinkSpec { rate: Rate::from_mbps(9), ..link_spec() } };
        assert!(plane.apply(&[slower]).is_err(), "its classes would sum over it");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        let gone = [bed.drop_flow(1), PlanOp::DropClass { oif: bed.oif, class: ClassId::CONTROLLED_LOAD }];
        plane.apply(&gone).expect("goes");
        plane.apply(&gone).expect("twice is once");
        ops.extend(gone);
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
    });
}

#[test]
fn the_default_comes_back() {
    for hook in [Hook::Best, Hook::Clsact] {
        scratch::in_netns(move || {
            let mut bed = bed();
            let before = bed.shown();
            assert_eq!(before.1[0].handle, TcHandle::NONE, "the kernel's default");
            let mut plane = bed.open_by(hook);
            let mut ops = bed.base(1_000);
            ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 900));
            plane.apply(&ops).expect("fits");
            assert_ne!(bed.shown(), before);
            plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
            assert_eq!(bed.shown(), before);
            assert_eq!(plane.read(), Ok(Plan::default()));
            drop(plane);
            let mut plane = bed.open_by(hook);
            assert_eq!(plane.read(), Ok(Plan::default()), "no flow is left in the map either");
            plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("twice is once");
        });
    }
}

#[test]
fn a_clsact_of_others_stays_theirs() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let theirs = Discipline::Clsact;
        bed.socket.add_qdisc(bed.oif, TcHandle::new(0xffff, 0), TcHandle::CLSACT, &theirs).expect("clsact");
        let before = bed.shown();
        let mut plane = bed.open_by(Hook::Clsact);
        plane.apply(&bed.base(1_000)).expect("fits");
        assert_eq!(bed.socket.filters(bed.oif, TcHandle::EGRESS).expect("filters").len(), 1);
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        assert_eq!(bed.shown(), before);
        assert_eq!(bed.socket.filters(bed.oif, TcHandle::EGRESS), Ok(vec![]));
        // One with a filter of theirs in it stays too, even where the clsact was made for us.
        bed.socket.delete_qdisc(bed.oif, TcHandle::new(0xffff, 0), TcHandle::CLSACT).expect("theirs to remove");
        plane.apply(&bed.base(1_000)).expect("fits");
        let table = linux::bpf::FlowTable::open(bed.state.path(), 64, Hook::Clsact).expect("any program");
        bed.socket.put_bpf_filter(bed.oif, TcHandle::INGRESS, (7, 1), table.program(), "theirs").expect("filter");
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        assert_eq!(bed.socket.filters(bed.oif, TcHandle::INGRESS).expect("filters").len(), 1);
    });
}

#[test]
fn a_foreign_root_is_refused_not_fought() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let foreign = TcHandle::new(1, 0);
        bed.socket.add_qdisc(bed.oif, foreign, TcHandle::ROOT, &Discipline::Pfifo { limit: 7 }).expect("theirs");
        let before = bed.shown();
        let mut plane = bed.open();
        assert_eq!(plane.apply(&bed.base(1_000)).expect_err("theirs").code, libc::EBUSY);
        assert_eq!(bed.shown(), before);
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("nothing of ours");
        assert_eq!(bed.shown(), before);
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        assert!(plane.apply(&[bed.class(OWN, 1, 1)]).is_err(), "no root");
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        let before = (bed.shown(), plane.read());
        let oif = bed.oif;
        let low = ClassSpec { upper_limit: Some(Rate::from_kbps(1)), ..spec(2, 1) };
        for (why, op) in [
            ("the classes would sum over the link", bed.class(OWN, 1, 1)),
            ("likewise, in place", bed.class(ClassId::CONTROL, 201, 0)),
            ("its class is not there", bed.flow(2, OWN, 100)),
            ("the link is no class of flows", bed.flow(2, ClassId::LINK, 100)),
            ("a flow uses it", PlanOp::DropClass { oif, class: ClassId::CONTROLLED_LOAD }),
            ("best effort stays", PlanOp::DropClass { oif, class: ClassId::BEST_EFFORT }),
            ("the link is no class", bed.class(ClassId::LINK, 0, 0)),
            ("the number is the root's own", bed.class(ClassId(0x5c1c), 0, 0)),
            ("the number is clsact's", bed.class(ClassId(0xffff), 0, 0)),
            ("less than it is guaranteed", PlanOp::Class { oif, class: OWN, spec: low }),
            ("no such interface", PlanOp::Link { oif: IfIndex(9999), spec: link_spec() }),
            ("no rate", PlanOp::Link { oif, spec: LinkSpec { rate: Rate::ZERO, ..link_spec() } }),
        ] {
            let batch = [bed.class(ClassId(99), 0, 3), bed.flow(9, ClassId(99), 10), op];
            assert!(plane.apply(&batch).is_err(), "{why}");
            assert_eq!((bed.shown(), plane.read()), before, "{why}");
        }
    });
}

#[test]
fn a_full_map_is_a_refusal() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = KernelPlane::open_with(bed.state.path(), 3, Hook::Best).expect("opens");
        plane.apply(&bed.base(3_300)).expect("fits");
        let flows: Vec<PlanOp> = (0..3).map(|n| bed.flow(n, ClassId::CONTROLLED_LOAD, 10)).collect();
        plane.apply(&flows).expect("three");
        let before = plane.read();
        let one_more = [bed.drop_flow(0), bed.flow(7, ClassId::CONTROLLED_LOAD, 10), bed.flow(8, OWN, 10)];
        assert!(plane.apply(&one_more).is_err(), "the last has no class");
        assert_eq!(plane.read(), before, "the slot given back was used and given back again");
        let fault = plane.apply(&[bed.flow(7, ClassId::CONTROLLED_LOAD, 10)]).expect_err("four");
        assert_eq!(fault.code, libc::ENOSPC);
        assert_eq!(plane.read(), before);
        plane.apply(&[bed.drop_flow(0), bed.flow(7, ClassId::CONTROLLED_LOAD, 10)]).expect("one for one");
        assert_eq!(plane.flow_counters(bed.oif, &key(7)).expect("map").map(|c| c.packets), Some(0));
        let before = plane.read();
        drop(plane);
        let mut plane = KernelPlane::open_with(bed.state.path(), 3, Hook::Best).expect("opens");
        let fault = plane.apply(&[bed.flow(9, ClassId::CONTROLLED_LOAD, 10)]).expect_err("four");
        assert_eq!((fault.code, plane.read()), (libc::ENOSPC, before));
    });
}

#[test]
fn an_interface_that_goes_takes_its_reservations_with_it() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        bed.socket.delete_link(bed.oif).expect("delete");
        assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Gone(bed.oif)]));
        assert!(plane.apply(&[bed.class(OWN, 0, 1)]).is_err());
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("forgotten");
        assert_eq!(plane.reconcile(), Ok(vec![]));
        // The same name again is another interface; and one that went while nobody looked is forgotten at the start.
        bed.socket.add_veth("near", "far2", None).expect("veth");
        let again = bed.socket.link_by_name("near").expect("near").index;
        plane.apply(&[PlanOp::Link { oif: again, spec: link_spec() }]).expect("fresh");
        let flow = PlanOp::Flow { oif: again, flow: key(1), entry: entry(ClassId::BEST_EFFORT, 1) };
        plane.apply(&[flow]).expect("flow");
        drop(plane);
        bed.socket.delete_link(again).expect("delete");
        assert_eq!(bed.open().read(), Ok(Plan::default()));
    });
}

/// A link that gets the other scheduler is built anew with all its classes and flows, is read back as told, and comes
/// back whole if that fails at any write.
#[test]
fn a_link_takes_the_other_scheduler() {
    scratch::in_netns(|| {
        let mut bed = bed();
        if !has_hfsc(&mut bed.socket).expect("it can be asked for") {
            return bench::skipped("this kernel has no sch_hfsc");
        }
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        for scheduler in [SchedulerKind::Hfsc, SchedulerKind::Htb, SchedulerKind::Hfsc] {
            let other = PlanOp::Link { oif: bed.oif, spec: LinkSpec { scheduler, overhead: 38, ..link_spec() } };
            let (before, shown) = (plane.read(), bed.shown());
            for writes in 0.. {
                plane.rig(FaultInjection::FailAfter(writes));
                let done = plane.apply(&[other]);
                plane.rig(FaultInjection::None);
                if done.is_ok() {
                    break;
                }
                assert_eq!(
                    (plane.read(), bed.shown()),
                    (before.clone(), shown.clone()),
                    "{scheduler:?}, write {writes}"
                );
            }
            ops.push(other);
            assert_eq!(plane.read(), Ok(plan_of(&ops)));
            assert_eq!(plane.scheduler(bed.oif), Some(scheduler));
            drop(plane);
            plane = bed.open();
            assert_eq!(plane.read(), Ok(plan_of(&ops)), "the next one adopts it");
            assert_eq!(plane.reconcile(), Ok(vec![]));
            // Another overhead alone is a change in place.
            let thinner = PlanOp::Link { oif: bed.oif, spec: LinkSpec { scheduler, overhead: 20, ..link_spec() } };
            let done = plane.apply(&[thinner]);
            assert_eq!(done, Ok(()), "{scheduler:?}: {:?}", bed.shown());
            ops.push(thinner);
            assert_eq!(plane.read(), Ok(plan_of(&ops)));
        }
    });
}

/// A batch looks a root up only after a notice, so the notice must be there before the next batch.
#[test]
fn a_root_that_others_replace_between_two_batches_is_seen_by_the_next() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        plane.apply(&bed.base(3_300)).expect("fits");
        for port in 1..4 {
            plane.apply(&[bed.flow(port, ClassId::CONTROLLED_LOAD, 1_000)]).expect("a flow alone");
        }
        let (ours, theirs) = (TcHandle::new(0x5c1c, 0), TcHandle::new(1, 0));
        bed.socket.delete_qdisc(bed.oif, ours, TcHandle::ROOT).expect("theirs now");
        bed.socket.add_qdisc(bed.oif, theirs, TcHandle::ROOT, &Discipline::Pfifo { limit: 7 }).expect("theirs");
        let refused = plane.apply(&[bed.flow(5, ClassId::CONTROLLED_LOAD, 1_000)]).expect_err("not on their root");
        assert_eq!(refused.code, libc::ENODEV);
        bed.socket.delete_qdisc(bed.oif, theirs, TcHandle::ROOT).expect("given back");
        assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Mended(bed.oif)]));
        plane.apply(&[bed.flow(5, ClassId::CONTROLLED_LOAD, 1_000)]).expect("ours again");
    });
}

#[test]
fn what_others_change_is_mended_or_told() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        let told = bed.shown();
        assert_eq!(plane.reconcile(), Ok(vec![]));
        let oif = bed.oif;
        let of = |class: ClassId| TcHandle::new(0x5c1c, class.0);
        let seen = bed.socket.class(oif, of(ClassId::CONTROLLED_LOAD)).expect("look").expect("there");
        let stolen = match seen.kind.expect("ours") {
            ClassKind::Htb(htb) => ClassKind::Htb(HtbClass { rate: 1_200_000, ..htb }),
            ClassKind::Hfsc(hfsc) => ClassKind::Hfsc(HfscClass { real_time: Some(TcCurve::linear(1_200_000)), ..hfsc }),
        };
        let pinned = bed.state.path().join(format!("bpf/{}/egress_{}", linux::bpf::LAYOUT, oif.0));
        type Deed<'a> = (&'a str, Box<dyn Fn(&mut linux::netlink::Socket) -> linux::netlink::socket::Result<()>>);
        let deeds: Vec<Deed<'_>> = vec![
            ("a rate", Box::new(move |s| s.change_class(oif, of(ClassId::BEST_EFFORT), of(ClassId::LINK), &stolen))),
            ("a class", Box::new(move |s| s.delete_class(oif, of(ClassId::CONTROL)))),
            ("a queue", Box::new(move |s| s.delete_qdisc(oif, TcHandle::new(4, 0), of(ClassId::CONTROLLED_LOAD)))),
            ("one more class", Box::new(move |s| s.add_class(oif, of(ClassId(77)), of(ClassId::LINK), &stolen))),
            (
                "the flow program",
                Box::new(move |s| match std::fs::remove_file(&pinned) {
                    Ok(()) => Ok(()),
                    Err(_) => s.delete_bpf_filter(oif, TcHandle::EGRESS, (0x5c1c, 0x5c1c)), // no TCX here
                }),
            ),
            ("all of it", Box::new(move |s| s.delete_qdisc(oif, TcHandle::new(0x5c1c, 0), TcHandle::ROOT))),
        ];
        for (what, deed) in &deeds {
            for (then, another) in &deeds {
                deed(&mut bed.socket).expect(what);
                if what != then {
                    let _ = another(&mut bed.socket); // which may be impossible after the first
                }
                assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Mended(oif)]), "{what}, {then}");
                assert_eq!(bed.shown(), told, "{what}, {then}");
                assert_eq!(plane.reconcile(), Ok(vec![]), "{what}, {then}");
            }
        }
        bed.socket.delete_qdisc(oif, TcHandle::new(0x5c1c, 0), TcHandle::ROOT).expect("theirs now");
        bed.socket
            .add_qdisc(oif, TcHandle::new(1, 0), TcHandle::ROOT, &Discipline::Pfifo { limit: 7 })
            .expect("theirs");
        // Not what it has counted: neighbour discovery goes on.
        let root = |bed: &mut Bed| bed.socket.root_qdisc(oif).map(|found| found.map(|q| (q.handle, q.discipline)));
        let theirs = root(&mut bed);
        assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Foreign(oif)]));
        assert!(plane.apply(&[bed.class(OWN, 0, 1)]).is_err());
        assert_eq!(root(&mut bed), theirs);
        plane.apply(&[PlanOp::DropLink { oif }]).expect("ours is given up");
        assert_eq!(root(&mut bed), theirs);
        assert_eq!(bed.shown().1.len(), 1, "and nothing of ours is left");
    });
}

#[test]
fn renaming_and_flapping_change_nothing() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        let before = bed.shown();
        bed.socket.set_link_up(bed.oif, false).expect("down");
        bed.socket.rename_link(bed.oif, "other").expect("rename");
        bed.socket.set_link_up(bed.oif, true).expect("up");
        assert_eq!(plane.reconcile(), Ok(vec![]));
        assert_eq!((bed.shown(), plane.read()), (before, Ok(plan_of(&ops))));
        plane.apply(&[bed.flow(2, ClassId::CONTROLLED_LOAD, 100)]).expect("by index, not by name");
    });
}

#[test]
fn an_interface_that_is_down_is_made_ready() {
    scratch::in_netns(|| {
        let mut bed = bed();
        bed.socket.set_link_up(bed.oif, false).expect("down");
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        bed.socket.set_link_up(bed.oif, true).expect("up");
        assert_eq!((plane.reconcile(), plane.read()), (Ok(vec![]), Ok(plan_of(&ops))));
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
    });
}

#[test]
fn interfaces_are_apart() {
    scratch::in_netns(|| {
        let mut bed = bed();
        bed.socket.add_veth("near2", "far2", None).expect("veth");
        let second = bed.socket.link_by_name("near2").expect("near2").index;
        bed.socket.set_link_up(second, true).expect("up");
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        ops.extend(base(second, 1_000));
        ops.push(flow_op(second, 1, ClassId::CONTROLLED_LOAD, 500));
        plane.apply(&ops).expect("fits");
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        // A batch over both is undone on both.
        let both = [bed.flow(2, ClassId::CONTROLLED_LOAD, 1), flow_op(second, 2, OWN, 1)];
        assert!(plane.apply(&both).is_err());
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        ops.push(PlanOp::DropLink { oif: bed.oif });
        assert_eq!(plane.read(), Ok(plan_of(&ops)), "the second keeps its flow of the same name");
        assert_eq!(plane.counters().expect("counters").flows.len(), 1);
    });
}

#[test]
fn another_tool_sees_the_same() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        // What `tc` shows here is HTB's.
        ops[0] = PlanOp::Link { oif: bed.oif, spec: LinkSpec { scheduler: SchedulerKind::Htb, ..link_spec() } };
        let curve = ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(20), m2: Rate::from_mbps(1) };
        let spec = ClassSpec { real_time: Some(curve), upper_limit: Some(Rate::from_mbps(5)), ..spec(0, 1) };
        ops.push(PlanOp::Class { oif: bed.oif, class: ClassId::BEST_EFFORT, spec: self::spec(5_000, 7) });
        ops.push(PlanOp::Class { oif: bed.oif, class: OWN, spec });
        plane.apply(&ops).expect("fits");
        let Ok(shown) = Command::new("tc").args(["-d", "class", "show", "dev", "near"]).output() else {
            bench::skipped("no tc (Debian: iproute2) to compare with");
            return;
        };
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let line = |class: &str| shown.lines().find(|line| line.contains(&format!("class htb {class} "))).expect(class);
        assert!(line("5c1c:1").contains(" root rate 10Mbit ceil 10Mbit "), "{shown}");
        let controlled = line("5c1c:4");
        for words in ["parent 5c1c:1 ", "leaf 4: ", "prio 2 ", "rate 3300Kbit ceil 10Mbit "] {
            assert!(controlled.contains(words), "{words}: {controlled}");
        }
        // 20 ms of 8 Mb/s are 20,000 bytes of burst; tc shows what its own table makes of the ticks.
        let own = line("5c1c:10");
        assert!(own.contains("rate 1Mbit ceil 5Mbit "), "{own}");
        let burst = own.split_whitespace().skip_while(|word| *word != "burst").nth(1).expect("burst");
        assert!(burst.starts_with("20000b") || burst.starts_with("19Kb") || burst.starts_with("20Kb"), "{own}");
        assert!(!shown.contains("burst 0b"), "{shown}");
    });
}
