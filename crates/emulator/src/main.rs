//! `headrace-emulator CONFIG`: one emulated drive. Mounts its FUSE file, prints `ready` on standard
//! output, and serves requests until the kernel releases the file.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use headrace_emulator::config::Config;
use headrace_emulator::control::Control;
use headrace_emulator::engine::Engine;
use headrace_emulator::fuse::{Fuse, FusePort};
use headrace_emulator::guard::Pulse;
use headrace_emulator::pacer::Service;
use headrace_emulator::process::{READER_PRIORITY, TIMER_PRIORITY};
use headrace_emulator::store::Store;
use headrace_emulator::{guard, process};
use headrace_model::spec::StorageSpec;
use headrace_model::storage::Storage;

const PORTS: usize = 1;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: headrace-emulator CONFIG");
        return ExitCode::from(2);
    };
    match run(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Print a line for the parent process. Errors are ignored: the parent may have exited.
fn say(words: &str) {
    let _ = writeln!(std::io::stdout(), "{words}");
}

fn run(path: &Path) -> Result<(), String> {
    let config = Config::read(path)?;
    let pulse = guard::start().map_err(|error| format!("the guard does not start: {error}"))?;
    let raised = pulse.raised();
    abort_on_panic();
    let service = service(&config)?;
    let store = Store::new(config.size_bytes, config.data_limit_bytes).map_err(|error| {
        format!("no room for {} bytes of address space: {error}", config.size_bytes)
    })?;
    let lacking = process::prepare();
    let fuse = Fuse::mount(
        &config.mount,
        &config.source,
        PORTS,
        config.size_bytes,
        config.request_timeout_s,
    )
    .map_err(|error| format!("the FUSE file system cannot be mounted: {error}"))?;
    let ports = fuse.ports();
    let discards = config.storage.as_ref().is_none_or(StorageSpec::takes_discards);
    let engine =
        Engine::new(fuse, store, service, config.rotational(), discards, config.seed, raised)
            .map_err(|error| format!("no timer: {error}"))?;
    let engine = Arc::new(engine);
    let control_path = config.control.clone();
    Arc::new(Control::new(Arc::clone(&engine), config, lacking))
        .listen(&control_path)
        .map_err(|error| format!("{}: {error}", control_path.display()))?;
    start_timer(&engine, pulse);
    let readers: Vec<_> = ports.into_iter().map(|port| start_reader(&engine, port)).collect();
    say("ready");
    let served = readers.into_iter().try_for_each(|reader| match reader.join() {
        Ok(result) => result.map_err(|error| format!("/dev/fuse: {error}")),
        Err(_) => Err("a reader panicked".into()),
    });
    raised.lower();
    served
}

/// End the process if a thread panics. The thread would leave requests unanswered; when the process
/// ends, the kernel fails them all.
fn abort_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        told(info);
        std::process::abort();
    }));
}

/// Build the drive; without one, requests are not delayed.
fn service(config: &Config) -> Result<Service, String> {
    let Some(spec) = &config.storage else { return Ok(Service::Undelayed) };
    let mut storage = Storage::build(spec, config.seed).map_err(|error| error.to_string())?;
    storage.watch();
    Ok(Service::Drive(Box::new(storage)))
}

/// Start the timer thread, and the one that measures how late threads wake.
fn start_timer(engine: &Arc<Engine>, pulse: Pulse) {
    let timer = Arc::clone(engine);
    std::thread::spawn(move || {
        let _ = process::prepare_thread(TIMER_PRIORITY);
        timer.keep_time(|| pulse.beat());
    });
    let watcher = Arc::clone(engine);
    std::thread::spawn(move || {
        let _ = process::prepare_ordinary_thread();
        watcher.watch_wakes();
    });
}

fn start_reader(engine: &Arc<Engine>, mut port: FusePort) -> JoinHandle<std::io::Result<()>> {
    let engine = Arc::clone(engine);
    std::thread::spawn(move || {
        let _ = process::prepare_thread(READER_PRIORITY);
        engine.serve(&mut port)
    })
}
