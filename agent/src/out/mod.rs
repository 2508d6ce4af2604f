//! The ways out of this program to people and their tools: standard output and standard error.
//!
//! What passes here gives no orders to a terminal, wherever it came from: names are fit for people long
//! before, and this is the check that nothing was forgotten. Traces and pages that go to files have checks of
//! their own.
//!
//! An observed program shares both with the agent, and may stop the terminal, leave a pipe full, or make it
//! one that does not wait (`O_NONBLOCK`). So who observes says things by a thread of its own, and an answer
//! waits for its reader.

mod patient;
mod teller;

use std::io::{self, IsTerminal as _, Write as _};

use clap::error::ContextValue;

use self::patient::Patient;
use crate::untrusted::{plain, plain_colored, plain_lines};

/// Says one line on standard error: what is quoted in it begins no other one.
pub fn say(line: &str) {
    say_lines(&format!("{}\n", plain(line.trim_end())));
}

/// Says lines on standard error, whose ends this program made. It is no failure that the reader went away:
/// `eprint!` would panic.
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

/// From here on what is said is said by a thread of its own, which does `settle` first.
///
/// # Errors
/// There is no thread to be had.
pub fn say_by_thread(settle: impl FnOnce() + Send + 'static) -> io::Result<()> {
    teller::start(settle, said)
}

/// Waits until all is said, but not for long: nobody may read it.
pub fn finish() {
    teller::finish();
}

/// Gives an answer on standard output. A reader that went away (`| head`) is no failure.
#[expect(clippy::disallowed_methods, reason = "only plain text leaves here, and our own emphasis")]
pub fn answer(text: &str) -> io::Result<()> {
    finish();
    match Patient(io::stdout()).write_all(plain_colored(text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Standard output for a file of its own format, which no terminal should be given.
#[expect(clippy::disallowed_methods, reason = "JSON escapes by itself, and a trace is no text")]
pub(crate) fn file() -> impl io::Write {
    Patient(io::stdout().lock())
}

/// Somebody reads the answer in a terminal.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Help, or what is wrong with the arguments; the exit code.
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
