//! Ledgers from threads' reports: sums that hold whatever is reported, and births and ends that nobody
//! reported.

use proptest::{collection::vec, prelude::*};

use super::{
    super::{edge::DecodeError, ring::Words},
    *,
};

const MS: u64 = 1_000_000;
/// A number that no process has.
const NOBODYS: u32 = 0x3f_fed0;

/// An edge of a process that no system has, so that nothing is found in /proc.
fn edge(tid: u32, time_ns: u64, cpu_ns: u64, run_delay_ns: Option<u64>) -> Edge {
    let reading = Reading { time_ns, cpu_ns, run_delay_ns, ..Reading::default() };
    Edge {
        head: 0x0101,
        token: 1,
        arguments: [0; 4],
        name: [0; 64],
        tgid: NOBODYS,
        tid,
        image: 1,
        born_ns: 5,
        reading,
    }
}

fn kinds(records: &[Record]) -> Vec<Kind> {
    records
        .iter()
        .map(|record| match record {
            Record::Task(kind, _) => *kind,
            Record::Edge(_) => Kind::Edge,
            Record::Wait(_) => Kind::Wait,
            Record::Io(_) => Kind::Io,
            Record::Queue(_) => Kind::Queue,
        })
        .collect()
}

/// Accounts of the last edge, in ms: `cpu`, `runq`, `other`.
fn accounts(records: &[Record]) -> [u64; 3] {
    let Some(Record::Edge(edge)) = records.last() else { panic!("an edge comes last: {records:?}") };
    assert_eq!(edge.ledger.accounts.iter().sum::<u64>(), edge.header.time_ns - edge.ledger.born_ns);
    [Account::Cpu, Account::Runq, Account::Other].map(|account| edge.ledger.accounts[account as usize] / MS)
}

fn feed(threads: &mut Threads, edges: &[Edge]) -> Vec<Record> {
    let mut records = Vec::new();
    for edge in edges {
        threads.edge(edge, &mut records);
    }
    records
}

#[test]
fn time_that_no_clock_explains_is_other() {
    let mut threads = Threads::new(8);
    let records = feed(
        &mut threads,
        &[edge(1, 100 * MS, 40 * MS, Some(7 * MS)), edge(1, 110 * MS, 43 * MS, Some(9 * MS))],
    );
    assert_eq!(kinds(&records), [Kind::Fork, Kind::Edge, Kind::Edge]);
    assert_eq!(accounts(&records), [3, 2, 5]);
}

#[test]
fn without_schedstat_runq_is_part_of_other() {
    let mut threads = Threads::new(8);
    let records = feed(&mut threads, &[edge(1, 0, 0, None), edge(1, 10 * MS, 3 * MS, None)]);
    assert_eq!(accounts(&records), [3, 0, 7]);
}

/// A program that has used up its descriptors cannot open its `schedstat`; later it can again.
#[test]
fn a_wait_that_could_not_be_read_is_no_wait_of_a_lifetime() {
    let mut threads = Threads::new(8);
    let edges = [
        edge(1, 0, 0, Some(700 * MS)),
        edge(1, 10 * MS, 3 * MS, Some(702 * MS)),
        edge(1, 20 * MS, 6 * MS, None),
        edge(1, 30 * MS, 9 * MS, Some(705 * MS)),
    ];
    assert_eq!(accounts(&feed(&mut threads, &edges)), [9, 5, 16]);
    // The first readable `schedstat` does not count the waits before it either.
    let late = [edge(2, 0, 0, None), edge(2, 10 * MS, 3 * MS, Some(700 * MS))];
    assert_eq!(accounts(&feed(&mut threads, &late)), [3, 0, 7]);
}

