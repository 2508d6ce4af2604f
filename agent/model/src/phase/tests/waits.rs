//! Long waits: which phase they lie in, and what damaged ones are cut to.

use insta::assert_snapshot;

use super::play;

#[test]
fn a_wait_lies_in_the_innermost_phase_of_its_thread() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        110 10/10 wait runq from=105
        120 10/10 begin 262145 inner
        150 10/10 wait lock from=125 ready=140 waker=11
        160 10/10 end 262145
        190 10/10 wait runq from=165 throttled=20
        200 10/10 end 262144
        230 10/10 wait sleep from=205 ready=228
    "), @"
    wait behind stress  10/10  105..110  in phase 1 of 1, runq 5
    wait behind stress  10/10  125..150  in phase 2 of 1, lock 15, runq 10, woken by 11 (cat)
    wait behind stress  10/10  165..190  in phase 1 of 1, runq 5, throttled 20
    request job #1      10/10  100..200  cpu 100
      phase inner #1    10/10  120..160  cpu 40
    wait behind stress  10/10  205..230  outside, sleep 23, runq 2
    ");
}

/// Between the edge of a request and that of its first phase: 262144 is a root, 262145 a phase of it.
#[test]
fn a_wait_ahead_of_the_first_phase_lies_where_its_time_does() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 joined
        150 10/10 wait runq from=101
        151 10/10 begin 262145 first after=262144
        190 10/10 end 262144 with=262145
        200 10/10 request 524288 apart
        250 10/10 wait runq from=201
        251 10/10 begin 524289 second
        290 10/10 end 524288 with=524289
        300 10/10 request 786432 without
        350 10/10 wait runq from=301
        390 10/10 end 786432
    "), @"
    wait behind stress  10/10  101..150  in phase 2 of 1, runq 49
    request joined      10/10  100..190  cpu 90
      phase first       10/10  100..190  cpu 90
    wait behind stress  10/10  201..250  in phase 3 of 3, runq 49
    request apart       10/10  200..290  cpu 90
      phase second      10/10  251..290  cpu 39
    wait behind stress  10/10  301..350  in phase 5 of 5, runq 49
    request without     10/10  300..390  cpu 90
    ");
}

#[test]
fn a_wait_of_another_thread_lies_in_no_phase() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        150 10/11 wait lock from=120 ready=149
        200 10/10 end 262144
    "), @"
    wait behind stress  10/11  120..150  outside, lock 29, runq 1
    request job #1      10/10  100..200  cpu 100, helper's runq while on cpu 1
    ");
}

/// Another CPU's writer held the ring up: its thread has gone on meanwhile.
#[test]
fn a_wait_that_comes_late_lies_in_no_phase_that_began_after_it() {
    assert_snapshot!(play("
        0   10/10 adopt
        95  10/10 wait lock from=90 ready=93 late
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 first
        135 10/10 wait lock from=120 ready=130 late
        140 10/10 end 262145
        145 10/10 wait lock from=141 ready=144 late
        150 10/10 begin 262146 second
        157 10/10 wait lock from=151 ready=155
        160 10/10 end 262146
        200 10/10 end 262144
    "), @"
    wait behind stress  10/10  90..95    outside, lock 3, runq 2
    wait behind stress  10/10  120..135  in phase 1 of 1, lock 10, runq 5
    wait behind stress  10/10  141..145  in phase 1 of 1, lock 3, runq 1
    wait behind stress  10/10  151..157  in phase 3 of 1, lock 4, runq 2
    request job #1      10/10  100..200  cpu 100
      phase first #1    10/10  110..140  cpu 30
      phase second #1   10/10  150..160  cpu 10
    ");
}

/// What it waited for on a thread before it came there is not its own.
#[test]
fn a_wait_from_before_a_phase_entered_the_thread_is_not_its_own() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        110 10/10 leave 262144
        148 10/11 wait sleep from=120 ready=148 late
        150 10/11 enter 262144
        160 10/11 wait sleep from=152 ready=160
        170 10/11 leave 262144
        180 10/11 wait sleep from=172 ready=180
        200 10/10 enter 262144
        210 10/10 end 262144
    "), @"
    wait behind stress  10/11  120..148  outside, sleep 28
    wait behind stress  10/11  152..160  in phase 1 of 1, sleep 8
    wait behind stress  10/11  172..180  outside, sleep 8
    request job #1      10/10  100..210  cpu 40, suspended 70
    ");
}

/// Another thread ends the phase meanwhile: the wait lies in what is still around it, if anything is.
#[test]
fn a_wait_outlives_a_phase_that_another_thread_ends() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 inner
        150 10/11 end 262145
        180 10/10 wait lock from=120 ready=170
        190 10/11 end 262144
        195 10/10 wait lock from=185 ready=194
    "), @"
    wait behind stress  10/10  120..180  in phase 1 of 1, lock 50, runq 10
    request job #1      10/10  100..190  suspended 90
      phase inner #1    10/10  110..150  suspended 40
    wait behind stress  10/10  185..195  outside, lock 9, runq 1
    ");
}

