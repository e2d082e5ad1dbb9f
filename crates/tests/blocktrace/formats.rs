//! Every format says the same of the same requests; what is damaged is told by its place, and the rest is kept.

use std::io::Write;
use std::path::{Path, PathBuf};

use headrace_blocktrace::blktrace::{files_of_run, Writer};
use headrace_blocktrace::damage::{Damage, Damages};
use headrace_blocktrace::event::{device_number, Action, Event, Op};
use headrace_blocktrace::formats::open;
use proptest::prelude::*;

const DEVICE: u32 = 8 << 20;

fn event(time_ns: u64, action: Action, op: Op, sector: u64, sectors: u32) -> Event {
    Event { time_ns, sector, sectors, pid: 697, device: DEVICE, action, op }
}

fn read(files: &[PathBuf]) -> Result<(Vec<Event>, Damages), Box<Damage>> {
    let mut source = open(files)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        batch.clear();
        source.fill(&mut batch);
        if batch.is_empty() {
            return Ok((all, source.damages().clone()));
        }
        all.extend_from_slice(&batch);
    }
}

fn written(place: &Path, name: &str, events: &[Event]) -> PathBuf {
    let path = place.join(name);
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), 0);
    for event in events {
        writer.event(event, b"cat\0garbage").unwrap();
    }
    path
}

/// The same trace in version 8: records of 64 bytes, a longer action, the process before it.
fn widened(bytes: &[u8]) -> Vec<u8> {
    let mut wide = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (record, payload) = (&bytes[at..at + 48], usize::from(bytes[at + 46]));
        wide.extend_from_slice(&[0x08, 0x74, 0x61, 0x65]);
        wide.extend_from_slice(&record[4..28]); // sequence, time, sector, bytes
        wide.extend_from_slice(&record[32..36]); // process
        wide.extend_from_slice(&record[28..32]); // action
        wide.extend_from_slice(&[0; 4]);
        wide.extend_from_slice(&record[36..48]); // device, cpu, error, payload
        wide.extend_from_slice(&[0; 12]);
        wide.extend_from_slice(&bytes[at + 48..at + 48 + payload]);
        at += 48 + payload;
    }
    wide
}

/// Each number of a record the other way round. (offset, size) of each.
fn swapped(bytes: &[u8], length: usize, numbers: &[(usize, usize)]) -> Vec<u8> {
    let (mut bytes, mut at) = (bytes.to_vec(), 0);
    while at < bytes.len() {
        let payload = usize::from(bytes[at + numbers[numbers.len() - 1].0]);
        for &(offset, size) in numbers {
            bytes[at + offset..at + offset + size].reverse();
        }
        at += length + payload;
    }
    bytes
}

const NUMBERS_7: [(usize, usize); 11] = [
    (0, 4),
    (4, 4),
    (8, 8),
    (16, 8),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 2),
    (46, 2),
];
const NUMBERS_8: [(usize, usize); 11] = [
    (0, 4),
    (4, 4),
    (8, 8),
    (16, 8),
    (24, 4),
    (28, 4),
    (32, 8),
    (40, 4),
    (44, 4),
    (48, 2),
    (50, 2),
];

/// The three events as a file of version 7 or 8.
fn three_in(version: u32) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(written(place.path(), "trace", &three())).unwrap();
    if version == 8 {
        widened(&bytes)
    } else {
        bytes
    }
}

fn of_bytes(bytes: &[u8]) -> Result<(Vec<Event>, Damages), Box<Damage>> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("trace");
    std::fs::write(&path, bytes).unwrap();
    read(&[path])
}

fn of_text(text: &str) -> Result<(Vec<Event>, Damages), Box<Damage>> {
    of_bytes(text.as_bytes())
}

fn three() -> Vec<Event> {
    vec![
        event(200_000_000, Action::Issue, Op::Read, 8, 8),
        event(201_000_000, Action::Issue, Op::Write, 4096, 16),
        event(202_500_000, Action::Complete, Op::Read, 8, 8),
    ]
}

