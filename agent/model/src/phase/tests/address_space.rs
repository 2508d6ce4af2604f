//! Waits for the lock of an address space: which are, and what they are added to.

use insta::assert_snapshot;

use super::play;

/// Waits for the lock of the address space are a sum of each phase that they lie in, and of the thread: those
/// for another thread in a call for memory, in a page fault or in such a call.
#[test]
fn waits_for_the_address_space_are_added_up() {
    let mmap = libc::SYS_mmap;
    assert_snapshot!(play(&format!("
        0   10/10 adopt
        60  10/10 wait fault from=20 ready=50 waker=11 by=munmap
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 inner
        130 10/10 wait fault from=115 ready=125 waker=11 by=munmap
        150 10/10 wait other from=140 ready=145 waker=11 in={mmap}
        160 10/10 end 262145
        180 10/10 wait other from=170 ready=178 waker=11 in={mmap}
        190 10/10 wait other from=182 ready=188 waker=11 in=1
        200 10/10 end 262144
        230 10/10 exit
    ")), @"
    wait behind stress  10/10  20..60    outside, fault 30, runq 10, woken by 11 (cat)
    wait behind stress  10/10  115..130  in phase 2 of 1, fault 10, runq 5, woken by 11 (cat)
    wait behind stress  10/10  140..150  in phase 2 of 1, other 5, runq 5, woken by 11 (cat)
    wait behind stress  10/10  170..180  in phase 1 of 1, other 8, runq 2, woken by 11 (cat)
    wait behind stress  10/10  182..190  in phase 1 of 1, other 6, runq 2, woken by 11 (cat)
    request job #1      10/10  100..200  cpu 100, address_space_ns 23
      phase inner #1    10/10  110..160  cpu 50, address_space_ns 15
    thread python       10/10  0..230    cpu 230, address_space_ns 53, phases 2, exited
    process python      10/10  0..230    cpu 230, address_space_ns 53
    ");
}
