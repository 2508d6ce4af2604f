//! Parts of account `cpu` by our sampler and by perf's at the same time: shares of one thread's samples.
//!
//! perf walks the stack of each sample; our program reads two words. The thread is the workload's main one,
//! from its start to its end.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Bench, Row, two_results};

/// Requests: 10 s, and so some 10,000 samples of each sampler.
const REQUESTS: &str = "100";
/// perf's samples per second. Different from ours, so that the two do not coincide.
const FREQUENCY: &str = "1009";
/// Names of our counts. Samples in none of them belong to the kernel itself: interrupts and the scheduler.
const KINDS: [&str; 5] = ["user", "spin", "fault", "syscall", "irq"];
const ELSEWHERE: usize = KINDS.len();
/// Libraries that busy-wait, by prefix of their file names.
const SPINNERS: [&str; 4] = ["libgomp", "libomp", "libiomp5", "libtbb"];

/// Kernel functions that handle softirqs: from 6.10 on, and before.
const SOFTIRQS: [&str; 2] = ["handle_softirqs", "__do_softirq"];

/// The share of each kind, by both.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let step = bench.xtask.progress.step("samples beside perf's");
    let data = bench.folder()?.join("perf.data");
    let observed = bench.observe("inside", &bench.workloads)?;
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", FREQUENCY, "-o"]).arg(&data).arg("--");
    command.arg(observed.get_program()).args(observed.get_args());
    command.args(["infer", "ic", "--requests", REQUESTS, "--json"]);
    let output = command.output().context("could not start `perf`")?;
    let (_, summary) = two_results(&String::from_utf8_lossy(&output.stdout))?;
    let process = summary.pointer("/processes/0").context("the agent saw no process")?;
    let pid = process["pid"].as_u64().context("the agent's summary has no `pid`")?;
    let theirs = by_perf(&data, pid)?;
    // The recording has tens of megabytes and is not needed any more.
    let _ = std::fs::remove_file(&data);
    let ours = by_agent(process)?;
    let (of_ours, of_theirs) = (ours.iter().sum::<u64>(), theirs.iter().sum::<u64>());
    ensure!(of_ours > 0 && of_theirs > 0, "no samples: {of_ours} of ours, {of_theirs} of perf's");
    step.done(format!("{of_ours} of ours, {of_theirs} of perf's"));
    let share = |counts: &[u64], kind: usize, all: u64| 100.0 * counts[kind] as f64 / all as f64;
    Ok((0..KINDS.len())
        .map(|kind| {
            let measured =
                format!("{:.2} % and {:.2} %", share(&ours, kind, of_ours), share(&theirs, kind, of_theirs));
            let what = format!("inside cpu, {}, by our samples and perf's", KINDS[kind]);
            Row::alone(what, measured, "3 points apart at most")
        })
        .collect())
}

fn by_agent(process: &Value) -> Result<[u64; KINDS.len() + 1]> {
    let mut counts = [0; KINDS.len() + 1];
    for (count, kind) in counts.iter_mut().zip(KINDS) {
        let name = format!("sample.{kind}");
        *count = process["count"][&name]
            .as_u64()
            .with_context(|| format!("the agent's summary has no `{name}`"))?;
    }
    Ok(counts)
}

/// Samples of a thread in a recording, by kind.
fn by_perf(data: &Path, tid: u64) -> Result<[u64; KINDS.len() + 1]> {
    let mut script = Command::new("perf");
    script.args(["script", "-F", "tid,ip,sym,dso", "--tid", &tid.to_string(), "-i"]).arg(data);
    let mut child =
        script.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("could not start `perf`")?;
    let lines = BufReader::new(child.stdout.take().context("perf has no output")?).lines();
    let mut counts = [0; KINDS.len() + 1];
    let mut stack = Vec::new();
    for line in lines {
        let line = line?;
        // A sample is a line with the thread, one for each function from the innermost on, and an empty one.
        if line.trim().is_empty() {
            if let Some(kind) = kind(&stack) {
                counts[kind] += 1;
            }
            stack.clear();
        } else {
            stack.push(line);
        }
    }
    ensure!(child.wait()?.success(), "perf script failed");
    Ok(counts)
}

/// Kind of a sample, given as the thread's line and its functions.
fn kind(sample: &[String]) -> Option<usize> {
    let functions = sample.get(1..)?;
    let top = functions.first()?;
    let is_in = |name: &str| functions.iter().any(|line| line.contains(name));
    let address = top.split_whitespace().next()?;
    let of = |name: &str| KINDS.iter().position(|kind| *kind == name);
    if address.len() == 16 && address.starts_with("ffff") {
        return if SOFTIRQS.iter().any(|name| is_in(name)) {
            of("irq")
        } else if is_in("exc_page_fault") {
            of("fault")
        } else if is_in("do_syscall_64") {
            of("syscall")
        } else {
            Some(ELSEWHERE)
        };
    }
    let file = top.rsplit('/').next()?;
    of(if SPINNERS.iter().any(|name| file.starts_with(name)) { "spin" } else { "user" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_by_what_lies_above_them() {
        for (sample, expected) in [
            (" 7 | 7f00 GOMP_parallel (/opt/torch/lib/libgomp-24e2ab19.so.1)", Some(1)),
            (" 7 | 7f00 gemm (/opt/torch/lib/libtorch_cpu.so) | 7f01 x (/opt/libgomp.so.1)", Some(0)),
            (
                " 7 | ffffffff81000000 clear_page ([kernel.kallsyms]) | ffffffff81000001 asm_exc_page_fault (x)",
                Some(2),
            ),
            (
                " 7 | ffffffff81000000 futex_wait ([kernel.kallsyms]) | ffffffff81000001 do_syscall_64 (x)",
                Some(3),
            ),
            (
                " 7 | ffffffff81000000 net_rx_action ([kernel.kallsyms]) | ffffffff81000001 handle_softirqs (x)",
                Some(4),
            ),
            (
                " 7 | ffffffff81000000 schedule ([kernel.kallsyms]) | ffffffff81000001 sysvec_apic (x)",
                Some(5),
            ),
            (" 7", None),
        ] {
            let lines: Vec<String> = sample.split('|').map(str::to_owned).collect();
            assert_eq!(kind(&lines), expected, "{sample}");
        }
    }
}
