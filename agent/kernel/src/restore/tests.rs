//! Two reports of one event, and signs that reach the reader that waits for them.

use std::{
    io::{self, Write as _},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
};

use super::*;

#[test]
fn what_two_witnesses_tell_within_a_second_happened_once() {
    let mut signs = RestoreSources::default();
    let begin = Instant::now();
    let mut at = |witness, ms| signs.is_new(witness, begin + Duration::from_millis(ms));
    assert!(at(Witness::Log, 0));
    assert!(!at(Witness::Uevent, 1));
    // The next time the other source is first.
    assert!(at(Witness::Uevent, 5_000));
    assert!(!at(Witness::Log, 5_001));
    // Two reports of one source are two events.
    assert!(at(Witness::Log, 5_500));
    assert!(at(Witness::Log, 5_600));
    assert!(at(Witness::Uevent, 9_000));
}

/// Records of one byte over a socket: `y` reports, `!` fails.
struct Line(UnixStream);

impl AsRawFd for Line {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Records for Line {
    const NAME: &'static str = "a line";

    fn next_tells(&mut self) -> io::Result<bool> {
        use std::io::Read as _;
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        match &byte {
            b"!" => Err(io::Error::other("broken")),
            byte => Ok(byte == b"y"),
        }
    }
}

/// The results of reading the line to its end, and whether it is still watched.
fn heard(text: &[u8]) -> (Vec<bool>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is room");
    runtime.block_on(async {
        let (mut there, here) = UnixStream::pair().expect("a pair can be had");
        here.set_nonblocking(true).expect("a socket can be so");
        there.write_all(text).expect("there is room");
        let mut line = watched(Line(here));
        let mut heard = Vec::new();
        let patience = Duration::from_millis(200);
        while let Ok(told) = tokio::time::timeout(patience, told(&mut line)).await {
            heard.push(told);
        }
        (heard, line.is_some())
    })
}

#[test]
fn records_are_read_one_by_one_and_then_waited_for() {
    assert_eq!(heard(b"nyny"), (vec![false, true, false, true], true));
    assert_eq!(heard(b""), (vec![], true));
}

#[test]
fn what_fails_is_given_up_and_not_tried_for_ever() {
    assert_eq!(heard(b"n!y"), (vec![false, false], false));
}
