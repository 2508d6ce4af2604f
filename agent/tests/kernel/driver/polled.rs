//! A thread that polls a device of a graphics processor's driver, where no function of it is followed, and
//! where one is: a virtual terminal stands in for the device.

use guestscope_contract::{Account, GPU_MAJORS};
use rstest::rstest;

use super::CUDA;
use crate::{
    accounts::{assert_account, compared},
    agreement::{self, up_to_three_times},
    harness::Case,
};

/// The major number of virtual terminals.
const TERMINALS: [u32; GPU_MAJORS] = [4, 0, 0, 0, 0, 0, 0, 0];
/// Those of real drivers.
const OTHERS: [u32; GPU_MAJORS] = [226, 195, 0, 0, 0, 0, 0, 0];

fn check(case: Case, name: &str, account: Account) {
    let Some(seen) = compared(case, name, 1, 0) else { return };
    assert_account(&seen, 1, account);
    let waited_ns = seen.request(1).accounts.get(account);
    let bounds = (seen.book.fact("asked_ns"), seen.book.fact("calls_ns"));
    agreement::time(name, account.name(), waited_ns, bounds, 0);
}

#[rstest]
#[case::alone("polls_device", TERMINALS, false, Account::Gpu)]
#[case::without_types("polls_device", TERMINALS, true, Account::Gpu)]
#[case::with_a_mask("polls_device_with_mask", TERMINALS, false, Account::Gpu)]
#[case::behind_three_others("polls_device_fourth", TERMINALS, false, Account::Gpu)]
#[case::behind_four_others("polls_device_fifth", TERMINALS, false, Account::Poll)]
#[case::another_device("polls_device", OTHERS, false, Account::Poll)]
#[case::nothing("poll", TERMINALS, false, Account::Poll)]
fn polling_a_device_is_waiting_for_it(
    #[case] name: &'static str,
    #[case] majors: [u32; GPU_MAJORS],
    #[case] is_raw: bool,
    #[case] account: Account,
) {
    up_to_three_times(|| {
        let case = Case::new(name).gpus(majors);
        let case = if is_raw { case.by_file("/sys/kernel/btf/vmlinux") } else { case };
        check(case, name, account);
    });
}

/// A driver's own threads poll the device while they have nothing to do.
#[test]
fn polling_a_device_beside_a_stub_of_its_driver_stays_polling() {
    up_to_three_times(|| {
        let name = "polls_device_beside_a_driver";
        let Some((_folder, library)) = CUDA.copied(name) else { return };
        check(Case::new(name).driver(library).gpus(TERMINALS), name, Account::Poll);
    });
}

/// What another thread waits for is the device, by the thread that polls it.
#[test]
fn a_lock_that_such_a_thread_ends_is_blamed_on_the_device() {
    up_to_three_times(|| {
        let name = "polls_device_for_another";
        let Some(seen) = compared(Case::new(name).gpus(TERMINALS), name, 1, 0) else { return };
        assert_account(&seen, 1, Account::Lock);
        let waits = seen.waits_in(1);
        let locks: Vec<_> = waits.iter().filter(|wait| wait.account == Account::Lock).collect();
        let by_device = locks.iter().filter_map(|wait| wait.blame);
        let by_device = by_device.filter(|blame| blame.account == Account::Gpu && blame.depth == 1).count();
        // It is asked some twenty times.
        agreement::holds(by_device >= 15 && by_device * 10 >= locks.len() * 8, || format!("{locks:?}"));
    });
}
