//! Runs the clients of one process through the phases.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{unshare_unsafe, UnshareFlags};

use crate::config::{Config, Phase, PHASES};
use crate::report::{PhaseReport, Report};
use crate::step::Step;
use crate::storage::Storage;
use crate::tree::Tree;
use crate::work::{histogram, Client, Done, Trouble};
use crate::Failure;

const FILE: &str = "metadata-step";

/// Run all phases with the clients of this process. Returns when all are done, or when any client
/// of any process failed.
pub fn run<S: Storage>(config: &Config, storage: &S) -> Result<Report, Failure> {
    config.check()?;
    let (first, total) = (config.first_client, config.total());
    let step = Step::join(
        config.meeting.as_deref(),
        FILE,
        config.agreement(),
        total,
        first..first + config.clients,
        Duration::from_secs_f64(config.patience_s),
    )?;
    let phases: Vec<Phase> = PHASES
        .into_iter()
        .filter(|phase| config.has(*phase) && (storage.has_directories() || !phase.of_tree()))
        .collect();
    let test = config.directory.join("mdtest");
    let over = AtomicBool::new(false);
    let outcomes: Vec<Result<Vec<Done>, Failure>> = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| step.watch(&over));
        let threads: Vec<_> = (first..first + config.clients)
            .map(|number| {
                let (step, phases, test) = (&step, &phases, &test);
                std::thread::Builder::new()
                    .name(format!("client-{number}"))
                    .stack_size(S::STACK_BYTES)
                    .spawn_scoped(scope, move || {
                        client(config, step, storage, phases, test, number)
                    })
            })
            .collect();
        let outcomes = threads
            .into_iter()
            .map(|thread| match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure("a client stopped by a defect".to_string()))),
                Err(error) => {
                    step.fail(&format!("a client could not be started: {error}"));
                    Err(Failure(format!("a client could not be started: {error}")))
                }
            })
            .collect();
        over.store(true, Ordering::Release);
        watcher.thread().unpark();
        outcomes
    });
    let done: Result<Vec<Vec<Done>>, Failure> = outcomes.into_iter().collect();
    let done = match done {
        Ok(done) => done,
        Err(failure) => {
            step.check()?;
            return Err(failure);
        }
    };
    step.leave();
    Ok(report(config, &step, &phases, &done))
}

fn client<S: Storage>(
    config: &Config,
    step: &Step,
    storage: &S,
    phases: &[Phase],
    test: &Path,
    number: u32,
) -> Result<Vec<Done>, Failure> {
    if S::OWN_DESCRIPTORS {
        // SAFETY: this thread opens and closes only its own descriptors.
        let _ = unsafe { unshare_unsafe(UnshareFlags::FILES) };
    }
    let keeps_top = number == config.shared_from && storage.has_directories();
    if keeps_top {
        make_top(config, step, storage, test);
    }
    let mut client = Client::new(config, step, storage, number);
    let mut done = Vec::with_capacity(phases.len());
    let mut tree: Option<(u32, Tree)> = None;
    for (index, phase) in phases.iter().copied().enumerate() {
        let wanted = client.tree_of(phase);
        if tree.as_ref().is_none_or(|(number, _)| *number != wanted) {
            tree = Some((
                wanted,
                Tree::new(test, wanted, config.depth, config.branching_factor, config.leaf_only),
            ));
        }
        let (_, own) = tree.as_ref().expect("made above");
        step.reset(number);
        step.wait(number, || step.begin(index))?;
        let outcome = if !phase.of_tree() {
            client.items(index, phase, own)
        } else if config.unique_directories || number == config.shared_from {
            client.tree(index, phase == Phase::TreeCreation, own)
        } else {
            Ok(client.idle())
        };
        match outcome {
            Ok(each) => done.push(each),
            Err(trouble) => {
                step.fail(&worded(config, step, storage, phase, number, &trouble));
                step.check()?;
            }
        }
        // Wait until the first client's end is recorded before the counts are reset for the next
        // phase.
        step.wait(number, || ())?;
    }
    if keeps_top {
        if let Err(error) = storage.remove_directory(&for_calls(test)) {
            let said = error.worded().0;
            step.fail(&format!("{} is not empty after all was removed: {said}", test.display()));
            step.check()?;
        }
    }
    Ok(done)
}

/// Create the directory of the test.
fn make_top<S: Storage>(config: &Config, step: &Step, storage: &S, test: &Path) {
    let made = storage
        .make_directories(&for_calls(&config.directory))
        .and_then(|()| storage.make_directory(&for_calls(test)));
    if let Err(error) = made {
        step.fail(&format!("{}: {}", test.display(), error.worded().0));
    }
}

/// Return why a phase ended early, and the operations completed until then.
fn worded<S: Storage>(
    config: &Config,
    step: &Step,
    storage: &S,
    phase: Phase,
    number: u32,
    trouble: &Trouble,
) -> String {
    let mut text = format!(
        "{}: {} at client {number} after {} of {} operations; all {} clients had done {}",
        phase.title(),
        trouble.error,
        trouble.operations,
        trouble.wanted,
        config.total(),
        step.all_done(),
    );
    if trouble.full {
        if let Some(room) = storage.room(&for_calls(&config.directory)) {
            text = format!("{text}; {room}");
        }
    }
    text
}

fn for_calls(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("paths hold no NUL")
}

fn report(config: &Config, step: &Step, phases: &[Phase], done: &[Vec<Done>]) -> Report {
    let phases = phases
        .iter()
        .copied()
        .enumerate()
        .map(|(index, phase)| {
            let start_ns = step.begun_ns(index);
            let (stonewall_at_ns, stonewall_operations) = step.stonewall(index);
            let of_phase: Vec<&Done> = done.iter().map(|client| &client[index]).collect();
            let mut latency = histogram();
            for each in &of_phase {
                latency.add(&each.latency_ns).expect("histograms of the same bounds");
            }
            PhaseReport {
                phase,
                start_ns,
                stonewall_ns: stonewall_at_ns.saturating_sub(start_ns),
                stonewall_operations,
                operations: of_phase.iter().map(|each| each.operations).sum(),
                last_done_ns: of_phase
                    .iter()
                    .filter(|each| each.operations > 0)
                    .map(|each| each.end_ns.saturating_sub(start_ns))
                    .max()
                    .unwrap_or(0),
                each: of_phase
                    .iter()
                    .filter(|each| each.operations > 0)
                    .map(|each| (each.operations, each.end_ns.saturating_sub(start_ns)))
                    .collect(),
                cpu_ns: of_phase.iter().map(|each| each.cpu_ns).sum(),
                written_bytes: of_phase.iter().map(|each| each.written_bytes).sum(),
                read_bytes: of_phase.iter().map(|each| each.read_bytes).sum(),
                latency_ns_mean: if latency.is_empty() { 0.0 } else { latency.mean() },
                latency_ns_max: if latency.is_empty() { 0 } else { latency.max() },
                latency_histogram: latency
                    .iter_recorded()
                    .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
                    .collect(),
            }
        })
        .collect();
    Report {
        first_client: config.first_client,
        clients: config.clients,
        clients_total: config.total(),
        phases,
    }
}
