use proptest::prelude::*;

use super::*;

/// The data of a packet of 1500 bytes.
const PACKET_BYTES: f64 = 1448.0;

pub(super) const RATE: f64 = 125e6;
const ROUND_TRIP_NS: u64 = 200_000;

pub(super) fn path(round_trip_ns: u64, rate: f64) -> Path {
    Path {
        from: 0,
        to: 1,
        round_trip_ns,
        rate_bytes_per_s: rate,
        port_bytes_per_s: rate,
        line_bytes_per_s: rate,
    }
}

fn waits_ns(spec: TcpSpec, path: &Path, bytes: u64) -> Nanos {
    Tcp::new(spec, 2, 1).send(0, path, bytes, 0)
}

#[test]
fn a_first_window_is_sent_at_once() {
    assert_eq!(waits_ns(TcpSpec::default(), &path(100_000_000, 1e9), 14_480), 0);
    // One Gigabit Ethernet link of 100 us holds less than the initial window.
    assert_eq!(waits_ns(TcpSpec::default(), &path(100_000, 125e6), 1 << 30), 0);
}

#[test]
fn the_window_doubles_until_the_path_is_full() {
    // 10 ms at 100 MB/s hold 1 MB: windows of 14480 x 1, 2, 4 ... 64 are smaller.
    let expected: f64 = (0..7).map(|n| 0.01 - 14_480.0 * f64::from(1 << n) / 1e8).sum();
    let waited = waits_ns(TcpSpec::default(), &path(10_000_000, 1e8), 1 << 30) as f64 * 1e-9;
    assert!((waited - expected).abs() < 1e-6, "{waited} {expected}");
}

#[test]
fn windows_are_of_packets_that_the_links_carry() {
    // 10 packets of 8948 and of 524 bytes of data.
    for (mtu_bytes, window) in [(9000, 89_480.0), (576, 5_240.0)] {
        let doublings = (1e6_f64 / window).log2().ceil() as i32;
        let expected: f64 = (0..doublings).map(|n| 0.01 - window * f64::from(1 << n) / 1e8).sum();
        let spec = TcpSpec { mtu_bytes, ..TcpSpec::default() };
        let waited = waits_ns(spec, &path(10_000_000, 1e8), 1 << 30) as f64 * 1e-9;
        assert!((waited - expected).abs() < 1e-6, "{mtu_bytes}: {waited} {expected}");
    }
}

#[test]
fn a_warm_connection_does_not_wait_and_a_silent_one_starts_again() {
    let p = path(10_000_000, 1e8);
    let mut tcp = Tcp::new(TcpSpec::default(), 2, 1);
    let start = tcp.send(0, &p, 10 << 20, 0);
    let end = start + 100_000_000;
    tcp.done(end, &p, 0);
    let soon = end + 20_000_000;
    assert_eq!(tcp.send(soon, &p, 10 << 20, 0), soon);
    let end = soon + 100_000_000;
    tcp.done(end, &p, 0);
    // After many timeouts the window is the initial one.
    let later = end + 20_000_000_000;
    assert_eq!(tcp.send(later, &p, 10 << 20, 0), later + start);
}

/// Synchronised reads: a client that has all parts of a block before it asks for the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    pub(super) spec: TcpSpec,
    pub(super) servers: u32,
    /// From each server.
    pub(super) bytes: u64,
    pub(super) blocks: u32,
    pub(super) round_trip_ns: u64,
    pub(super) seed: u64,
}

impl Reads {
    pub(super) fn new(spec: TcpSpec, servers: u32) -> Self {
        let (blocks, round_trip_ns, seed) = (50, ROUND_TRIP_NS, 1);
        Reads { spec, servers, bytes: 256 << 10, blocks, round_trip_ns, seed }
    }

    /// Return the time in seconds at the rate of the port.
    fn least_s(&self) -> f64 {
        f64::from(self.blocks) * f64::from(self.servers) * self.bytes as f64 / RATE
    }

    fn path(&self, from: u32) -> Path {
        let share = RATE / f64::from(self.servers);
        let to = self.servers;
        Path { from, to, rate_bytes_per_s: share, ..path(self.round_trip_ns, RATE) }
    }

    /// Return the time in seconds and the counters.
    pub(super) fn run(&self) -> (f64, TcpCounters) {
        let mut tcp = Tcp::new(self.spec, self.servers as usize + 1, self.seed);
        let fair_ns = (f64::from(self.servers) * self.bytes as f64 / RATE * 1e9) as Nanos;
        let mut now = 0;
        for _ in 0..self.blocks {
            let send = |s| tcp.send(now, &self.path(s), self.bytes, 0);
            let began = (0..self.servers).map(send).max().unwrap();
            let mut asked: Vec<_> = (0..self.servers).map(|s| (began + fair_ns, s)).collect();
            while let Some(place) = (0..asked.len()).min_by_key(|&place| asked[place]) {
                let (at, server) = asked.swap_remove(place);
                now = at;
                if let Some(later) = tcp.done(at, &self.path(server), 0) {
                    assert!(later > at);
                    asked.push((later, server));
                }
            }
        }
        (now as f64 * 1e-9, tcp.counters())
    }

