//! Libraries of graphics processors' drivers as programs meet them: loaded late, in several copies, unloaded
//! and loaded again, after a fork, and files that only have the name; and what a run folder says of each
//! function, against the stub's own log. By stubs of the libraries of CUDA, HIP and Level Zero; no machine
//! with a device takes part.

use std::{fs, path::PathBuf};

use guestscope::phase::Phase;
use guestscope_contract::Account;
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::phase,
    ground::{Ground, example, file, python},
    running::Done,
};

/// Time of a call in the library, ns.
const CALL_NS: u64 = 4_000_000;

/// Calls of a phase of `gpu_waits.py`, and what each copies.
const CALLS: u64 = 20;
const BYTES: u64 = 4096;
/// What a call may be off at most, ns, and as a part of its phase: the project's own promise.
const SLACK_NS: u64 = 2_000;
const SLACK_PART: u64 = 100;

/// Runs the program with these words.
fn run(test: &str, ground: &Ground, words: &[&str]) -> Option<Done> {
    run_program(test, ground, "gpu_calls.py", words)
}

fn run_program(test: &str, ground: &Ground, program: &str, words: &[&str]) -> Option<Done> {
    let python = python(test)?;
    let run = ground.run().environment("GUESTSCOPE_NVML", example("libnvidia_ml_stub.so"));
    let run = run.environment("PYTHONDONTWRITEBYTECODE", "1");
    Some(run.program(python).word(file("tests/data/e2e").join(program)).words(words).finish().expect(0))
}

#[test]
fn each_copy_of_a_library_is_followed_from_when_it_is_seen() {
    let test = "drivers::each_copy_of_a_library_is_followed_from_when_it_is_seen";
    let Some(ground) = Ground::new(test) else { return };
    let copies: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| ground.path(name)).collect();
    let libraries: Vec<String> = copies
        .iter()
        .map(|folder| {
            let library = folder.join("libcuda.so.535.261.03");
            fs::create_dir(folder).expect("the place is ours");
            fs::copy(example("libcuda_stub.so"), &library).expect("the place is ours");
            library.display().to_string()
        })
        .collect();
    let words = ["calls", &libraries[0], &libraries[1], &libraries[2]];
    let Some(done) = run(test, &ground, &words) else { return };
    assert_eq!(done.losses(), [], "{}", done.stderr);
    let seen = done.seen();
    for (name, count) in [("first", 6), ("second", 6), ("third", 3), ("again", 3), ("forked", 3)] {
        let named = seen.named(name);
        assert_eq!(named.len(), count, "{name}");
        // The kernel tests know of what size; here it matters that each copy has its probes.
        let (mut waited_ns, mut inside_ns) = (0, 0);
        for request in named {
            let phase = phase(request, "sync");
            assert_eq!(phase.counts.gpu_wait, 1, "{name}: {phase:?}");
            assert!(phase.counts.gpu_wait_ns >= CALL_NS, "{name}: {phase:?}");
            waited_ns += phase.accounts.get(Account::Gpu) + phase.counts.cpu_gpu_ns;
            inside_ns += phase.counts.gpu_wait_ns.saturating_sub(phase.accounts.get(Account::Runq));
        }
        assert!(waited_ns >= inside_ns / 2, "{name}: {waited_ns} of {inside_ns} ns");
    }
}

#[rstest]
#[case::no_program("libcuda.so.1", b"no program at all".to_vec(), "is no ELF file")]
#[case::another_library("libcuda.so.1", fs::read(example("libnvidia_ml_stub.so")).unwrap(), "by which CUDA waits")]
#[case::of_amd("libamdhip64.so.6", fs::read(example("libcuda_stub.so")).unwrap(), "by which HIP waits")]
fn a_file_that_only_has_the_name_is_told(#[case] name: &str, #[case] bytes: Vec<u8>, #[case] why: &str) {
    let test = "drivers::a_file_that_only_has_the_name_is_told";
    let Some(ground) = Ground::new(test) else { return };
    fs::write(ground.path(name), bytes).expect("the place is ours");
    let path = ground.path(name).display().to_string();
    let Some(done) = run(test, &ground, &["maps", &path]) else { return };
    assert!(done.stderr.contains("waits for the GPU are not all known"), "{}", done.stderr);
    assert!(done.stderr.contains(why), "{}", done.stderr);
    assert_eq!(done.seen().requests.len(), 1);
}

/// Whether a time is at least another one, up to the promise and what a hypervisor took.
fn is_least(ours_ns: u64, low_ns: u64, steal_ns: u64) -> bool {
    low_ns <= ours_ns + (CALLS * SLACK_NS).max(low_ns / SLACK_PART) + steal_ns
}

/// The same, at most.
fn is_most(ours_ns: u64, high_ns: u64, steal_ns: u64) -> bool {
    is_least(high_ns, ours_ns, steal_ns)
}

