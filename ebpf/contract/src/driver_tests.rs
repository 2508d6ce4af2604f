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
    assert!(enters(&mut call, &mut sums, does, FRAME, at(1_000, 400)));
    (call, sums)
}

/// A call of 64 bytes, on a processor that keeps return addresses in registers.
fn enters(call: &mut DriverCall, sums: &mut Driver, does: Does, frame: u64, at: Instant) -> bool {
    call.enter(sums, (does, 64), frame, at, Returning::Unknown)
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
    assert!(call.enter(&mut sums, (Does::CopyOut, 5), FRAME, at(0, 0), Returning::Unknown));
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

/// Calls of one stay whose begin was not seen: what the first one had is not counted again when the ledger is
/// put right during the second one.
#[test]
fn each_call_of_an_unseen_stay_has_its_own_time() {
    let (mut call, mut sums) = (DriverCall::default(), Driver::default());
    let at = |now_ns, cpu_ns, sequence| Instant { now_ns, cpu_ns, sequence };
    assert!(enters(&mut call, &mut sums, Does::Wait, FRAME, at(1_000, 400, 5)));
    assert!(call.leave(&mut sums, FRAME, at(2_000, 1_400, 5)));
    assert!(enters(&mut call, &mut sums, Does::Wait, FRAME, at(2_000, 1_400, 5)));
    // 3,000 ns of the next 7,000 off its CPU.
    assert!(call.leave(&mut sums, FRAME, at(9_000, 5_400, 7)));
    assert_eq!((sums.cpu_ns, sums.waited_ns), (5_000, 8_000));
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
    assert!(!enters(&mut call, &mut sums, Does::Wait, FRAME - 256, at(2_000, 500)));
    assert!(!call.leave(&mut sums, FRAME - 256, at(3_000, 600)));
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert_eq!((sums.cpu_ns, sums.copied_ns, sums.waited_ns), (300, 8_000, 0));
    assert_eq!((sums.copies, sums.waits, sums.unreturned), (1, 0, 0));
}

/// A library that passes a call on jumps, so that both functions have one frame and one return address.
#[test]
fn a_function_that_jumps_to_another_one_is_one_call() {
    let (mut call, mut sums) = entered(Does::CopyIn);
    assert!(!enters(&mut call, &mut sums, Does::CopyIn, FRAME, at(1_900, 420)));
    assert!(call.leave(&mut sums, FRAME, at(9_000, 700)));
    assert!(!call.leave(&mut sums, FRAME, at(9_100, 710)), "the second return probe of the same address");
    assert_eq!((sums.copied_ns, sums.cpu_ns, sums.unreturned), (8_000, 300, 0));
}

/// Where the return address is in memory it tells a jump from another call, whatever the time between.
#[test]
fn the_return_address_tells_a_jump_from_another_call() {
    for (returning, after_ns, is_another) in [
        (Returning::Kept, 10 * JUMP_NS, false),
        (Returning::Overwritten, 10, true),
        (Returning::Unknown, 10 * JUMP_NS, true),
        (Returning::Unknown, 10, false),
    ] {
        let (mut call, mut sums) = entered(Does::Wait);
        let at = at(1_000 + after_ns, 500);
        let entered = call.enter(&mut sums, (Does::Wait, 0), FRAME, at, returning);
        assert_eq!(entered, is_another, "{returning:?} {after_ns}");
        assert_eq!((sums.waits, sums.unreturned), (1 + u32::from(is_another), u32::from(is_another)));
    }
}

/// After a jump out of the call the thread calls other functions, below the frame that it has left.
#[test]
fn a_return_address_that_was_overwritten_shows_that_the_call_is_over() {
    let (mut call, mut sums) = entered(Does::Wait);
    let deeper = FRAME - 4_096;
    assert_eq!(call.whereabouts(deeper, || Returning::Unknown), Where::Inside);
    assert_eq!(call.whereabouts(deeper, || Returning::Kept), Where::Inside);
    assert_eq!(call.whereabouts(deeper, || Returning::Overwritten), Where::Left);
    assert_eq!(call.whereabouts(FRAME, || unreachable!("the stack pointer tells")), Where::Left);
    assert_eq!(call.whereabouts(FRAME - DEEPEST - 1, || Returning::Overwritten), Where::Elsewhere);
    // A new call there is no inner one.
    let at = at(9_000, 800);
    assert!(call.enter(&mut sums, (Does::CopyIn, 64), deeper, at, Returning::Overwritten));
    assert_eq!((sums.waits, sums.copies, sums.unreturned, sums.cpu_ns), (1, 1, 1, 0));
}

#[test]
fn a_thread_that_ends_inside_has_spent_its_time_there() {
    let (mut call, mut sums) = entered(Does::Wait);
    call.end(&mut sums, FRAME - 64, at(9_000, 700));
    let unreturned = Driver { cpu_ns: 300, waited_ns: 8_000, waits: 1, unreturned: 1, ..Driver::default() };
    assert_eq!((sums, call.frame), (unreturned, 0));
}

/// When a call was jumped out of earlier is not known.
#[test]
fn a_thread_that_ends_elsewhere_has_left_the_call() {
    let (mut call, mut sums) = entered(Does::Wait);
    call.settle(&mut sums, at(2_000, 500));
    call.end(&mut sums, FRAME + 512, at(9_000, 700));
    let unreturned = Driver { cpu_ns: 100, waits: 1, unreturned: 1, ..Driver::default() };
    assert_eq!((sums, call.frame), (unreturned, 0));
}

/// `longjmp` leaves no return behind, and a call that was under way when the probe came no entry.
#[test]
fn a_call_without_a_return_or_an_entry_ends_nothing_else() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(!call.is_inside(FRAME + 512) && call.is_over(FRAME + 512), "it has jumped out");
    let next = enters(&mut call, &mut sums, Does::Wait, FRAME + 64, at(5_000, 600));
    assert!(next, "the next one, from a frame above");
    assert!(call.leave(&mut sums, FRAME + 64, at(6_000, 650)));
    assert_eq!((sums.cpu_ns, sums.waits, sums.unreturned), (50, 2, 1));
    assert!(!DriverCall::default().leave(&mut sums, FRAME, at(1, 1)));
    let none = DriverCall::default();
    assert!(!none.is_inside(0) && !none.is_inside(u64::MAX) && !none.is_over(0));
}

