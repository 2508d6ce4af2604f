//! Trace and span ids: derived, made by the library, or the program's own.

use std::fmt::Write as _;

use super::{phases, script::World};

/// Name, trace id, span id and parent of every phase; ids that the run derives are called so.
fn traces(text: &str) -> String {
    let mut world = World::default();
    let outputs = world.play(text);
    let ids = world.pairing.ids;
    let mut printed = String::new();
    for phase in phases(&outputs) {
        let hex = |bytes: &[u8]| {
            let whole = bytes.iter().fold(0_u128, |whole, byte| whole << 8 | u128::from(*byte));
            format!("{whole:x}")
        };
        let span = |id: [u8; 8]| match (1..20).find(|&number| ids.span_id(number) == id) {
            Some(number) => format!("derived-{number}"),
            None => hex(&id),
        };
        let trace = match (1..20).find(|&number| ids.trace_id(number) == phase.trace.trace_id) {
            Some(number) => format!("derived-{number}"),
            None => hex(&phase.trace.trace_id),
        };
        let parent = phase.trace.parent_span_id.map_or_else(|| "none".to_owned(), span);
        let remote = if phase.trace.parent_is_remote { " (remote)" } else { "" };
        let own = span(phase.trace.span_id);
        let _ = writeln!(printed, "{:<8}  trace {trace}  span {own}  parent {parent}{remote}", phase.name);
    }
    printed
}

#[test]
fn ids_are_derived_from_the_run() {
    let printed = traces(
        "
        0   10/10 request 1 first
        5   10/10 begin 2 inner
        10  10/10 end 2
        20  10/10 end 1
        30  10/10 request 3 second
        40  10/10 end 3",
    );
    insta::assert_snapshot!(printed, @"
    first     trace derived-1  span derived-1  parent none
    inner     trace derived-1  span derived-2  parent derived-1
    second    trace derived-3  span derived-3  parent none
    ");
}

#[test]
fn a_context_joins_the_programs_own_trace() {
    let printed = traces(
        "
        0   10/10 request 1 outer #1 @0
        5   10/10 begin 2 inner
        10  10/10 context 2 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7
        15  10/10 end 2
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    outer     trace 4bf92f3577b34da6a3ce929d0e0e4736  span derived-1  parent f067aa0ba902b7 (remote)
    inner     trace 4bf92f3577b34da6a3ce929d0e0e4736  span derived-2  parent derived-1
    ");
}

#[test]
fn an_identity_is_what_the_callee_was_told() {
    let printed = traces(
        "
        0   10/10 request 1 outer
        5   10/10 begin 2 inner
        6   10/10 identity 2 abc 222
        7   10/10 begin 3 innermost
        8   10/10 identity 1 abc 111
        9   10/10 identity 2 abc 223
        10  10/10 end 3
        15  10/10 end 2
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    outer     trace abc  span 111  parent none
    inner     trace abc  span 223  parent 111
    innermost  trace abc  span derived-3  parent 223
    ");
}

#[test]
fn a_queue_stands_in_the_trace_of_its_request() {
    let printed = traces(
        "
        10  10/10 request 1 outer #1 @5
        11  10/10 context 1 abc def
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    outer     trace abc  span derived-1  parent def (remote)
    queue     trace abc  span derived-2  parent derived-1
    ");
}

#[test]
fn ids_of_zeros_are_none() {
    let printed = traces(
        "
        0   10/10 request 1 outer
        1   10/10 context 1 0 0
        2   10/10 identity 1 0 0
        3   10/10 identity 1 abc 0
        4   10/10 identity 1 0 abc
        10  10/10 end 1
        20  10/10 request 2 parent-0
        21  10/10 context 2 abc 0
        30  10/10 end 2",
    );
    insta::assert_snapshot!(printed, @"
    outer     trace derived-1  span derived-1  parent none
    parent-0  trace abc  span derived-2  parent none
    ");
}

#[test]
fn a_phase_is_below_the_span_that_it_is_made_of() {
    let printed = traces(
        "
        0   10/10 request 1 server
        1   10/10 begin 2 span-s0
        2   10/10 parent 2 abc 50
        3   10/10 begin 3 span-s1
        4   10/10 parent 3 abc 51
        5   10/10 begin 4 forward
        6   10/10 end 4
        7   10/10 begin 5 elsewhere
        8   10/10 parent 5 def 99
        9   10/10 end 5
        11  10/10 end 3
        12  10/10 end 2
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    server    trace abc  span derived-1  parent 50 (remote)
    span-s0   trace abc  span derived-2  parent derived-1
    span-s1   trace abc  span derived-3  parent 51 (remote)
    forward   trace abc  span derived-4  parent derived-3
    elsewhere  trace abc  span derived-5  parent derived-3
    ");
}

#[test]
fn a_request_that_came_with_a_trace_stays_below_its_caller() {
    let printed = traces(
        "
        0   10/10 request 1 server
        1   10/10 context 1 abc 40
        2   10/10 begin 2 span-s0
        3   10/10 parent 2 abc 50
        4   10/10 parent 2 0 51
        5   10/10 parent 2 abc 0
        12  10/10 end 2
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    server    trace abc  span derived-1  parent 40 (remote)
    span-s0   trace abc  span derived-2  parent 50 (remote)
    ");
}
