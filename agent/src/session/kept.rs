//! Bounds on what a run keeps: a random part of its requests, and a budget of bytes.
//!
//! A run with a budget writes its rows into segments below its folder, `segments`. The oldest are removed; at
//! the end the others become the folder's own tables. A run that is killed leaves them where they are.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    clock::ClockPair,
    folder::{self, CreateOptions, Folder, KeptRecord, Manifest, Recorder, RecorderOptions, RunFolder},
    sinks::terminal::units::{counted, duration, thousands},
};

/// Directory of the segments, in the run folder.
const SEGMENTS: &str = "segments";

/// Chooses requests by the number of their outermost phase, which waits and work of GPUs have as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    part: f64,
    /// Requests that were kept, and those that were not.
    kept: u64,
    left_out: u64,
    /// Time that rows of those that were kept took, without the flushes.
    spent: Duration,
}

impl Sampler {
    /// `part` of all requests, at most 1; none of them for 0.
    pub(crate) const fn new(part: f64) -> Self {
        Self { part, kept: 0, left_out: 0, spent: Duration::ZERO }
    }

    /// Whether rows with this number are kept.
    pub(crate) fn keeps(&self, root: u64) -> bool {
        // A number from 0 to 1, both exact and alike for all rows of a request.
        self.part >= 1.0 || (scattered(root) >> 11) as f64 / ((1_u64 << 53) as f64) < self.part
    }

    /// Counts a request by whether it was kept.
    pub(crate) fn count(&mut self, is_kept: bool) {
        self.kept += u64::from(is_kept);
        self.left_out += u64::from(!is_kept);
    }

    /// So many requests were not even looked at.
    pub(crate) fn count_unseen(&mut self, requests: u64) {
        self.left_out += requests;
    }

    /// Requests so far: kept, and left out.
    pub(crate) const fn counts(&self) -> (u64, u64) {
        (self.kept, self.left_out)
    }

    /// Rows took so long.
    pub(super) fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Time that rows took so far.
    pub(crate) const fn spent(&self) -> Duration {
        self.spent
    }

    /// The part that is kept.
    pub(crate) const fn part(&self) -> f64 {
        self.part
    }

    /// From now on another part is kept.
    pub(crate) const fn set(&mut self, part: f64) {
        self.part = part;
    }

    /// What it left out; none if it keeps all.
    pub(crate) fn record(&self) -> Option<KeptRecord> {
        let record = KeptRecord { sample: self.part, sampled_out: self.left_out, ..KeptRecord::default() };
        (self.part < 1.0).then_some(record)
    }
}

/// Numbers that follow each other become numbers that have nothing to do with each other (the finalizer of
/// SplitMix64, Steele, Lea and Flood 2014).
const fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A run folder with a budget: rows are in segments until the run ends.
pub(crate) struct Bounded {
    whole: RunFolder,
    recorder: Recorder,
}

/// A folder with its rows in place.
pub(crate) struct Whole {
    pub(crate) folder: RunFolder,
    /// What was removed; none if nothing was.
    pub(crate) kept: Option<KeptRecord>,
    /// Rows that segments lost.
    pub(crate) rows_lost: u64,
    /// What could not be read, for people.
    pub(crate) error: Option<String>,
}

impl Whole {
    /// The folder at the end of a run, and what it was bounded to.
    pub(crate) fn of(folder: RunFolder, bounded: Option<Bounded>, sampler: &Sampler) -> Self {
        let mut whole = match bounded {
            Some(bounded) => bounded.whole(folder),
            None => Self { folder, kept: None, rows_lost: 0, error: None },
        };
        if let Some(sampled) = sampler.record() {
            let KeptRecord { phases_removed, from_ns, .. } = whole.kept.unwrap_or_default();
            whole.kept = Some(KeptRecord { phases_removed, from_ns, ..sampled });
        }
        whole
    }
}

