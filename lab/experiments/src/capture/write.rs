//! Classic pcap, little endian, nanoseconds.

const MAGIC: u32 = 0xa1b2_3c4d;
const SNAP: u32 = 262_144;

/// A capture being written, in memory.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// The time does not fit the file format: it ends in February 2106.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLate;

impl Writer {
    /// Creates a capture of frames of one link type.
    pub fn new(link: u32) -> Writer {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0]);
        bytes.extend([0; 8]);
        bytes.extend(SNAP.to_le_bytes());
        bytes.extend(link.to_le_bytes());
        Writer { bytes }
    }

    /// Appends a frame, at a time in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`TooLate`]; nothing is written then.
    pub fn frame(&mut self, nanos: u64, frame: &[u8]) -> Result<(), TooLate> {
        let seconds = u32::try_from(nanos / 1_000_000_000).map_err(|_| TooLate)?;
        let length = frame.len() as u32;
        for word in [seconds, (nanos % 1_000_000_000) as u32, length, length] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(frame);
        Ok(())
    }

    /// Returns the bytes written since the last call. All of them in order are the file.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Returns the rest of the file.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
