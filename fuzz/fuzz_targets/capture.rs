//! Capture files, as `sluice rsvp decode --pcap` reads them.
#![no_main]

#[path = "../../lab/experiments/src/capture.rs"]
mod capture;

use capture::frame;
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;

fuzz_target!(|bytes: &[u8]| {
    let Ok(capture) = capture::Capture::new(bytes) else { return };
    for record in capture {
        match record {
            Ok(record) => drop(black_box((record.number, record.nanos, frame::ip_packet(record.link, record.bytes)))),
            Err(cut) => assert!(cut.offset <= bytes.len() && !cut.what.is_empty()),
        }
    }
});
