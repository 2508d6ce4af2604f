//! Turns the output of a workload and the agent into a line of the table: medians, speed, and where the time
//! went.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{GENERATE, Planned};

/// Requests in which h2o rows read their flights, and write missing ones; they are not part of the work.
const LOAD: &str = "load";
const BLOCK: &str = "block";
/// Requests of training; a parameter server and a job beside it have other names.
const STEP: &str = "step";
/// Smaller shares of accounts are only in the JSON.
const LEAST_SHARE: f64 = 0.001;
/// The account of unexplained time, and its largest share.
const OTHER: &str = "other";
const MOST_OTHER: f64 = 0.01;
/// The agent's name for time of a request outside its phases.
const OUTSIDE: &str = "(outside phases)";
/// Least share of the requests' time that phases have to cover.
const LEAST_COVER: f64 = 0.99;
/// Key of a workload's speed, and its unit.
const SPEEDS: [(&str, &str); 4] = [
    ("images_per_s", "images/s"),
    ("samples_per_s", "samples/s"),
    ("rows_per_s", "flights/s"),
    ("requests_per_s", "requests/s"),
];

/// A line of the table: one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Commit of the programs; none outside git.
    pub(super) commit: Option<String>,
    /// What was cut from the study's size.
    cut: Option<String>,
    fidelity: String,
    requests: u64,
    p50_ns: f64,
    /// Speed with its unit.
    speed: Option<(f64, String)>,
    /// Share of the requests' time that lies inside their outermost phases.
    phases_cover: f64,
    /// Name and median, ns, of the phases in the order of their starts.
    phases_p50_ns: Vec<(String, f64)>,
    /// Name and share of the accounts, the largest first.
    account_shares: Vec<(String, f64)>,
    folder: String,
    work_hash: Value,
    output_hash: Value,
}

impl Line {
    /// A line from the two results of a run, with the programs' commit.
    pub(super) fn new(
        name: &str,
        commit: Option<&str>,
        planned: &Planned,
        workload: &Value,
        agent: &Value,
    ) -> Result<Self> {
        let groups = agent["groups"].as_array().context("the agent's summary has no `groups`")?;
        let group = groups.iter().find(|group| is_work(name, group)).context("the agent saw no request")?;
        let number = |value: &Value, what: &str| {
            value.as_f64().with_context(|| format!("{name}: the agent's summary has no `{what}`"))
        };
        let all_ns = number(&group["latency"]["sum_ns"], "sum_ns")?;
        let times = group["time"].as_object().context("the agent's summary has no `time`")?;
        let mut accounts: Vec<(String, f64)> = times
            .iter()
            .filter_map(|(key, ns)| {
                Some((key.strip_suffix("_ns")?.to_owned(), ns.as_f64()? / all_ns.max(1.0)))
            })
            .filter(|(_, share)| *share > 0.0)
            .collect();
        accounts.sort_by(|one, other| other.1.total_cmp(&one.1));
        let phases = group["phases"].as_array().context("the agent's summary has no `phases`")?;
        let path = |phase: &Value| -> Vec<String> {
            let names = phase["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        let outermost = phases.iter().filter(|phase| matches!(&path(phase)[..], [name] if name != OUTSIDE));
        let inside_ns = outermost.filter_map(|phase| phase["duration"]["sum_ns"].as_f64()).sum::<f64>();
        let phases = phases
            .iter()
            .map(|phase| Ok((path(phase).join("/"), number(&phase["duration"]["p50_ns"], "p50_ns")?)));
        let speed = SPEEDS.iter().find_map(|(key, unit)| Some((workload[key].as_f64()?, (*unit).to_owned())));
        Ok(Self {
            name: name.to_owned(),
            commit: commit.map(str::to_owned),
            cut: planned.cut.map(str::to_owned),
            fidelity: agent["fidelity"].as_str().context("the agent's summary has no `fidelity`")?.to_owned(),
            requests: group["latency"]["count"].as_u64().unwrap_or_default(),
            p50_ns: number(&group["latency"]["p50_ns"], "p50_ns")?,
            speed,
            phases_cover: inside_ns / all_ns.max(1.0),
            phases_p50_ns: phases.collect::<Result<_>>()?,
            account_shares: accounts,
            folder: agent["folder"].as_str().unwrap_or_default().to_owned(),
            work_hash: workload["work_hash"].clone(),
            output_hash: workload["output_hash"].clone(),
        })
    }

    /// Its median, for people.
    pub(super) fn latency(&self) -> String {
        format!("p50 {}", time(self.p50_ns))
    }

    /// The requirements on every row that this line does not meet.
    pub(super) fn wanting(&self) -> Vec<String> {
        let other =
            self.account_shares.iter().find(|(account, _)| account == OTHER).map_or(0.0, |(_, share)| *share);
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let cover = (self.phases_cover < LEAST_COVER).then(|| {
            format!(
                "phases cover {}, and {} at least is asked",
                percent(self.phases_cover),
                percent(LEAST_COVER)
            )
        });
        let other = (other > MOST_OTHER).then(|| {
            format!(
                "{} of the time is `{OTHER}`, and {} at most is asked",
                percent(other),
                percent(MOST_OTHER)
            )
        });
        cover.into_iter().chain(other).collect()
    }
}

impl Line {
    fn text(&self) -> String {
        let cut = self.cut.as_ref().map_or_else(String::new, |cut| format!(" ({cut})"));
        let speed = self
            .speed
            .as_ref()
            .map_or_else(String::new, |(value, unit)| format!(", {} {unit}", three(*value)));
        let phases: Vec<String> =
            self.phases_p50_ns.iter().map(|(name, ns)| format!("{name} {}", time(*ns))).collect();
        // Rounded down, so that a shortfall is not rounded up to the requirement.
        let covered = (10_000.0 * self.phases_cover).floor() / 100.0;
        let shown = self.account_shares.iter().filter(|(_, share)| *share >= LEAST_SHARE);
        let shown: Vec<String> =
            shown.map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect();
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{}{cut}\n  {} requests, {}{speed}, fidelity {}\n  phases, p50: {}; they cover {covered:.2} %\n  accounts: {}\n",
            self.name,
            self.requests,
            self.latency(),
            self.fidelity,
            phases.join(", "),
            shown.join(", ")
        );
        text
    }
}

/// Whether these requests are the row's work.
fn is_work(name: &str, group: &Value) -> bool {
    if name.starts_with("train ") {
        return group["name"] == STEP;
    }
    group["name"] != LOAD && (group["name"] != BLOCK || name == GENERATE)
}

/// The whole table.
pub(super) fn text<'a>(lines: impl IntoIterator<Item = &'a Line>) -> String {
    lines.into_iter().map(Line::text).collect()
}