/// Its end was lost, its thread ended, or observation did: it is closed after all waits in it.
#[test]
fn a_wait_lies_in_a_phase_whose_end_was_lost() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 inner
        150 10/10 wait sleep from=120 ready=149
        160 10/10 end 262145 lost
        180 10/10 wait sleep from=170 ready=179
        190 10/10 end 262144
        200 10/10 request 524288 job #2
        230 10/10 wait sleep from=210 ready=229
        240 10/10 exit
    "), @"
    wait behind stress  10/10  120..150  in phase 2 of 1, sleep 29, runq 1
    wait behind stress  10/10  170..180  in phase 2 of 1, sleep 9, runq 1
    request job #1      10/10  100..190  cpu 90, edges lost 1
      phase inner #1    10/10  110..190  cpu 80, edges lost 1, lost
    wait behind stress  10/10  210..230  in phase 3 of 3, sleep 19, runq 1
    request job #2      10/10  200..240  cpu 40, thread_exited
    thread python       10/10  0..240    cpu 240, phases 3, exited
    process python      10/10  0..240    cpu 240
    losses: edges lost 1, unended phases 2
    ");
}

#[test]
fn what_a_damaged_wait_claims_is_cut_to_it() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 wait lock from=150 ready=20 throttled=70
        200 10/10 wait lock from=150 ready=900 throttled=70
        300 10/10 wait nonsense from=250 ready=260 throttled=70
    "), @"
    wait behind stress  10/10  150..150  outside
    wait behind stress  10/10  150..200  outside, lock 50
    wait behind stress  10/10  250..300  outside, other 10, throttled 40
    ");
}

#[test]
fn a_wait_for_another_thread_is_explained_by_what_that_one_was_kept_from() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        11  10/12 fork 10/10
        12  20/20 adopt
        100 10/10 request 262144 job #1
        150 20/20 wait runq from=120 throttled=25
        160 10/12 wait lock from=110 ready=158 waker=20
        170 10/11 wait other from=115 ready=169 waker=12
        180 10/10 wait lock from=105 ready=179 waker=11
        190 10/10 wait sleep from=181 ready=189 waker=11 by=sched_yield
        200 10/10 end 262144
        210 20/20 exit
        300 10/11 wait lock from=130 ready=299 waker=20
    "), @"
    wait behind stress  20/20  120..150  outside, runq 5, throttled 25
    wait behind stress  10/12  110..160  outside, lock 48, runq 2, woken by 20 (cat), for 20 in throttled 25, 1 away
    wait behind stress  10/11  115..170  outside, other 54, runq 1, woken by 12 (cat), for 20 in throttled 25, 2 away
    wait behind stress  10/10  105..180  in phase 1 of 1, lock 74, runq 1, woken by 11 (cat), for 20 in throttled 25, 3 away
    wait behind stress  10/10  181..190  in phase 1 of 1, sleep 8, runq 1
    request job #1      10/10  100..200  cpu 100, helper's runq while waiting 3
    thread python       20/20  12..210   cpu 198, exited
    process python      20/20  12..210   cpu 198
    wait behind stress  10/11  130..300  outside, lock 169, runq 1, woken by 20 (cat)
    ");
}

