//! Calls of the stub of CUDA's driver that end without a return: each is counted once, and nothing that its
//! thread, or the next one in its slot, does afterwards belongs to it.

use guestscope::phase::Thread;
use guestscope_contract::Account;
use rstest::rstest;

use super::{APART_NS, CALL_NS, CUDA, bounds};
use crate::{
    agreement::{self, up_to_three_times},
    seen::Seen,
};

/// A phase without a call in it, asleep for 5 ms.
fn check_asleep(seen: &Seen, number: u64) {
    let phase = seen.request(number);
    assert!(phase.accounts.get(Account::Sleep) >= 5_000_000, "{phase:?}");
    assert_eq!((phase.accounts.get(Account::Gpu), phase.counts.cpu_gpu_ns), (0, 0), "{phase:?}");
}

/// Threads that called the driver. Each of their calls has not returned.
fn unreturned(seen: &Seen, threads: usize) -> Vec<&Thread> {
    let called: Vec<_> = seen.threads.iter().filter(|thread| thread.counts.gpu_wait > 0).collect();
    assert_eq!(called.len(), threads, "{:?}", seen.threads);
    for thread in &called {
        assert_eq!((thread.counts.gpu_wait, thread.counts.gpu_unreturned), (1, 1), "{thread:?}");
    }
    let all: u64 = seen.threads.iter().map(|thread| thread.counts.gpu_unreturned).sum();
    assert_eq!(all, threads as u64, "{:?}", seen.threads);
    called
}

/// A slot whose last thread ended inside a call is used again.
#[test]
fn a_thread_that_ends_inside_leaves_nothing_behind() {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen("driver_exits", &[], false) else { return };
        (1..=4).for_each(|number| check_asleep(&seen, number));
        for thread in unreturned(&seen, 4) {
            // It spun to its end, which is in the sums.
            let counts = &thread.counts;
            let not_on_cpu = [Account::Runq, Account::Throttled, Account::Fault];
            let not_on_cpu_ns: u64 = not_on_cpu.map(|account| thread.accounts.get(account)).into_iter().sum();
            let passed_ns = counts.cpu_gpu_ns + counts.steal_ns + not_on_cpu_ns + APART_NS;
            agreement::holds(passed_ns >= CALL_NS, || format!("{thread:?}"));
            assert!(counts.cpu_gpu_ns <= thread.accounts.get(Account::Cpu), "{thread:?}");
            assert!(counts.gpu_wait_ns >= CALL_NS, "{thread:?}");
        }
    });
}

/// `pthread_exit` goes up the stack first, so that nobody knows when the call was left.
#[test]
fn a_thread_that_the_c_library_ends_inside_leaves_nothing_behind() {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen("driver_ends_threads", &[], false) else { return };
        (1..=4).for_each(|number| check_asleep(&seen, number));
        for thread in unreturned(&seen, 4) {
            assert_eq!((thread.counts.gpu_wait_ns, thread.accounts.get(Account::Gpu)), (0, 0), "{thread:?}");
        }
    });
}

#[rstest]
#[case::with_types(false)]
#[case::without_types(true)]
fn a_thread_that_jumps_out_is_not_inside_any_more(#[case] is_raw: bool) {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen("driver_jumps", &[], is_raw) else { return };
        check_asleep(&seen, 1);
        for (number, calls, left) in [(1, 1, 1), (2, 1, 1), (3, 0, 0), (4, 2, 1), (5, 3, 2)] {
            let phase = seen.request(number);
            assert_eq!((phase.counts.gpu_wait, phase.counts.gpu_unreturned), (calls, left), "{phase:?}");
            assert_eq!(phase.accounts.get(Account::Gpu), 0, "{phase:?}");
            // Only calls that returned have a time.
            let [inside, on_cpu] = match number {
                1..4 => [(0, 0); 2],
                _ => [("inside", "around"), ("inside_cpu", "around_cpu")]
                    .map(|(inside, around)| bounds(&seen, inside, around, number)),
            };
            agreement::time("driver_jumps", "inside", phase.counts.gpu_wait_ns, inside, APART_NS);
            agreement::time("driver_jumps", "on a CPU inside", phase.counts.cpu_gpu_ns, on_cpu, APART_NS);
        }
    });
}

/// The thread inside the call starts another program, or another thread does.
#[rstest]
#[case::itself("driver_execs", 1)]
#[case::another_thread("driver_is_replaced", 2)]
fn a_new_program_is_not_inside_a_call_of_the_old_one(#[case] name: &'static str, #[case] threads: usize) {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen(name, &[], false) else { return };
        check_asleep(&seen, 1);
        unreturned(&seen, 1);
        assert_eq!(seen.threads.len(), threads, "{:?}", seen.threads);
    });
}
