//! noop and none: first in, first out. The block queue does the merging.

use std::collections::VecDeque;

use super::elevator::{Choice, Elevator};
use super::requests::Requests;
use crate::request::Nanos;

#[derive(Debug, Default)]
pub(super) struct Noop {
    queue: VecDeque<u32>,
}

impl Elevator for Noop {
    fn insert(&mut self, _now: Nanos, index: u32, _table: &Requests) {
        self.queue.push_back(index);
    }

    fn next(&mut self, _now: Nanos, _in_drive: u32, _table: &Requests) -> Choice {
        self.queue.pop_front().map_or(Choice::Empty, Choice::Dispatch)
    }
}
