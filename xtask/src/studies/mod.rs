//! The verb `studies`: every row of the workloads' list once under the agent, and one table of what each took.
//!
//! Prints workload, median and phases, speed, and the share of each account, and writes the same to target/studies/studies.json.
//! Sizes are those of the studies with --full; else a row that would take an hour is cut, and its line says to what.

mod plan;
mod table;

use std::{fs, io::Write as _, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use self::{plan::Planned, table::Line};
use crate::{
    Xtask, artifact, bench, command::tail, failure::failure, kernel, libtorch::Libtorch, toolchain::Toolchain,
};

/// What is typed.
pub(crate) struct Options {
    /// Begins of names of rows; all of them if there is none.
    pub(crate) names: Vec<String>,
    /// Whether the sizes are those of the studies.
    pub(crate) full: bool,
    /// Of the workloads; as many as there are, if none are named.
    pub(crate) threads: Option<u16>,
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
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let planned = plan::of(&name, options.full, options.threads, &folder);
        let step = xtask.progress.step(&name);
        match observe(&agent, &workloads, &folder, &name, &planned) {
            Ok(line) => {
                step.done(line.latency());
                lines.push(line);
            }
            Err(error) => {
                step.failed();
                failed.push(json!({ "name": name, "error": format!("{error:#}") }));
            }
        }
    }
    let file = folder.join("studies.json");
    let rows: Vec<Value> = lines.iter().map(Line::json).collect();
    let all = json!({ "full": options.full, "rows": rows, "failed": failed });
    fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
    let mut out = std::io::stdout().lock();
    write!(out, "{}", table::text(&lines))?;
    for failure in &failed {
        let text = |key: &str| failure[key].as_str().unwrap_or_default().to_owned();
        writeln!(out, "{}: {}", text("name"), text("error"))?;
    }
    writeln!(out, "\nwritten to {}", file.display())?;
    Ok(failed.is_empty())
}

/// The names of all rows but the stalls, which belong to no study.
fn listed(workloads: &Path) -> Result<Vec<String>> {
    let output = Command::new(workloads).args(["list", "--json"]).output()?;
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).context("the workloads' list")?;
    let names = rows.iter().filter_map(|row| row["name"].as_str());
    Ok(names.filter(|name| !name.starts_with("stall ")).map(str::to_owned).collect())
}

/// Those that begin with one of what was asked for.
fn chosen(all: &[String], asked: &[String]) -> Result<Vec<String>> {
    let fits = |name: &str, begin: &str| {
        name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    if let Some(unknown) = asked.iter().find(|begin| !all.iter().any(|name| fits(name, begin))) {
        let hint = format!("rows are: {}", all.join(", "));
        return Err(failure(format!("no such row: {unknown}"), hint));
    }
    let is_asked = |name: &&String| asked.is_empty() || asked.iter().any(|begin| fits(name, begin));
    Ok(all.iter().filter(is_asked).cloned().collect())
}

fn observe(agent: &Path, workloads: &Path, folder: &Path, name: &str, planned: &Planned) -> Result<Line> {
    let mut command = Command::new(agent);
    command.args(["run", "--json", "--name", &name.replace(' ', "-"), "--output"]);
    command.arg(folder.join("runs")).arg("--").arg(workloads);
    command.args(name.split(' ')).args(&planned.words).arg("--json");
    let output = command.output().context("could not start the agent")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, tail(&said));
    let (workload, agent) = bench::two_results(&String::from_utf8_lossy(&output.stdout))?;
    Line::new(name, planned, &workload, &agent)
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
