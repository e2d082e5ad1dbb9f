//! What slow start costs when nothing is lost.
//!
//! A connection sends a window per round trip R. While its window W is less than the path holds
//! (rate x R), the sender waits `R - W / rate` for acknowledgements in each round. The window
//! begins at `initial_window_packets` (RFC 6928: 10) and grows by what was acknowledged (RFC 5681
//! 3.1, RFC 3465), so that it doubles in each round; the sum of the waits is that of Cardwell,
//! Savage and Anderson, *Modeling TCP Latency* (INFOCOM 2000, equations 2 to 5, without loss). A
//! connection that was silent halves its window for each retransmission timeout, down to the
//! initial window (RFC 2861; `tcp_cwnd_restart` in `net/ipv4/tcp_output.c`), or begins with it at
//! once (`Restart::Request`).

use rustc_hash::FxHashMap;

use super::spec::{Path, Restart, TcpSpec};
use crate::request::Nanos;

/// A connection from one host to another.
#[derive(Clone, Copy, Debug)]
struct Connection {
    window: f64,
    /// Bytes of the window that were sent in this round.
    sent: f64,
    /// When its flows may begin, and the last time at which it sent.
    ready: Nanos,
    last: Nanos,
    flows: u32,
}

/// All connections, by their hosts.
#[derive(Debug, Default)]
pub struct SlowStart {
    connections: FxHashMap<(u32, u32), Connection>,
}

fn initial_window(spec: &TcpSpec) -> f64 {
    f64::from(spec.initial_window_packets.max(1)) * spec.packet_bytes()
}

impl SlowStart {
    /// Return when `bytes` that are ready at `now` begin to flow at the path's rate. Each flow ends
    /// with `done`.
    pub fn send(&mut self, spec: &TcpSpec, now: Nanos, path: &Path, bytes: u64) -> Nanos {
        let window = initial_window(spec);
        let new = Connection { window, sent: 0.0, ready: 0, last: now, flows: 0 };
        let c = self.connections.entry((path.from, path.to)).or_insert(new);
        if c.flows == 0 {
            c.rest(spec, now, path);
            c.ready = now;
        }
        let start = c.ready.max(now) + c.grow(path, bytes as f64);
        c.flows += 1;
        c.ready = start;
        c.last = start;
        start
    }

    /// Note that a flow has ended.
    pub fn done(&mut self, now: Nanos, path: &Path) {
        if let Some(c) = self.connections.get_mut(&(path.from, path.to)) {
            c.last = now;
            c.flows -= 1;
        }
    }
}

impl Connection {
    /// Account for the silence of a connection.
    fn rest(&mut self, spec: &TcpSpec, now: Nanos, path: &Path) {
        let silent = now.saturating_sub(self.last);
        if silent >= path.round_trip_ns && self.sent > 0.0 {
            // Everything is acknowledged: the window grows by what was sent.
            self.window += self.sent;
            self.sent = 0.0;
        }
        if spec.restart == Restart::Request {
            (self.window, self.sent) = (initial_window(spec).min(self.window), 0.0);
            return;
        }
        let timeout = (spec.min_rto_ns + path.round_trip_ns).max(1);
        let halvings = (silent / timeout).min(64) as i32;
        let least = initial_window(spec).min(self.window);
        self.window = (self.window * 0.5f64.powi(halvings)).max(least);
    }

    /// Send `bytes` in rounds, and return the sum of the waits for acknowledgements.
    fn grow(&mut self, path: &Path, mut bytes: f64) -> Nanos {
        let round_s = path.round_trip_ns as f64 * 1e-9;
        let full = path.rate_bytes_per_s * round_s;
        let mut wait_s = 0.0;
        while self.window < full {
            let room = self.window - self.sent;
            if bytes <= room {
                self.sent += bytes;
                return (wait_s * 1e9) as Nanos;
            }
            bytes -= room;
            wait_s += round_s - self.window / path.rate_bytes_per_s;
            self.sent = 0.0;
            self.window *= 2.0;
        }
        self.sent = 0.0;
        (wait_s * 1e9) as Nanos
    }
}
