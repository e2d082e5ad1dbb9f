//! What an SSD's parameters state must come out of the model.

use crate::loads::{close, load};
use headrace_model::drive_run::{run, run_device, run_series, FioLike, Rw};
use headrace_model::request::{Device, Medium, Nanos, Op, Request};
use headrace_model::spec::DriveSpec;
use headrace_model::ssd::amplification::write_amplification;
use headrace_model::ssd::spec::ReadPriority;
use headrace_model::ssd::Ssd;
use headrace_model::stream::Stream;

/// A page-mapped drive of 16 dies.
fn drive(extra: &str) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": 4294967296, "link_bytes_per_s": 280e6,
        "controller": {{"read_overhead_us": 20, "write_overhead_us": 30, "read_iops_max": 35000, "write_iops_max": 30000}},
        "flash": {{"channels": 8, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 64,
        "read_us": 75, "program_us": 750, "erase_us": 3800, "channel_bytes_per_s": 40e6}}{extra}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

fn low_end(log_blocks: u32) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "ssd", "name": "low-end", "capacity_bytes": 4294967296, "link_bytes_per_s": 280e6,
        "controller": {{"read_overhead_us": 60, "write_overhead_us": 60, "read_iops_max": 8000, "write_iops_max": 8000}},
        "flash": {{"channels": 4, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 128,
        "read_us": 75, "program_us": 750, "erase_us": 3800, "channel_bytes_per_s": 40e6}},
        "mapping": {{"ftl": "log_block", "unit_bytes": 4096, "block_bytes": 4194304, "log_blocks": {log_blocks}}},
        "read_priority": {{"kind": "fifo"}}, "initial": {{"state": "filled", "fill": 1.0}}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

const FILLED: &str = r#", "initial": {"state": "filled", "fill": 1.0}"#;

#[test]
fn a_single_read_takes_the_sum_of_its_parts() {
    let result = run(&drive(FILLED), &load(Rw::RandRead, 4096, 1, 5.0)).unwrap();
    let expected_us = 1e6 / 35000.0 + 20.0 + 75.0 + 4096.0 / 40.0 + 4096.0 / 280.0;
    close(result.read.latency_ns_p50 as f64 / 1e3, expected_us, 0.01);
}

/// Over PCIe: 10 us in the controller, 40 us of flash and 4 us over the channel for 4 KiB.
fn over_pcie(read_ahead_bytes: u64) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": 4294967296, "link_bytes_per_s": 4e9,
        "link_duplex": true, "write_buffer_bytes": 16777216,
        "controller": {{"read_overhead_us": 9, "write_overhead_us": 9, "read_iops_max": 1e6,
        "write_iops_max": 1e6, "read_ahead_bytes": {read_ahead_bytes}}},
        "flash": {{"channels": 8, "dies_per_channel": 4, "page_bytes": 16384, "pages_per_block": 256,
        "read_us": 40, "program_us": 400, "erase_us": 3800, "channel_bytes_per_s": 1e9}}{FILLED}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

#[test]
fn reads_in_order_do_not_wait_for_flash_that_was_read_ahead() {
    let p50_us = |rw, bytes, ahead| {
        let result = run(&over_pcie(ahead), &load(rw, bytes, 1, 1.0)).unwrap();
        result.read.latency_ns_p50 as f64 / 1e3
    };
    for bytes in [512, 4096] {
        let over_link = bytes as f64 / 4e3;
        close(p50_us(Rw::Read, bytes, 256 << 10), 10.0 + over_link, 0.01);
        close(p50_us(Rw::RandRead, bytes, 256 << 10), p50_us(Rw::RandRead, bytes, 0), 0.001);
    }
    // Without it, four reads of 4 KiB have one page of 16 KiB, and each waits for its channel.
    close(p50_us(Rw::Read, 4096, 0), 10.0 + 4.1 + 1.0, 0.02);
    // A read of 64 KiB waits for the link alone.
    close(p50_us(Rw::Read, 64 << 10, 256 << 10), 10.0 + 65536.0 / 4e3, 0.01);
    assert!(p50_us(Rw::Read, 64 << 10, 0) > 50.0);
}

