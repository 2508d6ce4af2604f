//! The same comparisons by raw tracepoints and a BTF file, as on a kernel built without BTF: fidelity `raw`.
//!
//! The file is the running kernel's own BTF. The programs' bodies are those of the typed ones; reads of
//! memory and of saved registers differ. So there is a case for each structure that is read.

use guestscope::{
    facts::btf::{Btf, KERNEL_BTF},
    loader::{self, Knowledge, LoadError, LoadOptions, SuppliedError},
};
use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    accounts::{assert_account, compared, on_disk},
    agreement::{self, compare, up_to_three_times},
    harness::{Case, skipped},
    lives::{assert_same_threads, compare_the_dead},
    machine::Alone,
    throttle::bounds,
};

/// A case, and its name in the table.
fn raw(name: &'static str) -> (Case, String) {
    (Case::new(name).by_file(KERNEL_BTF), format!("raw {name}"))
}

#[rstest]
#[case::spin("spin", 1, 0)]
#[case::yields("yield", 2, 0)]
#[case::interrupted("interrupted", 1, 200)]
#[case::contenders("contend", 2, 0)]
fn running_and_waiting_to_run(#[case] name: &'static str, #[case] phases: u64, #[case] signals: u64) {
    up_to_three_times(|| {
        let (case, name) = raw(name);
        compared(case, &name, phases, signals);
    });
}

/// Saved registers, open files, wake-ups.
#[rstest]
#[case::sleep("sleep", 1, Account::Sleep)]
#[case::poll("poll", 1, Account::Poll)]
#[case::lock("lock", 2, Account::Lock)]
#[case::pipe("pipe_200", 2, Account::Other)]
#[case::recv("recv", 2, Account::Net)]
#[case::read_on_one_of_many("read_200", 2, Account::Net)]
#[case::sleep_in_a_32_bit_call("sleep_32", 1, Account::Sleep)]
#[case::read_in_a_32_bit_call("socket_32", 1, Account::Net)]
fn waiting(#[case] name: &'static str, #[case] phases: u64, #[case] account: Account) {
    up_to_three_times(|| {
        let (case, name) = raw(name);
        let Some(seen) = compared(case, &name, phases, 0) else { return };
        (1..=phases).for_each(|number| assert_account(&seen, number, account));
    });
}

/// The mark of a wait for a disk, which is one bit of a bit field, and I/O counts.
#[test]
fn waiting_for_a_disk() {
    up_to_three_times(|| {
        let (case, name) = raw("direct");
        let Some(folder) = on_disk() else { return skipped(&name, "no folder on a disk") };
        let Some(seen) = compared(case.argument(folder), &name, 1, 0) else { return };
        assert_account(&seen, 1, Account::BlockIo);
        let bytes = seen.book.facts("read_bytes").iter().sum::<u64>();
        agreement::count(&name, "bytes read", seen.request(1).counts.block_read_bytes, (bytes, bytes));
    });
}

/// The group's throttle clock, behind three pointers.
#[test]
fn a_lack_of_quota() {
    up_to_three_times(|| {
        let (case, name) = raw("quota");
        let Some(seen) = compared(case, &name, 1, 0) else { return };
        let throttled_ns = seen.request(1).accounts.get(Account::Throttled);
        agreement::time(&name, "throttled", throttled_ns, bounds(&seen, "throttled_ns", 1), 0);
    });
}

#[test]
fn every_descendant_is_tracked() {
    up_to_three_times(|| {
        let (case, name) = raw("descend");
        let Some(seen) = case.run() else { return };
        seen.check();
        seen.check_no_losses();
        assert_same_threads(&seen, seen.threads.iter());
        assert_eq!(seen.processes.len(), 7, "{:?}", seen.processes);
        compare_the_dead(&name, &seen);
    });
}

#[test]
fn a_thread_that_starts_a_program_becomes_the_leader() {
    up_to_three_times(|| {
        let (case, name) = raw("exec_thread");
        let Some(seen) = case.run() else { return };
        seen.check();
        assert_eq!(seen.slots_held, 0);
        let (replaced, after) = (seen.request(1), seen.request(3));
        compare(&name, after, seen.book.row(3), 0);
        assert_eq!((after.thread.tid, after.thread.born_ns), (replaced.thread.tgid, replaced.thread.born_ns));
    });
}

/// The kernel's BTF with one member moved by this many bytes: valid, but of no real kernel.
fn moved(path: &str, bytes: u32) -> Vec<u8> {
    let mut btf = std::fs::read(KERNEL_BTF).expect("this kernel has BTF");
    let bits =
        8 * Btf::parse(btf.clone()).expect("it is whole").offset(path).expect("it has the member").offset;
    let name = format!("\0{}\0", path.rsplit('.').next().expect("a path has a name"));
    let word = |at: usize| u32::from_le_bytes(btf[at..at + 4].try_into().expect("four bytes"));
    let strings = (word(4) + word(16)) as usize;
    let found = btf[strings..].windows(name.len()).position(|window| window == name.as_bytes());
    let name = found.expect("its name is there") as u32 + 1;
    // Name, type and position. If several structures have such a member, it moves in each.
    let places: Vec<usize> =
        (0..strings - 12).step_by(4).filter(|&at| word(at) == name && word(at + 8) == bits).collect();
    assert!(!places.is_empty(), "the member is there");
    for at in places {
        btf[at + 8..at + 12].copy_from_slice(&(bits + 8 * bytes).to_le_bytes());
    }
    btf
}

#[rstest]
#[case::number("task_struct.tgid", 4, "number and name")]
#[case::stack("task_struct.stack", 8, "saved registers")]
#[case::files("task_struct.files", 8, "open files")]
#[case::kind_of_a_file("inode.i_mode", 2, "open files")]
#[case::cpu("task_struct.on_cpu", 4, "CPU")]
#[case::clock("rq.clock", 1024, "run queue's clock")]
fn a_file_of_another_kernel_is_refused(#[case] member: &str, #[case] bytes: u32, #[case] sign: &str) {
    let _alone = Alone::lock();
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    std::fs::write(file.path(), moved(member, bytes)).expect("it is ours");
    let options =
        LoadOptions { knowledge: Knowledge::File(file.path().to_owned()), ..LoadOptions::default() };
    match loader::load(&options).err() {
        Some(LoadError::Supplied { source: SuppliedError::Foreign(what), .. }) => {
            assert!(what.contains(sign), "{what}");
        }
        Some(error @ LoadError::Permission(_)) => skipped("foreign", &error.to_string()),
        other => panic!("it is refused: {other:?}"),
    }
}
