//! The control socket: one JSON object per line, answered by one line: `{"ok": …}` or `{"error":
//! "…"}`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use headrace_model::faults::{FaultKind, FaultSpec};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::calibration::{self, Measured};
use crate::config::Config;
use crate::engine::Engine;
use crate::issues::IssueEvent;

#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Ask {
    /// Measure the floor through this device, for a drive with service time `pace_ns`.
    Calibrate {
        device: PathBuf,
        pace_ns: Option<u64>,
    },
    /// Learn when the kernel issues requests.
    WatchIssues {
        #[serde(flatten)]
        event: IssueEvent,
    },
    Report,
    Reset,
    /// Inject a fault whose times are relative to now.
    Inject {
        fault: FaultSpec,
    },
    Lift {
        fault: usize,
    },
}

/// Create a socket at a path of any length: through its directory's descriptor, because the address
/// of a socket has at most 107 bytes.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new(".")))?;
    let short = format!("/proc/self/fd/{}", directory.as_raw_fd());
    UnixListener::bind(Path::new(&short).join(name))
}

/// State used to answer requests.
pub struct Control {
    engine: Arc<Engine>,
    config: Config,
    lacking: Vec<String>,
    floor: Mutex<Option<Measured>>,
}

impl Control {
    pub fn new(engine: Arc<Engine>, config: Config, lacking: Vec<String>) -> Self {
        Control { engine, config, lacking, floor: Mutex::new(None) }
    }

    /// Listen at `path` until the process ends, with one thread per connection.
    pub fn listen(self: Arc<Self>, path: &Path) -> io::Result<()> {
        let listener = bind(path)?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let control = Arc::clone(&self);
                std::thread::spawn(move || control.attend(stream));
            }
        });
        Ok(())
    }

    fn attend(&self, stream: UnixStream) -> Option<()> {
        let mut output = stream.try_clone().ok()?;
        for line in BufReader::new(stream).lines() {
            let answer = match serde_json::from_str::<Ask>(&line.ok()?) {
                Ok(ask) => match self.answer(ask) {
                    Ok(value) => json!({ "ok": value }),
                    Err(error) => json!({ "error": error }),
                },
                Err(error) => json!({ "error": error.to_string() }),
            };
            writeln!(output, "{answer}").ok()?;
        }
        Some(())
    }

    fn answer(&self, ask: Ask) -> Result<Value, String> {
        let engine = &self.engine;
        match ask {
            Ask::Calibrate { device, pace_ns } => {
                let found =
                    calibration::measure(engine, &device, pace_ns, self.config.rotational())
                        .map_err(|error| format!("the floor cannot be measured: {error}"))?;
                *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                Ok(json!(found))
            }
            Ask::WatchIssues { event } => engine
                .watch_issues(&event)
                .map(|()| Value::Null)
                .map_err(|error| format!("the kernel's requests cannot be watched: {error}")),
            Ask::Report => {
                let mut report = json!(engine.snapshot());
                report["floor_ns"] =
                    json!(*self.floor.lock().unwrap_or_else(PoisonError::into_inner));
                report["size_bytes"] = json!(self.config.size_bytes);
                report["data_limit_bytes"] = json!(self.config.data_limit_bytes);
                report["rotational"] = json!(self.config.rotational());
                report["lacking"] = json!(self.lacking);
                Ok(report)
            }
            Ask::Reset => {
                engine.reset();
                Ok(Value::Null)
            }
            Ask::Inject { fault } => self.inject(fault),
            Ask::Lift { fault } => {
                let count = engine.with_pacer(|pacer, now| {
                    let now = pacer.model_time(now);
                    let storage = pacer.storage().ok_or("a device without a drive")?;
                    if fault >= storage.fired().len() {
                        return Err("no such fault");
                    }
                    storage.lift(fault, now);
                    Ok(storage.fired()[fault])
                })?;
                Ok(json!({ "fired": count }))
            }
        }
    }

    fn inject(&self, fault: FaultSpec) -> Result<Value, String> {
        let longest_s = f64::from(self.config.request_timeout_s) - 2.0;
        match fault.fault {
            FaultKind::Stall if fault.until_s.unwrap_or(f64::MAX) - fault.from_s > longest_s => {
                return Err(format!(
                    "a stall of more than {longest_s} s: the kernel would give the device up"
                ));
            }
            FaultKind::LatencySpike { extra_ms } if extra_ms > longest_s * 1e3 => {
                return Err(format!(
                    "a spike of more than {longest_s} s: the kernel would give the device up"
                ));
            }
            _ => {}
        }
        let (number, power_at) = self.engine.with_pacer(|pacer, now| {
            let power = fault.fault == FaultKind::PowerLoss;
            let at = pacer.model_time(now) + (fault.from_s * 1e9) as u64;
            pacer
                .inject(now, fault)
                .map(|number| (number, power.then_some(at)))
                .map_err(|e| e.to_string())
        })?;
        if let Some(at) = power_at {
            self.engine.schedule_power_loss(at);
        }
        Ok(json!({ "fault": number }))
    }
}
