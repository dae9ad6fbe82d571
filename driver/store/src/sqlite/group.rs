//! A group of batches as the bytes of one row of the log table, and back.
//!
//! Each record begins with one octet for its kind. Then, big-endian: for a put the table (2 octets), the
//! lengths of key and value (4 each), key, value; for a deletion the table, the length of the key, the key;
//! for an audit entry its length and its bytes.

use crate::{Batch, ChainLink, Record};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const AUDIT: u8 = 3;

/// A record as encoded in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry<'a> {
    /// Sets the value of a key.
    Put { table: u16, key: &'a [u8], value: &'a [u8] },
    /// Removes a key.
    Delete { table: u16, key: &'a [u8] },
    /// An entry of the audit trail.
    Audit { body: &'a [u8] },
}

/// Encodes the batches. Returns the bytes and the last link of the audit trail after them.
pub(super) fn encode(batches: &mut dyn Iterator<Item = &Batch>, mut head: ChainLink) -> (Vec<u8>, ChainLink) {
    let mut bytes = Vec::new();
    for record in batches.flatten() {
        match record {
            Record::Put { table, key, value } => {
                bytes.push(PUT);
                bytes.extend(table.0.to_be_bytes());
                bytes.extend(length(key));
                bytes.extend(length(value));
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(value);
            }
            Record::Delete { table, key } => {
                bytes.push(DELETE);
                bytes.extend(table.0.to_be_bytes());
                bytes.extend(length(key));
                bytes.extend_from_slice(key);
            }
            Record::Audit { body } => {
                head = head.next(body);
                bytes.push(AUDIT);
                bytes.extend(length(body));
                bytes.extend_from_slice(body);
            }
        }
    }
    (bytes, head)
}

/// Encodes a length. The limits of [`crate::record`] keep it far below 2^32.
fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// The records in the bytes of a group. A malformed record gives `None` and ends the iteration.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = take(&mut rest);
        if entry.is_none() {
            rest = &[];
        }
        Some(entry)
    })
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let [kind] = *array::<1>(rest)?;
    match kind {
        PUT => {
            let table = u16::from_be_bytes(*array(rest)?);
            let (key, value) = (len(rest)?, len(rest)?);
            Some(Entry::Put { table, key: some(rest, key)?, value: some(rest, value)? })
        }
        DELETE => {
            let table = u16::from_be_bytes(*array(rest)?);
            let key = len(rest)?;
            Some(Entry::Delete { table, key: some(rest, key)? })
        }
        AUDIT => {
            let body = len(rest)?;
            Some(Entry::Audit { body: some(rest, body)? })
        }
        _ => None,
    }
}

fn len(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(*array(rest)?)).ok()
}

fn array<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(first)
}

fn some<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(count)?;
    *rest = others;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableId;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_found() {
        let batch = vec![
            Record::Put { table: TableId(7), key: vec![1, 2], value: vec![3; 300] },
            Record::Delete { table: TableId(9), key: vec![4] },
            Record::Put { table: TableId(1), key: Vec::new(), value: Vec::new() },
            Record::Audit { body: b"who".to_vec() },
        ];
        let (bytes, head) = encode(&mut [batch].iter(), ChainLink::default());
        assert_eq!(head, ChainLink::default().next(b"who"));
        let found: Vec<_> = entries(&bytes).collect();
        let expected = [
            Entry::Put { table: 7, key: &[1, 2], value: &[3; 300] },
            Entry::Delete { table: 9, key: &[4] },
            Entry::Put { table: 1, key: &[], value: &[] },
            Entry::Audit { body: b"who" },
        ];
        assert_eq!(found, expected.map(Some));
        let whole = (0..bytes.len()).filter(|&end| entries(&bytes[..end]).all(|entry| entry.is_some())).count();
        assert_eq!(whole, 4, "only between two records, and before the first");
        assert_eq!(entries(&[4, 0, 0]).collect::<Vec<_>>(), [None], "no such kind");
    }
}
