//! Which runs are of one platform.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::arguments::CompareBy;
use super::{error::Refusal, read::ReadRun};
use crate::untrusted::{Shown as _, listed};

/// The runs of one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunsOf {
    /// The platform.
    pub(super) label: String,
    /// Places in the list of all runs.
    pub(super) indices: Vec<usize>,
}

/// Runs by platform, in the order in which platforms first come.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) platforms: Vec<RunsOf>,
    /// The property that platforms differ by.
    pub(super) by: &'static str,
}

/// Groups runs into platforms. By default: by labels if there are any, otherwise by the first of scenario,
/// name and argument in which any two differ. By argument as well if each argument is a directory of runs of
/// one platform: a scenario includes neither the machine's setup from outside nor the container's runtime.
pub(super) fn group(runs: &[ReadRun], by: Option<CompareBy>) -> Grouped {
    let names = Names::of(runs);
    let by = by.unwrap_or_else(|| choose(runs, &names));
    let mut platforms: Vec<RunsOf> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let label = names.label(run, by);
        match platforms.iter_mut().find(|known| known.label == label) {
            Some(known) => known.indices.push(index),
            None => platforms.push(RunsOf { label, indices: vec![index] }),
        }
    }
    let is_labelled = runs.iter().all(|run| run.source.label.is_some());
    Grouped { platforms, by: if is_labelled { "label" } else { by.name() } }
}

fn choose(runs: &[ReadRun], names: &Names) -> CompareBy {
    let distinct = |by: CompareBy| runs.iter().map(|run| names.label(run, by)).collect::<BTreeSet<_>>().len();
    let choices = [CompareBy::Scenario, CompareBy::Name, CompareBy::Argument];
    let by = choices.into_iter().find(|&by| distinct(by) > 1).unwrap_or(CompareBy::Scenario);
    // Only directories of several runs: a shell pattern may name each run by a separate argument.
    let mut of_arguments: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for run in runs {
        let (count, labels) = of_arguments.entry(names.label(run, CompareBy::Argument)).or_default();
        *count += usize::from(is_one_of_several(run) || run.source.label.is_some());
        labels.insert(names.label(run, by));
    }
    let is_finer = of_arguments.len() > distinct(by)
        && of_arguments.values().all(|(count, labels)| *count > 1 && labels.len() == 1);
    if is_finer { CompareBy::Argument } else { by }
}

/// Whether the run was found in a directory, and not named itself.
pub(super) fn is_one_of_several(run: &ReadRun) -> bool {
    run.source.path != run.source.argument
}

/// Names of arguments: the last part of the path, or all of it where two end alike.
struct Names {
    ambiguous: BTreeSet<String>,
}

impl Names {
    fn of(runs: &[ReadRun]) -> Self {
        let arguments: BTreeSet<&Path> = runs.iter().map(|run| run.source.argument.as_path()).collect();
        let mut seen = BTreeSet::new();
        let ambiguous = arguments.into_iter().map(last_part).filter(|name| !seen.insert(name.clone()));
        Self { ambiguous: ambiguous.collect() }
    }

    fn label(&self, run: &ReadRun, by: CompareBy) -> String {
        match (&run.source.label, by) {
            (Some(label), _) => label.clone(),
            (None, CompareBy::Scenario) => run.manifest.scenario.clone(),
            (None, CompareBy::Name) => run.manifest.name.clone(),
            (None, CompareBy::Argument) => {
                let name = last_part(&run.source.argument);
                if self.ambiguous.contains(&name) { run.source.argument.shown().to_string() } else { name }
            }
        }
    }
}

fn last_part(path: &Path) -> String {
    let name = path.file_name().map(|name| name.shown().to_string());
    name.unwrap_or_else(|| path.shown().to_string())
}

