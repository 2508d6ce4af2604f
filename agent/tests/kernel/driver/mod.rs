//! Time inside functions of graphics processors' drivers, against the logs of stubs of CUDA's driver, HIP and
//! Level Zero: each number of the agent lies between what passed inside the stub's functions and what passed
//! around their calls. No card takes part.

mod left;
mod polled;

use guestscope::phase::Phase;
use guestscope_contract::{Account, metrics::Counts};
use rstest::rstest;

use crate::{
    agreement::{self, up_to_three_times},
    harness::{Case, program, skipped},
    seen::Seen,
};

/// Calls of a phase, and the time of each in the library, ns.
const CALLS: u64 = 20;
const CALL_NS: u64 = 2_000_000;
/// The clocks of the program and of the kernel side are read one after the other, within this time.
const APART_NS: u64 = 2_000;

/// A stub.
#[derive(Clone, Copy)]
struct Stub {
    /// Its example, and the file that this builds.
    example: &'static str,
    built: &'static str,
    /// The library that it stands for.
    library: &'static str,
}

const CUDA: Stub = Stub { example: "cuda_stub", built: "libcuda_stub.so", library: "libcuda.so.1" };
const HIP: Stub = Stub { example: "hip_stub", built: "libhip_stub.so", library: "libamdhip64.so.5" };
const LEVEL_ZERO: Stub = Stub { example: "ze_stub", built: "libze_stub.so", library: "libze_loader.so.1" };

impl Stub {
    /// A copy under the name of the library, in a folder of its own: a probed file is known by its inode.
    /// None, with a note, in a guest whose programs are static.
    fn copied(self, name: &str) -> Option<(tempfile::TempDir, std::path::PathBuf)> {
        let built = program().with_file_name(self.built);
        if !built.exists() && std::env::var_os("GUESTSCOPE_DISPOSABLE").is_some() {
            skipped(name, "static programs load no library");
            return None;
        }
        assert!(built.exists(), "build it with `--example {}`: {}", self.example, built.display());
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let library = folder.path().join(self.library);
        std::fs::copy(built, &library).expect("the folder is ours");
        Some((folder, library))
    }

    /// A run of this case with probes in the stub; the program is given the stub and these words.
    fn seen(self, name: &'static str, words: &[&str], is_raw: bool) -> Option<Seen> {
        let (_folder, library) = self.copied(name)?;
        let mut case = Case::new(name).driver(library);
        case = words.iter().fold(case, |case, word| case.argument(*word));
        if is_raw {
            case = case.by_file("/sys/kernel/btf/vmlinux");
        }
        let seen = case.run()?;
        seen.check();
        seen.check_no_losses();
        Some(seen)
    }
}

/// What the program noted of a phase: inside the stub, and around its calls.
fn bounds(seen: &Seen, inside: &str, around: &str, number: u64) -> (u64, u64) {
    let fact = |name: &str| seen.book.fact(&format!("{name}{number}"));
    (fact(inside), fact(around))
}

/// Off the CPU inside the driver, and on it.
fn waited_ns(phase: &Phase) -> u64 {
    phase.accounts.get(Account::Gpu) + phase.counts.cpu_gpu_ns
}

/// The numbers of a phase agree with the stub's log.
fn compare(seen: &Seen, name: &str, number: u64) {
    let phase = seen.request(number);
    let Counts { cpu_gpu_ns, gpu_wait_ns, gpu_copy_ns, gpu_wait, gpu_copy, .. } = phase.counts;
    assert_eq!(gpu_wait + gpu_copy, seen.book.fact(&format!("calls{number}")), "{phase:?}");
    let slack_ns = APART_NS * (gpu_wait + gpu_copy);
    let inside_ns = gpu_wait_ns + gpu_copy_ns;
    agreement::time(name, "inside", inside_ns, bounds(seen, "inside", "around", number), slack_ns);
    let bounds = bounds(seen, "inside_cpu", "around_cpu", number);
    agreement::time(name, "on a CPU inside", cpu_gpu_ns, bounds, slack_ns);
    // Whatever else passed inside: it stood in a run queue, or faulted.
    let not_gpu = [Account::Runq, Account::Throttled, Account::Fault, Account::BlockIo];
    let rest_ns: u64 = not_gpu.map(|account| phase.accounts.get(account)).into_iter().sum();
    let rest_ns = rest_ns + phase.counts.steal_ns;
    let text = || format!("{} of {inside_ns} ns: {phase:?}", waited_ns(phase));
    // The time on a CPU is by the thread's own clock, which leaves out interrupts: one for each wake-up.
    let slack_ns = slack_ns.max(inside_ns / 100);
    agreement::holds(waited_ns(phase) + rest_ns + slack_ns >= inside_ns, text);
    let elsewhere = [Account::Lock, Account::Poll, Account::Sleep, Account::Other];
    let elsewhere_ns: u64 = elsewhere.map(|account| phase.accounts.get(account)).into_iter().sum();
    assert_eq!(elsewhere_ns, 0, "every sleep of the phase is one for the device: {phase:?}");
}

