//! The comparison against other programs' numbers, against simulated truth, and whole.

mod counted;
mod exact;
mod gpu;
mod priced;
mod reference;
mod simulated;

use super::*;

fn near(mine: f64, theirs: f64) {
    assert!((mine - theirs).abs() <= 1e-6 * theirs.abs().max(1e3), "{mine} instead of {theirs}");
}

/// Requests of one phase, with these latencies; all of it on a CPU.
fn group(latencies_ns: Vec<u64>) -> GroupDigest {
    let requests = latencies_ns.into_iter().enumerate().map(|(index, ns)| {
        let steps = vec![crate::analyze::samples::Step::Spend(guestscope_contract::Account::Cpu, ns)];
        Ok::<_, std::convert::Infallible>(
            crate::analyze::samples::Sample::new(index as u64, index as u64 * 1_000_000_000, steps).build(),
        )
    });
    let digest = RunDigest::read(requests, 1_000, Warmup::Requests(0)).unwrap();
    digest.groups.into_iter().next().unwrap()
}
