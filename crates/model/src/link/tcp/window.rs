//! Congestion windows, in packets: slow start, growth after it, and what a loss leaves (RFC 5681,
//! RFC 9438).

use serde::{Deserialize, Serialize};

use crate::request::Nanos;

const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
const RENO_BETA: f64 = 0.5;

/// How a window grows above its threshold, and what a loss leaves of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// RFC 9438: a cubic function of the time since the last loss, or 0.53 packets per round trip
    /// where that is more; 0.7 after a loss. Linux since 2.6.19.
    #[default]
    Cubic,
    /// RFC 5681: a packet per round trip; half after a loss.
    Reno,
}

/// The window of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    congestion: Congestion,
    pub packets: f64,
    pub threshold: f64,
    /// CUBIC: `W_max`, and the window before the last loss.
    most: f64,
    prior: f64,
    epoch: Option<Epoch>,
}

/// CUBIC's growth since a loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Nanos,
    /// Seconds until the window is `origin` again.
    k_s: f64,
    origin: f64,
    /// `W_est`: what Reno would have.
    reno: f64,
}

impl Window {
    pub fn new(congestion: Congestion, packets: f64) -> Self {
        Window { congestion, packets, threshold: f64::INFINITY, most: 0.0, prior: 0.0, epoch: None }
    }

    /// Return how many packets may be on the way.
    pub fn whole(&self) -> usize {
        self.packets as usize
    }

    /// Grow after `acknowledged` packets.
    pub fn grow(&mut self, now: Nanos, round_trip_s: f64, acknowledged: f64) {
        if self.packets < self.threshold {
            self.packets = (self.packets + acknowledged).min(self.threshold);
            return;
        }
        match self.congestion {
            Congestion::Reno => self.packets += acknowledged / self.packets,
            Congestion::Cubic => self.grow_cubic(now, round_trip_s, acknowledged),
        }
    }

    fn grow_cubic(&mut self, now: Nanos, round_trip_s: f64, acknowledged: f64) {
        let (packets, most) = (self.packets, self.most);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            k_s: ((most - packets).max(0.0) / CUBIC_C).cbrt(),
            origin: most.max(packets),
            reno: packets,
        });
        let cubic = |t_s: f64| CUBIC_C * (t_s - epoch.k_s).powi(3) + epoch.origin;
        let t_s = (now - epoch.began) as f64 * 1e-9;
        let (value, target) = (cubic(t_s), cubic(t_s + round_trip_s));
        let friendly = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
        let alpha = if epoch.reno < self.prior { friendly } else { 1.0 };
        epoch.reno += alpha * acknowledged / packets;
        if value < epoch.reno {
            self.packets = packets.max(epoch.reno);
        } else {
            let target = target.clamp(packets, 1.5 * packets);
            self.packets += (target - packets) / packets * acknowledged;
        }
    }

    /// Take a loss into account when `under_way` packets were on the way.
    pub fn reduce(&mut self, under_way: f64) {
        let beta = match self.congestion {
            Congestion::Reno => RENO_BETA,
            Congestion::Cubic => CUBIC_BETA,
        };
        // Fast convergence (RFC 9438, 4.7).
        let falling = self.packets < self.most;
        self.most = self.packets * if falling { (1.0 + CUBIC_BETA) / 2.0 } else { 1.0 };
        self.prior = self.packets;
        self.epoch = None;
        self.threshold = (under_way * beta).max(2.0);
        self.packets = self.threshold;
    }

    /// Take a timeout into account: begin again with one packet (RFC 5681, 3.1).
    pub fn time_out(&mut self, under_way: f64) {
        self.reduce(under_way);
        self.packets = 1.0;
    }

    /// Halve the window for each timeout of silence, down to the first window (RFC 2861).
    pub fn rest(&mut self, timeouts: u64, first: f64) {
        let least = first.min(self.packets);
        self.packets = (self.packets * 0.5f64.powi(timeouts.min(64) as i32)).max(least);
        if timeouts > 0 {
            self.epoch = None;
        }
    }
}
