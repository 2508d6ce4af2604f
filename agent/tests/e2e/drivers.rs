//! Libraries of graphics processors' drivers as programs meet them: loaded late, in several copies, unloaded
//! and loaded again, after a fork, and files that only have the name. By a stub of CUDA's library; no machine
//! with a device takes part.

use std::{fs, path::PathBuf};

use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    folder::phase,
    ground::{Ground, example, file, python},
    running::Done,
};

/// Time of a call in the library, ns.
const CALL_NS: u64 = 4_000_000;

/// Runs the program with these words.
fn run(test: &str, ground: &Ground, words: &[&str]) -> Option<Done> {
    let python = python(test)?;
    let run = ground.run().environment("GUESTSCOPE_NVML", example("libnvidia_ml_stub.so"));
    let run = run.environment("PYTHONDONTWRITEBYTECODE", "1");
    Some(run.program(python).word(file("tests/data/e2e/gpu_calls.py")).words(words).finish().expect(0))
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