impl Grouped {
    /// Takes the baseline out: the platform with this label, else the only one on bare metal, else the first.
    /// Fewer platforms than `least` are refused.
    pub(super) fn split(
        mut self,
        runs: &[ReadRun],
        baseline: Option<&str>,
        least: usize,
    ) -> Result<(RunsOf, Self), Refusal> {
        let labels = || listed(self.platforms.iter().map(|platform| &platform.label));
        let at = if let Some(name) = baseline {
            let found = self.platforms.iter().position(|platform| platform.label == name);
            found.ok_or_else(|| Refusal::UnknownPlatform { name: name.to_owned(), known: labels() })?
        } else {
            // Labels come in the user's order.
            let is_bare = |index: &usize| {
                let run = &runs[*index];
                run.source.label.is_none() && run.manifest.scenario.starts_with("BM/")
            };
            let mut bare =
                (0..self.platforms.len()).filter(|&at| self.platforms[at].indices.iter().all(is_bare));
            bare.next().filter(|_| bare.next().is_none()).unwrap_or(0)
        };
        if self.platforms.len() < least {
            return Err(Refusal::OnePlatform(labels()));
        }
        let baseline = self.platforms.remove(at);
        Ok((baseline, self))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{CompareBy, ReadRun, group};
    use crate::folder::Manifest;

    /// Runs by their scenarios and places, `argument:folder`; an argument without a folder is one itself.
    fn runs(all: &[(&str, &str)]) -> Vec<ReadRun> {
        let run = |&(scenario, place): &(&str, &str)| {
            let (argument, folder) = place.split_once(':').unwrap_or((place, ""));
            let path = if folder.is_empty() { argument.to_owned() } else { format!("{argument}/{folder}") };
            let manifest = Manifest { scenario: scenario.to_owned(), ..Manifest::default() };
            ReadRun::of(manifest, argument, &path)
        };
        all.iter().map(run).collect()
    }

    fn labels(runs: &[ReadRun], by: Option<CompareBy>) -> (Vec<(String, usize)>, &'static str) {
        let grouped = group(runs, by);
        let platforms =
            grouped.platforms.into_iter().map(|platform| (platform.label, platform.indices.len()));
        (platforms.collect(), grouped.by)
    }

    const FREE_AND_PINNED: [(&str, &str); 6] = [
        ("MVM/2", "lab/machine:a"),
        ("MVM/2", "lab/machine:b"),
        ("VM/1", "lab/vm-free:a"),
        ("VM/1", "lab/vm-free:b"),
        ("VM/1", "lab/vm-pinned:a"),
        ("VM/1", "lab/vm-pinned:b"),
    ];

    /// Each argument is a directory of one platform's runs, and two of them look alike from inside.
    #[rstest]
    #[case::directories(None, &[("machine", 2), ("vm-free", 2), ("vm-pinned", 2)], "argument")]
    #[case::as_asked_for(Some(CompareBy::Scenario), &[("MVM/2", 2), ("VM/1", 4)], "scenario")]
    fn directories_that_tell_more(
        #[case] by: Option<CompareBy>,
        #[case] expected: &[(&str, usize)],
        #[case] said: &str,
    ) {
        let expected: Vec<_> = expected.iter().map(|&(label, runs)| (label.to_owned(), runs)).collect();
        assert_eq!(labels(&runs(&FREE_AND_PINNED), by), (expected, said));
    }

    /// Days with runs of all platforms, runs named one by one, directories of one run, one directory.
    #[rstest]
    #[case::mixed(&[("BM/2", "monday:a"), ("VM/2", "monday:b"), ("BM/2", "tuesday:a"), ("VM/2", "tuesday:b")])]
    #[case::one_by_one(&[("BM/2", "runs/a"), ("VM/2", "runs/b"), ("BM/2", "runs/c"), ("VM/2", "runs/d")])]
    #[case::one_each(&[("BM/2", "a:x"), ("VM/2", "b:x"), ("BM/2", "c:x"), ("VM/2", "d:x")])]
    #[case::in_one(&[("BM/2", "runs:a"), ("VM/2", "runs:b"), ("BM/2", "runs:c"), ("VM/2", "runs:d")])]
    fn directories_that_tell_less(#[case] all: &[(&str, &str)]) {
        let expected = vec![("BM/2".to_owned(), 2), ("VM/2".to_owned(), 2)];
        assert_eq!(labels(&runs(all), None), (expected, "scenario"));
    }

    #[test]
    fn arguments_that_end_alike_are_two() {
        let all = [("VM/2", "old/runs:a"), ("VM/2", "old/runs:b"), ("VM/2", "new/runs:a")];
        let expected = vec![("old/runs".to_owned(), 2), ("new/runs".to_owned(), 1)];
        assert_eq!(labels(&runs(&all), None), (expected, "argument"));
    }

    #[test]
    fn labels_come_first() {
        let mut all = runs(&FREE_AND_PINNED);
        for run in &mut all {
            run.source.label = Some(run.manifest.scenario.clone());
        }
        assert_eq!(labels(&all, None).0, [("MVM/2".to_owned(), 2), ("VM/1".to_owned(), 4)]);
        let grouped = group(&runs(&FREE_AND_PINNED), None);
        let (baseline, _) = grouped.split(&runs(&FREE_AND_PINNED), None, 2).unwrap();
        assert_eq!(baseline.label, "machine");
    }

    /// In every way of grouping, the platform on bare metal is the baseline.
    #[test]
    fn bare_metal_is_the_baseline() {
        let all = runs(&[("VM/2", "vm:a"), ("VM/2", "vm:b"), ("BM/2", "metal:a"), ("BM/2", "metal:b")]);
        for by in [None, Some(CompareBy::Argument)] {
            let (baseline, others) = group(&all, by).split(&all, None, 2).unwrap();
            assert_eq!((baseline.indices, others.platforms.len()), (vec![2, 3], 1));
        }
    }
}
