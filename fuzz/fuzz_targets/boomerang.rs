//! Boomerang messages in IP packets: read, rewritten in place, read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use wire::boomerang::{Message, Places, Probe, Rates, forwarded, is_boomerang};

fuzz_target!(|bytes: &[u8]| {
    // Without addresses an ICMPv6 checksum is not asked for: the fuzzer reaches the body sooner.
    if let Ok(message) = Message::parse(bytes, None) {
        black_box((message.options().count(), message.options().remainder().len(), message.qos.iter().count()));
    }
    let Ok(probe) = Probe::parse(bytes) else { return };
    assert!(is_boomerang(bytes), "what is read is what the filter lets through");
    let mut packet = bytes.to_vec();
    let mut rewrite = Places::of(&probe).within(&mut packet);
    rewrite.nack();
    rewrite.key(0);
    rewrite.refresh(1);
    for index in 0..probe.message.qos.count() {
        rewrite.rates(index, Rates::default());
    }
    rewrite.count();
    rewrite.hop_digest(&[0; 16]);
    let again = Probe::parse(&packet).expect("what is rewritten is read again");
    assert!(again.message.is_nack() && again.message.key == 0 && again.message.refresh <= 1);
    assert!(again.message.qos.asked().is_zero());
    if forwarded(&mut packet) {
        assert_eq!(Probe::parse(&packet).expect("one hop further").ttl + 1, probe.ttl);
    }
});
