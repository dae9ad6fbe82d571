//! Queueing disciplines and classes against the real kernel.

use crate::scratch;
use linux::netlink::Socket;
use linux::netlink::tc::TcHandle;
use linux::netlink::tc::class::{ClassKind, HtbClass};
use linux::netlink::tc::hfsc::{HfscClass, TcCurve};
use linux::netlink::tc::qdisc::Discipline;
use linux::plane::{has_hfsc, has_scheduler};
use terms::IfIndex;

const ROOT: TcHandle = TcHandle::new(0x5c1c, 0);
const LINK: TcHandle = TcHandle::new(0x5c1c, 1);
const SOME: TcHandle = TcHandle::new(0x5c1c, 0x2a);

fn veth(socket: &mut Socket) -> IfIndex {
    socket.add_veth("a0", "b0", None).expect("veth");
    let index = socket.link_by_name("a0").expect("a0").index;
    socket.set_link_up(index, true).expect("up");
    index
}

fn class(rate: u64, ceil: u64) -> ClassKind {
    ClassKind::Htb(htb(rate, ceil))
}

fn htb(rate: u64, ceil: u64) -> HtbClass {
    HtbClass { rate, ceil, burst: 18_750, ceil_burst: 9_375, quantum: 3028, prio: 2, overhead: 24 }
}

#[test]
fn what_is_written_comes_back_to_the_last_tick() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let oif = veth(&mut socket);
        socket.add_qdisc(oif, ROOT, TcHandle::ROOT, &Discipline::Htb { default: 2 }).expect("htb");
        let root = socket.root_qdisc(oif).expect("look").expect("there");
        assert_eq!((root.handle, root.discipline), (ROOT, Discipline::Htb { default: 2 }));
        // 8 bit/s, 10 Mbit/s, 34.36 Gbit/s and one byte more, 100 Gbit/s, and the widest that HTB takes.
        for (minor, rate) in [(1, 1), (2, 1_250_000), (3, u64::from(u32::MAX)), (4, 1 << 32), (5, 12_500_000_000)] {
            let handle = TcHandle::new(0x5c1c, minor);
            let wanted = class(rate, rate.saturating_mul(2));
            socket.add_class(oif, handle, ROOT, &wanted).expect("class");
            let found = socket.class(oif, handle).expect("look").expect("there");
            assert_eq!((found.parent, found.kind), (TcHandle::ROOT, Some(wanted)), "{rate} bytes/s");
            let changed = ClassKind::Htb(HtbClass { rate: rate + 1, prio: 3, ..htb(rate, rate.saturating_mul(2)) });
            socket.change_class(oif, handle, ROOT, &changed).expect("change");
            assert_eq!(socket.class(oif, handle).expect("look").expect("there").kind, Some(changed));
        }
        assert_eq!(socket.classes(oif).expect("list").len(), 5);
    });
}

/// HFSC's root with its size table, and curves of two slopes: written, read, changed in place.
#[test]
fn curves_come_back_as_they_were_written() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let oif = veth(&mut socket);
        let root = |overhead| Discipline::Hfsc { default: 2, overhead };
        match socket.add_qdisc(oif, ROOT, TcHandle::ROOT, &root(24)) {
            Err(error) if error.errno == libc::ENOENT => return bench::skipped("this kernel has no sch_hfsc"),
            done => done.expect("hfsc"),
        }
        assert_eq!(socket.root_qdisc(oif).expect("look").expect("there").discipline, root(24));
        socket.replace_qdisc(oif, ROOT, TcHandle::ROOT, &root(4)).expect("another overhead");
        assert_eq!(socket.root_qdisc(oif).expect("look").expect("there").discipline, root(4));
        for (minor, rate) in [(1, 1), (2, 1_250_000), (3, 12_345_679), (4, u32::MAX)] {
            let handle = TcHandle::new(0x5c1c, minor);
            let linear = Some(TcCurve::linear(rate));
            let wanted = HfscClass { real_time: linear, link_share: linear, upper_limit: linear };
            socket.add_class(oif, handle, ROOT, &ClassKind::Hfsc(wanted)).expect("class");
            let found = socket.class(oif, handle).expect("look").expect("there");
            assert_eq!((found.parent, found.kind), (ROOT, Some(ClassKind::Hfsc(wanted))), "{rate} bytes/s");
            let steep = Some(TcCurve { m1: rate, d: 20_001, m2: rate / 7 });
            let changed = ClassKind::Hfsc(HfscClass { real_time: steep, ..wanted });
            socket.change_class(oif, handle, ROOT, &changed).expect("change");
            assert_eq!(socket.class(oif, handle).expect("look").expect("there").kind, Some(changed));
            // Why a class has all curves always: one that a change leaves out stays.
            let without = ClassKind::Hfsc(HfscClass { real_time: None, ..wanted });
            socket.change_class(oif, handle, ROOT, &without).expect("change");
            assert_eq!(socket.class(oif, handle).expect("look").expect("there").kind, Some(changed));
        }
    });
}

