//! An agent with another `max_flows`: the kernel's maps get another size, and whatever is reserved stays so.

use crate::bed::bed;
use linux::bpf::{Hook, LAYOUT};
use linux::plane::KernelPlane;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::plan::{ClassId, PlanOp};

#[test]
fn more_flows_have_room_after_a_start_and_what_was_there_stays() {
    crate::scratch::in_netns(|| {
        let bed = bed();
        let open = |max_flows| KernelPlane::open_with(bed.state.path(), max_flows, Hook::Best).expect("opens");
        let mut plane = open(4);
        plane.apply(&bed.base(3_300)).expect("fits");
        let flows = |range: std::ops::Range<u16>| -> Vec<PlanOp> {
            range.map(|n| bed.flow(n, ClassId::CONTROLLED_LOAD, 10)).collect()
        };
        plane.apply(&flows(0..4)).expect("four");
        assert_eq!(plane.apply(&flows(4..5)).expect_err("five").code, libc::ENOSPC);
        let (there, told) = (plane.flow_memory().expect("said"), plane.read());
        drop(plane);

        let mut plane = open(100_000);
        assert_eq!((plane.flow_limit(), plane.read()), (100_000, told));
        assert!(plane.flow_memory().expect("said") > there + 100_000 * 56, "a bucket has 56 bytes");
        plane.apply(&flows(4..9)).expect("nine");
        let told = plane.read();
        drop(plane);

        // Nine do not fit into four: the maps stay as they are, until the others have gone.
        let mut plane = open(4);
        assert_eq!((plane.flow_limit(), plane.read()), (100_000, told));
        plane.apply(&(1..9).map(|n| bed.drop_flow(n)).collect::<Vec<_>>()).expect("gone");
        drop(plane);
        let mut plane = open(4);
        assert_eq!((plane.flow_limit(), plane.read().expect("readable").links[&bed.oif].flows.len()), (4, 1));
    });
}

/// Packets of a reserved flow that are sent all the time stay in their class while the maps are replaced.
#[test]
fn no_packet_loses_its_class_while_the_size_changes() {
    crate::scratch::in_netns(|| {
        let bed = bed();
        let open = |max_flows| KernelPlane::open_with(bed.state.path(), max_flows, Hook::Best).expect("opens");
        let mut plane = open(64);
        plane.apply(&bed.base(3_300)).expect("fits");
        plane.apply(&[bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000)]).expect("one");
        drop(plane);
        let (from, over) = (bed.sender(20_001, 5004), AtomicBool::new(false));
        let sent = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    sent += u64::from(from.send(&[0; 100]).is_ok());
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent
            });
            for max_flows in [4_096, 64, 20_000, 128] {
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(open(max_flows).flow_limit(), max_flows);
            }
            over.store(true, Ordering::Relaxed);
            sending.join().expect("sends")
        });
        let mut plane = open(128);
        assert!(sent > 50, "{sent}");
        let counted = plane.class_counters(bed.oif, ClassId::CONTROLLED_LOAD).expect("readable").expect("there");
        assert_eq!(counted.packets, sent, "all of them");
    });
}

/// Whoever stops in the middle of it leaves what the next one takes over.
#[test]
fn an_interrupted_move_is_taken_up_again() {
    crate::scratch::in_netns(|| {
        let bed = bed();
        let open = |max_flows| KernelPlane::open_with(bed.state.path(), max_flows, Hook::Best);
        let mut plane = open(64).expect("opens");
        plane.apply(&bed.base(3_300)).expect("fits");
        plane.apply(&[1, 2].map(|n| bed.flow(n, ClassId::CONTROLLED_LOAD, 10))).expect("two");
        let told = plane.read();
        drop(plane);
        let mount = bed.state.path().join("bpf");
        let (used, aside) = (mount.join(LAYOUT), mount.join(format!("{LAYOUT}-before")));
        // It stopped when the pins were put aside: nothing else is there.
        std::fs::rename(&used, &aside).expect("put aside");
        let mut plane = open(128).expect("opens");
        assert_eq!((plane.flow_limit(), plane.read(), aside.exists()), (128, told.clone(), false));
        drop(plane);
        // The same, and the next one was told a number that what is there has no room in.
        std::fs::rename(&used, &aside).expect("put aside");
        let mut plane = open(1).expect("opens");
        assert_eq!((plane.flow_limit(), plane.read(), aside.exists()), (128, told.clone(), false));
        drop(plane);
        // It stopped when it had unpinned some of the old maps.
        std::fs::create_dir(&aside).expect("a directory");
        std::fs::rename(used.join("kinds"), aside.join("kinds")).expect("moved");
        linux::bpf::sys::pin(
            linux::bpf::sys::open_pinned(&aside.join("kinds")).expect("there").as_fd(),
            &used.join("kinds"),
        )
        .expect("pinned in both");
        let mut plane = open(128).expect("opens");
        assert_eq!((plane.read(), aside.exists()), (told, false));
    });
}
