//! What it costs to decode and to encode a message: one JSON line a benchmark.
//!
//! `cargo bench -p sluice-wire [-- PART_OF_A_NAME]`. The Path has an ADSPEC with all fragments (172 bytes), the Resv one
//! FF flow descriptor (96 bytes); both carry a checksum, which is verified. The figure is the median of 101 rounds of
//! 4,096 messages, 64 different ones in turn; the process pins itself to one core where `taskset` is there.

use bench::Bench;
use std::hint::black_box;
use std::process::Command;
use terms::{Adspec, Bytes, FilterSpec, FlowSpec, Rate, Session, Span, Style, Tspec};
use wire::{Builder, FilterObject, Message, MessageType, RsvpHop};

const ROUNDS: usize = 101;
const MESSAGES: usize = 4_096;
const DIFFERENT: usize = 64;

fn main() {
    if pinned_run() {
        return;
    }
    let bench = Bench::from_args();
    let paths: Vec<Vec<u8>> = (0..DIFFERENT as u32).map(path).collect();
    let resvs: Vec<Vec<u8>> = (0..DIFFERENT as u32).map(resv).collect();
    let time = |name, each: &mut dyn FnMut(usize)| {
        bench.time(name, ROUNDS, MESSAGES as u64, || (0..MESSAGES).for_each(&mut *each));
    };
    time("wire_decode_path_ns", &mut |i| {
        let message = Message::parse(black_box(&paths[i % DIFFERENT])).expect("we wrote it");
        let Message::Path(path) = message else { unreachable!("a Path") };
        black_box((path.session, path.tspec.r, path.adspec.is_some()));
    });
    time("wire_decode_resv_ns", &mut |i| {
        let message = Message::parse(black_box(&resvs[i % DIFFERENT])).expect("we wrote it");
        let Message::Resv(resv) = message else { unreachable!("a Resv") };
        for flow in resv.flows() {
            black_box((flow.filter, flow.flow.spec));
        }
    });
    let mut buffer = [0u8; 512];
    time("wire_encode_path_ns", &mut |i| {
        let message = Builder::within(&mut buffer, MessageType::Path, 63);
        black_box(write_path(message, i as u32).finish().expect("there is room"));
    });
    time("wire_encode_resv_ns", &mut |i| {
        let message = Builder::within(&mut buffer, MessageType::Resv, 63);
        black_box(write_resv(message, i as u32).finish().expect("there is room"));
    });
    if bench.wants(WORST) {
        bench.report(WORST, worst(), "ns", ROUNDS);
    }
}

/// Runs this very program again, pinned to the last core; false if that is not possible, or has happened.
fn pinned_run() -> bool {
    const MARK: &str = "SLUICE_BENCH_PINNED";
    let (Ok(program), Ok(cores)) = (std::env::current_exe(), std::thread::available_parallelism()) else {
        return false;
    };
    if std::env::var_os(MARK).is_some() {
        return false;
    }
    let core = (cores.get() - 1).to_string();
    let mut run = Command::new("taskset");
    run.args(["-c", &core]).arg(program).args(std::env::args().skip(1)).env(MARK, "1");
    run.status().is_ok_and(|status| status.success())
}

const WORST: &str = "wire_decode_worst_64k_ns";

/// The slowest of some messages of nearly 64 KiB that were made to be slow; each carries a checksum.
fn worst() -> f64 {
    let time = |message: &Vec<u8>| {
        let parse = || bench::nanos(|| _ = black_box(Message::parse(black_box(message)).is_ok()));
        bench::median(&mut (0..ROUNDS).map(|_| parse()).collect::<Vec<f64>>())
    };
    hostile().iter().map(time).fold(0.0, f64::max)
}

/// One long object; many objects; policy data in small elements; many flow descriptors; an Adspec of empty parameters.
fn hostile() -> Vec<Vec<u8>> {
    let path = || write_path(Builder::new(MessageType::Path, 63), 1);
    let many = |n: usize, each: &dyn Fn(Builder) -> Builder| (0..n).fold(path(), |m, _| each(m)).finish();
    let element = [0u8, 4, 0, 1].repeat(62);
    let policy = [&[0, 8, 0, 0][..], &element].concat();
    let service = [&[9, 0, 0, 63][..], &[200u8, 0, 0, 0].repeat(63)].concat();
    let services = service.repeat(250);
    let words = (services.len() as u32 / 4).to_be_bytes();
    let flows = (0..120).fold(write_resv(Builder::new(MessageType::Resv, 63), 1), |m, _| {
        m.flowspec(&FlowSpec::ControlledLoad(tspec())).filter_spec(&sender())
    });
    let messages = [
        many(1, &|m| m.raw(0x80, 1, &[0xa5; 65_000])),
        many(250, &|m| m.raw(0x80, 1, &[0xa5; 252])),
        many(250, &|m| m.raw(14, 1, &policy)),
        flows.raw(0x80, 1, &[0; 58_000]).finish(),
        Builder::new(MessageType::Path, 63).raw(13, 2, &[&words, &services[..]].concat()).finish(),
    ];
    messages.into_iter().map(|m| m.expect("it fits")).collect()
}

fn session() -> Session {
    Session { dst: [10, 0, 2, 2].into(), protocol: 17, dst_port: 5004 }
}

fn sender() -> FilterObject {
    FilterSpec { src: [10, 0, 1, 1].into(), src_port: 5004 }.into()
}

fn tspec() -> Tspec {
    Tspec { r: Rate::from_kbps(3_200), b: Bytes::new(8_192), p: Rate::from_mbps(10), m: 64, M: 1_500 }
}

fn path(lih: u32) -> Vec<u8> {
    write_path(Builder::new(MessageType::Path, 63), lih).finish().expect("it is short")
}

fn resv(lih: u32) -> Vec<u8> {
    write_resv(Builder::new(MessageType::Resv, 63), lih).finish().expect("it is short")
}

fn write_path<S: wire::build::Space>(message: Builder<S>, lih: u32) -> Builder<S> {
    let head = message.session(&session()).hop(&RsvpHop { addr: [10, 0, 1, 254].into(), lih });
    let head = head.time_values(Span::from_secs(30)).sender_template(&sender());
    head.sender_tspec(&tspec()).adspec(&Adspec::origin(1_500))
}

fn write_resv<S: wire::build::Space>(message: Builder<S>, lih: u32) -> Builder<S> {
    let head = message.session(&session()).hop(&RsvpHop { addr: [10, 0, 2, 254].into(), lih });
    let head = head.time_values(Span::from_secs(30)).style(Style::Ff);
    head.flowspec(&FlowSpec::ControlledLoad(tspec())).filter_spec(&sender())
}
