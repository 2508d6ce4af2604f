//! Losses by name, as a manifest keeps them. A new one does not compile until it has a name.

use crate::{health::KernelLosses, phase::PairingLosses};

/// All of them, those that did not happen too.
pub(super) fn by_name<R: FromIterator<(String, u64)>>(kernel: KernelLosses, pairing: PairingLosses) -> R {
    of_kernel(kernel).into_iter().chain(of_pairing(pairing)).collect()
}

fn of_kernel(losses: KernelLosses) -> [(String, u64); 11] {
    let KernelLosses {
        edges,
        task_events,
        tasks_missed,
        edges_torn,
        stale_slots,
        unknown_abi,
        waits,
        sums_torn,
        ends_unseen,
        ios,
        edges_unfinished,
    } = losses;
    [
        ("kernel.edges", edges),
        ("kernel.task_events", task_events),
        ("kernel.tasks_missed", tasks_missed),
        ("kernel.edges_torn", edges_torn),
        ("kernel.stale_slots", stale_slots),
        ("kernel.unknown_abi", unknown_abi),
        ("kernel.waits", waits),
        ("kernel.sums_torn", sums_torn),
        ("kernel.ends_unseen", ends_unseen),
        ("kernel.ios", ios),
        ("kernel.edges_unfinished", edges_unfinished),
    ]
    .map(|(name, count)| (name.to_owned(), count))
}

fn of_pairing(losses: PairingLosses) -> [(String, u64); 8] {
    let PairingLosses {
        edges_lost,
        edges_before,
        unmatched_ends,
        unended_phases,
        damaged_names,
        unknown_edges,
        torn_edges,
        late_ios,
    } = losses;
    [
        ("pairing.edges_lost", edges_lost),
        ("pairing.edges_before", edges_before),
        ("pairing.unmatched_ends", unmatched_ends),
        ("pairing.unended_phases", unended_phases),
        ("pairing.damaged_names", damaged_names),
        ("pairing.unknown_edges", unknown_edges),
        ("pairing.torn_edges", torn_edges),
        ("pairing.late_ios", late_ios),
    ]
    .map(|(name, count)| (name.to_owned(), count))
}
