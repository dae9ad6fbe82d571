//! FIFO and classifier against the standard library's own collections.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use terms::{Bytes, FlowKey};
use traffic::classifier::{Classifier, TableFull};
use traffic::plan::QueueSpec;
use traffic::queue::{Fifo, Full, Pool};

proptest! {
    #![proptest_config(chance::cases(256))]

    /// Many queues in one pool: each one's packets in order, each limit kept, and the first limit named.
    #[test]
    fn queues_share_a_pool(
        limits in proptest::collection::vec((0u32..8, 0u64..5000), 3),
        steps in proptest::collection::vec((0usize..3, proptest::option::of(0u32..2000)), 1..200),
    ) {
        let specs: Vec<QueueSpec> = limits.iter().map(|(p, b)| QueueSpec { packets: *p, bytes: Bytes::new(*b) }).collect();
        let mut pool = Pool::new(10);
        pool.reserve(1000);
        let mut queues: Vec<Fifo> = specs.iter().map(|s| Fifo::new(*s)).collect();
        let mut oracle: Vec<VecDeque<(u32, usize)>> = vec![VecDeque::new(); 3];
        for (n, (i, push)) in steps.iter().enumerate() {
            let all: usize = oracle.iter().map(VecDeque::len).sum();
            let own = &mut oracle[*i];
            let bytes: u64 = own.iter().map(|(b, _)| u64::from(*b)).sum();
            if let Some(len) = push {
                let expected = if own.len() as u32 >= specs[*i].packets {
                    Err(Full::Packets)
                } else if bytes + u64::from(*len) > specs[*i].bytes.get() {
                    Err(Full::Bytes)
                } else if all == 10 {
                    Err(Full::Pool)
                } else {
                    own.push_back((*len, n));
                    Ok(())
                };
                prop_assert_eq!(queues[*i].push(&mut pool, *len, n), expected);
            } else {
                prop_assert_eq!(queues[*i].head(&pool).copied(), own.front().map(|(_, n)| *n));
                prop_assert_eq!(queues[*i].head_bytes(&pool), own.front().map(|(b, _)| *b));
                prop_assert_eq!(queues[*i].pop(&mut pool), own.pop_front());
            }
            let own = &oracle[*i];
            let bytes: u64 = own.iter().map(|(b, _)| u64::from(*b)).sum();
            prop_assert_eq!((queues[*i].packets(), queues[*i].bytes()), (own.len() as u32, bytes));
            prop_assert_eq!(pool.len() as usize, oracle.iter().map(VecDeque::len).sum::<usize>());
        }
    }

    /// The classifier is a map from flow to entry, up to its limit.
    #[test]
    fn classifier_is_a_map(key in any::<[u64; 2]>(), steps in proptest::collection::vec((0u8..3, 0u16..40, any::<u32>()), 1..300)) {
        let mut classifier = Classifier::new(key, 20);
        let mut oracle: BTreeMap<FlowKey, u32> = BTreeMap::new();
        for (what, n, value) in steps {
            let flow = flow(n);
            match what {
                0 => {
                    let full = oracle.len() >= 20 && !oracle.contains_key(&flow);
                    let expected = if full { Err(TableFull) } else { Ok(oracle.insert(flow, value)) };
                    prop_assert_eq!(classifier.insert(flow, value), expected);
                }
                1 => prop_assert_eq!(classifier.remove(&flow), oracle.remove(&flow)),
                _ => prop_assert_eq!(classifier.get(&flow), oracle.get(&flow)),
            }
            prop_assert_eq!(classifier.len(), oracle.len());
        }
        let all: BTreeMap<FlowKey, u32> = classifier.iter().map(|(k, v)| (*k, *v)).collect();
        prop_assert_eq!(all, oracle);
    }
}

/// Forty tuples that differ in one field each, in both families.
fn flow(n: u16) -> FlowKey {
    let v6 = n % 2 == 1;
    let host = |h: u16| {
        if v6 {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, h))
        } else {
            IpAddr::V4(Ipv4Addr::from(u32::from(h)))
        }
    };
    let mut key =
        FlowKey { src: host(0), dst: host(0), protocol: 17, src_port: 0, dst_port: 0, wild: terms::Wild::NONE };
    let v = n / 10 + 1;
    match n % 10 / 2 {
        0 => key.src = host(v),
        1 => key.dst = host(v),
        2 => key.protocol = v as u8,
        3 => key.src_port = v,
        _ => key.dst_port = v,
    }
    key
}

/// A pool never grows when packets come: what is not reserved is refused.
#[test]
fn nothing_is_allocated_for_a_packet() {
    let mut pool = Pool::new(100);
    let mut fifo = Fifo::new(QueueSpec { packets: 100, bytes: Bytes::MAX });
    assert_eq!(fifo.push(&mut pool, 1, 'a'), Err(Full::Pool));
    pool.reserve(2);
    fifo.push(&mut pool, 1, 'a').unwrap();
    fifo.push(&mut pool, 1, 'b').unwrap();
    assert_eq!((fifo.pop(&mut pool), fifo.pop(&mut pool), fifo.pop(&mut pool)), (Some((1, 'a')), Some((1, 'b')), None));
}
