//! Thread groups: a table if nothing was marked, else one line about time outside phases; and the same as
//! JSON.
//!
//! Yields lines on a page. Names are those that programs give to their threads.

use guestscope_contract::{Account, metrics::Metric};
use serde::Serialize;

use crate::{
    analyze::{Cause, OTHER_THREADS, Role, Sums, ThreadGroup, ThreadGroups, is_active},
    untrusted::Untrusted,
};

use super::{
    accounts::{columns, means},
    bar::legend,
    health_lines::fact,
    json_values::{ByName, ns, time},
    page::{Align, Emphasis, Page},
    tables::{AccountRow, accounts_table, heading, name_columns, with_bars},
    units::{counted, duration_of_sum, percent, thousands},
};

/// Most groups named in the line about time outside phases.
const NAMED: usize = 3;
/// Least share of that time for a group to be named.
const NAMED_SHARE: f64 = 0.1;
/// Least share of the threads' time that is worth a line.
const WORTH: f64 = 0.05;

/// Thread groups as JSON.
#[derive(Serialize)]
pub(super) struct ThreadsJson<'a> {
    seen: u64,
    active_inside_phases_ns: u64,
    groups: Vec<GroupJson<'a>>,
    others: Option<GroupJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    name: &'a Untrusted,
    role: Option<&'static str>,
    threads: u64,
    active_ns: u64,
    overlay: ByName,
    time: ByName,
}

pub(super) fn json(threads: &ThreadGroups) -> ThreadsJson<'_> {
    fn one(group: &ThreadGroup) -> GroupJson<'_> {
        let ThreadGroup { name, role, threads, sums, poll_net_ns } = group;
        let (role, active_ns) = (role.map(Role::name), ns(group.active_ns()));
        let overlay = ByName::from([(Metric::PollNet.row().key, ns(*poll_net_ns))]);
        GroupJson { name, role, threads: *threads, active_ns, overlay, time: time(sums) }
    }
    ThreadsJson {
        seen: threads.threads(),
        active_inside_phases_ns: ns(threads.active_inside_ns),
        groups: threads.groups.iter().map(one).collect(),
        others: threads.others.as_ref().map(one),
    }
}

/// `python3 main`, `python3 pool of 2`, `grpc_* (4 threads)`: safe to print.
pub(super) fn label(page: &Page, group: &ThreadGroup) -> String {
    let (name, count) = (page.name(&group.name, 32), thousands(group.threads));
    match group.role {
        Some(Role::Main) if group.threads > 1 => format!("{name} main of {count} processes"),
        Some(Role::Pool) => format!("{name} pool of {count}"),
        Some(role) if group.threads == 1 => format!("{name} {}", role.name()),
        Some(role) => format!("{name} {} ({count} threads)", role.name()),
        None => format!("{name} ({})", counted(group.threads, "thread", "threads")),
    }
}

/// The group that was active longest, in one sentence; none if there are no threads.
pub(super) fn most_active(page: &Page, threads: &ThreadGroups) -> Option<String> {
    let group = threads.groups.first()?;
    let parts = active_parts(group).join(", ");
    let active = duration_of_sum(group.active_ns());
    let parts = if parts.is_empty() { String::new() } else { format!(": {parts}") };
    Some(format!("{} was active longest, for {active}{parts}", label(page, group)))
}

fn active_parts(group: &ThreadGroup) -> Vec<String> {
    let mut active = Sums::default();
    for account in Account::ALL.into_iter().filter(|&account| is_active(account)) {
        active.accounts[account as usize] = group.sums.get(Cause::Account(account));
    }
    means(&active, 0, 1)
}

/// All groups: number of threads, active time, a bar; then the sums of all, by account.
pub(super) fn table(page: &mut Page, threads: &ThreadGroups) {
    let shown: Vec<&ThreadGroup> = threads.groups.iter().chain(&threads.others).collect();
    let names: Vec<String> = shown.iter().map(|group| page.safe(&group.name)).collect();
    let columns = name_columns(page, &names);
    let names: Vec<String> = names.iter().map(|name| page.fit(name, columns)).collect();
    let mut rows = vec![vec![heading("threads"), heading("role"), heading("count"), heading("active")]];
    for (group, name) in shown.iter().zip(&names) {
        rows.push(vec![
            name.clone().into(),
            group.role.map_or("-", Role::name).into(),
            thousands(group.threads).into(),
            duration_of_sum(group.active_ns()).into(),
        ]);
    }
    let sums: Vec<&Sums> = shown.iter().map(|group| &group.sums).collect();
    with_bars(page, rows, &[Align::Left, Align::Left, Align::Right, Align::Right], sums.iter().copied());
    let legend = legend(sums.iter().copied(), page.style().unicode);
    page.wrapped(&[heading("bar")], 5, legend);
    page.blank();
    let rows: Vec<AccountRow<'_>> = shown
        .iter()
        .zip(&names)
        .map(|(group, name)| AccountRow {
            cells: vec![name.clone().into(), group.role.map_or("-", Role::name).into()],
            sums: &group.sums,
            count: 1,
        })
        .collect();
    accounts_table(
        page,
        &[("sum of all", Align::Left), ("role", Align::Left)],
        &rows,
        &in_order(sums.iter().copied()),
    );
}

/// Active causes before idle ones, even if smaller: they stay where there is no room for all.
fn in_order<'a>(sums: impl Iterator<Item = &'a Sums>) -> Vec<Cause> {
    let is_active = |cause: &Cause| matches!(*cause, Cause::Account(account) if is_active(account));
    let (active, idle): (Vec<Cause>, Vec<Cause>) = columns(sums).into_iter().partition(is_active);
    active.into_iter().chain(idle).collect()
}

/// Line on threads' time outside their phases, if it is worth one beside marked requests.
pub(super) fn outside(page: &mut Page, threads: &ThreadGroups) {
    let outside_ns = threads.active_outside_ns();
    let share_of = |part: u128, whole: u128| part as f64 / whole.max(1) as f64;
    let share = share_of(outside_ns, outside_ns + threads.active_inside_ns);
    if share < WORTH || outside_ns == 0 {
        return;
    }
    let named = threads.groups.iter().filter(|group| share_of(group.active_ns(), outside_ns) >= NAMED_SHARE);
    let named: Vec<String> = named
        .take(NAMED)
        .map(|group| format!("{} {}", label(page, group), duration_of_sum(group.active_ns())))
        .collect();
    let named = if named.is_empty() { OTHER_THREADS.to_owned() } else { named.join(", ") };
    let text = format!(
        "threads were active for {} outside phases of their own, {} of all: {named}",
        duration_of_sum(outside_ns),
        percent(share)
    );
    fact(page, "outside", &text, Emphasis::None);
}

#[cfg(test)]
mod tests;