    fn goodput(&self) -> f64 {
        self.least_s() / self.run().0
    }
}

fn buffer(kib: u64) -> TcpSpec {
    let recovery = Recovery::NewReno;
    TcpSpec { port_buffer_bytes: kib << 10, recovery, ..TcpSpec::default() }
}

#[test]
fn synchronised_reads_collapse_beyond_a_number_of_servers_that_grows_with_the_buffer() {
    let mut most_servers = Vec::new();
    for kib in [64, 128, 256] {
        let good = (1..=64).take_while(|&n| Reads::new(buffer(kib), n).goodput() > 0.5).count();
        let beyond = Reads::new(buffer(kib), 2 * good as u32 + 2).goodput();
        assert!(beyond < 0.35, "{kib} KiB, {good} servers: {beyond}");
        most_servers.push(good as u32);
    }
    // FAST '08: more buffer serves more servers.
    assert!(most_servers.is_sorted_by(|less, more| less < more), "{most_servers:?}");
    // A short timeout takes most of the loss away; an endless buffer all of it.
    let servers = 2 * most_servers[0] + 2;
    let quick = TcpSpec { min_rto_ns: 200_000, ..buffer(64) };
    let slow = Reads::new(buffer(64), servers).goodput();
    let quick = Reads::new(quick, servers).goodput();
    assert!(quick > 2.0 * slow && quick > 0.7, "{quick} {slow}");
    assert!((Reads::new(buffer(0), servers).goodput() - 1.0).abs() < 1e-9);
}

#[test]
fn tail_loss_probes_replace_most_timeouts_of_few_servers() {
    let timeouts = |recovery| -> u64 {
        let spec = TcpSpec { recovery, ..buffer(64) };
        (1..=12).map(|servers| Reads::new(spec, servers).run().1.timeouts).sum()
    };
    let [newreno, sack, rack] = [Recovery::NewReno, Recovery::Sack, Recovery::Rack].map(timeouts);
    assert!(newreno.min(sack) > 4 * rack, "{newreno} {sack} {rack}");
}

/// Send a flow alone through a port whose queue a faster sender fills, and return when it ends.
fn overshoot(spec: TcpSpec, packets: u64) -> (Nanos, TcpCounters) {
    let p = Path { line_bytes_per_s: 100.0 * RATE, ..path(ROUND_TRIP_NS, RATE) };
    let mut tcp = Tcp::new(spec, 2, 1);
    tcp.send(0, &p, packets * PACKET_BYTES as u64, 0);
    let mut now = 0;
    while let Some(later) = tcp.done(now, &p, 0) {
        now = later;
    }
    (now, tcp.counters())
}

#[test]
fn a_lost_last_packet_costs_a_timeout_and_one_in_the_middle_does_not() {
    // The first window is larger than what the port takes: 10 packets of 1500 bytes.
    let spec = |recovery| TcpSpec {
        initial_window_packets: 14,
        port_buffer_bytes: 15_000,
        recovery,
        ..TcpSpec::default()
    };
    let timeout_ns = 200_000_000;
    for recovery in [Recovery::NewReno, Recovery::Sack] {
        let (end, counters) = overshoot(spec(recovery), 14);
        assert_eq!((counters.fast_retransmits, counters.timeouts), (0, 1), "{recovery:?}");
        assert!((timeout_ns..timeout_ns * 5 / 4).contains(&end), "{end}");
    }
    let (end, counters) = overshoot(spec(Recovery::Rack), 14);
    assert_eq!((counters.probes, counters.timeouts), (1, 0));
    assert!(end < timeout_ns / 20, "{end}");
    let (end, counters) = overshoot(spec(Recovery::Sack), 60);
    assert!(counters.fast_retransmits > 0 && counters.timeouts == 0, "{counters:?}");
    assert!(end < timeout_ns / 20, "{end}");
}

#[test]
fn timeouts_of_the_same_packet_double() {
    // The queue of a port that nearly stands still is full: each retransmission is lost.
    let spec = TcpSpec { port_buffer_bytes: 1500, recovery: Recovery::NewReno, ..buffer(1) };
    let slow = |from| Path { from, to: 2, line_bytes_per_s: RATE, ..path(0, 250.0) };
    let mut tcp = Tcp::new(spec, 3, 1);
    tcp.send(0, &slow(0), 1448, 0);
    tcp.send(0, &slow(1), 1448, 0);
    let mut asked = vec![0];
    while let Some(later) = tcp.done(asked[asked.len() - 1], &slow(1), 0) {
        asked.push(later);
    }
    // One packet takes 5.8 s: the one before, and then this one.
    assert_eq!(asked[1..6], [0.2, 0.6, 1.4, 3.0, 6.2].map(|s| (s * 1e9) as Nanos));
    assert!(tcp.counters().timeouts >= 5);
}

