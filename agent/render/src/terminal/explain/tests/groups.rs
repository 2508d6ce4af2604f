//! Whose processes had the CPU, as JSON, and phases that the typical request lacks, in words.

use guestscope_contract::Account;

use super::*;

/// Each process that had the CPU is of a group, in the JSON as in the words; other culprits are of none.
#[test]
fn the_json_says_whose_processes_had_the_cpu() {
    let (requests, waits, _) = everything();
    let explanation = explained(&requests, waits, Wanted::Number(30));
    let facts = ExplainFacts { shown: Shown::One, ..facts() };
    let json: serde_json::Value =
        serde_json::from_str(&render_explanation_json(&explanation, &facts)).expect("it is JSON");
    let group = &json["groups"][0];
    let groups = |list: &serde_json::Value| {
        let list = list.as_array().expect("it is a list").iter();
        list.map(|one| one["group"].as_str().unwrap_or("none").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(groups(&group["advice"]), ["stranger", "own_thread"]);
    let culprits = |list: &serde_json::Value| {
        let list = list.as_array().expect("it is a list").iter();
        list.map(|one| one["culprit"].clone()).collect::<serde_json::Value>()
    };
    assert_eq!(groups(&culprits(&group["who"])), ["stranger", "own_thread", "none"]);
    let phases = group["explained"][0]["phases"].as_array().expect("there are phases").iter();
    let of = |account: &str| {
        let mut parts = phases.clone().flat_map(|phase| phase["parts"].as_array().expect("there are parts"));
        let part = parts.find(|part| part["cause"] == account).expect("it is a cause");
        groups(&culprits(&part["waits"]["by"]))
    };
    assert_eq!(of("runq"), ["stranger", "own_thread", "none"]);
    assert_eq!(of("lock"), ["none"]);
}

/// A phase that only slow requests have is called so, and no other one.
#[test]
fn a_phase_that_the_typical_request_lacks_is_told() {
    let late = |number: u64| {
        let mut steps = vec![Step::Nest("work", vec![Step::Spend(Account::Cpu, 1_000_000)])];
        if number == 30 {
            let other = vec![Step::Spend(Account::Lock, 9_000_000)];
            steps.extend([Step::Nest("retry", other.clone()), Step::Nest("work", other.clone())]);
            steps.extend(other);
        }
        Sample::new(number, number * 50_000_000, steps).build()
    };
    let requests: Vec<Request> = (0..40).map(late).collect();
    let text = render_explanation(&explained(&requests, Vec::new(), Wanted::Slowest(1)), &facts(), UNICODE);
    let told: Vec<&str> =
        text.lines().filter(|line| line.contains("typical request does not have")).collect();
    assert_eq!(told.len(), 1, "{text}");
    assert!(told[0].trim_start().starts_with("retry"), "{text}");
}