/// A thread preempted between its clock and its `schedstat` has the wait in one of them only.
#[test]
fn a_clock_that_is_ahead_is_charged_when_there_is_time() {
    let mut threads = Threads::new(8);
    let first = [edge(1, 0, 0, Some(0)), edge(1, 10 * MS, 10 * MS, Some(4 * MS))];
    assert_eq!(accounts(&feed(&mut threads, &first)), [10, 0, 0]);
    assert_eq!(accounts(&feed(&mut threads, &[edge(1, 15 * MS, 11 * MS, Some(4 * MS))])), [11, 4, 0]);
    // Time far ahead is not due to separate reading instants.
    assert_eq!(accounts(&feed(&mut threads, &[edge(1, 16 * MS, 11 * MS, Some(904 * MS))])), [11, 5, 0]);
    assert_eq!(accounts(&feed(&mut threads, &[edge(1, 66 * MS, 11 * MS, Some(904 * MS))])), [11, 25, 30]);
}

#[test]
fn a_second_copy_of_the_library_is_the_same_thread() {
    let mut threads = Threads::new(8);
    let mut other = edge(1, 20, 2, None);
    (other.head, other.born_ns) = (0x00ab_0101, 19);
    let records = feed(&mut threads, &[edge(1, 10, 1, None), other, edge(1, 30, 3, None)]);
    assert_eq!(kinds(&records), [Kind::Fork, Kind::Edge, Kind::Edge, Kind::Edge]);
}

#[test]
fn a_number_that_comes_again_is_another_thread() {
    let mut threads = Threads::new(8);
    let reborn = Edge { born_ns: 19, ..edge(1, 20, 2, None) };
    let records = feed(&mut threads, &[edge(1, 10, 1, None), reborn]);
    assert_eq!(kinds(&records), [Kind::Fork, Kind::Edge, Kind::Exit, Kind::Fork, Kind::Edge]);
    // Another copy of the library, by its clock.
    let younger = Edge { head: 0x00ab_0101, ..edge(1, 30, 1, None) };
    let records = feed(&mut threads, &[younger]);
    assert_eq!(kinds(&records), [Kind::Exit, Kind::Fork, Kind::Edge]);
}

#[test]
fn another_program_in_the_process_ends_its_other_threads() {
    let mut threads = Threads::new(8);
    let main = NOBODYS;
    feed(&mut threads, &[edge(main, 10, 1, None), edge(7, 11, 1, None)]);
    let replaced = Edge { image: 2, born_ns: 40, head: 0x00cd_0101, ..edge(main, 50, 9, None) };
    let records = feed(&mut threads, &[replaced]);
    assert_eq!(kinds(&records), [Kind::Exec, Kind::Exit, Kind::Edge]);
    // The same where all addresses stay as before.
    let again = Edge { image: 2, born_ns: 90, head: 0x00cd_0101, ..edge(main, 95, 12, None) };
    assert_eq!(kinds(&feed(&mut threads, &[again])), [Kind::Exec, Kind::Edge]);
}

#[test]
fn threads_without_room_are_counted_once() {
    let mut threads = Threads::new(2);
    let edges: Vec<Edge> = (1..6).chain(1..6).map(|tid| edge(tid, 10, 0, None)).collect();
    let records = feed(&mut threads, &edges);
    assert_eq!((kinds(&records).len(), threads.missed()), (6, 3));
    assert_eq!(threads.untracked, (6, 0), "all their marks count");
}

/// A server with a thread for each request: ended threads make room, and their accounts stand at their last
/// edge.
#[test]
fn threads_that_have_ended_make_room() {
    const MOST: usize = 8;
    let mut threads = Threads::new(MOST);
    let here = std::process::id();
    // SAFETY: takes nothing and cannot fail.
    let number = || unsafe { libc::gettid() }.cast_unsigned();
    let mine = Edge { tgid: here, ..edge(number(), 10, 1, None) };
    feed(&mut threads, &[mine]);
    let (mut ends, mut seen) = (0, 0);
    for time in 20..20 + 10 * MOST as u64 {
        let tid = std::thread::spawn(number).join().expect("it only asks for its number");
        while status::is_thread_there(here, tid) {
            std::thread::yield_now(); // Joined is a little before gone.
        }
        let mut records =
            feed(&mut threads, &[Edge { tgid: here, born_ns: time, ..edge(tid, time, 1, None) }]);
        seen += kinds(&records).iter().filter(|kind| **kind == Kind::Edge).count();
        if threads.is_crowded() {
            records.clear();
            let gone = threads.gone();
            threads.end(gone, &mut records);
            assert!(kinds(&records).iter().all(|kind| *kind == Kind::Exit), "{records:?}");
            let last = records.last().expect("all but this thread have ended");
            assert_eq!(last.time_ns().max(time), time);
            ends += records.len();
        }
    }
    assert_eq!((threads.missed(), seen), (0, 10 * MOST));
    assert!(ends > 8 * MOST && threads.known.contains_key(&Ids { tgid: here, tid: number() }), "{ends}");
    // A number that was reused stays.
    let late = vec![Gone(Ids { tgid: here, tid: number() }, 11)];
    threads.end(late, &mut Vec::new());
    assert!(threads.known.contains_key(&Ids { tgid: here, tid: number() }));
}

