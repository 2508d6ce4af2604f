//! Blocking writes to a descriptor that another process may have made nonblocking.

use std::{
    io::{self, ErrorKind, Write},
    os::fd::{AsFd, AsRawFd as _},
    time::Duration,
};

/// Time after which a reader that takes nothing is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// An output that waits for its reader, for a limited time.
pub(super) struct Patient<W>(pub(super) W);

impl<W: Write + AsFd> Patient<W> {
    fn again<T>(&mut self, mut attempt: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt(&mut self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&self.0, PATIENCE)?,
                done => return done,
            }
        }
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(|way| way.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.again(W::flush)
    }
}

/// Waits until something can be written.
fn wait(way: &impl AsFd, limit: Duration) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: way.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let limit_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the structure lives across the call.
    match unsafe { libc::poll(&raw mut poll, 1, limit_ms) } {
        0 => Err(io::Error::new(ErrorKind::TimedOut, "its reader takes nothing")),
        // A signal may have interrupted the wait: the next write shows it.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _, thread};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    fn pipe() -> (File, File) {
        let (read, write) = nix::unistd::pipe().expect("a pipe can be had");
        let (read, write) = (File::from(read), File::from(write));
        fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("it is ours");
        (read, write)
    }

    #[test]
    fn what_does_not_fit_waits_for_the_reader() {
        let (mut read, write) = pipe();
        // Several times what a pipe holds.
        let text = vec![b'x'; 1 << 20];
        let expected = text.len();
        let writer = thread::spawn(move || Patient(write).write_all(&text));
        let mut got = Vec::new();
        read.read_to_end(&mut got).expect("it can be read");
        writer.join().expect("no panic").expect("all of it was taken");
        assert_eq!(got.len(), expected);
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up() {
        let (_read, mut write) = pipe();
        while write.write(&[0; 4096]).is_ok() {}
        let error = wait(&write, Duration::from_millis(5)).expect_err("it is full");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
