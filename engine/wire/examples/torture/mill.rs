//! Messages put together from the objects of the seed corpus (of any message, in any order, some of them made up),
//! changed where it hurts, and read: nothing may panic, what is accepted can be walked to its end and copied, and the
//! copy says the same.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::describe::{FieldValue, Visitor};
use wire::{Builder, Message, MessageType, Outline, Salvage, describe};

/// Where decisions come from.
pub trait Dice {
    /// 0 to `n - 1`.
    fn roll(&mut self, n: usize) -> usize;
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Seeded(pub u64);

impl Dice for Seeded {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
    }
}

/// What messages are made of: whole seeds, and their objects by themselves.
pub struct Stock {
    messages: Vec<Vec<u8>>,
    objects: Vec<Vec<u8>>,
}

impl Stock {
    /// From the corpus beside this crate.
    pub fn read() -> Stock {
        // From this crate, and from the fuzz target that is made of this file.
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = ["seeds", "../engine/wire/seeds"].map(|folder| root.join(folder)).into_iter().find(|f| f.is_dir());
        let mut files: Vec<_> =
            std::fs::read_dir(folder.expect("seeds")).expect("the corpus").map(|e| e.expect("a file").path()).collect();
        files.sort();
        let messages: Vec<Vec<u8>> = files.iter().map(|f| hex(&std::fs::read_to_string(f).expect("text"))).collect();
        let mut objects = Vec::new();
        for bytes in &messages {
            let Ok(message) = Message::parse(bytes) else { continue };
            for o in message.envelope().objects {
                let length = (o.body.len() as u16 + 4).to_be_bytes();
                objects.push([&[length[0], length[1], o.class, o.ctype], o.body].concat());
            }
        }
        objects.sort();
        objects.dedup();
        Stock { messages, objects }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.lines().flat_map(|l| l.split('#').next().unwrap_or("").split_whitespace()).collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

/// One message, right in its lengths (mostly) and without a checksum.
pub fn make(dice: &mut impl Dice, stock: &Stock, out: &mut Vec<u8>) {
    out.clear();
    match dice.roll(8) {
        // A seed, whole.
        0 => out.extend_from_slice(&stock.messages[dice.roll(stock.messages.len())]),
        // A seed with objects taken out, put in, doubled, exchanged.
        1..6 => rebuilt(dice, stock, out),
        // A Bundle of such.
        6 => {
            out.extend_from_slice(&[0x11, 12, 0, 0, 63, 0, 0, 0]);
            let mut part = Vec::new();
            for _ in 0..1 + dice.roll(3) {
                rebuilt(dice, stock, &mut part);
                finish(&mut part);
                out.extend_from_slice(&part);
            }
        }
        // Objects of no message, under any type.
        _ => {
            let kinds = [1, 2, 3, 4, 5, 6, 7, 13, 15, 20, 25, 26];
            out.extend_from_slice(&[0x10, kinds[dice.roll(kinds.len())], 0, 0, 63, 0, 0, 0]);
            for _ in 0..dice.roll(12) {
                out.extend_from_slice(&stock.objects[dice.roll(stock.objects.len())]);
            }
        }
    }
    finish(out);
    for _ in 0..dice.roll(4) {
        spoil(dice, stock, out);
    }
    if out.len() >= 8 && dice.roll(16) != 0 {
        out[2..4].fill(0);
    }
}

/// A seed's objects with some changes of place.
fn rebuilt(dice: &mut impl Dice, stock: &Stock, out: &mut Vec<u8>) {
    out.clear();
    let seed = &stock.messages[dice.roll(stock.messages.len())];
    out.extend_from_slice(&seed[..8]);
    let mut at = 8;
    while let Some(&[hi, lo]) = seed.get(at..at + 2).and_then(|b| b.first_chunk::<2>()) {
        let end = (at + usize::from(u16::from_be_bytes([hi, lo])).max(4)).min(seed.len());
        let object = &seed[at..end];
        at = end;
        match dice.roll(24) {
            0 => {}
            1 => [object, object].iter().for_each(|o| out.extend_from_slice(o)),
            2 => out.extend_from_slice(&stock.objects[dice.roll(stock.objects.len())]),
            3 => {
                out.extend_from_slice(&stock.objects[dice.roll(stock.objects.len())]);
                out.extend_from_slice(object);
            }
            4 => {
                // Another class or C-Type around the same body.
                let start = out.len();
                out.extend_from_slice(object);
                let place = start + 2 + dice.roll(2);
                out[place] = dice.roll(256) as u8;
            }
            5 => {
                let body = vec![dice.roll(256) as u8; 4 * dice.roll(9)];
                let length = (body.len() as u16 + 4).to_be_bytes();
                out.extend_from_slice(&[length[0], length[1], dice.roll(256) as u8, dice.roll(8) as u8]);
                out.extend_from_slice(&body);
            }
            _ => out.extend_from_slice(object),
        }
    }
}

/// The length that it has, and no checksum.
fn finish(out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    out[2..4].fill(0);
    out[6..8].copy_from_slice(&length);
}

/// One change that knows where numbers are.
fn spoil(dice: &mut impl Dice, stock: &Stock, out: &mut Vec<u8>) {
    if out.len() < 12 {
        return;
    }
    const TELLING: [u32; 16] = [
        0,
        1,
        3,
        4,
        7,
        8,
        0x7f,
        0x80,
        0xff,
        0xfffc,
        0xffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x8000_0000,
        0xff80_0000,
        u32::MAX,
    ];
    let at = 4 * dice.roll(out.len() / 4);
    match dice.roll(7) {
        0 => out[at] ^= 1 << dice.roll(8),
        1 => {
            let place = dice.roll(out.len());
            out[place] = dice.roll(256) as u8;
        }
        2 => out[at..at + 4].copy_from_slice(&TELLING[dice.roll(16)].to_be_bytes()),
        3 => out[at..at + 2].copy_from_slice(&(TELLING[dice.roll(11)] as u16).to_be_bytes()),
        4 => {
            // A length off by one word.
            let length = u16::from_be_bytes([out[at], out[at + 1]]);
            let other = if dice.roll(2) == 0 { length.wrapping_add(4) } else { length.wrapping_sub(4) };
            out[at..at + 2].copy_from_slice(&other.to_be_bytes());
        }
        5 => {
            out.truncate(at.max(8));
            finish(out);
        }
        _ => {
            let object = &stock.objects[dice.roll(stock.objects.len())];
            let at = at.max(8);
            out.splice(at..at, object.iter().copied());
            finish(out);
        }
    }
}

/// A digest of all that a description says.
struct Heard(u64);

impl Heard {
    fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(29);
    }
}

impl Visitor for Heard {
    fn field(&mut self, name: &'static str, value: FieldValue<'_>) {
        // A copy has its own checksum.
        if name != "RSVP_Checksum" {
            self.add(name.len() as u64);
            self.item(value);
        }
    }
    fn item(&mut self, value: FieldValue<'_>) {
        match value {
            FieldValue::Number(n) => self.add(n),
            FieldValue::Float(f) => self.add(u64::from(f.to_bits())),
            FieldValue::Address(a) => self.add(a.is_ipv4().into()),
            FieldValue::Bytes(b) => b.iter().for_each(|b| self.add(u64::from(*b))),
            FieldValue::Text(t) => self.add(t.len() as u64),
            FieldValue::Flag(f) => self.add(f.into()),
        }
    }
    fn list(&mut self, name: &'static str) {
        self.add(name.len() as u64);
    }
    fn record(&mut self, _: Option<&'static str>) {
        self.add(1);
    }
    fn end(&mut self) {
        self.add(2);
    }
}

fn said(message: &Message<'_>) -> u64 {
    let mut heard = Heard(0);
    describe(message, &mut heard);
    heard.0
}

/// Reads a message every way there is; whether it was accepted. Panics if anything is not as it must be.
pub fn read(bytes: &[u8], scratch: &mut Vec<u8>) -> bool {
    if let Ok(outline) = Outline::read(bytes) {
        black_box(outline.signed_parts(bytes).map(|p| p.iter().map(|p| p.len()).sum::<usize>()));
    }
    let Ok(message) = Message::parse(bytes) else {
        black_box(Salvage::read(bytes).map(|s| s.quotable().count()));
        return false;
    };
    let envelope = message.envelope();
    black_box(envelope.forwarded().count() + envelope.policy_data().count() + envelope.acks().count());
    match &message {
        Message::Path(m) => drop(black_box(m.adspec.map(|a| a.fragments.count()))),
        Message::Resv(m) => assert!(m.flows().count() > 0, "a Resv without flow descriptors"),
        Message::ResvConf(m) => assert!(m.flows().count() > 0, "a ResvConf without flow descriptors"),
        Message::ResvTear(m) => assert!(m.flows().count() > 0, "a ResvTear without flow descriptors"),
        Message::ResvErr(m) => drop(black_box(m.flows().count())),
        Message::Bundle(m) => {
            let total: usize = m.messages().map(<[u8]>::len).sum();
            assert_eq!(total + 8, envelope.header.length, "every byte of a Bundle is in a sub-message");
            m.messages().for_each(|m| _ = black_box(read(m, &mut Vec::new())));
        }
        Message::Srefresh(m) => drop(black_box(m.lists().flat_map(|l| l.ids()).fold(0, u32::wrapping_add))),
        Message::Ack(_) => assert!(envelope.acks().count() > 0, "an Ack of nothing"),
        Message::PathErr(_) | Message::PathTear(_) | Message::Hello(_) => {}
        Message::IntegrityChallenge(m) => assert!(!m.challenge.cookie.is_empty()),
        Message::IntegrityResponse(m) => assert!(m.integrity.digest.len() >= 16),
    }
    copied(&message, scratch);
    true
}

/// The same objects, written again, are accepted and say the same.
fn copied(message: &Message<'_>, scratch: &mut Vec<u8>) {
    let envelope = message.envelope();
    scratch.resize(1 << 16, 0);
    let mut copy = Builder::within(scratch, message.kind(), envelope.header.send_ttl).flags(envelope.header.flags);
    for object in envelope.objects {
        copy = copy.object(&object);
    }
    if let Message::Bundle(bundle) = message {
        copy = bundle.messages().fold(copy, |copy, m| copy.sub_message(m));
    }
    let length = copy.finish().expect("it fitted before");
    let again = Message::parse(&scratch[..length]).expect("the same objects are accepted again");
    assert_eq!(again.kind(), message.kind());
    assert_eq!(said(&again), said(message), "the copy says the same");
}

/// How it went.
#[derive(Clone, Copy, Default, Debug)]
pub struct Report {
    /// Messages read.
    pub executions: u64,
    /// Of them accepted.
    pub accepted: u64,
    /// Of them Bundles, summaries and the like: what is between neighbours.
    pub neighbourly: u64,
    /// Panics.
    pub crashes: u64,
}

/// Makes and reads `count` messages, one for each seed from `first` on.
pub fn run(first: u64, count: u64, mut progress: impl FnMut(&Report)) -> Report {
    let stock = Stock::read();
    let (mut report, mut bytes, mut scratch) = (Report::default(), Vec::new(), Vec::new());
    for seed in first..first.wrapping_add(count) {
        make(&mut Seeded(seed.wrapping_mul(0xd134_2543_de82_ef95)), &stock, &mut bytes);
        match catch_unwind(AssertUnwindSafe(|| read(&bytes, &mut scratch))) {
            Ok(accepted) => {
                report.accepted += u64::from(accepted);
                let kind = bytes.get(1).and_then(|n| MessageType::from_number(*n));
                report.neighbourly += u64::from(accepted && kind.is_some_and(|k| k > MessageType::ResvConf));
            }
            Err(_) => {
                report.crashes += 1;
                println!("seed {seed}: {bytes:02x?}");
            }
        }
        report.executions += 1;
        if report.executions.is_multiple_of(1 << 20) {
            progress(&report);
        }
    }
    report
}
