//! Energy of a hard disk: the integral of power over its states.

use super::spec::PowerSpec;
use crate::request::Nanos;

/// Time in each state so far. An access can extend into the future; `joules` cuts it off.
pub struct Meter {
    power: PowerSpec,
    seek_ns: u64,
    transfer_ns: u64,
    standby_ns: u64,
    spin_up_ns: u64,
    last: Access,
}

#[derive(Clone, Copy, Default)]
struct Access {
    begin: Nanos,
    sought: Nanos,
    media: Nanos,
    end: Nanos,
}

impl Meter {
    pub fn new(power: &PowerSpec) -> Self {
        Meter {
            power: *power,
            seek_ns: 0,
            transfer_ns: 0,
            standby_ns: 0,
            spin_up_ns: 0,
            last: Access::default(),
        }
    }

    /// Record an access: the arm moves from `begin` to `sought`, the head transfers from `media` to
    /// `end`.
    #[inline]
    pub fn access(&mut self, begin: Nanos, sought: Nanos, media: Nanos, end: Nanos) {
        self.seek_ns += sought - begin;
        self.transfer_ns += end - media;
        self.last = Access { begin, sought, media, end };
    }

    /// Record that the head has read ahead for so long.
    pub fn read_ahead(&mut self, transfer: Nanos) {
        self.transfer_ns += transfer;
    }

    /// Record a standby period followed by a spin-up.
    pub fn standby(&mut self, standing: Nanos, spinning_up: Nanos) {
        self.standby_ns += standing;
        self.spin_up_ns += spinning_up;
    }

    /// Return the joules from 0 to `now`. The spindle has been stopped since `standing_since`, if
    /// given; the head has read ahead for `ahead_ns` that are not recorded yet.
    pub fn joules(&self, now: Nanos, ahead_ns: Nanos, standing_since: Option<Nanos>) -> f64 {
        let last = &self.last;
        let future = |from: Nanos, to: Nanos| to.saturating_sub(from.max(now));
        let seek = self.seek_ns - future(last.begin, last.sought);
        let transfer = self.transfer_ns + ahead_ns - future(last.media, last.end);
        let standby = self.standby_ns + standing_since.map_or(0, |since| now.saturating_sub(since));
        let p = &self.power;
        let seconds = |ns: u64| ns as f64 * 1e-9;
        p.idle_w * seconds(now)
            + (p.seek_w - p.idle_w) * seconds(seek)
            + (p.transfer_w - p.idle_w) * seconds(transfer)
            + (p.standby_w - p.idle_w) * seconds(standby)
            + (p.spin_up_w - p.idle_w) * seconds(self.spin_up_ns)
    }
}
