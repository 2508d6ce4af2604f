//! Saves a guest when it asks, and has another QEMU restore it: the other end of its third serial port.
//!
//! Yields whether the QEMU that has just ended has saved its guest for the next one. The guest writes `stop
//! NS`, as to the [stopper](super::stopper), and reads `stopped NS` when it runs again: the time between its
//! end in one QEMU and its start in the next, by this machine's monotonic clock. Its own clocks stand still
//! meanwhile. Each QEMU gives the virtual machine a new generation.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// Interval between checks whether the state has been written, which takes seconds.
const LOOK: Duration = Duration::from_millis(50);
/// The guest's kernel notifies its programs late, by seconds on a busy machine: the answer to the program
/// waits until then.
const SETTLE: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(6) };
/// Limit for saving and restoring; after it QEMU and its guest are ended.
const MOST: Duration = Duration::from_mins(5);

/// The files of one guest.
pub(super) struct Restorer {
    /// The socket that QEMU connects the serial port to.
    socket: PathBuf,
    /// The socket for QEMU's commands.
    commands: PathBuf,
    /// The saved guest.
    state: PathBuf,
    is_saved: Arc<AtomicBool>,
}

impl Restorer {
    /// Listens on its own thread, for as long as this program runs.
    pub(super) fn listen(folder: &Path, name: &str) -> Result<Self> {
        let [socket, commands, state] =
            ["socket", "commands", "state"].map(|kind| folder.join(format!("{name}.{kind}")));
        for file in [&socket, &commands, &state] {
            drop(fs::remove_file(file));
        }
        let listener =
            UnixListener::bind(&socket).with_context(|| format!("socket: {}", socket.display()))?;
        let restorer = Self { socket, commands, state, is_saved: Arc::default() };
        let (commands, state) = (restorer.commands.clone(), restorer.state.clone());
        let is_saved = Arc::clone(&restorer.is_saved);
        thread::spawn(move || {
            let mut since = None;
            while let Ok((line, _)) = listener.accept() {
                // The guest gives up by itself if it gets no answer.
                let Ok(saved) = serve(line, since, &commands, &state, &is_saved) else { return };
                since = Some(saved);
            }
        });
        Ok(restorer)
    }

    /// Arguments of QEMU number `number`, from 1 on: all but the first restore the guest of the previous one.
    pub(super) fn arguments(&self, number: u32) -> Vec<String> {
        let socket = escaped(&self.socket);
        let chardev = format!("socket,id=restorer,path={socket}");
        let commands = format!("unix:{},server=on,wait=off", escaped(&self.commands));
        let device = format!("vmgenid,guid={number:08x}-0000-4000-8000-000000000000");
        let mut words = vec!["-chardev", &chardev, "-serial", "chardev:restorer", "-qmp", &commands];
        words.extend(["-device", &device]);
        let incoming = format!("exec:cat {}", quoted(&self.state));
        if number > 1 {
            words.extend(["-incoming", &incoming]);
        }
        words.into_iter().map(str::to_owned).collect()
    }

    /// Whether the QEMU that has ended saved its guest; true once for each save.
    pub(super) fn take_saved(&self) -> bool {
        self.is_saved.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        for file in [&self.socket, &self.commands, &self.state] {
            drop(fs::remove_file(file));
        }
    }
}

/// A comma in an argument must be doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Quotes a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Answers a guest that was saved at time `since`, and saves it when it asks; returns the time of the save.
fn serve(
    line: UnixStream,
    since: Option<Instant>,
    commands: &Path,
    state: &Path,
    is_saved: &AtomicBool,
) -> Result<Instant> {
    let mut answers = line.try_clone()?;
    if let Some(since) = since {
        // Data written before the guest's port is restored would be lost.
        Monitor::connect(commands)?.wait("query-status", "running")?;
        let stopped = since.elapsed();
        thread::sleep(SETTLE);
        writeln!(answers, "stopped {}", stopped.as_nanos())?;
    }
    for question in BufReader::new(line).lines() {
        if !question?.trim().starts_with("stop ") {
            continue;
        }
        let mut qemu = Monitor::connect(commands)?;
        qemu.save(state)?;
        let saved = Instant::now();
        is_saved.store(true, Ordering::SeqCst);
        qemu.command("quit", &json!({}))?;
        return Ok(saved);
    }
    bail!("the guest is gone");
}

