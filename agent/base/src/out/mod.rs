//! Output to people and their tools: standard output and standard error.
//!
//! Output contains no control sequences for a terminal, whatever its origin: names are made safe long before,
//! and this is the last check. Traces and pages that go to files have checks of their own.
//!
//! An observed program shares both with the agent, and may stop the terminal, leave a pipe full, or make it
//! nonblocking (`O_NONBLOCK`). So commands that observe write messages by a thread of its own, and an answer
//! waits for its reader.

mod patient;
mod teller;

use std::io::{self, IsTerminal as _, Write as _};

use clap::error::ContextValue;

use self::patient::Patient;
use crate::untrusted::{plain, plain_colored, plain_lines};

/// Writes one line to standard error; line ends in quoted text do not begin another one.
pub fn say(line: &str) {
    say_lines(&format!("{}\n", plain(line.trim_end())));
}

/// Writes lines to standard error, with line ends made by this program. A reader that went away is no
/// failure: `eprint!` would panic.
pub fn say_lines(text: &str) {
    let text = plain_lines(text).into_owned();
    if let Err(text) = teller::tell(text) {
        said(&text);
    }
}

#[expect(clippy::disallowed_methods, reason = "only plain text leaves here")]
fn said(text: &str) {
    let _ = Patient(io::stderr()).write_all(text.as_bytes());
}

/// From now on a separate thread writes all messages; it calls `settle` first.
///
/// # Errors
/// No thread can be started.
pub fn say_by_thread(settle: impl FnOnce() + Send + 'static) -> io::Result<()> {
    teller::start(settle, said)
}

/// Waits until all messages are written, for a limited time: the reader may have stopped.
pub fn finish() {
    teller::finish();
}

/// Writes an answer to standard output. A reader that went away (`| head`) is no failure.
#[expect(clippy::disallowed_methods, reason = "only plain text leaves here, and our own emphasis")]
pub fn answer(text: &str) -> io::Result<()> {
    finish();
    match Patient(io::stdout()).write_all(plain_colored(text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Standard output for a file format, which no terminal should be given.
#[expect(clippy::disallowed_methods, reason = "JSON escapes by itself, and a trace is no text")]
pub fn file() -> impl io::Write {
    Patient(io::stdout().lock())
}

/// Whether standard output is a terminal.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints help, or what is wrong with the arguments; returns the exit code.
pub fn usage(mut error: clap::Error, has_color: bool) -> i32 {
    let quoted: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| {
            let ContextValue::String(text) = value else { return None };
            Some((kind, ContextValue::String(plain(text).into_owned())))
        })
        .collect();
    for (kind, value) in quoted {
        error.insert(kind, value);
    }
    let text = error.render();
    let text =
        if has_color { plain_colored(&text.ansi().to_string()).into_owned() } else { text.to_string() };
    if !error.use_stderr() {
        let _ = answer(&text);
        return 0;
    }
    #[expect(clippy::disallowed_methods, reason = "only plain text leaves here, and our own emphasis")]
    let _ =
        Patient(io::stderr()).write_all(if has_color { text.into() } else { plain_lines(&text) }.as_bytes());
    error.exit_code()
}
