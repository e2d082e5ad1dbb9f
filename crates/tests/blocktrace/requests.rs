//! Events become requests: merged, split, completed in parts, given back, two at one place; and what is counted of them.

use std::collections::HashMap;

use headrace_blocktrace::event::{Action, Event, Op};
use headrace_blocktrace::follow::Follow;
use headrace_blocktrace::join::Join;
use headrace_blocktrace::requests::{Requests, Row};
use headrace_blocktrace::seeks::Seeks;
use headrace_blocktrace::statistics::{Statistics, Summary};
use headrace_blocktrace::tiles::{Tiles, Window};
use headrace_blocktrace::walk::Walked;
use proptest::prelude::*;

use Action::{Complete, Issue, Merge, Queue, Requeue};

fn event(time_ns: u64, action: Action, sector: u64, sectors: u32, pid: u32) -> Event {
    Event { time_ns, sector, sectors, pid, device: 0, action, op: Op::Read }
}

/// Summed up as `summarise` does: where some never end, it is told first which of them were in flight.
fn counted(events: &[Event]) -> Summary {
    let (fast, walked) = taken(events, Statistics::default());
    if walked.unfinished + walked.reissues == 0 {
        return fast.summary(&walked).unwrap();
    }
    let (exact, walked) = taken(events, Statistics::exact());
    exact.summary(&walked).unwrap()
}

fn taken(events: &[Event], mut statistics: Statistics) -> (Statistics, Walked) {
    let mut join = Join::default();
    events.iter().for_each(|event| join.take(event, &mut statistics));
    join.finish(&mut statistics);
    let (unfinished, reissues) = (join.unfinished, join.reissues);
    (statistics, Walked { unfinished, reissues, ..Walked::default() })
}

fn rows(events: &[Event]) -> Vec<Row> {
    let (mut join, mut follow) = (Join::default(), Follow::new(true, Requests::default()));
    events.iter().for_each(|event| join.take(event, &mut follow));
    join.finish(&mut follow);
    follow.follower.finish();
    follow.follower.ready
}

#[test]
fn a_merged_request_belongs_to_who_queued_its_first_piece() {
    let events = [
        event(10, Queue, 100, 8, 1),
        event(12, Queue, 108, 8, 2),
        event(12, Merge, 108, 8, 2),
        event(20, Issue, 100, 16, 99),
        event(50, Complete, 100, 16, 0),
    ];
    let found = counted(&events);
    assert_eq!((found.total.requests, found.merges, found.unfinished), (1, 1, 0));
    let queue = found.total.queue_to_complete.unwrap();
    assert_eq!((queue.count, queue.mean_ns, queue.max_ns), (2, 39.0, 40));
    assert_eq!(found.total.dispatch_to_complete.unwrap().mean_ns, 30.0);
    assert_eq!(found.dispatch_to_complete_by_piece.unwrap().count, 2);
    assert_eq!(rows(&events)[0].pid, 1);
}

#[test]
fn a_split_piece_is_in_both_requests() {
    let events = [
        event(10, Queue, 0, 100, 1),
        event(20, Issue, 0, 60, 9),
        event(21, Issue, 60, 40, 9),
        event(70, Complete, 60, 40, 0),
        event(90, Complete, 0, 60, 0),
    ];
    let found = counted(&events);
    assert_eq!((found.total.requests, found.total.queue_depth_max), (2, Some(2)));
    assert_eq!(found.total.queue_to_complete.unwrap().mean_ns, 70.0);
    assert!(rows(&events).iter().all(|row| row.pid == 1 && row.queue_ns == Some(10)));
}

#[test]
fn a_request_that_completes_in_parts_is_done_with_its_last() {
    let events = [
        event(10, Issue, 0, 100, 1),
        event(40, Complete, 0, 30, 0),
        event(60, Complete, 30, 70, 0),
    ];
    let latency = counted(&events).total.dispatch_to_complete.unwrap();
    assert_eq!((latency.count, latency.max_ns), (1, 50));
}

