//! ResNet-50 on all CPUs in circumstances that are known: what `compare` says of them.
//!
//! Beside a busy loop on each CPU, once with libgomp's threads busy-waiting for one another (its default) and once with them
//! asleep meanwhile (OMP_WAIT_POLICY=passive), each against the same alone; and with malloc giving memory back after each
//! layer against malloc that keeps it. All take turns.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use serde_json::Value;

use super::{Bench, Row, ratio::Ratio, two_results};

/// Requests per run: 4 to 25 s.
const REQUESTS: &str = "40";
/// glibc's thresholds, fixed. Left alone it moves them with what is freed, and a run has 50 faults per request or 5,000 by chance.
const GIVES_BACK: &[(&str, &str)] = &[("MALLOC_MMAP_THRESHOLD_", "131072")];
/// The largest that glibc takes for the first of them is 32 MiB.
const KEEPS: &[(&str, &str)] = &[
    ("MALLOC_MMAP_THRESHOLD_", "33554432"),
    ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
    ("MALLOC_TOP_PAD_", "268435456"),
];
const ASLEEP: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "passive")];

/// How it is run.
struct Side {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Beside a busy loop on each CPU.
    beside: bool,
}

const SIDES: [Side; 6] = [
    Side { name: "alone", environment: &[], beside: false },
    Side { name: "beside", environment: &[], beside: true },
    Side { name: "passive-alone", environment: ASLEEP, beside: false },
    Side { name: "passive-beside", environment: ASLEEP, beside: true },
    Side { name: "keeps", environment: KEEPS, beside: false },
    Side { name: "gives-back", environment: GIVES_BACK, beside: false },
];

/// What is named, and how much of it.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.folder()?.join("causes");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let label = "ResNet-50 beside busy loops, and without its memory";
    let latencies = bench.alternate(label, &SIDES, |side| {
        let mut command = Command::new(&bench.agent);
        command.args(["run", "--json", "--name", side.name, "--output"]).arg(folder.join(side.name));
        command.arg("--").arg(&bench.workloads).args(["infer", "ic", "--requests", REQUESTS, "--json"]);
        command.envs(side.environment.iter().copied());
        let neighbours = side.beside.then(Neighbours::start).transpose()?;
        let output = command.output().context("could not start the agent")?;
        drop(neighbours);
        let (result, _) = two_results(&String::from_utf8_lossy(&output.stdout))?;
        result.pointer("/latency_ns/p50").and_then(Value::as_f64).context("the workload gave no latency")
    })?;
    let compared = |baseline: usize| -> Result<Value> {
        let sides = [&SIDES[baseline], &SIDES[baseline + 1]];
        let sides = sides.map(|side| format!("{}={}", side.name, folder.join(side.name).display()));
        let mut command = Command::new(&bench.agent);
        let output = command.args(["compare", "--json", "--allow-drift"]).args(sides).output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`compare` gave no result: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let row = |baseline: usize, what: &str, measured: String, budget: &'static str| {
        let ratio = Ratio::new(&latencies[baseline + 1], &latencies[baseline]);
        Row { what: what.to_owned(), measured, ratio, against: "of the p50 alone", budget }
    };
    let [spinning, asleep, memory] = [compared(0)?, compared(2)?, compared(4)?];
    let not_cpu = "runq and helper.runq, not cpu";
    let of_helpers = |compared: &Value| difference_ms(compared, "helper.runq");
    Ok(vec![
        row(0, "ResNet-50 beside a busy loop on each CPU", named(&spinning)?, not_cpu),
        row(2, "the same with threads that sleep", named(&asleep)?, not_cpu),
        Row {
            what: "helper.runq of threads that spin, that sleep".to_owned(),
            measured: format!("{:.1} ms, {:.1} ms", of_helpers(&spinning), of_helpers(&asleep)),
            ratio: None,
            against: "",
            budget: "15 % apart at most",
        },
        row(4, "ResNet-50 that gives its memory back", named(&memory)?, "cpu.fault"),
        Row {
            what: "minor faults per request, given back and kept".to_owned(),
            measured: faults(&memory)?,
            ratio: None,
            against: "",
            budget: "",
        },
    ])
}

/// The causes of the difference of the means that make 3 % of it or more.
fn named(compared: &Value) -> Result<String> {
    let mean = compared.pointer("/platforms/0/mean").context("`compare` tells of no platform")?;
    let all_ns = mean.pointer("/difference_ns/value").and_then(Value::as_f64);
    let all_ns = all_ns.context("`compare` tells of no difference")?;
    let causes = mean["causes"].as_array().context("`compare` tells of no causes")?;
    let share = |cause: &Value| {
        let percent = 100.0 * cause.pointer("/difference_ns/value")?.as_f64()? / all_ns;
        (percent.abs() >= 3.0).then(|| format!("{} {percent:.0} %", cause["cause"].as_str().unwrap_or("?")))
    };
    Ok(format!(
        "{} of {:+.1} ms",
        causes.iter().filter_map(share).collect::<Vec<_>>().join(", "),
        all_ns / 1e6
    ))
}

/// How much of the difference of the means this cause is; 0 if it is none of it.
fn difference_ms(compared: &Value, cause: &str) -> f64 {
    let causes = compared.pointer("/platforms/0/mean/causes").and_then(Value::as_array);
    let of = causes.and_then(|causes| causes.iter().find(|known| known["cause"] == cause));
    let ns = of.and_then(|of| of.pointer("/difference_ns/value")).and_then(Value::as_f64);
    ns.unwrap_or(0.0) / 1e6
}

fn faults(compared: &Value) -> Result<String> {
    let counts = compared.pointer("/platforms/0/counts").and_then(Value::as_array);
    let faults = counts.and_then(|counts| counts.iter().find(|count| count["name"] == "fault.minor"));
    let faults = faults.context("`compare` tells of no faults")?;
    let of = |side: &str| faults[side].as_f64().unwrap_or(0.0);
    Ok(format!("{:.0} and {:.1}", of("value"), of("baseline")))
}

/// A busy loop on each CPU, until dropped.
struct Neighbours {
    threads: Vec<JoinHandle<nix::Result<()>>>,
    ended: Arc<AtomicBool>,
}

impl Neighbours {
    fn start() -> Result<Self> {
        let cpus = thread::available_parallelism().context("the CPUs are not known")?.get();
        let ended = Arc::new(AtomicBool::new(false));
        let threads = (0..cpus).map(|cpu| {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu)?;
                sched_setaffinity(Pid::from_raw(0), &only)?;
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Ok(())
            })
        });
        Ok(Self { threads: threads.collect(), ended })
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Whether it stayed where it was put shows in what is measured.
            let _ = thread.join();
        }
    }
}
