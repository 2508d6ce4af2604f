//! The configuration of `watch`: TOML, checked as a whole before anything begins.
//!
//! Yields [`Config`], in which every value is within its bounds. Unknown keys are refused, with the nearest
//! known one. docs/watch.md describes the keys; a test compares them.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use guestscope_base::Hint;

use super::{
    tables::{Config, Incidents, Observe, Program, Recorder},
    trigger::Trigger,
};
use crate::{
    guarded,
    phase::{OPEN_REQUESTS, PHASES_PER_REQUEST},
    session::Observation,
    sinks::otlp,
    sources::{self, socket::Watched},
    untrusted::{Shown as _, Untrusted},
};

/// Most bytes of a configuration.
const MOST_BYTES: u64 = 1 << 20;
/// Most programs, and most triggers.
const MOST: usize = 256;
/// Fewest bytes that a recorder works with.
const LEAST_BYTES: u64 = 16 << 20;

/// Why a configuration is refused. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("reading the configuration {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not as it should be.
    #[error("{}: {place}{what}", path.shown())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// `line 3: `, if that is known.
        place: String,
        /// What is wrong.
        what: Untrusted,
        /// What to do about it.
        hint: Option<String>,
    },
}

impl Hint for ConfigError {
    fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Read { .. } => {
                Some("`guestscope watch --help` has an example; docs/watch.md describes every key".to_owned())
            }
            ConfigError::Wrong { hint, .. } => hint.clone(),
        }
    }
}

/// Something that is wrong with a value.
struct Wrong {
    what: String,
    hint: Option<String>,
}

impl Wrong {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    fn within(self, path: &Path) -> ConfigError {
        let Self { what, hint } = self;
        ConfigError::Wrong { path: path.to_owned(), place: String::new(), what: what.into(), hint }
    }
}

