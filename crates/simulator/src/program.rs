//! Compiles a profile to a flat program: loops become jumps, names become indices.

use crate::scenario::{Access, FileSetSpec, Order, PatternOp, ScenarioError, Step};

/// One instruction. `file` is the index of a file set.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    /// Request a packet from the master; if none is left, the job ends.
    Packet,
    Compute {
        cpu_ns: u64,
    },
    Wait {
        wait_ns: u64,
    },
    Memory {
        bytes: u64,
    },
    Open {
        file: u32,
    },
    Close {
        file: u32,
    },
    Stat {
        file: u32,
    },
    Create {
        file: u32,
    },
    Delete {
        file: u32,
    },
    Read {
        file: u32,
        offset: u64,
        length: u64,
        access: Access,
        hold: bool,
    },
    ReadVector {
        file: u32,
        ranges: Box<[(u64, u64)]>,
    },
    Write {
        file: u32,
        offset: Option<u64>,
        length: u64,
        access: Access,
    },
    Fsync {
        file: u32,
    },
    Pattern(Box<Pattern>),
    Events(Box<Events>),
    Sequence(Box<Sequence>),
    Requests(Box<Requests>),
    /// Start a loop that ends at the instruction before `end`.
    Loop {
        times: u64,
        end: u32,
    },
    /// Jump to the instruction after the loop's start while iterations are left.
    Again {
        start: u32,
    },
    /// Let threads execute the parts, which follow; then go on at `end`.
    Parallel(Box<Parallel>),
    Stage {
        from: u32,
        to: u32,
        chunk: u64,
        background: bool,
    },
    Take {
        file: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub file: u32,
    pub op: PatternOp,
    pub count: u64,
    pub length: u64,
    pub order: Order,
    pub cpu_ns: u64,
    pub offset: u64,
    pub span: u64,
    pub parts: u32,
    pub access: Access,
    pub vector: u32,
    pub ahead: u32,
    pub events: u64,
    pub uncompressed: u64,
    pub hold: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Events {
    pub file: u32,
    pub events: u64,
    pub per_cluster: u64,
    pub reads: u32,
    pub read_bytes: u64,
    pub cpu_ns: u64,
    pub vector: u32,
    pub uncompressed: u64,
    pub skip: f64,
    pub unordered: bool,
    pub access: Access,
    pub ahead: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub file: u32,
    pub op: PatternOp,
    pub ranges: Box<[(u64, u64)]>,
    /// Empty, or one value per range.
    pub cpu_ns: Box<[u64]>,
    pub wait_ns: Box<[u64]>,
    pub cpu_after_ns: u64,
    pub vector: u32,
    pub access: Access,
    pub ahead: u32,
    pub events: u64,
    pub uncompressed: u64,
    pub first_event: Option<u64>,
    pub new_file: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    pub file: u32,
    /// 0: until the duration is over.
    pub count: u64,
    pub duration_ns: u64,
    pub length: u64,
    pub order: Order,
    pub in_flight: u32,
    pub read_fraction: f64,
    pub cpu_ns: u64,
    pub span: u64,
    pub access: Access,
}

/// First instruction of a piece of the program, and the one after its last.
pub(crate) type Extent = (u32, u32);

#[derive(Clone, Debug)]
pub(crate) struct Parallel {
    pub threads: u32,
    pub begin: Extent,
    pub parts: Box<[Extent]>,
    pub end: u32,
}

impl Instruction {
    /// Return how many groups of its reads run ahead of the work; 0: none.
    pub fn ahead(&self) -> u32 {
        match self {
            Instruction::Pattern(pattern) => pattern.ahead,
            Instruction::Events(events) => events.ahead,
            Instruction::Sequence(sequence) => sequence.ahead,
            _ => 0,
        }
    }
}

impl Sequence {
    /// Return the accesses that are one vectored read with the access `index`, which is its first.
    pub fn group(&self, index: usize) -> std::ops::Range<usize> {
        index..(index + self.vector as usize).min(self.ranges.len())
    }

    /// Return whether a process leaves it out: its events are not in the packet (first event, number
    /// of events), or the file is open since the packet before.
    pub fn is_left_out(&self, packet: Option<(u64, u64)>, same_file: bool) -> bool {
        let elsewhere = match (self.first_event, packet) {
            (Some(event), Some((first, count))) => !(first..first + count).contains(&event),
            _ => false,
        };
        elsewhere || (self.new_file && same_file)
    }
}

impl Events {
    /// Return the number of vectored reads per cluster.
    pub fn steps_per_cluster(&self) -> u64 {
        u64::from(self.reads).div_ceil(u64::from(self.vector.min(self.reads)))
    }
}

/// Compile steps. `path` is their position in the scenario, for error messages.
pub(crate) fn compile(
    steps: &[Step],
    files: &[FileSetSpec],
    path: &str,
    program: &mut Vec<Instruction>,
) -> Result<(), ScenarioError> {
    for (number, step) in steps.iter().enumerate() {
        let at = StepAt { files, here: format!("{path}.steps[{number}]") };
        let instruction = match step {
            Step::Compute { cpu_ns } => Instruction::Compute { cpu_ns: *cpu_ns },
            Step::Wait { wait_ns } => Instruction::Wait { wait_ns: *wait_ns },
            Step::Memory { bytes } => Instruction::Memory { bytes: *bytes },
            Step::Open { file: name } => Instruction::Open { file: at.file(name)? },
            Step::Close { file: name } => Instruction::Close { file: at.file(name)? },
            Step::Stat { file: name } => Instruction::Stat { file: at.file(name)? },
            Step::Create { file: name } => Instruction::Create { file: at.file(name)? },
            Step::Delete { file: name } => Instruction::Delete { file: at.file(name)? },
            Step::Read { file: name, offset_bytes, length_bytes, access, hold } => {
                Instruction::Read {
                    file: at.file(name)?,
                    offset: *offset_bytes,
                    length: at.positive("length_bytes", *length_bytes)?,
                    access: *access,
                    hold: *hold,
                }
            }
            Step::ReadVector { file: name, ranges_bytes } => Instruction::ReadVector {
                file: at.file(name)?,
                ranges: ranges_bytes.clone().into_boxed_slice(),
            },
            Step::Write { file: name, offset_bytes, length_bytes, access } => Instruction::Write {
                file: at.file(name)?,
                offset: *offset_bytes,
                length: at.positive("length_bytes", *length_bytes)?,
                access: *access,
            },
            Step::Fsync { file: name } => Instruction::Fsync { file: at.file(name)? },
            Step::Pattern { .. } => at.pattern(step)?,
            Step::Events { .. } => at.events(step)?,
            Step::Sequence { .. } => at.sequence(step)?,
            Step::Requests { .. } => at.requests(step)?,
            Step::Repeat { times, steps } => {
                compile_loop((*times, steps), files, &at.here, program)?;
                continue;
            }
            Step::Parallel { threads, begin, parts } => {
                at.positive("threads", u64::from(*threads))?;
                compile_parallel((*threads, begin, parts), files, &at.here, program)?;
                continue;
            }
            Step::Stage { from, to, chunk_bytes, background } => Instruction::Stage {
                from: at.file_of(from, "from")?,
                to: at.file_of(to, "to")?,
                chunk: at.positive("chunk_bytes", *chunk_bytes)?,
                background: *background,
            },
            Step::Take { file: name } => Instruction::Take { file: at.file(name)? },
        };
        program.push(instruction);
    }
    Ok(())
}

/// Compile a `Step::Repeat`: times and steps.
fn compile_loop(
    (times, steps): (u64, &[Step]),
    files: &[FileSetSpec],
    here: &str,
    program: &mut Vec<Instruction>,
) -> Result<(), ScenarioError> {
    let start = program.len() as u32;
    program.push(Instruction::Loop { times, end: 0 });
    compile(steps, files, here, program)?;
    program.push(Instruction::Again { start });
    let after = program.len() as u32;
    if let Instruction::Loop { end, .. } = &mut program[start as usize] {
        *end = after;
    }
    Ok(())
}

/// Compile a `Step::Parallel`: threads, begin and parts.
fn compile_parallel(
    (threads, begin, parts): (u32, &[Step], &[Vec<Step>]),
    files: &[FileSetSpec],
    here: &str,
    program: &mut Vec<Instruction>,
) -> Result<(), ScenarioError> {
    let start = program.len();
    let nothing = Parallel { threads, begin: (0, 0), parts: Box::default(), end: 0 };
    program.push(Instruction::Parallel(Box::new(nothing)));
    let mut extents = Vec::with_capacity(1 + parts.len());
    for (number, steps) in std::iter::once(begin).chain(parts.iter().map(Vec::as_slice)).enumerate()
    {
        let place = match number {
            0 => format!("{here}.begin"),
            _ => format!("{here}.parts[{}]", number - 1),
        };
        let divided = |step: &Step| {
            matches!(step, Step::Parallel { .. } | Step::Stage { .. } | Step::Take { .. })
        };
        if let Some(index) = steps.iter().position(divided) {
            let place = format!("{place}.steps[{index}]");
            return Err(ScenarioError::new(place, "this step", "no parallel, stage or take"));
        }
        let from = program.len() as u32;
        compile(steps, files, &place, program)?;
        extents.push((from, program.len() as u32));
    }
    let end = program.len() as u32;
    let begin = extents.remove(0);
    let parallel = Parallel { threads, begin, parts: extents.into_boxed_slice(), end };
    program[start] = Instruction::Parallel(Box::new(parallel));
    Ok(())
}

/// A step that is compiled, and its position for error messages.
struct StepAt<'a> {
    files: &'a [FileSetSpec],
    here: String,
}

