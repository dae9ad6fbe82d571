//! Recognition in the kernel: one event at the threshold, none for flows that are claimed or of no application, and bytes by
//! class as they come in.

use crate::bed::{Bed, NEAR, bed, key};
use crate::{policer, scratch};
use linux::bpf::entry::{RawFlow, RawKey, RawState};
use linux::bpf::sys::{SkBuff, test_run};
use linux::bpf::{FlowRecogniser, FlowTable, Hook};
use linux::plane::KernelPlane;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use terms::{Bytes, FlowKey, Rate, Span, WatchedPorts};
use traffic::plan::{BucketSpec, ClassId};

const WATCHED: WatchedPorts = WatchedPorts { protocol: 17, ports: (5_000, 5_009), threshold: 5 };

fn opened(bed: &Bed, quiet: Span) -> (KernelPlane, FlowRecogniser) {
    let mut plane = bed.open();
    plane.apply(&bed.base(3_300)).expect("fits");
    let mut recogniser = FlowRecogniser::open(1_024, quiet, [7, 9]).expect("it loads");
    recogniser.watch(&[WATCHED]).expect("ports");
    recogniser.attach(bed.oif).expect("it attaches");
    (plane, recogniser)
}

/// Sends as many; an error is news of a packet before (nobody listens there), and then none was sent.
fn send(socket: &UdpSocket, packets: u32) {
    (0..packets).for_each(|_| while socket.send(&[0; 100]).is_err() {});
}

/// What was told by now; an event is there when the packet is.
fn told(recogniser: &mut FlowRecogniser) -> Vec<FlowKey> {
    std::iter::from_fn(|| recogniser.next_recognised()).map(|(_, flow)| flow).collect()
}

#[test]
fn a_flow_is_told_once_at_its_threshold() {
    scratch::in_netns(|| {
        let bed = bed();
        let (mut plane, mut recogniser) = opened(&bed, Span::from_secs(60));
        let flow = FlowKey { dst_port: 5_004, ..key(1) };
        let socket = bed.sender(flow.src_port, 5_004);
        send(&socket, 4);
        assert_eq!(told(&mut recogniser), []);
        send(&socket, 1);
        assert_eq!(told(&mut recogniser), [flow]);
        send(&socket, 20);
        assert_eq!(told(&mut recogniser), [], "it is quiet for a minute");
        send(&bed.sender(21_000, 6_000), 20);
        assert_eq!(told(&mut recogniser), [], "no application has the port");
        // The source port counts where the destination port is nobody's.
        let back = FlowKey { src_port: 5_001, dst_port: 6_000, ..key(1) };
        send(&bed.sender(5_001, 6_000), 5);
        assert_eq!(told(&mut recogniser), [back]);
        // A claimed flow is no candidate, and its bytes are those of its class.
        plane.apply(&[bed.flow(2, ClassId::CONTROLLED_LOAD, 3_000)]).expect("fits");
        let before = recogniser.arrived(ClassId::CONTROLLED_LOAD).expect("counted");
        send(&bed.sender(20_002, 5_004), 10);
        assert_eq!(told(&mut recogniser), []);
        let after = recogniser.arrived(ClassId::CONTROLLED_LOAD).expect("counted");
        assert_eq!(after.saturating_sub(before), Bytes::new(10 * (100 + 28 + 14)));
        assert!(plane.silence(bed.oif, ClassId::CONTROLLED_LOAD).expect("seen")[0].1 < Span::from_secs(30));
        // Another list, from now on.
        recogniser.watch(&[WatchedPorts { ports: (6_000, 6_000), ..WATCHED }]).expect("ports");
        send(&bed.sender(22_000, 5_004), 10);
        send(&bed.sender(22_000, 6_000), 5);
        let other = FlowKey { src_port: 22_000, dst_port: 6_000, ..key(1) };
        assert_eq!((told(&mut recogniser), other.src), (vec![other], NEAR.into()));
    });
}

#[test]
fn a_quiet_flow_is_told_again_and_thousands_of_invented_ones_cost_no_memory() {
    scratch::in_netns(|| {
        let bed = bed();
        let (_plane, mut recogniser) = opened(&bed, Span::from_secs(1));
        let socket = bed.sender(20_001, 5_004);
        send(&socket, 5);
        assert_eq!(told(&mut recogniser).len(), 1);
        let until = Instant::now() + Duration::from_secs(20);
        while told(&mut recogniser).is_empty() {
            assert!(Instant::now() < until, "it is told again after a second");
            send(&socket, 5);
            std::thread::sleep(Duration::from_millis(50));
        }
        // Four thousand flows of four packets each, in a table of a thousand: none reaches its threshold.
        for port in 30_000..34_000 {
            send(&bed.sender(port, 5_004), 4);
        }
        assert_eq!(told(&mut recogniser), []);
        send(&bed.sender(40_000, 5_005), 5);
        assert_eq!(told(&mut recogniser).len(), 1, "the table still has room for the next");
    });
}

/// Recognition believes what the flow program says of a packet that nobody's flow has: its protocol and ports, or that it has
/// none to be told by. Of one that has a flow nothing is said.
#[test]
fn the_flow_program_says_what_it_has_read() {
    scratch::in_netns(|| {
        let state = scratch::StateDir::new();
        let mut table = FlowTable::open(state.path(), 64, Hook::Best).expect("opens");
        let taken = policer::key("10.0.0.9", "10.0.0.2", 17);
        let bucket = BucketSpec { rate: Rate::from_mbps(8), depth: Bytes::new(9_000), min_unit: 64 };
        let raw = RawFlow::new(0, &policer::entry(bucket));
        table.put_state(0, &RawState::full(&raw)).expect("state");
        table.put_flow(&RawKey::new(policer::LO, &taken), &raw).expect("flow");
        let ports = 4000 << 16 | 5004;
        let of = |src: &str, dst: &str, protocol| policer::frame(&policer::key(src, dst, protocol), 100);
        let mut later = of("10.0.0.1", "10.0.0.2", 17);
        later[21] = 5; // the offset
        for (what, frame, said) in [
            ("UDP", of("10.0.0.1", "10.0.0.2", 17), [0, ports, 0x100 | 17]),
            ("TCP", of("10.0.0.1", "10.0.0.2", 6), [0, ports, 0x100 | 6]),
            ("IPv6", of("fc00::1", "fc00::2", 17), [0, ports, 0x100 | 17]),
            ("no ports", of("10.0.0.1", "10.0.0.2", 47), [0, 0, 0x100 | 47]),
            ("a later fragment", later, [0, 0, 0x100]),
            ("a flow's", policer::frame(&taken, 100), [1, 0, 0]),
        ] {
            // A packet may bring what somebody else had left there.
            let mut context = SkBuff::leaving(policer::LO.0, 0, 0, 0).read(99, (1, 2));
            test_run(table.program(), &frame, &mut context).expect("runs");
            assert_eq!(context.scratch()[..3], said, "{what}");
        }
    });
}
