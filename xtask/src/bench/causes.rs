//! ResNet-50 on all CPUs under known disturbances, and the causes that `compare` names.
//!
//! Pairs of runs: beside a busy loop on each CPU against alone, with libgomp's threads busy-waiting for one
//! another (its default), and asleep meanwhile (OMP_WAIT_POLICY=passive); the same beside bursts of known
//! size, whose effect must be the same whichever way the threads wait; and with malloc returning memory to
//! the kernel after each layer against malloc that keeps it. All runs take turns.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    Bench, Row,
    neighbours::{Manner, Neighbours},
    ratio::{Ratio, median},
    two_results,
};
use crate::command;

/// Requests per run: 4 to 25 s.
const REQUESTS: &str = "40";
/// Requests per run beside bursts: a short run would meet a handful, and one more or less is a tenth of the
/// effect.
const MANY: &str = "120";
/// glibc's thresholds, fixed. By default it adapts them to what is freed, and by chance a run has 50 or 5,000
/// faults per request.
const GIVES_BACK: &[(&str, &str)] = &[("MALLOC_MMAP_THRESHOLD_", "131072")];
/// The largest that glibc takes for the first of them is 32 MiB.
const KEEPS: &[(&str, &str)] = &[
    ("MALLOC_MMAP_THRESHOLD_", "33554432"),
    ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
    ("MALLOC_TOP_PAD_", "268435456"),
];
const ASLEEP: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "passive")];
/// Each thread on a CPU of its own, so that a burst hits either the leader or its helper.
const BOUND: &[(&str, &str)] = &[("OMP_PROC_BIND", "true")];
const BOUND_ASLEEP: &[(&str, &str)] = &[("OMP_PROC_BIND", "true"), ("OMP_WAIT_POLICY", "passive")];
/// Variables that would also change how threads wait, or the memory.
const OTHER_WAYS: [&str; 3] = ["GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY", "GLIBC_TUNABLES"];

/// Length of a burst. Real-time threads may take 95 % of each second: this is far less.
const BURST: Duration = Duration::from_millis(30);
const PERIOD: Duration = Duration::from_millis(600);

/// One variant of the run.
struct Side {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Neighbour on each CPU.
    beside: Option<Manner>,
    requests: &'static str,
}

const LOOP: Option<Manner> = Some(Manner::Loop);
const BURSTS: Option<Manner> = Some(Manner::Burst { size: BURST, period: PERIOD });

/// Pairs of a baseline and the run that is compared with it.
const SIDES: [Side; 10] = [
    Side { name: "alone", environment: &[], beside: None, requests: REQUESTS },
    Side { name: "beside", environment: &[], beside: LOOP, requests: REQUESTS },
    Side { name: "passive-alone", environment: ASLEEP, beside: None, requests: REQUESTS },
    Side { name: "passive-beside", environment: ASLEEP, beside: LOOP, requests: REQUESTS },
    Side { name: "keeps", environment: KEEPS, beside: None, requests: REQUESTS },
    Side { name: "gives-back", environment: GIVES_BACK, beside: None, requests: REQUESTS },
    Side { name: "bound", environment: BOUND, beside: None, requests: MANY },
    Side { name: "bound-bursts", environment: BOUND, beside: BURSTS, requests: MANY },
    Side { name: "bound-passive", environment: BOUND_ASLEEP, beside: None, requests: MANY },
    Side { name: "bound-passive-bursts", environment: BOUND_ASLEEP, beside: BURSTS, requests: MANY },
];

