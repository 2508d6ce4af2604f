//! HDR histograms of phase durations, one per kind and name, for tools that want quantiles without the rows.
//!
//! They are computed from the rows when the folder is closed: so they cost nothing during the run and cannot
//! differ from the table. Warm-up requests are left out, as in all statistics. Yields files in the V2
//! encoding (no deflate) and their index. The caller supplies the rows. A workload's own histograms are kept
//! too.

use std::{collections::HashMap, io, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2Serializer},
};

use super::{
    histogram_index::{HistogramEntry, Histograms},
    limits::HISTOGRAM_BYTES,
    manifest::Manifest,
    name::{fingerprint, sanitise},
};
use crate::{
    guarded::Directory,
    phase::{Phase, PhaseKind},
    untrusted::Untrusted,
};

/// Directory of the files.
pub(super) const DIRECTORY: &str = "histograms";

/// Maximum number of names with a separate histogram, in the order of their first phases.
const MOST_NAMES: usize = 1_000;

/// Shortest duration, ns, and the unit of those below 2,048 of it: 1 us, of which HdrHistogram makes 512 ns,
/// left two digits of 50 us.
const LOWEST_NS: u64 = 1;

/// Longest duration, ns: one day. Longer ones count as one day.
const HIGHEST_NS: u64 = 86_400_000_000_000;

/// Significant decimal digits: values are exact to 0.1 %.
const DIGITS: u8 = 3;

/// Kind of the histograms that a workload measured itself, and the name under which its description has them.
pub(super) const TOLD: &str = "workload";
const DESCRIBED: &str = "histograms";

/// Most of those that are kept.
const MOST_TOLD: usize = 8;

/// Length of the header before the counts in the V2 encoding, and its first bytes; compressed ones differ.
const HEADER_BYTES: usize = 40;
const COOKIE: u32 = 0x1c84_9313;

/// Where they are written: a directory that is created for the first one.
pub(super) struct Place<'a> {
    folder: &'a Directory,
    made: Option<Directory>,
}

impl<'a> Place<'a> {
    /// The place in this run folder.
    pub(super) fn new(folder: &'a Directory) -> Self {
        Self { folder, made: None }
    }

    fn write(&mut self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let directory = match self.made.take() {
            Some(made) => made,
            None => self.folder.make(DIRECTORY)?,
        };
        self.made.insert(directory).create(file)?.write_all(bytes)
    }
}

/// Histograms in the making. Each takes 61 kB for durations of up to 10 ms and 156 kB for up to a day: at
/// most 156 MB for 1,000 names, and 1 MB in a usual run.
#[derive(Default)]
pub(super) struct Collector {
    names: HashMap<(PhaseKind, Untrusted), Histogram<u32>>,
    others: u64,
}

impl Collector {
    pub(super) fn record(&mut self, phase: &Phase) {
        let key = (phase.kind, phase.name.clone());
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(&key) {
            self.others += 1;
            return;
        }
        let histogram = self.names.entry(key).or_insert_with(|| {
            // It starts with room for 2 us and grows: most phases never need the buckets of a day, and a
            // program may use a new name for each phase.
            let mut histogram = Histogram::new_with_bounds(LOWEST_NS, 2_047, DIGITS)
                .expect("1 ns to 2 us in three digits are bounds that the crate documents as valid");
            histogram.auto(true);
            histogram
        });
        // Growing cannot fail below one day; if it ever did, the phase would be counted and not lost.
        if histogram.record(phase.duration_ns.min(HIGHEST_NS)).is_err() {
            self.others += 1;
        }
    }

    /// Writes a file for each, and gives their index, by kind and name.
    pub(super) fn write(self, place: &mut Place<'_>) -> io::Result<Histograms> {
        let mut histograms = Histograms {
            lowest_ns: LOWEST_NS,
            highest_ns: HIGHEST_NS,
            digits: DIGITS,
            others: self.others,
            entries: Vec::with_capacity(self.names.len()),
        };
        let mut bytes = Vec::new();
        let mut serializer = V2Serializer::new();
        for ((kind, name), histogram) in self.names {
            bytes.clear();
            serializer.serialize(&histogram, &mut bytes).map_err(io::Error::other)?;
            let file = format!(
                "{}-{}-{:016x}.v2",
                kind.name(),
                sanitise(name.stored(), "name"),
                fingerprint(name.stored())
            );
            place.write(&file, &bytes)?;
            let (kind, name) = (kind.name().to_owned(), name.stored().to_owned());
            histograms.entries.push(HistogramEntry { kind, name, file, count: histogram.len() });
        }
        histograms.entries.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        Ok(histograms)
    }
}

