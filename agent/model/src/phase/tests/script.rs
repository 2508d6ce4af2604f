//! Recorded events as text: one line per event, played into a [`Pairing`].
//!
//! `TIME PROCESS/THREAD WHAT WORDS... +ACCOUNT NS...`, times in ns. `+`: what the thread did since its last
//! event (account, count, or `minor`, `major` faults); the rest was CPU. Words of any event: `lost` (its
//! record never arrived), `late` (after the next), `torn`, `unreadable`, `lib=2` (copy of the library),
//! `kernel` (its edge), `more`, `elsewhere` (perhaps not the last end), `inner` (an enter with what was left
//! inside), `number=9` (edge), `leftout=4` (edges of the thread so far that were left out on purpose),
//! `comm=NAME`, `ahead=5`, `behind=5` (ns of `cpu` by which a torn edge is off), `after=TOKEN` (a begin joins
//! it), `with=TOKEN` (it ends with an end); of all threads outside phases: `unseen=1` (threads inside
//! requests that are not handed over), `threads=3`, `unlisted=1`, `sum=cpu:500,runq:20` (ns), `sumtorn`.

use std::collections::HashMap;

use guestscope_contract::{
    Account, Beside, COMM_BYTES, DETAIL, EDGE_HELPERS_TORN, EDGE_NAME_UNREADABLE, EDGE_TORN, EXIT_REPLACED,
    EdgeRecord, FORK_ADOPTED, FORK_LATE, Header, KERNEL_INSTANCE, Kind, NAME_BYTES, Operation, SOURCE_SHIFT,
    Source, TaskRecord, UNNUMBERED, WAIT_HELD, WAIT_STOPPED, WITH_INNER, WaitRecord,
    connection::{MAY_GO_ON, MAY_GO_ON_ELSEWHERE, WAS_NONE},
    edge_mark,
    ledger::{Ledger, RUNNING},
    under_way, waker,
};

use super::{helpers, ios};
use crate::{
    phase::pairing::{Output, Pairing},
    record::Record,
};

type Number = (u32, u32);

/// The threads, and the pairing that is fed.
pub(super) struct World {
    pub(super) pairing: Pairing,
    threads: HashMap<Number, Live>,
    /// A record that arrives after the next one.
    held: Option<Record>,
}

/// A living thread.
#[derive(Clone)]
struct Live {
    ledger: Ledger,
    minor: u64,
    major: u64,
    /// Last edge number by copy of the library.
    edges: HashMap<u16, u32>,
    comm: [u8; COMM_BYTES],
}

/// A line, taken apart.
pub(super) struct Line<'a> {
    pub(super) time_ns: u64,
    number: Number,
    what: &'a str,
    words: Vec<&'a str>,
}

impl Default for World {
    fn default() -> Self {
        let run_id = std::array::from_fn(|index| index as u8);
        Self { pairing: Pairing::new(run_id), threads: HashMap::new(), held: None }
    }
}

/// The number of an operation, and whether a token stands behind its word.
fn operation(what: &str) -> (u8, bool) {
    match what {
        "begin" => (Operation::Begin as u8, true),
        "request" => (Operation::Request as u8, true),
        "end" => (Operation::End as u8, true),
        "leave" => (Operation::Leave as u8, true),
        "enter" => (Operation::Enter as u8, true),
        "context" | "parent" => (Operation::Context as u8, true),
        "identity" => (Operation::Identity as u8, true),
        "mark" => (Operation::Mark as u8, false),
        "rename" => (Operation::Rename as u8, true),
        "tell" => (Operation::Tell as u8, false),
        "nonsense" => (77, false),
        what => panic!("no event: {what}"),
    }
}

fn number(word: &str) -> Number {
    let (process, thread) = word.split_once('/').unwrap_or_else(|| panic!("PROCESS/THREAD: {word}"));
    (process.parse().unwrap(), thread.parse().unwrap())
}

fn hex(word: &str) -> u128 {
    u128::from_str_radix(word, 16).unwrap_or_else(|_| panic!("hexadecimal: {word}"))
}