/// A phase of calls, against the line of the program's book: what passed inside the stub, and around it.
fn check_against_the_log(phase: &Phase, line: &Value) {
    let fact = |name: &str| line[name].as_u64().expect("a number");
    let text = || format!("{line}: {phase:?}");
    let counts = &phase.counts;
    assert_eq!((fact("calls"), counts.gpu_wait + counts.gpu_copy), (CALLS, CALLS), "{}", text());
    let (inside_ns, around_ns) = (fact("inside_ns"), fact("around_ns"));
    let ours_ns = counts.gpu_wait_ns + counts.gpu_copy_ns;
    assert!(is_least(ours_ns, inside_ns, 0) && is_most(ours_ns, around_ns, 0), "{}", text());
    let (cpu_ns, steal_ns) = (counts.cpu_gpu_ns, counts.steal_ns);
    let (inside_cpu_ns, around_cpu_ns) = (fact("inside_cpu_ns"), fact("around_cpu_ns"));
    // An interrupt costs more than a call's promise: the slack is a part of the whole time, not of time on
    // CPU.
    let slack_ns = steal_ns + inside_ns / SLACK_PART;
    // The kernel counts a thread whose wakeup preempts as on the CPU from when it is enqueued, the ledger
    // from the switch; until then it is in `runq` (kernel tests, `agreement::compare_times`).
    let woken_ns = if counts.wakeup > 0 { phase.accounts.get(Account::Runq) } else { 0 };
    let holds =
        is_least(cpu_ns + woken_ns, inside_cpu_ns, steal_ns) && is_most(cpu_ns, around_cpu_ns, slack_ns);
    assert!(holds, "{}", text());
    // What is not on a CPU inside is off it: for the device, or without a CPU.
    let of = |accounts: &[Account]| -> u64 { accounts.iter().map(|one| phase.accounts.get(*one)).sum() };
    let gpu_ns = of(&[Account::Gpu]);
    let not_run_ns = of(&[Account::Runq, Account::Throttled, Account::Fault, Account::BlockIo]);
    // A thread's own clock leaves out interrupts, which the accounts count as `cpu`: the promise is for each
    // of the two times, and their difference is small where the driver spins.
    let off_cpu_ns = inside_ns.saturating_sub(inside_cpu_ns);
    assert!(is_least(gpu_ns + not_run_ns, off_cpu_ns, slack_ns), "{}", text());
    assert!(is_most(gpu_ns, around_ns.saturating_sub(around_cpu_ns), slack_ns), "{}", text());
    assert_eq!(of(&[Account::Lock, Account::Poll, Account::Sleep]), 0, "{}", text());
    if line["way"] == 1 {
        assert_eq!(gpu_ns, 0, "it spins: {}", text());
    } else {
        assert!(gpu_ns >= off_cpu_ns / 2, "it sleeps: {}", text());
    }
}

#[rstest]
#[case::hip("libhip_stub.so", "libamdhip64.so.5", &[
    "hipDeviceSynchronize", "hipStreamSynchronize", "hipEventSynchronize", "hipMemcpyHtoDAsync",
    "hipMemcpyDtoHAsync",
])]
#[case::level_zero("libze_stub.so", "libze_loader.so.1", &[
    "zeCommandQueueSynchronize", "zeCommandListHostSynchronize", "zeFenceHostSynchronize",
    "zeEventHostSynchronize", "zeCommandListAppendMemoryCopy",
])]
fn waits_inside_stubs_of_hip_and_level_zero_are_for_the_gpu(
    #[case] built: &str,
    #[case] name: &str,
    #[case] functions: &[&str],
) {
    let test = "drivers::waits_inside_stubs_of_hip_and_level_zero_are_for_the_gpu";
    let Some(ground) = Ground::new(test) else { return };
    let library = ground.path(name);
    fs::copy(example(built), &library).expect("the place is ours");
    let path = library.display().to_string();
    let words: Vec<&str> = [path.as_str()].into_iter().chain(functions.iter().copied()).collect();
    let Some(done) = run_program(test, &ground, "gpu_waits.py", &words) else { return };
    assert_eq!(done.losses(), [], "{}", done.stderr);
    let (seen, book) = (done.seen(), ground.book());
    let lines: Vec<Value> = book.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), seen.requests.len()), (2 * functions.len(), 2 * functions.len()));
    for line in &lines {
        let name = line["name"].as_str().expect("a name");
        let requests = seen.named(name);
        let request = requests.into_iter().find(|request| line["way"] == request.root().request);
        let phase = phase(request.unwrap_or_else(|| panic!("{line}")), "sync");
        check_against_the_log(phase, line);
        let counts = &phase.counts;
        let copied = (counts.gpu_to_device_bytes, counts.gpu_from_device_bytes);
        let bytes = match name {
            "hipMemcpyHtoDAsync" => (CALLS * BYTES, 0),
            "hipMemcpyDtoHAsync" => (0, CALLS * BYTES),
            // Of the others the names do not tell how much is copied which way.
            _ => (0, 0),
        };
        assert_eq!((copied, counts.gpu_unreturned), (bytes, 0), "{line}");
        assert_eq!(counts.gpu_copy > 0, name.contains("Mem"), "{line}");
    }
}