/// Ends in a process outside our /proc cannot be seen.
#[test]
fn threads_of_another_namespace_do_not_seem_to_end() {
    let mut threads = Threads::new(8);
    feed(&mut threads, &[edge(1, 10, 1, None)]);
    assert!(threads.gone().is_empty());
}

/// The program's times, read from /proc once it has ended.
#[test]
fn the_programs_main_thread_has_its_row_without_an_edge() {
    let mut child = std::process::Command::new("sleep").arg("0").spawn().expect("sleep is everywhere");
    let mut threads = Threads::new(8);
    let mut records = Vec::new();
    threads.started(child.id(), 1_000, &mut records);
    // SAFETY: all zeros are a value of it.
    let mut information = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut information, flags) }, 0);
    threads.ended(u64::MAX / 2);
    child.wait().expect("it is our child");
    assert!(threads.finish(u64::MAX / 2, &mut records).is_empty());
    assert_eq!(kinds(&records), [Kind::Fork, Kind::Exit]);
    let Some(Record::Task(Kind::Exit, exit)) = records.last() else { panic!("{records:?}") };
    assert_eq!((exit.header.flags, exit.header.time_ns, &exit.comm[..6]), (0, u64::MAX / 2, &b"sleep\0"[..]));
    assert!(exit.ledger.accounts[0] > 0, "{:?}", exit.ledger);
}

fn words() -> impl Strategy<Value = Words> {
    let small = prop_oneof![0..4_u64, 0..2_000_u64, any::<u64>()];
    (vec(small, size_of::<Words>() / 8), any::<bool>(), 1..3_u64, 1..3_u64).prop_map(
        |(words, is_sane, tgid, tid)| {
            let mut words: Words = words.try_into().expect("as many as asked for");
            if is_sane {
                words[0] = words[0] & !0xff00 | 0x100;
                words[9] = (u64::from(NOBODYS) + tgid) | (u64::from(NOBODYS) + tid) << 32;
            }
            words
        },
    )
}

proptest! {
    /// Whatever a program writes: accounts only grow and add up to the time since the thread was first seen.
    #[test]
    fn sums_hold_whatever_is_told(all in vec(words(), 0..60)) {
        let mut threads = Threads::new(4);
        let mut ledgers: HashMap<(u32, u32, u64), Ledger> = HashMap::new();
        for words in all {
            let edge = match Edge::decode(&words, 100..=1_000_000) {
                Ok(edge) => edge,
                Err(DecodeError::Abi(_) | DecodeError::Numbers(..) | DecodeError::Time(_)) => continue,
            };
            let mut records = Vec::new();
            threads.edge(&edge, &mut records);
            for record in records {
                let ledger = match record {
                    Record::Edge(edge) => edge.ledger,
                    Record::Task(_, task) => task.ledger,
                    Record::Wait(_) | Record::Io(_) | Record::Queue(_) => panic!("nobody told of a wait"),
                };
                prop_assert_eq!(record.time_ns(), ledger.since_ns);
                prop_assert!(ledger.is_whole() && ledger.since_ns <= 1_000_000);
                let key = (ledger.tgid, ledger.tid, ledger.born_ns);
                if let Some(before) = ledgers.insert(key, ledger) {
                    let grows = before.accounts.iter().zip(ledger.accounts).all(|(before, now)| *before <= now);
                    prop_assert!(grows && before.since_ns <= ledger.since_ns);
                }
            }
        }
        prop_assert!(threads.known.len() <= 4);
    }
}