/// `\xNN` is a byte, `x*70` is 70 of x, `(empty)` is nothing.
fn name_bytes(word: &str) -> Vec<u8> {
    if word == "(empty)" {
        return Vec::new();
    }
    if let Some((text, times)) = word.split_once('*') {
        return text.repeat(times.parse().unwrap()).into_bytes();
    }
    let mut parts = word.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> (Self, Vec<(&'a str, u64)>) {
        let (front, back) = line.split_once('+').unwrap_or((line, ""));
        let mut words = front.split_whitespace();
        let time_ns = words.next().unwrap().parse().unwrap_or_else(|_| panic!("TIME: {line}"));
        let number = number(words.next().unwrap());
        let what = words.next().unwrap_or_else(|| panic!("WHAT: {line}"));
        let charges = back.split('+').map(str::trim).filter(|charge| !charge.is_empty()).map(|charge| {
            let (what, amount) = charge.split_once(' ').unwrap_or_else(|| panic!("+WHAT AMOUNT: {line}"));
            (what, amount.trim().parse().unwrap())
        });
        (Self { time_ns, number, what, words: words.collect() }, charges.collect())
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The value of `key=value`, or of a key that is one character in front of it.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(key))
    }
}

/// The name that an event gives to its task.
fn comm(line: &Line<'_>) -> Option<[u8; COMM_BYTES]> {
    let name = line.value("comm=")?.as_bytes();
    Some(std::array::from_fn(|at| name.get(at).copied().unwrap_or(0)))
}

impl Live {
    fn born(line: &Line<'_>) -> Self {
        let mut ledger = Ledger { tid: line.number.1, tgid: line.number.0, ..Ledger::EMPTY };
        ledger.begin(line.time_ns, RUNNING, 0);
        let comm = comm(line).unwrap_or(*b"python\0\0\0\0\0\0\0\0\0\0");
        Self { ledger, minor: 0, major: 0, edges: HashMap::new(), comm }
    }

    /// Goes on to `time_ns`, having gone through `charges`.
    fn advance(&mut self, time_ns: u64, charges: &[(&str, u64)]) {
        let ledger = &mut self.ledger;
        let mut rest_ns = time_ns.checked_sub(ledger.since_ns).expect("times go up");
        for &(what, amount) in charges {
            match what {
                "voluntary" => ledger.voluntary = ledger.voluntary.wrapping_add(amount as u32),
                "involuntary" => ledger.involuntary = ledger.involuntary.wrapping_add(amount as u32),
                "wakeups" => ledger.wakeups = ledger.wakeups.wrapping_add(amount as u32),
                "migrations" => ledger.migrations[1] = ledger.migrations[1].wrapping_add(amount as u32),
                "missed" => ledger.missed = ledger.missed.wrapping_add(amount as u32),
                "reads" => ledger.block_reads = ledger.block_reads.wrapping_add(amount as u32),
                "minor" => self.minor += amount,
                "major" => self.major += amount,
                account => {
                    let account = Account::ALL.iter().find(|known| known.name() == account);
                    ledger.accounts[*account.unwrap_or_else(|| panic!("no account: {what}")) as usize] +=
                        amount;
                    rest_ns =
                        rest_ns.checked_sub(amount).expect("no more than the time since the last event");
                }
            }
        }
        if !charges.is_empty() {
            ledger.accounts[Account::Cpu as usize] += rest_ns;
            ledger.since_ns = time_ns;
            ledger.sequence += 1;
        }
    }

    fn task(&self, kind: Kind, flags: u32, time_ns: u64, other: (u32, u32, u64)) -> TaskRecord {
        TaskRecord {
            header: Header { kind: kind as u32, flags, time_ns },
            ledger: self.ledger,
            other_tid: other.0,
            other_tgid: other.1,
            other_born_ns: other.2,
            minor_faults: self.minor,
            major_faults: self.major,
            beside: Beside::default(),
            comm: self.comm,
        }
    }
}

