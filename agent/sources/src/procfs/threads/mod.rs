//! Turns threads' own reports into ledgers that only grow, with starts and ends that no thread reported.
//!
//! Yields the records that the BPF programs would have sent. A ledger's accounts add up to the time since its
//! thread was first seen, to the nanosecond: time that the thread's clock and its `schedstat` do not explain
//! is `other`.

use std::collections::{HashMap, HashSet};

use guestscope_contract::{
    Account, Beside, COMM_BYTES, EDGE_HELPERS_TORN, EXIT_REPLACED, EdgeRecord, FORK_ADOPTED, Header, Kind,
    Operation, TaskRecord,
    helpers::HelperSum,
    ledger::{Ledger, RUNNING},
};

use super::{
    edge::{Edge, Reading},
    status,
};
use crate::record::Record;

/// Maximum number of distinguished copies of the library in one thread.
const COPIES: usize = 16;
/// Maximum number of distinguished threads beyond the limit, for counting.
const MISSED_MOST: usize = 1 << 16;
/// Most that `cpu` and `runq` may be ahead of the wall clock at an edge and still be charged later. Each is
/// read at its own instant, and a thread that is preempted between two readings has its wait in only one of
/// them.
const AHEAD_NS: u64 = 20_000_000;

/// A thread by the numbers that the kernel uses again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ids {
    tgid: u32,
    tid: u32,
}

/// All threads seen.
#[derive(Debug)]
pub(super) struct Threads {
    known: HashMap<Ids, Known>,
    /// Most threads known at once.
    most: usize,
    /// Process number of the program that was started.
    program: Option<u32>,
    /// Processes of another PID namespace: their numbers in our /proc are other processes'.
    elsewhere: HashSet<u32>,
    /// Processes in our /proc: the ends of their threads can be seen there.
    here: HashSet<u32>,
    /// Number of threads that triggers a look for ended ones.
    crowd: usize,
    /// Threads beyond the limit, as far as they are distinguished.
    missed: HashSet<Ids>,
    /// Their edges, and those of them that began requests.
    pub(super) untracked: (u64, u64),
}

/// A thread.
#[derive(Debug)]
struct Known {
    ledger: Ledger,
    image: u64,
    /// Copies of the library, and the time at which the thread met each.
    copies: Vec<(u16, u64)>,
    /// The last reading.
    last: Reading,
    /// Time by which the clocks were ahead: to be charged as soon as there is room for it.
    ahead: Ahead,
    /// Name, as last read from /proc; none if it was not there.
    comm: Option<[u8; COMM_BYTES]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    cpu_ns: u64,
    runq_ns: u64,
}

/// A thread that has ended, and when it was first seen (ns).
#[derive(Debug)]
pub(super) struct Gone(Ids, u64);

/// Relation of an edge's thread to the known one of the same numbers.
enum Relation {
    Same,
    /// The process executed another program.
    Replaced,
    /// The known one has ended.
    Another,
}

impl Threads {
    pub(super) fn new(most: usize) -> Self {
        Self {
            known: HashMap::new(),
            most,
            program: None,
            elsewhere: HashSet::new(),
            here: HashSet::new(),
            crowd: most / 2,
            missed: HashSet::new(),
            untracked: (0, 0),
        }
    }

    /// Threads without room.
    pub(super) fn missed(&self) -> u64 {
        self.missed.len() as u64
    }

    /// A process is about to write its first edge.
    pub(super) fn met(&mut self, pid: u32) {
        match status::numbers(pid).as_deref() {
            Some([_]) => {
                self.elsewhere.remove(&pid);
                self.is_here(pid);
            }
            Some([.., inside]) if self.elsewhere.len() < MISSED_MOST => {
                self.here.remove(inside);
                self.elsewhere.insert(*inside);
            }
            _ => {}
        }
    }

    fn is_here(&mut self, tgid: u32) {
        if self.here.len() >= MISSED_MOST {
            let known: HashSet<u32> = self.known.keys().map(|who| who.tgid).collect();
            self.here.retain(|tgid| known.contains(tgid));
        }
        self.here.insert(tgid);
    }

