//! Which runs are of one platform.

use std::collections::BTreeSet;

use super::{error::Refusal, read::ReadRun};
use crate::cli::CompareBy;

/// Runs by platform, in the order in which platforms first come.
#[derive(Debug)]
pub(super) struct Grouped {
    /// Label and indices of its runs.
    pub(super) platforms: Vec<(String, Vec<usize>)>,
    /// What they were told apart by.
    pub(super) by: &'static str,
}

/// Groups runs. Without a wish: by labels where there are any, else by scenario, by name, by argument, whichever first
/// tells any two apart.
pub(super) fn group(runs: &[ReadRun], by: Option<CompareBy>) -> Grouped {
    let label = |run: &ReadRun, by: CompareBy| match (&run.source.label, by) {
        (Some(label), _) => label.clone(),
        (None, CompareBy::Scenario) => run.manifest.scenario.clone(),
        (None, CompareBy::Name) => run.manifest.name.clone(),
        (None, CompareBy::Argument) => argument_label(run),
    };
    let distinct = |by: CompareBy| runs.iter().map(|run| label(run, by)).collect::<BTreeSet<_>>().len();
    let choices = [CompareBy::Scenario, CompareBy::Name, CompareBy::Argument];
    let by = by.or_else(|| choices.into_iter().find(|&by| distinct(by) > 1)).unwrap_or(CompareBy::Scenario);
    let mut platforms: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let label = label(run, by);
        match platforms.iter_mut().find(|(known, _)| *known == label) {
            Some((_, indices)) => indices.push(index),
            None => platforms.push((label, vec![index])),
        }
    }
    let is_labelled = runs.iter().all(|run| run.source.label.is_some());
    Grouped { platforms, by: if is_labelled { "label" } else { by.name() } }
}

fn argument_label(run: &ReadRun) -> String {
    let argument = &run.source.argument;
    let name = argument.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| argument.display().to_string())
}

impl Grouped {
    /// Takes the baseline out: the one that was asked for, else the only one on bare metal, else the first. Fewer platforms
    /// than `least` are refused.
    pub(super) fn split(
        mut self,
        baseline: Option<&str>,
        least: usize,
    ) -> Result<((String, Vec<usize>), Self), Refusal> {
        let labels = || self.platforms.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>().join(", ");
        let at = if let Some(name) = baseline {
            let found = self.platforms.iter().position(|(label, _)| label == name);
            found.ok_or_else(|| Refusal::UnknownPlatform { name: name.to_owned(), known: labels() })?
        } else {
            let is_bare = |(label, _): &(String, Vec<usize>)| label.starts_with("BM/");
            let mut bare = (0..self.platforms.len()).filter(|&index| is_bare(&self.platforms[index]));
            bare.next().filter(|_| bare.next().is_none()).unwrap_or(0)
        };
        if self.platforms.len() < least {
            return Err(Refusal::OnePlatform(labels()));
        }
        let baseline = self.platforms.remove(at);
        Ok((baseline, self))
    }
}
