//! Differences between runs that are taken for runs of one platform.
//!
//! Yields notes, none if nothing differs. A platform of unlike runs is compared all the same, since the user
//! may know that the difference does not matter; but never without a note. Folders record neither the
//! container's runtime nor a guest's pinning; their directories stand for both.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    grouping::{RunsOf, is_one_of_several},
    read::ReadRun,
    sources::Source,
};
use crate::untrusted::{self, Shown as _, Untrusted};
use crate::{
    folder::{Limits, Manifest},
    sinks::terminal::units::{bytes, duration},
};

/// Values that are listed.
const MOST_VALUES: usize = 4;
/// Memory of equal machines differs a little, by what their kernels take.
const EQUAL_MEMORY: f64 = 0.05;

/// A note for all platforms whose runs differ in the same way.
pub(super) fn notes(runs: &[ReadRun], platforms: &[RunsOf]) -> Vec<String> {
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for RunsOf { label, indices } in platforms {
        let members: Vec<&ReadRun> = indices.iter().map(|&index| &runs[index]).collect();
        let Some(differs) = differences(&members) else { continue };
        match found.iter_mut().find(|(_, known)| *known == differs) {
            Some((labels, _)) => labels.push(label),
            None => found.push((vec![label], differs)),
        }
    }
    let note = |(labels, differs): (Vec<&str>, String)| {
        let verb = if labels.len() == 1 { "holds" } else { "each hold" };
        format!("{} {verb} runs that differ in {differs}", untrusted::listed(labels))
    };
    found.into_iter().map(note).collect()
}

/// The fields that differ, and how the runs can be distinguished.
fn differences(runs: &[&ReadRun]) -> Option<String> {
    let known = |of: fn(&Manifest) -> String| -> BTreeSet<String> {
        runs.iter().map(|run| of(&run.manifest)).filter(|value| !value.is_empty()).collect()
    };
    let facts = [
        ("scenario", known(|manifest| manifest.scenario.clone())),
        ("machine", known(|manifest| manifest.hypervisor.clone())),
        ("CPUs", known(|manifest| some(manifest.logical_cpus.into()))),
        ("memory", memory(runs)),
        ("kernel", known(|manifest| manifest.kernel.clone())),
        ("architecture", known(|manifest| manifest.arch.clone())),
        ("CPU model", known(|manifest| manifest.cpu_model.clone())),
        ("limits", known(limits)),
        ("directory", directories(runs)),
    ];
    let differing = facts.iter().filter(|(_, values)| values.len() > 1);
    let texts: Vec<String> = differing.map(|(fact, values)| format!("{fact} ({})", listed(values))).collect();
    let arguments: BTreeSet<&Path> = runs.iter().map(|run| run.source.argument.as_path()).collect();
    let can_tell =
        arguments.len() > 1 && runs.iter().all(|run| is_one_of_several(run) && run.source.label.is_none());
    let hint = if can_tell { "--by argument tells them apart" } else { "labels tell them apart: LABEL=DIR" };
    (!texts.is_empty()).then(|| format!("{}; {hint}", texts.join(", ")))
}

