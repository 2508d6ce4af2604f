//! What the library says, edge by edge, as a tracer sees it: operations, arguments, numbers, nesting, names.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod breakpoint;
mod wire;

use breakpoint::edges;
use guestscope_marker::{call, context, mark, phase, request, request_scheduled, token};
use rstest::rstest;
use wire::{Edge, script};

fn phases_nest() {
    let outer = phase("epoch");
    phase("step").end();
    let step = phase("step");
    phase("forward").end();
    step.end();
    outer.end();
    phase("epoch").end();
}

fn a_request_is_a_root_within_a_phase() {
    let serve = phase("serve");
    let outer = request("classify", 7);
    phase("preprocess").end();
    request_scheduled("other", 8, 99).end();
    phase("inference").end();
    outer.end();
    phase("report").end();
    serve.end();
}

fn ends_may_come_in_any_order() {
    let first = request("a", 1);
    let child = phase("child");
    let second = request("b", 2);
    first.end();
    child.end();
    phase("of b").end();
    second.end();
    phase("alone").end();
}

fn the_innermost_ends_without_a_token() {
    let _root = std::mem::ManuallyDrop::new(request("a", 1));
    let _child = std::mem::ManuallyDrop::new(phase("b"));
    call::end(0);
    phase("c").end();
    call::end(0);
    phase("root").end();
    call::end(0);
}

fn two_requests_take_turns() {
    let (first, second);
    first = request("a", 1);
    call::leave(first.token());
    second = request("b", 2);
    call::leave(second.token());
    call::enter(first.token());
    let child = phase("of a");
    call::leave(child.token());
    call::leave(first.token());
    call::enter(second.token());
    second.end();
    call::enter(first.token());
    call::enter(child.token());
    child.end();
    first.end();
}

fn phases_follow_each_other() {
    let request = request("a", 1);
    request.first("preprocess").next("inference").next("postprocess").end_with(request);
    let after = phase("alone").next("after");
    let within = phase("within");
    after.next("behind").end();
    within.end();
}

/// Calls of a C program that keeps no tokens: 0 is the innermost phase, for which no edge tells two things.
fn neighbours_without_tokens() {
    let name = |name: &'static str| (name.as_ptr(), name.len());
    let (one, two, three) = (name("one"), name("two"), name("three"));
    // SAFETY: pointers and lengths are those of string slices.
    unsafe {
        let request = std::mem::ManuallyDrop::new(request("a", 1)).token();
        call::first(0, one.0, one.1);
        call::next(0, two.0, two.1);
        call::end_both(0, request);
        call::next(0, one.0, one.1);
        let three = call::first(u64::MAX, three.0, three.1);
        call::end_both(three, 0);
    }
    phase("alone").end();
}

fn nothing_comes_first_twice() {
    let outer = request("a", 1);
    outer.first("one").end();
    outer.first("two").end();
    let inner = request("b", 2);
    outer.first("of b").end();
    call::leave(inner.token());
    call::enter(inner.token());
    inner.first("moved").end();
    let phase = inner.first("no root");
    phase.first("within").end();
    phase.end();
    inner.end();
    outer.end();
}

fn a_request_joins_a_trace() {
    context([9; 16], [9; 8]);
    let request = request("a", 1);
    let child = phase("b");
    child.context(0x0123_u128.to_be_bytes(), 0x45_u64.to_be_bytes());
    context(0x0678_u128.to_be_bytes(), 0x9a_u64.to_be_bytes());
    context([0; 16], [1; 8]);
    call::parent(child.token(), 0x0678_u128.to_be_bytes(), 0xbc_u64.to_be_bytes());
    call::parent(0, [1; 16], [1; 8]);
    call::parent(child.token(), [0; 16], [1; 8]);
    child.end();
    request.end();
}

fn marks_and_tokens_of_nothing() {
    mark("start");
    call::leave(0);
    call::enter(0);
    mark("");
}

fn requests_that_never_end_give_up_the_outermost() {
    for number in 0..20 {
        std::mem::forget(request("leak", number));
    }
    phase("of the last").end();
    for _ in 0..8 {
        call::end(0);
    }
    phase("alone").end();
}

