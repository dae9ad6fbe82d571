//! Two levels in one buffer with push-out, against a plain list; and the last packet of a FIFO.

use proptest::prelude::*;
use traffic::plan::QueueSpec;
use traffic::queue::{Fifo, Full, Pool, QueueLevel, TwoLevels};

fn pool(packets: u32) -> Pool<u32> {
    let mut pool = Pool::new(packets);
    pool.reserve(packets.into());
    pool
}

#[test]
fn a_full_buffer_drops_best_effort_and_controlled_load_only_beside_its_own() {
    let (mut queue, mut pool) = (TwoLevels::new(50), pool(1_000));
    for n in 0..50 {
        assert_eq!(queue.push(&mut pool, QueueLevel::Second, 100, n), Ok(None));
    }
    assert_eq!(queue.push(&mut pool, QueueLevel::Second, 100, 50), Err(Full::Packets));
    for n in 0..50 {
        // The last that came leaves first.
        assert_eq!(queue.push(&mut pool, QueueLevel::First, 200, 100 + n), Ok(Some((100, 49 - n))));
        assert_eq!((queue.packets(), pool.len()), (50, 50));
    }
    assert_eq!(queue.push(&mut pool, QueueLevel::First, 200, 150), Err(Full::Packets));
    assert_eq!(queue.push(&mut pool, QueueLevel::Second, 100, 51), Err(Full::Packets));
    assert_eq!((queue.packets_of(QueueLevel::First), queue.packets_of(QueueLevel::Second)), (50, 0));
    assert_eq!(queue.pop(&mut pool), Some((QueueLevel::First, 200, 100)));
    assert_eq!(queue.push(&mut pool, QueueLevel::Second, 100, 52), Ok(None));
}

#[test]
fn a_pool_without_room_refuses_what_it_cannot_hold_and_pushes_out_in_place() {
    let (mut queue, mut pool) = (TwoLevels::new(3), pool(2));
    assert_eq!(queue.push(&mut pool, QueueLevel::Second, 1, 0), Ok(None));
    assert_eq!(queue.push(&mut pool, QueueLevel::Second, 1, 1), Ok(None));
    assert_eq!(queue.push(&mut pool, QueueLevel::First, 1, 2), Err(Full::Pool), "the queue itself is not full");
    assert_eq!(queue.packets(), 2);
    let mut small = TwoLevels::new(2);
    let mut own = self::pool(2);
    assert_eq!(small.push(&mut own, QueueLevel::Second, 1, 0), Ok(None));
    assert_eq!(small.push(&mut own, QueueLevel::Second, 1, 1), Ok(None));
    assert_eq!(small.push(&mut own, QueueLevel::First, 1, 2), Ok(Some((1, 1))), "its place in the pool is free again");
}

#[test]
fn no_room_takes_no_packet() {
    let (mut queue, mut pool) = (TwoLevels::new(0), pool(4));
    for level in [QueueLevel::First, QueueLevel::Second] {
        assert_eq!(queue.push(&mut pool, level, 1, 0), Err(Full::Packets));
    }
    assert_eq!((queue.pop(&mut pool), queue.is_empty(), queue.room()), (None, true, 0));
}

proptest! {
    #![proptest_config(chance::cases(256))]

    /// Against two plain lists.
    #[test]
    fn as_plain_lists(room in 1u32..9, steps in proptest::collection::vec((0u8..3, 1u32..2_000), 1..300)) {
        let (mut queue, mut pool) = (TwoLevels::new(room), pool(64));
        let mut lists: [Vec<(u32, u32)>; 2] = [Vec::new(), Vec::new()];
        for (number, (what, bytes)) in (0u32..).zip(steps) {
            let all = lists[0].len() + lists[1].len();
            match what {
                0 => {
                    let expected = if lists[0].len() as u32 == room {
                        Err(Full::Packets)
                    } else {
                        let out = if all as u32 == room { lists[1].pop() } else { None };
                        lists[0].push((bytes, number));
                        Ok(out)
                    };
                    prop_assert_eq!(queue.push(&mut pool, QueueLevel::First, bytes, number), expected);
                }
                1 => {
                    let expected = if all as u32 == room { Err(Full::Packets) } else { Ok(None) };
                    if expected.is_ok() {
                        lists[1].push((bytes, number));
                    }
                    prop_assert_eq!(queue.push(&mut pool, QueueLevel::Second, bytes, number), expected);
                }
                _ => {
                    let level = usize::from(lists[0].is_empty());
                    let next = (!lists[level].is_empty()).then(|| lists[level].remove(0));
                    let named = [QueueLevel::First, QueueLevel::Second][level];
                    let expected = next.map(|(bytes, number)| (named, bytes, number));
                    prop_assert_eq!(queue.pop(&mut pool), expected);
                }
            }
            let all = lists[0].len() + lists[1].len();
            prop_assert_eq!((queue.packets(), pool.len()), (all as u32, all as u32));
        }
    }

    /// A FIFO from both ends, against a plain list, beside another in the same pool.
    #[test]
    fn a_fifo_from_both_ends(steps in proptest::collection::vec((0u8..5, 1u32..2_000), 1..300)) {
        let limits = QueueSpec { packets: 8, bytes: terms::Bytes::new(9_000) };
        let (mut fifo, mut other, mut pool) = (Fifo::new(limits), Fifo::new(limits), pool(64));
        let mut list: Vec<(u32, u32)> = Vec::new();
        for (number, (what, bytes)) in (0u32..).zip(steps) {
            match what {
                0 | 1 => {
                    if fifo.push(&mut pool, bytes, number).is_ok() {
                        list.push((bytes, number));
                    }
                }
                2 => prop_assert_eq!(fifo.pop(&mut pool), (!list.is_empty()).then(|| list.remove(0))),
                3 => prop_assert_eq!(fifo.pop_last(&mut pool), list.pop()),
                _ => {
                    let _ = other.push(&mut pool, bytes, number);
                }
            }
            let sum: u64 = list.iter().map(|(bytes, _)| u64::from(*bytes)).sum();
            prop_assert_eq!((fifo.packets() as usize, fifo.bytes()), (list.len(), sum));
            prop_assert_eq!(fifo.head(&pool).copied(), list.first().map(|(_, number)| *number));
        }
    }
}