fn some(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

fn listed(values: &BTreeSet<String>) -> String {
    let mut shown: Vec<String> =
        values.iter().take(MOST_VALUES).map(|value| Untrusted::told(value).to_string()).collect();
    if values.len() > shown.len() {
        shown.push(format!("{} more", values.len() - shown.len()));
    }
    shown.join("; ")
}

/// The least and the most, if they are not about the same.
fn memory(runs: &[&ReadRun]) -> BTreeSet<String> {
    let known = || runs.iter().map(|run| run.manifest.memory_bytes).filter(|&bytes| bytes > 0);
    let ends = known().min().zip(known().max());
    let ends = ends.filter(|&(least, most)| (most - least) as f64 > least as f64 * EQUAL_MEMORY);
    ends.into_iter().flat_map(|(least, most)| [bytes(least), bytes(most)]).collect()
}

/// Limits in words; empty for a manifest made from spans, which do not contain them.
fn limits(manifest: &Manifest) -> String {
    if manifest.logical_cpus == 0 {
        return String::new();
    }
    let Limits { cpu_quota_ns, cpu_period_ns, cpus, memory_bytes, pids } = manifest.limits;
    let quota = cpu_quota_ns.zip(cpu_period_ns);
    let parts = [
        quota.map(|(quota, period)| format!("{} of CPU time in {}", duration(quota), duration(period))),
        cpus.map(|cpus| format!("CPUs to run on: {cpus}")),
        memory_bytes.map(|memory| format!("memory {}", bytes(memory))),
        pids.map(|pids| format!("threads {pids}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Origins of runs without a label: the directory around each folder, or the service of its traces.
fn directories(runs: &[&ReadRun]) -> BTreeSet<String> {
    let around = |run: &&ReadRun| {
        let Source { path, argument, .. } = &run.source;
        let around = path.parent().filter(|_| path.starts_with(argument)).unwrap_or(argument);
        if around.as_os_str().is_empty() { PathBuf::from(".") } else { around.to_owned() }
    };
    let all: BTreeSet<PathBuf> = runs.iter().filter(|run| run.source.label.is_none()).map(around).collect();
    let last: BTreeSet<String> =
        all.iter().filter_map(|path| Some(path.file_name()?.shown().to_string())).collect();
    if last.len() == all.len() { last } else { all.iter().map(|path| path.shown().to_string()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Manifest {
        let [scenario, hypervisor, kernel, cpu_model] =
            ["VM/1/VNL/CPU", "QEMU on KVM", "6.12.1", "AMD EPYC"].map(str::to_owned);
        let limits = Limits { cpus: Some(1), ..Limits::default() };
        let memory_bytes = 2_069_291_008;
        let manifest =
            Manifest { scenario, hypervisor, kernel, cpu_model, memory_bytes, ..Manifest::default() };
        Manifest { logical_cpus: 1, limits, ..manifest }
    }

    fn runs_of(label: &str, indices: &[usize]) -> RunsOf {
        RunsOf { label: label.to_owned(), indices: indices.to_vec() }
    }

    /// Notes on runs of one platform.
    fn noted(runs: &[ReadRun]) -> Vec<String> {
        notes(runs, &[RunsOf { label: "vm".to_owned(), indices: (0..runs.len()).collect() }])
    }

    fn pair(other: Manifest) -> Vec<String> {
        noted(&[ReadRun::of(machine(), "runs", "runs/a"), ReadRun::of(other, "runs", "runs/b")])
    }

    #[test]
    fn equal_runs_need_no_word() {
        assert_eq!(pair(machine()), Vec::<String>::new());
        // Another boot of the same guest, and a folder from before something was kept.
        assert_eq!(pair(Manifest { memory_bytes: 2_069_467_136, ..machine() }), Vec::<String>::new());
        assert_eq!(pair(Manifest { hypervisor: String::new(), ..machine() }), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_named() {
        let words = |text: &str| text.to_owned();
        let quota =
            Limits { cpu_quota_ns: Some(80_000_000), cpu_period_ns: Some(100_000_000), ..machine().limits };
        let others = [
            (Manifest { hypervisor: words("KVM"), ..machine() }, "machine (KVM; QEMU on KVM)"),
            (Manifest { kernel: words("6.18.44"), ..machine() }, "kernel (6.12.1; 6.18.44)"),
            (Manifest { cpu_model: words("Xeon"), ..machine() }, "CPU model (AMD EPYC; Xeon)"),
            (Manifest { memory_bytes: 4_138_582_016, ..machine() }, "memory (2.07 GB; 4.14 GB)"),
            (
                Manifest { limits: quota, ..machine() },
                "limits (80.0 ms of CPU time in 100 ms, CPUs to run on: 1; CPUs to run on: 1)",
            ),
        ];
        for (other, expected) in others {
            let hint = "labels tell them apart: LABEL=DIR";
            assert_eq!(pair(other), [format!("vm holds runs that differ in {expected}; {hint}")]);
        }
    }

    /// Pinning of a guest from outside is not in the manifest, but its runs are kept in another directory.
    #[test]
    fn directories_stand_for_what_folders_do_not_know() {
        let mut runs = ["free/a", "free/b", "pinned/a", "pinned/b"]
            .map(|path| ReadRun::of(machine(), path.split_once('/').unwrap().0, path));
        let begin = "vm holds runs that differ in directory (free; pinned); ";
        assert_eq!(noted(&runs), [format!("{begin}--by argument tells them apart")]);
        let apart = [runs_of("free", &[0, 1]), runs_of("pinned", &[2, 3])];
        assert_eq!(notes(&runs, &apart), Vec::<String>::new());
        for run in &mut runs {
            run.source.argument = ".".into();
            run.source.path = Path::new(".").join(&run.source.path);
        }
        assert_eq!(noted(&runs), [format!("{begin}labels tell them apart: LABEL=DIR")]);
        for run in &mut runs {
            run.source.label = Some("vm".to_owned());
        }
        assert_eq!(noted(&runs), Vec::<String>::new());
    }

    #[test]
    fn platforms_that_differ_alike_share_a_note() {
        let runs = ["x/a", "y/b", "x/c", "y/d"].map(|path| ReadRun::of(machine(), "runs", path));
        let platforms = [runs_of("VM/1", &[0, 1]), runs_of("VM/2", &[2, 3])];
        let runs = runs.map(|mut run| {
            run.source.path = Path::new("runs").join(&run.source.path);
            run
        });
        let expected =
            "VM/1, VM/2 each hold runs that differ in directory (x; y); labels tell them apart: LABEL=DIR";
        assert_eq!(notes(&runs, &platforms), [expected]);
    }
}
