//! Tests of the waiting items and of the write cache beside plain ones: lists in the order of age
//! that are searched from the oldest item on.

use proptest::prelude::*;

use super::geometry::{Geometry, Place};
use super::scoring::{Head, Reach};
use super::seek::{SeekCurve, TwoPiece};
use super::spec::{BufferSpec, HddSpec};
use super::waiting::{Order, Waiting};
use super::write_cache::{Extent, WriteCache};
use crate::request::Nanos;

const CAPACITY_SECTORS: u64 = 400_000;
const TURN_NS: Nanos = 8_333_333;

fn geometry() -> Geometry {
    let spec = serde_json::json!({
        "name": "disk", "capacity_bytes": CAPACITY_SECTORS * 512, "rotation_rpm": 7200, "heads": 2,
        "rates": {"outer_bytes_per_s": 20e6}, "link_bytes_per_s": 150e6,
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
    });
    let spec: HddSpec = serde_json::from_value(spec).unwrap();
    Geometry::build(&spec).unwrap()
}

/// Seek curves: one with both pieces, one whose seeks take more than 64 revolutions, a table.
fn curves() -> [SeekCurve; 3] {
    let both = TwoPiece {
        short_base_ns: 0.7e6,
        short_root_ns: 0.2e6,
        boundary: 150.0,
        long_base_ns: 2.0e6,
        long_slope_ns: 8e3,
    };
    let slow = TwoPiece { short_base_ns: 600e6, long_base_ns: 700e6, ..both };
    let table = vec![(1.0, 0.8e6), (100.0, 3e6), (900.0, 9e6)];
    [SeekCurve::TwoPiece(both), SeekCurve::TwoPiece(slow), SeekCurve::Table(table)]
}

/// An item of a plain list.
#[derive(Clone, Copy)]
struct Item {
    place: Place,
    write: bool,
}

/// Return seek plus rotational delay in revolutions. Bits count: equal costs decide by age.
fn cost(geometry: &Geometry, item: &Item, head: &Head, reach: Reach, mixed: bool) -> f32 {
    let per_turn = 1.0 / head.turn_ns as f32;
    let d = (item.place.cylinder as f32 - head.cylinder as f32).abs();
    let settle = reach.settle_ns as f32 * per_turn;
    let moving = match reach.seek {
        _ if d < 0.5 => 0.0,
        SeekCurve::TwoPiece(curve) if !(mixed && item.write) => {
            if d < curve.boundary as f32 {
                let base = curve.short_base_ns as f32 * per_turn + settle;
                base + curve.short_root_ns as f32 * per_turn * d.sqrt()
            } else {
                let base = curve.long_base_ns as f32 * per_turn + settle;
                base + curve.long_slope_ns as f32 * per_turn * d
            }
        }
        curve => (curve.time_ns(d as u32) + reach.settle_ns) as f32 * per_turn,
    };
    let ahead = geometry.angle_turns(item.place.along) - head.phase_turns;
    let turns = ahead - moving + (64.0 + 1e-5);
    moving + (turns - (turns as i32) as f32)
}

fn cheapest(
    geometry: &Geometry,
    seen: &[Item],
    head: &Head,
    read: Reach,
    write: Reach,
) -> Option<usize> {
    let writes = seen.iter().filter(|item| item.write).count();
    let mixed = writes > 0 && writes < seen.len();
    let cost = |item: &Item| {
        let reach = if item.write { write } else { read };
        cost(geometry, item, head, reach, mixed)
    };
    let costs: Vec<f32> = seen.iter().map(cost).collect();
    let least = costs.iter().copied().fold(f32::INFINITY, f32::min);
    costs.iter().position(|&cost| cost == least)
}

/// A write cache that searches all its extents.
struct PlainCache {
    extents: Vec<(Place, Extent)>,
    bytes: u64,
    capacity_bytes: u64,
    capacity_extents: usize,
}

impl PlainCache {
    fn take(&mut self, geometry: &Geometry, write: Extent) -> bool {
        let bytes = (write.end - write.sector) * 512;
        let place = geometry.place(write.sector, (write.end - write.sector) as u32);
        let extents = &mut self.extents;
        let covers = |e: &Extent| e.sector <= write.sector && write.end <= e.end;
        if let Some((_, extent)) = extents.iter_mut().find(|(_, e)| covers(e)) {
            extent.here = extent.here.max(write.here);
            return true;
        }
        if self.bytes + bytes > self.capacity_bytes {
            return false;
        }
        let grows = |e: &Extent| e.end == write.sector && write.end - e.sector <= 1024;
        if let Some((grown, extent)) = extents.iter_mut().find(|(_, e)| grows(e)) {
            extent.end = write.end;
            extent.here = extent.here.max(write.here);
            grown.along_end = place.along_end;
        } else if extents.len() < self.capacity_extents {
            extents.push((place, write));
        } else {
            return false;
        }
        self.bytes += bytes;
        true
    }