/// The same for sockets and several files, where the waker was in a system call that hands something over.
#[test]
fn a_wait_that_an_interrupt_may_have_ended_is_explained_where_somebody_handed_something_over() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        120 10/11 wait block_io from=105 ready=119
        130 10/10 wait poll from=101 ready=129 waker=11 by=write
        140 10/11 wait runq from=131
        150 10/10 wait net from=131 ready=149 waker=11 by=write
        160 10/11 wait runq from=151
        170 10/10 wait poll from=151 ready=169 waker=11 by=sched_yield
        180 10/11 wait runq from=171
        190 10/10 wait net from=171 ready=189 waker=11
        195 10/11 wait runq from=191
        198 10/10 wait block_io from=191 ready=197 waker=11 by=write
        200 10/10 end 262144
    "), @"
    wait behind stress  10/11  105..120  outside, block_io 14, runq 1
    wait behind stress  10/10  101..130  in phase 1 of 1, poll 28, runq 1, woken by 11 (cat), for 11 in block_io 14, 1 away
    wait behind stress  10/11  131..140  outside, runq 9
    wait behind stress  10/10  131..150  in phase 1 of 1, net 18, runq 1, woken by 11 (cat), for 11 in runq 9, 1 away
    wait behind stress  10/11  151..160  outside, runq 9
    wait behind stress  10/10  151..170  in phase 1 of 1, poll 18, runq 1
    wait behind stress  10/11  171..180  outside, runq 9
    wait behind stress  10/10  171..190  in phase 1 of 1, net 18, runq 1
    wait behind stress  10/11  191..195  outside, runq 4
    wait behind stress  10/10  191..198  in phase 1 of 1, block_io 6, runq 1
    request job #1      10/10  100..200  cpu 100, helper's runq while waiting 32, helper's block_io while waiting 14
    ");
}

/// A thread's end comes before the wait that it ended; the wait stays explained unless the number is reused.
#[test]
fn a_wait_for_a_thread_that_has_ended_is_explained_by_what_that_one_was_kept_from() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        120 10/11 wait block_io from=105 ready=119
        130 10/11 exit
        130 10/10 wait poll from=101 ready=129 waker=11 by=exit_group
        131 10/11 fork 10/10
        140 10/10 wait poll from=110 ready=139 waker=11 by=write
        200 10/10 end 262144
    "), @"
    wait behind stress  10/11  105..120  outside, block_io 14, runq 1
    thread python       10/11  10..130   cpu 120, exited
    wait behind stress  10/10  101..130  in phase 1 of 1, poll 28, runq 1, woken by 11 (cat), for 11 in block_io 14, 1 away
    wait behind stress  10/10  110..140  in phase 1 of 1, poll 29, runq 1, woken by 11 (cat)
    request job #1      10/10  100..200  cpu 100, helper's runq while waiting 1, helper's block_io while waiting 14
    ");
}

