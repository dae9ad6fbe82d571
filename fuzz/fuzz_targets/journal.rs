//! Records of the book's journal: read, and written again.
#![no_main]

use booking::record::{Audited, Stored};
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(stored) = Stored::decode(bytes) {
        assert_eq!(stored.encode(), bytes, "what is read is what would be written");
    }
    if let Ok(event) = booking::Event::decode(bytes) {
        assert_eq!(event.encode(), bytes);
    }
    let _ = black_box(Audited::decode(bytes));
});
