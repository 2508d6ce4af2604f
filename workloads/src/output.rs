//! How a result is printed: text for people at a terminal, one line of JSON for whatever else reads standard
//! output.

use std::{
    fmt::Display,
    io::{IsTerminal as _, Write as _, stderr, stdout},
};

use clap::Args;

/// Writes a line to standard error, in one piece. If the reader is gone, or its disk is full, the work
/// continues: `eprintln!` would end it.
pub fn say(line: impl Display) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// Options for the form of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputOptions {
    /// Print one line of JSON instead of text, as is done wherever standard output is no terminal
    #[arg(long)]
    json: bool,
    /// Print text for people, into a pipe or a file too
    #[arg(long, conflicts_with = "json")]
    text: bool,
}

impl OutputOptions {
    /// What to print of a result.
    pub fn choose(self, text: impl FnOnce() -> String, json: impl FnOnce() -> String) -> String {
        if self.is_json(stdout().is_terminal()) { json() + "\n" } else { text() }
    }

    /// Whether machines read it.
    fn is_json(self, is_terminal: bool) -> bool {
        self.json || !(self.text || is_terminal)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::OutputOptions;

    #[rstest]
    #[case::person(false, false, true, false)]
    #[case::pipe(false, false, false, true)]
    #[case::asked_for_json(true, false, true, true)]
    #[case::text_in_a_pipe(false, true, false, false)]
    fn text_is_for_terminals(
        #[case] json: bool,
        #[case] text: bool,
        #[case] is_terminal: bool,
        #[case] expected: bool,
    ) {
        assert_eq!(OutputOptions { json, text }.is_json(is_terminal), expected);
    }
}
