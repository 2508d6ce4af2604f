//! Notes for the reader of a comparison: what was not observed in a run, and what happened during it.

use std::collections::BTreeSet;

use super::{grouping::RunsOf, read::ReadRun};
use crate::folder::{Manifest, State};
use crate::untrusted::{self, Shown as _, Untrusted};

/// Runs for which the same note is repeated.
const MOST_ALIKE: usize = 3;

/// A line per thing, in the order of the runs; what concerns several of them comes first.
pub(super) fn of(runs: &[ReadRun]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(differing(runs, "versions of guestscope", |manifest| manifest.versions.guestscope.clone()));
    notes.extend(differing(runs, "hooks that failed", failed_hooks));
    notes.extend(runs.iter().flat_map(|run| run.notes.iter().cloned()));
    let each = runs.iter().flat_map(|run| {
        let path = run.source.path.shown().to_string();
        of_run(run).into_iter().map(move |note| (path.clone(), note))
    });
    notes.extend(together(each));
    notes
}

/// Merges notes that differ in one number at most, over many runs, into that of the run with the most.
fn together(each: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<(u64, String)>)> = Vec::new();
    for (path, note) in each {
        // The program's ending is no amount.
        let is_amount = |letter: char| letter.is_ascii_digit() && !note.contains("did not end well");
        let kind = note.replace(is_amount, "");
        let amount =
            note.split(|letter| !is_amount(letter)).find_map(|digits| digits.parse().ok()).unwrap_or(0);
        let text = (amount, format!("{path}{note}"));
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, texts)) => texts.push(text),
            None => kinds.push((kind, vec![text])),
        }
    }
    let shown = |(_, mut texts): (String, Vec<(u64, String)>)| {
        let others = texts.len() - 1;
        if others < MOST_ALIKE {
            return texts.into_iter().map(|(_, text)| text).collect();
        }
        texts.sort_by_key(|(amount, _)| std::cmp::Reverse(*amount));
        texts.truncate(1);
        let said = |(_, text)| format!("{text}; and {others} other runs the like, or less of it");
        texts.into_iter().map(said).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(shown).collect()
}

/// Runs much shorter than their platform's others: each is one value, and tail metrics need requests.
pub(super) fn short(runs: &[ReadRun], platforms: &[RunsOf], request: &str) -> Vec<String> {
    let count = |index: &usize| runs[*index].digest.count(request);
    let mut notes = Vec::new();
    for RunsOf { indices, .. } in platforms {
        let mut counts: Vec<u64> = indices.iter().map(count).collect();
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
        for index in indices.iter().filter(|index| count(index) * 2 < usual) {
            let (path, few) = (runs[*index].source.path.shown(), count(index));
            notes.push(format!(
                "{path} has {few} requests, where runs of its platform have {usual}, and weighs as much as they do"
            ));
        }
    }
    notes
}

/// A note on emulated platforms: where a program executes the guest's instructions, its costs hide those of
/// the platform. Platforms by the names that the output uses.
pub(super) fn emulated(runs: &[ReadRun], platforms: &[RunsOf]) -> Option<String> {
    let of = |indices: &[usize]| indices.iter().filter(|index| is_emulated(&runs[**index].manifest)).count();
    let emulated: usize = platforms.iter().map(|platform| of(&platform.indices)).sum();
    let named = platforms.iter().filter(|platform| of(&platform.indices) > 0);
    let names: Vec<&str> = named.map(|platform| platform.label.as_str()).collect();
    (emulated > 0).then(|| {
        format!(
            "{emulated} of {} runs come from machines that QEMU emulates (TCG): {}; what they cost is the emulator's, and \
             nothing about a platform follows from it",
            runs.len(),
            untrusted::listed(names)
        )
    })
}

/// By CPUID's hypervisor leaf, as the agent named it; older folders have only the CPU model that the emulator
/// shows.
pub(super) fn is_emulated(manifest: &Manifest) -> bool {
    manifest.hypervisor.ends_with("TCG") || manifest.cpu_model.starts_with("QEMU TCG CPU")
}