#[test]
fn text_of_blkparse_tracefs_and_perf_say_the_same() {
    let blkparse = "  8,0    3        2     0.200000000   697  D   R 8 + 8 [cat]\n  8,0    1        3     0.201000000   697  D  WS 4096 + 16 \
                    [cat]\n  8,0    1        5     0.202500000   697  C   R 8 + 8 [0]\nCPU0 (8,0):\n Reads Queued:           1,        4KiB\n";
    let tracefs = "# tracer: nop\n     my cat-697     [001] ..... 0.200000000: block_rq_issue: 8,0 R 4096 () 8 + 8 none,0,0 [cat]\n     \
                   my cat-697 (697) [001] d..1. 0.201000000: block_rq_issue: 8,0 WS 8192 () 4096 + 16 none,0,0 [cat]\n  <idle>-697 [000] d.h.. \
                   0.202500000: block_rq_complete: 8,0 R () 8 + 8 none,0,0 [0]\n";
    let perf = "my cat   697 [001]     0.200000000: block:block_rq_issue: 8,0 R 4096 () 8 + 8 [cat]\nmy cat   697 [001]     0.201000000: \
                block:block_rq_issue: 8,0 WS 8192 () 4096 + 16 [cat]\nswapper   697 [000]     0.202500000: block:block_rq_complete: 8,0 R () 8 + 8 \
                [0]\n";
    for text in [blkparse, tracefs, perf] {
        let (events, damages) = of_text(text).unwrap();
        assert_eq!(events, three(), "{text}");
        assert_eq!(damages.count, 0, "{damages:?}");
    }
}

#[test]
fn iolog_and_csv_are_in_the_order_of_time() {
    let iolog = "fio version 3 iolog\n0 f add\n0 f open\n5 f read 4096 4096\n3 f write 0 512\n9 f sync 0 0\n";
    let (events, damages) = of_text(iolog).unwrap();
    let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
    assert_eq!((times, damages.count), (vec![3000, 5000, 9000], 0));
    let csv = "time_ns,op,sector,sectors,response_ns\n0,read,8,8,500\n100,write,64,8,100\n300,flush,0,0,\n";
    let (events, _) = of_text(csv).unwrap();
    let seen: Vec<(u64, Action)> =
        events.iter().map(|event| (event.time_ns, event.action)).collect();
    use Action::{Complete, Issue};
    assert_eq!(
        seen,
        vec![(0, Issue), (100, Issue), (200, Complete), (300, Issue), (500, Complete)]
    );
}

#[test]
fn csv_of_spreadsheets_means_what_plain_csv_means() {
    let plain = "time_ns,op,sector,sectors,pid,process,response_ns\n0,read,8,8,7,cp,500\n900,write,64,8,9,a,100\n";
    let (expected, _) = of_text(plain).unwrap();
    assert_eq!(expected.len(), 4);
    for text in [
        format!("\u{feff}{plain}"),
        format!("\r\n{}", plain.replace('\n', "\r\n")),
        plain.replace("response_ns", "Response_NS").replace("time_ns", "\"Time_ns\""),
        plain.replace(",cp,", ",\"cp, then \"\"sync\"\"\","),
        plain.replace("500", "500,,"),
    ] {
        let (events, damages) = of_text(&text).unwrap();
        assert_eq!((events, damages.count), (expected.clone(), 0), "{text}");
    }
}

#[test]
fn lines_of_csv_that_do_not_fit_the_header_are_damage() {
    let head = "time_ns,op,sector,sectors,response_ns";
    for (line, field) in [
        ("0,read,8,8", "line"),
        ("0,read,8,8,500,99", "line"),
        ("0,read,8,\"8,500", "line"),
        ("0,read,8,8,18446744073709551615", "response_ns"),
    ] {
        let (events, damages) = of_text(&format!("{head}\n{line}\n900,read,8,8,1\n")).unwrap();
        assert_eq!((events.len(), damages.count), (2, 1), "{line}");
        assert_eq!((damages.first[0].field.as_str(), damages.first[0].line), (field, 2), "{line}");
    }
    let twice = of_text("\ntime_ns,op,sector,sector,sectors\n0,read,8,9,8\n").unwrap_err();
    assert_eq!((twice.field.as_str(), twice.line), ("sector", 2));
}

#[test]
fn the_files_of_all_cpus_are_merged_by_time() {
    let place = tempfile::tempdir().unwrap();
    let all = three();
    written(place.path(), "sda.blktrace.0", &[all[0], all[2]]);
    written(place.path(), "sda.blktrace.1", &[all[1]]);
    std::fs::write(place.path().join("sda.blktrace.2"), b"").unwrap();
    for named in ["sda", "sda.blktrace.1"] {
        let files = files_of_run(&place.path().join(named));
        assert_eq!(files.len(), 3);
        assert_eq!(read(&files).unwrap().0, all);
    }
}

#[test]
fn both_versions_are_read_in_either_byte_order() {
    for (version, length, numbers) in [(7, 48, NUMBERS_7), (8, 64, NUMBERS_8)] {
        let bytes = three_in(version);
        for each in [swapped(&bytes, length, &numbers), bytes] {
            let (events, damages) = of_bytes(&each).unwrap();
            assert_eq!((events, damages.count), (three(), 0), "version {version}");
        }
    }
}

