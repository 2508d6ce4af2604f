//! What holds for all trainings and all folders: nobody is named in the place of another.

use proptest::prelude::*;

use super::*;

/// Times and sums of a folder that says anything.
fn wild() -> impl Strategy<Value = (usize, u32, Vec<(u64, u64, u8)>)> {
    let time = prop_oneof![Just(0), Just(u64::MAX), Just(i64::MAX as u64), any::<u64>(), 0..1_000_u64];
    let call = (time.clone(), time, any::<u8>());
    (0..4_usize, 0..3_u32, prop::collection::vec(call, 0..60))
}

proptest! {
    // Each case is some trainings of hundreds of steps.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn folders_that_say_anything_are_judged_without_harm(
        lists in prop::collection::vec(wild(), 0..6), offset_ns in any::<i64>(), clocks in any::<bool>()
    ) {
        let mut ranks = Ranks::default();
        for (folder, pid, calls) in lists {
            for (start_ns, duration_ns, kind) in calls {
                let mut request = Sample::new(1, 0, vec![Step::Nest("all_reduce", vec![])]).build();
                for phase in &mut request.phases {
                    phase.thread.tgid = pid;
                    (phase.start_ns, phase.duration_ns) = (start_ns, duration_ns);
                    phase.accounts.0[usize::from(kind) % 11] = duration_ns;
                    phase.helpers.accounts.0 = [start_ns; 11];
                }
                match kind % 4 {
                    0 => request.phases[0].name = "broadcast".into(),
                    1 => request.phases[1].parent = Some(u64::MAX),
                    2 => request.phases.clear(),
                    _ => {}
                }
                ranks.add(folder, &request, offset_ns);
            }
        }
        let folders = (0..3).map(|at| Observed {
            clock: at * usize::from(clocks),
            is_from_start: at == 1,
            is_whole: at > 0,
            is_coarse: at == 2,
        });
        let terms = Terms { folders: folders.collect(), apart_ns: u64::MAX };
        let found = ranks.judged(&terms);
        for one in &found.collectives {
            let mut ranks: Vec<usize> = one.arrivals.iter().map(|arrival| arrival.rank).collect();
            ranks.sort_unstable();
            ranks.dedup();
            prop_assert_eq!(ranks.len(), one.arrivals.len());
            prop_assert!(one.arrivals.iter().map(|arrival| arrival.last).sum::<u64>() <= one.calls);
        }
    }

    /// None of several equal processes is named, whatever the noise of their steps.
    #[test]
    fn equal_processes_are_not_named(seed in any::<u32>(), ranks in 2..6_usize, waits in any::<bool>()) {
        let kind = if waits { Kind::Waits } else { Kind::Asks };
        let takes = move |rank: usize, step: u64| 20 * MS + noise(rank, step + u64::from(seed), 4 * MS);
        let training = Training { ranks, ..Training::new(kind, takes) };
        let found = judged(&training.steps());
        prop_assert_eq!(found.straggler, None);
        let last: std::collections::BTreeMap<usize, u64> =
            found.collectives[0].arrivals.iter().map(|arrival| (arrival.rank, arrival.last)).collect();
        prop_assert_eq!(last.len(), ranks);
    }

    /// One that is slower by a tenth of a step and more is named with that, whatever is missing at the ends.
    #[test]
    fn a_slow_process_is_named_whatever_is_missing_at_the_ends(
        slow in 0..4_usize,
        extra_ms in 4..40_u64,
        first in 0..50_usize,
        joined in 0..4_usize,
        end in 100..200_usize,
    ) {
        let takes = move |rank: usize, step: u64| {
            20 * MS + noise(rank, step, MS) + if rank == slow { extra_ms * MS } else { 0 }
        };
        let mut steps = Training { ranks: 4, ..Training::new(Kind::Waits, takes) }.steps();
        steps[3 - joined].truncate(end);
        steps[joined].drain(..first);
        let found = judged(&steps);
        prop_assert_eq!(found.collectives[0].verdict, Verdict::Late(slow));
        let margin_ns = found.collectives[0].arrivals[0].margin_ns;
        prop_assert!(margin_ns.abs_diff((extra_ms * MS) as i64) < 2 * MS);
    }

    /// Whatever is missing, no other process is named than the slow one, and it only if it is slow.
    #[test]
    fn nobody_is_named_in_the_place_of_another(
        waits in any::<bool>(), slow in 0..3_usize, extra_ms in prop_oneof![Just(0_u64), 0..200_u64],
        noises in prop::array::uniform3(0..8_u64), drained in prop::array::uniform3(0..30_usize),
        kept in prop::array::uniform3(150..200_usize), lost in prop::option::of((0..3_usize, 0..100_usize)),
        is_from_start in any::<bool>()
    ) {
        let kind = if waits { Kind::Waits } else { Kind::Asks };
        let takes = move |rank: usize, step: u64| {
            20 * MS + noise(rank, step, noises[rank] * MS / 2) + if rank == slow { extra_ms * MS } else { 0 }
        };
        let mut steps = Training::new(kind, takes).steps();
        for (rank, one) in steps.iter_mut().enumerate() {
            one.truncate(kept[rank]);
            one.drain(..drained[rank]);
        }
        if let Some((rank, at)) = lost {
            steps[rank].remove(at);
        }
        let mut terms = terms(3);
        terms.folders.iter_mut().for_each(|folder| folder.is_from_start = is_from_start);
        let found = collected(&steps).judged(&terms);
        if let Some(straggler) = found.straggler {
            // A process that has more noise is slower as well, by half of it in the mean.
            let noise_ns = noises[straggler.rank] * MS / 4;
            let is_slow = straggler.rank == slow && extra_ms > 0;
            prop_assert!(is_slow || extra_ms * MS <= noise_ns && noise_ns > 0, "{:?}", found.collectives);
        }
    }
}
