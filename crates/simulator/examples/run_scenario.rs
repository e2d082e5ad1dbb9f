//! Reads a scenario (JSON) from the standard input and writes its outcome (JSON) to the standard output.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use headrace_simulator::{run, Scenario};

fn main() -> ExitCode {
    let mut text = String::new();
    if let Err(error) = io::stdin().read_to_string(&mut text) {
        eprintln!("standard input: {error}");
        return ExitCode::FAILURE;
    }
    match Scenario::from_json(&text).and_then(|scenario| run(&scenario)) {
        Ok(outcome) => {
            let written =
                serde_json::to_writer(io::stdout().lock(), &outcome).map_err(io::Error::from);
            match written.and_then(|()| io::stdout().flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