#[test]
fn zones_that_are_reset_are_no_requests_and_appends_are_writes() {
    // Of version 8 alone: the categories that its wider action has room for.
    let mut bytes = three_in(8);
    let (reset, append) = (64 + 16 + 64, 64 + 16 + 128);
    bytes[reset + 36] = 0b10; // BLK_TC_ZONE_RESET
    bytes[append + 34] |= 0b10; // BLK_TC_WRITE instead of BLK_TC_READ
    bytes[append + 34] &= !0b01;
    bytes[append + 36] = 0b01; // BLK_TC_ZONE_APPEND
    let (events, damages) = of_bytes(&bytes).unwrap();
    let kept = [three()[0], Event { op: Op::Write, ..three()[2] }];
    assert_eq!((&events[..], damages.count), (&kept[..], 0));
}

#[test]
fn a_record_of_another_version_within_a_file_is_told() {
    let mut bytes = three_in(7);
    bytes[64 + 48] = 0x08;
    let (events, damages) = of_bytes(&bytes).unwrap();
    assert_eq!((events.len(), damages.count, damages.first[0].offset), (2, 1, 64 + 48));
}

#[test]
fn a_request_of_more_bytes_than_the_kernel_can_issue_is_damage() {
    let csv = "time_ns,op,sector,sectors\n0,read,0,4294967295\n1,write,0,8388608\n2,read,0,8388607\n3,discard,0,4294967295\n";
    let iolog = "fio version 3 iolog\n0 f read 0 2199023255040\n0 f write 0 4294967296\n0 f read 0 4294966784\n0 f trim 0 2199023255040\n";
    for text in [csv, iolog] {
        let (events, damages) = of_text(text).unwrap();
        let kept: Vec<(Op, u32)> = events.iter().map(|event| (event.op, event.sectors)).collect();
        assert_eq!(kept, vec![(Op::Read, 8_388_607), (Op::Discard, u32::MAX)], "{text}");
        let first = (damages.count, damages.first[0].line, damages.first[0].field.as_str());
        assert_eq!(first, (2, 2, "sectors"));
        assert_eq!(damages.first[0].allowed, "1 to 8388607 for a read or a write");
    }
}

#[test]
fn a_flush_has_no_position() {
    // The kernel prints a sector with all bits set, which once had 32 bits.
    for sector in [u64::from(u32::MAX), u64::MAX] {
        let csv = format!("time_ns,op,sector,sectors\n0,flush,{sector},0\n");
        let blkparse =
            format!("  8,0    3        2     0.200000000   697  D   F {sector} + 0 [k]\n");
        let tracefs = format!(
            "     k-697     [001] ..... 0.200000000: block_rq_issue: 8,0 FF 0 () {sector} + 0 none,0,0 [k]\n"
        );
        for text in [csv, blkparse, tracefs] {
            let (events, damages) = of_text(&text).unwrap();
            let seen: Vec<(Op, u64)> =
                events.iter().map(|event| (event.op, event.sector)).collect();
            assert_eq!((seen, damages.count), (vec![(Op::Flush, 0)], 0), "{text}");
        }
    }
}

#[test]
fn files_of_an_iolog_are_devices_of_their_own() {
    let iolog = "fio version 2 iolog\n/data/a add\n/data/b add\n/data/b open\n/data/a open\n/data/a read 0 4096\n/data/b read 0 4096\n/data/a read 4096 4096\n";
    let (events, damages) = of_text(iolog).unwrap();
    let devices: Vec<u32> = events.iter().map(|event| event.device).collect();
    assert_eq!((devices, damages.count), (vec![1, 2, 1], 0));
}

#[test]
fn what_is_no_trace_is_refused_with_what_may_be_one() {
    let newer = [0x09u8, 0x74, 0x61, 0x65].iter().copied().chain([0; 60]).collect::<Vec<u8>>();
    let refused = of_bytes(&newer).unwrap_err();
    assert_eq!((refused.given.as_str(), refused.allowed.as_str()), ("9", "7, 8"));
    let place = tempfile::tempdir().unwrap();
    assert!(of_text("").unwrap_err().problem.contains("empty"));
    assert_eq!(of_text("hello\n").unwrap_err().line, 1);
    assert_eq!(of_text("fio version 9 iolog\n").unwrap_err().given, "9");
    assert!(read(&[place.path().join("nothing")]).unwrap_err().problem.contains("No such file"));
}

#[test]
fn a_broken_line_is_told_and_the_others_are_kept() {
    let (events, damages) =
        of_text("time_ns,op,sector,sectors\n0,read,8,8\n5,reed,8,8\n9,read,8,8\n").unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(
        (damages.count, damages.first[0].line, damages.first[0].field.as_str()),
        (1, 3, "op")
    );
    let lost = "  cat-1 [000] ..... 1.0: block_rq_issue: 8,0 R 4096 () 8 + 8 [cat]\nCPU:1 [LOST 42 EVENTS]\n";
    let (events, damages) = of_text(lost).unwrap();
    assert_eq!((events.len(), damages.count), (1, 1));
}

