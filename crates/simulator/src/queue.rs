//! The event queue: a 4-ary heap ordered by (time, priority, sequence), with handles to reschedule
//! or cancel an event.
//!
//! Slots are reused; memory is allocated only while the queue grows.

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
    fn before(&self, other: &Entry) -> bool {
        (self.time, self.order) < (other.time, other.order)
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
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { heap: Vec::new(), slots: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<E: Copy> EventQueue<E> {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn order(&mut self, priority: u8) -> u64 {
        self.sequence += 1;
        (u64::from(priority) << 56) | self.sequence
    }

    pub fn schedule(&mut self, time: Nanos, priority: u8, event: E) -> Handle {
        let position = self.heap.len() as u32;
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
        self.heap.push(Entry { time, order, slot });
        self.up(position as usize);
        Handle(slot)
    }

    /// Move a scheduled event to another time, after the events already scheduled for that time.
    pub fn reschedule(&mut self, handle: Handle, time: Nanos) {
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
        let position = self.slots[handle.0 as usize].position as usize;
        self.remove(position);
        self.free.push(handle.0);
    }

    /// Remove and return the next event; its handle becomes invalid.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        let &Entry { time, slot, .. } = self.heap.first()?;
        self.remove(0);
        self.free.push(slot);
        Some((time, self.slots[slot as usize].event))
    }

    fn remove(&mut self, position: usize) {
        let last = self.heap.len() - 1;
        self.heap.swap(position, last);
        self.heap.pop();
        if position < last {
            self.slots[self.heap[position].slot as usize].position = position as u32;
            self.up(position);
            self.down(position);
        }
    }

    fn up(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 4;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[position] = self.heap[parent];
            self.slots[self.heap[position].slot as usize].position = position as u32;
            position = parent;
        }
        self.heap[position] = entry;
        self.slots[entry.slot as usize].position = position as u32;
    }

    fn down(&mut self, mut position: usize) {
        let entry = self.heap[position];
        loop {
            let first = 4 * position + 1;
            if first >= self.heap.len() {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + 4).min(self.heap.len()) {
                if self.heap[child].before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].before(&entry) {
                break;
            }
            self.heap[position] = self.heap[least];
            self.slots[self.heap[position].slot as usize].position = position as u32;
            position = least;
        }
        self.heap[position] = entry;
        self.slots[entry.slot as usize].position = position as u32;
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
        fn as_a_sorted_list(steps in prop::collection::vec((0..4u8, 0..50u64, 0..3u8), 1..300)) {
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