/// Three digits, and a unit that suits the size.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e3, "us"),
    };
    format!("{} {unit}", three(value))
}

/// Three significant digits, and at least all digits before the point.
fn three(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Line, Planned, text};

    #[test]
    fn a_line_says_where_the_time_went() {
        let agent = json!({
            "fidelity": "full", "folder": "/runs/1",
            "groups": [
                { "name": "pull" },
                { "name": "beside step" },
                {
                    "name": "step",
                    "latency": { "count": 10, "sum_ns": 12_000_000_000_u64, "p50_ns": 1_200_000_000 },
                    "time": {
                        "cpu_ns": 11_400_000_000_u64, "runq_ns": 599_000_000, "lock_ns": 1_000_000, "net_ns": 0,
                    },
                    "phases": [
                        { "path": ["data"], "duration": { "p50_ns": 1_500, "sum_ns": 12_000_000 } },
                        { "path": ["forward"], "duration": { "p50_ns": 400_000_000, "sum_ns": 11_982_000_000_u64 } },
                        { "path": ["(outside phases)"], "duration": { "p50_ns": 600_000, "sum_ns": 6_000_000 } },
                    ],
                },
            ],
        });
        let workload = json!({ "images_per_s": 26.666, "work_hash": "00112233" });
        let planned = Planned { words: Vec::new(), cut: Some("10 steps of 100") };
        let line = Line::new("train resnet50", Some("761eade"), &planned, &workload, &agent).unwrap();
        let row = serde_json::to_value(&line).unwrap();
        assert_eq!(row["account_shares"][2], json!(["lock", 1.0 / 12_000.0]));
        assert_eq!((&row["speed"][1], &row["commit"]), (&json!("images/s"), &json!("761eade")));
        let known: Line = serde_json::from_value(row).unwrap();
        assert_eq!(
            text([&known]),
            "train resnet50 (10 steps of 100)\n  10 requests, p50 1.20 s, 26.7 images/s, fidelity full\n  \
             phases, p50: data 1.50 us, forward 400 ms, (outside phases) 600 us; they cover 99.95 %\n  accounts: cpu 95.0 %, runq 5.0 %\n"
        );
        assert!(Line::new("x", None, &planned, &workload, &json!({ "groups": [] })).is_err());
    }

    #[test]
    fn what_falls_short_is_said() {
        let wanting = |inside_ns: u64, other_ns: u64| {
            let phase = json!({ "path": ["forward"], "duration": { "p50_ns": 1, "sum_ns": inside_ns } });
            let rest = json!({ "path": ["(outside phases)"], "duration": { "p50_ns": 1, "sum_ns": 1_000_000 - inside_ns } });
            let group = json!({
                "name": "step", "latency": { "count": 1, "sum_ns": 1_000_000, "p50_ns": 1_000_000 },
                "time": { "cpu_ns": 1_000_000 - other_ns, "other_ns": other_ns }, "phases": [phase, rest],
            });
            let agent = json!({ "fidelity": "full", "folder": "", "groups": [group] });
            let planned = Planned { words: Vec::new(), cut: None };
            Line::new("train resnet50", None, &planned, &json!({}), &agent).unwrap().wanting()
        };
        assert!(wanting(990_000, 10_000).is_empty());
        assert_eq!(
            wanting(980_000, 20_000),
            [
                "phases cover 98.00 %, and 99.00 % at least is asked",
                "2.00 % of the time is `other`, and 1.00 % at most is asked"
            ]
        );
    }
}
