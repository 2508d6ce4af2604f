//! Looks for possible sources of phases in processes, as long as they have marked nothing: ports, libraries,
//! Python.
//!
//! One look at a time, on a thread of its own, ever more rarely: a process can block it, and then there are
//! no more looks.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    guarded,
    hints::{Library, Seen},
    mapped, tasks,
    untrusted::Untrusted,
};

/// Time until the first look: shorter programs get none.
const FIRST: Duration = Duration::from_millis(150);
/// Longest interval between looks. It doubles from [`FIRST`] on.
const LONGEST: Duration = Duration::from_secs(30);
/// Most processes looked at: those started or adopted first, and their descendants.
const MOST: usize = 64;
/// Most descriptors of a process searched for sockets.
const DESCRIPTORS: usize = 4_096;
/// Most bytes read of /proc/net/tcp: 7,000 lines of 150 bytes.
const TABLE_BYTES: u64 = 1 << 20;
/// Bytes read of a file's start: Go's linker puts its build note behind the program headers.
const BEGIN_BYTES: u64 = 8 << 10;
/// An ELF note: length of the name, length of the descriptor, type, name. These are Go's parts around the
/// descriptor's length.
const GO_NOTE: [&[u8]; 2] = [&[4, 0, 0, 0], b"\x04\0\0\0Go\0\0"];
/// State `TCP_LISTEN` in /proc/net/tcp.
const LISTENS: &str = "0A";
/// Stack of the thread, which needs a few buffers.
const STACK_BYTES: usize = 256 << 10;

/// Findings so far, by PID and start time.
type Found = BTreeMap<(u32, u64), Seen>;

/// State of the looks.
pub(crate) struct Possible {
    next: Instant,
    between: Duration,
    found: Arc<Mutex<Found>>,
    under_way: Option<JoinHandle<()>>,
}

impl Possible {
    pub(crate) fn new(started: Instant) -> Self {
        Self { next: started + FIRST, between: FIRST, found: Arc::default(), under_way: None }
    }

    /// Starts a look if one is due.
    pub(crate) fn look(&mut self, processes: impl FnOnce() -> Vec<u32>) {
        if Instant::now() < self.next || self.under_way.as_ref().is_some_and(|look| !look.is_finished()) {
            return;
        }
        self.between = (self.between * 2).min(LONGEST);
        self.next = Instant::now() + self.between;
        let (processes, found) = (processes(), Arc::clone(&self.found));
        let look = thread::Builder::new().name("looks".to_owned()).stack_size(STACK_BYTES);
        // Without a thread there is no look; the next one may have one.
        self.under_way = look.spawn(move || look_at(&processes, &found)).ok();
    }

    /// Findings.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

fn look_at(processes: &[u32], found: &Mutex<Found>) {
    let mut all: Vec<u32> = processes.iter().copied().take(MOST).collect();
    let mut at = 0;
    while let Some(&pid) = all.get(at).filter(|_| all.len() < MOST) {
        let more = mapped::children(pid);
        let new: Vec<u32> = more.into_iter().filter(|child| !all.contains(child)).collect();
        all.extend(new.into_iter().take(MOST - all.len()));
        at += 1;
    }
    for pid in all {
        let Some((born, seen)) = one(pid) else { continue };
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < MOST || found.contains_key(&(pid, born)) {
            // Earlier findings stay: the process may have closed a port or called exec since.
            merge(found.entry((pid, born)).or_default(), seen);
        }
    }
}

fn merge(known: &mut Seen, now: Seen) {
    let Seen { name, ports, is_python, is_go, libraries } = now;
    known.name = name;
    known.ports.extend(ports);
    known.libraries.extend(libraries);
    known.ports.sort_unstable();
    known.ports.dedup();
    known.libraries.sort_unstable();
    known.libraries.dedup();
    known.is_python |= is_python;
    known.is_go |= is_go;
}

fn one(pid: u32) -> Option<(u64, Seen)> {
    let stat = tasks::Stat::read(pid.cast_signed()).ok()?;
    let (maps, _) = tasks::maps(pid.cast_signed()).ok()?;
    let code = maps.iter().filter(|map| map.is_code);
    let files: Vec<&str> = code
        .filter_map(|map| map.path.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()))
        .collect();
    let mut libraries: Vec<Library> = files.iter().filter_map(|file| Library::by_file(file)).collect();
    libraries.sort_unstable();
    libraries.dedup();
    let is_python = files.iter().any(|file| is_python(file));
    let seen = Seen {
        name: Untrusted::of_bytes(&stat.comm),
        ports: ports(pid),
        is_python,
        is_go: !is_python && is_go(pid),
        libraries,
    };
    Some((stat.born, seen))
}

/// `python3.11`, `libpython3.11.so.1.0`: the interpreter, or a program that embeds it.
fn is_python(file: &str) -> bool {
    let version = file.strip_prefix("libpython").or_else(|| file.strip_prefix("python"));
    version.is_some_and(|version| version.starts_with(|next: char| next.is_ascii_digit()))
}

