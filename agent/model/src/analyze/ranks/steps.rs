//! By which accounts the steps of a process differ from those of the others.

use guestscope_contract::{ACCOUNTS, Account, metrics::KEPT};

use super::{
    findings::{Difference, Steps},
    process::{Process, Sums},
};
use crate::untrusted::Untrusted;

/// Differences below this part of the lateness do not explain it.
const TELLING: f64 = 0.1;

/// The steps of this process beside those of the others: those of the name that took it longest and that
/// others have too.
pub(super) fn compared(processes: &[Process], rank: usize, margin_ns: i64, is_coarse: bool) -> Option<Steps> {
    let of_others = |name: &Untrusted| {
        let others = processes.iter().enumerate().filter(|(at, _)| *at != rank);
        others.filter_map(|(_, process)| process.steps.get(name)).collect::<Vec<&Sums>>()
    };
    let total = |sums: &Sums| sums.accounts.iter().fold(0_u128, |sum, ns| sum.saturating_add(*ns));
    let shared = processes.get(rank)?.steps.iter().filter(|(name, _)| !of_others(name).is_empty());
    let (name, own) = shared.max_by_key(|(_, sums)| total(sums))?;
    let others = of_others(name);
    let least_ns = margin_ns.unsigned_abs() as f64 * TELLING;
    let differences = |of: &dyn Fn(&Sums) -> [u128; ACCOUNTS]| {
        let own = means(&of(own), own.steps, is_coarse);
        let others: Vec<[f64; ACCOUNTS]> =
            others.iter().map(|sums| means(&of(sums), sums.steps, is_coarse)).collect();
        let difference = |account: Account| {
            let of_others = others.iter().map(|means| means[account as usize]).sum::<f64>();
            let others_ns = (of_others / others.len() as f64).round() as u64;
            Difference { account, own_ns: own[account as usize].round() as u64, others_ns }
        };
        let mut all: Vec<Difference> = Account::ALL.into_iter().map(difference).collect();
        all.retain(|one| one.ns() != 0 && one.ns().unsigned_abs() as f64 >= least_ns);
        all.sort_by_key(|one| (std::cmp::Reverse(one.ns().unsigned_abs()), one.account));
        all
    };
    let mut helpers = differences(&|sums| sums.helpers);
    // Helpers that wait for work differ by how many there are.
    helpers.retain(|one| one.account == Account::Cpu || KEPT.contains(&one.account));
    Some(Steps {
        name: name.clone(),
        own: own.steps,
        others: others.iter().fold(0, |sum: u64, one| sum.saturating_add(one.steps)),
        accounts: differences(&|sums| sums.accounts),
        helpers,
    })
}

/// The mean time of each account in a step, ns; where less is seen, that of the account that stands for it.
fn means(sums: &[u128; ACCOUNTS], steps: u64, is_coarse: bool) -> [f64; ACCOUNTS] {
    let mut means = [0.0; ACCOUNTS];
    for account in Account::ALL {
        let into = if is_coarse { account.coarse() } else { account };
        means[into as usize] += sums[account as usize] as f64 / steps.max(1) as f64;
    }
    means
}
