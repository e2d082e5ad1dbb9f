//! Shuffled events of several CPUs, summed up as a trace's files are and by a plain reference:
//! events sorted in lists, requests searched from the first to the last, every value kept.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headrace_blocktrace::blktrace::Writer;
use headrace_blocktrace::event::{Action, Event, Op, OPS};
use headrace_blocktrace::statistics::{Latency, Part, Statistics, Summary};
use headrace_blocktrace::walk::{walk, Filter, Walked};
use proptest::prelude::*;

/// An event that lacks its time, and how long after the one before it on its CPU it comes.
fn event() -> impl Strategy<Value = (usize, i64, Event)> {
    let action = prop_oneof![
        3 => Just(Action::Queue),
        1 => Just(Action::Merge),
        3 => Just(Action::Issue),
        1 => Just(Action::Requeue),
        4 => Just(Action::Complete)
    ];
    let op = prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Flush)];
    (0usize..4, -3i64..12, action, op, 0u64..6, 1u32..4, 1u32..4, 0u32..2).prop_map(
        |(cpu, after_ns, action, op, place, sectors, pid, device)| {
            let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (place * 8, 8 * sectors) };
            (cpu, after_ns, Event { time_ns: 0, sector, sectors, pid, device, action, op })
        },
    )
}

/// The events of each CPU in the order of its file: some are older than those before them.
fn timed(events: &[(usize, i64, Event)]) -> Vec<Vec<Event>> {
    let (mut cpus, mut now_ns) = (vec![Vec::new(); 4], [1000i64; 4]);
    for &(cpu, after_ns, event) in events {
        now_ns[cpu] += after_ns;
        cpus[cpu].push(Event { time_ns: now_ns[cpu] as u64, ..event });
    }
    cpus
}

/// The order of all: by time; at one time the CPU of the event before, then the first CPU.
fn merged(mut cpus: Vec<Vec<Event>>) -> Vec<Event> {
    cpus.iter_mut().for_each(|events| events.sort_by_key(|event| event.time_ns));
    let (mut all, mut last) = (Vec::new(), None);
    while let Some(cpu) = (0..cpus.len())
        .filter(|&cpu| !cpus[cpu].is_empty())
        .min_by_key(|&cpu| (cpus[cpu][0].time_ns, last != Some(cpu)))
    {
        all.push(cpus[cpu].remove(0));
        last = Some(cpu);
    }
    all
}

#[derive(Clone, Copy)]
struct Bio {
    device: u32,
    sector: u64,
    sectors: u32,
    pid: u32,
    op: Op,
    queue_ns: u64,
}

#[derive(Clone)]
struct Sent {
    event: Event,
    pid: u32,
    place: u64,
    left: u32,
    bios: Vec<Bio>,
    again: bool,
}

/// Values of one process, or of all.
#[derive(Default)]
struct Values {
    counts: [[(u64, u64); 4]; 3],
    queued_ns: Vec<u64>,
    sent_ns: Vec<u64>,
}

#[derive(Default)]
struct Plain {
    bios: Vec<Bio>,
    sent: Vec<Sent>,
    by_pid: BTreeMap<u32, Values>,
    sizes: BTreeMap<(usize, u64), u64>,
    by_bio_ns: Vec<u64>,
    devices: BTreeMap<u32, u64>,
    requeues: u64,
    strays: u64,
    unfinished: u64,
    reissues: u64,
    flying: (i64, i64),
}

impl Plain {
    fn count(&mut self, what: usize, pid: u32, op: Op, sectors: u32) -> &mut Values {
        let values = self.by_pid.entry(pid).or_default();
        let count = &mut values.counts[what][op as usize];
        *count = (count.0 + 1, count.1 + u64::from(sectors) * 512);
        values
    }

    fn fly(&mut self, op: Op, by: i64) {
        if op != Op::Flush {
            let now = (self.flying.0 + by).max(0);
            self.flying = (now, self.flying.1.max(now));
        }
    }

    fn take(&mut self, event: &Event) {
        let Event { time_ns: queue_ns, sector, sectors, pid, device, op, .. } = *event;
        match event.action {
            Action::Queue => {
                self.bios.push(Bio { device, sector, sectors, pid, op, queue_ns });
                self.count(0, pid, op, sectors);
            }
            Action::Merge => {
                self.by_pid.entry(pid).or_default();
            }
            Action::Issue => self.issue(event),
            Action::Requeue => self.requeue(event),
            Action::Complete => self.complete(event),
        }
    }

