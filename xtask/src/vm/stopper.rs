//! Stops a guest when it asks: the other end of its third serial port. Answers with the measured time.
//!
//! SIGSTOP stops QEMU as a whole, so an emulated guest's clocks show it by being late; QEMU's own `stop`
//! would stop the guest's clocks, too, and nothing would be late. The guest writes `stop NS`, and reads
//! `stopped NS`: the time from when QEMU was seen to be stopped until it was continued, by this machine's
//! monotonic clock.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The files of one guest.
pub(super) struct Stopper {
    /// The socket that QEMU connects the serial port to.
    pub(super) socket: PathBuf,
    /// The file with QEMU's process ID.
    pub(super) pid: PathBuf,
}

/// Longer than any stop that a guest asks for.
const MOST: Duration = Duration::from_secs(20);
/// Interval between checks whether a signal has taken effect.
const LOOK: Duration = Duration::from_micros(100);

impl Stopper {
    /// Listens on its own thread, for as long as this program runs.
    pub(super) fn listen(folder: &Path, name: &str) -> Result<Self> {
        let [socket, pid] = ["socket", "pid"].map(|kind| folder.join(format!("{name}.{kind}")));
        for file in [&socket, &pid] {
            drop(fs::remove_file(file));
        }
        let listener =
            UnixListener::bind(&socket).with_context(|| format!("socket: {}", socket.display()))?;
        let pid_file = pid.clone();
        thread::spawn(move || {
            if let Ok((line, _)) = listener.accept() {
                // The guest gives up by itself if it gets no answer.
                drop(serve(line, &pid_file));
            }
        });
        Ok(Self { socket, pid })
    }

    /// QEMU's arguments for the port.
    pub(super) fn arguments(&self) -> [String; 4] {
        let socket = self.socket.display().to_string().replace(',', ",,");
        let chardev = format!("socket,id=stopper,path={socket}");
        let pid = self.pid.display().to_string();
        ["-pidfile".to_owned(), pid, "-chardev".to_owned(), chardev]
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        for file in [&self.socket, &self.pid] {
            drop(fs::remove_file(file));
        }
    }
}

fn serve(line: UnixStream, pid_file: &Path) -> Result<()> {
    let mut answers = line.try_clone()?;
    for question in BufReader::new(line).lines() {
        let question = question?;
        let asked = question.trim().strip_prefix("stop ").and_then(|ns| ns.parse().ok());
        let Some(length) = asked.map(Duration::from_nanos).filter(|length| *length <= MOST) else { continue };
        let pid: i32 = fs::read_to_string(pid_file)?.trim().parse()?;
        let stopped = stop(Pid::from_raw(pid), length)?;
        writeln!(answers, "stopped {}", stopped.as_nanos())?;
    }
    Ok(())
}

/// Stops QEMU; returns for how long.
fn stop(process: Pid, length: Duration) -> Result<Duration> {
    kill(process, Signal::SIGSTOP)?;
    let stat = PathBuf::from(format!("/proc/{process}/stat"));
    let is_stopped = || fs::read_to_string(&stat).map(|text| text.contains(") T "));
    while !is_stopped()? {
        thread::sleep(LOOK);
    }
    let began = Instant::now();
    thread::sleep(length);
    let stopped = began.elapsed();
    kill(process, Signal::SIGCONT)?;
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        os::unix::net::UnixStream,
        process::Command,
    };

    use super::Stopper;

    #[test]
    fn who_asks_is_stopped_for_as_long_and_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let stopper = Stopper::listen(folder.path(), "guest").unwrap();
        let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
        std::fs::write(&stopper.pid, format!("{}\n", process.id())).unwrap();
        let mut line = UnixStream::connect(&stopper.socket).unwrap();
        line.write_all(b"nonsense\nstop 20000000\n").unwrap();
        let mut answer = String::new();
        BufReader::new(&line).read_line(&mut answer).unwrap();
        let ns: u64 = answer.trim().strip_prefix("stopped ").unwrap().parse().unwrap();
        assert!(ns >= 20_000_000, "{answer}");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        // SIGCONT was sent before the answer.
        assert!(!stat.contains(") T "), "{stat}");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
