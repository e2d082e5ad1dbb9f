//! What hosts do of their own: acknowledgements that are kept, and windows that begin anew.

use proptest::prelude::*;

use super::tests::{path, Reads, RATE};
use super::*;

/// The data of a packet of 1500 bytes.
const PACKET_BYTES: f64 = 1448.0;

const KEPT_NS: Nanos = 40_000_000;
const ROUND_TRIP_NS: Nanos = 200_000;

/// Send a flow of packets at `now`, and return when the last one arrived.
fn arrival(tcp: &mut Tcp, mut now: Nanos, path: &Path, packets: u64) -> Nanos {
    tcp.send(now, path, packets * PACKET_BYTES as u64, 0);
    while let Some(later) = tcp.done(now, path, 0) {
        now = later;
    }
    now
}

/// A port that loses nothing.
fn wide(initial_window_packets: u32) -> TcpSpec {
    TcpSpec { initial_window_packets, port_buffer_bytes: 1 << 40, ..TcpSpec::default() }
}

fn lone(spec: TcpSpec, packets: u64) -> Nanos {
    arrival(&mut Tcp::new(spec, 2, 1), 0, &path(ROUND_TRIP_NS, RATE), packets)
}

#[test]
fn a_lone_packet_is_acknowledged_late_and_a_second_one_releases_it() {
    for recovery in [Recovery::Rack, Recovery::Sack, Recovery::NewReno] {
        let kept = |packets| TcpSpec { delayed_ack_ns: KEPT_NS, recovery, ..wide(packets) };
        // The second packet waits for the acknowledgement of the first.
        let late = lone(kept(1), 3);
        assert!((KEPT_NS..KEPT_NS + 4 * ROUND_TRIP_NS).contains(&late), "{recovery:?} {late}");
        assert!(lone(wide(1), 3) < 4 * ROUND_TRIP_NS);
        assert!(lone(kept(2), 3) < 4 * ROUND_TRIP_NS);
    }
}

#[test]
fn a_timeout_that_is_shorter_than_acknowledgements_are_kept_expires() {
    let spec = TcpSpec { delayed_ack_ns: KEPT_NS, min_rto_ns: KEPT_NS / 4, ..wide(1) };
    for recovery in [Recovery::Sack, Recovery::NewReno] {
        let mut tcp = Tcp::new(TcpSpec { recovery, ..spec }, 2, 1);
        let end = arrival(&mut tcp, 0, &path(ROUND_TRIP_NS, RATE), 3);
        assert!(tcp.counters().timeouts > 0 && end < KEPT_NS, "{recovery:?} {end}");
    }
}

/// 10 ms at 100 MB/s hold 690 packets, and the sender's own port holds nothing back.
fn long_path() -> Path {
    Path { line_bytes_per_s: 1e10, ..path(10_000_000, 1e8) }
}

#[test]
fn a_window_that_begins_anew_waits_for_each_request() {
    let waits = |restart| {
        let mut tcp = Tcp::new(TcpSpec { restart, ..TcpSpec::default() }, 2, 1);
        let (bytes, mut now) = (10 << 20, 0);
        [0, 1].map(|_| {
            let waited = tcp.send(now, &long_path(), bytes, 0) - now;
            now += waited + 200_000_000;
            tcp.done(now, &long_path(), 0);
            waited
        })
    };
    let [first, second] = waits(Restart::Request);
    assert_eq!((first, second), (waits(Restart::Timeout)[0], first));
    assert_eq!(waits(Restart::Timeout)[1], 0);
    // The same through a port that loses nothing.
    let times = |restart| {
        let mut tcp = Tcp::new(TcpSpec { restart, ..wide(10) }, 2, 1);
        let first = arrival(&mut tcp, 0, &long_path(), 2000);
        let now = first + 50_000_000;
        [first, arrival(&mut tcp, now, &long_path(), 2000) - now]
    };
    let [first, second] = times(Restart::Request);
    assert!(first.abs_diff(second) < 1_000_000, "{first} {second}");
    assert!(times(Restart::Timeout)[1] + 3 * 10_000_000 < first, "{first}");
}

#[test]
fn windows_that_begin_anew_keep_what_losses_taught_and_so_lose_less() {
    let spec = |restart| TcpSpec {
        min_rto_ns: 10_000_000,
        port_buffer_bytes: 150_000,
        initial_window_packets: 2,
        recovery: Recovery::Sack,
        congestion: Congestion::Reno,
        restart,
        ..TcpSpec::default()
    };
    let timeouts = |restart, servers| {
        let reads = Reads::new(spec(restart), servers);
        Reads { bytes: 1_000_000 / u64::from(servers), blocks: 500, ..reads }.run().1.timeouts
    };
    // A response of a megabyte ends before its windows fill the port.
    for servers in [2, 5, 10] {
        let (kept, anew) =
            (timeouts(Restart::Timeout, servers), timeouts(Restart::Request, servers));
        assert!(anew <= 2 + kept / 2, "{servers} servers: {anew} {kept}");
    }
    // The first windows of many servers do not fit into it.
    assert!(timeouts(Restart::Request, 80) > 500);
}

proptest! {
    #[test]
    fn how_long_acknowledgements_are_kept_matters_to_a_window_of_one_packet_only(
        packets in 1u64..3000,
        first_window in 2u32..40,
        round_trip_us in 0u64..20_000,
        kept_ms in 30u64..150,
        seed in any::<u64>(),
    ) {
        let end = |delayed_ack_ns| {
            let spec = TcpSpec { delayed_ack_ns, ..wide(first_window) };
            let p = path(round_trip_us * 1000, RATE);
            let mut tcp = Tcp::new(spec, 2, seed);
            (arrival(&mut tcp, 0, &p, packets), tcp.counters().timeouts)
        };
        let kept = end(kept_ms * 1_000_000);
        prop_assert_eq!(kept, end(KEPT_NS));
        prop_assert_eq!(kept.1, 0);
        // At most the acknowledgement of one packet per round comes a packet later.
        let slack = 40 * (round_trip_us * 1000 + 100_000);
        prop_assert!(kept.0 <= end(0).0 + slack);
    }
}
