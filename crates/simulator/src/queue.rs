//! The event queue: a 4-ary heap ordered by (time, priority, sequence), with handles to reschedule
//! or cancel an event.
//!
//! Slots are reused; memory is allocated only while the queue grows.

use std::collections::VecDeque;

use headrace_model::Nanos;

/// Identifies a scheduled event until it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Nanos,
    /// Priority in the top byte, sequence in the lower bytes: one comparison for both.
    order: u64,
    slot: u32,
}

impl Entry {
    /// Time, priority and sequence as one number: two of them are compared without a branch.
    fn key(&self) -> u128 {
        (u128::from(self.time) << 64) | u128::from(self.order)
    }
}

/// Return the number of the first of four entries, without a branch.
fn first_of([a, b, c, d]: &[Entry; 4]) -> usize {
    let (ab, ab_key) = if b.key() < a.key() { (1, b.key()) } else { (0, a.key()) };
    let (cd, cd_key) = if d.key() < c.key() { (3, d.key()) } else { (2, c.key()) };
    if cd_key < ab_key {
        cd
    } else {
        ab
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    position: u32,
    event: E,
}

/// Events ordered by time; at equal times by priority (0 first), then in order of insertion.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: Vec<Entry>,
    /// The first entry of the heap has been taken. Most events schedule another one, which takes its
    /// place.
    vacant: bool,
    /// Events that are neither moved nor cancelled, each at or after the one before it.
    in_order: VecDeque<(Entry, E)>,
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            heap: Vec::new(),
            vacant: false,
            in_order: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            sequence: 0,
        }
    }
}

