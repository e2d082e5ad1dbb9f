//! TCP connections of the network: slow start, growth after a loss, and bursts that a switch's
//! buffer does not hold (incast).
//!
//! Flows of [`Network`](super::Network) have their fair rate from their first byte. This module
//! says how much later a flow begins, so that it ends when a window-limited sender would end. It
//! takes nothing away and never raises a rate: bytes are conserved and ports hold.
//!
//! **Slow start.** A connection sends a window per round trip R. While its window W is less than
//! the path holds (rate x R), the sender waits `R - W / rate` for acknowledgements in each round.
//! The window begins at `initial_window_packets` (RFC 6928: 10) and grows by what was acknowledged
//! (RFC 5681 3.1, RFC 3465), so that it doubles in each round; the sum of the waits is that of
//! Cardwell, Savage and Anderson, *Modeling TCP Latency* (INFOCOM 2000, equations 2 to 5, without
//! loss). A connection that was silent halves its window for each retransmission timeout, down to
//! the initial window (RFC 2861; `tcp_cwnd_restart` in `net/ipv4/tcp_output.c`).
//!
//! **Growth after a loss.** From the threshold on, the window is the larger of CUBIC's and its
//! Reno-friendly estimate (RFC 9438, 4.2 and 4.3): `C (t - K)^3 + W_max`, `K = cbrt(W_max (1 - b) /
//! C)` with C = 0.4 and b = 0.7, and `3 (1 - b) / (1 + b)` packets per round.
//!
//! **Incast.** A port of the switch holds B bytes that wait, and `rate x R` are on the way; more
//! are dropped. Connections that become active at one time send their windows at once. Of the
//! window that does not fit, the packets that fit arrive: with four or more, three of them are
//! duplicate acknowledgements, and the loss costs one round (fast retransmit, RFC 5681 3.2); with
//! fewer, nothing tells the sender but its timer, which is at least `min_rto_ns` and doubles each
//! time (RFC 6298; Linux: 200 ms). The port stands still meanwhile: Phanishayee et al.,
//! *Measurement and Analysis of TCP Throughput Collapse in Cluster-based Storage Systems* (FAST
//! '08).

use rustc_hash::FxHashMap;

use serde::{Deserialize, Serialize};

use crate::request::Nanos;

/// Payload of a packet: Ethernet's 1500 bytes without the headers of IP and TCP with time stamps.
const PACKET_BYTES: f64 = 1448.0;
/// A packet that is followed by three others is retransmitted without a timeout.
const FAST_RETRANSMIT_PACKETS: f64 = 4.0;
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
/// The longest timeout (Linux: `TCP_RTO_MAX`).
const MAX_RTO_NS: u64 = 120_000_000_000;

/// Parameters of the connections of a site, and of its switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpSpec {
    /// Packets of the first window (RFC 6928: 10; RFC 3390, Linux before 2.6.39: 3).
    pub initial_window_packets: u32,
    /// The shortest retransmission timeout (Linux: 200 ms).
    pub min_rto_ns: u64,
    /// Bytes that may wait at a port of the switch; 0: any number.
    pub port_buffer_bytes: u64,
}

impl Default for TcpSpec {
    fn default() -> Self {
        TcpSpec { initial_window_packets: 10, min_rto_ns: 200_000_000, port_buffer_bytes: 0 }
    }
}

/// The path of a flow: its hosts, the round trip without queues, the rate that the flow would get
/// now, and the rate of the receiver's port.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub from: u32,
    pub to: u32,
    pub round_trip_ns: u64,
    pub rate_bytes_per_s: f64,
    pub port_bytes_per_s: f64,
}

impl Path {
    fn bytes_per_round(&self, rate: f64) -> f64 {
        rate * self.round_trip_ns as f64 * 1e-9
    }
}

/// When a flow begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// At this time.
    From(Nanos),
    /// Nothing is sent before this time; then [`Tcp::send`] decides again.
    Later(Nanos),
}

/// Totals of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Time that flows began later, for windows to grow and for losses, summed.
    pub waited_ns: u64,
    /// Losses that cost a round trip, and those that cost a timeout.
    pub fast_retransmits: u64,
    pub timeouts: u64,
}

