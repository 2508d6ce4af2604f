//! Groups that keep a device waiting, and such that do not.

use rstest::rstest;

use super::*;
use crate::analyze::{Headline, Helped, Quantiles, Sums};

/// A row with this time on CPUs, in poll and inside the driver on a CPU, of all its phases, and calls.
fn row(name: &str, (cpu, poll, in_driver): (u128, u128, u128), calls: u128) -> Row {
    let mut sums = Sums::default();
    sums.accounts[Account::Cpu as usize] = cpu;
    sums.accounts[Account::Poll as usize] = poll;
    sums.in_driver = in_driver;
    let mut counts = [0; COUNTS];
    counts[Metric::GpuWait as usize] = calls;
    let path = vec![Untrusted::from(name)];
    Row { kind: RowKind::Phase, path, depth: 0, duration: Quantiles::default(), share: 0.0, sums, counts }
}

fn group(requests: u64, rows: Vec<Row>) -> Group {
    let (mut sums, mut counts) = (Sums::default(), [0; COUNTS]);
    for row in &rows {
        sums.merge(&row.sums);
        for (sum, count) in counts.iter_mut().zip(row.counts) {
            *sum += count;
        }
    }
    Group {
        name: Untrusted::from("serve"),
        latency: Quantiles { count: requests, ..Quantiles::default() },
        // One after the other.
        throughput_per_s: requests as f64 * 1e9 / sums.total_ns() as f64,
        sums,
        counts,
        helped: Helped::default(),
        typical_ns: 0,
        typical_of: 0,
        rows,
        slowest: Vec::new(),
        headline: Headline::TooFew { requests },
        overlapping: 0,
        lossy: 0,
    }
}

#[rstest]
#[case::launches(100, (94, 0, 1), 100, Some(3), Some("launch"))]
#[case::the_device_is_busy(100, (94, 0, 1), 100, Some(50), None)]
#[case::nobody_knows(100, (94, 0, 1), 100, None, None)]
#[case::no_device_is_used(100, (94, 0, 0), 49, Some(0), None)]
#[case::too_few(19, (94, 0, 1), 100, Some(3), None)]
#[case::it_spins_for_the_device(100, (94, 0, 60), 100, Some(3), None)]
fn a_device_waits_for_launches(
    #[case] requests: u64,
    #[case] of_work: (u128, u128, u128),
    #[case] calls: u128,
    #[case] busy: Option<u64>,
    #[case] by: Option<&str>,
) {
    let found = starved(&group(requests, vec![row("work", of_work, calls)]), busy);
    let word = found.as_ref().map(|found| match &found.by {
        Starver::Launch => "launch",
        Starver::Input(_) => "input",
    });
    assert_eq!(word, by, "{found:?}");
}

#[test]
fn input_comes_before_launches_and_names_its_phase() {
    let rows = vec![row("data", (5, 60, 0), 0), row("work", (60, 0, 5), 100)];
    let found = starved(&group(100, rows), Some(10)).expect("it waits");
    assert_eq!(found.by, Starver::Input(vec![Untrusted::from("data")]));
    assert!((found.share - 0.48).abs() < 1e-9, "{found:?}");
    // A phase that waits for the device itself is none of input, and neither is one behind it.
    let rows = vec![row("work", (40, 60, 5), 100)];
    assert_eq!(starved(&group(100, rows), Some(10)), None);
    let rows = vec![row("work", (40, 0, 5), 100), row("stream", (5, 60, 0), 0)];
    assert_eq!(starved(&group(100, rows), Some(10)), None);
}

/// Requests of 100 ns that come now and then: the device is idle between them.
#[test]
fn rare_requests_do_not_keep_a_device_waiting() {
    let mut rare = group(100, vec![row("work", (94, 0, 1), 100)]);
    assert!(starved(&rare, Some(3)).is_some());
    rare.throughput_per_s /= 2.0;
    assert_eq!(starved(&rare, Some(3)), None);
}
