//! Formats errors with their sources in one line.

use guestscope_base::untrusted::plain;

/// An error and its sources in one line. A source whose text its error already contains is left out. Of a
/// text of several lines the last counts: the kernel's answer to a program or a type has a log.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    for error in std::iter::successors(Some(error), |error| error.source()) {
        let told = error.to_string();
        let line = plain(told.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default());
        if !text.contains(&*line) {
            let colon = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{colon}{line}");
        }
    }
    text
}

/// The system call's error behind one of the BPF library's, if there is one.
pub fn system_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}
