//! Stops a virtual machine from outside while it works, repeatedly.
//!
//! SIGSTOP stops QEMU as a whole: its guest's clocks go on, and its work is late, as after the last step of a
//! live migration. (`guestscope-workloads stall pause` requests each stop itself and knows its size: see
//! `xtask vm`.)

use std::{
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::plan::Stun;

/// A separate shell stops and continues QEMU: if the lab were killed meanwhile, QEMU would stay stopped for
/// good and could not handle the signal that ends it.
const STOP: &str = r#"trap "" HUP INT TERM; kill -STOP "$1" && sleep "$2"; kill -CONT "$1""#;

/// A process that is stopped repeatedly while this value lives.
pub(super) struct Stunned {
    /// Dropped to end the stops.
    over: Option<Sender<()>>,
    stops: Option<JoinHandle<Result<u32>>>,
}

impl Stunned {
    pub(super) fn begin(pid: u32, stun: Stun) -> Self {
        let (over, is_over) = mpsc::channel();
        let Stun { every_ms, ms } = stun;
        let seconds = Duration::from_millis(ms).as_secs_f64().to_string();
        let stops = thread::spawn(move || {
            let mut stops = 0;
            while is_over.recv_timeout(Duration::from_millis(every_ms)) == Err(RecvTimeoutError::Timeout) {
                let mut stop = Command::new("sh");
                stop.args(["-c", STOP, "sh", &pid.to_string(), &seconds]).stderr(Stdio::null());
                let status = stop.stdin(Stdio::null()).status().context("sh")?;
                ensure!(status.success(), "the virtual machine could not be stopped");
                stops += 1;
            }
            Ok(stops)
        });
        Self { over: Some(over), stops: Some(stops) }
    }

    /// Ends the stops. Returns their number; fails if there was none, since these runs would differ from
    /// others only by name.
    pub(super) fn end(mut self) -> Result<u32> {
        let stops = self.join().context("the thread that stops the virtual machine panicked")??;
        ensure!(stops > 0, "the work was over before the virtual machine was stopped once");
        Ok(stops)
    }
}

impl Stunned {
    /// None if the thread panicked or has ended already.
    fn join(&mut self) -> Option<Result<u32>> {
        drop(self.over.take());
        self.stops.take()?.join().ok()
    }
}

impl Drop for Stunned {
    /// Ends before the stopped process is gone, since another process may get its number.
    fn drop(&mut self) {
        drop(self.join());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        process::Command,
        thread,
        time::{Duration, Instant},
    };

    use super::Stunned;
    use crate::lab::plan::Stun;

    #[test]
    fn a_process_stands_still_and_goes_on() {
        let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
        let stat = format!("/proc/{}/stat", process.id());
        let is_stopped = || fs::read_to_string(&stat).unwrap().contains(") T ");
        let stunned = Stunned::begin(process.id(), Stun { every_ms: 100, ms: 200 });
        let begun = Instant::now();
        let mut was_stopped = false;
        while !was_stopped && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
            was_stopped = is_stopped();
        }
        let stops = stunned.end();
        let is_still = is_stopped();
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(was_stopped && !is_still);
        assert!(stops.unwrap() >= 1);
    }

    #[test]
    fn what_was_never_stopped_is_no_such_run() {
        let stunned = Stunned::begin(std::process::id(), Stun { every_ms: 3_600_000, ms: 10 });
        assert!(stunned.end().unwrap_err().to_string().contains("was over before"));
    }
}
