//! Reads run folders, several at a time, and boils each down.

use std::{
    os::unix::fs::MetadataExt as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use super::{slim::slim, sources::Source};
use crate::untrusted::Shown as _;
use crate::{
    analyze::{
        Needs,
        compare::{RunDigest, Warmup},
    },
    folder::{self, ClockPair, Folder, Manifest, limits::REQUESTS_COMPARED},
    session::kept,
};

/// Each holds up to 60 MB of a large run while it reads.
const MOST_THREADS: usize = 4;

/// Clocks that went apart by more than this were set.
const STEPPED_NS: i64 = 100_000_000;

/// A run, read.
#[derive(Clone, Debug)]
pub(super) struct ReadRun {
    /// Where it was found.
    pub(super) source: Source,
    /// The parts of its manifest that are looked at: see [`slim`].
    pub(super) manifest: Arc<Manifest>,
    /// Largest step of its wall clock against the monotonic one, ns, if it matters.
    pub(super) stepped_ns: Option<i64>,
    /// Digest of its requests.
    pub(super) digest: RunDigest,
    /// Whether its end is incomplete: its writer was killed.
    pub(super) is_torn: bool,
    /// Notes of its reader.
    pub(super) notes: Vec<String>,
}

impl ReadRun {
    /// Whether it is the same run as the other: the same folder, or a copy of it beside it. Any other folder
    /// with the same run ID may be of another platform, or no run at all, and a folder from elsewhere must
    /// not replace another run.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let folder = |run: &Self| std::fs::metadata(&run.source.path).ok().map(|is| (is.dev(), is.ino()));
        let is_one = folder(self).is_some_and(|this| Some(this) == folder(other));
        let is_copy = self.source.argument == other.source.argument
            && self.manifest == other.manifest
            && self.digest == other.digest;
        self.source.label == other.source.label && (is_one || is_copy)
    }
}

#[cfg(test)]
impl ReadRun {
    /// A run without requests, from its manifest and the place where it was found.
    pub(super) fn of(manifest: Manifest, argument: &str, path: &str) -> Self {
        let source = Source { path: path.into(), label: None, argument: argument.into() };
        let (stepped_ns, manifest) = (stepped(&manifest), Arc::new(manifest));
        Self { source, manifest, stepped_ns, digest: RunDigest::default(), is_torn: false, notes: Vec::new() }
    }
}

/// Reads all of them, in their order; `done` hears how many are done.
pub(super) fn read_all(
    sources: &[Source],
    warmup: Warmup,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Result<ReadRun, folder::Error>> {
    let all = AtomicU64::new(0);
    each_in_parallel(sources, |source| read(source, warmup, &all), done)
}

/// Works on several at a time and gives the results in their order; `done` hears how many are done.
pub(crate) fn each_in_parallel<I: Sync, T: Send>(
    items: &[I],
    work_on: impl Fn(&I) -> T + Sync,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<T> {
    let results: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(items.len()).min(MOST_THREADS);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((item, result)) = items.get(index).zip(results.get(index)) else { return };
            let worked = work_on(item);
            if let Ok(mut result) = result.lock() {
                *result = Some(worked);
            }
            done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let taken = results.into_iter().filter_map(|result| result.into_inner().ok().flatten());
    taken.collect()
}

fn read(source: &Source, warmup: Warmup, all: &AtomicU64) -> Result<ReadRun, folder::Error> {
    let path = source.path.shown();
    let folder = Folder::open(&source.path)?;
    let mut requests = folder.requests_with(Needs::Numbers)?;
    let most = REQUESTS_COMPARED.most;
    let counted = requests.by_ref().map(|request| {
        if all.fetch_add(1, Ordering::Relaxed) < most {
            return request;
        }
        let what = format!("{}: more than {most}", REQUESTS_COMPARED.what);
        Err(folder::Error::Beyond { path: source.path.clone(), what })
    });
    let mut digest = RunDigest::read(counted, folder.manifest().rows.phases, warmup)?;
    digest.weigh(folder.manifest().kept.unwrap_or_default().weight());
    let is_torn = requests.torn_end().is_some();
    let mut notes: Vec<String> =
        folder.left_out().iter().map(|left_out| format!("{path}: {left_out}")).collect();
    if digest.has_lost_tail {
        notes.push(format!(
            "{path}: its slowest requests have too many parts to be kept: nothing is said of its tail"
        ));
    }
    let end_ns = folder.manifest().clocks.last().map_or(0, |clock| clock.monotonic_ns);
    notes.extend(folder.manifest().kept.map(|kept| format!("{path}: {}", kept::told(&kept, end_ns))));
    let gpu = digest.add_gpu_work(|| folder.gpu_work(), || folder.requests_with(Needs::Numbers));
    notes.extend(gpu.err().map(|error| format!("{path}: work of GPUs is missing: {error}")));
    let (stepped_ns, manifest) = (stepped(folder.manifest()), Arc::new(slim(folder.manifest())));
    Ok(ReadRun { source: source.clone(), manifest, stepped_ns, digest, is_torn, notes })
}

/// The largest step of the wall clock against the monotonic one between two readings, ns, if it matters.
fn stepped(manifest: &Manifest) -> Option<i64> {
    let apart = |clock: &ClockPair| clock.wall_ns.wrapping_sub(clock.monotonic_ns).cast_signed();
    let steps = manifest.clocks.windows(2).map(|pair| apart(&pair[1]).wrapping_sub(apart(&pair[0])));
    steps
        .max_by_key(|step| step.unsigned_abs())
        .filter(|step| step.unsigned_abs() > STEPPED_NS.unsigned_abs())
}