/// A wait that ends here: its account, then words with defaults; `edge=9` was its thread's last.
fn wait_record(line: &Line<'_>, live: &Live) -> WaitRecord {
    let ledger = &live.ledger;
    let number = |key: &str, or: u64| line.value(key).map_or(or, |value| value.parse().unwrap());
    let account = Account::ALL.into_iter().find(|account| account.name() == line.words[0]);
    let left_ns = number("from=", line.time_ns);
    let call = match line.value("by=") {
        Some("write") => libc::SYS_write as i32,
        Some("munmap") => libc::SYS_munmap as i32,
        Some("exit_group") => libc::SYS_exit_group as i32,
        Some("sched_yield") => libc::SYS_sched_yield as i32,
        Some(unknown) => panic!("no such system call here: {unknown}"),
        None if line.words[0] == "lock" => libc::SYS_futex as i32,
        None if line.words[0] == "other" => libc::SYS_munmap as i32,
        None => -1,
    };
    let last = live.edges.values().copied().max().unwrap_or(0);
    let edge = number("edge=", u64::from(last)) as u32;
    WaitRecord {
        header: Header {
            kind: Kind::Wait as u32,
            flags: number("writes=", 0) as u32
                | (number("held=", 0) as u32 * WAIT_HELD)
                | (number("stopped=", 0) as u32 * WAIT_STOPPED)
                | under_way(number("reads_under_way=", 0), number("writes_under_way=", 0)),
            time_ns: line.time_ns,
        },
        born_ns: ledger.born_ns,
        left_ns,
        ready_ns: number("ready=", left_ns),
        throttled_ns: number("throttled=", 0),
        tid: ledger.tid,
        tgid: ledger.tgid,
        waker: waker::pack(number("waker=", 0) as u32, call),
        replaced_by_tid: 0,
        ran_before_tid: 77,
        ran_before_tgid: 77,
        left_cpu: 0,
        cpu: 1,
        syscall: number("in=", 0xffff) as u16,
        account: account.map_or(200, |account| account as u8),
        edge: edge_mark(edge),
        device: number("device=", 0) as u32,
        ns_tid: number("ns_tid=", 0) as u32,
        beside_tid: 0,
        limit_ms: 0,
        argument: 0,
        group: number("group=", 0),
        ran_before_comm: *b"stress\0\0\0\0\0\0\0\0\0\0",
        waker_comm: *b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0",
    }
}

