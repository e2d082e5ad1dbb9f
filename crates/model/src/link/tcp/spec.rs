//! Parameters of connections and switches, and what is counted.

use serde::{Deserialize, Serialize};

use super::window::Congestion;

/// Headers of IP and TCP with time stamps in each packet.
const HEADER_BYTES: u32 = 52;
/// The longest timeout (Linux: `TCP_RTO_MAX`).
pub const MAX_RTO_NS: u64 = 120_000_000_000;

/// How connections find what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// RFC 8985: by the time of sending, with selective acknowledgements, and with a probe after
    /// two round trips of silence. Linux since 4.18 (probes since 3.10).
    #[default]
    Rack,
    /// RFC 6675: three later packets arrived; what is lost again needs a timeout. Linux before
    /// 3.10.
    Sack,
    /// RFC 6582: three duplicate acknowledgements, one packet per round trip, and timeouts.
    NewReno,
}

/// What a connection sends its next request with when nothing of it is on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Its window, halved for each timeout of silence (RFC 2861; Linux).
    #[default]
    Timeout,
    /// The first window, up to the threshold that earlier losses left: the restart of RFC 5681,
    /// 4.1, without waiting for a timeout.
    Request,
}

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
    /// What connections do about losses; nothing is lost with any number of bytes.
    pub recovery: Recovery,
    pub congestion: Congestion,
    /// How long a receiver keeps the acknowledgement of a packet, unless a second one arrives; 0:
    /// it acknowledges each packet at once (RFC 1122, 4.2.3.2; Linux: 40 ms).
    pub delayed_ack_ns: u64,
    pub restart: Restart,
    /// The largest packet with the headers of IP and TCP.
    pub mtu_bytes: u32,
}

impl TcpSpec {
    /// Return the bytes that a full packet takes of a port's buffer.
    pub fn wire_bytes(&self) -> f64 {
        f64::from(self.mtu_bytes)
    }

    /// Return the data of a full packet.
    pub fn packet_bytes(&self) -> f64 {
        f64::from(self.mtu_bytes.saturating_sub(HEADER_BYTES).max(1))
    }
}

impl Default for TcpSpec {
    fn default() -> Self {
        TcpSpec {
            initial_window_packets: 10,
            min_rto_ns: 200_000_000,
            port_buffer_bytes: 0,
            recovery: Recovery::default(),
            congestion: Congestion::default(),
            delayed_ack_ns: 0,
            restart: Restart::default(),
            mtu_bytes: 1500,
        }
    }
}

/// The path of a flow: its hosts, the round trip without queues, the rate of data that the flow
/// would get now, the rate of the receiver's port, and that at which the sender's packets leave.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub from: u32,
    pub to: u32,
    pub round_trip_ns: u64,
    pub rate_bytes_per_s: f64,
    pub port_bytes_per_s: f64,
    pub line_bytes_per_s: f64,
}

/// Totals of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Time that flows began or ended later, for windows to grow and for losses, summed.
    pub waited_ns: u64,
    /// Losses that were found without a timeout, tail loss probes, and timeouts.
    pub fast_retransmits: u64,
    pub probes: u64,
    pub timeouts: u64,
}
