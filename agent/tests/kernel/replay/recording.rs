//! A recording of scheduler events by the kernel's own tracer, in an instance of its own, with the clock that
//! BPF reads.
//!
//! Yields [`Event`]s in the order of their times. It needs tracefs, and removes the instance when dropped.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::pages;

/// Mount points of tracefs, in new systems and in old ones.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Recorded events, with the fields that are read.
const EVENTS: [(&str, &[&str]); 5] = [
    ("sched/sched_switch", &["prev_pid", "prev_state", "next_pid"]),
    ("sched/sched_waking", &["pid"]),
    ("sched/sched_wakeup", &["pid"]),
    ("raw_syscalls/sys_enter", &["id"]),
    ("raw_syscalls/sys_exit", &["id"]),
];
/// Size of the buffer of each CPU, KiB.
const BUFFER_KB: &str = "16384";

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// From the first thread, whose state is given, to the second.
    Switch {
        from: u32,
        state: u64,
        to: u32,
    },
    Waking {
        thread: u32,
    },
    Wakeup {
        thread: u32,
    },
    Enter {
        thread: u32,
        number: i64,
    },
    Exit {
        thread: u32,
    },
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    pub(super) act: Act,
}

/// Place of a field in an event.
#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    bytes: usize,
}

struct Format {
    id: u16,
    fields: Vec<Field>,
}

/// A running recording.
pub(super) struct Recording {
    instance: PathBuf,
    done: Arc<AtomicBool>,
    readers: Vec<JoinHandle<io::Result<Vec<u8>>>>,
    formats: Vec<Format>,
}

impl Recording {
    /// Starts recording threads of this name. An error if the kernel's tracer cannot be used.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let home = PLACES.iter().map(Path::new).find(|place| place.join("instances").is_dir());
        let home = home.ok_or_else(|| io::Error::other("tracefs is not mounted"))?;
        let instance = home.join(format!("instances/guestscope-{}", std::process::id()));
        fs::create_dir(&instance)?;
        let mut recording = Self { instance, done: Arc::default(), readers: Vec::new(), formats: Vec::new() };
        recording.set("trace_clock", "mono")?;
        recording.set("buffer_size_kb", BUFFER_KB)?;
        for (event, names) in EVENTS {
            let folder = recording.instance.join("events").join(event);
            recording.formats.push(format(&fs::read_to_string(folder.join("format"))?, names)?);
            let filter = match event {
                "sched/sched_switch" => format!("prev_comm == \"{name}\" || next_comm == \"{name}\""),
                "sched/sched_waking" | "sched/sched_wakeup" => format!("comm == \"{name}\""),
                _ => format!("COMM == \"{name}\""),
            };
            fs::write(folder.join("filter"), filter)?;
            fs::write(folder.join("enable"), "1")?;
        }
        for cpu in fs::read_dir(recording.instance.join("per_cpu"))? {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(cpu?.path().join("trace_pipe_raw"))?;
            let done = Arc::clone(&recording.done);
            recording.readers.push(thread::spawn(move || read(file, &done)));
        }
        Ok(recording)
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.instance.join(file), value)
    }

    /// The recording; panics if events were lost.
    pub(super) fn finish(mut self) -> Vec<Event> {
        self.set("tracing_on", "0").expect("the instance is ours");
        self.done.store(true, Relaxed);
        let page = page_bytes(&self.instance);
        let mut events = Vec::new();
        for reader in std::mem::take(&mut self.readers) {
            let bytes = reader.join().expect("a reader does not panic").expect("the buffer can be read");
            for page in bytes.chunks(page) {
                let lost = pages::events(page, |time_ns, bytes| {
                    events.extend(self.decode(bytes).map(|act| Event { time_ns, act }));
                });
                assert!(!lost, "the recording is whole");
            }
        }
        events.sort_by_key(|event| event.time_ns);
        events
    }

    fn decode(&self, bytes: &[u8]) -> Option<Act> {
        let id = u16::from_ne_bytes(bytes[..2].try_into().expect("two bytes"));
        let which = self.formats.iter().position(|format| format.id == id)?;
        let value = |field: usize| {
            let Field { offset, bytes: size } = self.formats[which].fields[field];
            let mut value = [0; 8];
            value[..size].copy_from_slice(&bytes[offset..offset + size]);
            u64::from_ne_bytes(value)
        };
        let thread = |field: usize| value(field) as u32;
        // The thread that was running, in every event.
        let own = u32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
        Some(match which {
            0 => Act::Switch { from: thread(0), state: value(1), to: thread(2) },
            1 => Act::Waking { thread: thread(0) },
            2 => Act::Wakeup { thread: thread(0) },
            3 => Act::Enter { thread: own, number: value(0).cast_signed() },
            _ => Act::Exit { thread: own },
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
        for reader in std::mem::take(&mut self.readers) {
            let _ = reader.join();
        }
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Bytes of one page of the buffer, which newer kernels can make larger than a page of memory.
fn page_bytes(instance: &Path) -> usize {
    let kb = fs::read_to_string(instance.join("buffer_subbuf_size_kb")).ok();
    kb.and_then(|kb| kb.trim().parse::<usize>().ok()).map_or(4096, |kb| kb << 10)
}

/// Reads everything in whole pages: each read gives one page, zero after its content.
fn read(mut file: File, done: &AtomicBool) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut page = vec![0; 64 << 10];
    loop {
        let was_done = done.load(Relaxed);
        match file.read(&mut page) {
            Ok(bytes) if bytes > 0 => all.extend_from_slice(&page[..bytes]),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ if was_done => return Ok(all),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Reads `ID: 1` and lines like `field:pid_t prev_pid;  offset:24;  size:4;  signed:1;`.
fn format(text: &str, names: &[&str]) -> io::Result<Format> {
    let wrong = || io::Error::other(format!("not understood: {text}"));
    let id = text.lines().find_map(|line| line.strip_prefix("ID: ")?.parse().ok()).ok_or_else(wrong)?;
    let field = |name: &&str| {
        let line = text.lines().find(|line| {
            let declared = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
            declared.is_some_and(|declared| declared.ends_with(&format!(" {name}")))
        })?;
        let number = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok());
        Some(Field { offset: number("offset:")?, bytes: number("size:")? })
    };
    let fields: Option<Vec<Field>> = names.iter().map(field).collect();
    Ok(Format { id, fields: fields.ok_or_else(wrong)? })
}
