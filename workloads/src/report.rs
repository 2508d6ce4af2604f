//! What a run leaves behind: an aligned text for people, one line of JSON for machines, and the description of the
//! workload for guestscope's manifest. Yields text; it computes no statistic beyond percentiles and rates.

use std::{collections::BTreeMap, ffi::OsStr, fmt::Write as _, fs, path::Path};

use serde::Serialize;

use crate::{
    digest::Digest,
    error::Error,
    load::{Measured, PHASES, percentile},
};

/// Names the file in which `guestscope run` expects the description of the workload.
pub const WORKLOAD_FILE: &str = "GUESTSCOPE_WORKLOAD_FILE";

/// What was run, and what came out of it.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    pub name: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    pub batch: u64,
    pub threads: u32,
    pub seed: u64,
    pub precision: &'static str,
    pub requests: u64,
    pub warmup: u64,
    /// Equal for two runs that computed the same from the same inputs, on whatever machine and threads.
    pub work_hash: Digest,
    /// Of all outputs to the bit. Differs between processors, whose libraries add up in different orders.
    pub output_hash: Digest,
}

/// A finished run.
#[derive(Debug)]
pub struct Report {
    pub identity: Identity,
    pub measured: Measured,
}

/// In nanoseconds, by nearest rank.
#[derive(Serialize)]
pub struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    latency_ns: Percentiles,
    phases_ns: BTreeMap<&'static str, Percentiles>,
    requests_per_s: f64,
    samples_per_s: f64,
    least_phase_share: f64,
}

impl Percentiles {
    pub fn of(values: &[u64]) -> Self {
        Self { p50: percentile(values, 50.0), p90: percentile(values, 90.0), p99: percentile(values, 99.0) }
    }
}

impl Report {
    /// For people: one fact per line, names aligned, no line longer than 80 columns.
    pub fn text(&self) -> String {
        let Identity { name, model, precision, batch, threads, seed, requests, warmup, .. } = &self.identity;
        let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        let mut text = format!("{name}: {model}, {precision}, batch {batch}, {threads}, seed {seed}\n");
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<12} {value}");
        };
        line("requests", format!("{requests} after {warmup} for warm-up"));
        line("latency", milliseconds(&self.measured.request_ns));
        for (phase, values) in PHASES.iter().zip(&self.measured.phase_ns) {
            line(phase, milliseconds(values));
        }
        let rate = self.requests_per_s();
        line("throughput", format!("{rate:.1} requests/s, {:.1} samples/s", rate * *batch as f64));
        line("output hash", self.identity.output_hash.to_string());
        line("work hash", self.identity.work_hash.to_string());
        text
    }

    /// For machines: one line, times in nanoseconds.
    pub fn json(&self) -> String {
        let rate = self.requests_per_s();
        let phases = PHASES.into_iter().zip(self.measured.phase_ns.iter().map(|ns| Percentiles::of(ns)));
        to_json(&Line {
            identity: &self.identity,
            latency_ns: Percentiles::of(&self.measured.request_ns),
            phases_ns: phases.collect(),
            requests_per_s: rate,
            samples_per_s: rate * self.identity.batch as f64,
            least_phase_share: self.measured.least_phase_share(),
        })
    }

    /// Writes the description where guestscope looks for it, if it asked.
    pub fn write_workload_file(&self, path: Option<&OsStr>) -> Result<(), Error> {
        write_workload_file(path, &self.identity)
    }

    fn requests_per_s(&self) -> f64 {
        let seconds = self.measured.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 { self.measured.request_ns.len() as f64 / seconds } else { 0.0 }
    }
}

/// Writes the description of a workload to `path`, if there is one. Under another name first, then renamed: whoever
/// sees the file sees all of it.
pub fn write_workload_file(path: Option<&OsStr>, identity: &impl Serialize) -> Result<(), Error> {
    let Some(path) = path.map(Path::new) else { return Ok(()) };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, to_json(identity) + "\n")
        .and_then(|()| fs::rename(&partial, path))
        .map_err(|source| Error::WriteResult { path: path.to_owned(), source })
}

/// A table or description as one line of JSON.
pub fn to_json(value: &impl Serialize) -> String {
    // Serialising fails only for maps with keys that are no strings, and for writers that fail: neither is here.
    serde_json::to_string(value).unwrap_or_default()
}

/// The percentiles of nanoseconds, for people.
pub fn milliseconds(values: &[u64]) -> String {
    let ms = |percent| percentile(values, percent) as f64 / 1e6;
    format!("p50 {:>9.3} ms   p90 {:>9.3} ms   p99 {:>9.3} ms", ms(50.0), ms(90.0), ms(99.0))
}

#[cfg(test)]
mod tests {
    use super::{Identity, Report};
    use crate::{digest::Digest, load::Measured};

    fn report() -> Report {
        let identity = Identity {
            name: "ic",
            model: "ResNet-50 v1.5",
            parameters: 25_557_032,
            batch: 2,
            threads: 1,
            seed: 3,
            precision: "fp32",
            requests: 2,
            warmup: 1,
            work_hash: Digest::default(),
            output_hash: Digest::default(),
        };
        let measured = Measured {
            request_ns: vec![40_000_000, 60_000_000],
            phase_ns: [vec![4_000_000, 5_000_000], vec![35_500_000, 54_000_000], vec![400_000, 900_000]],
            elapsed_ns: 100_000_000,
            outputs: Digest::default(),
        };
        Report { identity, measured }
    }

    #[test]
    fn people_read_aligned_lines() {
        insta::assert_snapshot!(report().text(), @r"
        ic: ResNet-50 v1.5, fp32, batch 2, 1 thread, seed 3
          requests     2 after 1 for warm-up
          latency      p50    40.000 ms   p90    60.000 ms   p99    60.000 ms
          preprocess   p50     4.000 ms   p90     5.000 ms   p99     5.000 ms
          inference    p50    35.500 ms   p90    54.000 ms   p99    54.000 ms
          postprocess  p50     0.400 ms   p90     0.900 ms   p99     0.900 ms
          throughput   20.0 requests/s, 40.0 samples/s
          output hash  cbf29ce484222325
          work hash    cbf29ce484222325
        ");
    }

    #[test]
    fn machines_read_one_line() {
        insta::assert_snapshot!(report().json(), @r#"{"name":"ic","model":"ResNet-50 v1.5","parameters":25557032,"batch":2,"threads":1,"seed":3,"precision":"fp32","requests":2,"warmup":1,"work_hash":"cbf29ce484222325","output_hash":"cbf29ce484222325","latency_ns":{"p50":40000000,"p90":60000000,"p99":60000000},"phases_ns":{"inference":{"p50":35500000,"p90":54000000,"p99":54000000},"postprocess":{"p50":400000,"p90":900000,"p99":900000},"preprocess":{"p50":4000000,"p90":5000000,"p99":5000000}},"requests_per_s":20.0,"samples_per_s":40.0,"least_phase_share":0.9975}"#);
    }

    #[test]
    fn the_manifest_gets_the_identity_or_a_clear_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workload.json");
        report().write_workload_file(Some(path.as_os_str())).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(text, @r#"{"name":"ic","model":"ResNet-50 v1.5","parameters":25557032,"batch":2,"threads":1,"seed":3,"precision":"fp32","requests":2,"warmup":1,"work_hash":"cbf29ce484222325","output_hash":"cbf29ce484222325"}"#);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file stays behind");
        let error =
            report().write_workload_file(Some(folder.path().join("no/such").as_os_str())).unwrap_err();
        assert!(error.to_string().starts_with("cannot write result: "), "{error}");
        report().write_workload_file(None).unwrap();
    }
}
