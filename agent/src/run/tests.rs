//! What must hold for every folder, whatever is put into it and whatever happens to its files.

use std::{fs, io, path::Path};

use proptest::{collection::vec, option, prelude::*};

use super::{batches::Batches, stream::Storage, table::Words, *};
use crate::phase::{Accounts, COUNT_NAMES, Counts, Ending, Phase, PhaseKind, ThreadId, TraceIds};

fn manifest() -> Manifest {
    let start = ClockPair { monotonic_ns: 1_000, wall_ns: 1_795_249_821_000_000_000 };
    let mut manifest = Manifest::new([0xab; 16], "ic", start);
    "MVM/2/VNL/CPU".clone_into(&mut manifest.scenario);
    manifest
}

fn folder(parent: &Path) -> RunFolder {
    RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest()).unwrap()
}

fn close(folder: RunFolder) -> Closed {
    folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap()
}

fn read(path: &Path) -> Vec<Request> {
    Folder::open(path).unwrap().requests().unwrap().map(Result::unwrap).collect()
}

fn thread_id() -> impl Strategy<Value = ThreadId> {
    any::<(u32, u32, u64)>().prop_map(|(tid, tgid, born_ns)| ThreadId { tid, tgid, born_ns })
}

fn counts() -> impl Strategy<Value = Counts> {
    any::<[u64; COUNT_NAMES.len()]>().prop_map(Counts::from_array)
}

fn trace() -> impl Strategy<Value = TraceIds> {
    any::<([u8; 16], [u8; 8], Option<[u8; 8]>, bool)>().prop_map(
        |(trace_id, span_id, parent_span_id, parent_is_remote)| TraceIds {
            trace_id,
            span_id,
            parent_span_id,
            parent_is_remote,
        },
    )
}

fn phase() -> impl Strategy<Value = Phase> {
    let kind = prop_oneof![Just(PhaseKind::Phase), Just(PhaseKind::Queue), Just(PhaseKind::Process)];
    let ending = prop_oneof![
        Just(Ending::Ended),
        Just(Ending::ThreadExited),
        Just(Ending::Exec),
        Just(Ending::Lost),
        Just(Ending::ObservationStopped)
    ];
    let name = prop_oneof![
        Just(String::new()),
        Just("inference".to_owned()),
        Just("warmup".to_owned()),
        any::<String>()
    ];
    let numbers = any::<[u64; 5]>();
    (kind, ending, name, thread_id(), numbers, any::<bool>(), any::<[u64; 11]>(), counts(), trace()).prop_map(
        |(kind, ending, name, thread, numbers, name_damaged, accounts, counts, trace)| {
            let [request, start_ns, duration_ns, suspended_ns, edges_lost] = numbers;
            Phase {
                id: 0,
                parent: None,
                root: 0,
                kind,
                name: name.into(),
                name_damaged,
                request,
                thread,
                start_ns,
                duration_ns,
                suspended_ns,
                accounts: Accounts(accounts),
                counts,
                trace,
                ending,
                edges_lost,
            }
        },
    )
}

/// Requests with the numbers that the agent gives: ids from 1, the outermost phase first.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    vec(vec(phase(), 1..5), 0..12).prop_map(|mut requests| {
        let mut id = 0;
        for phases in &mut requests {
            let root = id + 1;
            for phase in phases.iter_mut() {
                id += 1;
                (phase.id, phase.root) = (id, root);
                phase.parent = (id != root).then_some(root);
            }
            phases[0].kind = PhaseKind::Request;
        }
        requests.into_iter().map(|phases| Request { phases }).collect()
    })
}

fn threads() -> impl Strategy<Value = Vec<Thread>> {
    let thread =
        (thread_id(), any::<String>(), any::<[u64; 2]>(), any::<[u64; 11]>(), counts(), any::<bool>());
    vec(
        thread.prop_map(|(id, comm, [end_ns, phases], accounts, counts, exited)| Thread {
            id,
            comm: comm.into(),
            end_ns,
            accounts: Accounts(accounts),
            counts,
            phases,
            exited,
        }),
        0..5,
    )
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (any::<[u64; 4]>(), any::<[Option<u64>; 4]>());
    vec(
        sample.prop_map(|([time_ns, agent_cpu_ns, agent_rss_bytes, edges_read], optional)| {
            let [psi_cpu_some_us, psi_memory_some_us, psi_io_some_us, steal_ms] = optional;
            Sample {
                time_ns,
                agent_cpu_ns,
                agent_rss_bytes,
                psi_cpu_some_us,
                psi_memory_some_us,
                psi_io_some_us,
                steal_ms,
                edges_read,
            }
        }),
        0..5,
    )
}

