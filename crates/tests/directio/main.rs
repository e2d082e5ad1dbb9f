//! Scripts on a file: every step is timed in order, writes arrive where they belong, limits hold.

use std::fs::File;
use std::os::unix::fs::FileExt;

use headrace_directio::BlockDevice;
use headrace_model::drive_script::Step;

fn step(write: bool, sector: u64, sectors: u32) -> Step {
    Step { write, through: false, sector, sectors, wait_ns: 0 }
}

fn file(bytes: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.as_file().set_len(bytes).expect("its size");
    file
}

#[test]
fn every_step_is_timed_at_every_depth() {
    let file = file(1 << 20);
    let mut device = BlockDevice::open(file.path(), false).expect("opened");
    assert_eq!(device.capacity_bytes(), 1 << 20);
    let steps: Vec<Step> = (0..64).map(|at| step(false, at * 16, 16)).collect();
    for depth in [1, 7, 64] {
        let timings = device.run(&steps, depth, u64::MAX).expect("read");
        assert_eq!(timings.len(), steps.len());
        assert!(timings.iter().all(|timing| timing.start_ns < timing.end_ns));
        assert!(timings.windows(2).all(|pair| pair[0].start_ns <= pair[1].start_ns));
    }
    assert!(device.run(&steps, 4, 0).expect("read").len() < steps.len());
}

#[test]
fn writes_arrive_and_ends_are_refused() {
    let file = file(1 << 20);
    let mut device = BlockDevice::open(file.path(), true).expect("opened");
    for depth in [1, 4] {
        let at = 512 * depth as u64;
        device.run(&[step(true, at, 8)], depth, u64::MAX).expect("written");
        let mut held = [0; 4096];
        File::open(file.path()).expect("file").read_exact_at(&mut held, at * 512).expect("read");
        assert!(held.iter().any(|&byte| byte != 0));
        let past = [step(false, 1 << 20, 8), step(false, 0, 8)];
        assert!(device.run(&past, depth, u64::MAX).is_err());
    }
}

#[test]
fn a_pause_lasts_as_long_as_it_says() {
    let file = file(1 << 16);
    let mut device = BlockDevice::open(file.path(), false).expect("opened");
    let steps = vec![Step { wait_ns: 2_000_000, ..step(false, 0, 8) }; 3];
    let timings = device.run(&steps, 1, u64::MAX).expect("read");
    assert!(timings.windows(2).all(|pair| pair[1].start_ns - pair[0].end_ns >= 2_000_000));
}