/// A kernel is asked for schedulers without a link that changes for it.
#[test]
fn asking_for_a_scheduler_changes_nothing() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let lo = socket.link_by_name("lo").expect("the loopback").index;
        let before = (socket.links().expect("links").len(), socket.qdiscs(lo).expect("qdiscs"));
        assert_eq!(has_scheduler(&mut socket, "htb"), Ok(true));
        assert_eq!(has_scheduler(&mut socket, "sluice-has-no-such"), Ok(false));
        // Twice: what the first had made, the second would be told of.
        let found = has_hfsc(&mut socket).expect("it can be asked for");
        assert_eq!(has_hfsc(&mut socket), Ok(found));
        assert_eq!((socket.links().expect("links").len(), socket.qdiscs(lo).expect("qdiscs")), before);
    });
}

#[test]
fn queues_are_put_changed_and_found() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let oif = veth(&mut socket);
        socket.add_qdisc(oif, ROOT, TcHandle::ROOT, &Discipline::Htb { default: 2 }).expect("htb");
        socket.add_class(oif, LINK, ROOT, &class(1_250_000, 1_250_000)).expect("link");
        socket.add_class(oif, SOME, LINK, &class(100, 1_250_000)).expect("class");
        assert_eq!(socket.class(oif, SOME).expect("look").expect("there").parent, LINK);
        let leaf = TcHandle::new(0x2a, 0);
        socket.add_qdisc(oif, leaf, SOME, &Discipline::Pfifo { limit: 50 }).expect("pfifo");
        socket.replace_qdisc(oif, leaf, SOME, &Discipline::Pfifo { limit: 60 }).expect("change");
        let found = socket.leaf_qdisc(oif, SOME).expect("look").expect("there");
        assert_eq!((found.handle, found.parent, found.discipline), (leaf, SOME, Discipline::Pfifo { limit: 60 }));
        assert_eq!(socket.class(oif, SOME).expect("look").expect("there").leaf, leaf);
        let bytes = Discipline::Bfifo { limit: 9000 };
        assert_eq!(socket.replace_qdisc(oif, leaf, SOME, &bytes).expect_err("another kind").errno, libc::EINVAL);
        socket.delete_qdisc(oif, leaf, SOME).expect("delete");
        socket.add_qdisc(oif, leaf, SOME, &bytes).expect("bfifo");
        assert_eq!(socket.leaf_qdisc(oif, SOME).expect("look").expect("there").discipline, bytes);
        assert_eq!(socket.delete_class(oif, LINK).expect_err("has a child").errno, libc::EBUSY);
        socket.delete_class(oif, SOME).expect("delete");
        assert_eq!(socket.class(oif, SOME).expect("look"), None);
        socket.delete_qdisc(oif, ROOT, TcHandle::ROOT).expect("delete the root");
        let root = socket.root_qdisc(oif).expect("look").expect("the default is back");
        assert_eq!(root.handle, TcHandle::NONE);
    });
}

#[test]
fn what_this_kernel_does_in_silence() {
    // Why every write is read back: measured here, so that a kernel that mends one of these is noticed.
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let oif = veth(&mut socket);
        socket.add_qdisc(oif, ROOT, TcHandle::ROOT, &Discipline::Htb { default: 2 }).expect("htb");
        let orphan = socket.add_class(oif, SOME, LINK, &class(100, 200));
        let found = socket.class(oif, SOME).expect("look");
        match orphan {
            Ok(()) => assert_eq!(found.expect("somewhere").parent, TcHandle::ROOT, "an absent parent is the root"),
            Err(error) => println!("this kernel refuses an absent parent: {error}"),
        }
        let upside_down = class(200, 100);
        match socket.add_class(oif, TcHandle::new(0x5c1c, 0x2b), ROOT, &upside_down) {
            Ok(()) => println!("this kernel takes ceil < rate"),
            Err(error) => println!("this kernel refuses ceil < rate: {error}"),
        }
    });
}