fn marks() -> impl Strategy<Value = Vec<Mark>> {
    let mark = (thread_id(), any::<String>(), any::<u64>(), option::of(any::<u64>()));
    let mark =
        mark.prop_map(|(thread, name, time_ns, phase)| Mark { thread, name: name.into(), time_ns, phase });
    vec(mark, 0..5)
}

/// A label for every third phase, so that there are some of each kind.
fn label(phase: &Phase) -> Option<String> {
    phase.id.is_multiple_of(3).then(|| format!("cause-{}", phase.id % 7))
}

proptest! {
    // A quarter of the usual number: each case makes and closes a folder, with a dozen waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn what_goes_in_comes_out_of_both_forms(
        requests in requests(), threads in threads(), samples in samples(), marks in marks(), every in 1_usize..5,
    ) {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = folder(parent.path());
        for (index, request) in requests.iter().enumerate() {
            folder.append_request(request);
            if index % every == 0 {
                folder.flush();
            }
        }
        for thread in &threads {
            folder.append_thread(thread);
        }
        for sample in &samples {
            folder.append_sample(sample);
        }
        for mark in &marks {
            folder.append_mark(mark);
        }
        folder.flush();
        let path = folder.path().to_owned();
        let check = |path: &Path| -> std::result::Result<(), TestCaseError> {
            prop_assert_eq!(&read(path), &requests);
            let folder = Folder::open(path).unwrap();
            prop_assert_eq!(folder.threads().unwrap().collect::<Result<Vec<_>>>().unwrap(), threads.clone());
            prop_assert_eq!(folder.samples().unwrap().collect::<Result<Vec<_>>>().unwrap(), samples.clone());
            prop_assert_eq!(folder.marks().unwrap().collect::<Result<Vec<_>>>().unwrap(), marks.clone());
            Ok(())
        };
        check(&path)?;
        let mut explain = |phase: &Phase| (label(phase).map(Into::into), Some("p99.9".into()));
        let closed = folder.close(|_| {}, &mut explain, &mut |_, _| {}).unwrap();
        prop_assert!(closed.errors.is_empty(), "{:?}", closed.errors);
        check(&path)?;
        let rows: Vec<_> = Folder::open(&path).unwrap().phases().unwrap().map(Result::unwrap).collect();
        let phases: Vec<_> = requests.iter().flat_map(|request| &request.phases).collect();
        prop_assert_eq!(closed.manifest.rows.phases, phases.len() as u64);
        prop_assert_eq!(closed.manifest.rows.marks, marks.len() as u64);
        prop_assert_eq!(rows.len(), phases.len());
        let warmups = requests.iter().flat_map(|request| vec![request.is_warmup(); request.phases.len()]);
        prop_assert!(rows.iter().map(|row| row.warmup).eq(warmups));
        for (row, phase) in rows.iter().zip(phases) {
            prop_assert_eq!(row.cause.as_deref().map(str::to_owned), label(phase));
            prop_assert_eq!(row.tail.as_deref(), Some("p99.9"));
        }
        prop_assert!(!path.join("phases.arrows").exists());
    }

    #[test]
    fn a_stream_cut_anywhere_gives_what_was_whole(requests in requests(), cut in 0.0..1.0_f64) {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = folder(parent.path());
        let file = folder.path().join("phases.arrows");
        let mut ends = vec![fs::metadata(&file).unwrap().len()];
        for request in &requests {
            folder.append_request(request);
            folder.flush();
            ends.push(fs::metadata(&file).unwrap().len());
        }
        let path = folder.path().to_owned();
        drop(folder);
        let cut = (*ends.last().unwrap() as f64 * cut) as u64;
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(cut).unwrap();

        let whole = ends.iter().filter(|end| **end <= cut).count();
        let mut read = Folder::open(&path).unwrap().requests().unwrap();
        let found: Vec<_> = read.by_ref().map(Result::unwrap).collect();
        prop_assert_eq!(&found[..], &requests[..whole.saturating_sub(1)]);
        let last_end = whole.checked_sub(1).map_or(0, |last| ends[last]);
        prop_assert_eq!(read.torn_end().map_or(0, |torn| torn.bytes), cut - last_end);
    }

    #[test]
    fn whatever_the_disk_does_the_file_holds_what_was_counted(
        requests in requests(), script in vec(outcome(), 0..16),
    ) {
        let mut stream = Stream::new(FaultyDisk::default(), &PHASES).unwrap();
        stream.storage.script = script.into_iter();
        let mut appended = 0;
        for request in &requests {
            let rows = request.phases.iter().cloned();
            appended += rows.len() as u64;
            let rows = rows.map(|phase| PhaseRow { phase, warmup: false, cause: None, tail: None });
            stream.append(rows).unwrap();
            // Whether it fails is the script's choice.
            stream.flush().unwrap_or_default();
        }
        stream.close().unwrap_or_default();
        prop_assert_eq!(stream.written() + stream.lost(), appended);
        let mut batches = Batches::new(stream.storage.bytes.as_slice());
        let mut rows = Vec::new();
        while let Some(batch) = batches.next().unwrap() {
            rows.extend(PHASES.decode(&batch, &mut Words::default()).unwrap());
        }
        prop_assert_eq!(rows.len() as u64, stream.written());
        let phases: Vec<_> = requests.iter().flat_map(|request| &request.phases).take(rows.len()).collect();
        prop_assert!(rows.iter().map(|row| &row.phase).eq(phases));
    }

    #[test]
    fn flipped_bytes_give_an_error_or_rows_and_never_a_panic(
        requests in requests(), flips in vec((0.0..1.0_f64, 1_u8..), 1..6), closed in any::<bool>(),
    ) {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = folder(parent.path());
        for request in &requests {
            folder.append_request(request);
        }
        folder.flush();
        let path = folder.path().to_owned();
        let file = if closed { close(folder); "phases.parquet" } else { drop(folder); "phases.arrows" };
        let file = path.join(file);
        let mut bytes = fs::read(&file).unwrap();
        for (position, flip) in flips {
            let position = (bytes.len() as f64 * position) as usize;
            bytes[position] ^= flip;
        }
        fs::write(&file, bytes).unwrap();
        if let Ok(read) = Folder::open(&path).unwrap().requests() {
            prop_assert!(read.count() <= requests.len() * 8);
        }
    }
}

