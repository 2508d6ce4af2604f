//! Arguments in, exit code out.

use clap::Parser as _;
use guestscope::{
    cli::{Cli, Command},
    compare, doctor, explain, export, failure, memory, out, report, session,
    sinks::terminal::{Stream, Style},
};

#[global_allocator]
static ALLOCATOR: memory::Counted = memory::Counted;

fn main() {
    let command = match Cli::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => {
            let stream = if error.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            std::process::exit(out::usage(error, Style::detect(stream).color));
        }
    };
    // These read files that may come from elsewhere.
    if matches!(command, Command::Explain(_) | Command::Export(_) | Command::Compare(_) | Command::Report(_))
    {
        memory::limit();
    }
    let done = match command {
        Command::Run(arguments) => session::run(&arguments),
        Command::Attach(arguments) => session::attach(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    };
    let code = done.unwrap_or_else(|error| {
        failure::say_lines(&failure::text(&error));
        2
    });
    out::finish();
    std::process::exit(code);
}
