//! `headrace-blocktrace TASK.json`: records block events until it receives SIGTERM or SIGINT.
//!
//! Prints `ready` on standard output when recording starts, and a summary as a line of JSON when it
//! ends. It is started by `headrace.traces.capture`, which mounts what is needed, creates the
//! tracefs instance and removes both afterwards.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headrace_blocktrace::recording::{Recorder, Recording, Task};
use headrace_blocktrace::relay::{Relay, RelayTask};
use serde::Deserialize;

/// What to record, and with which kernel interface.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Means {
    Tracefs(Task),
    Blktrace(RelayTask),
}

/// Buffers of 8 MB fill in a third of a second at 100 000 requests per second; this interval is far
/// shorter.
const PAUSE: Duration = Duration::from_millis(20);

fn record(task_file: &str) -> Result<(), String> {
    let text =
        std::fs::read_to_string(task_file).map_err(|error| format!("{task_file}: {error}"))?;
    let means: Means =
        serde_json::from_str(&text).map_err(|error| format!("{task_file}: {error}"))?;
    let end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, end.clone()).map_err(|error| error.to_string())?;
    }
    // Jobs must not delay the emptying of the buffers. Without the privilege, recording continues
    // at normal priority.
    let _ = rustix::process::setpriority_process(None, -10);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut recorder: Box<dyn Recorder> = match means {
        Means::Tracefs(task) => {
            Box::new(Recording::open(task, (now.as_secs() as u32, now.subsec_nanos()))?)
        }
        Means::Blktrace(task) => Box::new(Relay::open(task)?),
    };
    say("ready")?;
    while !end.load(Ordering::Relaxed) {
        recorder.take()?;
        std::thread::sleep(PAUSE);
    }
    let mut recorded = recorder.finish()?;
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    recorded.cpu_s = spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9;
    say(&serde_json::to_string(&recorded).map_err(|error| error.to_string())?)
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [task] = arguments.as_slice() else {
        eprintln!("usage: headrace-blocktrace TASK.json");
        std::process::exit(2);
    };
    if let Err(message) = record(task) {
        eprintln!("headrace-blocktrace: {message}");
        std::process::exit(1);
    }
}
