//! Whether `explain` names why the request of each incident was slow, by what the programs noted.

use std::{fs, io::Write as _, path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// A program notes that its request takes longer, and then begins it.
const SOON_NS: u64 = 5_000_000;
/// Shorter requests have none of these reasons, ns.
const SLOW_NS: u64 = 50_000_000;

/// A noted reason: when, CLOCK_MONOTONIC in ns, and the account that has the time.
type Fault = (u64, String);

fn noted(file: &Path) -> Vec<Fault> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let fault = |line: &str| {
        let (at_ns, account) = line.split_once(' ')?;
        Some((at_ns.parse().ok()?, account.to_owned()))
    };
    text.lines().filter_map(fault).collect()
}

/// The slow requests of an incident: start in ns, and the cause that is named first.
fn explained(agent: &Path, incident: &Path) -> Result<Vec<(u64, String)>> {
    let mut command = Command::new(agent);
    command.args(["explain", "--json", "--slowest", "10"]).arg(incident);
    let output = command.output().context("could not explain")?;
    let told: Value = serde_json::from_slice(&output.stdout).context("`explain` says nothing")?;
    let groups = told["groups"].as_array().cloned().unwrap_or_default();
    let requests = groups.iter().flat_map(|group| group["explained"].as_array().cloned().unwrap_or_default());
    let slow = requests.filter(|request| request["latency_ns"].as_u64().unwrap_or_default() >= SLOW_NS);
    let first = |request: Value| {
        let cause = request["phases"][0]["parts"][0]["cause"].as_str().unwrap_or_default().to_owned();
        Some((request["start_ns"].as_u64()?, cause))
    };
    Ok(slow.filter_map(first).collect())
}

/// Prints how many slow requests of the incidents are told right; true if all are.
pub(super) fn verdict(agent: &Path, folder: &Path) -> Result<bool> {
    let faults = noted(&folder.join("faults"));
    let incidents = fs::read_dir(folder.join("watch/incidents")).context("there are no incidents")?;
    let mut out = std::io::stdout().lock();
    let (mut right, mut wrong, mut others, mut without) = (0, 0, 0, 0);
    for incident in incidents {
        let incident = incident?.path();
        let slow = explained(agent, &incident)?;
        without += usize::from(slow.is_empty());
        for (start_ns, cause) in slow {
            let fault = faults.iter().find(|(at_ns, _)| (*at_ns..at_ns + SOON_NS).contains(&start_ns));
            match fault {
                Some((_, account)) if *account == cause => right += 1,
                Some((_, account)) => {
                    wrong += 1;
                    writeln!(out, "{}: said {cause}, it was {account}", incident.display())?;
                }
                // The machine itself was busy.
                None => others += 1,
            }
        }
    }
    writeln!(
        out,
        "slow requests in incidents: {right} told right, {wrong} wrong, {others} that no program made slow; \
         incidents without one (asked for): {without}"
    )?;
    Ok(wrong == 0 && right > 0)
}