/// Connection to QEMU's monitor.
struct Monitor {
    commands: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Monitor {
    /// A QEMU that has just started may not listen yet.
    fn connect(path: &Path) -> Result<Self> {
        let started = Instant::now();
        let commands = loop {
            match UnixStream::connect(path) {
                Err(_) if started.elapsed() < MOST => thread::sleep(LOOK),
                connected => break connected.with_context(|| format!("socket: {}", path.display()))?,
            }
        };
        let answers = BufReader::new(commands.try_clone()?);
        let mut monitor = Self { commands, answers };
        monitor.command("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// The command's result; events are skipped.
    fn command(&mut self, name: &str, arguments: &Value) -> Result<Value> {
        writeln!(self.commands, "{}", json!({ "execute": name, "arguments": arguments }))?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("QEMU has ended");
            }
            let mut answer: Value = serde_json::from_str(&line)?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU: {name}: {error}");
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Writes the guest to a file and leaves it stopped.
    fn save(&mut self, state: &Path) -> Result<()> {
        // Bandwidth above any disk's: a limit would add a round for memory that the guest changes meanwhile.
        self.command("migrate-set-parameters", &json!({ "max-bandwidth": 1_u64 << 40 }))?;
        self.command("migrate", &json!({ "uri": format!("exec:cat > {}", quoted(state)) }))?;
        self.wait("query-migrate", "completed")
    }

    /// Waits until the answer's status is `wanted`.
    fn wait(&mut self, question: &str, wanted: &str) -> Result<()> {
        let started = Instant::now();
        loop {
            let status = self.command(question, &json!({}))?;
            match status["status"].as_str() {
                Some(word) if word == wanted => return Ok(()),
                Some("failed" | "cancelled") => bail!("QEMU: not {wanted}: {status}"),
                _ if started.elapsed() > MOST => bail!("QEMU: not {wanted} for long: {status}"),
                _ => thread::sleep(LOOK),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        os::unix::net::{UnixListener, UnixStream},
        path::Path,
        thread,
    };

    use serde_json::{Value, json};

    use super::{Restorer, quoted};

    /// Answers as QEMU does, and returns the commands that it received.
    fn qemu(commands: &Path, states: &'static [&'static str]) -> thread::JoinHandle<Vec<String>> {
        drop(std::fs::remove_file(commands));
        let listener = UnixListener::bind(commands).unwrap();
        thread::spawn(move || {
            let (line, _) = listener.accept().unwrap();
            let mut answers = line.try_clone().unwrap();
            writeln!(answers, "{}", json!({ "QMP": {} })).unwrap();
            let (mut heard, mut states) = (Vec::new(), states.iter());
            for command in BufReader::new(line).lines().map_while(Result::ok) {
                let command: Value = serde_json::from_str(&command).unwrap();
                let name = command["execute"].as_str().unwrap().to_owned();
                let status = if name.starts_with("query-") { *states.next().unwrap() } else { "none" };
                writeln!(answers, "{}", json!({ "event": "SOMETHING" })).unwrap();
                writeln!(answers, "{}", json!({ "return": { "status": status } })).unwrap();
                heard.push(name);
            }
            heard
        })
    }

    #[test]
    fn who_asks_is_saved_and_answered_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let restorer = Restorer::listen(folder.path(), "guest").unwrap();
        let first = qemu(&restorer.commands, &["setup", "active", "completed"]);
        assert!(!restorer.take_saved());
        let mut line = UnixStream::connect(&restorer.socket).unwrap();
        line.write_all(b"nonsense\nstop 20000000\n").unwrap();
        let words = ["qmp_capabilities", "migrate-set-parameters", "migrate"].into_iter();
        let words: Vec<&str> = words.chain(["query-migrate"; 3]).chain(["quit"]).collect();
        assert_eq!(first.join().unwrap(), words);
        assert!(restorer.take_saved() && !restorer.take_saved());
        let second = qemu(&restorer.commands, &["inmigrate", "running"]);
        let again = UnixStream::connect(&restorer.socket).unwrap();
        let mut answer = String::new();
        BufReader::new(&again).read_line(&mut answer).unwrap();
        assert!(
            answer.trim().strip_prefix("stopped ").is_some_and(|ns| ns.parse::<u64>().is_ok()),
            "{answer}"
        );
        assert_eq!(second.join().unwrap(), ["qmp_capabilities", "query-status", "query-status"]);
    }

    #[test]
    fn a_guest_that_cannot_be_saved_is_not_restored() {
        let folder = tempfile::tempdir().unwrap();
        let restorer = Restorer::listen(folder.path(), "guest").unwrap();
        let first = qemu(&restorer.commands, &["failed"]);
        let mut line = UnixStream::connect(&restorer.socket).unwrap();
        line.write_all(b"stop 1\n").unwrap();
        assert_eq!(first.join().unwrap().last().unwrap(), "query-migrate");
        assert!(!restorer.take_saved());
    }

    #[test]
    fn only_the_second_begins_with_a_guest_and_each_has_its_generation() {
        let folder = tempfile::tempdir().unwrap();
        let restorer = Restorer::listen(folder.path(), "guest").unwrap();
        let [first, second] = [1, 2].map(|number| restorer.arguments(number).join(" "));
        assert!(!first.contains("-incoming") && second.contains("-incoming exec:cat '/"), "{second}");
        assert!(first.contains("guid=00000001-") && second.contains("guid=00000002-"), "{first}");
        assert_eq!(quoted(Path::new("/a'b c")), r"'/a'\''b c'");
    }
}
