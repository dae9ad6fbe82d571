//! The record beside a flow: every one comes back, and its bytes are those that earlier builds wrote.

use control::record::FlowRecord;
use terms::ports::Preemption;
use terms::{Bytes, FlowSpec, Rate, Rspec, Session, Span, Tspec};
use traffic::plan::OwnerRecord;

fn tspec(seed: u64) -> Tspec {
    Tspec {
        r: Rate::from_bps(seed),
        b: Bytes::new(seed * 3),
        p: Rate::INFINITE,
        m: seed as u32 + 1,
        M: seed as u32 + 2,
    }
}

fn record(dst: &str, flowspec: FlowSpec) -> FlowRecord {
    FlowRecord {
        session: Session { dst: dst.parse().unwrap(), protocol: 17, dst_port: 5004 },
        flowspec,
        sender_tspec: tspec(9),
        admitted: Rate::from_bps(12_345_678_901),
        lifetime: Span::from_millis(157_500),
        priority: Preemption { preempting: 3, defending: 65_535 },
    }
}

#[test]
fn records_come_back() {
    let rspec = Rspec { R: Rate::from_mbps(4), S: Span::from_micros(7) };
    for dst in ["10.0.0.1", "fd00::7"] {
        for flowspec in [FlowSpec::ControlledLoad(tspec(5)), FlowSpec::Guaranteed(tspec(6), rspec)] {
            let record = record(dst, flowspec);
            assert_eq!(FlowRecord::decode(&record.encode()), Some(record));
        }
    }
    assert_eq!(FlowRecord::decode(&OwnerRecord::EMPTY), None, "nobody wrote it");
}

/// The bytes are pinned in running kernels: an agent of another build reads them.
#[test]
fn the_form_is_fixed() {
    let rspec = Rspec { R: Rate::from_mbps(4), S: Span::from_micros(7) };
    let written = format!("{:?}", record("10.0.0.1", FlowSpec::Guaranteed(tspec(6), rspec)).encode());
    let wanted = concat!(
        "040a000001000000000000000000000000",
        "118c1302",
        "06000000000000001200000000000000ffffffffffffffff0700000008000000",
        "00093d0000000000581b000000000000",
        "09000000000000001b00000000000000ffffffffffffffff0a0000000b000000",
        "351cdcdf020000000047bbab24000000",
        "0300ffff"
    );
    assert_eq!(written, wanted);
}
