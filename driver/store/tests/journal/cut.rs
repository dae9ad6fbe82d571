//! The connection is cut at each byte of a commit, on its way there and on its way back.

use crate::postgres::{database, leader};
use crate::script::Content;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Batch, Record, Store, TableId};

/// No cut.
const NEVER: i64 = i64::MAX;

/// A socket before the server's own, which cuts connections after so many bytes.
struct Proxy {
    dir: PathBuf,
    /// What may still pass to the server, and from it.
    left: Arc<[AtomicI64; 2]>,
}

impl Proxy {
    fn start(server: PathBuf) -> Proxy {
        let dir = std::env::temp_dir().join(format!("sluice-pg-proxy-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let listener = UnixListener::bind(dir.join(".s.PGSQL.5432")).unwrap();
        let left: Arc<[AtomicI64; 2]> = Arc::new([AtomicI64::new(NEVER), AtomicI64::new(NEVER)]);
        let theirs = left.clone();
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                // The server may be gone: then so is the client.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                for (way, from, to) in [(0, &client, &server), (1, &server, &client)] {
                    let (from, to, left) = (from.try_clone().unwrap(), to.try_clone().unwrap(), theirs.clone());
                    std::thread::spawn(move || pass(from, to, &left[way]));
                }
            }
        });
        Proxy { dir, left }
    }

    fn cut(&self, way: usize, after: i64) {
        self.left[way].store(after, Ordering::SeqCst);
    }

    /// What has passed since the last [`Proxy::cut`] after `after`.
    fn passed(&self, way: usize, after: i64) -> i64 {
        after - self.left[way].load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Passes bytes on until there is an end, or a cut, which is made once: both ways, at once.
fn pass(mut from: UnixStream, mut to: UnixStream, left: &AtomicI64) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = left.load(Ordering::SeqCst);
        let passes = if before == NEVER { count } else { usize::try_from(before).unwrap_or(0).min(count) };
        // Counted before whoever waits for these bytes has them.
        if passes < count {
            left.store(NEVER, Ordering::SeqCst);
        } else if before != NEVER {
            left.fetch_sub(passes as i64, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..passes]).is_err() || passes < count {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn batch(n: u64) -> Batch {
    vec![
        Record::Put { table: TableId(1), key: (n % 7).to_be_bytes().to_vec(), value: n.to_be_bytes().to_vec() },
        Record::Delete { table: TableId(1), key: ((n + 3) % 7).to_be_bytes().to_vec() },
        Record::Audit { body: n.to_be_bytes().to_vec() },
    ]
}

#[test]
fn a_connection_cut_at_each_byte_of_a_commit() {
    let Some(server) = database("cut", &[]) else { return };
    let proxy = Proxy::start(server.socket());
    let connection = format!("host={} user=sluice dbname=postgres", Path::new(&proxy.dir).display());
    let mut store = leader(&connection, "main");
    let (mut expected, mut n) = (Content::default(), 0);
    let mut commit = |store: &mut store::postgres::Postgres| {
        let one = batch(n);
        store.commit(&mut [one.clone()].iter()).unwrap_or_else(|error| panic!("batch {n}: {error}"));
        expected.apply(&one);
        n += 1;
    };
    commit(&mut store);
    for way in [0, 1] {
        // The renewals of the lease pass here too, every 375 ms: so the least of several.
        let length = (0..5)
            .map(|_| {
                proxy.cut(way, 1 << 40);
                commit(&mut store);
                proxy.passed(way, 1 << 40)
            })
            .min()
            .unwrap();
        assert!(length > 30, "{length}");
        for after in 0..length {
            proxy.cut(way, after);
            commit(&mut store);
            proxy.cut(way, NEVER);
            // One whole commit over the new connection, on which the next is cut.
            commit(&mut store);
        }
        println!("cut at each of {length} bytes, way {way}");
    }
    assert!(Content::of(&mut store).unwrap() == expected, "each is there once, in order");
    drop(store);
    assert!(Content::of(&mut leader(&server.connection(), "main")).unwrap() == expected);
}