    fn issue(&mut self, event: &Event) {
        let Event { device, op, sectors, .. } = *event;
        let (mut place, end) = (event.sector, event.sector + u64::from(sectors));
        let mut bios: Vec<Bio> = Vec::new();
        while let Some(at) =
            self.bios.iter().position(|bio| (bio.device, bio.sector, bio.op) == (device, place, op))
        {
            let bio = self.bios.remove(at);
            let room = end.saturating_sub(place).min(u64::from(bio.sectors)) as u32;
            if bio.sectors > room {
                self.bios.push(Bio { sector: end, sectors: bio.sectors - room, ..bio });
            }
            bios.push(Bio { sectors: room, ..bio });
            place += u64::from(bio.sectors);
            if place >= end && sectors > 0 {
                break;
            }
        }
        let pid = bios.first().map_or(event.pid, |bio| bio.pid);
        self.count(1, pid, op, sectors);
        self.fly(op, 1);
        *self.sizes.entry((op as usize, u64::from(sectors) * 512)).or_default() += 1;
        *self.devices.entry(device).or_default() += 1;
        let here = |sent: &Sent| (sent.event.device, sent.place) == (device, event.sector);
        if self.sent.iter().find(|sent| here(sent)).is_some_and(|oldest| oldest.again) {
            let (gone, kept) = self.sent.drain(..).partition(|sent| here(sent) && sent.again);
            self.sent = kept;
            self.lose(gone);
        }
        // Of those at its place that are left.
        let oldest = self.sent.iter().find(|sent| here(sent));
        let alike =
            oldest.is_some_and(|oldest| (oldest.event.op, oldest.left) == (op, event.sectors));
        let again = bios.is_empty() && alike;
        let place = event.sector;
        self.sent.push(Sent { event: *event, pid, place, left: sectors, bios, again });
    }

    fn lose(&mut self, gone: Vec<Sent>) {
        let completed = self.by_pid.values().any(|values| !values.sent_ns.is_empty());
        let again = gone.iter().filter(|sent| sent.again && completed).count();
        self.reissues += again as u64;
        self.unfinished += (gone.len() - again) as u64;
    }

    /// Remove the oldest request of exactly this length, else the oldest longer one.
    fn find(&mut self, event: &Event) -> Option<Sent> {
        let fits = |sent: &Sent, exact: bool| {
            (sent.event.device, sent.place, sent.event.op) == (event.device, event.sector, event.op)
                && (sent.left == event.sectors || (!exact && sent.left > event.sectors))
        };
        let longer = self.sent.iter().position(|sent| fits(sent, false))?;
        let exact = self.sent.iter().position(|sent| fits(sent, true));
        if exact.is_some_and(|exact| exact != longer) {
            let passed_over = self.sent[longer].clone();
            self.sent.push(passed_over);
            let found = self.sent.remove(exact?);
            self.sent.remove(longer);
            return Some(found);
        }
        Some(self.sent.remove(longer))
    }

    fn requeue(&mut self, event: &Event) {
        let Some(sent) = self.find(event) else { return };
        let mut place = sent.event.sector;
        for bio in &sent.bios {
            self.bios.push(Bio { sector: place, ..*bio });
            place += u64::from(bio.sectors);
        }
        self.requeues += 1;
        let count = &mut self.by_pid.entry(sent.pid).or_default().counts[1][sent.event.op as usize];
        *count = (count.0 - 1, count.1 - u64::from(sent.event.sectors) * 512);
        self.fly(sent.event.op, -1);
    }

    fn complete(&mut self, event: &Event) {
        let Event { time_ns, device, sector, sectors, op, .. } = *event;
        if let Some(mut sent) = self.find(event) {
            if sent.left > sectors {
                sent.left -= sectors;
                sent.place = sector + u64::from(sectors);
                self.sent.push(sent);
                return;
            }
            let took_ns = time_ns - sent.event.time_ns;
            let values = self.count(2, sent.pid, op, sent.event.sectors);
            values.sent_ns.push(took_ns);
            values.queued_ns.extend(sent.bios.iter().map(|bio| time_ns - bio.queue_ns));
            self.by_bio_ns.extend(sent.bios.iter().map(|_| took_ns));
            self.fly(op, -1);
            return;
        }
        let bio = self
            .bios
            .iter()
            .position(|bio| (bio.device, bio.sector, bio.op) == (device, sector, op));
        match bio.map(|at| self.bios.remove(at)) {
            Some(bio) => {
                self.count(2, bio.pid, op, sectors).queued_ns.push(time_ns - bio.queue_ns);
            }
            None => self.strays += 1,
        }
    }
}

