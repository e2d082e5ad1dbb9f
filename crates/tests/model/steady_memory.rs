//! Once warm, no model asks for memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use headrace_model::request::{Device, Medium, Op, Request};
use headrace_model::spec::{DriveSpec, RaidSpec, StorageSpec};
use headrace_model::storage::Storage;
use headrace_model::stream::Stream;

struct Counting;

thread_local! {
    /// Per thread: other tests run at the same time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; only a counter is raised, which
// needs neither memory nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DISK: &str = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 2147483648, "rotation_rpm": 7200,
    "rates": {"outer_bytes_per_s": 100e6}, "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}}"#;
const SSD: &str = r#"{"kind": "ssd", "name": "ssd", "capacity_bytes": 536870912, "link_bytes_per_s": 280e6,
    "controller": {"read_overhead_us": 20, "write_overhead_us": 30, "read_iops_max": 35000, "write_iops_max": 30000},
    "flash": {"channels": 4, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 64,
    "read_us": 75, "program_us": 750, "erase_us": 3800, "channel_bytes_per_s": 40e6}}"#;

/// Keeps 32 requests in flight for that many requests in all.
fn work(
    device: &mut Storage,
    random: &mut Stream,
    out: &mut Vec<headrace_model::Completion>,
    requests: u64,
) {
    let blocks = device.capacity_sectors() / 64;
    let mut left = requests;
    let mut request = |tag| {
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][random.below(4) as usize];
        let sectors = if op == Op::Flush { 0 } else { 8 << random.below(4) };
        Request { tag, op, sector: random.below(blocks) * 64, sectors, fua: false }
    };
    let mut now = device.next_wake().unwrap_or(0);
    (0..32).for_each(|tag| device.submit(now, request(tag)));
    while let Some(next) = device.next_wake() {
        now = now.max(next);
        device.wake(now, out);
        for done in out.drain(..) {
            if left > 0 {
                left -= 1;
                device.submit(now, request(done.tag));
            }
        }
    }
}

#[test]
fn warm_models_ask_for_no_memory() {
    for (drive, level) in [
        (DISK, None),
        (SSD, None),
        (DISK, Some(0)),
        (DISK, Some(5)),
        (SSD, Some(6)),
        (DISK, Some(10)),
    ] {
        let raid = level.map(|level| RaidSpec {
            level,
            drives: 4,
            chunk_bytes: 16384,
            rebuild_bytes_per_s: 1 << 20,
            ..RaidSpec::default()
        });
        let spec = StorageSpec {
            drives: vec![DriveSpec::from_json(drive).unwrap()],
            raid,
            faults: Vec::new(),
        };
        let mut device = Storage::build(&spec, 1).unwrap();
        let mut random = Stream::new(1, "work");
        let mut out = Vec::with_capacity(64);
        work(&mut device, &mut random, &mut out, 100_000);
        let before = ALLOCATIONS.get();
        work(&mut device, &mut random, &mut out, 30_000);
        let asked = ALLOCATIONS.get() - before;
        // A list may still grow when more is under way than ever before; nothing is asked for by the request.
        assert!(asked <= 8, "{} at level {level:?}: {asked}", spec.drives[0].name());
    }
}
