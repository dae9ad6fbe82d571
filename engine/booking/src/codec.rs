//! Bytes of the journal: numbers of variable length (LEB128, seven bits an octet, the least first), byte strings with
//! their length before them. No input makes the reader panic or take more memory than the input has bytes.

use alloc::string::String;
use alloc::vec::Vec;

/// Bytes that break their format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

/// The writer of a record.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A writer with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Writer {
        Writer { bytes: Vec::with_capacity(bytes) }
    }

    /// The bytes that were written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.raw(text.as_bytes());
    }

    pub(crate) fn option<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Writer, &T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    pub(crate) fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|item| write(self, item));
    }
}

/// The reader of a record.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Corrupt> {
        let (&byte, rest) = self.rest.split_first().ok_or(Corrupt("it ends too early"))?;
        self.rest = rest;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Corrupt> {
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

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Corrupt> {
        T::try_from(self.number()?).map_err(|_| Corrupt("a number is too large"))
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Corrupt("it ends too early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        self.raw(N)?.try_into().map_err(|_| Corrupt("it ends too early"))
    }

    pub(crate) fn text(&mut self) -> Result<String, Corrupt> {
        let len = self.small()?;
        let text = core::str::from_utf8(self.raw(len)?).map_err(|_| Corrupt("text is not UTF-8"))?;
        Ok(text.into())
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Corrupt("neither there nor not")),
        }
    }

    /// Every item takes a byte at least, so that no length claims more memory than there is input.
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Corrupt>,
    ) -> Result<Vec<T>, Corrupt> {
        let len: usize = self.small()?;
        if len > self.rest.len() {
            return Err(Corrupt("it ends too early"));
        }
        (0..len).map(|_| read(self)).collect()
    }

    pub(crate) fn end(&self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt("something follows its end")) }
    }
}