#[test]
fn a_request_given_back_is_counted_once_from_its_last_issue() {
    let events = [
        event(5, Queue, 0, 8, 7),
        event(10, Issue, 0, 8, 7),
        event(20, Requeue, 0, 8, 7),
        event(30, Issue, 0, 8, 9),
        event(90, Complete, 0, 8, 0),
    ];
    let found = counted(&events);
    assert_eq!((found.total.requests, found.requeues), (1, 1));
    assert_eq!(found.total.dispatch_to_complete.unwrap().max_ns, 60);
    assert_eq!(found.total.queue_to_complete.unwrap().max_ns, 85);
    let rows = rows(&events);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].time_ns, rows[0].pid), (30, 7));
}

#[test]
fn two_requests_at_one_place_are_taken_in_turn() {
    let events = [
        event(10, Issue, 0, 8, 1),
        event(20, Issue, 0, 8, 2),
        event(30, Complete, 0, 8, 0),
        event(100, Complete, 0, 8, 0),
    ];
    let found = counted(&events);
    assert_eq!(
        (found.total.dispatch_to_complete.unwrap().count, found.unfinished, found.strays),
        (2, 0, 0)
    );
    assert_eq!(
        rows(&events).iter().map(|row| row.complete_ns).collect::<Vec<_>>(),
        vec![Some(30), Some(100)]
    );
}

fn write(time_ns: u64, action: Action, sector: u64, sectors: u32) -> Event {
    Event { op: Op::Write, ..event(time_ns, action, sector, sectors, 1) }
}

#[test]
fn a_request_issued_again_without_having_been_given_back_is_in_flight_once() {
    let events = [
        event(10, Issue, 0, 8, 1),
        event(20, Issue, 0, 8, 2),
        event(20, Issue, 64, 8, 1),
        event(50, Complete, 0, 8, 0),
        event(110, Complete, 64, 8, 0),
    ];
    let found = counted(&events);
    assert_eq!((found.reissues, found.unfinished, found.strays), (1, 0, 0));
    assert_eq!((found.total.read.issued.count, found.total.read.completed.count), (3, 2));
    assert_eq!(found.total.queue_depth_max, Some(2));
    // From 10 to 50, and from 20 to 110.
    assert_eq!(found.total.queue_depth_mean, Some((40.0 + 90.0) / 100.0));
    assert_eq!(found.queue_depth_share.len(), 3);
    let rows = rows(&events);
    assert_eq!(
        rows.iter().map(|row| (row.sector, row.complete_ns)).collect::<Vec<_>>(),
        [(0, Some(50)), (64, Some(110))]
    );
}

#[test]
fn a_second_issue_that_is_left_over_takes_no_later_completion() {
    // As of a journal: the same place is written again and again.
    let mut events =
        vec![write(0, Issue, 8, 8), write(1_000, Issue, 8, 8), write(90_000, Complete, 8, 8)];
    for at in 1..50u64 {
        events.push(write(at * 1_000_000, Issue, 8, 8));
        events.push(write(at * 1_000_000 + 90_000, Complete, 8, 8));
    }
    let found = counted(&events);
    let latency = found.total.dispatch_to_complete.unwrap();
    assert_eq!(
        (latency.count, latency.max_ns, found.reissues, found.unfinished),
        (50, 90_000, 1, 0)
    );
    assert_eq!(found.total.queue_depth_max, Some(1));
}