    /// The program was started: its main thread has used no time yet.
    pub(super) fn started(&mut self, pid: u32, at_ns: u64, records: &mut Vec<Record>) {
        self.program = Some(pid);
        let reading = Reading { time_ns: at_ns, run_delay_ns: Some(0), ..Reading::default() };
        records.push(self.first(Ids { tgid: pid, tid: pid }, reading, 0));
    }

    /// The program has ended and can still be read.
    pub(super) fn ended(&mut self, at_ns: u64) {
        let Some(pid) = self.program else { return };
        if let Some(known) = self.known.get_mut(&Ids { tgid: pid, tid: pid })
            && let Some(reading) = status::reading(pid, pid, at_ns)
        {
            known.advance(&reading);
            known.look_up_comm();
        }
    }

    /// Turns an edge into records, first those on its thread.
    pub(super) fn edge(&mut self, edge: &Edge, records: &mut Vec<Record>) {
        let who = Ids { tgid: edge.tgid, tid: edge.tid };
        let relation = self.known.get(&who).map(|known| known.relation(edge));
        match relation {
            None | Some(Relation::Same) => {}
            Some(Relation::Replaced) => self.replaced(who, edge, records),
            Some(Relation::Another) => {
                records.extend(self.known.remove(&who).map(|known| known.task(Kind::Exit, EXIT_REPLACED)));
            }
        }
        if !self.known.contains_key(&who) {
            if self.known.len() >= self.most {
                if self.missed.len() < MISSED_MOST {
                    self.missed.insert(who);
                }
                self.untracked.0 += 1;
                self.untracked.1 += u64::from(Operation::begins_request(edge.head as u8, edge.token));
                return;
            }
            records.push(self.first(who, edge.reading, edge.image));
        }
        let Some(known) = self.known.get_mut(&who) else { return };
        known.met(edge);
        known.advance(&edge.reading);
        records.push(Record::Edge(known.edge(edge)));
    }

    /// The process executed another program: its other threads are gone, and so are their open phases.
    fn replaced(&mut self, who: Ids, edge: &Edge, records: &mut Vec<Record>) {
        let Some(known) = self.known.get_mut(&who) else { return };
        known.image = edge.image;
        known.copies.clear();
        known.look_up_comm();
        known.advance(&edge.reading);
        records.push(known.task(Kind::Exec, 0));
        let is_other = |other: &Ids| other.tgid == who.tgid && other.tid != who.tid;
        let ended = self.known.extract_if(|other, _| is_other(other)).map(|(_, known)| known);
        push_ends(ended.collect(), records, |known| known.task(Kind::Exit, EXIT_REPLACED));
    }

    /// Adds a thread that was not known.
    fn first(&mut self, who: Ids, reading: Reading, image: u64) -> Record {
        let ledger = Ledger {
            tgid: who.tgid,
            tid: who.tid,
            born_ns: reading.time_ns,
            since_ns: reading.time_ns,
            state: RUNNING,
            ..Ledger::EMPTY
        };
        let ahead = Ahead::default();
        let mut comm = None;
        if !self.elsewhere.contains(&who.tgid) {
            comm = status::comm(who.tgid, who.tid);
            // A thread that has ended already, as those of a single request do before their edges are read,
            // leaves its process in /proc.
            if comm.is_some() || status::is_there(who.tgid) {
                self.is_here(who.tgid);
            }
        }
        let known = Known { ledger, image, copies: Vec::new(), last: reading, ahead, comm };
        let record = known.task(Kind::Fork, FORK_ADOPTED);
        self.known.insert(who, known);
        record
    }

    /// Whether there are so many threads that ended ones should make room. Between two looks that find all
    /// alive half of the remaining room must fill, so that a full table is not searched at each edge.
    pub(super) fn is_crowded(&self) -> bool {
        self.known.len() > self.crowd
    }