/// A connection from one host to another.
#[derive(Clone, Copy, Debug)]
struct Connection {
    window: f64,
    /// Bytes of the window that were sent in this round.
    sent: f64,
    /// Window above which it no longer doubles.
    threshold: f64,
    /// Window at the last loss, and the time for which it grew since.
    most: f64,
    grown_s: f64,
    /// When its flows may begin, and the last time at which it sent.
    ready: Nanos,
    last: Nanos,
    flows: u32,
    /// Bytes that it may have on its way to the receiver's port.
    claim: f64,
    /// Timeouts in a row.
    backoff: u32,
}

/// All connections.
#[derive(Debug)]
pub struct Tcp {
    spec: TcpSpec,
    connections: FxHashMap<(u32, u32), Connection>,
    /// Bytes that the connections to each host may have on their way.
    claimed: Vec<f64>,
    counters: TcpCounters,
}

impl Tcp {
    pub fn new(spec: TcpSpec, hosts: usize) -> Self {
        Tcp {
            spec,
            connections: FxHashMap::default(),
            claimed: vec![0.0; hosts],
            counters: TcpCounters::default(),
        }
    }

    pub fn counters(&self) -> TcpCounters {
        self.counters
    }

    fn initial_window(&self) -> f64 {
        f64::from(self.spec.initial_window_packets.max(1)) * PACKET_BYTES
    }

    /// Return what the path to a port holds: what is on the way and what may wait.
    fn capacity(&self, path: &Path) -> f64 {
        match self.spec.port_buffer_bytes {
            0 => f64::INFINITY,
            bytes => bytes as f64 + path.bytes_per_round(path.port_bytes_per_s),
        }
    }

    /// Return when `bytes` that are ready at `now` begin to flow at the path's rate. Each flow that
    /// begins ends with `done`.
    pub fn send(&mut self, now: Nanos, path: &Path, bytes: u64) -> Sending {
        let window = self.initial_window();
        let new = Connection {
            window,
            sent: 0.0,
            threshold: f64::INFINITY,
            most: 0.0,
            grown_s: 0.0,
            ready: 0,
            last: now,
            flows: 0,
            claim: 0.0,
            backoff: 0,
        };
        let key = (path.from, path.to);
        let mut c = *self.connections.entry(key).or_insert(new);
        if c.flows == 0 && c.ready > now {
            // Another flow of the connection was lost and waits.
            return Sending::Later(c.ready);
        }
        if c.flows == 0 {
            self.rest(&mut c, now, path);
            let wait = self.claim(&mut c, path, bytes as f64);
            if c.backoff > 0 && wait > 0 {
                c.ready = now + wait;
                self.counters.timeouts += 1;
                self.counters.waited_ns += wait;
                self.connections.insert(key, c);
                return Sending::Later(c.ready);
            }
            c.ready = now + wait;
        }
        let start = c.ready.max(now) + grow(&mut c, path, bytes as f64);
        self.counters.waited_ns += start - now;
        c.flows += 1;
        c.ready = start;
        c.last = start;
        self.connections.insert(key, c);
        Sending::From(start)
    }

    /// Account for the silence of a connection.
    fn rest(&self, c: &mut Connection, now: Nanos, path: &Path) {
        let silent = now.saturating_sub(c.last);
        if silent >= path.round_trip_ns && c.sent > 0.0 {
            // Everything is acknowledged: the window grows by what was sent.
            if c.window < c.threshold {
                c.window += c.sent;
            }
            c.sent = 0.0;
        }
        let timeout = (self.spec.min_rto_ns + path.round_trip_ns).max(1);
        let halvings = (silent / timeout).min(64) as i32;
        let least = self.initial_window().min(c.window);
        c.window = (c.window * 0.5f64.powi(halvings)).max(least);
    }

    /// Claim room at the receiver's port for a connection's first window, and return for how long
    /// what is lost delays it. With a timeout nothing is claimed and `backoff` is above 0.
    fn claim(&mut self, c: &mut Connection, path: &Path, bytes: f64) -> Nanos {
        let burst = c.window.min(bytes);
        let capacity = self.capacity(path);
        let claimed = &mut self.claimed[path.to as usize];
        let fits = (capacity - *claimed).max(0.0);
        if burst <= fits {
            (c.claim, c.backoff) = (burst, 0);
            *claimed += burst;
            return 0;
        }
        c.most = c.window;
        c.grown_s = 0.0;
        c.sent = 0.0;
        if fits >= FAST_RETRANSMIT_PACKETS * PACKET_BYTES {
            c.window = (c.window * CUBIC_BETA).min(fits).max(2.0 * PACKET_BYTES);
            c.threshold = c.window;
            (c.claim, c.backoff) = (fits, 0);
            *claimed += fits;
            self.counters.fast_retransmits += 1;
            return path.round_trip_ns;
        }
        c.threshold = (c.window * 0.5).max(2.0 * PACKET_BYTES);
        c.window = PACKET_BYTES;
        let wait = (self.spec.min_rto_ns + path.round_trip_ns) << c.backoff.min(20);
        c.backoff += 1;
        wait.min(MAX_RTO_NS)
    }