#[test]
fn how_many_are_in_flight_is_not_known_without_completions() {
    let events = (0..100).map(|at| event(at * 1000, Issue, at * 8, 8, 1)).collect::<Vec<_>>();
    let found = counted(&events);
    assert_eq!((found.total.queue_depth_mean, found.total.queue_depth_max), (None, None));
    assert_eq!((found.processes[0].queue_depth_mean, found.queue_depth_share.len()), (None, 0));
    assert_eq!((found.unfinished, found.reissues, found.total.requests), (100, 0, 100));
    // The same place again and again is as many requests, where nothing tells otherwise.
    let again = (0..100).map(|at| event(at * 1000, Issue, 8, 8, 1)).collect::<Vec<_>>();
    assert_eq!((counted(&again).reissues, rows(&again).len()), (0, 100));
    let queued = (0..100).map(|at| event(at * 1000, Queue, at * 8, 8, 1)).collect::<Vec<_>>();
    let found = counted(&queued);
    assert_eq!(
        (found.total.queue_depth_mean, found.unfinished, found.total.requests),
        (None, 100, 100)
    );
}

#[test]
fn requests_without_a_completion_are_not_in_flight() {
    let mut events = Vec::new();
    for at in 0..1000u64 {
        events.push(event(at * 1000, Issue, at * 8, 8, 1));
        if at % 10 != 3 {
            events.push(event(at * 1000 + 500, Complete, at * 8, 8, 0));
        }
    }
    let found = counted(&events);
    assert_eq!((found.unfinished, found.total.queue_depth_max), (100, Some(1)));
    let duration_ns = found.duration_s * 1e9;
    assert!((found.total.queue_depth_mean.unwrap() - 900.0 * 500.0 / duration_ns).abs() < 1e-9);
    assert!((found.queue_depth_share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_lost_completion_does_not_shift_those_that_follow_at_its_place() {
    let mut events = Vec::new();
    for at in 0..100u64 {
        let (begin_ns, lost) = (at * 10_000_000, at == 40);
        events.push(write(begin_ns, Queue, 8, 8));
        events.push(write(begin_ns + 1_000, Issue, 8, 8));
        if !lost {
            events.push(write(begin_ns + 100_000, Complete, 8, 8));
        }
    }
    let found = counted(&events);
    assert_eq!((found.unfinished, found.reissues), (1, 0));
    assert_eq!(found.total.dispatch_to_complete.unwrap().max_ns, 99_000);
    assert_eq!(found.total.queue_to_complete.unwrap().max_ns, 100_000);
}

#[test]
fn a_request_after_one_that_was_given_up_is_no_second_issue_of_it() {
    // Without queue events. The completions of the requests 40 and 41 were not recorded.
    let mut events = Vec::new();
    for at in 0..100u64 {
        events.push(write(at * 10_000_000, Issue, 8, 8));
        if !(40..42).contains(&at) {
            events.push(write(at * 10_000_000 + 100_000, Complete, 8, 8));
        }
    }
    let found = counted(&events);
    assert_eq!((found.unfinished, found.reissues), (2, 0));
    assert_eq!(found.total.dispatch_to_complete.unwrap().max_ns, 100_000);
}

#[test]
fn a_completion_is_of_a_request_of_its_length() {
    let events = [
        event(10, Issue, 0, 8, 1),
        event(20, Issue, 0, 64, 1),
        event(30, Complete, 0, 64, 0),
        event(40, Complete, 0, 8, 0),
        event(50, Issue, 512, 8, 1),
        event(60, Complete, 512, 128, 0),
    ];
    let found = counted(&events);
    assert_eq!(
        rows(&events).iter().map(|row| row.complete_ns).collect::<Vec<_>>(),
        [Some(40), Some(30), None]
    );
    assert_eq!((found.strays, found.unfinished), (1, 1));
}

#[test]
fn pieces_of_a_device_without_requests_are_in_flight_until_they_complete() {
    let events = [
        event(0, Queue, 0, 8, 1),
        event(10, Queue, 64, 8, 1),
        event(30, Complete, 0, 8, 0),
        event(40, Complete, 64, 8, 0),
        event(50, Queue, 128, 8, 1),
    ];
    let found = counted(&events);
    assert_eq!(
        (found.total.queue_depth_mean, found.total.queue_depth_max),
        (Some(60.0 / 50.0), Some(2))
    );
    assert_eq!(found.unfinished, 1);
}

#[test]
fn a_flush_has_no_place_and_is_not_in_flight() {
    let flush = |time_ns, action| Event { op: Op::Flush, ..event(time_ns, action, 0, 0, 1) };
    let events = [
        event(0, Issue, 8, 8, 1),
        flush(10, Issue),
        event(50, Complete, 8, 8, 0),
        flush(100, Complete),
    ];
    let found = counted(&events);
    assert_eq!((found.total.queue_depth_mean, found.total.queue_depth_max), (Some(0.5), Some(1)));
    assert_eq!(found.total.flush.completed.count, 1);
}

#[test]
fn a_trace_that_begins_in_the_middle_has_completions_of_what_was_before() {
    let events = [
        event(0, Complete, 800, 8, 0),
        event(10, Issue, 0, 8, 1),
        event(20, Complete, 808, 8, 0),
        event(110, Complete, 0, 8, 0),
    ];
    let found = counted(&events);
    assert_eq!((found.strays, found.unfinished, found.total.queue_depth_max), (2, 0, Some(1)));
    assert_eq!(found.total.queue_depth_mean, Some(1.0));
}

#[test]
fn the_same_place_on_two_devices_is_two_places() {
    let on = |device, event: Event| Event { device, ..event };
    let mut events = Vec::new();
    for device in 0..400 {
        events.push(on(device, event(u64::from(device), Issue, 8, 8, 1)));
    }
    for device in 0..400 {
        events.push(on(device, event(1000 + u64::from(device), Complete, 8, 8, 0)));
    }
    let found = counted(&events);
    assert_eq!((found.reissues, found.unfinished, found.total.queue_depth_max), (0, 0, Some(400)));
    assert_eq!(found.total.dispatch_to_complete.unwrap().mean_ns, 1000.0);
}

#[test]
fn a_trace_without_times_has_no_rates() {
    let events = [event(7, Issue, 0, 8, 1), event(7, Issue, 64, 8, 1)];
    let found = counted(&events);
    assert_eq!((found.duration_s, found.total.requests), (0.0, 2));
    assert_eq!(
        (found.total.iops, found.total.rate_bytes_per_s, found.total.seeks_per_s),
        (None, None, None)
    );
    assert_eq!(counted(&events[..1]).total.sequential_fraction, None);
}

#[test]
fn requests_at_one_moment_that_never_complete_do_not_fill_the_memory() {
    let (mut join, mut statistics) = (Join::default(), Statistics::default());
    let mut most = 0;
    for at in 0..300_000u64 {
        join.take(&event(0, Issue, at * 8, 8, 1), &mut statistics);
        most = most.max(join.open_requests());
    }
    assert!(most < 140_000, "{most}");
    join.finish(&mut statistics);
    assert_eq!((join.unfinished, join.open_requests()), (300_000, 0));
}

#[test]
fn rows_come_in_the_order_of_issue_and_say_what_was_not_seen() {
    let events = [
        event(10, Issue, 0, 8, 1),
        event(20, Issue, 64, 8, 1),
        event(30, Complete, 64, 8, 0),
        event(40, Complete, 512, 8, 0),
    ];
    let rows = rows(&events);
    assert_eq!(rows.iter().map(|row| row.sector).collect::<Vec<_>>(), vec![0, 64]);
    assert_eq!(
        (rows[0].complete_ns, rows[0].queue_ns, rows[1].complete_ns),
        (None, None, Some(30))
    );
    let found = counted(&events);
    assert_eq!((found.strays, found.unfinished), (1, 1));
}

#[test]
fn seeks_in_both_definitions() {
    let mut seeks = Seeks::default();
    // In order; overlapping; behind; ahead.
    assert!(![(0, 10), (10, 10)].map(|(at, length)| seeks.add(at, length)).contains(&true));
    assert!(seeks.add(15, 10));
    assert!(seeks.add(0, 5));
    assert!(seeks.add(105, 5));
    assert_eq!((seeks.followed, seeks.sequential, seeks.apart), (4, 1, 2));
    // Absolute: 0, |15-20|, |0-25|, |105-5|; closeness: 0, 0, 15-0, 105-5.
    assert_eq!(seeks.absolute().mean_sectors, (5 + 25 + 100) as f64 / 4.0);
    assert_eq!(seeks.closeness().mean_sectors, (15 + 100) as f64 / 4.0);
}

#[test]
fn completions_that_were_not_recorded_do_not_fill_the_memory() {
    let (mut join, mut statistics) = (Join::default(), Statistics::default());
    let mut most = 0;
    for at in 0..400_000u64 {
        // A request every millisecond, 400 s of them, none completed.
        join.take(&event(at * 1_000_000, Issue, at * 8, 8, 1), &mut statistics);
        most = most.max(join.open_requests());
    }
    assert!(most < 130_000, "{most}");
    assert!(join.unfinished > 250_000);
}

#[test]
fn tiles_hold_every_request_at_its_place() {
    let window = Window {
        from_ns: 0,
        to_ns: 999,
        sector_low: 0,
        sector_high: 1000,
        columns: 10,
        rows: 10,
        groups: [(1, 0)].into_iter().collect(),
        group_count: 2,
        exact: false,
    };
    let (mut join, mut follow) = (Join::default(), Follow::new(true, Tiles::new(window)));
    for event in [
        event(50, Issue, 0, 100, 1),
        event(150, Issue, 950, 50, 2),
        event(250, Complete, 0, 100, 0),
        event(250, Complete, 950, 50, 0),
    ] {
        join.take(&event, &mut follow);
    }
    let mut tiles = follow.follower;
    tiles.finish();
    let cell = |group: usize, row: usize, column: usize| {
        tiles.offsets[(group * 2 * 10 + row) * 10 + column]
    };
    assert_eq!((cell(0, 0, 0), cell(1, 9, 1), tiles.offsets.iter().sum::<u32>()), (1, 1, 2));
    assert_eq!((tiles.bytes[0], tiles.seeks[1]), (51_200, 1));
    // One request from 50 on, two from 150 to 250.
    assert_eq!(tiles.depth.ns[..3], [50, 150, 100]);
    assert_eq!(tiles.depth.max[..4], [1, 2, 2, 0]);
    assert_eq!(tiles.latencies.iter().sum::<u32>(), 2);
}

proptest! {
    /// Whatever order requests come and go in, nothing is lost: what was issued completes, depth is the sum of the latencies.
    #[test]
    fn counts_and_depth_add_up(requests in prop::collection::vec((0u64..1000, 1u64..500, 1u32..64, 1u32..5), 1..60)) {
        let mut events = Vec::new();
        for (at, (start, length, sectors, pid)) in requests.iter().enumerate() {
            let sector = at as u64 * 100;
            events.push(event(*start, Queue, sector, *sectors, *pid));
            events.push(event(*start, Issue, sector, *sectors, *pid));
            events.push(event(start + length, Complete, sector, *sectors, 0));
        }
        events.sort_by_key(|event| event.time_ns);
        let found = counted(&events);
        prop_assert_eq!(found.total.requests, requests.len() as u64);
        prop_assert_eq!(found.total.read.completed.count, requests.len() as u64);
        prop_assert_eq!((found.unfinished, found.strays), (0, 0));
        let busy: u64 = requests.iter().map(|request| request.1).sum();
        let span = found.duration_s * 1e9;
        prop_assert!((found.total.queue_depth_mean.unwrap() * span - busy as f64).abs() < 1e-3 * busy as f64 + 1.0);
        let mut by_pid: HashMap<u32, u64> = HashMap::new();
        requests.iter().for_each(|request| *by_pid.entry(request.3).or_default() += 1);
        prop_assert_eq!(found.processes.len(), by_pid.len());
        for part in &found.processes {
            prop_assert_eq!(part.requests, by_pid[&part.pid]);
        }
    }
}