    /// Threads that have ended. Edges of theirs may still wait in the ring.
    pub(super) fn gone(&self) -> Vec<Gone> {
        let is_gone = |ledger: &Ledger| {
            let (tgid, tid) = (ledger.tgid, ledger.tid);
            // The program's main thread ends with the program, whose end is reported separately.
            let is_told = tid == tgid && self.program == Some(tgid);
            !is_told && self.here.contains(&tgid) && !status::is_thread_there(tgid, tid)
        };
        let ledgers = self.known.values().map(|known| &known.ledger);
        ledgers
            .filter(|ledger| is_gone(ledger))
            .map(|l| Gone(Ids { tgid: l.tgid, tid: l.tid }, l.born_ns))
            .collect()
    }

    /// Ends these threads, each at its last edge, to make room.
    pub(super) fn end(&mut self, gone: Vec<Gone>, records: &mut Vec<Record>) {
        let mut ended = Vec::with_capacity(gone.len());
        for Gone(who, born_ns) in gone {
            // The number may have been reused.
            if self.known.get(&who).is_some_and(|known| known.ledger.born_ns == born_ns) {
                ended.extend(self.known.remove(&who));
            }
        }
        push_ends(ended, records, |known| known.task(Kind::Exit, EXIT_REPLACED));
        self.crowd = self.known.len() + self.most.saturating_sub(self.known.len()) / 2;
    }

    /// Ends all that has ended; returns ledgers of living threads, as they are now.
    pub(super) fn finish(&mut self, now_ns: u64, records: &mut Vec<Record>) -> Vec<Ledger> {
        let gone = self.gone();
        self.end(gone, records);
        let program = self.program.take();
        let (ended, live): (Vec<Known>, Vec<Known>) =
            self.known.drain().map(|(_, known)| known).partition(|known| Some(known.ledger.tgid) == program);
        // The row of a process begins with its start, which is known of the program alone.
        let is_main = |known: &Known| known.ledger.tid == known.ledger.tgid;
        push_ends(ended, records, |known| {
            known.task(Kind::Exit, if is_main(known) { 0 } else { EXIT_REPLACED })
        });
        let now = |mut known: Known| {
            known.comm?;
            let reading = status::reading(known.ledger.tgid, known.ledger.tid, now_ns)?;
            known.advance(&reading);
            Some(known.ledger)
        };
        live.into_iter().filter_map(now).collect()
    }
}

/// Pushes ends in an order that does not depend on the map's: main threads last, since a process ends with
/// its last thread.
fn push_ends(mut ended: Vec<Known>, records: &mut Vec<Record>, end: impl Fn(&Known) -> Record) {
    ended.sort_by_key(|known| {
        let Ledger { tgid, tid, .. } = known.ledger;
        (tgid, tid == tgid, tid)
    });
    records.extend(ended.iter().map(end));
}

impl Known {
    fn relation(&self, edge: &Edge) -> Relation {
        let is_main = edge.tid == edge.tgid;
        let met = self.copies.iter().find(|(copy, _)| *copy == edge.copy());
        let is_reborn = met.is_some_and(|(_, born_ns)| *born_ns != edge.born_ns);
        if (edge.image != self.image && !self.copies.is_empty()) || is_reborn {
            // A main thread's number is its process's, so it cannot be another thread's.
            return if is_main { Relation::Replaced } else { Relation::Another };
        }
        let (now, last) = (&edge.reading, &self.last);
        let is_less = now.cpu_ns < last.cpu_ns || now.minor_faults < last.minor_faults;
        if is_less && met.is_none() && !is_main { Relation::Another } else { Relation::Same }
    }

    fn met(&mut self, edge: &Edge) {
        self.image = edge.image;
        if self.copies.iter().all(|(copy, _)| *copy != edge.copy()) {
            if self.copies.len() >= COPIES {
                self.copies.remove(0);
            }
            self.copies.push((edge.copy(), edge.born_ns));
        }
    }