#[rstest]
#[case::spinning("driver_spins", false)]
#[case::blocking("driver_blocks", false)]
#[case::spinning_then_blocking("driver_does_both", false)]
#[case::calls_inside_calls("driver_nests", false)]
#[case::spinning_without_types("driver_spins", true)]
#[case::blocking_without_types("driver_blocks", true)]
fn waits_inside_a_driver_are_for_the_device(#[case] name: &'static str, #[case] is_raw: bool) {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen(name, &[], is_raw) else { return };
        compare(&seen, name, 1);
        let phase = seen.request(1);
        assert_eq!((phase.counts.gpu_wait, phase.counts.gpu_unreturned), (CALLS, 0));
        agreement::holds(waited_ns(phase) >= CALLS * CALL_NS * 95 / 100, || format!("{phase:?}"));
        let gpu_ns = phase.accounts.get(Account::Gpu);
        match name {
            "driver_blocks" => agreement::holds(gpu_ns >= CALLS * CALL_NS * 9 / 10, || format!("{phase:?}")),
            "driver_does_both" => {
                agreement::holds(gpu_ns >= CALLS * CALL_NS * 4 / 10, || format!("{phase:?}"));
            }
            _ => assert_eq!(gpu_ns, 0, "{phase:?}"),
        }
        // None of it is charged to the program's own code: nothing is sampled inside.
        let Counts { sample_user, sample_spin, sample_syscall, .. } = phase.counts;
        agreement::holds(sample_user + sample_spin + sample_syscall <= 2, || format!("{phase:?}"));
    });
}

/// As the sources of these libraries have them; what they do on a card was never seen.
#[rstest]
#[case::hip(HIP, &[
    "hipDeviceSynchronize", "hipCtxSynchronize", "hipStreamSynchronize", "hipStreamSynchronize_spt",
    "hipEventSynchronize",
])]
#[case::level_zero(LEVEL_ZERO, &[
    "zeCommandQueueSynchronize", "zeCommandListHostSynchronize", "zeFenceHostSynchronize",
    "zeEventHostSynchronize",
])]
fn functions_of_stubs_of_other_drivers_wait_for_the_device(#[case] stub: Stub, #[case] functions: &[&str]) {
    up_to_three_times(|| {
        let Some(seen) = stub.seen("driver_by_name", functions, false) else { return };
        let phases = functions.iter().flat_map(|name| [(name, "spins"), (name, "sleeps")]);
        for (number, (name, way)) in (1..).zip(phases) {
            compare(&seen, name, number);
            let phase = seen.request(number);
            let text = || format!("{name} {way}: {phase:?}");
            assert_eq!((phase.counts.gpu_wait, phase.counts.gpu_unreturned), (CALLS, 0), "{}", text());
            agreement::holds(waited_ns(phase) >= CALLS * CALL_NS * 95 / 100, text);
            let gpu_ns = phase.accounts.get(Account::Gpu);
            if way == "spins" {
                assert_eq!(gpu_ns, 0, "{}", text());
            } else {
                agreement::holds(gpu_ns >= CALLS * CALL_NS * 9 / 10, text);
            }
        }
    });
}

#[rstest]
#[case::of_cuda(CUDA, &["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])]
#[case::of_hip(HIP, &["hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync"])]
fn copies_have_their_bytes_and_whether_they_blocked(#[case] stub: Stub, #[case] functions: &[&str]) {
    up_to_three_times(|| {
        let Some(seen) = stub.seen("driver_copies", functions, false) else { return };
        for number in [1, 2] {
            compare(&seen, stub.library, number);
        }
        let [blocking, at_once] = [1, 2].map(|number| seen.request(number).counts);
        for (counts, bytes) in [(blocking, 1 << 20), (at_once, 64)] {
            assert_eq!((counts.gpu_copy, counts.gpu_wait), (2 * CALLS, 0));
            let copied = (counts.gpu_to_device_bytes, counts.gpu_from_device_bytes);
            assert_eq!(copied, (CALLS * bytes, CALLS * bytes / 2));
        }
        assert_eq!(blocking.gpu_copy_blocking, 2 * CALLS);
        // An emulated processor takes longer for the call alone.
        if !agreement::is_emulated() {
            agreement::holds(at_once.gpu_copy_blocking <= 2, || format!("{at_once:?}"));
        }
    });
}

#[test]
fn many_threads_wait_at_once() {
    up_to_three_times(|| {
        let Some(seen) = CUDA.seen("driver_of_many", &[], false) else { return };
        for number in 1..=32 {
            compare(&seen, "driver_of_many", number);
            assert_eq!(seen.request(number).counts.gpu_wait, CALLS);
        }
    });
}
