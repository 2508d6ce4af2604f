//! What a difference between two platforms is made of, by phase and cause.
//!
//! Yields a [`Decomposition`] whose parts add up to the difference of the means, exactly: times by account
//! add up to latencies, and means are linear. Samples split time on a CPU further; time that coincides with
//! waits of helpers or with pauses of the whole guest is named after these, by the same rules as within one
//! run (see [`Split`](crate::analyze::Split)). These are estimates, and move time between parts without
//! changing the sum. It is accounting, not a causal model: whether a change of one part would change another
//! is unknown.

use guestscope_contract::Account;

use super::{
    profile::{Means, Path, Profile},
    welch::{Interval, mean},
};
use crate::{
    analyze::{
        cause::{ALL_CAUSES, CAUSES, Cause, Overlay},
        split::{FOR_OTHERS, OF_ADDRESS_SPACE},
    },
    phase::KEPT,
};

/// Nanoseconds per request by cause, in the order of [`Cause::all`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Named([f64; ALL_CAUSES]);

const CPU: Cause = Cause::Account(Account::Cpu);
const SPIN: Cause = Cause::Overlay(Overlay::Spin);

impl Named {
    /// Those of one cause.
    pub(super) fn get(&self, cause: Cause) -> f64 {
        self.0[cause.place()]
    }

    /// Renames up to `wanted` ns of one cause to another; returns the shortfall.
    fn take(&mut self, from: Cause, wanted: f64, to: Cause) -> f64 {
        let taken = wanted.min(self.get(from)).max(0.0);
        self.0[from.place()] -= taken;
        self.0[to.place()] += taken;
        wanted - taken
    }
}

/// A part of a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The phase whose own time it is.
    pub path: Path,
    /// Cause that the time is charged to.
    pub cause: Cause,
    /// Time in a mean request of the baseline, ns; 0 for causes that only differences have.
    pub baseline_ns: f64,
    /// Excess over the baseline, ns per request; negative if less.
    pub difference_ns: Interval,
}

/// A cause, summed over all phases.
#[derive(Clone, Debug, PartialEq)]
pub struct OfCause {
    /// The cause.
    pub cause: Cause,
    /// Time in a mean request of the baseline, ns.
    pub baseline_ns: f64,
    /// Excess over the baseline, ns per request.
    pub difference_ns: Interval,
}

/// A difference and its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decomposition {
    /// Mean of the baseline, ns per request.
    pub baseline_ns: f64,
    /// Mean of the platform, ns per request.
    pub value_ns: f64,
    /// Excess over the baseline.
    pub difference_ns: Interval,
    /// Parts that are not zero: first those that explain most of the difference, last those of the opposite
    /// sign.
    pub parts: Vec<Part>,
    /// The same over all phases.
    pub causes: Vec<OfCause>,
    /// Rest that the parts do not add up to, ns: rounding.
    pub residual_ns: f64,
}

/// What one run contributes to a decomposition.
pub(super) struct Sample<'a> {
    pub(super) mean_ns: f64,
    pub(super) profile: &'a Profile,
}

/// The causes of one phase, and what lies beside.
pub(super) fn named(means: &Means, sampled: bool) -> Named {
    let mut named = Named([0.0; ALL_CAUSES]);
    for (cause, ns) in means.time() {
        named.0[cause.place()] = ns;
    }
    let stolen = means.steal.clamp(0.0, named.get(CPU));
    named.take(CPU, stolen, Cause::Steal);
    named.take(CPU, means.in_driver, Cause::InDriver);
    let mut left = means.address_space;
    for account in OF_ADDRESS_SPACE {
        left = named.take(Cause::Account(account), left, Cause::AddressSpace);
    }
    named.take(Cause::Account(Account::Other), means.stopped, Cause::Stopped);
    let samples: f64 = means.sampled.iter().chain([&means.own_code]).sum();
    if sampled && samples > 0.0 {
        let running = named.get(CPU);
        for overlay in Overlay::ALL {
            let part = running * means.sampled[overlay as usize] / samples;
            named.0[Cause::Overlay(overlay).place()] = part;
            named.0[CPU.place()] -= part;
        }
    }
    named
}

/// A run without its stops beyond the reference's, and their length. A stop lies in the account with the
/// largest excess. It has no samples, so it is taken out before samples split the CPU time; of stolen time,
/// and of time inside drivers, only as much is left as the CPU time still exceeds the reference's.
fn without_stops(run: &Means, reference: &Means) -> (Means, f64) {
    let mut without = *run;
    let wanted = (run.pause - reference.pause).max(0.0);
    let mut left = wanted;
    for _ in 0..CAUSES {
        let usual = reference.time().map(|(_, ns)| ns);
        let more = |(mine, usual): &(&mut f64, f64)| **mine - usual;
        let Some(largest) = without.time_mut().zip(usual).max_by(|a, b| more(a).total_cmp(&more(b))) else {
            break;
        };
        let taken = more(&largest).min(left).max(0.0);
        *largest.0 -= taken;
        left -= taken;
    }
    if left < wanted {
        let cpu = Account::Cpu as usize;
        let more = (without.accounts[cpu] - reference.accounts[cpu]).max(0.0);
        without.steal = without.steal.min(reference.steal + more);
        without.in_driver = without.in_driver.min(reference.in_driver + more);
    }
    (without, wanted - left)
}

