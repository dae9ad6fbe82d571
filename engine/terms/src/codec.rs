//! Bytes of the journal: numbers of variable length (LEB128, seven bits an octet, the least first), byte strings with
//! their length before them. No input makes the reader panic or take more memory than the input has bytes.

use alloc::string::String;
use alloc::vec::Vec;

/// Bytes that break their format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

/// The writer of a record.
#[derive(Default)]
pub struct RecordWriter {
    bytes: Vec<u8>,
}

impl RecordWriter {
    /// A writer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> RecordWriter {
        RecordWriter { bytes: Vec::with_capacity(bytes) }
    }

    /// The bytes that were written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes one byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes a number, one to ten bytes.
    pub fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    /// Writes bytes without their length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a text after its length.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.raw(text.as_bytes());
    }

    /// Writes a value that may be absent: 0, or 1 and the value.
    pub fn option<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut RecordWriter, &T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    /// Writes a list after its length.
    pub fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut RecordWriter, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|item| write(self, item));
    }
}

/// The reader of a record.
pub struct RecordReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordReader<'a> {
    /// A reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> RecordReader<'a> {
        RecordReader { rest: bytes }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        let (&byte, rest) = self.rest.split_first().ok_or(Corrupt("it ends too early"))?;
        self.rest = rest;
        Ok(byte)
    }

    /// Reads a number in its shortest form.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn number(&mut self) -> Result<u64, Corrupt> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let seven = u64::from(byte & 0x7f);
            if shift == 63 && seven > 1 {
                break;
            }
            n |= seven << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 { Err(Corrupt("a number is longer than it need be")) } else { Ok(n) };
            }
        }
        Err(Corrupt("a number is too large"))
    }

    /// Reads a number that must fit in a smaller type.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Corrupt> {
        T::try_from(self.number()?).map_err(|_| Corrupt("a number is too large"))
    }

    /// Reads so many bytes.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Corrupt("it ends too early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads exactly N bytes.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        self.raw(N)?.try_into().map_err(|_| Corrupt("it ends too early"))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn text(&mut self) -> Result<String, Corrupt> {
        let len = self.small()?;
        let text = core::str::from_utf8(self.raw(len)?).map_err(|_| Corrupt("text is not UTF-8"))?;
        Ok(text.into())
    }

    /// Reads a value that may be absent.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut RecordReader<'a>) -> Result<T, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Corrupt("neither there nor not")),
        }
    }

    /// Reads a list. Every item takes a byte at least, so that no length claims more memory than there is
    /// input.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut RecordReader<'a>) -> Result<T, Corrupt>,
    ) -> Result<Vec<T>, Corrupt> {
        let len: usize = self.small()?;
        if len > self.rest.len() {
            return Err(Corrupt("it ends too early"));
        }
        (0..len).map(|_| read(self)).collect()
    }

    /// Checks that every byte was read.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn end(&self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt("something follows its end")) }
    }
}