impl Config {
    /// Reads and checks a file to begin with: collectors, too, which takes an event loop. An agent that runs
    /// can neither make one beside its own nor change its collectors.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub(super) fn read_first(path: &Path) -> Result<Self, ConfigError> {
        let config = Self::read(path)?;
        config.check_collectors().map_err(|wrong| wrong.within(path))?;
        Ok(config)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let bytes = guarded::read_begin(path, MOST_BYTES).map_err(read)?;
        let text = String::from_utf8(bytes).map_err(|_| Wrong::new("is not UTF-8").within(path))?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            let (what, hint) = (error.message().into(), nearest(error.message()));
            ConfigError::Wrong { path: path.to_owned(), place, what, hint }
        })?;
        config.check().map_err(|wrong| wrong.within(path))?;
        Ok(config)
    }

    /// What holds after a new configuration was read from this file, without a restart: some of the new one,
    /// the rest of this one.
    ///
    /// # Errors
    /// Both together are wrong, though each is right by itself.
    pub(super) fn with(&self, new: Self, path: &Path) -> Result<Self, ConfigError> {
        let Self { programs, triggers, incidents, agent, .. } = new;
        let kept = Self { programs, triggers, incidents, agent, ..self.clone() };
        kept.check().map_err(|wrong| wrong.within(path))?;
        Ok(kept)
    }

    fn check(&self) -> Result<(), Wrong> {
        let Self { name, programs, triggers, recorder, incidents, agent, .. } = self;
        if name.is_empty() {
            return Err(Wrong::new("name: is empty"));
        }
        if programs.is_empty() {
            return Err(Wrong::new("selects no program").hint(
                "add a table [[programs]] with executable, command, cgroup, container, port or marked; \
                 `command = \"*\"` selects all",
            ));
        }
        if programs.len() > MOST || triggers.len() > MOST {
            return Err(Wrong::new(format!("more than {MOST} tables of one kind")));
        }
        programs.iter().try_for_each(Program::check)?;
        triggers.iter().try_for_each(|trigger| trigger.check().map_err(Wrong::new))?;
        if !(0.1..=100.0).contains(&agent.cpu_percent) {
            return Err(Wrong::new("agent.cpu_percent: not between 0.1 and 100"));
        }
        let all = incidents.before.0 + incidents.after.0;
        if recorder.window.0 < all + recorder.segment.0 * 2 {
            return Err(Wrong::new("recorder.window: shorter than an incident and two segments").hint(
                "lengthen recorder.window, or shorten incidents.before, incidents.after or recorder.segment",
            ));
        }
        if !(Duration::from_secs(1)..=Duration::from_mins(10)).contains(&recorder.segment.0) {
            return Err(Wrong::new("recorder.segment: not between 1s and 10m"));
        }
        if recorder.keep.0 < LEAST_BYTES || incidents.keep.0 < LEAST_BYTES {
            return Err(Wrong::new("recorder.keep, incidents.keep: less than 16MiB"));
        }
        if !recorder.rows && !triggers.is_empty() {
            return Err(Wrong::new("triggers: nothing can be kept where recorder.rows is false"));
        }
        if incidents.per_hour == 0 {
            return Err(Wrong::new("incidents.per_hour: must be at least 1"));
        }
        self.observation().map(drop)
    }

    /// Refuses what the exporters would refuse. Not for async callers.
    fn check_collectors(&self) -> Result<(), Wrong> {
        let given = [("observe.otlp", &self.observe.otlp), ("metrics.otlp", &self.metrics.otlp)];
        for (key, endpoint) in given {
            if let Some(endpoint) = endpoint
                && let Err(error) = otlp::check(Some(endpoint))
            {
                return Err(Wrong { what: format!("{key}: {error}"), hint: error.hint() });
            }
        }
        Ok(())
    }

    /// The options of `attach` that it stands for.
    fn observation(&self) -> Result<Observation, Wrong> {
        let Observe { requests, phases, wait_threshold, max_threads, otlp, btf } = self.observe.clone();
        let refused = |key: &str, text: &str, why: &dyn fmt::Display| {
            Wrong::new(format!("observe.{key}: {}: {why}", Untrusted::from(text)))
        };
        let watched = |text: &String| Watched::parse(text).map_err(|error| refused("requests", text, &error));
        let asked =
            |text: &String| sources::function::parse(text).map_err(|error| refused("phases", text, &error));
        let max_threads = max_threads.unwrap_or(guestscope_contract::SLOTS);
        if !(8..=65_535).contains(&max_threads) {
            return Err(Wrong::new("observe.max_threads: not between 8 and 65535"));
        }
        let threshold = wait_threshold.map_or(crate::loader::WAIT_THRESHOLD, |time| time.0);
        if threshold > Duration::from_secs(4) {
            return Err(Wrong::new("observe.wait_threshold: more than 4s"));
        }
        Ok(Observation {
            name: Some(self.name.clone()),
            no_args: false,
            sample: (!self.recorder.rows).then_some(0.0),
            keep: None,
            output: self.directory.join("recorder"),
            otlp,
            // No progress line: nobody looks at it.
            json: true,
            max_threads,
            max_open_requests: OPEN_REQUESTS,
            max_phases_per_request: PHASES_PER_REQUEST,
            wait_threshold: threshold,
            requests: requests.iter().map(watched).collect::<Result<_, _>>()?,
            phase: phases.iter().map(asked).collect::<Result<_, _>>()?,
            btf,
            kernel_log: false,
        })
    }

    /// The options of `attach` that a checked configuration stands for.
    pub(super) fn observed(&self) -> Option<Observation> {
        self.observation().ok()
    }

    /// Triggers: those given, else one that works everywhere; none where nothing is kept.
    pub(super) fn triggers(&self) -> Vec<Trigger> {
        if !self.recorder.rows {
            return Vec::new();
        }
        if self.triggers.is_empty() { vec![Trigger::usual()] } else { self.triggers.clone() }
    }

    /// Whether the other one differs in what is taken over only at the next start.
    pub(super) fn needs_restart(&self, new: &Self) -> bool {
        let fixed =
            |one: &Self| (one.name.clone(), one.directory.clone(), one.socket.clone(), one.observe.clone());
        fixed(self) != fixed(new) || self.recorder != new.recorder || self.metrics != new.metrics
    }

    /// What is kept, for people.
    fn kept(&self) -> Vec<String> {
        let mut lines = vec!["keeps an incident when:".to_owned()];
        lines.extend(self.triggers().iter().map(|trigger| format!("  {trigger}")));
        let Recorder { window, keep, .. } = &self.recorder;
        lines.push(format!("records the last {window}, at most {keep}, in {}", self.directory.shown()));
        let Incidents { before, after, per_hour, alike_for, keep } = &self.incidents;
        lines.push(format!(
            "an incident has {before} before and {after} after what was noticed; at most {per_hour} an hour and \
             {keep}; alike ones within {alike_for} are counted"
        ));
        lines
    }

    /// What it means, for people.
    pub(super) fn told(&self) -> String {
        let mut lines = vec!["observes programs that fit any of these:".to_owned()];
        lines.extend(self.programs.iter().map(|program| format!("  {program}")));
        if self.recorder.rows {
            lines.extend(self.kept());
        } else {
            lines.push("keeps no rows and no incidents: metrics, `ctl status` and `top` alone".to_owned());
        }
        let more = if self.agent.see_all { ", and more to look at every request" } else { "" };
        lines.push(format!("may take {} % of the guest's CPU time{more}", self.agent.cpu_percent));
        lines.extend(self.metrics.listen.map(|at| format!("gives metrics out at http://{at}/metrics")));
        let pushed = self.metrics.otlp.as_deref().map(Untrusted::from);
        lines.extend(pushed.map(|at| format!("pushes metrics to {at}")));
        lines.join("\n") + "\n"
    }
}

impl Program {
    fn check(&self) -> Result<(), Wrong> {
        let texts = [&self.executable, &self.command, &self.cgroup, &self.container];
        if self.port.is_none() && !self.marked && texts.iter().all(|text| text.is_none()) {
            return Err(Wrong::new(
                "programs: a table without any of executable, command, cgroup, container, port, marked",
            ));
        }
        if texts.into_iter().flatten().any(String::is_empty) || self.port == Some(0) {
            return Err(Wrong::new("programs: an empty value selects nothing"));
        }
        Ok(())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.map(|port| port.to_string());
        let parts = [
            ("executable", &self.executable),
            ("command", &self.command),
            ("cgroup", &self.cgroup),
            ("container", &self.container),
            ("port", &port),
        ];
        let given = parts.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let mut words: Vec<String> =
            given.map(|(key, value)| format!("{key} {}", Untrusted::from(value.as_str()))).collect();
        words.extend(self.marked.then(|| "marks phases".to_owned()));
        formatter.write_str(&words.join(", "))
    }
}

/// The known key that is nearest to an unknown one, from serde's message.
fn nearest(message: &str) -> Option<String> {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (unknown, known) = quoted.split_first()?;
    if !message.starts_with("unknown field") {
        return None;
    }
    let near = known.iter().map(|key| (strsim::osa_distance(unknown, key), key));
    let (_, key) = near.filter(|(distance, _)| *distance <= 3).min()?;
    Some(format!("did you mean `{key}`?"))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