/// Numbers of a closed file's footer are signed and have their sign in the lowest bit: each of them is once what it must
/// not be. The library panics on a column that begins before its file.
#[test]
fn a_footer_with_any_number_negated_gives_an_error_or_rows() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = folder(parent.path());
    let mark = |time_ns| Mark { thread: ThreadId::default(), name: "mark".into(), time_ns, phase: None };
    (0..3).for_each(|time_ns| folder.append_mark(&mark(time_ns)));
    let path = folder.path().to_owned();
    close(folder);
    let file = path.join("marks.parquet");
    let whole = fs::read(&file).unwrap();
    let tail = whole.len() - 8;
    let footer = u32::from_le_bytes(whole[tail..tail + 4].try_into().unwrap()) as usize;
    let mut errors = 0;
    for position in tail - footer..tail {
        let mut bytes = whole.clone();
        bytes[position] ^= 1;
        fs::write(&file, bytes).unwrap();
        match Folder::open(&path).unwrap().marks().and_then(Iterator::collect::<Result<Vec<_>>>) {
            Ok(marks) => assert!(marks.len() <= 3),
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().contains("panicked"), "byte {position}: {error}");
            }
        }
    }
    assert!(errors > footer / 10, "{errors} of {footer}");
}

/// What a disk does to one write. One that fails has never taken all bytes.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Written,
    /// So many thousandths are written, then an error; the file can be cut after so many more attempts.
    Torn {
        thousandths: usize,
        cuts_refused: u32,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let torn = (0_usize..1000, 0_u32..3);
    let torn = torn.prop_map(|(thousandths, cuts_refused)| Outcome::Torn { thousandths, cuts_refused });
    prop_oneof![Just(Outcome::Written), torn]
}

/// A file in memory; after its script it does what it is told.
#[derive(Default)]
struct FaultyDisk {
    bytes: Vec<u8>,
    script: std::vec::IntoIter<Outcome>,
    cuts_refused: u32,
}

impl Storage for FaultyDisk {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let outcome = self.script.next().unwrap_or(Outcome::Written);
        let (taken, result) = match outcome {
            Outcome::Written => (bytes.len(), Ok(())),
            Outcome::Torn { thousandths, cuts_refused } => {
                self.cuts_refused = cuts_refused;
                (bytes.len() * thousandths / 1000, Err(io::ErrorKind::StorageFull.into()))
            }
        };
        let offset = offset as usize;
        self.bytes.resize(self.bytes.len().max(offset + taken), 0);
        self.bytes[offset..offset + taken].copy_from_slice(&bytes[..taken]);
        result
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.cuts_refused > 0 {
            self.cuts_refused -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.truncate(length as usize);
        Ok(())
    }

    fn is_gone(&self) -> bool {
        false
    }
}
