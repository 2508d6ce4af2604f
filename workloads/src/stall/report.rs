//! Report of a stall run: an aligned text for people, one line of JSON for machines, and the description of
//! the workload for guestscope's manifest. Yields text. The log has each single fault.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    log::Injection,
    machine::work::Amount,
    run::{Outcome, Settings},
    size::Size,
};
use crate::{
    digest::Digest,
    report::{Percentiles, milliseconds, to_json},
};

/// Identity of a run: what was run.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    pub name: &'static str,
    /// Faults like `sleep:20ms`, those of a mixture joined by a plus.
    pub faults: String,
    pub every: u64,
    pub spread_percent: u64,
    pub seed: u64,
    pub requests: u64,
    pub warmup: u64,
    /// Work of a request as asked for: `5ms`, or a number of rounds.
    pub work: String,
    /// Hash of the work: equal for two runs that were asked for the same.
    pub work_hash: Digest,
}

/// Totals of all faults at one place in the mixture.
#[derive(Clone, Debug, Serialize)]
struct Total {
    kind: &'static str,
    times: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_count: Option<u64>,
    ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// A finished run.
#[derive(Debug)]
pub struct Report {
    pub identity: Identity,
    outcome: Outcome,
    totals: Vec<Total>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    rounds: u64,
    spared_ns: Percentiles,
    hit_ns: Percentiles,
    injected: &'a [Total],
}

impl Report {
    /// `asked` is the size of each fault in its own unit.
    pub fn new(settings: &Settings, asked: &[u64], outcome: Outcome) -> Self {
        let names: Vec<String> = settings
            .faults
            .iter()
            .zip(asked)
            .map(|((kind, _), asked)| format!("{}:{}", kind.name, kind.unit.size(*asked)))
            .collect();
        let faults = names.join("+");
        let work = match settings.work {
            Amount::Lasting { ns } => Size::Time { ns },
            Amount::Rounds(rounds) => Size::Count(rounds),
        };
        let work = work.to_string();
        let schedule = settings.schedule;
        let mut work_hash = Digest::default();
        work_hash.text("stall").text(&faults).u64(schedule.seed).u64(schedule.every);
        work_hash.u64(schedule.spread_percent).u64(settings.requests).text(&work);
        let identity = Identity {
            name: "stall",
            faults,
            every: schedule.every,
            spread_percent: schedule.spread_percent,
            seed: schedule.seed,
            requests: settings.requests,
            warmup: settings.warmup,
            work,
            work_hash,
        };
        let parts = settings.faults.len();
        let totals = (0..parts).map(|part| {
            let own: Vec<&Injection> = outcome.injections.iter().skip(part).step_by(parts).collect();
            Total::of(settings.faults[part].0.name, &own)
        });
        Self { identity, totals: totals.collect(), outcome }
    }

    /// Report for people: one fact per line, names aligned.
    pub fn text(&self) -> String {
        let Identity { faults, seed, every, requests, warmup, work, .. } = &self.identity;
        let mut text = format!("stall: {faults} in one of {every} requests, seed {seed}\n");
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<14} {value}");
        };
        let hit = self.outcome.hit_ns.len();
        line("requests", format!("{requests} after {warmup} for warm-up, {hit} of them hit"));
        line("work of each", format!("{work}: {} rounds of arithmetic", self.outcome.rounds));
        line("spared", milliseconds(&self.outcome.spared_ns));
        line("hit", milliseconds(&self.outcome.hit_ns));
        for total in &self.totals {
            line(total.kind, total.text());
        }
        text
    }

    /// Report for machines: one line of JSON, times in nanoseconds.
    pub fn json(&self) -> String {
        to_json(&Line {
            identity: &self.identity,
            rounds: self.outcome.rounds,
            spared_ns: Percentiles::of(&self.outcome.spared_ns),
            hit_ns: Percentiles::of(&self.outcome.hit_ns),
            injected: &self.totals,
        })
    }
}

