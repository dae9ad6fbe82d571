//! What every store does alike: one suite for all of them.

use crate::postgres::{database, leader};
use crate::script::{Content, TRANSACTIONS, batch, options, scratch};
use store::sqlite::Sqlite;
use store::{Batch, ChainLink, Damage, Error, MAX_KEY, MAX_VALUE, Record, Store, TableId};

#[test]
fn sqlite_does_what_a_store_does() {
    suite(&mut |name| {
        let place = scratch(&format!("conform-{name}"));
        Box::new(move || Box::new(Sqlite::open(&place.0, options(None)).unwrap()))
    });
}

#[test]
fn postgres_does_what_a_store_does() {
    let Some(server) = database("conform", &[]) else { return };
    suite(&mut |name| {
        let (connection, name) = (server.connection(), name.to_owned());
        Box::new(move || Box::new(leader(&connection, &name)))
    });
}

/// Opens the same journal again and again.
type Open = Box<dyn Fn() -> Box<dyn Store>>;

/// `fresh` makes an empty journal of this name.
fn suite(fresh: &mut dyn FnMut(&str) -> Open) {
    what_is_committed_is_there_after_each_opening(&*fresh("script"));
    several_batches_are_as_one_after_another(&*fresh("order"));
    limits_are_reached(&*fresh("limits"));
    the_trail_is_read_in_pages(&*fresh("trail"));
}

fn what_is_committed_is_there_after_each_opening(open: &dyn Fn() -> Box<dyn Store>) {
    let (mut last, mut head) = (0, ChainLink::default());
    for n in 0..TRANSACTIONS {
        if n % 40 == 0 {
            let mut store = open();
            assert!(store.epoch() > last, "each opening has a higher epoch: {} after {last}", store.epoch());
            assert_eq!(store.head(), head);
            assert!(Content::of(&mut store).unwrap() == Content::after(n), "after {n}");
            last = store.epoch();
            for m in n..n + 40 {
                store.commit(&mut [batch(m)].iter()).unwrap();
                store.tidy(m % 3 == 0).unwrap();
            }
            assert!(Content::of(&mut store).unwrap() == Content::after(n + 40), "after {}", n + 40);
            head = store.head();
        }
    }
    let mut store = open();
    assert!(Content::of(&mut store).unwrap() == Content::after(TRANSACTIONS));
    let chain =
        (0..TRANSACTIONS).fold(ChainLink::default(), |link, n| link.next(format!("transaction {n}").as_bytes()));
    assert_eq!(store.head(), chain);
}

fn several_batches_are_as_one_after_another(open: &dyn Fn() -> Box<dyn Store>) {
    let put = |key: &[u8], value: &[u8]| Record::Put { table: TableId(7), key: key.into(), value: value.into() };
    let delete = |key: &[u8]| Record::Delete { table: TableId(7), key: key.into() };
    let audit = |body: &[u8]| Record::Audit { body: body.into() };
    let batches: Vec<Batch> = vec![
        vec![put(b"a", b"1"), audit(b"one"), put(b"a", b"2")],
        vec![],
        vec![delete(b"a"), put(b"b", b"1"), delete(b"never there")],
        vec![put(b"a", b"3"), audit(b"two"), delete(b"b")],
    ];
    let mut store = open();
    store.commit(&mut batches.iter()).unwrap();
    store.commit(&mut [].iter()).unwrap();
    store.commit(&mut [vec![]].iter()).unwrap();
    let mut expected = Content::default();
    batches.iter().for_each(|batch| expected.apply(batch));
    assert!(Content::of(&mut store).unwrap() == expected);
    drop(store);
    assert!(Content::of(&mut open()).unwrap() == expected);
}

fn limits_are_reached(open: &dyn Fn() -> Box<dyn Store>) {
    let large: Batch = vec![
        Record::Put { table: TableId(u16::MAX), key: vec![255; MAX_KEY], value: vec![0; MAX_VALUE] },
        Record::Put { table: TableId(0), key: Vec::new(), value: Vec::new() },
        Record::Put { table: TableId(0), key: vec![0], value: vec![0] },
        Record::Audit { body: Vec::new() },
        Record::Audit { body: vec![0; MAX_VALUE] },
    ];
    // More records than any page of any store.
    let many: Batch = (0..3_000_u32)
        .map(|n| Record::Put { table: TableId(1), key: n.to_be_bytes().to_vec(), value: vec![1] })
        .collect();
    let mut expected = Content::default();
    let mut store = open();
    for batch in [large, many] {
        store.commit(&mut [batch.clone()].iter()).unwrap();
        expected.apply(&batch);
    }
    assert!(Content::of(&mut store).unwrap() == expected);
    drop(store);
    assert!(Content::of(&mut open()).unwrap() == expected);
}

fn the_trail_is_read_in_pages(open: &dyn Fn() -> Box<dyn Store>) {
    let mut store = open();
    let body = |n: u64| n.to_be_bytes().to_vec();
    store.commit(&mut [(1..=1_300).map(|n| Record::Audit { body: body(n) }).collect::<Batch>()].iter()).unwrap();
    for (from, most) in [(0, 1), (1, 10), (600, 700), (1_290, 100), (1_300, 1), (1_301, 5), (1, u64::MAX)] {
        let mut found = Vec::new();
        store.audit(from, most, &mut |link, bytes| found.push((link.number, bytes.to_vec()))).unwrap();
        let upto = from.max(1).saturating_add(most).min(1_301);
        let expected: Vec<_> = (from.max(1)..upto).map(|n| (n, body(n))).collect();
        assert!(found == expected, "{most} from {from}");
    }
    let beyond = store.audit(1_302, 1, &mut |_, _| {});
    assert_eq!(beyond, Err(Error::Damaged(Damage::Audit(1_301))));
}
