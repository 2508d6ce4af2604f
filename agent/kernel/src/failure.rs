//! Formats errors with their sources in one line.

pub use guestscope_base::out::say;
use guestscope_base::untrusted::plain;

use crate::loader::LoadError;

/// An error and its sources in one line. A source whose text its error already contains is left out. Of the
/// verifier's log the last line counts; other errors may quote a file, whose lines must not replace the
/// error's own.
pub fn chain<'a>(errors: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>) -> String {
    let mut text = String::new();
    for error in errors {
        let told = error.to_string();
        let last = || told.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let line = plain(if has_log(error) { last() } else { told.trim() });
        if !text.contains(&*line) {
            let colon = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{colon}{line}");
        }
    }
    text
}

/// Whether the error is the kernel's answer to a program or a type, which has a log.
fn has_log(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<LoadError>()
        || error.is::<aya::EbpfError>()
        || error.is::<aya::BtfError>()
        || error.is::<aya::programs::ProgramError>()
}