fn of_run(run: &ReadRun) -> Vec<String> {
    let (manifest, mut notes) = (&run.manifest, Vec::new());
    if manifest.state == State::Running {
        let torn = if run.is_torn { ", its end is torn off" } else { "" };
        notes.push(format!(" was never closed{torn}: it runs still, or its agent was killed"));
    }
    let rows = &manifest.rows_lost;
    let lost = manifest.health.losses.values().fold(rows.phases, |sum, count| sum.saturating_add(*count));
    if lost > 0 {
        notes.push(format!(" lost {lost} records: see its manifest"));
    }
    if let Some(error) = &manifest.health.folder_error {
        notes.push(format!(" is incomplete: {}", Untrusted::told(error)));
    }
    if let Some(child) = manifest.child.and_then(|child| child.exit).filter(|exit| !exit.is_success()) {
        notes.push(format!(": its program did not end well ({child})"));
    }
    if !manifest.restored.is_empty() {
        notes.push(": the guest was restored or moved while it ran".to_owned());
    }
    if let Some(stepped_ns) = run.stepped_ns {
        let ms = stepped_ns / 1_000_000;
        notes.push(format!(": the wall clock was set by {ms} ms while it ran, which changes no duration"));
    }
    let left_out = run.digest.left_out;
    if left_out.damaged > 0 {
        notes.push(format!(": {} damaged requests left out", left_out.damaged));
    }
    if left_out.unfinished > 0 {
        notes.push(format!(": {} requests without an end left out", left_out.unfinished));
    }
    notes
}

fn failed_hooks(manifest: &Manifest) -> String {
    let failed =
        manifest.health.hooks.iter().filter(|hook| !["ok", "fallback"].contains(&hook.outcome.as_str()));
    failed.map(|hook| hook.hook.as_str()).collect::<Vec<_>>().join(" ")
}

fn differing(runs: &[ReadRun], what: &str, of: impl Fn(&Manifest) -> String) -> Option<String> {
    let distinct: BTreeSet<String> = runs.iter().map(|run| of(&run.manifest)).collect();
    let shown = |value: &String| match value.as_str() {
        "" => "none".to_owned(),
        value => Untrusted::told(value).to_string(),
    };
    let all = Untrusted::told(distinct.iter().map(shown).collect::<Vec<_>>().join("; "));
    (distinct.len() > 1).then(|| format!("{what} differ: {all}"))
}

#[cfg(test)]
mod tests {
    use super::{Manifest, ReadRun, RunsOf, emulated, together};

    fn run(scenario: &str, hypervisor: &str, cpu_model: &str) -> ReadRun {
        let [scenario, hypervisor, cpu_model] = [scenario, hypervisor, cpu_model].map(str::to_owned);
        ReadRun::of(Manifest { scenario, hypervisor, cpu_model, ..Manifest::default() }, "runs", "runs/run")
    }

    #[test]
    fn what_is_said_of_many_runs_is_said_once() {
        let of = |runs: u64| {
            let lost = |run| (format!("runs/{run}"), format!(" lost {} records: see its manifest", run * 7));
            let other = (1..=2).map(|run| (format!("runs/{run}"), " was never closed".to_owned()));
            together((1..=runs).map(lost).chain(other))
        };
        let ended = |code: u64| {
            (format!("runs/{code}"), format!(": its program did not end well (exit code {code})"))
        };
        assert_eq!(together((1..=9).map(ended)).len(), 9, "how each of them ended");
        let never = ["runs/1 was never closed", "runs/2 was never closed"];
        let lost = |run: u64| format!("runs/{run} lost {} records: see its manifest", run * 7);
        assert_eq!(of(3), [&[lost(1), lost(2), lost(3)], never.map(str::to_owned).as_slice()].concat());
        assert_eq!(
            of(40),
            [
                &[format!("{}; and 39 other runs the like, or less of it", lost(40))],
                never.map(str::to_owned).as_slice()
            ]
            .concat()
        );
    }

    fn runs_of(label: &str, indices: &[usize]) -> RunsOf {
        RunsOf { label: label.to_owned(), indices: indices.to_vec() }
    }

    #[test]
    fn emulated_machines_are_told_by_the_names_of_their_platforms() {
        let real = [
            run("MVM/2/VNL/CPU", "Firecracker on KVM", "Intel(R) Xeon(R) Processor"),
            run("VM/2/VNL/CPU", "QEMU on KVM", "QEMU Virtual CPU version 2.5+"),
            run("BM/2/VNL/CPU", "", ""),
        ];
        let mut platforms = vec![runs_of("real", &[0, 1, 2])];
        assert_eq!(emulated(&real, &platforms), None);
        let emulators = [
            run("VM/1/VNL/CPU", "QEMU on TCG", "QEMU Virtual CPU version 2.5+"),
            run("MVM/1/VNL/CPU", "QEMU microvm on TCG", ""),
            run("VM/1/VNL/CPU", "", "QEMU TCG CPU version 2.5+"),
        ];
        platforms.push(runs_of("vm-1-free", &[3, 5]));
        platforms.push(runs_of("microvm-1-free", &[4]));
        let said = emulated(&[real, emulators].concat(), &platforms).unwrap();
        let begin = "3 of 6 runs come from machines that QEMU emulates (TCG): vm-1-free, microvm-1-free; ";
        assert!(said.starts_with(begin), "{said}");
    }
}
