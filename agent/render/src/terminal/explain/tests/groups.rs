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

/// A phase that the typical request lacks is called so, at every width.
#[test]
fn a_phase_of_slow_requests_alone() {
    let of = |number: u64| {
        let mut steps = vec![Step::Spend(Account::Cpu, 1_000_000)];
        if number % 10 == 4 {
            steps.push(Step::Nest("garbage collection", vec![Step::Spend(Account::Cpu, 12_000_000)]));
        }
        Sample::new(number, number * 100_000_000, steps).build()
    };
    let requests: Vec<Request> = (0..30).map(of).collect();
    let explanation = explained(&requests, Vec::new(), Wanted::Slowest(1));
    assert_snapshot!(render_explanation(&explanation, &facts(), NARROW), @r#"
    30 requests, p50 1.00 ms, p90 1.00 ms, max 13.0 ms, 10.3/s
    all of the 3 slowest ran the garbage collector: +12.0 ms
      over typical, in garbage collection
    cpu is 100 % of what the 3 requests above p90 (1.00 ms) took
      longer than typical, and the main cause of all of them
    advice        cpu: The garbage collector went through all
                  objects: call gc.freeze() after loading, so
                  that it leaves them out, raise
                  gc.set_threshold(), or disable it (gc.disable)
                  and collect between requests.
                  Python documentation, module gc: freeze()
                  moves all objects to a permanent generation,
                  which later collections ignore

    over typical, mean  on   above p90: 3 requests
    garbage collection  cpu               +12.0 ms  100 %
    all of it                             +12.0 ms  100 %

    request #4: 13.0 ms, +12.0 ms over the typical 1.00 ms
      (trace 78dde6e, 0 ns into the run)
      garbage collection   +12.0 ms  a phase that the typical
                                     request does not have
        cpu                +12.0 ms

    run           ic, MVM/2/VNL/CPU, fidelity full
    folder        runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic
    typical       1.00 ms: the mean of the middle half of the
                  requests (p25 to p75, 27 of them)
    "#);
}
