//! A table with rows from many tests, printed once after the last.

use std::{
    io::Write as _,
    sync::{Mutex, Once},
};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints the table; written past libtest's capture.
extern "C" fn print_table() {
    let Ok(lines) = LINES.lock() else { return };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{}", lines.join("\n"));
}

/// Adds a row. The first call decides the table's head.
pub(crate) fn keep(head: String, row: String) {
    static PRINTER: Once = Once::new();
    let mut lines = LINES.lock().expect("nobody panics with the table");
    PRINTER.call_once(|| {
        lines.push(head);
        // SAFETY: the function takes nothing, returns nothing and does not unwind.
        unsafe { libc::atexit(print_table) };
    });
    lines.push(row);
}
