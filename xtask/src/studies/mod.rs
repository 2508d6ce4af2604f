//! The verb `studies`: every row of the workloads' list once under the agent, with the studies' further
//! scenarios, and one table of the results.
//!
//! Prints each workload's median, its phases, its speed, and the share of each account, and keeps the same in
//! target/studies/studies.json. Rows of earlier calls stay there and are printed below, until they run again.
//! --full uses the studies' sizes; otherwise a row that would take an hour is cut, and its line says to what.

mod data;
mod plan;
mod record;
mod supply;
mod table;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use self::{
    data::Data,
    record::{Failed, Record},
    table::Line,
};
use crate::{
    Xtask, artifact, bench, command, failure::failure, kernel, libtorch::Libtorch, toolchain::Toolchain,
};

/// Options of the verb.
pub(crate) struct Options {
    /// Prefixes of row names; all rows if empty.
    pub(crate) names: Vec<String>,
    /// Whether the sizes are those of the studies.
    pub(crate) full: bool,
    /// Threads of the workloads; as many as CPUs if none.
    pub(crate) threads: Option<u16>,
}

/// State while rows run.
struct Study<'a> {
    options: &'a Options,
    agent: PathBuf,
    workloads: PathBuf,
    folder: PathBuf,
    data: Data,
}

/// The verb. Gives whether every row ended well.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    let libtorch = Libtorch::ensure(xtask)?;
    kernel::ensure(xtask);
    let agent = match bench::built("GUESTSCOPE_BIN")? {
        Some(agent) => agent,
        None => artifact::agent(xtask, &Toolchain::ensure(xtask)?)?,
    };
    let workloads = match bench::built("GUESTSCOPE_WORKLOADS_BIN")? {
        Some(workloads) => workloads,
        None => artifact::workloads(xtask, Some(&libtorch))?,
    };
    xtask.cache.release();
    let names = chosen(&listed(&workloads)?, &options.names)?;
    let folder = xtask.workspace.target.join("studies");
    fs::create_dir_all(&folder)?;
    let file = folder.join("studies.json");
    let mut record = Record::open(file.clone())?;
    let commit = xtask.workspace.commit();
    let commit = commit.as_deref();
    let data = Data::new(&folder);
    let mut study = Study { options, agent, workloads, folder, data };
    let (mut ended_well, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let step = xtask.progress.step(&name);
        match study.row(&name, commit) {
            Ok(line) => {
                step.done(line.latency());
                failed.extend(line.wanting().into_iter().map(|what| format!("{name}: {what}")));
                record.keep(line)?;
                ended_well.push(name);
            }
            Err(error) => {
                step.failed();
                let error = format!("{error:#}");
                failed.push(format!("{name}: {error}"));
                record.fail(Failed { name, commit: commit.map(str::to_owned), error })?;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    let (new, earlier): (Vec<&Line>, Vec<&Line>) =
        record.rows().iter().partition(|row| ended_well.contains(&row.name));
    write!(out, "{}", table::text(new))?;
    if !earlier.is_empty() {
        let commits: BTreeSet<&str> =
            earlier.iter().map(|row| row.commit.as_deref().unwrap_or("no commit")).collect();
        let commits: Vec<&str> = commits.into_iter().collect();
        write!(out, "\nof earlier calls ({}):\n{}", commits.join(", "), table::text(earlier))?;
    }
    for failure in &failed {
        writeln!(out, "{failure}")?;
    }
    writeln!(out, "\nwritten to {}", file.display())?;
    Ok(failed.is_empty())
}

/// The names of all rows but the stalls, which belong to no study.
fn listed(workloads: &Path) -> Result<Vec<String>> {
    let output = Command::new(workloads).args(["list", "--json"]).output()?;
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).context("the workloads' list")?;
    let names = rows.iter().filter_map(|row| row["name"].as_str());
    let names = names.filter(|name| !name.starts_with("stall ")).map(str::to_owned);
    Ok(names.chain(plan::scenarios().map(str::to_owned)).collect())
}

/// Rows whose names begin with one of those asked for; an exact name gives that row in all its sizes, without
/// its scenarios.
fn chosen(all: &[String], asked: &[String]) -> Result<Vec<String>> {
    let fits = |name: &str, begin: &str| {
        let is_exact = all.iter().any(|other| other == begin);
        name.strip_prefix(begin)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(if is_exact { " --" } else { " " }))
    };
    if let Some(unknown) = asked.iter().find(|begin| !all.iter().any(|name| fits(name, begin))) {
        let hint = format!("rows are: {}", all.join(", "));
        return Err(failure(format!("no such row: {unknown}"), hint));
    }
    let is_asked = |name: &&String| asked.is_empty() || asked.iter().any(|begin| fits(name, begin));
    Ok(all.iter().filter(is_asked).cloned().collect())
}

impl Study<'_> {
    /// Runs a row under the agent.
    fn row(&mut self, name: &str, commit: Option<&str>) -> Result<Line> {
        let Options { full, threads, .. } = *self.options;
        self.data.ensure(&self.workloads, name, full)?;
        let planned = plan::of(name, full, threads, &self.data);
        let mut command = Command::new(&self.agent);
        command.args(["run", "--json", "--name", &name.replace(' ', "-"), "--output"]);
        command.arg(self.folder.join("runs")).arg("--").arg(&self.workloads);
        let output = command::output(command.args(&planned.words).arg("--json"))?;
        self.data.has_flights |= name == plan::GENERATE;
        let (workload, agent) = bench::two_results(&String::from_utf8_lossy(&output.stdout))?;
        Line::new(name, commit, &planned, &workload, &agent)
    }
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn rows_are_chosen_by_the_words_that_they_begin_with() {
        let all =
            ["train alexnet", "train alexnet-tf", "h2o mlp", "h2o mlp --size memory"].map(str::to_owned);
        let of =
            |asked: &[&str]| chosen(&all, &asked.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).unwrap(), all);
        assert_eq!(of(&["train alexnet"]).unwrap(), ["train alexnet"]);
        assert_eq!(of(&["h2o"]).unwrap(), all[2..]);
        assert_eq!(of(&["h2o mlp", "train"]).unwrap(), all);
        assert_eq!(
            of(&["train alex"]).unwrap_err().to_string().lines().next(),
            Some("no such row: train alex")
        );
    }
}
