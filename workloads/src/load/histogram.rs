//! HDR histograms of latencies: as files for HdrHistogram's own tools, and as text in the workload's
//! description, from which guestscope writes them into the run's folder. No correction for coordinated
//! omission: latencies count from the schedule, so none are missing.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2Serializer},
};

use super::error::LoadError;
use crate::data::partial::Partial;

/// Bounds as in the agent's own histograms, so that both can be added up: 1 ns to a day, 3 significant
/// digits. The lowest is also the unit below 2,048 units: 1 us, of which HdrHistogram makes 512 ns, left two
/// digits of a latency of 50 us.
const LOWEST_NS: u64 = 1;
const HIGHEST_NS: u64 = 86_400_000_000_000;
const DIGITS: u8 = 3;
/// Lines of the text form each time that the rest of the requests halves; HdrHistogram's tools take 5.
const TICKS_PER_HALF: u32 = 5;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// The histogram of `values_ns`; those above a day count as a day.
    pub fn of(values_ns: &[u64]) -> Self {
        let mut histogram = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
            .expect("1 ns to a day in three digits are bounds that the crate documents as valid");
        for ns in values_ns {
            histogram.saturating_record(*ns);
        }
        Self(histogram)
    }

    /// V2 encoding in base64: guestscope makes a file of it.
    pub fn base64(&self) -> String {
        // Writing to memory cannot fail, and a histogram of these bounds is far below the format's limits.
        self.v2().map(|bytes| STANDARD.encode(bytes)).unwrap_or_default()
    }

    /// Checks before a run that `path` can be written, so that an hour's run does not fail at its end. An
    /// existing file stays; a new one is removed again if nothing is written.
    pub fn check(path: &Path) -> Result<Claim, LoadError> {
        let mut options = fs::OpenOptions::new();
        let is_new = options.append(true).create_new(true).open(path).is_ok();
        let opened = options.create_new(false).open(path);
        let claim = Claim { path: PathBuf::from(path), is_new };
        opened.map(|_| claim).map_err(|source| LoadError::Histogram { path: PathBuf::from(path), source })
    }

    /// Writes it to `path`: if the name ends in `.hgrm`, as HdrHistogram's percentile text, else in V2.
    pub fn write(&self, path: &Path) -> Result<(), LoadError> {
        let is_text = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("hgrm"));
        let bytes = if is_text { Ok(self.text().into_bytes()) } else { self.v2() };
        bytes
            .and_then(|bytes| replace(path, &bytes))
            .map_err(|source| LoadError::Histogram { path: PathBuf::from(path), source })
    }

    fn v2(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(io::Error::other)?;
        Ok(bytes)
    }

    /// Percentiles in milliseconds, in the columns of HdrHistogram's `outputPercentileDistribution`.
    fn text(&self) -> String {
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut total = 0;
        for step in self.0.iter_quantiles(TICKS_PER_HALF) {
            total += step.count_since_last_iteration();
            let (value, quantile) = (ms(step.value_iterated_to()), step.quantile_iterated_to());
            // Writing to a String cannot fail.
            let _ = write!(text, "{value:12.3} {quantile:2.12} {total:10}");
            let _ = if quantile < 1.0 {
                writeln!(text, " {:14.2}", 1.0 / (1.0 - quantile))
            } else {
                writeln!(text)
            };
        }
        let histogram = &self.0;
        let (mean, deviation) = (histogram.mean() / 1e6, histogram.stdev() / 1e6);
        let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
        let _ = writeln!(
            text,
            "#[Max     = {:12.3}, Total count    = {:12}]",
            ms(histogram.max()),
            histogram.len()
        );
        let sub_buckets = 2 * 10_u32.pow(u32::from(DIGITS)).next_power_of_two();
        let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]", histogram.buckets());
        text
    }
}

/// Writes a file whole or not at all, so that an older one is not lost to a full disk. Writes in place if it
/// is no regular file, like a pipe, or its folder takes no other file.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let is_file = fs::symlink_metadata(path).map_or(true, |there| there.is_file());
    match is_file.then(|| Partial::beside(path)) {
        Some(Ok(mut partial)) => {
            partial.write_all(bytes)?;
            partial.keep(path)
        }
        Some(Err(_)) | None => fs::write(path, bytes),
    }
}

/// A file reserved for a histogram.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Whether this claim created the file.
    is_new: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_new && fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            // Best effort: one that cannot be removed is an empty file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use hdrhistogram::{Histogram, serialization::Deserializer};
    use proptest::prelude::*;

    use super::{HIGHEST_NS, LOWEST_NS, Latencies};
    use crate::load::MOST_REQUESTS;

    fn read(bytes: &[u8]) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut &*bytes).expect("it is a histogram")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Every request counts once, to a thousandth of its latency, in both encodings.
        #[test]
        fn nothing_is_lost_or_added(values in proptest::collection::vec(prop_oneof![1..1_000_000_u64, 1..100_000_000_000_u64], 1..60)) {
            let latencies = Latencies::of(&values);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("latency.v2");
            latencies.write(&path).unwrap();
            let file = read(&std::fs::read(&path).unwrap());
            prop_assert_eq!(&file, &read(&STANDARD.decode(latencies.base64()).unwrap()));
            prop_assert_eq!(file.len(), values.len() as u64);
            for (place, value) in file.iter_recorded().zip(sorted_distinct(&file, &values)) {
                prop_assert!(place.value_iterated_to().abs_diff(value) * 1000 <= value, "{value}");
            }
        }
    }

    fn sorted_distinct(file: &Histogram<u64>, values: &[u64]) -> Vec<u64> {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.dedup_by(|a, b| file.equivalent(*a, *b));
        values
    }

    /// Largest description that guestscope takes.
    const MOST_DESCRIPTION_BYTES: usize = 512 << 10;

    #[test]
    fn two_of_the_largest_have_room_in_a_description() {
        let mut latencies = Latencies::of(&[]);
        let mut ns = LOWEST_NS;
        let mut places = 0;
        while ns < HIGHEST_NS {
            // As many values as possible, each with the longest possible count.
            latencies.0.record_n(ns, MOST_REQUESTS / 39_000).unwrap();
            ns = latencies.0.next_non_equivalent(ns);
            places += 1;
        }
        assert!((38_000..39_000).contains(&places), "{places}");
        let bytes = 2 * latencies.base64().len();
        assert!(bytes < MOST_DESCRIPTION_BYTES / 2, "{bytes}");
    }

    #[test]
    fn the_text_is_what_the_plotter_reads() {
        let values: Vec<u64> = (1..=20).map(|ms| ms * 1_000_000).collect();
        insta::assert_snapshot!(Latencies::of(&values).text());
    }

    #[test]
    fn a_run_that_fails_leaves_no_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new.hgrm"), folder.path().join("old.hgrm"));
        std::fs::write(&old, "").unwrap();
        drop((Latencies::check(&new).unwrap(), Latencies::check(&old).unwrap()));
        assert!(!new.exists() && old.exists());
        let claim = Latencies::check(&new).unwrap();
        Latencies::of(&[1_000]).write(&new).unwrap();
        drop(claim);
        assert!(new.exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let path = std::path::Path::new("/nowhere/latency.hgrm");
        for result in [Latencies::check(path).map(drop), Latencies::of(&[1]).write(path)] {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("cannot write histogram: /nowhere/latency.hgrm ("), "{error}");
        }
    }
}
