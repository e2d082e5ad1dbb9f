//! How many events a packet has: as many as its worker processes in the packet's time.

use headrace_model::Nanos;

/// A packet takes this part of the time that the query still needs, within bounds.
const PARTS_OF_REST: f64 = 4.0;

/// Sizes of the packets of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Events of a worker's first packet.
    pub first_events: u64,
    pub shortest_ns: Nanos,
    pub longest_ns: Nanos,
}

impl Sizes {
    /// Return the time of a packet when `left` events are processed at the workers' rate.
    pub fn time_ns(&self, left: u64, events_per_ns: f64) -> f64 {
        let rest_ns = left as f64 / events_per_ns;
        (rest_ns / PARTS_OF_REST).max(self.shortest_ns as f64).min(self.longest_ns as f64)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    events: u64,
    ns: Nanos,
}

impl Done {
    fn add(&mut self, events: u64, ns: Nanos) {
        self.events += events;
        self.ns += ns.max(1);
    }

    fn rate(&self) -> f64 {
        if self.ns == 0 {
            return 0.0;
        }
        self.events as f64 / self.ns as f64
    }
}

/// How fast a worker is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    all: Done,
    in_file: Done,
    file: Option<u32>,
}

impl Rate {
    /// Take a finished packet into account.
    pub fn finished(&mut self, file: u32, events: u64, ns: Nanos) {
        if self.file != Some(file) {
            self.file = Some(file);
            self.in_file = Done::default();
        }
        self.all.add(events, ns);
        self.in_file.add(events, ns);
    }

    /// Return the mean of the query so far in events per ns; 0 before the first packet.
    pub fn mean(&self) -> f64 {
        self.all.rate()
    }

    /// Return the rate in a file if known, else the mean so far.
    pub fn in_file(&self, file: u32) -> f64 {
        if self.file == Some(file) {
            self.in_file.rate()
        } else {
            self.all.rate()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_a_quarter_of_the_rest_within_bounds() {
        let sizes = Sizes { first_events: 1, shortest_ns: 100, longest_ns: 10_000 };
        assert_eq!(sizes.time_ns(8_000, 1.0), 2_000.0);
        assert_eq!(sizes.time_ns(8, 1.0), 100.0);
        assert_eq!(sizes.time_ns(8_000_000, 1.0), 10_000.0);
    }
}