/// Moves histograms out of the workload's description (V2 and base64, by name) into files. Text that is no
/// histogram of our bounds stays. For values that no phase holds: a load generator's latencies, which count
/// from the schedule.
///
/// # Errors
/// A file cannot be written.
pub(super) fn keep_told(manifest: &mut Manifest, place: &mut Place<'_>) -> io::Result<()> {
    let described = manifest.workload.as_mut().and_then(|workload| workload.get_mut(DESCRIBED));
    let Some(described) = described.and_then(serde_json::Value::as_object_mut) else { return Ok(()) };
    for name in described.keys().take(MOST_TOLD).cloned().collect::<Vec<_>>() {
        let text = described.get(&name).and_then(serde_json::Value::as_str).unwrap_or_default();
        let Some((bytes, count)) = decode_told(text) else { continue };
        let file = format!("{TOLD}-{}-{:016x}.v2", sanitise(&name, "name"), fingerprint(&name));
        place.write(&file, &bytes)?;
        described.remove(&name);
        manifest.histograms.entries.push(HistogramEntry { kind: TOLD.to_owned(), name, file, count });
    }
    if described.is_empty()
        && let Some(workload) = &mut manifest.workload
    {
        workload.remove(DESCRIBED);
    }
    Ok(())
}

/// Bytes and value count of a histogram. A workload may write anything: only our own bounds and digits are
/// accepted, so that the decoder reserves 311 kB at most, and the index need not repeat them for each.
fn decode_told(text: &str) -> Option<(Vec<u8>, u64)> {
    let bytes = STANDARD.decode(text).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let is_whole = number(0)? == COOKIE && number(4)? as usize + HEADER_BYTES == bytes.len();
    let is_ours = number(12)? == u32::from(DIGITS) && long(16)? == LOWEST_NS && long(24)? == HIGHEST_NS;
    let count = (is_whole && is_ours).then(|| read(&mut bytes.as_slice()).ok())??.len();
    Some((bytes, count))
}

/// Reads one back.
///
/// # Errors
/// The file cannot be read, or is none.
pub(super) fn read(file: &mut impl io::Read) -> io::Result<Histogram<u64>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, HISTOGRAM_BYTES.most), &mut bytes)?;
    // The decoder reserves what the file claims to hold: check the claim against the file first.
    let claimed = bytes.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    if claimed.is_none_or(|claimed| claimed as usize > bytes.len()) {
        return Err(invalid("too short for a histogram"));
    }
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| invalid(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use hdrhistogram::{
        Histogram,
        serialization::{Serializer, V2Serializer},
    };

    use super::{COOKIE, DIGITS, HEADER_BYTES, HIGHEST_NS, LOWEST_NS, decode_told};

    fn count(lowest_ns: u64, highest_ns: u64, digits: u8) -> Option<u64> {
        let mut histogram = Histogram::<u64>::new_with_bounds(lowest_ns, highest_ns, digits).unwrap();
        (1..=9).for_each(|ms| histogram.record(ms * 1_000_000).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        decode_told(&STANDARD.encode(bytes)).map(|(_, count)| count)
    }

    #[test]
    fn only_our_own_bounds_are_taken() {
        assert_eq!(count(LOWEST_NS, HIGHEST_NS, DIGITS), Some(9));
        assert_eq!(count(LOWEST_NS, HIGHEST_NS, DIGITS - 1), None);
        assert_eq!(count(LOWEST_NS + 1, HIGHEST_NS, DIGITS), None);
        assert_eq!(count(LOWEST_NS, HIGHEST_NS / 2, DIGITS), None);
    }

    /// More zeros than 64 bits can negate: the decoder would panic with overflow checks, which the workspace
    /// turns off for it.
    #[test]
    fn a_count_of_zeros_that_no_number_can_be_is_refused() {
        let zeros = |bytes: &[u8]| {
            let mut all = Vec::with_capacity(HEADER_BYTES + bytes.len());
            all.extend(COOKIE.to_be_bytes());
            all.extend((bytes.len() as u32).to_be_bytes());
            all.extend(0_u32.to_be_bytes());
            all.extend(u32::from(DIGITS).to_be_bytes());
            all.extend(LOWEST_NS.to_be_bytes());
            all.extend(HIGHEST_NS.to_be_bytes());
            all.extend(1.0_f64.to_be_bytes());
            all.extend(bytes);
            decode_told(&STANDARD.encode(all)).map(|(_, count)| count)
        };
        // 3 zeros, then one value counted twice.
        assert_eq!(zeros(&[5, 4]), Some(2));
        assert_eq!(zeros(&[0xff; 9]), None);
        // Behind them is more: the decoder's other loop.
        assert_eq!(zeros(&[0xff; 18]), None);
    }
}
