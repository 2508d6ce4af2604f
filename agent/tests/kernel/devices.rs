//! The device of a wait: the one to which the thread submitted in the same system call, before it left its
//! CPU; none if the thread waits for I/O of another thread, even if it has just read ahead in another call.

use std::{os::unix::fs::MetadataExt as _, time::Duration};

use guestscope::phase::{Wait, WaitedIo};
use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, up_to_three_times},
    harness::Case,
};

/// Numbers of pread64, pwrite64 and sync_file_range on x86-64 and on arm64.
const PREAD: [u32; 2] = [17, 67];
const PWRITE: [u32; 2] = [18, 68];
const SYNC_FILE_RANGE: [u32; 2] = [277, 84];

/// Shorter than any wait for a device.
const THRESHOLD: Duration = Duration::from_micros(2);

/// The waits for devices in one of these system calls; with no calls given, outside any.
fn waits_of<'a>(waits: &[&'a Wait], calls: &[u32]) -> Vec<&'a Wait> {
    let is_it = |wait: &&&Wait| match wait.syscall {
        Some(number) => wait.account == Account::BlockIo && calls.contains(&number),
        None => wait.account == Account::Fault && calls.is_empty(),
    };
    waits.iter().filter(is_it).copied().collect()
}

#[rstest]
#[case::with_types(false)]
#[case::without_types(true)]
fn a_wait_names_the_device_that_its_thread_had_submitted_to(#[case] is_raw: bool) {
    up_to_three_times(|| {
        let mut case = Case::new("devices").wait_threshold(THRESHOLD);
        if is_raw {
            case = case.by_file("/sys/kernel/btf/vmlinux");
        }
        let Some(seen) = compared(case, "devices", 1, 0) else { return };
        let number = seen.book.fact("device");
        let name = |number| format!("{}:{}", libc::major(number), libc::minor(number));
        let device = name(number);
        // If memory was short, the program's own code is read from its disk again.
        let own = std::env::current_exe().and_then(std::fs::metadata).expect("it is there").dev();
        let is_code = |calls: &[u32], io: &WaitedIo| calls.is_empty() && io.device == *name(own);
        let all = seen.waits_in(1);
        for (calls, what, direction) in
            [(&PREAD[..], "reads", "read"), (&PWRITE, "writes", "write"), (&[], "faults", "read")]
        {
            let waits = waits_of(&all, calls);
            let named = waits.iter().filter(|wait| wait.io.is_some()).count() as u64;
            // If a read of several parts is woken for each part, the later parts were submitted before an
            // earlier wait.
            agreement::count("devices", what, named, (10, waits.len() as u64));
            for io in waits.iter().filter_map(|wait| wait.io.as_ref()).filter(|io| !is_code(calls, io)) {
                assert_eq!(
                    (io.device.stored(), io.name.stored(), io.direction()),
                    (&*device, &*device, direction),
                    "{waits:?}"
                );
            }
        }
        // Before each of these calls the thread has read ahead, in another call and without sleeping.
        let others = waits_of(&all, &SYNC_FILE_RANGE);
        assert!(!others.is_empty(), "it waited for the other thread's writes: {all:?}");
        assert!(others.iter().all(|wait| wait.io.is_none()), "{others:?}");
        assert!(all.iter().filter_map(|wait| wait.io.as_ref()).all(|io| !io.is_held), "no limit: {all:?}");
        let elsewhere = |wait: &&&Wait| !matches!(wait.account, Account::BlockIo | Account::Fault);
        assert!(all.iter().filter(elsewhere).all(|wait| wait.io.is_none()), "{all:?}");
    });
}