impl Total {
    fn of(kind: &'static str, injections: &[&Injection]) -> Self {
        let sum = |of: fn(&Injection) -> Option<u64>| {
            injections.iter().map(|one| of(one)).sum::<Option<u64>>().filter(|_| !injections.is_empty())
        };
        Self {
            kind,
            times: injections.len() as u64,
            asked_ns: sum(|one| one.asked_ns),
            asked_count: sum(|one| one.asked_count),
            ns: injections.iter().map(|one| one.ns).sum(),
            count: sum(|one| one.count),
        }
    }

    fn text(&self) -> String {
        let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        let asked = match (self.asked_ns, self.asked_count) {
            (Some(ns), _) => ms(ns),
            (None, Some(count)) => Size::Count(count).to_string(),
            (None, None) => "nothing".to_owned(),
        };
        let counted = self.count.map_or_else(String::new, |count| format!(", {count} counted"));
        format!("{} times, asked {asked}, injected {}{counted}", self.times, ms(self.ns))
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::stall::{
        Peer, Wait, log::Injection, machine::work::Amount, run::Outcome, run::Settings, schedule::Schedule,
        size::Size,
    };

    fn report() -> Report {
        let settings = Settings {
            faults: ["sleep", "bounce"]
                .map(|name| (crate::stall::find(name).unwrap(), None::<Size>))
                .to_vec(),
            schedule: Schedule { seed: 3, every: 2, spread_percent: 0 },
            requests: 4,
            warmup: 1,
            work: Amount::Lasting { ns: 5_000_000 },
            log: None,
            log_spared: false,
            folder: "/var/tmp".into(),
            wait: Wait::Spin,
            peer: Peer::Socket,
            progress: false,
        };
        let sleep = Injection {
            kind: "sleep",
            request: 1,
            start_ns: 7,
            asked_ns: Some(20_000_000),
            asked_count: None,
            ns: 20_060_000,
            count: None,
            wall_ns: 20_070_000,
            cpu_ns: 30_000,
            run_delay_ns: 10_000,
        };
        let bounce = Injection {
            kind: "bounce",
            asked_ns: None,
            asked_count: Some(16),
            ns: 300_000,
            count: Some(16),
            ..sleep.clone()
        };
        let outcome = Outcome {
            hit_ns: vec![25_500_000, 26_000_000],
            spared_ns: vec![5_100_000, 5_200_000],
            injections: vec![sleep.clone(), bounce.clone(), sleep, bounce],
            rounds: 700_000,
        };
        Report::new(&settings, &[20_000_000, 16], outcome)
    }

    #[test]
    fn people_read_aligned_lines() {
        insta::assert_snapshot!(report().text(), @r"
        stall: sleep:20ms+bounce:16 in one of 2 requests, seed 3
          requests       4 after 1 for warm-up, 2 of them hit
          work of each   5ms: 700000 rounds of arithmetic
          spared         p50     5.100 ms   p90     5.200 ms   p99     5.200 ms
          hit            p50    25.500 ms   p90    26.000 ms   p99    26.000 ms
          sleep          2 times, asked 40.000 ms, injected 40.120 ms
          bounce         2 times, asked 32, injected 0.600 ms, 32 counted
        ");
    }

    #[test]
    fn machines_read_one_line() {
        insta::assert_snapshot!(report().json(), @r#"{"name":"stall","faults":"sleep:20ms+bounce:16","every":2,"spread_percent":0,"seed":3,"requests":4,"warmup":1,"work":"5ms","work_hash":"6266b75dbfe5f78e","rounds":700000,"spared_ns":{"p50":5100000,"p90":5200000,"p99":5200000},"hit_ns":{"p50":25500000,"p90":26000000,"p99":26000000},"injected":[{"kind":"sleep","times":2,"asked_ns":40000000,"ns":40120000},{"kind":"bounce","times":2,"asked_count":32,"ns":600000,"count":32}]}"#);
    }
}
