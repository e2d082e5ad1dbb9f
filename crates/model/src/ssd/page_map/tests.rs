//! Write amplification against theory, and what drives of one kind share.

use proptest::prelude::*;

use super::*;
use crate::ssd::amplification::write_amplification;
use crate::stream::Stream;

fn amplification(spare_ratio: f64, initial: InitialState, warm_up: u64, measured: u64) -> f64 {
    let units = 1 << 19;
    let mut map = PageMap::new(units, 512, spare_ratio, initial);
    let mut random = Stream::new(9, "writes");
    (0..warm_up * units).for_each(|_| _ = map.write(random.below(units)));
    let (flash, host) = map.written();
    (0..measured * units).for_each(|_| _ = map.write(random.below(units)));
    let (flash_after, host_after) = map.written();
    let held = (0..units).filter(|&unit| map.place(unit).is_some()).count();
    assert_eq!((map.mapped_units(), held as u64), (units, units));
    (flash_after - flash) as f64 / (host_after - host) as f64
}

#[test]
fn random_writes_amplify_as_theory_says() {
    for spare_ratio in [0.07, 0.1, 0.2, 0.28, 0.5, 1.0] {
        let expected = write_amplification(spare_ratio);
        let fresh = amplification(spare_ratio, InitialState::Filled { fill: 1.0 }, 4, 4);
        assert!(
            (fresh / expected - 1.0).abs() < 0.02,
            "r = {spare_ratio}: {fresh}, theory {expected}"
        );
        let steady = amplification(spare_ratio, InitialState::Steady { fill: 1.0 }, 0, 2);
        assert!(
            (steady / expected - 1.0).abs() < 0.02,
            "r = {spare_ratio}: {steady}, theory {expected}"
        );
    }
}

#[test]
fn drives_of_one_kind_share_what_they_have_not_written() {
    let units = 3 << 20;
    let made = || PageMap::new(units, 512, 0.09, InitialState::Steady { fill: 0.7 });
    let untouched = made();
    let mut written = made();
    let mut alone = PageMap::begin(&Kind {
        units,
        row_units: 512,
        spare_ratio: 0.09,
        initial: InitialState::Steady { fill: 0.7 },
        prepared: Arc::default(),
    });
    for unit in 0..60 {
        written.write(unit);
        alone.write(unit);
    }
    assert_eq!(untouched.places.own_bytes() + untouched.owners.own_bytes(), 0);
    let own_bytes = written.places.own_bytes() + written.owners.own_bytes();
    assert!(own_bytes > 0 && own_bytes < 2 << 20, "{own_bytes}");
    assert_eq!(written.written(), alone.written());
    let place = |map: &PageMap, unit| map.place(unit);
    assert!((0..units).step_by(977).all(|unit| place(&written, unit) == place(&alone, unit)));
    assert_eq!(made().written(), (0, 0), "a new drive begins as the first did");
}

#[test]
fn writing_in_order_copies_nothing() {
    let units = 1 << 16;
    let mut map = PageMap::new(units, 256, 0.07, InitialState::Filled { fill: 1.0 });
    for _ in 0..5 {
        (0..units).for_each(|unit| _ = map.write(unit));
    }
    let (flash, host) = map.written();
    assert_eq!(host, 5 * units);
    assert!(flash as f64 / (host as f64) < 1.001, "{flash} {host}");
}

#[test]
fn a_slice_amplifies_like_the_whole() {
    let units = 30 << 20;
    let mut map = PageMap::new(units, 20_000, 0.28, InitialState::Steady { fill: 1.0 });
    assert_eq!(map.scale, 30);
    let mut random = Stream::new(9, "writes");
    (0..90_000_000).for_each(|_| _ = map.write(random.below(units)));
    let (flash, host) = map.written();
    let obtained = flash as f64 / host as f64;
    assert!((obtained / write_amplification(0.28) - 1.0).abs() < 0.03, "{obtained}");
}

#[test]
fn discarded_units_make_room() {
    let units = 1 << 17;
    let mut map = PageMap::new(units, 512, 0.07, InitialState::Steady { fill: 1.0 });
    map.discard(units / 2, units);
    assert_eq!(map.mapped_units(), units / 2);
    let mut random = Stream::new(9, "writes");
    (0..4 * units).for_each(|_| _ = map.write(random.below(units / 2)));
    let (flash, host) = map.written();
    // The other half is spare space: r = 1.14.
    assert!((flash as f64 / host as f64) < 1.4, "{flash} {host}");
    assert!(map.place(units - 1).is_none());
}

/// What a look at all blocks finds: of those with the fewest valid units the first.
fn scanned(map: &PageMap) -> Option<(u32, u32)> {
    (0..map.valid.len() as u32)
        .filter(|&block| !map.is_free[block as usize])
        .filter(|&block| block != map.host.block && block != map.cleaner.block)
        .map(|block| (block, map.valid[block as usize]))
        .min_by_key(|&(block, valid)| (valid, block))
}

fn initial_states() -> impl Strategy<Value = InitialState> {
    prop_oneof![
        Just(InitialState::Fresh),
        (0.05..1.0).prop_map(|fill| InitialState::Filled { fill }),
        (0.05..1.0).prop_map(|fill| InitialState::Steady { fill }),
    ]
}

proptest! {
    #[test]
    fn the_first_block_with_the_fewest_valid_units_is_cleaned(
        blocks in prop::collection::vec((0..5u32, any::<bool>()), 4..300),
        open in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let mut map = PageMap::begin(&Kind {
            units: 1 << 10,
            row_units: 64,
            spare_ratio: 0.1,
            initial: InitialState::Fresh,
            prepared: Arc::default(),
        });
        (map.valid, map.is_free) = blocks.iter().copied().unzip();
        map.fewest = Fewest::new(blocks.len() as u32);
        map.host.block = open.0.index(blocks.len()) as u32;
        map.cleaner.block = open.1.index(blocks.len()) as u32;
        let expected = scanned(&map);
        prop_assert_eq!(map.victim(), expected);
    }

    #[test]
    fn the_block_to_clean_is_the_one_that_a_look_at_all_blocks_finds(
        (units, row_units) in (1u64..40_000, 1u64..600),
        spare_ratio in 0.01..1.0,
        initial in initial_states(),
        steps in prop::collection::vec((0..5u8, any::<u64>(), 1..3000u64), 1..60),
    ) {
        let mut map = PageMap::new(units, row_units, spare_ratio, initial);
        for (kind, at, count) in steps {
            let at = at % units;
            let end = units.min(at + count);
            match kind {
                0 => (at..end).for_each(|unit| _ = map.write(unit)),
                // Scattered, and some units again and again.
                1 => (0..count).for_each(|number| _ = map.write(at.wrapping_mul(number) % units)),
                2 => map.discard(at, end),
                3 => map.preload(&[(at, end)], StoredOrder::OfDrive),
                _ => map.preload(&[(at, end)], StoredOrder::Written),
            }
            let expected = scanned(&map);
            prop_assert_eq!(map.victim(), expected);
        }
    }
}
