//! The advice of an explanation, as far as this run can follow it.

use guestscope_contract::Account;

use super::{facts::ExplainFacts, limited};
use crate::analyze::{
    Group, Limited,
    advice::{Advice, Version},
    each_once,
    explain::{Advised, Circle, Explained},
};

/// An excess below this part of a request that hangs needs no advice.
const HARDLY: f64 = 0.01;

/// Advice, and the limits that explain causes. Where this fidelity folds accounts into others, the advice on
/// those is to observe with more fidelity first.
pub(super) fn advised<'a>(
    group: &Group,
    explained: &Explained,
    circle: &Circle,
    facts: &'a ExplainFacts,
) -> (Vec<Advised>, Vec<Limited<'a>>) {
    let mut advised = explained.advised(group, facts.shown.is_one(), circle);
    // Beside a request that hangs for far longer these differences are noise.
    let slowest_ns = explained.cases.iter().map(|case| case.excess_ns).max().unwrap_or(0);
    if facts.hidden.hung_ns() as f64 * HARDLY > slowest_ns as f64 {
        advised.clear();
    }
    let limits = limited::found(group, explained, &advised, circle, facts);
    limited::advise(&mut advised, &limits);
    if let Some(version) = facts.limits.iter().find_map(|limit| Version::of_file(&limit.file)) {
        for one in &mut advised {
            one.advice = one.advice.clone().of_version(version);
        }
    }
    if facts.fidelity.is_some_and(|fidelity| !fidelity.is_whole()) {
        for one in advised.iter_mut().filter(|one| one.cause == Account::Other.name()) {
            one.advice = Advice {
                key: one.cause.to_owned(),
                text:
                    "Here it is all waiting but for a CPU: observe the program at fidelity full (`guestscope \
                       doctor` tells how) to tell locks, disks, sockets and timers apart."
                        .to_owned(),
                source: "guestscope: at this fidelity there are the accounts cpu, runq and other".to_owned(),
            };
        }
    }
    (advised, each_once(limits))
}
