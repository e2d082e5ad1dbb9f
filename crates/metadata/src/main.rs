//! `headrace-metadata CONFIG.json`: runs a process of clients and prints its report on standard
//! output.
//!
//! `headrace-metadata meet DIRECTORY NAME CLIENT CLIENTS SECONDS`: waits until all clients have
//! arrived, for programs without a barrier of their own.
//!
//! `headrace-metadata stop DIRECTORY NAME CLIENTS REASON`: ends that wait with an error.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use headrace_metadata::config::Config;
use headrace_metadata::step::Step;
use headrace_metadata::storage::Kernel;
use headrace_metadata::{run, Failure};

const USAGE: &str = "usage: headrace-metadata CONFIG.json | meet DIRECTORY NAME CLIENT CLIENTS SECONDS | stop DIRECTORY NAME CLIENTS REASON";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["meet", directory, name, client, clients, patience] => {
            meet(directory, name, client, clients, patience)
        }
        ["stop", directory, name, clients, reason] => stop(directory, name, clients, reason),
        [file] if !matches!(*file, "-h" | "--help") => clients(file),
        _ => Err(Failure(USAGE.to_string())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn clients(file: &str) -> Result<(), Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure(format!("{file}: {error}")))?;
    let config: Config =
        serde_json::from_str(&text).map_err(|error| Failure(format!("{file}: {error}")))?;
    let report = run::run(&config, &Kernel)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &report)
        .map_err(|error| error.to_string())
        .and_then(|()| out.flush().map_err(|error| error.to_string()))
        .map_err(|error| Failure(format!("the report: {error}")))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure(format!("{text:?} is not a valid number; {USAGE}")))
}

fn meet(
    directory: &str,
    name: &str,
    client: &str,
    clients: &str,
    patience: &str,
) -> Result<(), Failure> {
    let (client, total): (u32, u32) = (number(client)?, number(clients)?);
    if client >= total {
        return Err(Failure(format!("client {client} of {total}")));
    }
    let patience: f64 = number(patience)?;
    let patience = Duration::try_from_secs_f64(patience)
        .map_err(|_| Failure(format!("{patience} is not a valid number of seconds")))?;
    let step = Step::join(
        Some(Path::new(directory)),
        name,
        u64::from(total),
        total,
        client..client + 1,
        patience,
    )?;
    step.wait(client, || ())
}

fn stop(directory: &str, name: &str, clients: &str, reason: &str) -> Result<(), Failure> {
    let total: u32 = number(clients)?;
    let step = Step::join(
        Some(Path::new(directory)),
        name,
        u64::from(total),
        total,
        0..0,
        Duration::ZERO,
    )?;
    step.fail(reason);
    Ok(())
}