impl<E: Copy> EventQueue<E> {
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant) + self.in_order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn order(&mut self, priority: u8) -> u64 {
        self.sequence += 1;
        (u64::from(priority) << 56) | self.sequence
    }

    pub fn schedule(&mut self, time: Nanos, priority: u8, event: E) -> Handle {
        let position = if self.vacant { 0 } else { self.heap.len() as u32 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Slot { position, event };
                slot
            }
            None => {
                self.slots.push(Slot { position, event });
                (self.slots.len() - 1) as u32
            }
        };
        let order = self.order(priority);
        let entry = Entry { time, order, slot };
        if self.vacant {
            self.vacant = false;
            self.heap[0] = entry;
            self.down(0);
        } else {
            self.heap.push(entry);
            self.up(position as usize);
        }
        Handle(slot)
    }

    /// Schedule an event that is neither moved nor cancelled. It costs less than `schedule` if most
    /// of them come at or after the one scheduled before, as those after a constant delay do.
    pub fn schedule_fixed(&mut self, time: Nanos, priority: u8, event: E) {
        let order = (u64::from(priority) << 56) | (self.sequence + 1);
        let entry = Entry { time, order, slot: 0 };
        if self.in_order.back().is_some_and(|(last, _)| entry.key() < last.key()) {
            self.schedule(time, priority, event);
            return;
        }
        self.sequence += 1;
        self.in_order.push_back((entry, event));
    }

    /// Move a scheduled event to another time, after the events already scheduled for that time.
    pub fn reschedule(&mut self, handle: Handle, time: Nanos) {
        self.fill();
        let position = self.slots[handle.0 as usize].position as usize;
        let priority = (self.heap[position].order >> 56) as u8;
        let order = self.order(priority);
        let earlier = time < self.heap[position].time;
        self.heap[position].time = time;
        self.heap[position].order = order;
        if earlier {
            self.up(position);
        } else {
            self.down(position);
        }
    }

    /// Return the time of a scheduled event.
    pub fn time_of(&self, handle: Handle) -> Nanos {
        self.heap[self.slots[handle.0 as usize].position as usize].time
    }

    pub fn cancel(&mut self, handle: Handle) {
        self.fill();
        let position = self.slots[handle.0 as usize].position as usize;
        self.remove(position);
        self.free.push(handle.0);
    }

    /// Remove and return the next event; its handle becomes invalid.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        self.fill();
        let first = self.heap.first();
        if let Some((front, event)) = self.in_order.front() {
            if first.is_none_or(|first| front.key() < first.key()) {
                let next = (front.time, *event);
                self.in_order.pop_front();
                return Some(next);
            }
        }
        let &Entry { time, slot, .. } = first?;
        self.vacant = true;
        self.free.push(slot);
        Some((time, self.slots[slot as usize].event))
    }

    /// Remove the first entry if it has been taken.
    fn fill(&mut self) {
        if std::mem::take(&mut self.vacant) {
            self.remove(0);
        }
    }

    fn remove(&mut self, position: usize) {
        let Some(last) = self.heap.pop() else { return };
        if let Some(entry) = self.heap.get_mut(position) {
            *entry = last;
            if position == 0 || !self.up(position) {
                self.down(position);
            }
        }
    }

    /// Move an entry towards the first as far as it belongs. Return whether it moved.
    fn up(&mut self, mut position: usize) -> bool {
        let (heap, slots) = (&mut self.heap[..], &mut self.slots[..]);
        let entry = heap[position];
        let begin = position;
        while position > 0 {
            let parent = (position - 1) / 4;
            let above = heap[parent];
            if entry.key() >= above.key() {
                break;
            }
            heap[position] = above;
            slots[above.slot as usize].position = position as u32;
            position = parent;
        }
        heap[position] = entry;
        slots[entry.slot as usize].position = position as u32;
        position < begin
    }

    /// Move an entry away from the first as far as it belongs.
    fn down(&mut self, mut position: usize) {
        let (heap, slots) = (&mut self.heap[..], &mut self.slots[..]);
        let entry = heap[position];
        loop {
            let first = 4 * position + 1;
            let Some(children) = heap.get(first..) else { break };
            let least = match children.first_chunk::<4>() {
                Some(four) => first + first_of(four),
                None => match (0..children.len()).min_by_key(|&child| children[child].key()) {
                    Some(child) => first + child,
                    None => break,
                },
            };
            let below = heap[least];
            if below.key() >= entry.key() {
                break;
            }
            heap[position] = below;
            slots[below.slot as usize].position = position as u32;
            position = least;
        }
        heap[position] = entry;
        slots[entry.slot as usize].position = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_go_by_priority_then_first_in_first_out() {
        let mut queue = EventQueue::default();
        queue.schedule(5, 1, 'c');
        queue.schedule(5, 0, 'a');
        queue.schedule(5, 1, 'd');
        queue.schedule(5, 0, 'b');
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, "abcd");
    }

    proptest! {
        #[test]
        fn as_a_sorted_list(steps in prop::collection::vec((0..5u8, 0..50u64, 0..3u8), 1..300)) {
            let mut queue = EventQueue::default();
            let mut list: Vec<(u64, u8, u64, u32)> = Vec::new();
            let mut handles: Vec<(u32, Handle)> = Vec::new();
            let mut sequence = 0;
            for (number, (what, time, priority)) in steps.into_iter().enumerate() {
                let number = number as u32;
                sequence += 1;
                match what {
                    0 if !handles.is_empty() => {
                        let (id, handle) = handles.remove(time as usize % handles.len());
                        queue.cancel(handle);
                        list.retain(|&(.., event)| event != id);
                    }
                    1 if !handles.is_empty() => {
                        let (id, handle) = handles[time as usize % handles.len()];
                        queue.reschedule(handle, time);
                        let entry = list.iter_mut().find(|e| e.3 == id).unwrap();
                        *entry = (time, entry.1, sequence, id);
                    }
                    2 => {
                        list.sort_unstable();
                        let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                        let got = queue.pop();
                        prop_assert_eq!(got, expected.map(|(t, _, _, e)| (t, e)));
                        if let Some((_, event)) = got {
                            handles.retain(|&(id, _)| id != event);
                        }
                    }
                    3 => {
                        queue.schedule_fixed(time, priority, number);
                        list.push((time, priority, sequence, number));
                    }
                    _ => {
                        handles.push((number, queue.schedule(time, priority, number)));
                        list.push((time, priority, sequence, number));
                    }
                }
                prop_assert_eq!(queue.len(), list.len());
            }
        }
    }
}
