//! A guest that stays up and takes one job after the other, each in new processes: booting takes longer than
//! most jobs.
//!
//! Yields [`Session`]. A job is a line of JSON on the port on which the guest answers. It is over when the
//! guest reports that it is ready for the next one; by then its results are on the guest's disk. Dropping a
//! session ends the guest.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    answers::{Answers, READY},
    guest::{Guest, Task, log_files, logs, trouble},
};
use crate::{Xtask, process, progress::Step, redact::hide_hosts};

/// A guest that waits for work, or works.
pub(crate) struct Session {
    qemu: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    log: File,
    kernel_log: PathBuf,
    initramfs: PathBuf,
}

impl Session {
    /// Starts it and waits until it is ready, at most as long as its limit.
    pub(crate) fn boot(xtask: &Xtask, step: &Step, guest: &Guest<'_>) -> Result<Self> {
        let [kernel_log, log] = log_files(xtask, guest.name);
        fs::create_dir_all(logs(xtask))?;
        let initramfs = logs(xtask).join(format!("{}.initramfs", guest.name));
        fs::write(&initramfs, guest.initramfs(&[])?).context("initramfs")?;
        drop(fs::remove_file(&kernel_log));
        let qemu = guest.qemu(&initramfs, &kernel_log);
        let mut session = Self::over(qemu, &log, kernel_log, initramfs)?;
        session.until_ready(step, guest.limit).context("the guest did not boot")?;
        Ok(session)
    }

    /// Boots a guest with this command, whose stdin and stdout are the port on which the guest answers.
    fn over(mut command: Command, log: &Path, kernel_log: PathBuf, initramfs: PathBuf) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("log file: {}", log.display()))?;
        // The emulator's own messages go to the kernel's log.
        let complaints = OpenOptions::new().append(true).create(true).open(&kernel_log)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints);
        process::end_with_parent(&mut command);
        let mut qemu = command.spawn().context("could not start QEMU")?;
        let input = qemu.stdin.take().context("QEMU's input")?;
        let lines = spawn_reader(qemu.stdout.take().context("QEMU's output")?);
        Ok(Self { qemu, input, lines, log, kernel_log, initramfs })
    }

    /// PID of QEMU, for stopping it from outside.
    pub(crate) fn pid(&self) -> u32 {
        self.qemu.id()
    }

    /// Gives it these files and tasks, and waits for their end, up to a limit.
    pub(crate) fn run(
        &mut self,
        step: &Step,
        guest: &Guest<'_>,
        files: &[(String, String)],
        tasks: &[Task],
        limit: Duration,
    ) -> Result<Answers> {
        let steps: Vec<Value> = tasks.iter().map(|task| guest.step(task)).collect();
        let files: Vec<Value> = files.iter().map(|(path, content)| json!([path, content])).collect();
        self.order(step, &json!({ "files": files, "steps": steps }), limit)
    }

    fn order(&mut self, step: &Step, order: &Value, limit: Duration) -> Result<Answers> {
        writeln!(self.input, "{order}").context("the guest does not listen")?;
        self.input.flush().context("the guest does not listen")?;
        self.until_ready(step, limit)
    }

    fn until_ready(&mut self, step: &Step, limit: Duration) -> Result<Answers> {
        let (started, mut text) = (Instant::now(), String::new());
        loop {
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => {
                    let line = hide_hosts(line.trim_end());
                    writeln!(self.log, "{line}").context("log file")?;
                    if line.strip_prefix("guest: ") == Some(READY) {
                        return Ok(Answers::read(&text));
                    }
                    if !line.is_empty() {
                        step.update(&line);
                    }
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => step.tick(),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest ended{}", self.why(&text));
                }
            }
            if started.elapsed() > limit {
                bail!("not ready after {} s{}", limit.as_secs(), self.why(&text));
            }
        }
    }

    /// Errors of its kernel and of its first program.
    fn why(&self, text: &str) -> String {
        let answers = Answers::read(text);
        let kernel = trouble(&fs::read_to_string(&self.kernel_log).unwrap_or_default());
        let all: Vec<String> = answers.complaints.into_iter().chain(kernel).collect();
        if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        process::end_tree(self.qemu.id());
        drop(self.qemu.wait());
        drop(fs::remove_file(&self.initramfs));
    }
}

fn spawn_reader(stream: ChildStdout) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(stream.read_until(b'\n', &mut line), Ok(1..)) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receive
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command, time::Duration};

    use serde_json::json;

    use super::Session;
    use crate::progress::{Progress, Step};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A shell that plays a guest, once it is ready.
    fn ready(folder: &Path, step: &Step, script: &str) -> Session {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo 'guest: up 1.0 6.12'; echo 'guest: ready'; {script}")]);
        let [kernel_log, initramfs, log] = ["kernel", "initramfs", "log"].map(|name| folder.join(name));
        let mut session = Session::over(command, &log, kernel_log, initramfs).unwrap();
        let answers = session.until_ready(step, PATIENCE).unwrap();
        assert_eq!((answers.release.as_deref(), answers.up_s), (Some("6.12"), Some(1.0)));
        session
    }

    #[test]
    fn one_job_comes_after_the_other() {
        let (folder, step) = (tempfile::tempdir().unwrap(), Progress::new().step("test"));
        let script = "while read -r order; do echo \"lab| $order\"; echo 'lab= status 0, 1.0 s'; echo 'guest: ready'; done";
        let mut session = ready(folder.path(), &step, script);
        for number in [1, 2] {
            let order = json!({ "number": number, "long": "x".repeat(10_000) });
            let answers = session.order(&step, &order, PATIENCE).unwrap();
            let said = &answers.steps["lab"];
            assert_eq!(
                (said.out.trim(), said.end.as_deref()),
                (order.to_string().as_str(), Some("status 0"))
            );
        }
    }

    #[test]
    fn a_guest_that_ends_says_why() {
        let (folder, step) = (tempfile::tempdir().unwrap(), Progress::new().step("test"));
        let script = "read -r order; echo 'guest: failed: no disk'; echo 'Kernel panic - not syncing: x' >&2";
        let mut session = ready(folder.path(), &step, script);
        let error = session.order(&step, &json!({}), PATIENCE).unwrap_err().to_string();
        assert_eq!(error, "the guest ended: failed: no disk, kernel: Kernel panic - not syncing: x");
    }

    #[test]
    fn a_guest_that_hangs_is_given_up() {
        let (folder, step) = (tempfile::tempdir().unwrap(), Progress::new().step("test"));
        let mut session = ready(folder.path(), &step, "sleep 1000");
        let error = session.order(&step, &json!({}), Duration::from_secs(1)).unwrap_err().to_string();
        assert_eq!(error, "not ready after 1 s");
    }
}
