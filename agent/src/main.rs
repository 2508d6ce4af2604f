//! Arguments in, exit code out.

use clap::Parser as _;
use guestscope::{
    cli::{Cli, Command},
    doctor, failure, session,
};

fn main() {
    let done = match Cli::parse().command {
        Command::Run(arguments) => session::run(&arguments),
        Command::Attach(arguments) => session::attach(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    let code = done.unwrap_or_else(|error| {
        failure::say(&failure::text(&error));
        2
    });
    std::process::exit(code);
}
