//! Calls and returns as programs make them, with jumps and unseen returns: the open call, and the sums.

use proptest::prelude::*;

use super::*;

const FRAME: u64 = 0x7fff_0000_1000;

/// A ledger with a transition at each other CPU time.
fn at(now_ns: u64, cpu_ns: u64) -> Instant {
    Instant { now_ns, cpu_ns, sequence: cpu_ns as u32 }
}

fn entered(does: Does) -> (DriverCall, Driver) {
    let (mut call, mut sums) = (DriverCall::default(), Driver::default());
    assert!(call.enter(does, FRAME, at(1_000, 400)));
    sums.count(does, 64);
    (call, sums)
}

#[test]
fn a_wait_spins_for_its_time_on_a_cpu() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(call.is_inside(FRAME - 8) && !call.is_inside(FRAME) && !call.is_inside(FRAME + 8));
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert_eq!(sums, Driver { cpu_ns: 300, waited_ns: 8_000, waits: 1, ..Driver::default() });
    assert!(!call.is_inside(FRAME - 8));
}

#[test]
fn a_copy_has_its_bytes_its_time_and_whether_it_blocked() {
    let (mut call, mut sums) = entered(Does::CopyIn);
    assert!(call.leave(&mut sums, FRAME, at(1_000 + BLOCKS_NS - 1, 700)));
    assert_eq!((sums.to_device_bytes, sums.copies, sums.copies_blocking), (64, 1, 0));
    assert_eq!((sums.cpu_ns, sums.copied_ns), (300, BLOCKS_NS - 1));
    assert!(call.enter(Does::CopyOut, FRAME, at(0, 0)));
    sums.count(Does::CopyOut, 5);
    assert!(call.leave(&mut sums, FRAME, at(BLOCKS_NS, 0)));
    assert_eq!((sums.from_device_bytes, sums.copies, sums.copies_blocking), (5, 2, 1));
}

#[test]
fn what_an_edge_took_is_not_counted_again() {
    let (mut call, mut sums) = entered(Does::Wait);
    call.settle(&mut sums, at(1_050, 450));
    call.settle(&mut sums, at(1_050, 450));
    assert_eq!(sums.cpu_ns, 50);
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert_eq!(sums.cpu_ns, 300);
}

/// The switch to its CPU was not seen: the ledger says that it waits, and nothing changes there.
#[test]
fn without_a_transition_it_was_on_its_cpu_all_the_time() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(call.leave(&mut sums, FRAME, at(9_000, 400)));
    assert_eq!(sums.cpu_ns, 8_000);
}

/// A switch that reached no hook is put right by the next one.
#[test]
fn a_ledger_that_takes_time_back_takes_none_from_the_sums() {
    let (mut call, mut sums) = entered(Does::Wait);
    call.settle(&mut sums, at(2_000, 300));
    assert_eq!(sums.cpu_ns, 0);
    call.settle(&mut sums, at(2_100, 9_000));
    assert_eq!(sums.cpu_ns, 100, "no more than has passed");
    assert!(call.leave(&mut sums, FRAME, at(9_000, 9_500)));
    assert_eq!(sums.cpu_ns, 600);
}

#[test]
fn inner_calls_belong_to_the_outer_one() {
    let (mut call, mut sums) = entered(Does::CopyIn);
    assert!(!call.enter(Does::Wait, FRAME - 256, at(2_000, 500)));
    assert!(!call.leave(&mut sums, FRAME - 256, at(3_000, 600)));
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert_eq!((sums.cpu_ns, sums.copied_ns, sums.waited_ns), (300, 8_000, 0));
}

/// A library that passes a call on jumps, so that both functions have one frame and one return address.
#[test]
fn a_function_that_jumps_to_another_one_is_one_call() {
    let (mut call, mut sums) = entered(Does::CopyIn);
    assert!(!call.enter(Does::CopyIn, FRAME, at(1_900, 420)));
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert!(!call.leave(&mut sums, FRAME, at(9_100, 710)), "the second return probe of the same address");
    assert_eq!((sums.copied_ns, sums.cpu_ns), (8_000, 300));
}

/// `longjmp` leaves no return behind, and a call that was under way when the probe came no entry.
#[test]
fn a_call_without_a_return_or_an_entry_ends_nothing_else() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(!call.is_inside(FRAME + 512) && call.is_over(FRAME + 512), "it has jumped out");
    assert!(call.enter(Does::Wait, FRAME + 64, at(5_000, 600)), "the next one, from a frame above");
    assert!(call.leave(&mut sums, FRAME + 64, at(6_000, 650)));
    assert_eq!(sums.cpu_ns, 50);
    assert!(!DriverCall::default().leave(&mut sums, FRAME, at(1, 1)));
    let none = DriverCall::default();
    assert!(!none.is_inside(0) && !none.is_inside(u64::MAX) && !none.is_over(0));
}

#[test]
fn the_next_call_from_the_same_frame_is_another_one_after_a_jump_out() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(call.enter(Does::Wait, FRAME, at(1_000 + JUMP_NS, 900)));
    assert!(call.leave(&mut sums, FRAME, at(2_000 + JUMP_NS, 950)));
    assert_eq!((sums.waited_ns, sums.cpu_ns), (1_000, 50));
}

#[test]
fn a_return_above_shows_that_the_call_is_over() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(!call.leave(&mut sums, FRAME + 128, at(6_000, 650)));
    assert!(!call.is_inside(FRAME - 8));
    assert!(call.enter(Does::Wait, FRAME - 4_096, at(7_000, 700)), "a deeper one is its own");
}

#[test]
fn a_coroutine_on_another_stack_is_not_inside() {
    let (call, _) = entered(Does::Wait);
    assert!(!call.is_inside(FRAME - DEEPEST - 1));
    assert!(call.is_inside(FRAME - DEEPEST));
}

proptest! {
    /// Whatever is called and left in whatever order, and whatever the CPU clock says, the sums hold no more
    /// than the time that passed.
    #[test]
    fn sums_never_exceed_what_passed(
        steps in prop::collection::vec((0..4_u8, 0..8_u64, 0..100_u64, -200..200_i64), 0..60),
    ) {
        let (mut call, mut sums, mut now_ns, mut cpu_ns) = (DriverCall::default(), Driver::default(), 0, 0_u64);
        for (kind, frame, more_ns, more_cpu_ns) in steps {
            now_ns += more_ns;
            cpu_ns = cpu_ns.saturating_add_signed(more_cpu_ns);
            let frame = FRAME - frame * 64;
            match kind {
                0 => _ = call.enter(Does::Wait, frame, at(now_ns, cpu_ns)),
                1 => _ = call.enter(Does::Copy, frame, at(now_ns, cpu_ns)),
                2 if call.frame != 0 => call.settle(&mut sums, at(now_ns, cpu_ns)),
                _ => _ = call.leave(&mut sums, frame, at(now_ns, cpu_ns)),
            }
            prop_assert!(sums.cpu_ns <= now_ns && sums.waited_ns + sums.copied_ns <= now_ns);
        }
    }
}
