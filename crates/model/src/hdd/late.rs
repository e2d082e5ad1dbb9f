//! Choosing late: the arm waits on its track as long as the next command is still reached in the
//! same revolution (just-in-time seek), so that commands which arrive meanwhile take part in the
//! choice.
//!
//! A command that the arm reaches after `seek` and then waits `w` for is reached at the same time if
//! the arm starts up to `w` later (Dimitrijevic, Rangaswami and Chang, FAST 2003, section 3.2).

use super::Hdd;
use crate::request::Nanos;

impl Hdd {
    /// Return whether the idle arm loses nothing if it chooses later than `now`, after noting until
    /// when.
    pub(super) fn may_wait(&mut self, now: Nanos) -> bool {
        let Some(commit_ns) = self.commit_ns.filter(|_| self.choice_due.is_none()) else {
            return false;
        };
        self.note_stream(now);
        let index = self.next_access(now);
        let (place, write) = self.waiting.at(index);
        // What has been read ahead is sent at once.
        let ready = !write && self.segments.find(place.along).is_some();
        let (sought, media) = self.reach_place(now, &place, write);
        let slack_ns = if ready { 0 } else { (media - sought).saturating_sub(commit_ns) };
        self.choice_due = Some(now + slack_ns);
        slack_ns > 0
    }
}
