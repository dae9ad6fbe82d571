//! One object of any class and C-Type: the first two bytes, then the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use wire::Object;

fuzz_target!(|bytes: &[u8]| {
    let [class, ctype, body @ ..] = bytes else { return };
    let body = &body[..body.len() & !3];
    let _ = black_box(wire::objects::decode(&Object { class: *class, ctype: *ctype, body, offset: 8 }));
});