/// The causes that are named, with their shares.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.folder()?.join("causes");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    // A program that libgomp pins at its start would see one CPU, and start one thread.
    let threads = std::thread::available_parallelism()?.to_string();
    let label = "ResNet-50 beside busy loops, and without its memory";
    let mut of_bursts = BTreeMap::<&str, Vec<f64>>::new();
    let latencies = bench.alternate(label, &SIDES, |side| {
        let mut command = bench.observe_into(&folder.join(side.name), side.name, &bench.workloads);
        command.args(["infer", "ic", "--requests", side.requests, "--threads", &threads, "--json"]);
        for name in KEEPS.iter().chain(BOUND_ASLEEP).map(|(name, _)| *name).chain(OTHER_WAYS) {
            command.env_remove(name);
        }
        command.envs(side.environment.iter().copied());
        let neighbours = side.beside.map(Neighbours::start).transpose()?;
        let output = finished(&mut command)?;
        drop(neighbours);
        let (result, summary) = two_results(&String::from_utf8_lossy(&output.stdout))?;
        of_bursts.entry(side.name).or_default().extend(late_helpers_ms(&summary));
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
    let bursts = [compared(6)?, compared(8)?];
    let not_cpu = "runq and helper.runq, not cpu";
    let of_helpers = |compared: &Value| difference_ms(compared, "helper.runq");
    Ok(vec![
        row(0, "ResNet-50 beside a busy loop on each CPU", named(&spinning)?, alone, not_cpu),
        row(2, "the same with threads that sleep", named(&asleep)?, alone, not_cpu),
        Row::alone(
            "helper.runq of threads that spin, that sleep",
            format!("{:.1} ms, {:.1} ms", of_helpers(&spinning)?, of_helpers(&asleep)?),
            "",
        ),
        row(6, "ResNet-50 beside bursts on each CPU", named(&bursts[0])?, alone, not_cpu),
        row(8, "the same with threads that sleep", named(&bursts[1])?, alone, not_cpu),
        of_late_helpers([7, 9].map(|side: usize| &of_bursts[SIDES[side].name][..])),
        row(4, "ResNet-50 that gives its memory back", named(&memory)?, "of one that keeps it", "cpu.fault"),
        Row::alone("minor faults per request, given back and kept", faults(&memory)?, ""),
    ])
}

/// The causes of the difference of the means that make 3 % of it or more.
fn named(compared: &Value) -> Result<String> {
    let mean = compared.pointer("/platforms/0/mean").context("the result of `compare` has no platform")?;
    let all_ns = mean.pointer("/difference_ns/value").and_then(Value::as_f64);
    let all_ns = all_ns.context("the result of `compare` has no difference")?;
    let causes = mean["causes"].as_array().context("the result of `compare` has no causes")?;
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

/// The part of this cause in the difference of the means; 0 if it has none.
fn difference_ms(compared: &Value, cause: &str) -> Result<f64> {
    let causes = compared.pointer("/platforms/0/mean/causes").and_then(Value::as_array);
    let causes = causes.context("the result of `compare` has no causes")?;
    let Some(of) = causes.iter().find(|known| known["cause"] == cause) else { return Ok(0.0) };
    let ns = of.pointer("/difference_ns/value").and_then(Value::as_f64);
    Ok(ns.context("the result of `compare` has no difference")? / 1e6)
}

/// Excess due to `helper.runq` in each slow request with a clearly late helper, ms. Means over all requests
/// would hide it: a burst in a ninth of them is less than the machine's drift from run to run.
fn late_helpers_ms(summary: &Value) -> Vec<f64> {
    const LEAST_MS: f64 = 5.0;
    let slowest = summary.pointer("/groups/0/slowest").and_then(Value::as_array).into_iter().flatten();
    let of_one = |request: &Value| -> f64 {
        let parts = request["parts"].as_array().into_iter().flatten();
        parts
            .filter(|part| part["cause"] == "helper.runq")
            .filter_map(|part| part["excess_ns"].as_f64())
            .sum()
    };
    slowest.map(|request| of_one(request) / 1e6).filter(|ms| *ms > LEAST_MS).collect()
}

/// Row about requests hit by a burst, with threads that spin and with threads that sleep.
fn of_late_helpers(hits: [&[f64]; 2]) -> Row {
    let [spun_ms, slept_ms] = hits.map(median);
    Row::alone(
        format!("helper.runq of a request hit by {} ms, spinning, asleep", BURST.as_millis()),
        format!(
            "{spun_ms:.1} ms ({} requests), {slept_ms:.1} ms ({}); {:.0} % apart",
            hits[0].len(),
            hits[1].len(),
            100.0 * (spun_ms / slept_ms - 1.0).abs()
        ),
        "15 % apart at most",
    )
}

fn faults(compared: &Value) -> Result<String> {
    let counts = compared.pointer("/platforms/0/counts").and_then(Value::as_array);
    let faults = counts.and_then(|counts| counts.iter().find(|count| count["name"] == "count.fault.minor"));
    let faults = faults.context("the result of `compare` has no faults")?;
    let of = |side: &str| faults[side].as_f64().context("the result of `compare` has no number of faults");
    Ok(format!("{:.0} and {:.1}", of("value")?, of("baseline")?))
}

/// The output of a command that succeeded.
fn finished(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("could not start: {command:?}"))?;
    let errors = command::tail(&String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(output)
}