/// What was read ahead is old once it is written; and there is nothing to read behind the end.
#[test]
fn writes_forget_what_was_read_ahead() {
    let DriveSpec::Ssd(spec) = over_pcie(64 << 10) else { panic!("an SSD") };
    let mut ssd = Ssd::new(&spec).unwrap();
    let mut now = 0;
    let mut took = |op, sector| {
        now += 10_000_000;
        ssd.submit(now, Request { tag: 0, op, sector, sectors: 8, fua: false });
        let mut out = Vec::new();
        ssd.wake_ahead(now, Nanos::MAX, &mut out);
        (out[0].time - now) as f64 / 1e3
    };
    let sequence: Vec<f64> = (0..6).map(|number| took(Op::Read, 8 * number)).collect();
    close(sequence[0], 10.0 + 40.0 + 4.1 + 1.0, 0.01);
    for &later in &sequence[3..] {
        close(later, 11.0, 0.01);
    }
    took(Op::Write, 8 * 8);
    took(Op::Flush, 0);
    assert!(took(Op::Read, 8 * 6) > 12.0);
    let end = (4 << 30) / 512;
    for back in (1..6).rev() {
        took(Op::Read, end - 8 * back);
    }
}

#[test]
fn depth_is_bounded_by_controller_dies_and_link() {
    let random = run(&drive(FILLED), &load(Rw::RandRead, 4096, 64, 5.0)).unwrap();
    close(random.read.iops, 35000.0, 0.02);
    let sequential = run(&drive(FILLED), &load(Rw::Read, 128 << 10, 8, 5.0)).unwrap();
    close(sequential.read.bytes_per_s, 280e6, 0.02);
}

