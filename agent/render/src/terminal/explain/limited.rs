//! Limits that explain the causes of slow requests, and the advice that follows from them.

use guestscope_contract::Account;

use crate::{
    analyze::{
        Cause, Group, Limited, advice, behind_others,
        explain::{Advised, Circle, Explained, Naming, Whose},
        explaining, limited,
    },
    health::Fidelity,
    limits::{Kind, Limit},
    untrusted::Untrusted,
};

use super::{
    super::{
        health_lines::fact,
        limits::{LONGEST, words},
        page::{Emphasis, Page},
    },
    facts::ExplainFacts,
};

/// More advice would hide what matters.
const MOST: usize = 4;

/// Limits behind the causes that are advised on, and behind a large part of all requests where these are
/// shown; one that is behind several causes stands with each.
pub(super) fn found<'a>(
    group: &Group,
    explained: &Explained,
    advised: &[Advised],
    circle: &Circle,
    facts: &'a ExplainFacts,
) -> Vec<Limited<'a>> {
    // Where accounts are folded into others a cause may be anything.
    if facts.limits.is_empty() || facts.fidelity.is_none_or(|fidelity| fidelity == Fidelity::Procfs) {
        return Vec::new();
    }
    let causes = advised.iter().filter_map(|one| Cause::all().find(|cause| cause.name() == one.cause));
    let of_cause = |cause| explaining(cause, &explained.spans(cause), &facts.limits);
    let mut all: Vec<Limited<'a>> = causes.flat_map(of_cause).collect();
    if !advised.is_empty() {
        let excess_ns = explained.cases.iter().map(|case| case.excess_ns).sum();
        let spans = |account| explained.spans_of_others(account);
        all.extend(behind_others(spans, excess_ns, &facts.limits));
    }
    if !facts.shown.is_one() {
        all.extend(limited(group, &facts.limits));
    }
    let is_of_cpus = |one: &Limited<'_>| one.limit.kind == Kind::Cpus;
    if advised.iter().any(|one| one.cause == Account::Runq.name()) && !all.iter().any(is_of_cpus) {
        all.extend(explained.crowded(group, circle, &facts.limits));
    }
    all
}

/// Advice on a limit takes the place of that on its causes: a limit on memory makes pages be read again, and
/// takes CPU time for that. It is given once, also on two groups of processes.
pub(super) fn advise(advised: &mut Vec<Advised>, found: &[Limited<'_>]) {
    let mut told: Vec<&Limit> = Vec::new();
    advised.retain_mut(|one| {
        let limited = found.iter().find(|limited| is_behind(limited, one));
        let advice = limited.and_then(|limited| advice::for_limit(limited.limit, limited.crowded.is_some()));
        let Some((limited, advice)) = limited.zip(advice) else { return true };
        let is_new = told.iter().all(|known| !std::ptr::eq(*known, limited.limit));
        told.push(limited.limit);
        one.advice = advice;
        is_new
    });
    // A limit that is behind none of the causes: it keeps others from running, slows all requests alike, or
    // several processes are in each other's way of which none had much of the CPUs. A graphics processor that
    // is shared or slow is that for all requests, whatever makes some of them slow.
    let is_told = |limited: &&Limited<'_>| advised.iter().any(|one| is_behind(limited, one));
    let is_more = |one: &Limited<'_>| {
        matches!(one.cause, Cause::Helper(_)) || one.crowded.is_some() || one.limit.kind.is_of_gpu()
    };
    let others = found.iter().find(|limited| is_more(limited) && !is_told(limited));
    let first = others.or_else(|| found.first().filter(|_| advised.is_empty()));
    if let Some(first) = first
        && let Some(advice) = advice::for_limit(first.limit, first.crowded.is_some())
    {
        // The first cause keeps the first place, or places.
        let place = advised.iter().take_while(|one| one.cause == advised[0].cause).count();
        advised
            .insert(place, Advised { cause: first.cause.name(), group: None, naming: Naming::Limit, advice });
        advised.truncate(MOST);
    }
}

