//! `guestscope completions` and `guestscope man`: what shells and manuals know of the command line, made from
//! the same table as the help texts.

mod arguments;

pub use arguments::{CompletionsArguments, ManArguments};

use std::io;

use clap::Command;
use guestscope_base::Hint;

use crate::{out, untrusted::Untrusted};

/// Why nothing was printed.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// There is no such command.
    #[error("no such command: {0}")]
    Command(Untrusted),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Hint for ShellError {
    fn hint(&self) -> Option<String> {
        match self {
            ShellError::Command(_) => Some("guestscope --help lists the commands".to_owned()),
            ShellError::Output(_) => None,
        }
    }
}

/// Prints the completion script of a shell for this command line.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(arguments: &CompletionsArguments, mut command: Command) -> Result<i32, ShellError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "guestscope", &mut script);
    out::answer(&text(script)?)?;
    Ok(0)
}

/// Prints the manual page of the program, or of one of its commands.
///
/// # Errors
/// There is no such command, or standard output cannot be written.
pub fn man(arguments: &ManArguments, mut command: Command) -> Result<i32, ShellError> {
    command.build();
    let of = match &arguments.command {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            let found = found.ok_or_else(|| ShellError::Command(name.as_str().into()))?;
            found.display_name(format!("guestscope-{name}"))
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(of).render(&mut page)?;
    out::answer(&text(page)?)?;
    Ok(0)
}

/// What clap's crates wrote, as text.
fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}
