//! RSVP messages put together from objects by decisions that the fuzzer makes: structure first, bytes second.
#![no_main]

#[path = "../../engine/wire/examples/torture/mill.rs"]
mod mill;

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The fuzzer's bytes as decisions; when they are used up, always the first choice.
struct Told<'a>(&'a [u8]);

impl mill::Dice for Told<'_> {
    fn roll(&mut self, n: usize) -> usize {
        let (head, rest) = self.0.split_at(self.0.len().min(2));
        self.0 = rest;
        let number = head.iter().fold(0usize, |sum, b| sum << 8 | usize::from(*b));
        number % n
    }
}

static STOCK: LazyLock<mill::Stock> = LazyLock::new(mill::Stock::read);

fuzz_target!(|bytes: &[u8]| {
    let (mut message, mut scratch) = (Vec::new(), Vec::new());
    mill::make(&mut Told(bytes), &STOCK, &mut message);
    mill::read(&message, &mut scratch);
});