impl StepAt<'_> {
    fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.here)
    }

    fn file_of(&self, name: &str, field: &str) -> Result<u32, ScenarioError> {
        self.files.iter().position(|set| set.name == name).map(|i| i as u32).ok_or_else(|| {
            let known: Vec<_> = self.files.iter().map(|set| set.name.as_str()).collect();
            ScenarioError::new(self.field(field), format!("\"{name}\""), known.join(", "))
        })
    }

    fn file(&self, name: &str) -> Result<u32, ScenarioError> {
        self.file_of(name, "file")
    }

    fn positive(&self, field: &str, value: u64) -> Result<u64, ScenarioError> {
        if value > 0 {
            Ok(value)
        } else {
            Err(ScenarioError::new(self.field(field), value, "1 or more"))
        }
    }

    /// Check that only reads run ahead.
    fn reads_alone(&self, op: PatternOp, ahead: u32) -> Result<(), ScenarioError> {
        if ahead > 0 && op == PatternOp::Write {
            return Err(ScenarioError::new(self.field("ahead"), ahead, "0 for writes"));
        }
        Ok(())
    }

    /// Compile a `Step::Pattern`.
    fn pattern(&self, step: &Step) -> Result<Instruction, ScenarioError> {
        let Step::Pattern {
            file: name,
            op,
            count,
            length_bytes,
            order,
            cpu_ns,
            offset_bytes,
            span_bytes,
            parts,
            access,
            vector,
            ahead,
            events,
            uncompressed_bytes,
            hold,
        } = step
        else {
            unreachable!("called for steps of this kind")
        };
        if let Order::Clustered { window_bytes } = order {
            self.positive("order.window_bytes", window_bytes / (*length_bytes).max(1))?;
        }
        self.reads_alone(*op, *ahead)?;
        Ok(Instruction::Pattern(Box::new(Pattern {
            file: self.file(name)?,
            op: *op,
            count: *count,
            length: self.positive("length_bytes", *length_bytes)?,
            order: *order,
            cpu_ns: *cpu_ns,
            offset: *offset_bytes,
            span: *span_bytes,
            parts: self.positive("parts", u64::from(*parts))? as u32,
            access: *access,
            vector: (*vector).max(1),
            ahead: *ahead,
            events: *events,
            uncompressed: *uncompressed_bytes,
            hold: *hold && *op == PatternOp::Read,
        })))
    }

    /// Compile a `Step::Events`.
    fn events(&self, step: &Step) -> Result<Instruction, ScenarioError> {
        let Step::Events {
            file: name,
            events,
            events_per_cluster,
            reads_per_cluster,
            read_bytes,
            cpu_ns_per_event,
            vector,
            uncompressed_bytes_per_event,
            skip_fraction,
            unordered,
            access,
            ahead,
        } = step
        else {
            unreachable!("called for steps of this kind")
        };
        if !(0.0..1.0).contains(skip_fraction) {
            let place = self.field("skip_fraction");
            return Err(ScenarioError::new(place, skip_fraction, "0 or more, below 1"));
        }
        Ok(Instruction::Events(Box::new(Events {
            file: self.file(name)?,
            events: self.positive("events", *events)?,
            per_cluster: self.positive("events_per_cluster", *events_per_cluster)?,
            reads: self.positive("reads_per_cluster", u64::from(*reads_per_cluster))? as u32,
            read_bytes: self.positive("read_bytes", *read_bytes)?,
            cpu_ns: *cpu_ns_per_event,
            vector: (*vector).max(1),
            uncompressed: *uncompressed_bytes_per_event,
            skip: *skip_fraction,
            unordered: *unordered,
            access: *access,
            ahead: *ahead,
        })))
    }

    /// Compile a `Step::Sequence`.
    fn sequence(&self, step: &Step) -> Result<Instruction, ScenarioError> {
        let Step::Sequence {
            file: name,
            op,
            ranges_bytes,
            cpu_ns,
            wait_ns,
            cpu_after_ns,
            vector,
            access,
            ahead,
            events,
            uncompressed_bytes,
            first_event,
            new_file,
        } = step
        else {
            unreachable!("called for steps of this kind")
        };
        for (index, (_, length)) in ranges_bytes.iter().enumerate() {
            self.positive(&format!("ranges_bytes[{index}][1]"), *length)?;
        }
        for (field, list) in [("cpu_ns", cpu_ns), ("wait_ns", wait_ns)] {
            if !list.is_empty() && list.len() != ranges_bytes.len() {
                let place = self.field(field);
                let allowed = format!("none, or {} of them: one a range", ranges_bytes.len());
                return Err(ScenarioError::new(place, format!("{} values", list.len()), allowed));
            }
        }
        self.reads_alone(*op, *ahead)?;
        Ok(Instruction::Sequence(Box::new(Sequence {
            file: self.file(name)?,
            op: *op,
            ranges: ranges_bytes.clone().into_boxed_slice(),
            cpu_ns: cpu_ns.clone().into_boxed_slice(),
            wait_ns: wait_ns.clone().into_boxed_slice(),
            cpu_after_ns: *cpu_after_ns,
            vector: if *op == PatternOp::Read { (*vector).max(1) } else { 1 },
            access: *access,
            ahead: *ahead,
            events: *events,
            uncompressed: *uncompressed_bytes,
            first_event: *first_event,
            new_file: *new_file,
        })))
    }

    /// Compile a `Step::Requests`.
    fn requests(&self, step: &Step) -> Result<Instruction, ScenarioError> {
        let Step::Requests {
            file: name,
            count,
            duration_ns,
            length_bytes,
            order,
            in_flight,
            read_fraction,
            cpu_ns,
            span_bytes,
            access,
        } = step
        else {
            unreachable!("called for steps of this kind")
        };
        if !(0.0..=1.0).contains(read_fraction) {
            let place = self.field("read_fraction");
            return Err(ScenarioError::new(place, read_fraction, "0 to 1"));
        }
        self.positive("count", count | duration_ns)?;
        if *count == 0 {
            // Without a cost, requests served by the cache would take no time and the step would
            // never end.
            self.positive("cpu_ns", *cpu_ns)?;
        }
        Ok(Instruction::Requests(Box::new(Requests {
            file: self.file(name)?,
            count: *count,
            duration_ns: *duration_ns,
            length: self.positive("length_bytes", *length_bytes)?,
            order: *order,
            in_flight: self.positive("in_flight", u64::from(*in_flight))? as u32,
            read_fraction: *read_fraction,
            cpu_ns: *cpu_ns,
            span: *span_bytes,
            access: *access,
        })))
    }
}