#[rstest]
#[case::nesting(phases_nest, &[
    "begin 1.0 epoch 0", "begin 1.1 step 0", "end 1.1", "begin 1.2 step 0", "begin 1.3 forward 0", "end 1.3",
    "end 1.2", "end 1.0", "begin 2.0 epoch 0", "end 2.0",
])]
#[case::request_in_phase(a_request_is_a_root_within_a_phase, &[
    "begin 1.0 serve 0", "request 2.0 classify 7 0", "begin 2.1 preprocess 0", "end 2.1", "request 3.0 other 8 99",
    "end 3.0", "begin 2.2 inference 0", "end 2.2", "end 2.0", "begin 1.1 report 0", "end 1.1", "end 1.0",
])]
#[case::any_order(ends_may_come_in_any_order, &[
    "request 1.0 a 1 0", "begin 1.1 child 0", "request 2.0 b 2 0", "end 1.0", "end 1.1", "begin 2.1 of b 0",
    "end 2.1", "end 2.0", "begin 3.0 alone 0", "end 3.0",
])]
#[case::innermost(the_innermost_ends_without_a_token, &[
    "request 1.0 a 1 0", "begin 1.1 b 0", "end 0", "begin 1.2 c 0", "end 1.2", "end 0", "begin 2.0 root 0",
    "end 2.0", "end 0",
])]
// Once entered, a root may be numbered by several threads: its children are numbered from 2^17 on.
#[case::turns(two_requests_take_turns, &[
    "request 1.0 a 1 0", "leave 1.0", "request 2.0 b 2 0", "leave 2.0", "enter 1.0", "begin 1.moved of a 0",
    "leave 1.moved", "leave 1.0", "enter 2.0", "end 2.0", "enter 1.0", "enter 1.moved", "end 1.moved", "end 1.0",
])]
#[case::neighbours(phases_follow_each_other, &[
    "request 1.0 a 1 0", "begin 1.1 preprocess 0 joins 1.0", "begin 1.2 inference 0 joins 1.1",
    "begin 1.3 postprocess 0 joins 1.2", "end 1.0 with 1.3", "begin 2.0 alone 0", "end 2.0", "begin 3.0 after 0",
    "begin 3.1 within 0", "end 3.0", "begin 3.2 behind 0", "end 3.2", "end 3.1",
])]
#[case::no_tokens(neighbours_without_tokens, &[
    "request 1.0 a 1 0", "begin 1.1 one 0", "end 0", "begin 1.2 two 0", "end 0", "end 1.0", "end 0", "begin 2.0 one 0",
    "begin 2.1 three 0", "end 2.1", "end 0", "begin 3.0 alone 0", "end 3.0",
])]
#[case::first(nothing_comes_first_twice, &[
    "request 1.0 a 1 0", "begin 1.1 one 0 joins 1.0", "end 1.1", "begin 1.2 two 0", "end 1.2", "request 2.0 b 2 0",
    "begin 2.1 of b 0", "end 2.1", "leave 2.0", "enter 2.0", "begin 2.moved moved 0", "end 2.moved",
    "begin 2.moved no root 0", "begin 2.moved within 0", "end 2.moved", "end 2.moved", "end 2.0", "end 1.0",
])]
#[case::join(a_request_joins_a_trace, &[
    "request 1.0 a 1 0", "begin 1.1 b 0", "context 1.1 0 123 45", "context 1.0 0 678 9a", "parent 1.1 0 678 bc",
    "end 1.1", "end 1.0",
])]
#[case::marks(marks_and_tokens_of_nothing, &["mark 0 start", "mark 0 "])]
fn edges_of_a_program(#[case] program: fn(), #[case] expected: &[&str]) {
    assert_eq!(script(&edges(program)), expected);
}

#[test]
fn leaked_requests_do_not_swallow_what_follows() {
    let script = script(&edges(requests_that_never_end_give_up_the_outermost));
    assert_eq!(script[19..22], ["request 20.0 leak 19 0", "begin 20.1 of the last 0", "end 20.1"]);
    assert_eq!(script[30..], ["begin 21.0 alone 0", "end 21.0"]);
}

#[test]
fn heads_are_numbered_from_one_and_carry_version_and_instance() {
    let (first, second) = (edges(phases_nest), edges(two_requests_take_turns));
    for thread in [&first, &second] {
        let numbers: Vec<u64> = thread.iter().map(Edge::number).collect();
        assert_eq!(numbers, (1..=thread.len() as u64).collect::<Vec<_>>());
        assert!(thread.iter().all(|edge| edge.version() == 1));
        assert!(thread.iter().all(|edge| edge.instance() == first[0].instance()));
    }
    let ordinal = |edge: &Edge| edge.token() >> (token::ROOT_BITS + token::CHILD_BITS);
    assert_ne!(ordinal(&first[0]), ordinal(&second[0]));
    assert!(ordinal(&first[0]) != 0 && ordinal(&second[0]) != 0);
}

/// A region of two pages, the second one as `protection` says. Leaked: tests are short.
fn two_pages(protection: i32) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where the kernel likes it, and a change of protection of its second half.
    unsafe {
        let region = libc::mmap(std::ptr::null_mut(), 8192, both, flags, -1, 0);
        assert_ne!(region, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(region.byte_add(4096), 4096, protection), 0);
        region.cast()
    }
}

#[rstest]
#[case::in_one_page(100, 10)]
#[case::across_two(4096 - 10, 30)]
#[case::longer_than_what_is_read(4096 - 10, 3000)]
fn names_are_resident_when_the_probe_fires(#[case] offset: usize, #[case] len: usize) {
    let edges = edges(|| {
        let region = two_pages(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: `offset + len` is within the two pages. They are untouched, hence not resident so far.
        unsafe { call::mark(region.add(offset), len) };
    });
    assert!(edges[0].name_resident);
    assert_eq!((edges[0].arguments[2] as usize & 4095, edges[0].arguments[3] as usize), (offset & 4095, len));
}

#[test]
fn nothing_beyond_the_name_is_read() {
    let edges = edges(|| {
        let region = two_pages(libc::PROT_NONE);
        // SAFETY: the ten bytes before the inaccessible page are the name.
        unsafe { call::mark(region.add(4096 - 10), 10) };
    });
    assert_eq!(edges[0].name.len(), 10);
}

#[rstest]
#[case::null(std::ptr::null(), 17)]
#[case::empty(std::ptr::dangling(), 0)]
fn a_name_of_nothing_is_empty(#[case] name: *const u8, #[case] len: usize) {
    let name = name as usize;
    // SAFETY: null, or no byte at all.
    let edges = edges(|| unsafe { call::mark(name as *const u8, len) });
    assert_eq!(script(&edges), ["mark 0 "]);
    assert_eq!(edges[0].arguments[3], 0);
}