#[test]
fn the_next_call_from_the_same_frame_is_another_one_after_a_jump_out() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(enters(&mut call, &mut sums, Does::Wait, FRAME, at(1_000 + JUMP_NS, 900)));
    assert!(call.leave(&mut sums, FRAME, at(2_000 + JUMP_NS, 950)));
    assert_eq!((sums.waited_ns, sums.cpu_ns), (1_000, 50));
}

#[test]
fn a_return_above_shows_that_the_call_is_over() {
    let (mut call, mut sums) = entered(Does::Wait);
    assert!(!call.leave(&mut sums, FRAME + 128, at(6_000, 650)));
    assert!(!call.is_inside(FRAME - 8) && sums.unreturned == 1);
    let deeper = enters(&mut call, &mut sums, Does::Wait, FRAME - 4_096, at(7_000, 700));
    assert!(deeper, "a deeper one is its own");
}

#[test]
fn a_coroutine_on_another_stack_is_not_inside() {
    let (call, _) = entered(Does::Wait);
    assert!(!call.is_inside(FRAME - DEEPEST - 1));
    assert!(call.is_inside(FRAME - DEEPEST));
}

proptest! {
    /// Whatever is called and left in whatever order, whatever the CPU clock says, and whatever lies on the
    /// stack: the sums hold no more than the time that passed, and each call has one end or is open.
    #[test]
    fn sums_never_exceed_what_passed_and_each_call_has_one_end(
        steps in prop::collection::vec((0..6_u8, 0..8_u64, 0..100_u64, -200..200_i64, 0..3_u8), 0..60),
    ) {
        let (mut call, mut sums, mut now_ns, mut cpu_ns) = (DriverCall::default(), Driver::default(), 0, 0_u64);
        let mut returned = 0;
        for (kind, frame, more_ns, more_cpu_ns, returning) in steps {
            now_ns += more_ns;
            cpu_ns = cpu_ns.saturating_add_signed(more_cpu_ns);
            let (frame, at) = (FRAME - frame * 64, at(now_ns, cpu_ns));
            let returning =
                [Returning::Unknown, Returning::Kept, Returning::Overwritten][usize::from(returning)];
            match kind {
                0 => _ = call.enter(&mut sums, (Does::Wait, 0), frame, at, returning),
                1 => _ = call.enter(&mut sums, (Does::Copy, 0), frame, at, returning),
                2 if call.frame != 0 => call.settle(&mut sums, at),
                3 if call.frame != 0 => call.end(&mut sums, frame, at),
                4 if call.frame != 0 && call.whereabouts(frame, || returning) == Where::Left => {
                    call.drop_unreturned(&mut sums);
                }
                _ => returned += u32::from(call.leave(&mut sums, frame, at)),
            }
            prop_assert!(sums.cpu_ns <= now_ns && sums.waited_ns + sums.copied_ns <= now_ns);
            let (calls, open) = (sums.waits + sums.copies, u32::from(call.frame != 0));
            prop_assert_eq!(calls, returned + sums.unreturned + open);
        }
    }
}
