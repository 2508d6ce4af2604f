//! A resident agent beside programs that come and go, for any length of time.
//!
//! Four programs make requests of five phases; each ends after a minute, and another one starts. One request
//! of each takes longer for a reason that the program notes. Incidents are made of such requests, and asked
//! for every five minutes. Prints a row a minute, then CPU time, memory and its slope, disk, what was lost by
//! the agent's own books, and for how many incidents `explain` names the reason.

mod told;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::soak::{Helper, Look, Options, look, prepared, slope};
use crate::Xtask;

/// Programs at a time.
const PROGRAMS: usize = 4;
/// Each lives for so long.
const LIFE: Duration = Duration::from_mins(1);
/// Time between two incidents.
const INCIDENTS: Duration = Duration::from_mins(5);
/// Memory in the first minute still grows from the start of the agent.
const WARM_UP: Duration = Duration::from_mins(1);
/// What is allowed: part of the guest's CPU time, memory, disk.
const CPU: f64 = 0.01;
const RSS_KB: f64 = 40.0 * 1024.0;
const DISK_MIB: u64 = 256;

/// Programs that take part, and the folder of the agent.
struct Place {
    agent: PathBuf,
    soak: PathBuf,
    folder: PathBuf,
}

/// The verb, for this part alone.
pub(super) fn verb(xtask: &mut Xtask, options: Options) -> Result<bool> {
    let (agent, soak, folder) = prepared(xtask, "bench/resident")?;
    let place = Place { agent, soak, folder };
    let (mut agent, mut programs) = (place.start()?, Vec::new());
    let (looks, status) = place.watch(&mut agent, &mut programs, options)?;
    drop(programs);
    let is_within = verdict(&looks, &status, place.disk_mib())?;
    Ok(told::verdict(&place.agent, &place.folder)? && is_within)
}