/// 8:17 is 0x800011.
#[test]
fn a_wait_for_a_device_names_it_and_one_for_anything_else_none() {
    assert_snapshot!(play("
        0   10/10 adopt
        110 10/10 wait block_io from=105 ready=110 device=8388625
        120 10/10 wait fault from=115 ready=120 device=8388625 writes=1 ns_tid=7 group=15515
        130 10/10 wait block_io from=125 ready=130 writes=1
        140 10/10 wait lock from=135 ready=140 device=8388625
        150 10/10 wait runq from=145 device=8388625
        160 10/10 wait block_io from=155 ready=159 device=4294967295
    "), @"
    wait behind stress  10/10  105..110  outside, block_io 5, read 8:17
    wait behind stress  10/10  115..120  outside, fault 5, write 8:17, thread 7 in its namespace, group 15515
    wait behind stress  10/10  125..130  outside, block_io 5
    wait behind stress  10/10  135..140  outside, lock 5
    wait behind stress  10/10  145..150  outside, runq 5
    wait behind stress  10/10  155..160  outside, block_io 4, runq 1, read 4095:1048575
    ");
}

/// What is under way when the thread goes on, and what was done while it waited, is what it waited for.
#[test]
fn a_wait_for_io_uring_tells_what_was_in_flight() {
    assert_snapshot!(play("
        0   10/10 adopt
        105 10/10 io from=90 issued=91 ring=read
        112 10/10 io from=90 issued=91 ring=read
        113 10/10 io from=90 issued=91
        114 10/10 io from=90 issued=91 ring=write
        115 10/10 wait poll from=110 ready=114 device=8388625 reads_under_way=6 writes_under_way=1
        125 10/10 wait poll from=120 ready=124 device=8388625 reads_under_way=6
        135 10/10 wait poll from=130 ready=134
        145 10/10 wait block_io from=140 ready=144 device=8388625 held=1
    "), @"
    wait behind stress  10/10  110..115  outside, poll 4, runq 1, read 8:17, in flight 7+2
    wait behind stress  10/10  120..125  outside, poll 4, runq 1, read 8:17, in flight 6+0
    wait behind stress  10/10  130..135  outside, poll 4, runq 1
    wait behind stress  10/10  140..145  outside, block_io 4, runq 1, read 8:17, held back
    ");
}

/// The thread lost its CPU in the BPF program that takes an edge, behind the reading of the clock, or another
/// thread did and held up the ring: the wait is told first.
#[test]
fn a_wait_ahead_of_its_edge_lies_where_that_edge_leads() {
    assert_snapshot!(play("
        0   10/10 adopt
        90  10/10 request 262144 job #1 late
        110 10/10 wait runq from=91
        120 10/10 begin 262145 inner
        130 10/10 wait runq from=125
        150 10/10 end 262145 late
        155 10/10 wait runq from=152
        200 10/10 end 262144 late
        290 10/10 wait runq from=201
        300 10/10 request 262146 next #2
        310 10/10 wait runq from=301
        320 10/10 end 262146
        390 10/10 wait runq from=321
        400 10/10 exit
    "), @"
    wait behind stress  10/10  91..110   in phase 1 of 1, runq 19
    wait behind stress  10/10  125..130  in phase 2 of 1, runq 5
    wait behind stress  10/10  152..155  in phase 1 of 1, runq 3
    request job #1      10/10  90..200   cpu 110
      phase inner #1    10/10  120..150  cpu 30
    wait behind stress  10/10  201..290  outside, runq 89
    wait behind stress  10/10  301..310  in phase 3 of 3, runq 9
    request next #2     10/10  300..320  cpu 20
    wait behind stress  10/10  321..390  outside, runq 69
    thread python       10/10  0..400    cpu 400, phases 3, exited
    process python      10/10  0..400    cpu 400
    ");
}

/// No edge of its thread comes any more: another thread ends the phase, or observation does.
#[test]
fn a_wait_ahead_of_its_edge_comes_before_its_request() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/11 request 262144 job #1
        110 10/11 begin 262145 inner
        130 10/11 wait runq from=111 edge=3
        150 10/10 end 262144
        200 10/11 request 262146 next #2
        230 10/11 wait runq from=201 edge=4
        250 10/10 stop
    "), @"
    wait behind stress  10/11  111..130  in phase 2 of 1, runq 19
    request job #1      10/11  100..150  suspended 50
      phase inner #1    10/11  110..150  suspended 40, lost
    wait behind stress  10/11  201..230  in phase 3 of 3, runq 29
    thread python       10/10  0..250    cpu 250, last seen
    process python      10/10  0..250    cpu 250, observation_stopped
    request next #2     10/11  200..250  cpu 50, observation_stopped
    thread python       10/11  10..250   cpu 240, phases 3, last seen
    losses: unended phases 2
    ");
}

/// A thread that is not observed was interrupted in its own futex call; a thread that has just ended did it.
#[test]
fn a_lock_in_memory_is_released_by_observed_threads_alone() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        120 10/10 wait lock from=101 ready=119 waker=99 in=202
        130 10/10 wait lock from=121 ready=129 waker=11 in=202
        140 10/10 wait lock from=131 ready=139 waker=99
        150 10/11 exit
        160 10/10 wait lock from=141 ready=149 waker=11 in=202
    "), @"
    wait behind stress  10/10  101..120  outside, lock 18, runq 1
    wait behind stress  10/10  121..130  outside, lock 8, runq 1, woken by 11 (cat)
    wait behind stress  10/10  131..140  outside, lock 8, runq 1, woken by 99 (cat)
    thread python       10/11  10..150   cpu 140, exited
    wait behind stress  10/10  141..160  outside, lock 8, runq 11, woken by 11 (cat)
    ");
}