    /// Charges the time since the last reading: to `cpu` the growth of the thread's clock, to `runq` the
    /// growth of its waits, to `other` the rest. Growth beyond that time is charged later, up to a bound.
    fn advance(&mut self, now: &Reading) {
        let time_ns = now.time_ns.max(self.ledger.since_ns);
        let wall_ns = time_ns - self.ledger.since_ns;
        let cpu_ns = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        let waits = now.run_delay_ns.zip(self.last.run_delay_ns);
        let runq_ns = waits.map_or(0, |(now_ns, last_ns)| now_ns.saturating_sub(last_ns));
        let cpu_ns = take(&mut self.ahead.cpu_ns, cpu_ns, wall_ns);
        let runq_ns = take(&mut self.ahead.runq_ns, runq_ns, wall_ns - cpu_ns);
        let charges =
            [(Account::Cpu, cpu_ns), (Account::Runq, runq_ns), (Account::Other, wall_ns - cpu_ns - runq_ns)];
        for (account, ns) in charges {
            let sum = &mut self.ledger.accounts[account as usize];
            *sum = sum.saturating_add(ns);
        }
        let ledger = &mut self.ledger;
        ledger.since_ns = time_ns;
        ledger.voluntary = ledger.voluntary.wrapping_add(grown(self.last.voluntary, now.voluntary));
        ledger.involuntary = ledger.involuntary.wrapping_add(grown(self.last.involuntary, now.involuntary));
        let (minor_faults, major_faults) =
            (now.minor_faults.max(self.last.minor_faults), now.major_faults.max(self.last.major_faults));
        // A failed reading (no descriptor was free) does not restart from zero: waits since then are part of
        // the next growth.
        let run_delay_ns = now.run_delay_ns.or(self.last.run_delay_ns);
        self.last = Reading { run_delay_ns, minor_faults, major_faults, ..*now };
    }

    fn look_up_comm(&mut self) {
        let comm = self.comm.and_then(|_| status::comm(self.ledger.tgid, self.ledger.tid));
        self.comm = comm.or(self.comm);
    }

    fn edge(&self, edge: &Edge) -> EdgeRecord {
        EdgeRecord {
            // The process's other threads are not summed.
            header: Header {
                kind: Kind::Edge as u32,
                flags: EDGE_HELPERS_TORN,
                time_ns: self.ledger.since_ns,
            },
            ledger: self.ledger,
            operation: edge.head,
            token: edge.token,
            arguments: edge.arguments,
            minor_faults: self.last.minor_faults,
            major_faults: self.last.major_faults,
            left_out: 0,
            unseen_threads: 0,
            beside: Beside::default(),
            helpers: HelperSum::default(),
            name: edge.name,
        }
    }

    fn task(&self, kind: Kind, flags: u32) -> Record {
        let Ledger { tid, since_ns, .. } = self.ledger;
        let record = TaskRecord {
            header: Header { kind: kind as u32, flags, time_ns: since_ns },
            ledger: self.ledger,
            other_tid: if kind == Kind::Exec { tid } else { 0 },
            other_tgid: 0,
            other_born_ns: 0,
            minor_faults: self.last.minor_faults,
            major_faults: self.last.major_faults,
            beside: Beside::default(),
            comm: self.comm.unwrap_or_default(),
        };
        Record::Task(kind, record)
    }
}

/// Takes new and earlier time as far as there is room; the rest stays ahead.
fn take(ahead_ns: &mut u64, new_ns: u64, room_ns: u64) -> u64 {
    let due_ns = ahead_ns.saturating_add(new_ns);
    let taken_ns = due_ns.min(room_ns);
    *ahead_ns = (due_ns - taken_ns).min(AHEAD_NS);
    taken_ns
}

/// Growth of a count that wraps; one that seems to have gone back belongs to another thread and counts as 0.
fn grown(before: u32, now: u32) -> u32 {
    let grown = now.wrapping_sub(before);
    if grown > u32::MAX / 2 { 0 } else { grown }
}

#[cfg(test)]
mod tests;