impl Place {
    fn start(&self) -> Result<Helper> {
        let config = format!(
            "directory = '{}'\nsocket = '{}'\n[[programs]]\nexecutable = '{}'\n\
             [[triggers]]\nslower_than = '50ms'\n[recorder]\nkeep = '{}MiB'\n\
             [incidents]\nkeep = '{}MiB'\nper_hour = 60\nalike_for = '1m'\n",
            self.folder.join("watch").display(),
            self.folder.join("socket").display(),
            self.soak.display(),
            DISK_MIB / 2,
            DISK_MIB / 2
        );
        fs::write(self.folder.join("watch.toml"), config)?;
        let mut command = Command::new(&self.agent);
        command.args(["watch", "--config"]).arg(self.folder.join("watch.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(self.folder.join("err"))?);
        Ok(Helper(command.spawn().context("could not start the agent")?))
    }

    fn program(&self, rate: u64) -> Result<Helper> {
        let mut command = Command::new(&self.soak);
        command
            .args(["program", &LIFE.as_secs().to_string(), &rate.to_string()])
            .args([self.folder.join("note"), self.folder.join("faults")]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Helper(command.spawn().context("could not start a program")?))
    }

    fn ask(&self, what: &str) -> Result<Value> {
        let mut command = Command::new(&self.agent);
        command.args(["ctl", what, "--json", "--socket"]).arg(self.folder.join("socket"));
        let output = command.output().context("could not ask the agent")?;
        serde_json::from_slice(&output.stdout).context("the agent does not answer")
    }

    /// Prints a row a minute. Returns looks after the first minute, and the last status.
    fn watch(
        &self,
        agent: &mut Helper,
        programs: &mut Vec<Helper>,
        options: Options,
    ) -> Result<(Vec<Look>, Value)> {
        let (start, all) = (Instant::now(), Duration::from_secs(options.minutes * 60));
        let (mut looks, mut last) = (Vec::new(), Look::default());
        let (mut next_row, mut next_incident) = (Duration::from_mins(1), INCIDENTS);
        let mut out = std::io::stdout().lock();
        writeln!(out, "minute  RSS kB  CPU %  requests/s  processes  recorder MiB  incidents")?;
        while start.elapsed() < all && agent.0.try_wait()?.is_none() {
            programs.retain_mut(|one| one.0.try_wait().is_ok_and(|ended| ended.is_none()));
            // One after the other, so that they do not all end at the same time.
            if programs.len() < PROGRAMS {
                programs.push(self.program(options.rate / PROGRAMS as u64)?);
            }
            thread::sleep(Duration::from_secs(1));
            let Some(look) = look(agent.0.id(), start.elapsed()) else { continue };
            if start.elapsed() >= WARM_UP {
                looks.push(look);
            }
            if start.elapsed() >= next_incident {
                next_incident += INCIDENTS;
                self.ask("trigger")?;
            }
            if start.elapsed() >= next_row {
                next_row += Duration::from_mins(1);
                let status = self.ask("status")?;
                let cpu = 100.0 * (look.cpu_s - last.cpu_s) / (look.seconds - last.seconds);
                let number = |name: &str| status[name].as_f64().unwrap_or_default();
                writeln!(
                    out,
                    "{:6.1}  {:6.0}  {cpu:5.1}  {:10.1}  {:9}  {:12.1}  {:9}",
                    look.seconds / 60.0,
                    look.rss_kb,
                    number("requests_per_s"),
                    number("processes"),
                    number("recorder_bytes") / f64::from(1 << 20),
                    number("incidents")
                )?;
                out.flush()?;
                last = look;
            }
        }
        let status = self.ask("status")?;
        Ok((looks, status))
    }

    fn disk_mib(&self) -> u64 {
        fn below(folder: &Path) -> u64 {
            use std::os::unix::fs::MetadataExt as _;
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let of = |entry: fs::DirEntry| match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => below(&entry.path()),
                Ok(metadata) => metadata.blocks() * 512,
                Err(_) => 0,
            };
            entries.map(of).sum()
        }
        below(&self.folder.join("watch")) >> 20
    }
}

/// Prints the result; true if all is within what is allowed.
fn verdict(looks: &[Look], status: &Value, disk_mib: u64) -> Result<bool> {
    let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let (first, last) =
        (looks.first().context("it took less than a minute")?, looks.last().context("as above")?);
    let cpu = (last.cpu_s - first.cpu_s) / (last.seconds - first.seconds).max(1.0) / cpus;
    let peak = looks.iter().map(|look| look.rss_kb).fold(0.0, f64::max);
    let slope = slope(&looks[looks.len() / 2..]);
    let losses = status["losses"].as_object().cloned().unwrap_or_default();
    // A program that ends leaves its last request open.
    let is_edge = |name: &str| name.contains("edges_lost") || name == "kernel_edges" || name.contains("torn");
    let edges: u64 =
        losses.iter().filter(|(name, _)| is_edge(name)).filter_map(|(_, count)| count.as_u64()).sum();
    let rows = status["rows_lost"].as_u64().unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let row = |name: &str, value: String, most: String, is_well: bool| {
        format!("{name:<34} {value:>14} {most:>14}  {}\n", if is_well { "yes" } else { "NO" })
    };
    let rows = [
        row("CPU time, part of the guest", format!("{:.2} %", cpu * 100.0), "1.00 %".to_owned(), cpu <= CPU),
        row("memory, most", format!("{:.1} MB", peak / 1024.0), "40.0 MB".to_owned(), peak <= RSS_KB),
        row(
            "memory, slope of the second half",
            format!("{slope:+.0} kB/h"),
            "2000 kB/h".to_owned(),
            slope < 2_000.0,
        ),
        row("disk", format!("{disk_mib} MiB"), format!("{DISK_MIB} MiB"), disk_mib <= DISK_MIB),
        row("edges lost", edges.to_string(), "0".to_owned(), edges == 0),
        row("rows lost", rows.to_string(), "0".to_owned(), rows == 0),
    ];
    writeln!(out, "\n{:<34} {:>14} {:>14}", "what", "measured", "must hold")?;
    for text in &rows {
        write!(out, "{text}")?;
    }
    writeln!(out, "losses by the agent's books: {}", Value::Object(losses))?;
    writeln!(out, "incidents kept: {}, failed: {}", status["incidents"], status["incidents_failed"])?;
    // Less than 1: the governor holds the agent within its share.
    writeln!(
        out,
        "requests: {}, not looked at: {}; at the end it looks at {} of them, and keeps the rows of {} of those",
        status["requests"], status["requests_unseen"], status["seen_part"], status["kept_part"]
    )?;
    Ok(rows.iter().all(|text| text.ends_with("yes\n")))
}
