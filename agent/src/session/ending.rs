//! The end of a run: the last records, what is still open, the export, the folder, the summary.

use std::{io::Write as _, path::Path, process::ExitStatus, time::Duration};

use anyhow::Context as _;

use super::{Session, exit_code, outlet::Sinks};
use crate::{
    analyze::{Summary, TailVerdict},
    cli::RunArguments,
    clock::{self, ClockPair},
    health::{ExportHealth, Fidelity, Health},
    phase::Phase,
    run::{
        self, Folder, RunFolder,
        manifest::{Exit, Manifest},
    },
    sinks::{
        otlp,
        terminal::{self, RunFacts, Style},
    },
};

/// The child's last switch comes after its end is reported: a few more drains catch its exit.
const LAST_DRAINS: u32 = 20;
const BETWEEN_DRAINS: Duration = Duration::from_millis(5);

impl Session {
    pub(super) fn finish(mut self, status: ExitStatus, arguments: &RunArguments) -> anyhow::Result<i32> {
        self.last_records();
        let workload = self.rendezvous.workload();
        let kernel = self.loaded.losses().unwrap_or_default();
        let mut health = Health {
            fidelity: Fidelity::Full,
            hooks: self.loaded.verdicts.clone(),
            kernel,
            pairing: self.pairing.losses,
            cost: self.cost.so_far(),
            export: ExportHealth::default(),
            folder_error: None,
            rows_lost: self.outlet.requests_lost,
        };
        let sinks = self.outlet.finish().context("the thread that writes the run folder failed")?;
        let Sinks { mut folder, exporter, .. } = sinks;
        if let Some(exporter) = &exporter {
            health.export = exporter.finish(otlp::FINISH);
        }
        health.cost = self.cost.so_far();
        let path = folder.path().to_owned();
        let summary = summarise(&path);
        folder.update_manifest(|manifest| ended(manifest, status, workload, &health));
        let closed = close(folder, summary.as_ref().ok(), &path);
        if let Err(error) = &closed {
            health.folder_error = Some(format!("{error:#}"));
        }
        let facts = RunFacts::new(&self.guest, &self.identity.command, &path, status);
        tell(&summary?, &health, &facts, arguments.json)?;
        Ok(exit_code(status))
    }

    /// Everything that the program did is in the rings or on its way there; then what lives on is closed.
    fn last_records(&mut self) {
        for _ in 0..LAST_DRAINS {
            self.drain();
            if self.pairing.live_threads().next().is_none() {
                break;
            }
            std::thread::sleep(BETWEEN_DRAINS);
        }
        let slots: Vec<u16> = self.pairing.live_threads().map(|(_, slot)| slot).collect();
        let ledgers: Vec<_> = slots.into_iter().filter_map(|slot| self.loaded.ledger(slot)).collect();
        self.pairing.stop(clock::now_ns(), &ledgers);
        self.drain();
    }
}

fn summarise(path: &Path) -> anyhow::Result<Summary> {
    let folder = Folder::open(path)?;
    Ok(Summary::read(|| folder.requests())?)
}

fn ended(manifest: &mut Manifest, status: ExitStatus, workload: Option<serde_json::Value>, health: &Health) {
    use std::os::unix::process::ExitStatusExt as _;
    if let Some(child) = &mut manifest.child {
        child.exit = status.code().map(Exit::Code).or_else(|| status.signal().map(Exit::Signal));
    }
    manifest.workload = workload.and_then(|value| value.as_object().cloned());
    manifest.set_end(ClockPair::now().into());
    manifest.set_health(health);
}

/// Closes the folder; the causes and tails of its rows come from the whole run's summary. Rows are converted in the
/// order in which requests are read, so a second reading goes along with the conversion.
fn close(folder: RunFolder, summary: Option<&Summary>, path: &Path) -> anyhow::Result<run::Closed> {
    let reader = Folder::open(path)?;
    let mut requests = reader.requests()?;
    let mut verdicts: std::collections::VecDeque<TailVerdict> = std::collections::VecDeque::new();
    let mut explain = |_: &Phase| {
        if verdicts.is_empty()
            && let Some(Ok(request)) = requests.next()
        {
            let judged = summary.map(|summary| summary.verdicts(&request));
            verdicts = judged.unwrap_or_else(|| vec![TailVerdict::default(); request.phases.len()]).into();
        }
        let verdict = verdicts.pop_front().unwrap_or_default();
        (verdict.cause.map(|cause| cause.name().into()), verdict.tail.map(|band| band.name().into()))
    };
    Ok(folder.close(&mut explain)?)
}

fn tell(summary: &Summary, health: &Health, facts: &RunFacts, json: bool) -> anyhow::Result<()> {
    let text = if json {
        terminal::render_summary_json(summary, health, facts)
    } else {
        terminal::render_summary(summary, health, facts, &Style::of_stdout())
    };
    // A reader that went away (`| head`) is no failure of the run.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
