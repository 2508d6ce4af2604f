//! Memory that is shared, tried by two interpreters: miri for undefined behaviour, loom for the orders in
//! which threads may run and see each other's writes.
//!
//! Yields the items of `check`. What they run are ordinary tests, which are in `cargo test` as well.

use crate::{
    Xtask, artifact,
    item::{self, Item, Verdict},
    toolchain::Toolchain,
};

const MIRI: &str = "miri";
/// Crates, and which of their tests: those of code that uses pointers, less what takes minutes where each
/// instruction takes a thousand times as long.
const INTERPRETED: [(&str, &[&str]); 2] = [
    (
        "guestscope-contract",
        &["calls::", "helpers::", "ledger::tests::a_", "--skip", "the_sum_is_what_the_threads_spent_outside"],
    ),
    ("guestscope-marker", &["ring::"]),
];

/// The contract and the ring, without undefined behaviour.
pub(crate) fn miri(xtask: &Xtask, toolchain: &Toolchain) -> Item {
    if !toolchain.nightly_has(xtask, MIRI) {
        let why = "  not run: this compiler has no miri, and none can be had for it".to_owned();
        return Item { name: MIRI, verdict: Verdict::NotRun(why) };
    }
    for (package, tests) in INTERPRETED {
        let mut command = toolchain.bpf_cargo(xtask);
        command.args([MIRI, "test", "--locked", "--package", package, "--lib", "--target-dir"]);
        command.arg(xtask.workspace.target.join(MIRI)).arg("--").args(tests);
        // Property tests ask where they are, to keep what failed.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "1");
        let item = item::item(xtask, MIRI, &mut command);
        if !matches!(item.verdict, Verdict::Passed) {
            return item;
        }
    }
    Item { name: MIRI, verdict: Verdict::Passed }
}

/// Both ends of the ring, in all orders; built as among all tests of the host.
pub(crate) fn loom(xtask: &Xtask, toolchain: &Toolchain) -> Item {
    let mut command = artifact::host_cargo(xtask, toolchain, "test", &xtask.workspace.test_features());
    item::item(xtask, "loom", command.args(["--test", "model"]))
}
