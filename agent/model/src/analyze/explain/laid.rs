//! Lays long waits beside the parts of a request's excess that they explain.

use super::{
    super::{
        cause::Cause,
        event_loop::{Polls, Told},
    },
    case::{Case, Evidence},
    culprit::Culprit,
    helped,
    waits::Waits,
};
use crate::phase::{Blame, Wait, waits_for_address_space};

impl Case {
    /// A long wait of one of its own threads.
    pub(super) fn add_own_wait(&mut self, wait: &Wait) {
        let is_kept = self.locks.take(wait) || self.polls.as_mut().is_some_and(|polls| polls.take(wait));
        if !is_kept {
            self.add_blamed(wait, None);
        }
    }

    /// Lays an own wait beside its parts; `culprit`: where other waits tell it.
    fn add_blamed(&mut self, wait: &Wait, culprit: Option<&Culprit>) {
        let is_given = matches!(culprit, Some(Culprit::Given { .. }));
        let own = wait.phase.and_then(|phase| self.trail.phase_of.get(&phase)).copied();
        let Some(phase) = self.trail.covers.phase_of(wait, is_given) else {
            let parts = own.map(|index| self.phases[index].parts.iter_mut());
            let mut parts = parts.into_iter().flatten();
            if let Some(part) = parts.find(|part| part.cause == Cause::Account(wait.account)) {
                part.evidence.left_out = true;
            }
            return;
        };
        let Some(&index) = self.trail.phase_of.get(&phase) else { return };
        let start_ns = self.start_ns;
        let parts = &mut self.phases[index].parts;
        for (account, from_ns, ns) in wait.portions().into_iter().filter(|portion| portion.2 > 0) {
            let is_block = account == wait.account;
            let guilty = match culprit.filter(|_| is_block) {
                Some(culprit) => vec![(culprit.clone(), ns)],
                None => Culprit::of(wait, account, ns),
            };
            let blame = wait.blame.filter(|_| is_block);
            let of_ns = blame.map_or(0, |blame| blame.ns.min(ns));
            // What comes out of the account is listed with the other cause alone.
            let instead = match () {
                () if is_block && waits_for_address_space(wait) => Some(Cause::AddressSpace),
                () if is_block && wait.stopped_by.is_some() => Some(Cause::Stopped),
                () => None,
            };
            let instead = instead.filter(|cause| parts.iter().any(|part| part.cause == *cause));
            let own = instead.unwrap_or(Cause::Account(account));
            // A wait that a helper explains is listed with both.
            for cause in [Some(own), blame.map(|blame| Cause::Helper(blame.account))].into_iter().flatten() {
                if let Some(part) = parts.iter_mut().find(|part| part.cause == cause) {
                    let waits = part.evidence.waits.get_or_insert_with(|| Waits::new(part.ns));
                    waits.add(wait, from_ns.saturating_sub(start_ns), ns, &guilty, of_ns);
                    if is_block {
                        waits.add_call(wait, ns);
                    }
                }
            }
        }
    }

    /// Takes a long wait of a thread outside any phase: a helper's, if its process is the request's.
    pub(super) fn add_helper_wait(&mut self, wait: &Wait) {
        let is_other = wait.thread.tgid == self.pid && !self.trail.tids.contains(&wait.thread.tid);
        if !is_other || wait.end_ns() <= self.start_ns || wait.start_ns >= self.end_ns() {
            return;
        }
        let Self { phases, trail, .. } = self;
        for (account, from_ns, ns) in wait.portions() {
            let cause = Cause::Helper(account);
            for &(index, begin_ns, end_ns) in &trail.spans {
                let overlap = from_ns.saturating_add(ns).min(end_ns).saturating_sub(from_ns.max(begin_ns));
                let part = phases[index].parts.iter_mut().find(|part| part.cause == cause);
                if let Some(part) = part.filter(|_| overlap > 0) {
                    helped::add(
                        &mut part.evidence.helpers,
                        wait,
                        overlap,
                        &Culprit::of(wait, account, overlap),
                    );
                }
            }
        }
    }

    /// All waits have come.
    pub(super) fn settle(&mut self) {
        for (wait, holder) in self.locks.settle() {
            self.add_blamed(&wait, holder.as_ref());
        }
        for Told { wait, given_to } in self.polls.as_mut().map(Polls::settle).unwrap_or_default() {
            let blame = wait.blame.map(|blame| Blame { ns: 0, ..blame });
            let worker = given_to.map(|to| Culprit::Given { to, blame });
            self.add_blamed(&wait, worker.as_ref());
        }
        for part in self.phases.iter_mut().flat_map(|phase| &mut phase.parts) {
            let Evidence { waits, helpers, left_out, .. } = &mut part.evidence;
            let had_some = waits.is_some();
            *waits = waits.take().and_then(|waits| waits.settled(part.cause, part.ns));
            *left_out |= had_some && waits.is_none();
            helped::settle(helpers);
        }
    }

    /// Threads in its evidence that are known by number only.
    pub(super) fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        let evidence = self.phases.iter().flat_map(|phase| &phase.parts).map(|part| &part.evidence);
        evidence.flat_map(|evidence| {
            let tids = evidence.waits.iter().flat_map(|waits| {
                let took = waits.longest.iter().filter_map(|longest| longest.took_tid);
                waits.by.iter().flat_map(|by| by.culprit.tids()).chain(took)
            });
            tids.chain(evidence.helpers.iter().map(|helper| helper.tid))
        })
    }
}