    /// Note that a flow of `bytes` that began at `began` has ended.
    pub fn done(&mut self, now: Nanos, began: Nanos, path: &Path, bytes: u64) {
        let capacity = self.capacity(path);
        let Some(c) = self.connections.get_mut(&(path.from, path.to)) else { return };
        c.last = now;
        c.flows -= 1;
        // A connection that shares a port has its share of what the port holds on its way, less
        // what CUBIC's saw-tooth leaves out on average.
        let rate = bytes as f64 / (now.saturating_sub(began).max(1) as f64 * 1e-9);
        let share = (rate / path.port_bytes_per_s).min(1.0) * (1.0 - (1.0 - CUBIC_BETA) / 4.0);
        if capacity.is_finite() {
            // Windows that are too small for a fast retransmit do not help: what is lost of them
            // costs a timeout.
            let least = FAST_RETRANSMIT_PACKETS * PACKET_BYTES;
            c.window = (c.window + bytes as f64).min((capacity * share).max(least));
        }
        if c.flows == 0 {
            let claimed = &mut self.claimed[path.to as usize];
            *claimed = (*claimed - c.claim).max(0.0);
            c.claim = 0.0;
        }
    }
}

/// Let a connection send `bytes` in rounds, and return the sum of its waits for acknowledgements.
fn grow(c: &mut Connection, path: &Path, mut bytes: f64) -> Nanos {
    let full = path.bytes_per_round(path.rate_bytes_per_s);
    let round_s = path.round_trip_ns as f64 * 1e-9;
    let mut wait_s = 0.0;
    while c.window < full {
        let room = c.window - c.sent;
        if bytes <= room {
            c.sent += bytes;
            return (wait_s * 1e9) as Nanos;
        }
        bytes -= room;
        wait_s += round_s - c.window / path.rate_bytes_per_s;
        c.sent = 0.0;
        c.window = next_window(c, round_s);
    }
    c.sent = 0.0;
    (wait_s * 1e9) as Nanos
}

