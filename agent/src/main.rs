//! Arguments in, exit code out.

use clap::{CommandFactory as _, Parser as _};
use guestscope::{
    attach,
    cli::{Cli, Command},
    compare, ctl, doctor, explain, export,
    failure::Failure,
    memory, out, ranks, report, run, shell,
    sinks::terminal::{Stream, Style},
    told, top, watch,
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
    if matches!(
        command,
        Command::Explain(_)
            | Command::Export(_)
            | Command::Compare(_)
            | Command::Ranks(_)
            | Command::Report(_)
    ) {
        memory::limit();
    }
    let done = match command {
        Command::Run(arguments) => run::run(&arguments).map_err(Failure::from),
        Command::Attach(arguments) => attach::run(&arguments).map_err(Failure::from),
        Command::Watch(arguments) => watch::run(&arguments).map_err(Failure::from),
        Command::Top(arguments) => top::run(&arguments).map_err(Failure::from),
        Command::Ctl(arguments) => ctl::run(&arguments).map_err(Failure::from),
        Command::Explain(arguments) => explain::run(&arguments).map_err(Failure::from),
        Command::Export(arguments) => export::run(&arguments).map_err(Failure::from),
        Command::Doctor(arguments) => doctor::run(&arguments).map_err(Failure::from),
        Command::Compare(arguments) => compare::run(&arguments).map_err(Failure::from),
        Command::Ranks(arguments) => ranks::run(&arguments).map_err(Failure::from),
        Command::Report(arguments) => report::run(&arguments).map_err(Failure::from),
        Command::Completions(arguments) => {
            shell::completions(&arguments, Cli::command()).map_err(Failure::from)
        }
        Command::Man(arguments) => shell::man(&arguments, Cli::command()).map_err(Failure::from),
    };
    let code = done.unwrap_or_else(|error| {
        out::say_lines(&told(&error));
        2
    });
    out::finish();
    std::process::exit(code);
}
