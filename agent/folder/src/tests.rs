//! What must hold for every folder, whatever is put into it and whatever happens to its files.

use std::{collections::VecDeque, fs, io, path::Path};

use guestscope_contract::metrics::Quantity;
use proptest::{collection::vec, prelude::*};

use super::{
    batches::Batches,
    drawn::{marks, requests, samples, threads, waits},
    stream::{Storage, Stream},
    texts::Words,
    *,
};
use crate::{
    analyze::Needs,
    phase::{Mark, Phase, Request, ThreadId, TraceIds},
};

pub(super) fn manifest() -> Manifest {
    let start = ClockPair { monotonic_ns: 1_000, wall_ns: 1_795_249_821_000_000_000 };
    let mut manifest = Manifest::new([0xab; 16], "ic", start);
    "MVM/2/VNL/CPU".clone_into(&mut manifest.scenario);
    manifest
}

pub(super) fn folder(parent: &Path) -> RunFolder {
    RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest()).unwrap()
}

pub(super) fn close(folder: RunFolder) -> Closed {
    folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap()
}

pub(super) fn read(path: &Path) -> Vec<Request> {
    Folder::open(path).unwrap().requests().unwrap().map(Result::unwrap).collect()
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
        requests in requests(),
        threads in threads(),
        samples in samples(),
        marks in marks(),
        waits in waits(),
        every in 1_usize..5,
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
        for wait in &waits {
            folder.append_wait(wait);
        }
        folder.flush();
        let path = folder.path().to_owned();
        let check = |path: &Path| -> std::result::Result<(), TestCaseError> {
            prop_assert_eq!(&read(path), &requests);
            let folder = Folder::open(path).unwrap();
            prop_assert_eq!(folder.threads().unwrap().collect::<Result<Vec<_>>>().unwrap(), threads.clone());
            prop_assert_eq!(folder.samples().unwrap().collect::<Result<Vec<_>>>().unwrap(), samples.clone());
            prop_assert_eq!(folder.marks().unwrap().collect::<Result<Vec<_>>>().unwrap(), marks.clone());
            prop_assert_eq!(folder.waits().unwrap().collect::<Result<Vec<_>>>().unwrap(), waits.clone());
            Ok(())
        };
        check(&path)?;
        let mut explain = |phase: &Phase| (label(phase).map(Into::into), Some("p99.9".into()));
        let closed = folder.close(|_| {}, &mut explain, &mut |_, _| {}).unwrap();
        prop_assert!(closed.errors.is_empty(), "{:?}", closed.errors);
        check(&path)?;
        for needs in [Needs::Times, Needs::Numbers, Needs::Traces] {
            let bare = Folder::open(&path).unwrap().requests_with(needs).unwrap().map(Result::unwrap).collect::<Vec<_>>();
            let mut expected = requests.clone();
            for phase in expected.iter_mut().flat_map(|request| &mut request.phases) {
                let TraceIds { trace_id, parent_is_remote, .. } = phase.trace;
                let trace_id = if needs == Needs::Traces { trace_id } else { [0; 16] };
                phase.trace = TraceIds { trace_id, parent_is_remote, ..TraceIds::default() };
                Quantity::all().filter(|one| !needs.has(*one)).for_each(|one| phase.set(one, 0));
            }
            prop_assert_eq!(bare, expected);
        }
        let rows: Vec<_> = Folder::open(&path).unwrap().phases().unwrap().map(Result::unwrap).collect();
        let phases: Vec<_> = requests.iter().flat_map(|request| &request.phases).collect();
        prop_assert_eq!(closed.manifest.rows.phases, phases.len() as u64);
        prop_assert_eq!(closed.manifest.rows.marks, marks.len() as u64);
        prop_assert_eq!(closed.manifest.rows.waits, waits.len() as u64);
        prop_assert_eq!(rows.len(), phases.len());
        let warmups = requests.iter().flat_map(|request| vec![request.is_warmup(); request.phases.len()]);
        prop_assert!(rows.iter().map(|row| row.warmup).eq(warmups));
        for (row, phase) in rows.iter().zip(phases) {
            prop_assert_eq!(row.cause.as_ref().map(|word| word.stored().to_owned()), label(phase));
            prop_assert_eq!(row.tail.clone(), Some("p99.9".into()));
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
        let mut batches = Batches::new(io::Cursor::new(stream.storage.bytes.as_slice()));
        let (mut rows, mut decoded) = (Vec::new(), VecDeque::new());
        while let Some(batch) = batches.next().unwrap().unwrap() {
            PHASES.decode(&batch, &[], &mut Words::default(), &mut decoded).unwrap();
            rows.extend(decoded.drain(..));
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
            let read: Vec<_> = read.take(requests.len() * 8 + 2).collect();
            let wrong = read.iter().filter(|request| request.is_err()).count();
            prop_assert!(read.len() - wrong <= requests.len() * 8);
            prop_assert!(wrong <= 1, "an error ends the rows: {wrong} of them");
        }
    }
}

/// Numbers of a closed file's footer are signed, with the sign in the lowest bit: each is made invalid once.
/// The library panics on a column that begins before its file.
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
    /// Some thousandths are written, then an error; the file can be cut after some more attempts.
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

/// A file in memory with a script of failures; after it, all calls succeed.
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

    fn has_room(&self, _: u64) -> io::Result<()> {
        Ok(())
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

/// The scenario is known for sure at the end; a number that tells folders of one second apart stays.
#[test]
fn a_folder_gets_the_name_of_its_scenario() {
    let parent = tempfile::tempdir().unwrap();
    let name = |folder: &RunFolder| folder.current_path().file_name().unwrap().to_str().unwrap().to_owned();
    let mut all = [folder(parent.path()), folder(parent.path())];
    let before = all.each_ref().map(name);
    assert!(before[0].ends_with("-MVM-2-VNL-CPU-ic") && before[1].starts_with(&before[0]), "{before:?}");
    all[1].rename("MVM/2/VNL/CPU");
    assert_eq!(name(&all[1]), before[1]);
    for folder in &mut all {
        folder.rename("MVM/2/PIN/GPU");
    }
    assert_eq!(all.each_ref().map(name), before.map(|name| name.replace("VNL-CPU", "PIN-GPU")));
    assert_eq!(all.each_ref().map(|folder| folder.path().exists()), [true; 2]);
    // Where somebody moved it, it stays.
    let mut moved = folder(parent.path());
    fs::rename(moved.current_path(), parent.path().join("mine")).unwrap();
    moved.rename("MVM/2/PIN/GPU");
    assert_eq!(name(&moved), "mine");
}
