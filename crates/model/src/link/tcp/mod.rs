//! TCP connections of the network: slow start, losses at a switch's port, and timeouts (incast).
//!
//! Flows of [`Network`](super::Network) have their fair rate from their first byte. This module
//! says how much later a flow begins or ends because of its connection's window. It takes nothing
//! away and never raises a rate: bytes are conserved and ports hold.
//!
//! **Endless buffers** (`slow_start`): a flow begins later by the sum of the waits for
//! acknowledgements.
//!
//! **Ports with a buffer** (`port`, `sender`, `recovery`, `receiver`, `window`): all packets to a
//! host pass its port of the switch one by one, beside the flows of `Network`, and a flow ends when
//! its last packet arrived, if that is later than its last byte at the fair rate. Nothing of it is
//! fitted: the queue drops what does not fit, and senders follow RFC 5681, 6298, 9438, and 8985
//! (RACK and tail loss probes), 6675 (selective acknowledgements) or 6582 (NewReno). So there are
//! both kinds of timeouts that Zhang, Ren and Lin distinguish (*Modeling and Understanding TCP
//! Incast in Data Center Networks*, INFOCOM 2011): lost windows, and lost last packets of a flow,
//! which no three others follow.

mod port;
mod receiver;
mod recovery;
mod sender;
mod slow_start;
mod spec;
mod window;

use crate::request::Nanos;
use crate::stream::Stream;
use port::SwitchPort;
use slow_start::SlowStart;
pub use spec::{Path, Recovery, Restart, TcpCounters, TcpSpec};
pub use window::Congestion;

/// All connections.
#[derive(Debug)]
pub struct Tcp {
    spec: TcpSpec,
    slow_start: SlowStart,
    /// By receiver, if ports have a buffer.
    ports: Vec<SwitchPort>,
    waited_ns: u64,
}

impl Tcp {
    pub fn new(spec: TcpSpec, hosts: usize, seed: u64) -> Self {
        let hosts = if spec.port_buffer_bytes == 0 { 0 } else { hosts as u64 };
        let port = |host| SwitchPort::new(spec, Stream::numbered(seed, "switch port", host));
        Tcp {
            spec,
            slow_start: SlowStart::default(),
            ports: (0..hosts).map(port).collect(),
            waited_ns: 0,
        }
    }

    pub fn counters(&self) -> TcpCounters {
        let mut all = TcpCounters { waited_ns: self.waited_ns, ..TcpCounters::default() };
        for port in &self.ports {
            all.fast_retransmits += port.counters.fast_retransmits;
            all.probes += port.counters.probes;
            all.timeouts += port.counters.timeouts;
        }
        all
    }

    /// Return when `bytes` that are ready at `now` begin to flow at the path's rate. `tag`: a
    /// number that no other flow between these hosts has.
    pub fn send(&mut self, now: Nanos, path: &Path, bytes: u64, tag: u64) -> Nanos {
        if let Some(port) = self.ports.get_mut(path.to as usize) {
            port.send(now, path, bytes, tag);
            return now;
        }
        let start = self.slow_start.send(&self.spec, now, path, bytes);
        self.waited_ns += start - now;
        start
    }

    /// Note that a flow's last byte was sent at its fair rate. Return when to ask again, if its
    /// last packet has not arrived yet.
    pub fn done(&mut self, now: Nanos, path: &Path, tag: u64) -> Option<Nanos> {
        let Some(port) = self.ports.get_mut(path.to as usize) else {
            self.slow_start.done(now, path);
            return None;
        };
        let later = port.unfinished(now, path.from, tag)?;
        self.waited_ns += later - now;
        Some(later)
    }
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