/// As measured with fio, one depth after the other: SLC blocks that one run fills, the next lacks.
#[test]
fn a_series_of_loads_finds_the_drive_as_the_load_before_left_it() {
    let drive = drive(r#", "slc_cache": {"bytes": 268435456, "program_us": 150}"#);
    let writes = load(Rw::RandWrite, 4096, 32, 2.0);
    let runs = run_series(&drive, &writes, &[32, 32, 64]).unwrap();
    assert_eq!(runs[0], run(&drive, &writes).unwrap());
    for later in &runs[1..] {
        close(later.write.bytes_per_s, 16.0 * 4096.0 / 750e-6, 0.05);
    }
    assert!(runs[0].write.bytes_per_s > 1.2 * runs[1].write.bytes_per_s);
}

/// The first block of a drive in steady state was free only because others had been cleaned.
#[test]
fn a_drive_in_steady_state_pays_for_cleaning_from_its_first_write() {
    // 64 dies of 4 planes: a row of blocks takes 3.2 GB, some seconds of writes.
    let rates = |initial: &str| {
        let text = format!(
            r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": 1000000000000,
            "link_bytes_per_s": 3e9, "link_duplex": true, "write_buffer_bytes": 16777216,
            "spare_ratio": 0.28, "initial": {initial},
            "controller": {{"read_overhead_us": 5, "write_overhead_us": 5, "read_iops_max": 1e6, "write_iops_max": 1e6}},
            "flash": {{"channels": 8, "dies_per_channel": 8, "planes": 4, "page_bytes": 16384,
            "pages_per_block": 768, "read_us": 50, "program_us": 1000, "erase_us": 3500,
            "channel_bytes_per_s": 1e9}}}}"#
        );
        let spec = DriveSpec::from_json(&text).unwrap();
        // Later, some rows: their cleaning takes a whole number of blocks, now more, now fewer.
        [(0.2, 1.0), (20.0, 8.0)].map(|(ramp_time_s, seconds)| {
            let load = FioLike { ramp_time_s, ..load(Rw::RandWrite, 4096, 32, seconds) };
            run(&spec, &load).unwrap().write.iops
        })
    };
    let [at_once, later] = rates(r#"{"state": "steady", "fill": 1.0}"#);
    close(at_once, later, 0.05);
    // Without data there is nothing to copy.
    let [fresh, _] = rates(r#"{"state": "fresh"}"#);
    assert!(fresh > 1.5 * at_once, "{fresh} and {at_once}");
}

#[test]
fn small_commands_are_bounded_by_the_frames_of_their_link() {
    // Flash and controller could do far more.
    let fast = |link: &str| {
        let text = format!(
            r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": 4294967296, {link},
            "controller": {{"read_overhead_us": 5, "write_overhead_us": 5, "read_iops_max": 1e6, "write_iops_max": 1e6}},
            "flash": {{"channels": 16, "dies_per_channel": 8, "page_bytes": 16384, "pages_per_block": 64,
            "read_us": 50, "program_us": 500, "erase_us": 3800, "channel_bytes_per_s": 1e9}}{FILLED}}}"#
        );
        DriveSpec::from_json(&text).unwrap()
    };
    let iops = |spec: &DriveSpec, rw, bytes| {
        let result = run(spec, &load(rw, bytes, 64, 2.0)).unwrap();
        result.read.iops + result.write.iops
    };
    let sata = fast(r#""link_bytes_per_s": 270e6"#);
    close(iops(&sata, Rw::RandRead, 4096), 270e6 / (4096.0 + 940.0), 0.01);
    close(iops(&sata, Rw::RandWrite, 4096), 270e6 / (4096.0 + 1116.0), 0.01);
    // Large reads get the rate of the link.
    close(iops(&sata, Rw::Read, 131_072) * 131_072.0, 270e6, 0.01);
    let own = fast(r#""link_bytes_per_s": 270e6, "link_command_bytes": 4096"#);
    close(iops(&own, Rw::RandRead, 4096), 270e6 / 8192.0, 0.01);
    let duplex = fast(r#""link_bytes_per_s": 270e6, "link_duplex": true"#);
    close(iops(&duplex, Rw::RandRead, 4096), 270e6 / 4096.0, 0.01);
}

#[test]
fn sequential_writes_run_at_the_programs_of_all_dies() {
    let result = run(&drive(""), &load(Rw::Write, 128 << 10, 8, 20.0)).unwrap();
    close(result.write.bytes_per_s, 16.0 * 4096.0 / 750e-6, 0.02);
}

#[test]
fn random_writes_at_steady_state_pay_the_amplification() {
    let spec = drive(r#", "initial": {"state": "steady", "fill": 1.0}, "spare_ratio": 0.28"#);
    let DriveSpec::Ssd(ssd) = &spec else { panic!("an SSD") };
    let mut device = Ssd::new(ssd).unwrap();
    let result = run_device(&mut device, &load(Rw::RandWrite, 4096, 32, 120.0)).unwrap();
    let (flash, host) = device.written();
    close(flash as f64 / host as f64, write_amplification(0.28), 0.02);
    let writes = device.flash_writes();
    close(writes.flash_bytes as f64 / writes.host_bytes as f64, write_amplification(0.28), 0.02);
    close(writes.host_bytes as f64, 4096.0 * 120.0 * result.write.iops, 0.05);
    // A program for each unit, and for each unit copied a read and a program; an erase a block.
    let copied = write_amplification(0.28) - 1.0;
    let die_us = 750.0 + copied * (750.0 + 75.0) + (1.0 + copied) * 3800.0 / 64.0;
    close(result.write.iops, 16.0 / (die_us * 1e-6), 0.03);
    let spread = device.erases().iter().max().unwrap() - device.erases().iter().min().unwrap();
    assert!(spread <= device.erases().iter().max().unwrap() / 2 + 3, "wear {spread}");
}

#[test]
fn a_fresh_drive_writes_faster_than_a_used_one_and_trim_makes_it_fresh() {
    let rate = |extra: &str| {
        let random = FioLike { number_ios: Some(200_000), ..load(Rw::RandWrite, 4096, 32, 1e6) };
        run(&drive(extra), &random).unwrap().write.iops
    };
    let fresh = rate("");
    let used = rate(r#", "initial": {"state": "steady", "fill": 1.0}"#);
    let half = rate(r#", "initial": {"state": "steady", "fill": 0.5}"#);
    assert!(fresh > 3.0 * used, "{fresh} {used}");
    assert!(half > 2.0 * used, "{half} {used}");

    let DriveSpec::Ssd(spec) = drive(r#", "initial": {"state": "steady", "fill": 1.0}"#) else {
        panic!("an SSD")
    };
    let mut trimmed = Ssd::new(&spec).unwrap();
    let sectors = trimmed.capacity_sectors() as u32;
    trimmed.submit(0, Request { tag: 0, op: Op::Discard, sector: 0, sectors, fua: false });
    trimmed.wake(1_000_000_000, &mut Vec::new());
    let random = FioLike {
        number_ios: Some(200_000),
        ramp_time_s: 1.0,
        ..load(Rw::RandWrite, 4096, 32, 1e6)
    };
    assert!(run_device(&mut trimmed, &random).unwrap().write.iops > 2.0 * used);
}

#[test]
fn reads_pass_programs_as_the_priority_says() {
    let p99 = |priority: &str| {
        let extra = format!(r#"{FILLED}, "read_priority": {priority}"#);
        let mixed = FioLike { rwmixread: 70, ..load(Rw::RandRw, 4096, 8, 10.0) };
        run(&drive(&extra), &mixed).unwrap().read.latency_ns_mean
    };
    let fifo = p99(r#"{"kind": "fifo"}"#);
    let between = p99(r#"{"kind": "between_operations"}"#);
    let suspend = p99(r#"{"kind": "suspend", "suspend_us": 20}"#);
    assert!(fifo > between && between > suspend, "{fifo} {between} {suspend}");
}

#[test]
fn an_slc_cache_takes_a_burst_and_then_fills() {
    let cached = r#", "slc_cache": {"bytes": 268435456, "program_us": 150}"#;
    let burst = FioLike { number_ios: Some(1500), ..load(Rw::Write, 128 << 10, 8, 1e3) };
    let long = FioLike { ramp_time_s: 4.0, ..load(Rw::Write, 128 << 10, 8, 20.0) };
    close(run(&drive(cached), &burst).unwrap().write.bytes_per_s, 280e6, 0.05);
    close(run(&drive(cached), &long).unwrap().write.bytes_per_s, 16.0 * 4096.0 / 750e-6, 0.05);
}

/// Write 256 MiB, one request at a time; return when that is done.
fn burst(device: &mut Ssd, start: Nanos) -> Nanos {
    (0..2048).fold(start, |now, number| answer(device, now, Op::Write, number * 256, 256))
}

/// Send one request and return when it is answered.
fn answer(device: &mut Ssd, now: Nanos, op: Op, sector: u64, sectors: u32) -> Nanos {
    device.submit(now, Request { tag: 0, op, sector, sectors, fua: false });
    let mut out = Vec::new();
    while let Some(next) = device.next_wake() {
        device.wake(next, &mut out);
    }
    out[0].time
}

#[test]
fn a_full_slc_cache_recovers_while_idle_or_by_discards_and_folding_delays_reads() {
    const SECOND: Nanos = 1_000_000_000;
    let cached = r#", "slc_cache": {"bytes": 268435456, "program_us": 150}"#;
    let DriveSpec::Ssd(spec) = drive(cached) else { panic!("an SSD") };
    let full = || {
        let mut device = Ssd::new(&spec).unwrap();
        let end = burst(&mut device, 0);
        assert!(end < SECOND * 11 / 10, "{end}");
        (device, end)
    };
    let (mut device, end) = full();
    assert!(burst(&mut device, end) - end > 2 * SECOND);

    let (mut device, end) = full();
    // Data that are folded meanwhile stand in the way of reads, and not for longer than that takes:
    // each die has 4096 pages to read and program, and 64 blocks to erase.
    let folding_s = 4096.0 * 825e-6 + 64.0 * 3.8e-3;
    let read_ns = |device: &mut Ssd, now: Nanos, number: u64| {
        answer(device, now, Op::Read, (1 << 18) + number * 504, 8) - now
    };
    let while_folding: Vec<_> =
        (1..=10).map(|n| read_ns(&mut device, end + n * 103_700_000, n)).collect();
    assert!(*while_folding.iter().max().unwrap() > 300_000, "{while_folding:?}");
    let after = end + (folding_s * 1e9) as Nanos + SECOND;
    assert!(read_ns(&mut device, after, 90) < 250_000);
    assert!(burst(&mut device, after + SECOND) - after - SECOND < SECOND * 11 / 10);

    let (mut device, end) = full();
    let sectors = device.capacity_sectors() as u32;
    let trimmed = answer(&mut device, end, Op::Discard, 0, sectors);
    assert!(burst(&mut device, trimmed) - trimmed < SECOND * 11 / 10);
}

#[test]
fn a_drive_that_folds_before_it_writes_collapses_below_its_flash() {
    let cached = r#", "slc_cache": {"bytes": 67108864, "program_us": 150, "when_full": "fold"}"#;
    let long = FioLike { ramp_time_s: 4.0, ..load(Rw::Write, 128 << 10, 8, 20.0) };
    let each_us = (75.0 + 750.0 + 3800.0 / 64.0) + 150.0;
    let expected = 16.0 * 4096.0 / (each_us * 1e-6);
    close(run(&drive(cached), &long).unwrap().write.bytes_per_s, expected, 0.03);
}

#[test]
fn programs_are_bounded_by_their_channels_and_delay_reads_on_them() {
    let spec = |channel_bytes_per_s: f64| {
        let DriveSpec::Ssd(mut spec) = drive(FILLED) else { panic!("an SSD") };
        spec.flash.channel_bytes_per_s = channel_bytes_per_s;
        spec.read_priority = ReadPriority::Suspend { suspend_us: 0.0 };
        DriveSpec::Ssd(spec)
    };
    let writes = load(Rw::Write, 128 << 10, 8, 20.0);
    close(run(&spec(5e6), &writes).unwrap().write.bytes_per_s, 8.0 * 5e6, 0.03);
    // The dies give way to reads at once, but the channels are busy with the data of programs.
    let reads = |rwmixread| {
        let mixed = FioLike { rwmixread, ..load(Rw::RandRw, 4096, 8, 5.0) };
        run(&spec(10e6), &mixed).unwrap().read.latency_ns_mean
    };
    assert!(reads(50) > 1.1 * reads(100), "{} {}", reads(50), reads(100));
}

#[test]
fn reads_of_a_drive_that_is_cleaned_wait_for_whole_erases_now_and_then() {
    let reads = |priority: &str| {
        let extra = format!(
            r#", "initial": {{"state": "steady", "fill": 1.0}}, "read_priority": {priority}"#
        );
        let mixed = FioLike { rwmixread: 70, ..load(Rw::RandRw, 4096, 4, 20.0) };
        run(&drive(&extra), &mixed).unwrap().read
    };
    let waiting = reads(r#"{"kind": "between_operations"}"#);
    assert!(waiting.latency_ns_max > 3_800_000, "{}", waiting.latency_ns_max);
    assert!(waiting.latency_ns_p999 > 2 * waiting.latency_ns_p50);
    let suspending = reads(r#"{"kind": "suspend", "suspend_us": 20}"#);
    assert!(suspending.latency_ns_max < 3_800_000, "{}", suspending.latency_ns_max);
}

#[test]
fn random_overwrites_of_a_large_drive_slow_reads_in_order_until_it_is_written_in_order() {
    let text = r#"{"kind": "ssd", "name": "large", "capacity_bytes": 68719476736, "link_bytes_per_s": 6e9,
        "link_duplex": true, "controller": {"read_overhead_us": 5, "write_overhead_us": 5,
        "read_iops_max": 1e6, "write_iops_max": 1e6},
        "flash": {"channels": 4, "dies_per_channel": 2, "planes": 4, "page_bytes": 16384,
        "pages_per_block": 64, "read_us": 50, "program_us": 500, "erase_us": 3800,
        "channel_bytes_per_s": 1e9}, "initial": {"state": "filled", "fill": 1.0}}"#;
    let DriveSpec::Ssd(spec) = DriveSpec::from_json(text).unwrap() else { panic!("an SSD") };
    let mut device = Ssd::new(&spec).unwrap();
    let read_ns = |device: &mut Ssd, now: Nanos| answer(device, now, Op::Read, 0, 2048) - now;
    const SECOND: Nanos = 1_000_000_000;
    let in_order = read_ns(&mut device, 0);
    let mut random = Stream::new(3, "overwrites");
    for number in 0..1024 {
        answer(&mut device, SECOND + number, Op::Write, random.below(256) * 8, 8);
    }
    // Nearly every unit has a page of its own: 256 reads of 8 dies instead of 16.
    let scattered = read_ns(&mut device, 10 * SECOND);
    assert!(scattered > 5 * in_order, "{in_order} {scattered}");
    answer(&mut device, 20 * SECOND, Op::Write, 0, 2048);
    close(read_ns(&mut device, 30 * SECOND) as f64, in_order as f64, 0.05);
}

/// Random requests of 4 KiB of a Samsung 860 PRO on a link of 3 Gb/s, as measured: only depth 1 is
/// used.
#[test]
fn a_drive_on_a_slow_link_gains_by_depth_what_was_measured() {
    let text = r#"{"kind": "ssd", "name": "860 pro", "capacity_bytes": 1024209543168, "link_bytes_per_s": 270e6,
        "controller": {"read_overhead_us": 9, "write_overhead_us": 14.4, "read_iops_max": 100000,
        "write_iops_max": 90000}, "read_priority": {"kind": "suspend", "suspend_us": 20},
        "flash": {"channels": 8, "dies_per_channel": 4, "planes": 2, "page_bytes": 16384,
        "pages_per_block": 768, "read_us": 22.3, "program_us": 700, "erase_us": 3500,
        "channel_bytes_per_s": 800e6}}"#;
    let spec = DriveSpec::from_json(text).unwrap();
    let depths = [1, 2, 4, 8, 16, 32];
    let reads = [16225.0, 32279.0, 50764.0, 52408.0, 52418.0, 52410.0];
    let writes = [22304.0, 44488.0, 50343.0, 50352.0, 50377.0, 50321.0];
    let mut wrong = Vec::new();
    for (rw, rows) in [(Rw::RandRead, reads), (Rw::RandWrite, writes)] {
        for (depth, measured) in depths.into_iter().zip(rows) {
            let obtained = run(&spec, &load(rw, 4096, depth, 1.0)).unwrap();
            let obtained = obtained.read.iops + obtained.write.iops;
            let error = obtained / measured - 1.0;
            if error.abs() > if depth == 1 { 0.01 } else { 0.1 } {
                wrong.push(format!("{rw:?} at depth {depth}: {obtained:.0}, measured {measured}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn low_end_random_writes_collapse_and_sequential_ones_do_not() {
    let sequential =
        run(&low_end(4), &load(Rw::Write, 128 << 10, 4, 30.0)).unwrap().write.bytes_per_s;
    assert!(sequential > 30e6, "{sequential}");
    let random =
        run(&low_end(4), &FioLike { ramp_time_s: 5.0, ..load(Rw::RandWrite, 4096, 4, 60.0) })
            .unwrap();
    assert!((2.0..60.0).contains(&random.write.iops), "{}", random.write.iops);
    let mixed =
        run(&low_end(4), &FioLike { ramp_time_s: 5.0, ..load(Rw::RandRw, 4096, 4, 60.0) }).unwrap();
    assert!(mixed.read.iops < 100.0, "{}", mixed.read.iops);
    let reads = run(&low_end(4), &load(Rw::RandRead, 4096, 4, 10.0)).unwrap();
    assert!(reads.read.iops > 5000.0, "{}", reads.read.iops);
    // As many streams as log blocks stay in order; one more and every write pays.
    let streams = |numjobs| {
        let load = FioLike {
            numjobs,
            offset_increment_bytes: 400 << 20,
            ..load(Rw::Write, 64 << 10, 1, 60.0)
        };
        run(&low_end(4), &load).unwrap().write.bytes_per_s
    };
    assert!(streams(3) > 4.0 * streams(8), "{} {}", streams(3), streams(8));
}

#[test]
fn a_flush_waits_for_flash_unless_the_buffer_is_protected() {
    let flushed = FioLike { fsync: 1, ..load(Rw::RandWrite, 4096, 1, 5.0) };
    let plain = run(&drive(""), &flushed).unwrap().write.iops;
    let protected =
        run(&drive(r#", "write_buffer_protected": true"#), &flushed).unwrap().write.iops;
    assert!(plain < 1.0 / 750e-6 && protected > 3.0 * plain, "{plain} {protected}");
}

#[test]
fn energy_follows_the_work() {
    let power = r#", "power": {"idle_w": 0.5, "read_w": 2.0, "write_w": 3.0}, "initial": {"state": "filled", "fill": 1.0}"#;
    close(run(&drive(power), &load(Rw::RandRead, 4096, 1, 5.0)).unwrap().power_w_mean, 2.0, 0.01);
    // Both are what the whole drive draws: a drive that does both draws the larger.
    let both = FioLike { rwmixread: 50, ..load(Rw::RandRw, 4096, 16, 5.0) };
    let mixed_w = run(&drive(power), &both).unwrap().power_w_mean;
    assert!(2.5 < mixed_w && mixed_w <= 3.0, "{mixed_w}");
    let DriveSpec::Ssd(spec) = drive(power) else { panic!("an SSD") };
    close(Ssd::new(&spec).unwrap().energy_j(4_000_000_000), 2.0, 1e-9);
}

#[test]
fn what_cannot_be_is_refused_by_the_name_of_its_field() {
    for (change, field) in [
        (r#", "spare_ratio": -0.1"#, "spare_ratio"),
        (r#", "mapping": {"ftl": "page", "unit_bytes": 3000}"#, "mapping.unit_bytes"),
        (r#", "write_buffer_bytes": 100"#, "write_buffer_bytes"),
        (r#", "initial": {"state": "steady", "fill": 1.5}"#, "initial.fill"),
    ] {
        let error = headrace_model::drive::build(&drive(change), 0).err().expect(field);
        assert_eq!(error.field, field, "{error}");
    }
}
