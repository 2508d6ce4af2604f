//! Arguments in, exit code out.

use clap::Parser as _;
use guestscope::{
    cli::{Cli, Command},
    compare, doctor, explain, export, failure, report, session,
};

fn main() {
    let done = match Cli::parse().command {
        Command::Run(arguments) => session::run(&arguments),
        Command::Attach(arguments) => session::attach(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    };
    let code = done.unwrap_or_else(|error| {
        failure::say(&failure::text(&error));
        2
    });
    std::process::exit(code);
}
