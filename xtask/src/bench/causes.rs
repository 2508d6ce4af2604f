//! ResNet-50 on all CPUs in circumstances that are known: what `compare` says of them.
//!
//! Beside a busy loop on each CPU, once with libgomp's threads busy-waiting for one another (its default) and once with them
//! asleep meanwhile (OMP_WAIT_POLICY=passive), each against the same alone; and with malloc giving memory back after each
//! layer against malloc that keeps it. All take turns.

use std::{
    fs,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use serde_json::Value;

use super::{Bench, Row, ratio::Ratio, two_results};
use crate::command;

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
/// What else would do either.
const OTHER_WAYS: [&str; 2] = ["GOMP_SPINCOUNT", "GLIBC_TUNABLES"];

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
        let mut command = bench.observe_into(&folder.join(side.name), side.name, &bench.workloads);
        command.args(["infer", "ic", "--requests", REQUESTS, "--json"]);
        for name in KEEPS.iter().chain(ASLEEP).map(|(name, _)| *name).chain(OTHER_WAYS) {
            command.env_remove(name);
        }
        command.envs(side.environment.iter().copied());
        let neighbours = side.beside.then(Neighbours::start).transpose()?;
        let output = finished(&mut command)?;
        drop(neighbours);
        let (result, _) = two_results(&String::from_utf8_lossy(&output.stdout))?;
        result.pointer("/latency_ns/p50").and_then(Value::as_f64).context("the workload gave no latency")
    })?;
    let compared = |baseline: usize| -> Result<Value> {
        let sides = [&SIDES[baseline], &SIDES[baseline + 1]];
        let sides = sides.map(|side| format!("{}={}", side.name, folder.join(side.name).display()));
        let mut command = Command::new(&bench.agent);
        let output = finished(command.args(["compare", "--json", "--allow-drift"]).args(sides))?;
        serde_json::from_slice(&output.stdout).context("`compare` gave no result")
    };
    let row = |baseline: usize, what: &str, measured: String, against, budget| {
        let ratio = Ratio::new(&latencies[baseline + 1], &latencies[baseline]);
        Row { what: what.to_owned(), measured, ratio, against, budget }
    };
    let alone = "of the p50 alone";
    let [spinning, asleep, memory] = [compared(0)?, compared(2)?, compared(4)?];
    let not_cpu = "runq and helper.runq, not cpu";
    let of_helpers = |compared: &Value| difference_ms(compared, "helper.runq");
    Ok(vec![
        row(0, "ResNet-50 beside a busy loop on each CPU", named(&spinning)?, alone, not_cpu),
        row(2, "the same with threads that sleep", named(&asleep)?, alone, not_cpu),
        Row::alone(
            "helper.runq of threads that spin, that sleep",
            format!("{:.1} ms, {:.1} ms", of_helpers(&spinning)?, of_helpers(&asleep)?),
            "15 % apart at most",
        ),
        row(4, "ResNet-50 that gives its memory back", named(&memory)?, "of one that keeps it", "cpu.fault"),
        Row::alone("minor faults per request, given back and kept", faults(&memory)?, ""),
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
fn difference_ms(compared: &Value, cause: &str) -> Result<f64> {
    let causes = compared.pointer("/platforms/0/mean/causes").and_then(Value::as_array);
    let causes = causes.context("`compare` tells of no causes")?;
    let Some(of) = causes.iter().find(|known| known["cause"] == cause) else { return Ok(0.0) };
    let ns = of.pointer("/difference_ns/value").and_then(Value::as_f64);
    Ok(ns.context("`compare` tells of no difference")? / 1e6)
}

fn faults(compared: &Value) -> Result<String> {
    let counts = compared.pointer("/platforms/0/counts").and_then(Value::as_array);
    let faults = counts.and_then(|counts| counts.iter().find(|count| count["name"] == "fault.minor"));
    let faults = faults.context("`compare` tells of no faults")?;
    let of = |side: &str| faults[side].as_f64().context("`compare` tells of no number of faults");
    Ok(format!("{:.0} and {:.1}", of("value")?, of("baseline")?))
}

/// What the command printed, if it ended well.
fn finished(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("could not start: {command:?}"))?;
    let errors = command::tail(&String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(output)
}

/// A busy loop on each CPU that this process may use, until dropped.
struct Neighbours {
    threads: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Neighbours {
    fn start() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("the CPUs are not known")?;
        let mut neighbours = Self { threads: Vec::new(), ended: Arc::new(AtomicBool::new(false)) };
        for cpu in 0..CpuSet::count() {
            if allowed.is_set(cpu)? {
                neighbours.start_on(cpu)?;
            }
        }
        Ok(neighbours)
    }

    /// It is there before this returns.
    fn start_on(&mut self, cpu: usize) -> Result<()> {
        let (pinned, is_pinned) = mpsc::channel();
        let ended = Arc::clone(&self.ended);
        self.threads.push(thread::spawn(move || {
            let mut only = CpuSet::new();
            let done = only.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
            let stays = done.is_ok();
            // Who asked may have given up.
            let _ = pinned.send(done);
            while stays && !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }));
        is_pinned.recv().context("a busy loop ended")?.with_context(|| format!("no busy loop on CPU {cpu}"))
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // They cannot panic.
            let _ = thread.join();
        }
    }
}