#[test]
fn flows_of_one_connection_end_as_their_own_packets_allow() {
    let p = path(ROUND_TRIP_NS, RATE);
    let mut tcp = Tcp::new(buffer(64), 2, 1);
    let packets = [1000u64, 10, 100];
    for (tag, count) in (0..).zip(packets) {
        tcp.send(0, &p, count * PACKET_BYTES as u64, tag);
    }
    let mut ends = [0; 3];
    for tag in [1, 2, 0] {
        let mut now = 0;
        while let Some(later) = tcp.done(now, &p, tag) {
            now = later;
        }
        ends[tag as usize] = now;
    }
    // A small flow is not held back by the large one before it.
    for (end, count) in ends.into_iter().zip(packets) {
        let least_ns = count as f64 * PACKET_BYTES / RATE * 1e9;
        assert!((least_ns..least_ns + 2e6).contains(&(end as f64)), "{end} {least_ns}");
    }
}

#[test]
fn windows_grow_as_the_rules_say() {
    let mut reno = window::Window::new(Congestion::Reno, 10.0);
    reno.reduce(10.0);
    assert_eq!((reno.packets, reno.threshold), (5.0, 5.0));
    (0..5).for_each(|_| reno.grow(0, 1e-3, 1.0));
    assert!((5.8..6.0).contains(&reno.packets), "{}", reno.packets);
    // RFC 9438, figure 1: K seconds after a loss the window is W_max again.
    let mut cubic = window::Window::new(Congestion::Cubic, 1000.0);
    cubic.reduce(1000.0);
    assert_eq!(cubic.packets, 700.0);
    let k_s = (300.0f64 / 0.4).cbrt();
    let round_trip_s = 0.1;
    let rounds = (k_s / round_trip_s) as u64;
    for round in 0..rounds {
        let now = (round as f64 * round_trip_s * 1e9) as Nanos;
        (0..cubic.whole()).for_each(|_| cubic.grow(now, round_trip_s, 1.0));
    }
    assert!((990.0..1001.0).contains(&cubic.packets), "{}", cubic.packets);
    cubic.rest(3, 10.0);
    assert!(cubic.packets < 126.0);
    cubic.rest(64, 10.0);
    assert_eq!(cubic.packets, 10.0);
}

fn recoveries() -> impl Strategy<Value = Recovery> {
    prop::sample::select(vec![Recovery::Rack, Recovery::Sack, Recovery::NewReno])
}

proptest! {
    #[test]
    fn a_flow_waits_longer_for_more_bytes_and_a_smaller_first_window_and_never_loses_time(
        round_trip_us in 1u64..50_000,
        rate_mb in 10u64..12_500,
        bytes in 1u64..1 << 30,
        packets in 1u32..40,
    ) {
        let p = path(round_trip_us * 1000, rate_mb as f64 * 1e6);
        let spec = |packets| TcpSpec { initial_window_packets: packets, ..TcpSpec::default() };
        let waited = waits_ns(spec(packets), &p, bytes);
        prop_assert!(waits_ns(spec(packets), &p, 2 * bytes) >= waited);
        // A window that begins in the middle of a round may fill it less by one round.
        prop_assert!(waits_ns(spec(2 * packets), &p, bytes) <= waited);
        // Never more rounds than doublings from one packet to all bytes.
        prop_assert!(waited <= 31 * p.round_trip_ns);
    }

    #[test]
    fn all_flows_arrive_through_any_port_and_none_earlier_than_its_rate_allows(
        servers in 1u32..24,
        bytes in 1u64..200_000,
        kib in 2u64..256,
        packets in 1u32..40,
        min_rto_us in 200u64..20_000,
        round_trip_us in 0u64..2_000,
        recovery in recoveries(),
        cubic in any::<bool>(),
        delayed_ack_us in prop::sample::select(vec![0, 100, 40_000]),
        anew in any::<bool>(),
        mtu_bytes in prop::sample::select(vec![576, 1500, 9000]),
        seed in any::<u64>(),
    ) {
        let congestion = if cubic { Congestion::Cubic } else { Congestion::Reno };
        let spec = TcpSpec {
            initial_window_packets: packets,
            min_rto_ns: min_rto_us * 1000,
            port_buffer_bytes: kib << 10,
            recovery,
            congestion,
            delayed_ack_ns: delayed_ack_us * 1000,
            restart: if anew { Restart::Request } else { Restart::Timeout },
            mtu_bytes,
        };
        let (blocks, round_trip_ns) = (4, round_trip_us * 1000);
        let reads = Reads { spec, servers, bytes, blocks, round_trip_ns, seed };
        let (time_s, counters) = reads.run();
        prop_assert!(time_s >= reads.least_s() * 0.999_999);
        // The same seed, the same losses.
        prop_assert_eq!((time_s, counters), reads.run());
        // A buffer that holds everything loses nothing.
        let spec = TcpSpec { port_buffer_bytes: 1 << 40, min_rto_ns: 200_000_000, ..spec };
        let counters = Reads { spec, ..reads }.run().1;
        prop_assert_eq!((counters.fast_retransmits, counters.timeouts), (0, 0));
    }
}