    fn holds(&self, sector: u64, end: u64) -> bool {
        self.extents.iter().any(|(_, e)| e.sector <= sector && end <= e.end)
    }
}

/// Sectors: anywhere, or close together so that ranges overlap and continue each other.
fn sectors() -> impl Strategy<Value = (u64, u64)> {
    let anywhere = (0..CAPACITY_SECTORS - 5000, 1..3000_u64);
    let close = (500..560_u64, 1..12_u64);
    prop_oneof![1 => anywhere, 4 => close]
}

proptest! {
    #[test]
    fn the_write_cache_does_what_a_plain_one_does(
        steps in prop::collection::vec((0..6_u8, sectors(), 0..1000_u64), 1..400),
        capacity_extents in prop::sample::select(vec![1_u32, 4, 64, 256]),
        capacity_bytes in prop::sample::select(vec![20_000_u64, 1 << 20, 1 << 26]),
    ) {
        let geometry = geometry();
        let mut cache = WriteCache::new(&BufferSpec {
            write_cache_extents: capacity_extents,
            write_cache_bytes: capacity_bytes,
            ..BufferSpec::default()
        });
        let mut plain = PlainCache {
            extents: Vec::new(),
            bytes: 0,
            capacity_bytes,
            capacity_extents: capacity_extents as usize,
        };
        for (oldest, (kind, (sector, sectors), number)) in (1..).zip(steps) {
            let place = geometry.place(sector, sectors as u32);
            if kind < 5 {
                let write = Extent { sector, end: sector + sectors, oldest, here: number };
                let taken = cache.take(&geometry, place, write, 0);
                prop_assert_eq!(taken, plain.take(&geometry, write));
            } else if !plain.extents.is_empty() {
                let index = number as usize % plain.extents.len();
                let (place, extent) = plain.extents.remove(index);
                plain.bytes -= (extent.end - extent.sector) * 512;
                prop_assert_eq!(cache.remove(index), (place, extent));
                cache.release(&extent);
            }
            let extents: Vec<Extent> = plain.extents.iter().map(|&(_, extent)| extent).collect();
            prop_assert_eq!(cache.extents().copied().collect::<Vec<_>>(), extents);
            prop_assert_eq!(cache.oldest(), plain.extents.iter().map(|(_, e)| e.oldest).min());
            let held = cache.holds(place.along, sector, sector + sectors);
            prop_assert_eq!(held, plain.holds(sector, sector + sectors));
            let first = plain.extents.iter().position(|(at, _)| at.along == place.along);
            prop_assert_eq!(cache.beginning_at(place.along), first);
        }
    }

    #[test]
    fn the_choice_is_that_of_a_plain_list(
        steps in prop::collection::vec((0..4_u8, sectors(), 0..1000_usize), 1..200),
        curve in 0..3_usize,
        write_curve in 0..3_usize,
        kinds in 0..3_u8,
        reordering in prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        window in prop::sample::select(vec![1_usize, 5, 1024]),
    ) {
        let (geometry, curves) = (geometry(), curves());
        let order = Order { reordering, window, age_limit_ns: 1_000 };
        let mut waiting = Waiting::new();
        let mut plain: Vec<Item> = Vec::new();
        for (now, (kind, (sector, sectors), number)) in (0..).zip(steps) {
            let place = geometry.place(sector, sectors as u32);
            if kind > 0 {
                // All reads, all writes, or both.
                let write = if kinds == 2 { number % 2 == 0 } else { kinds == 1 };
                plain.push(Item { place, write });
                waiting.push(&geometry, place, now, write, number);
            } else if !plain.is_empty() {
                let index = number % plain.len();
                prop_assert_eq!(waiting.remove(index).0, plain.remove(index).place);
            }
            prop_assert_eq!(waiting.len(), plain.len());
            if plain.is_empty() {
                continue;
            }
            let seen = waiting.seen(now, &order);
            let most = (1.0 + reordering * (plain.len() - 1) as f64) as usize;
            prop_assert_eq!(seen, most.min(window));
            let head = Head {
                phase_turns: geometry.angle_turns(number as Nanos * 8_333),
                cylinder: geometry.place(number as u64 * 390, 1).cylinder,
                turn_ns: TURN_NS,
            };
            let read = Reach { seek: &curves[curve], settle_ns: 0 };
            let write = Reach { seek: &curves[write_curve], settle_ns: 500_000 };
            let chosen = waiting.choose(seen, &head, read, write);
            prop_assert_eq!(Some(chosen), cheapest(&geometry, &plain[..seen], &head, read, write));

            let along = place.along.saturating_sub(number as Nanos * 10_000)..=place.along;
            let cylinders = geometry.cylinder_at(*along.start())..=geometry.cylinder_at(place.along);
            let within = waiting.first_within(seen, along.clone(), cylinders);
            let first = plain[..seen].iter().position(|item| along.contains(&item.place.along));
            prop_assert_eq!(within, first);
        }
    }
}
