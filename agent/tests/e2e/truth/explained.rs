//! `guestscope explain` of runs with faults of known kind and size: the injected cause comes first, in the
//! phase that was hit, with its size, and the evidence names who caused it.
//!
//! Faults, tolerance and repetitions on a disturbed machine are those of the truth suite.

use guestscope::analyze::Cause;
use guestscope_contract::Account;
use rstest::rstest;
use serde_json::Value;

use super::{
    EVERY, HELPER_RUNQ, Run, Truth,
    patience::{Look, insist},
    run::{Injection, error},
    table::{HITS, SHARE, keep},
    workloads,
};
use crate::{folder::only_folder, ground::Ground};

/// Whether the evidence of a part is what the injector caused.
type Evidence = fn(&Value) -> bool;

/// The thread that held the lock slept.
fn held_by_a_sleeper(part: &Value) -> bool {
    let culprit = &part["waits"]["by"][0]["culprit"];
    culprit["kind"] == "kept_thread" && culprit["account"] == "sleep" && culprit["depth"] == 1
}

/// The request read from a device, which typical requests do not.
fn read_from_a_device(part: &Value) -> bool {
    let ios = part["counts"].as_array().into_iter().flatten().find(|one| one["name"] == "count.block.io");
    ios.is_some_and(|one| one["count"].as_u64() > Some(0) && one["typical"].as_f64() < Some(1.0))
}

/// The thread waited without quota at least once.
fn out_of_quota(part: &Value) -> bool {
    part["waits"]["count"].as_u64() > Some(0) && part["counts"][0]["name"] == "count.throttle"
}

/// The evidence names the helper, and what ran before it on its CPU.
fn by_the_helper(part: &Value) -> bool {
    part["helpers"][0]["comm"] == "helper" && part["helpers"][0]["by"][0]["culprit"]["kind"] == "cpu_user"
}

/// The output of `explain` for one run, with the run and the injector's log.
struct Explained {
    json: Value,
    run: Run,
}

impl Explained {
    fn of(test: &str, words: &[&str]) -> Option<Self> {
        let workloads = workloads(test, words[0])?;
        let ground = Ground::new(test)?;
        let run = Run::on(&ground, &workloads, words);
        let folder = only_folder(&ground.path("runs"));
        let explain = ground.command(&["explain", "--json", "--slowest", "10"]).word(&folder);
        let json = serde_json::from_str(&explain.finish().expect(0).stdout).expect("it is JSON");
        // The text for people begins with the headline of the JSON.
        let text = ground.command(&["explain"]).word(&folder).finish().expect(0).stdout;
        let headline = text.lines().skip(1).take(3).map(str::trim).collect::<Vec<_>>().join(" ");
        let same = json_headline(&json);
        assert!(headline.starts_with(same), "{headline}: {same}");
        Some(Self { json, run })
    }

    /// Injected and found time of the hit requests in which the cause comes first in `work`, with its
    /// evidence.
    fn found(&self, kind: &str, (cause, truth): (Cause, Truth), backs: Evidence) -> Vec<(u64, u64)> {
        let cases = self.json["groups"][0]["explained"].as_array().expect("a list");
        let sizes = self.run.sizes(kind, cause, truth);
        let of = |(injection, (injected_ns, _)): &(&Injection, (u64, u64))| {
            let case = cases.iter().find(|case| case["request"] == injection.request)?;
            let phase = &case["phases"][0];
            // It may come after another part of about the same size.
            let first = 1 + truth.rivals(injection).len();
            let mut parts = phase["parts"].as_array()?.iter().take(first);
            let part = parts.find(|part| part["cause"] == cause.name())?;
            let is_there = phase["path"] == serde_json::json!(["work"]) && backs(part);
            let seen_ns = part["ns"].as_u64()?.saturating_sub(part["typical_ns"].as_u64()?);
            is_there.then(|| (*injected_ns, self.run.settled(injection, truth, seen_ns)))
        };
        sizes.iter().filter_map(of).collect()
    }