impl Bounded {
    /// Begins the first segment. Gives it with the rest.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn begin(
        whole: RunFolder,
        most_bytes: u64,
        now: ClockPair,
    ) -> folder::Result<(RunFolder, Self)> {
        let parent = segments(whole.path());
        let options = CreateOptions { parent: parent.clone(), owner: whole.owner().cloned() };
        let current = RunFolder::create(&options, whole.manifest().clone())?;
        // Segments end by their bytes alone.
        let options = RecorderOptions { parent, length: Duration::MAX, keep: Duration::MAX, most_bytes };
        let recorder = Recorder::new(options, &current, now);
        Ok((current, Self { whole, recorder }))
    }

    /// Ends the current segment where it is large enough, and removes the oldest. Call it every second.
    pub(crate) fn tick(&mut self, current: &mut RunFolder) {
        self.recorder.tick(current, ClockPair::now());
    }

    /// Takes the rows of all segments into the folder, and removes these. `current` has ended.
    pub(crate) fn whole(self, current: RunFolder) -> Whole {
        let Self { mut whole, recorder } = self;
        let lost = recorder.rows_lost(&current);
        let removed = recorder.rows_removed().phases;
        let mut error = recorder.last_error().map(str::to_owned);
        let past = recorder.segments(0, u64::MAX);
        // Somebody may have moved the folder meanwhile.
        let segments = segments(&whole.current_path());
        let all = past.iter().map(|segment| segment.path()).chain([current.path()]);
        let paths: Vec<PathBuf> = all.filter_map(Path::file_name).map(|name| segments.join(name)).collect();
        let mut manifest = current.manifest().clone();
        drop(current);
        let mut clocks = whole.manifest().clocks.clone();
        let mut restored = Vec::new();
        for path in &paths {
            match take(&mut whole, path) {
                Ok(of_segment) => {
                    clocks.extend(of_segment.clocks);
                    restored.extend(of_segment.restored);
                }
                Err(wrong) => error = Some(wrong.to_string()),
            }
        }
        clocks.dedup();
        let from_ns = clocks.get(1).map_or(0, |clock| clock.monotonic_ns);
        let kept = KeptRecord { phases_removed: removed, from_ns, ..KeptRecord::default() };
        manifest.start.clone_from(&whole.manifest().start);
        (manifest.clocks, manifest.restored) = (clocks, restored);
        (manifest.rows, manifest.rows_lost) = Default::default();
        whole.update_manifest(|before| *before = manifest);
        // What cannot be removed stays, and is no part of the run any more.
        drop((past, recorder));
        if let Err(wrong) = fs::remove_dir_all(&segments) {
            error = error.or_else(|| Some(format!("segments cannot be removed: {wrong}")));
        }
        let rows_lost = lost.phases + lost.threads + lost.marks + lost.waits + lost.gpu_work;
        Whole { folder: whole, kept: (removed > 0).then_some(kept), rows_lost, error }
    }
}

/// Takes the rows of a segment. Gives its manifest.
fn take(whole: &mut RunFolder, path: &Path) -> folder::Result<Manifest> {
    let segment = Folder::open(path)?;
    whole.append_rows_of(&segment, 0, u64::MAX)?;
    Ok(segment.manifest().clone())
}

/// Where the segments of a run folder are, while there are any.
pub(crate) fn segments(folder: &Path) -> PathBuf {
    folder.join(SEGMENTS)
}

/// Which part of the run the rows are of, for people. `end_ns`: when the run ended, CLOCK_MONOTONIC, ns.
pub(crate) fn told(kept: &KeptRecord, end_ns: u64) -> String {
    let mut parts = Vec::new();
    if kept.sampled_out > 0 {
        let others = counted(kept.sampled_out, "other is", "others are");
        // Three digits: the part of an incident is that of what happened to be kept around it.
        let percent = kept.sample.max(1e-8) * 100.0;
        let scale = 10_f64.powi(2 - percent.log10().floor() as i32);
        let percent = (percent * scale).round() / scale;
        parts.push(format!("{percent} % of the requests, chosen at random; {others} left out"));
    }
    if kept.phases_removed > 0 {
        let last = duration(end_ns.saturating_sub(kept.from_ns));
        let before = thousands(kept.phases_removed);
        parts
            .push(format!("the last {last}; {before} phases before them were removed to keep to the budget"));
    }
    parts.join("; of these ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_part_that_was_asked_for_is_chosen() {
        for part in [0.5, 0.1, 0.01] {
            let mut sampler = Sampler::new(part);
            (0..100_000_u64).for_each(|root| sampler.count(sampler.keeps(root)));
            let (kept, left_out) = sampler.counts();
            assert_eq!(kept + left_out, 100_000);
            let kept = kept as f64;
            let expected = 100_000.0 * part;
            assert!((kept - expected).abs() < 5.0 * expected.sqrt(), "{part}: {kept}");
            let record = sampler.record().expect("not all are kept");
            assert_eq!(record.sampled_out, 100_000 - kept as u64);
        }
        let all = Sampler::new(1.0);
        assert!((0..1000).all(|root| all.keeps(root)) && all.record().is_none());
    }

    #[test]
    fn what_was_left_out_is_said() {
        let kept = KeptRecord { sample: 0.01, sampled_out: 9_900, phases_removed: 0, from_ns: 0 };
        assert_eq!(told(&kept, 0), "1 % of the requests, chosen at random; 9,900 others are left out");
        let of_incident = KeptRecord { sample: 0.060_909_16, ..kept };
        assert_eq!(
            told(&of_incident, 0),
            "6.09 % of the requests, chosen at random; 9,900 others are left out"
        );
        let kept = KeptRecord { phases_removed: 120_000, from_ns: 5_000_000_000, ..kept };
        let both = "1 % of the requests, chosen at random; 9,900 others are left out; of these the last 3.00 s; \
                    120,000 phases before them were removed to keep to the budget";
        assert_eq!(told(&kept, 8_000_000_000), both);
    }
}
