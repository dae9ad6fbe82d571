//! An agent of the first layout was killed, and this build starts on what it left: every flow, bucket and link is taken
//! over, and the packets never lose their class. `flow_v1.o` is the program as that build shipped it.

use crate::policer::{LO, OWN, entry, frame, key};
use crate::scratch::{self, StateDir};
use aya::maps::{Array, HashMap};
use aya::programs::SchedClassifier;
use control::record::FlowRecord;
use linux::bpf::entry::FirstFlow;
use linux::bpf::entry::{RawFlow, RawKey, RawState};
use linux::bpf::sys::{SkBuff, attach, link_place, mount_bpffs, open_pinned, pin, program_id, test_run};
use linux::bpf::{FlowTable, Hook};
use std::os::fd::AsFd;
use terms::{Bytes, FlowSpec, Rate, Rspec, Span};
use traffic::edge::Side;
use traffic::plan::{BucketSpec, FlowSpecEntry};

static FIRST: &[u8] = aya::include_bytes_aligned!("flow_v1.o");

/// What the first layout wrote of such an entry: the same numbers, and a record without the shared bucket in front.
fn first(slot: u32, entry: &FlowSpecEntry) -> FirstFlow {
    const BYTE: u64 = 8_000_000_000;
    let (rate, depth) = (entry.bucket.rate.as_bps(), entry.bucket.depth.get() * BYTE);
    let mut head = Vec::new();
    head.extend(slot.to_ne_bytes());
    head.extend((0x5c1c_0000 | u32::from(entry.class.0)).to_ne_bytes());
    head.extend([rate, depth, depth.div_ceil(rate)].map(u64::to_ne_bytes).concat());
    head.extend([entry.bucket.min_unit, 1].map(u32::to_ne_bytes).concat());
    let FlowRecord { session, flowspec, sender_tspec, admitted, lifetime, .. } =
        FlowRecord::decode(&entry.record).expect("a record");
    let mut record = entry.bucket.depth.get().to_le_bytes().to_vec();
    record.push(4);
    record.extend([10, 0, 0, 2]);
    record.extend([0; 12]);
    record.push(session.protocol);
    record.extend(session.dst_port.to_le_bytes());
    let tspec = |t: terms::Tspec| {
        let wide = [t.r.as_bps(), t.b.get(), t.p.as_bps()].map(u64::to_le_bytes).concat();
        [wide, [t.m, t.M].map(u32::to_le_bytes).concat()].concat()
    };
    let FlowSpec::Guaranteed(t, Rspec { R, S }) = flowspec else { panic!("guaranteed") };
    record.push(2);
    record.extend(tspec(t));
    record.extend(R.as_bps().to_le_bytes());
    record.extend(S.as_nanos().to_le_bytes());
    record.extend(tspec(sender_tspec));
    record.extend(admitted.as_bps().to_le_bytes());
    record.extend(lifetime.as_nanos().to_le_bytes());
    record.resize(128, 0);
    FirstFlow { head: head.try_into().expect("40 bytes"), record: record.try_into().expect("128 bytes") }
}

#[test]
fn what_the_first_layout_left_is_taken_over() {
    scratch::in_netns(|| {
        let state = StateDir::new();
        let mount = state.path().join("bpf");
        std::fs::create_dir_all(&mount).expect("a directory");
        mount_bpffs(&mount).expect("a bpffs");
        let dir = mount.join("v1");
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut loader = aya::EbpfLoader::new();
        let loader = loader.default_map_pin_directory(&dir).map_max_entries("flows", 64).map_max_entries("states", 64);
        let mut object = loader.load(FIRST).expect("the first layout loads");
        let program: &mut SchedClassifier =
            object.program_mut("sluice_egress").expect("there").try_into().expect("a classifier");
        program.load().expect("verified");
        let fd = program.fd().expect("loaded").as_fd().try_clone_to_owned().expect("a descriptor");
        pin(fd.as_fd(), &dir.join("program_0")).expect("pin");
        let flow = key("10.0.0.1", "10.0.0.2", 17);
        let mut entry = entry(BucketSpec { rate: Rate::from_mbps(8), depth: Bytes::new(9_000), min_unit: 64 });
        let mut record = FlowRecord::decode(&entry.record).expect("a record");
        let FlowSpec::ControlledLoad(tspec) = record.flowspec else { panic!("controlled load") };
        let rspec = Rspec { R: Rate::from_mbps(9), S: Span::from_micros(3) };
        record.flowspec = FlowSpec::Guaranteed(tspec, rspec);
        entry.record = record.encode();
        let mut flows: HashMap<_, RawKey, FirstFlow> =
            HashMap::try_from(object.map_mut("flows").expect("there")).expect("a hash");
        flows.insert(RawKey::new(LO, &flow), first(9, &entry), 0).expect("written");
        let mut used = RawState::full(&RawFlow::new(9, &entry));
        (used.packets, used.bytes) = (77, 7_700);
        let mut states: Array<_, RawState> = Array::try_from(object.map_mut("states").expect("there")).expect("array");
        states.set(9, used, 0).expect("written");
        let send = |program: std::os::fd::BorrowedFd<'_>| {
            let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
            test_run(program, &frame(&flow, 100), &mut context).expect("runs");
            context.priority()
        };
        assert_eq!(send(fd.as_fd()), OWN, "the first layout's own program takes it");
        let linked = attach(fd.as_fd(), LO.0, Side::Egress, false);
        if let Ok(link) = &linked {
            pin(link.as_fd(), &dir.join("egress_1")).expect("pin");
        }
        drop(object);

        let table = FlowTable::open(state.path(), 4096, Hook::Best).expect("opens");
        assert_eq!(table.limit(), 4096, "as large as was asked for");
        let found = table.flow(LO, &flow).expect("readable").expect("taken over");
        assert_eq!((found.slot, found.read()), (9, Some(entry)));
        let counters = table.counters(9).expect("readable");
        assert_eq!((counters.packets, counters.bytes), (78, 7_800), "it counts on");
        assert_eq!(send(table.program()), OWN);
        assert!(!dir.exists(), "nothing of the first layout stays");
        match linked {
            Ok(link) => {
                let place = link_place(link.as_fd()).expect("look");
                assert_eq!((place.ifindex, place.program), (LO.0, program_id(table.program()).expect("look")));
                assert!(open_pinned(&mount.join(linux::bpf::LAYOUT).join("egress_1")).is_ok(), "and stays pinned");
            }
            Err(_) => bench::skipped("this kernel has no TCX links to be handed over"),
        }
        drop(table);
        assert!(FlowTable::open(state.path(), 64, Hook::Best).expect("opens").flow(LO, &flow).expect("map").is_some());
    });
}