fn check_latency(found: Option<&Latency>, values: &[u64]) -> Result<(), TestCaseError> {
    let sum: u64 = values.iter().sum();
    let wanted = values
        .iter()
        .max()
        .map(|&max| (values.len() as u64, sum as f64 / values.len() as f64, max));
    prop_assert_eq!(found.map(|found| (found.count, found.mean_ns, found.max_ns)), wanted);
    Ok(())
}

fn check_part(part: &Part, values: &[&Values]) -> Result<(), TestCaseError> {
    for (op, found) in OPS.iter().zip([&part.read, &part.write, &part.flush, &part.discard]) {
        for (what, amount) in [found.queued, found.issued, found.completed].iter().enumerate() {
            let counts = values.iter().map(|values| values.counts[what][*op as usize]);
            let wanted = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
            prop_assert_eq!((amount.count, amount.bytes), wanted);
        }
    }
    let all = |of: fn(&Values) -> &Vec<u64>| -> Vec<u64> {
        values.iter().flat_map(|values| of(values).iter().copied()).collect()
    };
    check_latency(part.queue_to_complete.as_ref(), &all(|values| &values.queued_ns))?;
    check_latency(part.dispatch_to_complete.as_ref(), &all(|values| &values.sent_ns))
}

/// Write the files of the CPUs and sum them up.
fn summed(cpus: &[Vec<Event>]) -> (Option<Summary>, Walked) {
    let place = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = Vec::new();
    for (cpu, events) in cpus.iter().enumerate() {
        files.push(place.path().join(format!("trace.blktrace.{cpu}")));
        let file = std::fs::File::create(&files[cpu]).unwrap();
        let mut writer = Writer::new(file, cpu as u32);
        events.iter().for_each(|event| writer.event(event, b"").unwrap());
    }
    let mut statistics = Statistics::default();
    let walked = walk(&files, &Filter::default(), &mut statistics, |_| true).unwrap();
    (statistics.summary(&walked), walked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_trace_is_summed_up_as_its_plain_lists_are(
        events in prop::collection::vec(event(), 1..300),
    ) {
        let cpus = timed(&events);
        let mut all = merged(cpus.clone());
        // Until an issue event comes, queued pieces are counted instead: not compared here.
        let first = all[0].time_ns;
        let issue = Event { time_ns: first, sector: 1 << 30, sectors: 8, pid: 1, device: 0,
            action: Action::Issue, op: Op::Read };
        let mut with_issue = vec![vec![issue]];
        with_issue.extend(cpus);
        all.insert(0, issue);
        let mut plain = Plain::default();
        all.iter().for_each(|event| plain.take(event));
        let left = std::mem::take(&mut plain.sent);
        plain.lose(left);
        let (summary, walked) = summed(&with_issue);
        let found = summary.unwrap();
        prop_assert_eq!(
            (found.requeues, found.strays, walked.unfinished, walked.reissues),
            (plain.requeues, plain.strays, plain.unfinished, plain.reissues)
        );
        prop_assert_eq!(
            found.devices.iter().map(|device| (device.1, device.2)).collect::<BTreeMap<_, _>>(),
            plain.devices
        );
        let values: Vec<&Values> = plain.by_pid.values().collect();
        check_part(&found.total, &values)?;
        check_latency(found.dispatch_to_complete_by_piece.as_ref(), &plain.by_bio_ns)?;
        for part in &found.processes {
            check_part(part, &[&plain.by_pid[&part.pid]])?;
        }
        let parts = [&found.total.read, &found.total.write, &found.total.flush];
        let sizes = parts.iter().enumerate().flat_map(|(op, part)| {
            part.sizes_bytes.iter().map(move |&(size, count)| ((op, size), count))
        });
        prop_assert_eq!(sizes.collect::<BTreeMap<_, _>>(), plain.sizes);
        if let Some(max) = found.total.queue_depth_max {
            prop_assert_eq!(max as i64, plain.flying.1);
        }
    }
}
