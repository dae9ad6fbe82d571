//! 200 transactions that are the same in every run, and what is in the journal after each.

use bench::Draw;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::sqlite::SqliteOptions;
use store::{Batch, Error, Record, Store, TableId};

/// How many.
pub const TRANSACTIONS: u64 = 200;

/// What a journal holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// Records.
    pub records: BTreeMap<(u16, Vec<u8>), Vec<u8>>,
    /// The audit trail.
    pub audit: Vec<Vec<u8>>,
}

/// The n-th transaction: new records, changed ones, deletions, an audit entry; values from nothing to more than a page.
pub fn batch(n: u64) -> Batch {
    let mut draw = Draw::new(n);
    let mut batch: Batch = (0..1 + draw.next_u32() % 5)
        .map(|_| {
            let (table, key) = (TableId((draw.next_u32() % 3) as u16), (draw.next_u64() % 120).to_be_bytes().to_vec());
            let len = if draw.next_u32().is_multiple_of(8) { 6000 } else { draw.next_u32() % 300 };
            let value = (0..len).map(|_| draw.next_u32() as u8).collect();
            if draw.next_u32().is_multiple_of(4) {
                Record::Delete { table, key }
            } else {
                Record::Put { table, key, value }
            }
        })
        .collect();
    batch.push(Record::Audit { body: format!("transaction {n}").into_bytes() });
    batch
}

impl Content {
    /// After one more transaction.
    pub fn apply(&mut self, batch: &Batch) {
        for record in batch.clone() {
            match record {
                Record::Put { table, key, value } => drop(self.records.insert((table.0, key), value)),
                Record::Delete { table, key } => drop(self.records.remove(&(table.0, key))),
                Record::Audit { body } => self.audit.push(body),
            }
        }
    }

    /// After the first `count`.
    pub fn after(count: u64) -> Content {
        (0..count).fold(Content::default(), |mut content, n| {
            content.apply(&batch(n));
            content
        })
    }

    /// What is in a journal.
    pub fn of(store: &mut dyn Store) -> Result<Content, Error> {
        let mut content = Content::default();
        store.scan(&mut |table, key, value| drop(content.records.insert((table.0, key.to_vec()), value.to_vec())))?;
        store.audit(1, u64::MAX, &mut |_, body| content.audit.push(body.to_vec()))?;
        Ok(content)
    }
}

/// An empty directory of this test's own: in memory where there is such a place, since what is asked here is when the disk is
/// told, and not how long it takes.
pub fn scratch(name: &str) -> Scratch {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let path = base.join(format!("sluice-store-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    Scratch(path)
}

/// Goes with its holder.
pub struct Scratch(pub PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small journal that is posted and written back often.
pub fn options(vfs: Option<&str>) -> SqliteOptions {
    SqliteOptions {
        log_bytes: 0,
        idle_pages: 25,
        most_pages: 60,
        idle_bytes: 4_000,
        most_bytes: 12_000,
        any_filesystem: true,
        vfs: vfs.map(str::to_owned),
        ..SqliteOptions::default()
    }
}
