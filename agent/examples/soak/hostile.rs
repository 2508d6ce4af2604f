//! Hostile neighbours that are not observed: a flood of connections to the agent by another user, processes
//! that come and go by the hundred, names with invalid characters.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// User ID of `nobody`.
const USER: u32 = 65_534;
/// Processes a second.
const FORKS_PER_S: u32 = 200;

/// Disturbs until standard input ends.
pub(crate) fn disturb(note: &Path) -> anyhow::Result<()> {
    let place = place(note);
    // The flood comes from another user; so does the rest of this process, from here on.
    nix::unistd::setgid(USER.into())?;
    nix::unistd::setuid(USER.into())?;
    thread::spawn(storm);
    thread::spawn(move || flood(&place));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Where the agent listens, as the program says when it runs.
fn place(note: &Path) -> PathBuf {
    for _ in 0..300 {
        if let Ok(text) = fs::read_to_string(note) {
            return PathBuf::from(text);
        }
        thread::sleep(Duration::from_millis(100));
    }
    PathBuf::new()
}

/// Connects, says garbage, holds some, and connects again.
fn flood(place: &Path) {
    let mut held = Vec::new();
    loop {
        if let Ok(mut stream) = UnixStream::connect(place) {
            // It may be closed at once.
            let _ = stream.write_all(b"\x1b]0;garbage\x07\xff\xfe");
            held.push(stream);
        }
        if held.len() > 100 {
            held.clear();
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// Processes that end at once, named like nothing on earth.
fn storm() {
    loop {
        let mut command = Command::new("/bin/true");
        command.arg0("\x1b[2J\u{202e}garbage\r\n").stdin(Stdio::null());
        // What cannot be started is no harm done.
        let _ = command.status();
        thread::sleep(Duration::from_secs(1) / FORKS_PER_S);
    }
}
