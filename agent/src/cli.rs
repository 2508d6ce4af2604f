//! The command line: the table of commands. What each one takes stands in its folder (`arguments.rs`).

use clap::{Parser, Subcommand};

use crate::{
    attach::AttachArguments,
    compare::CompareArguments,
    ctl::CtlArguments,
    doctor::DoctorArguments,
    explain::ExplainArguments,
    export::ExportArguments,
    ranks::RanksArguments,
    report::ReportArguments,
    run::RunArguments,
    shell::{CompletionsArguments, ManArguments},
    top::TopArguments,
    watch::WatchArguments,
};

/// Account for every nanosecond of every phase of a program: CPU, run queue, locks, I/O and more.
#[derive(Clone, Debug, Parser)]
#[command(name = "guestscope", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  sudo guestscope run -- python3 serve.py        observe a program and summarise its phases
  sudo guestscope attach --pid 4711              observe a running process
  guestscope explain runs/FOLDER                 explain why requests were slow, with advice
  guestscope doctor                              check which probes work here, and how to get more

Exit codes: 0 success, 1 nothing observed, 2 failure. `run` exits with the program's own code (128 +
signal number if a signal ended it).")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Start a program, observe it, print a summary and write a run folder.
    Run(RunArguments),
    /// Observe running processes, a control group or a container.
    Attach(AttachArguments),
    /// Stay, observe what a configuration selects, and keep the seconds around slow requests.
    Watch(WatchArguments),
    /// Show the last ten seconds of a resident agent, live.
    Top(TopArguments),
    /// Ask a resident agent for its state or its incidents, or to keep what was seen now.
    Ctl(CtlArguments),
    /// Explain the slow requests of a run folder: causes, evidence, advice.
    Explain(ExplainArguments),
    /// Convert a run folder to OTLP-JSON or a Perfetto trace, or send it to an OTLP collector.
    Export(ExportArguments),
    /// Check which probes this kernel supports, and how to enable the missing ones.
    Doctor(DoctorArguments),
    /// Compare platforms by their run folders: which is slower, with what confidence, and why.
    Compare(CompareArguments),
    /// Say which rank of a distributed training the others wait for, and why.
    Ranks(RanksArguments),
    /// Write an HTML report on run folders: verdict, charts, single requests, evidence.
    Report(ReportArguments),
    /// Print the completion script of a shell.
    Completions(CompletionsArguments),
    /// Print a manual page.
    Man(ManArguments),
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&["--pid", "1,2", "--pid", "3"], Some(vec![1, 2, 3]))]
    #[case(&["--pid", "1", "--cgroup", "a"], None)]
    #[case(&["--cgroup", "a", "--container", "b"], None)]
    #[case(&["--cgroup", "a"], Some(vec![]))]
    #[case(&["--pid", "0"], None)]
    #[case(&["--pid", "x"], None)]
    #[case(&["--pid", ""], None)]
    #[case(&[], None)]
    fn targets(#[case] words: &[&str], #[case] pids: Option<Vec<u32>>) {
        let words = ["guestscope", "attach"].iter().chain(words);
        let parsed = Cli::try_parse_from(words).ok().and_then(|cli| {
            if let Command::Attach(arguments) = cli.command { Some(arguments.pid) } else { None }
        });
        assert_eq!(parsed, pids);
    }
}
