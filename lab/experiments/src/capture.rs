//! Capture files: classic pcap (microseconds and nanoseconds, both byte orders) and pcapng (section, interface,
//! enhanced and simple packet blocks; the rest is passed over). [`frame`] finds the IP packet in a frame; [`write`] writes
//! classic pcap with nanoseconds.

// By path, so that the fuzz target can take this file by itself.
#[path = "capture/frame.rs"]
pub mod frame;
#[path = "capture/write.rs"]
pub mod write;

/// One captured frame.
pub struct CapturedPacket<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// The time, nanoseconds since 1970.
    pub nanos: u64,
    /// The link type.
    pub link: u32,
    /// The captured bytes of the frame.
    pub bytes: &'a [u8],
}

/// The error of a file that ends, or becomes invalid, in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// A description of the error.
    pub what: &'static str,
    /// The offset in the file, bytes.
    pub offset: usize,
}

/// The records of a capture file.
pub struct CaptureFile<'a> {
    all: &'a [u8],
    rest: &'a [u8],
    big_endian: bool,
    number: u64,
    form: Form,
}

enum Form {
    Pcap {
        link: u32,
        /// Nanoseconds in the unit of the fraction field.
        unit: u64,
    },
    Pcapng {
        interfaces: Vec<Interface>,
    },
}

#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    snap: usize,
    /// Ticks in a second.
    ticks: u64,
}

/// The largest frame or block that is accepted, bytes.
const MAX_BLOCK: usize = 16 << 20;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

impl<'a> CaptureFile<'a> {
    /// Reads the file's first bytes.
    ///
    /// # Errors
    /// The file is no capture, or ends in its header.
    pub fn new(all: &'a [u8]) -> Result<CaptureFile<'a>, &'static str> {
        let Some(magic) = all.first_chunk::<4>() else {
            return Err("the capture is empty or cut off");
        };
        let start = |rest, big_endian, form| Ok(CaptureFile { all, rest, big_endian, number: 0, form });
        let (big_endian, unit) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            [0x0a, 0x0d, 0x0d, 0x0a] => return start(all, false, Form::Pcapng { interfaces: Vec::new() }),
            _ => return Err("not a capture file"),
        };
        let Some((head, rest)) = all.split_at_checked(24) else {
            return Err("the capture is cut off in its header");
        };
        // The high bits of the last word say things about frame check sequences.
        let link = word(head, 20, big_endian).unwrap_or_default() & 0xffff;
        start(rest, big_endian, Form::Pcap { link, unit })
    }

    fn offset(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    fn pcap_record(&mut self, link: u32, unit: u64) -> Option<CapturedPacket<'a>> {
        let at = |i| word(self.rest, i, self.big_endian);
        let (seconds, fraction, kept) = (at(0)?, at(4)?, at(8)? as usize);
        let bytes = self.rest.get(16..)?.get(..kept).filter(|_| kept <= MAX_BLOCK)?;
        self.rest = &self.rest[16 + kept..];
        self.number += 1;
        let nanos = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        Some(CapturedPacket { number: self.number, nanos, link, bytes })
    }

    /// One pcapng block: `Some(None)` if it holds no packet.
    fn block(&mut self) -> Option<Option<CapturedPacket<'a>>> {
        if word(self.rest, 0, true)? == SECTION {
            self.big_endian = word(self.rest, 8, true)? == 0x1a2b_3c4d;
            if let Form::Pcapng { interfaces } = &mut self.form {
                interfaces.clear();
            }
        }
        let kind = word(self.rest, 0, self.big_endian)?;
        let length = word(self.rest, 4, self.big_endian)? as usize;
        if length < 12 || !length.is_multiple_of(4) || length > MAX_BLOCK {
            return None;
        }
        let body = self.rest.get(8..length.checked_sub(4)?)?;
        self.rest = self.rest.get(length..)?;
        let big = self.big_endian;
        let Form::Pcapng { interfaces } = &mut self.form else { return None };
        match kind {
            INTERFACE => {
                interfaces.push(interface(body, big)?);
                Some(None)
            }
            ENHANCED_PACKET => {
                let from = *interfaces.get(word(body, 0, big)? as usize)?;
                let ticks = u64::from(word(body, 4, big)?) << 32 | u64::from(word(body, 8, big)?);
                let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(from.ticks);
                let bytes = body.get(20..)?.get(..word(body, 12, big)? as usize)?;
                self.number += 1;
                let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                Some(Some(CapturedPacket { number: self.number, nanos, link: from.link, bytes }))
            }
            SIMPLE_PACKET => {
                let from = *interfaces.first()?;
                let kept = (word(body, 0, big)? as usize).min(from.snap);
                self.number += 1;
                Some(Some(CapturedPacket {
                    number: self.number,
                    nanos: 0,
                    link: from.link,
                    bytes: body.get(4..)?.get(..kept)?,
                }))
            }
            _ => Some(None),
        }
    }
}

impl<'a> Iterator for CaptureFile<'a> {
    type Item = Result<CapturedPacket<'a>, Cut>;

    fn next(&mut self) -> Option<Result<CapturedPacket<'a>, Cut>> {
        while !self.rest.is_empty() {
            let offset = self.offset();
            let step = match self.form {
                Form::Pcap { link, unit } => self.pcap_record(link, unit).map(Some),
                Form::Pcapng { .. } => self.block(),
            };
            match step {
                Some(Some(record)) => return Some(Ok(record)),
                Some(None) => {}
                None => {
                    self.rest = &[];
                    return Some(Err(Cut { what: "the capture is cut off or damaged here", offset }));
                }
            }
        }
        None
    }
}

/// An interface description block: link type, snap length, and the option 9, `if_tsresol`.
fn interface(body: &[u8], big: bool) -> Option<Interface> {
    let [a, b] = *body.first_chunk::<2>()?;
    let link = u32::from(if big { u16::from_be_bytes([a, b]) } else { u16::from_le_bytes([a, b]) });
    let snap = match word(body, 4, big)? as usize {
        0 => usize::MAX,
        snap => snap,
    };
    let mut ticks = 1_000_000;
    let mut options = body.get(8..)?;
    while let Some(&[a, b, c, d]) = options.first_chunk::<4>() {
        let half = |x, y| usize::from(if big { u16::from_be_bytes([x, y]) } else { u16::from_le_bytes([x, y]) });
        let (code, length) = (half(a, b), half(c, d));
        let value = options.get(4..)?.get(..length)?;
        match (code, value) {
            (0, _) => break,
            (9, &[exponent]) => ticks = resolution(exponent)?,
            _ => {}
        }
        options = options.get(4 + length.next_multiple_of(4)..)?;
    }
    Some(Interface { link, snap, ticks })
}

/// Ticks a second: a power of ten, or of two if the high bit is set.
fn resolution(exponent: u8) -> Option<u64> {
    let power = u32::from(exponent & 0x7f);
    if exponent & 0x80 == 0 { 10u64.checked_pow(power) } else { 2u64.checked_pow(power) }
}

fn word(bytes: &[u8], at: usize, big: bool) -> Option<u32> {
    let four = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
}