/// Return the window of the next round.
fn next_window(c: &mut Connection, round_s: f64) -> f64 {
    if c.window < c.threshold {
        return (2.0 * c.window).min(c.threshold.max(c.window + PACKET_BYTES));
    }
    c.grown_s += round_s;
    let most = c.most / PACKET_BYTES;
    let k = (most * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
    let cubic = CUBIC_C * (c.grown_s - k).powi(3) + most;
    let reno = c.window / PACKET_BYTES + 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
    // No more than one and a half times (RFC 9438, 4.2).
    cubic.max(reno).min(1.5 * c.window / PACKET_BYTES).max(reno) * PACKET_BYTES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(round_trip_ns: u64, rate: f64) -> Path {
        Path { from: 0, to: 1, round_trip_ns, rate_bytes_per_s: rate, port_bytes_per_s: rate }
    }

    fn waits_ns(spec: TcpSpec, path: &Path, bytes: u64) -> Nanos {
        match Tcp::new(spec, 2).send(0, path, bytes) {
            Sending::From(start) => start,
            Sending::Later(_) => panic!("nothing else is sent"),
        }
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
    fn a_warm_connection_does_not_wait_and_a_silent_one_starts_again() {
        let p = path(10_000_000, 1e8);
        let mut tcp = Tcp::new(TcpSpec::default(), 2);
        let Sending::From(start) = tcp.send(0, &p, 10 << 20) else { panic!() };
        let end = start + 100_000_000;
        tcp.done(end, start, &p, 10 << 20);
        let soon = end + 20_000_000;
        assert_eq!(tcp.send(soon, &p, 10 << 20), Sending::From(soon));
        let end = soon + 100_000_000;
        tcp.done(end, soon, &p, 10 << 20);
        // After many timeouts the window is the initial one.
        let later = end + 20_000_000_000;
        assert_eq!(tcp.send(later, &p, 10 << 20), Sending::From(later + start));
    }

    /// Return the time in which `servers` send `bytes` each to one client at once, again and again.
    fn rounds_s(spec: TcpSpec, servers: u32, bytes: u64, rounds: u32) -> f64 {
        let rate = 125e6;
        let mut tcp = Tcp::new(spec, servers as usize + 1);
        let mut now = 0;
        for _ in 0..rounds {
            let share = rate / f64::from(servers);
            let mut waiting: Vec<(Nanos, u32)> = (0..servers).map(|s| (now, s)).collect();
            while let Some(at) = waiting.iter().map(|w| w.0).min() {
                let (due, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|w| w.0 == at);
                waiting = rest;
                let mut flows = Vec::new();
                for (_, server) in due {
                    let p = Path {
                        from: server,
                        to: servers,
                        round_trip_ns: 100_000,
                        rate_bytes_per_s: share,
                        port_bytes_per_s: rate,
                    };
                    match tcp.send(at, &p, bytes) {
                        Sending::From(start) => flows.push((start, p)),
                        Sending::Later(time) => waiting.push((time, server)),
                    }
                }
                let Some(first) = flows.iter().map(|f| f.0).max() else { continue };
                let end = first + (flows.len() as f64 * bytes as f64 / rate * 1e9) as u64;
                flows.iter().for_each(|(start, p)| tcp.done(end, *start, p, bytes));
                now = now.max(end);
            }
        }
        now as f64 * 1e-9
    }

    /// Return the goodput of synchronised reads over the rate of the link.
    fn goodput(spec: TcpSpec, servers: u32) -> f64 {
        let bytes = 256 << 10;
        f64::from(servers) * bytes as f64 * 20.0 / 125e6 / rounds_s(spec, servers, bytes, 20)
    }

    #[test]
    fn synchronised_reads_collapse_beyond_a_number_of_servers_that_grows_with_the_buffer() {
        let buffer = |kib: u64| TcpSpec { port_buffer_bytes: kib << 10, ..TcpSpec::default() };
        let mut most_servers = Vec::new();
        for kib in [64, 128, 256] {
            let good = (1..=128).take_while(|&servers| goodput(buffer(kib), servers) > 0.5).count();
            assert!(goodput(buffer(kib), good as u32 + 8) < 0.4, "{kib} KiB, {good} servers");
            most_servers.push(good as f64);
        }
        // FAST '08: a switch with twice the buffer serves about twice the servers.
        assert!((4.0..=16.0).contains(&most_servers[0]), "{most_servers:?}");
        for pair in most_servers.windows(2) {
            assert!((1.6..=2.4).contains(&(pair[1] / pair[0])), "{most_servers:?}");
        }
        // A short timeout takes most of the loss away; an endless buffer all of it.
        let servers = most_servers[0] as u32 + 8;
        let quick = TcpSpec { min_rto_ns: 1_000_000, ..buffer(64) };
        assert!(goodput(quick, servers) > 2.0 * goodput(buffer(64), servers));
        assert!(goodput(buffer(0), servers) > 0.95);
    }

    #[test]
    fn timeouts_double_until_there_is_room() {
        let spec = TcpSpec { port_buffer_bytes: 20_000, ..TcpSpec::default() };
        let mut tcp = Tcp::new(spec, 3);
        let p = |from| Path { from, to: 2, ..path(0, 125e6) };
        assert_eq!(tcp.send(0, &p(0), 1 << 20), Sending::From(0));
        assert_eq!(tcp.send(0, &p(1), 1 << 20), Sending::Later(200_000_000));
        // One packet fits after the timeout: the port has 5520 bytes left.
        assert_eq!(tcp.send(200_000_000, &p(1), 1 << 20), Sending::From(200_000_000));
        assert_eq!(tcp.counters().timeouts, 1);
        let full = TcpSpec { port_buffer_bytes: 14_480, ..TcpSpec::default() };
        let mut tcp = Tcp::new(full, 3);
        assert_eq!(tcp.send(0, &p(0), 1 << 20), Sending::From(0));
        assert_eq!(tcp.send(0, &p(1), 1 << 20), Sending::Later(200_000_000));
        assert_eq!(tcp.send(200_000_000, &p(1), 1 << 20), Sending::Later(600_000_000));
        tcp.done(300_000_000, 0, &p(0), 1 << 20);
        assert_eq!(tcp.send(600_000_000, &p(1), 1 << 20), Sending::From(600_000_000));
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
    }
}