/// Excess of a run over the reference, with time that helpers and pauses explain named after them.
fn excess(run: &Means, reference: &Means, sampled: bool) -> Named {
    let (without, paused) = without_stops(run, reference);
    let usual = named(reference, sampled);
    let mut excess = named(&without, sampled);
    for (mine, usual) in excess.0.iter_mut().zip(usual.0) {
        *mine -= usual;
    }
    excess.0[Cause::Pause.place()] += paused;
    for (kept, account) in KEPT.into_iter().enumerate() {
        let helper = Cause::Helper(account);
        let more = |mine: f64, usual: f64| (mine - usual).max(0.0);
        let on_cpu = more(run.kept_on_cpu[kept], reference.kept_on_cpu[kept]);
        let on_cpu = excess.take(SPIN, on_cpu, helper);
        excess.take(CPU, on_cpu, helper);
        let mut waiting = more(run.kept_waiting[kept], reference.kept_waiting[kept]);
        for account in FOR_OTHERS {
            waiting = excess.take(Cause::Account(account), waiting, helper);
        }
    }
    excess
}

/// Values per run of everything, for one platform: by phase, then by cause.
fn excesses(runs: &[Sample<'_>], reference: &Profile, paths: &[Path], sampled: bool) -> Vec<Vec<Named>> {
    let of_path = |path: &Path| {
        let usual = reference.get(path);
        runs.iter().map(|run| excess(&run.profile.get(path), &usual, sampled)).collect()
    };
    paths.iter().map(of_path).collect()
}

impl Decomposition {
    /// The parts to print, in their order: the largest of those that make up at least this share of the
    /// difference, for or against it.
    pub fn largest(&self, least_share: f64, most: usize) -> Vec<&Part> {
        let total = self.difference_ns.value;
        let size = |part: &Part| part.difference_ns.value.abs();
        let mut sizes: Vec<f64> =
            self.parts.iter().map(size).filter(|size| size / total.abs() >= least_share).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let Some(least) = sizes.get(most.min(sizes.len()).wrapping_sub(1)) else { return Vec::new() };
        self.parts.iter().filter(|part| size(part) >= *least).take(most).collect()
    }

    /// Decomposition of the platform's runs against the baseline's; `sampled` if all of them have samples.
    pub(super) fn of(baseline: &[Sample<'_>], runs: &[Sample<'_>], sampled: bool) -> Self {
        let means = |runs: &[Sample<'_>]| runs.iter().map(|run| run.mean_ns).collect::<Vec<f64>>();
        let (first, second) = (means(baseline), means(runs));
        let (baseline_ns, value_ns) = (mean(&first), mean(&second));
        let usual = Profile::mean(baseline.iter().map(|run| run.profile));
        let mut paths: Vec<Path> = usual.phases.iter().map(|(path, _)| path.clone()).collect();
        for (path, _) in runs.iter().flat_map(|run| &run.profile.phases) {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        // Excesses are named, so they are measured from the faster platform.
        let reference = if value_ns < baseline_ns {
            Profile::mean(runs.iter().map(|run| run.profile))
        } else {
            usual.clone()
        };
        let first_parts = excesses(baseline, &reference, &paths, sampled);
        let second_parts = excesses(runs, &reference, &paths, sampled);
        let sign = if value_ns < baseline_ns { -1.0 } else { 1.0 };
        let mut decomposition = Self {
            baseline_ns,
            value_ns,
            difference_ns: Interval::between(&first, &second),
            ..Self::default()
        };
        for (index, path) in paths.iter().enumerate() {
            let usual = named(&without_stops(&usual.get(path), &reference.get(path)).0, sampled);
            for cause in Cause::all() {
                let values = |parts: &[Vec<Named>]| -> Vec<f64> {
                    parts[index].iter().map(|named| named.get(cause)).collect()
                };
                let difference_ns = Interval::between(&values(&first_parts), &values(&second_parts));
                let baseline_ns = usual.get(cause);
                if difference_ns.value != 0.0 || baseline_ns != 0.0 {
                    decomposition.parts.push(Part { path: path.clone(), cause, baseline_ns, difference_ns });
                }
            }
        }
        decomposition.causes = of_causes(&first_parts, &second_parts, &decomposition.parts);
        let rank = |difference: &Interval| difference.value * sign;
        decomposition.parts.sort_by(|a, b| rank(&b.difference_ns).total_cmp(&rank(&a.difference_ns)));
        decomposition.causes.sort_by(|a, b| rank(&b.difference_ns).total_cmp(&rank(&a.difference_ns)));
        let explained: f64 = decomposition.parts.iter().map(|part| part.difference_ns.value).sum();
        decomposition.residual_ns = (value_ns - baseline_ns) - explained;
        decomposition
    }

    /// The sum of one cause over all phases.
    pub fn cause(&self, cause: Cause) -> Option<&OfCause> {
        self.causes.iter().find(|known| known.cause == cause)
    }

    /// The cause that explains most of the difference, if any does.
    pub fn first(&self) -> Option<&OfCause> {
        let total = self.difference_ns.value;
        self.causes.first().filter(|first| first.difference_ns.value * total > 0.0)
    }
}

fn of_causes(first: &[Vec<Named>], second: &[Vec<Named>], parts: &[Part]) -> Vec<OfCause> {
    let over_phases = |phases: &[Vec<Named>], cause: Cause| -> Vec<f64> {
        let runs = phases.first().map_or(0, Vec::len);
        (0..runs).map(|run| phases.iter().map(|phase| phase[run].get(cause)).sum()).collect()
    };
    let known = |cause: Cause| {
        let of_cause = || parts.iter().filter(|part| part.cause == cause);
        of_cause().next()?;
        Some(OfCause {
            cause,
            baseline_ns: of_cause().map(|part| part.baseline_ns).sum(),
            difference_ns: Interval::between(&over_phases(first, cause), &over_phases(second, cause)),
        })
    };
    Cause::all().filter_map(known).collect()
}
