//! `guestscope-workloads`: takes the command line apart, runs one workload, prints its result. Exit code 0
//! when it ran, 2 when it failed. It measures nothing itself.

use std::{env, process::ExitCode};

use guestscope_workloads::{cli::Cli, error::Error, output::say};

fn main() -> ExitCode {
    // 0 after help, 2 after a mistake.
    let cli = Cli::read(env::args_os()).unwrap_or_else(|mistake| mistake.exit());
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(2)
        }
    }
}

fn complain(error: &Error) {
    say(format_args!("error: {error}\n\nhint: {}", error.hint()));
}