#[test]
fn bytes_between_records_are_skipped_and_told() {
    for (version, length) in [(7, 48), (8, 64)] {
        let whole = three_in(version);
        // After the name's record and the first event's.
        let cut = length + 16 + length;
        let (events, damages) =
            of_bytes(&[&whole[..cut], &[0xAA; 100][..], &whole[cut..]].concat()).unwrap();
        assert_eq!(events, three());
        assert_eq!((damages.count, damages.first[0].offset), (1, cut as u64));
        assert!(damages.first[0].problem.starts_with("100 bytes"), "{:?}", damages.first[0]);
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let action = prop_oneof![
        Just(Action::Queue),
        Just(Action::Merge),
        Just(Action::Issue),
        Just(Action::Requeue),
        Just(Action::Complete)
    ];
    let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Flush), Just(Op::Discard)];
    (0u64..1 << 40, action, op, 0u64..1 << 40, 1u32..4096, 1u32..9).prop_map(
        |(time_ns, action, op, sector, sectors, pid)| {
            let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, sectors) };
            Event { time_ns, sector, sectors, pid, device: device_number(259, 3), action, op }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(mut events in prop::collection::vec(any_event(), 1..200)) {
        events.sort_by_key(|event| event.time_ns);
        let place = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(written(place.path(), "trace", &events)).unwrap();
        for each in [widened(&bytes), bytes] {
            let (found, damages) = of_bytes(&each).unwrap();
            prop_assert_eq!(&found, &events);
            prop_assert_eq!(damages.count, 0);
        }
    }

    #[test]
    fn a_file_cut_anywhere_keeps_every_whole_record(cut in 0usize..400, wide in any::<bool>()) {
        let (version, length) = if wide { (8, 64) } else { (7, 48) };
        let whole = three_in(version);
        let cut = cut.min(whole.len());
        let ends = [0, 1, 2, 3].map(|events| length + 16 + events * length);
        let kept = ends[1..].iter().filter(|end| **end <= cut).count();
        match of_bytes(&whole[..cut]) {
            Ok((events, damages)) => {
                prop_assert_eq!(&events[..], &three()[..kept]);
                prop_assert_eq!(damages.count, u64::from(!ends.contains(&cut)));
                if let Some(damage) = damages.first.first() {
                    prop_assert!(damage.offset as usize <= cut);
                }
            }
            Err(_) => prop_assert!(cut < 4),
        }
    }

    #[test]
    fn nonsense_in_a_binary_trace_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), at in 4usize..272, wide in any::<bool>(),
    ) {
        let mut all = three_in(if wide { 8 } else { 7 });
        let at = at.min(all.len());
        for (place, byte) in all[at..].iter_mut().zip(&bytes) {
            *place = *byte;
        }
        all.extend(bytes);
        let (events, damages) = of_bytes(&all).unwrap();
        // What stood before the nonsense is there (but not always in its place: a made-up event may have any time).
        let length = if wide { 64 } else { 48 };
        let before = (0..3).filter(|event| 16 + length * (event + 2) <= at).count();
        prop_assert!(three()[..before].iter().all(|event| events.contains(event)));
        prop_assert!(damages.first.iter().all(|damage| damage.offset as usize <= all.len()));
    }

    #[test]
    fn nonsense_in_text_never_panics(
        head in prop_oneof![
            Just("fio version 3 iolog\n"), Just("fio version 2 iolog\n"), Just("time_ns,op,sector,sectors,pid,queue_ns,complete_ns,device\n"),
            Just("8,0 1 1 0.1 1 D R 8 + 8 [x]\n"), Just(" x-1 [0] 1.0: block_rq_issue: 8,0 R 0 () 8 + 8 [x]\n"),
        ],
        lines in prop::collection::vec("[ -~é]{0,60}|[0-9,. +:\\[\\]a-zR-W]{0,80}|x-1 \\[0\\] 9[0-9.]{1,30}: block_(rq_issue|bio_queue|rq_complete): [0-9, RWF+]{0,40}", 0..30),
    ) {
        let mut text = head.to_owned();
        lines.iter().for_each(|line| { text.push_str(line); text.push('\n'); });
        let (events, _) = of_text(&text).unwrap();
        prop_assert!(events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    }
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("trace");
    let mut out = std::fs::File::create(&path).unwrap();
    out.write_all(b"time_ns,op,sector,sectors\n").unwrap();
    out.write_all(&vec![b'7'; 1 << 20]).unwrap();
    let (events, damages) = read(&[path]).unwrap();
    assert!(events.is_empty() && damages.count >= 1);
}