fn is_go(pid: u32) -> bool {
    let begin = guarded::read_begin(format!("/proc/{pid}/exe").as_ref(), BEGIN_BYTES);
    begin.is_ok_and(|begin| has_go_note(&begin))
}

fn has_go_note(begin: &[u8]) -> bool {
    let [length, name] = GO_NOTE;
    let note = length.len() + size_of::<u32>() + name.len();
    begin.windows(note).any(|window| window.starts_with(length) && window.ends_with(name))
}

/// Ports on which a process listens.
pub(crate) fn ports(pid: u32) -> Vec<u16> {
    let table = |name: &str| {
        let text = guarded::read_begin(format!("/proc/{pid}/net/{name}").as_ref(), TABLE_BYTES);
        listening(Untrusted::of_bytes(&text.unwrap_or_default()).stored())
    };
    let listening: Vec<(u16, u64)> = ["tcp", "tcp6"].into_iter().flat_map(table).collect();
    if listening.is_empty() {
        return Vec::new();
    }
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links =
        descriptors.flatten().take(DESCRIPTORS).filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let own: HashSet<u64> = links.filter_map(|link| socket(link.to_str()?)).collect();
    listening.into_iter().filter(|(_, inode)| own.contains(inode)).map(|(port, _)| port).collect()
}

/// `socket:[4711]`
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Port and inode of each socket of a table that listens.
fn listening(table: &str) -> Vec<(u16, u64)> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let is_open = fields.get(3) == Some(&LISTENS);
        Some((u16::from_str_radix(port, 16).ok().filter(|_| is_open)?, fields.get(9)?.parse().ok()?))
    };
    table.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;
    use crate::{
        hints::{self, Asked},
        sources::Kind,
    };

    /// A hint must not name what does not exist.
    #[test]
    fn every_option_that_a_hint_names_is_one() {
        let server = |ports: &[u16]| Seen { name: "srv".into(), ports: ports.to_vec(), ..Seen::default() };
        let libraries = [Library::OnnxRuntime, Library::Llama, Library::TensorFlow, Library::Nvtx];
        let mut seen: Vec<Seen> =
            libraries.map(|library| Seen { libraries: vec![library], ..server(&[]) }).into();
        seen.extend([server(&[80]), Seen { is_python: true, ..server(&[]) }]);
        let command = crate::cli::Cli::command();
        let run = command.find_subcommand("run").expect("it is a command");
        for (is_started, on) in [(true, vec![]), (false, vec![Kind::Marker])] {
            let asked = Asked { is_started, sees_kernel: true, on, ..Asked::default() };
            for one in &seen {
                for hint in hints::hints(std::slice::from_ref(one), &asked) {
                    let option = hint.option.expect("each of these has one");
                    let Some(option) = option.strip_prefix("--") else { continue };
                    let option = option.split(' ').next();
                    assert!(run.get_arguments().any(|argument| argument.get_long() == option), "{option:?}");
                }
            }
        }
    }

    #[test]
    fn this_process_is_seen_to_listen() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        let own = std::process::id();
        assert!(ports(own).contains(&port));
        let (_, seen) = one(own).expect("it lives");
        assert!(seen.ports.contains(&port) && !seen.is_python && !seen.is_go);
        drop(socket);
        assert!(!ports(own).contains(&port));
    }

    #[test]
    fn of_a_table_what_listens_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \u{20}  0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
            \u{20}  1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n\
            \u{20}  2: 00000000000000000000000000000000:0050 0:0 0A 0:0 0:0 0     0        0 4713 1 0\nbroken\n";
        assert_eq!(listening(table), [(8000, 4711), (80, 4713)]);
    }

    #[rstest]
    #[case("python3.11", true)]
    #[case("libpython3.12.so.1.0", true)]
    #[case("python", false)]
    #[case("pythonista", false)]
    #[case("libc.so.6", false)]
    fn python_is_known_by_its_file(#[case] file: &str, #[case] expected: bool) {
        assert_eq!(is_python(file), expected);
    }

    #[test]
    fn a_program_of_go_has_a_note() {
        let with = [b"\x7fELF....".as_slice(), &[4, 0, 0, 0, 83, 0, 0, 0], b"\x04\0\0\0Go\0\0abc"].concat();
        assert!(has_go_note(&with));
        assert!(!has_go_note(b"\x7fELF....\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"));
    }

    #[test]
    fn looks_become_rare() {
        let mut possible = Possible::new(Instant::now());
        possible.look(|| panic!("not yet"));
        for _ in 0..40 {
            possible.next = Instant::now();
            possible.look(Vec::new);
            if let Some(look) = possible.under_way.take() {
                look.join().expect("it ends");
            }
        }
        assert_eq!((possible.between, possible.seen().len()), (LONGEST, 0));
    }
}