    /// Whether the cause leads a list over all hits; if one of them has another part of about its size, it
    /// may come later.
    fn leads(&self, list: &Value, kind: &str, (cause, truth): (Cause, Truth)) -> bool {
        let hits = self.run.sizes(kind, cause, truth);
        let rivals = hits.iter().map(|(injection, _)| truth.rivals(injection).len()).max().unwrap_or(0);
        list.as_array().into_iter().flatten().take(1 + rivals).any(|one| one["cause"] == cause.name())
    }

    /// All sums agree, in the printed numbers as well.
    fn check_sums(&self) {
        let group = &self.json["groups"][0];
        let sum = |parts: &Value, key: &str| {
            let parts = parts.as_array().expect("a list");
            parts.iter().map(|part| part[key].as_i64().expect("a number")).sum::<i64>()
        };
        for case in group["explained"].as_array().expect("a list") {
            let over = case["latency_ns"].as_i64().expect("a number")
                - group["typical_ns"].as_i64().expect("a number");
            assert_eq!((over, sum(&case["phases"], "excess_ns")), (over, over), "{case}");
            assert_eq!(case["excess_ns"], over);
            for phase in case["phases"].as_array().expect("a list") {
                assert_eq!(phase["excess_ns"], sum(&phase["parts"], "excess_ns"), "{phase}");
            }
        }
        for tail in group["tails"].as_array().expect("a list") {
            assert_eq!(tail["excess_ns"], sum(&tail["parts"], "excess_ns"), "{tail}");
        }
    }
}

fn json_headline(json: &Value) -> &str {
    json["groups"][0]["headline"]["text"].as_str().expect("a text").split("; the quota").next().expect("one")
}

#[rstest]
#[case::lock(&["lock", "--size", "20ms"], Cause::Account(Account::Lock), Truth::Injected, held_by_a_sleeper)]
#[case::disk(&["disk", "--size", "30ms"], Cause::Account(Account::BlockIo), Truth::Asleep, read_from_a_device)]
#[case::quota(&["quota", "--size", "30ms"], Cause::Account(Account::Throttled), Truth::Injected, out_of_quota)]
#[case::helper(&["helper-late", "--wait", "sleep", "--size", "20ms"], HELPER_RUNQ, Truth::Injected, by_the_helper)]
fn a_fault_is_explained_first_with_its_size_and_who_did_it(
    #[case] words: &[&str],
    #[case] cause: Cause,
    #[case] truth: Truth,
    #[case] backs: Evidence,
) {
    let test = "truth::explained::a_fault_is_explained_first";
    insist(test, &format!("explain {}", words.join(" ")), |attempt| {
        let seed = attempt.to_string();
        let more = ["--every", EVERY, "--seed", &seed];
        let all: Vec<&str> = words.iter().copied().chain(more).collect();
        let told = Explained::of(test, &all)?;
        told.check_sums();
        let mut errors: Vec<f64> =
            told.found(words[0], (cause, truth), backs).into_iter().map(|pair| error(pair).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let group = &told.json["groups"][0];
        let advised = told.leads(&group["advice"], words[0], (cause, truth));
        let leads = told.leads(&group["tails"][0]["causes"], words[0], (cause, truth));
        let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::INFINITY);
        let row = format!(
            "explain {:<26} {:<11} {} of {HITS} first with evidence, median error {:.2} %; advice {advised}, tail {leads}",
            words.join(" "),
            cause.name(),
            errors.len(),
            median * 100.0
        );
        keep(row.clone());
        // One hit may coincide with another disturbance of the same size.
        let holds = errors.len() + 1 >= HITS && median <= SHARE && advised && leads;
        Some(Look { holds, is_busy: told.run.is_busy(), text: format!("{row}\n{group:#}") })
    });
}
