//! The store and what a power loss takes back, against plain vectors.

use headrace_emulator::store::{Full, Store, PAGE};
use headrace_emulator::volatile::Volatile;
use headrace_model::stream::Stream;
use headrace_model::SECTOR_BYTES;
use proptest::collection::vec;
use proptest::prelude::*;

const SIZE: u64 = 24 * PAGE + 3 * SECTOR_BYTES;

#[derive(Clone, Debug)]
enum Step {
    Write {
        sector: u64,
        sectors: u64,
        byte: u8,
    },
    Discard {
        sector: u64,
        sectors: u64,
    },
    Flush,
    /// The medium takes a range by itself.
    Settle {
        sector: u64,
        sectors: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let end = SIZE / SECTOR_BYTES;
    let range =
        (0..end, 1..40u64).prop_map(move |(sector, sectors)| (sector, sectors.min(end - sector)));
    prop_oneof![
        4 => (range.clone(), 0..4u8).prop_map(|((sector, sectors), byte)| Step::Write { sector, sectors, byte }),
        1 => range.clone().prop_map(|(sector, sectors)| Step::Discard { sector, sectors }),
        1 => Just(Step::Flush),
        1 => range.prop_map(|(sector, sectors)| Step::Settle { sector, sectors }),
    ]
}

fn content(store: &Store) -> Vec<u8> {
    let mut found = Vec::new();
    store.read(0, store.size(), |slices| {
        slices.iter().for_each(|slice| found.extend_from_slice(slice))
    });
    found
}

fn bytes(sector: u64, sectors: u64) -> std::ops::Range<usize> {
    (sector * SECTOR_BYTES) as usize..((sector + sectors) * SECTOR_BYTES) as usize
}

proptest! {
    #[test]
    fn what_is_written_is_read(steps in vec(step(), 1..60)) {
        let store = Store::new(SIZE, SIZE + PAGE).unwrap();
        let mut plain = vec![0; SIZE as usize];
        for step in steps {
            match step {
                Step::Write { sector, sectors, byte } => {
                    let data = vec![byte; (sectors * SECTOR_BYTES) as usize];
                    prop_assert_eq!(store.write(sector * SECTOR_BYTES, &data), Ok(()));
                    plain[bytes(sector, sectors)].copy_from_slice(&data);
                }
                Step::Discard { sector, sectors } => {
                    store.discard(sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
                    plain[bytes(sector, sectors)].fill(0);
                }
                _ => {}
            }
        }
        prop_assert_eq!(content(&store), plain.clone());
        // Memory is taken for pages that hold something, and given back with them.
        let filled = plain.chunks(PAGE as usize).filter(|page| page.iter().any(|&byte| byte != 0)).count();
        prop_assert!(store.held_bytes() >= filled as u64 * PAGE);
        store.discard(0, SIZE);
        prop_assert_eq!(store.held_bytes(), 0);
    }

    #[test]
    fn no_more_is_held_than_allowed(writes in vec((0..24u64, 1..8u64), 1..40), limit in 0..12u64) {
        let store = Store::new(SIZE, limit * PAGE).unwrap();
        for (page, pages) in writes {
            let data = vec![1; (pages * PAGE).min(SIZE - page * PAGE) as usize];
            if store.write(page * PAGE, &data) == Err(Full) {
                prop_assert_eq!(store.held_bytes(), limit * PAGE);
            }
            prop_assert!(store.held_bytes() <= limit * PAGE);
        }
    }

    /// After a loss of power every sector holds what was last flushed or settled into it, or something that was
    /// written after that; and sectors that the medium has not lost hold the newest.
    #[test]
    fn nothing_that_was_flushed_is_lost(
        steps in vec(step(), 1..60), lost in vec((0..SIZE / SECTOR_BYTES, 1..60u64), 0..6), torn in any::<u64>(),
    ) {
        let store = Store::new(SIZE, SIZE + PAGE).unwrap();
        let mut volatile = Volatile::default();
        let sectors_all = (SIZE / SECTOR_BYTES) as usize;
        // What each sector may hold: the newest last.
        let mut may: Vec<Vec<u8>> = vec![vec![0]; sectors_all];
        let mut now = 0;
        for step in steps {
            now += 10;
            match step {
                Step::Write { sector, sectors, byte } => {
                    let number = volatile.note(&store, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
                    store.write(sector * SECTOR_BYTES, &vec![byte; (sectors * SECTOR_BYTES) as usize]).unwrap();
                    volatile.acknowledge(number, now);
                    may[sector as usize..(sector + sectors) as usize].iter_mut().for_each(|m| m.push(byte));
                }
                Step::Flush => {
                    volatile.flushed(now);
                    may.iter_mut().for_each(|m| { let newest = *m.last().unwrap(); *m = vec![newest]; });
                }
                Step::Settle { sector, sectors } => {
                    // Everything but this range is still in the cache.
                    let end = SIZE / SECTOR_BYTES;
                    volatile.settle(&[(0, sector), (sector + sectors, end - sector - sectors)]);
                }
                Step::Discard { .. } => {}
            }
        }
        let newest = content(&store);
        let extents: Vec<(u64, u64)> =
            lost.iter().map(|&(first, count)| (first, count.min(SIZE / SECTOR_BYTES - first))).collect();
        volatile.lose(&store, &extents, &mut Stream::new(torn, "test"));
        let after = content(&store);
        for (sector, may) in may.iter().enumerate() {
            let range = bytes(sector as u64, 1);
            let held = after[range.start];
            prop_assert!(after[range.clone()].iter().all(|&byte| byte == held));
            prop_assert!(may.contains(&held), "sector {sector} holds {held}, may hold {may:?}");
            let is_lost = extents.iter().any(|&(first, count)| (first..first + count).contains(&(sector as u64)));
            if !is_lost {
                prop_assert_eq!(&after[range.clone()], &newest[range]);
            }
        }
        prop_assert!(volatile.is_empty());
        prop_assert_eq!(volatile.bytes(), 0);
    }

    #[test]
    fn a_failed_write_leaves_what_was_there(sector in 0..100u64, sectors in 1..40u64, before in 0..3u8) {
        let store = Store::new(SIZE, SIZE + PAGE).unwrap();
        store.write(0, &vec![before; SIZE as usize]).unwrap();
        let mut volatile = Volatile::default();
        let number = volatile.note(&store, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        store.write(sector * SECTOR_BYTES, &vec![9; (sectors * SECTOR_BYTES) as usize]).unwrap();
        volatile.revert(&store, number);
        prop_assert_eq!(content(&store), vec![before; SIZE as usize]);
        prop_assert!(volatile.is_empty());
    }
}
