//! When something happens, if it ever does.

use crate::request::Nanos;

/// A time, or never, which is later than every time. No arithmetic is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Nanos);

impl Moment {
    pub const NEVER: Moment = Moment(Nanos::MAX);

    #[inline]
    pub fn at(time: Nanos) -> Moment {
        Moment(time)
    }

    /// Return the time; `None` if it never comes.
    #[inline]
    pub fn time(self) -> Option<Nanos> {
        (self != Moment::NEVER).then_some(self.0)
    }

    /// Return the time if it comes before `end`.
    #[inline]
    pub fn before(self, end: Nanos) -> Option<Nanos> {
        (self.0 < end).then_some(self.0)
    }

    /// Return whether it has come at `now`.
    #[inline]
    pub fn has_come(self, now: Nanos) -> bool {
        self.0 <= now && self != Moment::NEVER
    }
}

/// `None` is never.
impl From<Option<Nanos>> for Moment {
    #[inline]
    fn from(time: Option<Nanos>) -> Moment {
        time.map_or(Moment::NEVER, Moment::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_comes_after_every_time() {
        let times = [0, 7, Nanos::MAX - 1];
        assert!(times.iter().all(|&time| Moment::at(time) < Moment::NEVER));
        assert_eq!(Moment::from(None).time(), None);
        assert_eq!(
            (Moment::NEVER.before(Nanos::MAX), Moment::NEVER.has_come(Nanos::MAX)),
            (None, false)
        );
        assert_eq!(Moment::from(Some(7)).min(Moment::NEVER).time(), Some(7));
    }

    #[test]
    fn a_time_has_come_from_then_on() {
        let at = Moment::at(7);
        assert_eq!([6, 7, 8].map(|now| at.has_come(now)), [false, true, true]);
        assert_eq!([7, 8].map(|end| at.before(end)), [None, Some(7)]);
    }
}