impl World {
    /// Plays every line; yields what came out.
    pub(super) fn play(&mut self, text: &str) -> Vec<Output> {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (line, charges) = Line::parse(line);
            let moved = if line.what == "exec" { number(line.words[0]) } else { line.number };
            if matches!(line.what, "adopt" | "fork") {
                self.threads.insert(line.number, Live::born(&line));
            }
            let thread = self.threads.entry(moved).or_insert_with(|| Live::born(&line));
            thread.advance(line.time_ns, &charges);
            let held = self.held.take();
            self.event(&line);
            if let Some(record) = held {
                self.feed(&record);
            }
        }
        self.pairing.take()
    }

    fn deliver(&mut self, line: &Line<'_>, record: &Record) {
        if line.has("late") {
            self.held = Some(*record);
        } else if !line.has("lost") {
            self.feed(record);
        }
    }

    fn feed(&mut self, record: &Record) {
        self.pairing.record(record);
    }

    fn event(&mut self, line: &Line<'_>) {
        match line.what {
            "adopt" => {
                let late = if line.has("running") { FORK_LATE } else { 0 };
                self.task(line, Kind::Fork, FORK_ADOPTED | late, (0, 0, 0));
            }
            "fork" => {
                let parent = self.threads[&number(line.words[0])].clone();
                self.threads.get_mut(&line.number).unwrap().comm = parent.comm;
                let other = (parent.ledger.tid, parent.ledger.tgid, parent.ledger.born_ns);
                self.task(line, Kind::Fork, 0, other);
            }
            "exec" => self.exec(line),
            "wait" => self.deliver(line, &Record::Wait(wait_record(line, &self.threads[&line.number]))),
            "io" => self.deliver(line, &Record::Io(ios::record(line, &self.threads[&line.number].ledger))),
            "exit" => {
                self.task(line, Kind::Exit, 0, (0, 0, 0));
                self.threads.remove(&line.number);
            }
            "renamed" => {
                let live = self.threads.get_mut(&line.number).unwrap();
                live.comm = comm(line).unwrap_or(live.comm);
                self.task(line, Kind::Rename, 0, (0, 0, 0));
            }
            "stop" => {
                let mut ledgers: Vec<Ledger> = self.threads.values().map(|thread| thread.ledger).collect();
                ledgers.sort_by_key(|ledger| std::cmp::Reverse(ledger.tid));
                self.pairing.stop(line.time_ns, &ledgers);
            }
            _ => self.edge(line),
        }
    }

    fn task(&mut self, line: &Line<'_>, kind: Kind, flags: u32, other: (u32, u32, u64)) {
        let record = self.threads[&line.number].task(kind, flags, line.time_ns, other);
        self.deliver(line, &Record::Task(kind, record));
    }

    /// The thread of the first word becomes the thread of the line: the same one, or another of its process,
    /// whose leader ends for it.
    fn exec(&mut self, line: &Line<'_>) {
        let before = number(line.words[0]);
        let mut thread = self.threads.remove(&before).unwrap();
        let mut leader_born_ns = 0;
        if let Some(mut leader) = self.threads.remove(&line.number) {
            leader.advance(line.time_ns, &[]);
            leader_born_ns = leader.ledger.born_ns;
            let record = leader.task(Kind::Exit, EXIT_REPLACED, line.time_ns, (before.1, 0, 0));
            self.pairing.task(Kind::Exit, &record);
        }
        thread.ledger.tid = line.number.1;
        thread.edges.clear();
        thread.comm = comm(line).unwrap_or(thread.comm);
        self.threads.insert(line.number, thread);
        self.task(line, Kind::Exec, 0, (before.1, 0, leader_born_ns));
    }

    fn edge(&mut self, line: &Line<'_>) {
        let words: Vec<&str> = line.words.iter().copied().filter(|word| !word.contains('=')).collect();
        let nth = |at: usize| words.get(at).copied().unwrap_or_default();
        let (operation, has_token) = operation(line.what);
        let token = if has_token { nth(0).parse().unwrap_or_else(|_| panic!("{}", nth(0))) } else { 0 };
        let mut arguments = [0; 4];
        let mut name = [0; NAME_BYTES];
        if Operation::has_name(operation) {
            let bytes = name_bytes(nth(usize::from(has_token)));
            let kept = bytes.len().min(NAME_BYTES);
            name[..kept].copy_from_slice(&bytes[..kept]);
            let decimal = |key: &str| line.value(key).map_or(0, |value| value.parse().unwrap());
            let source = line.value("from=").map_or(0, |word| {
                Source::ALL.into_iter().find(|source| source.name() == word).unwrap() as u64
            });
            let detail = if line.has("detail") { DETAIL } else { 0 };
            let length = detail | source << SOURCE_SHIFT | bytes.len() as u64;
            arguments = [0x7000, length, decimal("#"), decimal("@") + decimal("after=")];
        } else if line.what == "enter" && line.has("inner") {
            arguments[0] = WITH_INNER;
        } else if line.what == "end" {
            arguments[1] = line.value("with=").map_or(0, |token| token.parse().unwrap());
            let third = |word: &str, value: u64| u64::from(line.has(word)) * value;
            let elsewhere = third("elsewhere", MAY_GO_ON_ELSEWHERE);
            arguments[2] = third("more", MAY_GO_ON) + elsewhere + third("none", WAS_NONE);
        } else if matches!(line.what, "context" | "parent" | "identity") {
            let trace = hex(nth(1));
            let of_the_phase = u64::from(line.what == "parent");
            arguments = [(trace >> 64) as u64, trace as u64, hex(nth(2)) as u64, of_the_phase];
        }
        let thread = self.threads.get_mut(&line.number).unwrap();
        let is_made_here = line.has("kernel");
        let instance = [1, KERNEL_INSTANCE][usize::from(is_made_here)];
        let instance = line.value("lib=").map_or(instance, |copy| copy.parse().unwrap());
        let last = thread.edges.entry(instance).or_default();
        let next = if is_made_here { UNNUMBERED } else { last.wrapping_add(1) };
        *last = line.value("number=").map_or(next, |number| number.parse().unwrap());
        let mut ledger = thread.ledger;
        let cpu = &mut ledger.accounts[Account::Cpu as usize];
        let skew = |key: &str| line.value(key).map_or(0, |ns| ns.parse().unwrap());
        *cpu = *cpu + skew("ahead=") - skew("behind=");
        let flag = |key: &str, flag: u32| if line.has(key) { flag } else { 0 };
        let known =
            [("torn", EDGE_TORN), ("unreadable", EDGE_NAME_UNREADABLE), ("sumtorn", EDGE_HELPERS_TORN)];
        let flags = known.into_iter().map(|(key, bit)| flag(key, bit)).sum();
        let record = EdgeRecord {
            header: Header { kind: Kind::Edge as u32, flags, time_ns: line.time_ns },
            ledger,
            operation: u64::from(operation) | 1 << 8 | u64::from(instance) << 16 | u64::from(*last) << 32,
            token,
            arguments,
            minor_faults: thread.minor,
            major_faults: thread.major,
            left_out: line.value("leftout=").map_or(0, |edges| edges.parse().unwrap()),
            unseen_threads: line.value("unseen=").map_or(0, |threads| threads.parse().unwrap()),
            beside: Beside::default(),
            helpers: helpers::sum(line),
            name,
        };
        self.deliver(line, &Record::Edge(record));
    }
}