/// Whether a limit is behind a cause: one under which threads of the run are in each other's way is not
/// behind the CPU time of strangers, nor behind busy-waiting.
fn is_behind(limited: &Limited<'_>, one: &Advised) -> bool {
    let is_spinning = one.advice.key == advice::OWN_SPINNING;
    let is_of_run = matches!(one.group, None | Some(Whose::Own | Whose::Sibling)) && !is_spinning;
    limited.cause.name() == one.cause && (limited.crowded.is_none() || is_of_run)
}

/// `in group /a/b`, and which group above it has the quota that ran out, if that is known.
pub(super) fn group_with_quota(path: &Untrusted, limits: &[Limit]) -> String {
    let is_above = |limit: &&Limit| {
        let above = limit.group.trim_end_matches('/');
        path.stored() != limit.group
            && path.stored().strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
    };
    let ran_out = limits.iter().filter(|limit| limit.kind == Kind::Quota && limit.hits > 0);
    let is_own = ran_out.clone().any(|limit| limit.group == path.stored());
    match ran_out.filter(is_above).max_by_key(|limit| limit.hits).filter(|_| !is_own) {
        Some(limit) => format!("by {} of {} (group {path})", limit.file, limit.group),
        None => format!("in group {path}"),
    }
}

/// A line for each.
pub(super) fn render(page: &mut Page, found: &[Limited<'_>]) {
    for (index, limited) in found.iter().enumerate() {
        let text = page.name(words(limited), LONGEST);
        fact(page, if index == 0 { "limit" } else { "" }, &text, Emphasis::Warning);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rstest::rstest;

    use super::{super::tests::facts, *};
    use crate::{
        analyze::{
            Overlay,
            explain::{Explanation, Wanted},
            samples::inference,
        },
        limits::Timeline,
        platform::CpuQuota,
        terminal::explain::{json::render_explanation_json, render_explanation},
        terminal::tests::fixtures::UNICODE,
    };

    fn quota(file: &str, group: &str, hits: u64) -> Limit {
        let mut when = Timeline::starting(0, 1_000_000_000);
        (0..20).for_each(|second| when.add(second * 1_000_000_000, hits / 20));
        let (file, group) = (file.to_owned(), group.to_owned());
        let periods = 300;
        Limit {
            kind: Kind::Quota,
            file,
            group,
            value: 50,
            period_ns: 100,
            hits,
            periods,
            when,
            ..Limit::default()
        }
    }

    fn told(limits: Vec<Limit>) -> (String, serde_json::Value) {
        let requests = inference(200);
        let mut explanation = Explanation::new(|| requests.iter().cloned(), Wanted::Slowest(4));
        let Ok(()) = explanation.add_waits(std::iter::empty::<Result<_, Infallible>>());
        let quota = CpuQuota { quota_ns: 50, period_ns: 100, group: "/p".to_owned() };
        let facts = ExplainFacts { cpu_quota: Some(quota), limits, ..facts() };
        let text = render_explanation(&explanation, &facts, UNICODE);
        let json = serde_json::from_str(&render_explanation_json(&explanation, &facts)).unwrap();
        (text.split_whitespace().collect::<Vec<_>>().join(" "), json)
    }

    #[rstest]
    #[case::first("cpu.cfs_quota_us", "raise cpu.cfs_quota_us of /p,")]
    #[case::second("cpu.max", "raise cpu.max of /p,")]
    fn the_advice_follows_from_the_limit_that_was_hit(#[case] file: &str, #[case] advice: &str) {
        let (text, json) = told(vec![quota("cpu.max", "/p/c", 0), quota(file, "/p", 120)]);
        let limit = format!("throttled: {file} of /p, 50 ns per 100 ns, ran out in 120 of 300 periods");
        assert!(text.contains(&format!("limit {limit}")) && text.contains(advice), "{text}");
        assert!(!text.contains("/p/c"), "{text}");
        let group = &json["groups"][0];
        assert_eq!(group["limits"][0]["text"], limit.as_str());
        assert!(group["advice"][0]["text"].as_str().unwrap().contains(advice), "{group}");
    }

    /// A limit on memory is behind faults that read and behind the CPU time of faults: one piece of advice.
    #[test]
    fn a_limit_behind_two_causes_is_advised_on_once() {
        let limit = Limit { kind: Kind::Memory, ..quota("memory.max", "/p", 5) };
        let causes = [Cause::Account(Account::Fault), Cause::Overlay(Overlay::Fault)];
        let found: Vec<Limited<'_>> =
            causes.map(|cause| Limited { cause, limit: &limit, crowded: None }).into();
        let of = |cause: Cause| Advised {
            cause: cause.name(),
            group: None,
            naming: Naming::Tail,
            advice: advice::for_cause(cause.name()).expect("there is some"),
        };
        let [read, spent] = causes;
        let mut advised: Vec<Advised> = [read, spent, Cause::Account(Account::Net)].map(of).into();
        advise(&mut advised, &found);
        let keys = |advised: &[Advised]| -> Vec<String> {
            advised.iter().map(|one| format!("{} by {}", one.cause, one.advice.key)).collect()
        };
        assert_eq!(keys(&advised), ["fault by limit.memory", "net by net"]);
        // Whichever of them comes first.
        let mut advised: Vec<Advised> = [spent, read].map(of).into();
        advise(&mut advised, &found);
        assert_eq!(keys(&advised), ["cpu.fault by limit.memory"]);
        assert_eq!(crate::analyze::each_once(found).len(), 1);
    }

    /// Advice on strangers and on busy-waiting stays beside that on a mask under which threads of the run are
    /// in each other's way.
    #[rstest]
    #[case::siblings(Some(Whose::Sibling), "runq.sibling", &["runq", "limit.mask.crowded"])]
    #[case::spinning(
        Some(Whose::Own),
        advice::OWN_SPINNING,
        &["runq", advice::OWN_SPINNING, "limit.mask.crowded"]
    )]
    #[case::nobody_had_much(None, "", &["runq", "limit.mask.crowded"])]
    fn a_crowded_mask_is_not_behind_strangers(
        #[case] group: Option<Whose>,
        #[case] key: &str,
        #[case] expected: &[&str],
    ) {
        let cause = Cause::Account(Account::Runq);
        let limit = Limit { kind: Kind::Cpus, ..Limit::default() };
        let found = [Limited { cause, limit: &limit, crowded: Some(0.4) }];
        let of = |group, key| {
            let advice = advice::for_cause(key)?;
            Some(Advised { cause: cause.name(), group, naming: Naming::Tail, advice })
        };
        let mut advised: Vec<Advised> =
            [of(Some(Whose::Stranger), "runq"), of(group, key)].into_iter().flatten().collect();
        advise(&mut advised, &found);
        let keys: Vec<&str> = advised.iter().map(|one| one.advice.key.as_str()).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_limit_that_was_not_hit_is_not_named() {
        let before = told(Vec::new());
        let both = "cpu.max, or cpu.cfs_quota_us in version 1";
        assert!(before.0.contains(both), "{}", before.0);
        for file in ["cpu.max", "cpu.cfs_quota_us"] {
            // It tells the version of control groups.
            let (text, json) = told(vec![quota(file, "/p", 0)]);
            assert_eq!(text, before.0.replace(both, file));
            assert_eq!(json.to_string(), before.1.to_string().replace(both, file));
        }
        assert!(before.1["groups"][0]["limits"].is_null() && !before.0.contains("limit throttled"));
    }

    #[rstest]
    #[case::own(&[("/p/c", 3)], "in group /p/c")]
    #[case::above(&[("/p", 3)], "by cpu.max of /p (group /p/c)")]
    #[case::topmost(&[("/", 3), ("/p", 1)], "by cpu.max of / (group /p/c)")]
    #[case::beside(&[("/q", 3), ("/p/cc", 3), ("/p/c/d", 3)], "in group /p/c")]
    #[case::not_hit(&[("/p", 0)], "in group /p/c")]
    #[case::both(&[("/p", 3), ("/p/c", 1)], "in group /p/c")]
    fn the_group_that_has_the_quota_is_named(#[case] limits: &[(&str, u64)], #[case] expected: &str) {
        let limits: Vec<Limit> = limits.iter().map(|&(group, hits)| quota("cpu.max", group, hits)).collect();
        assert_eq!(group_with_quota(&"/p/c".into(), &limits), expected);
    }
}
