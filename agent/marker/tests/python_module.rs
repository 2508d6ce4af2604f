//! The Python module, as the edges of small programs; and what it does where the library is missing, in a
//! forked child, and on kernels that do not clear pages in forked children.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;
mod tracer;
mod wire;

use std::{os::unix::process::CommandExt, process::Command};

use rstest::rstest;

/// Available to every program below: a coroutine that suspends once, and a way to drive one by hand.
const PRELUDE: &str = r#"
import guestscope
from guestscope import mark, phase, request, task

class once:
    def __await__(self):
        yield

async def two_steps():
    mark("one")
    await once()
    mark("two")

def step(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
"#;

fn python(program: &str) -> Command {
    let mut python = Command::new("python3");
    python.arg("-c").arg(format!("{PRELUDE}\n{program}"));
    python.env("PYTHONPATH", library::package().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("GUESTSCOPE_LIBRARY", library::shared_library());
    python
}

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}

fn python_is_missing() -> bool {
    !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

#[rstest]
#[case::nesting(
    "with request('r', 7, scheduled_ns=5) as r:\n with phase('p'):\n  mark('m')\n r.traceparent",
    &["request 1.0 r 7 5", "begin 1.1 p 0", "mark 0 m", "end 1.1", "identity 1.0", "end 1.0"]
)]
#[case::neighbours(
    "with request('r', 7) as r:\n r.next('p')\n with phase('in p'): pass\n r.next('i')\n r.next('e')\n\
     with phase('s') as s:\n s.next('x')\n s.next('y')\n s.traceparent",
    &[
        "request 1.0 r 7 0", "begin 1.1 p 0 joins 1.0", "begin 1.2 in p 0", "end 1.2", "begin 1.3 i 0 joins 1.1",
        "begin 1.4 e 0 joins 1.3", "end 1.0 with 1.4", "begin 2.0 s 0", "begin 2.1 x 0 joins 2.0",
        "begin 2.2 y 0 joins 2.1", "identity 2.0", "end 2.0 with 2.2",
    ]
)]
#[case::an_exception_ends_both(
    "try:\n with request('r', 1) as r:\n  r.next('p')\n  raise ValueError\nexcept ValueError:\n mark('m')\nr.next('none')",
    &["request 1.0 r 1 0", "begin 1.1 p 0 joins 1.0", "end 1.0 with 1.1", "mark 0 m"]
)]
#[case::one_within_itself(
    "p = phase('p')\nwith p:\n p.next('a')\n with p:\n  p.next('b')\n p.next('c')",
    &[
        "begin 1.0 p 0", "begin 1.1 a 0 joins 1.0", "begin 1.2 p 0", "begin 1.3 b 0", "end 1.2 with 1.3",
        "begin 1.4 c 0 joins 1.1", "end 1.0 with 1.4",
    ]
)]
#[case::neighbours_within_a_task(
    "async def f():\n async with phase('p') as p:\n  p.next('q')\n  await once()\n  p.next('r')\n  await once()\n\
     t = task(f(), request=1)\nstep(t), step(t), step(t)",
    &[
        "request 1.0 request 1 0", "begin 1.1 p 0", "begin 1.2 q 0", "leave 1.2", "leave 1.1", "leave 1.0",
        "enter 1.0", "enter 1.1", "enter 1.2", "begin 1.moved r 0 joins 1.2", "leave 1.moved", "leave 1.1",
        "leave 1.0", "enter 1.0", "enter 1.1", "enter 1.moved", "end 1.1 with 1.moved", "end 1.0",
    ]
)]
#[case::a_task_within_has_no_say(
    "async def inner(p):\n p.next('no')\n await once()\nasync def f():\n with phase('p') as p:\n  p.next('q')\n\
     \x20 await task(inner(p), name='i')\n  p.next('r')\nt = task(f(), request=1)\nstep(t), step(t)",
    &[
        "request 1.0 request 1 0", "begin 1.1 p 0", "begin 1.2 q 0", "begin 1.3 i 0", "leave 1.3", "leave 1.2",
        "leave 1.1", "leave 1.0", "enter 1.0", "enter 1.1", "enter 1.2", "enter 1.3", "end 1.3",
        "begin 1.moved r 0 joins 1.2", "end 1.1 with 1.moved", "end 1.0",
    ]
)]
#[case::exceptions_end_phases(
    "try:\n with phase('p'):\n  raise ValueError\nexcept ValueError:\n mark('m')",
    &["begin 1.0 p 0", "end 1.0", "mark 0 m"]
)]
#[case::decorated_function(
    "@phase('f')\ndef f(deep):\n return deep and f(deep - 1)\nf(1)",
    &["begin 1.0 f 0", "begin 1.1 f 0", "end 1.1", "end 1.0"]
)]
#[case::interleaved_tasks(
    "a, b = task(two_steps(), name='a', request=1), task(two_steps(), name='b', request=2, scheduled_ns=9)\n\
     step(a), step(b), step(a), step(b)",
    &[
        "request 1.0 a 1 0", "mark 0 one", "leave 1.0", "request 2.0 b 2 9", "mark 0 one", "leave 2.0",
        "enter 1.0", "mark 0 two", "end 1.0", "enter 2.0", "mark 0 two", "end 2.0",
    ]
)]
#[case::phases_within_a_task(
    "async def f():\n async with phase('p'):\n  with phase('q'):\n   await once()\n  return 8\n\
     t = task(f(), request=1)\nstep(t)\nassert step(t) == 8",
    &[
        "request 1.0 request 1 0", "begin 1.1 p 0", "begin 1.2 q 0", "leave 1.2", "leave 1.1", "leave 1.0",
        "enter 1.0", "enter 1.1", "enter 1.2", "end 1.2", "end 1.1", "end 1.0",
    ]
)]
#[case::decorated_coroutine_within_a_task(
    "t = task(phase('p')(two_steps)(), name='t')\nstep(t)\nwith phase('other'): pass\nstep(t)",
    &[
        "begin 1.0 t 0", "begin 1.1 p 0", "mark 0 one", "leave 1.1", "leave 1.0", "begin 2.0 other 0", "end 2.0",
        "enter 1.0", "enter 1.1", "mark 0 two", "end 1.1", "end 1.0",
    ]
)]
#[case::a_cancelled_task_ends(
    "t = task(two_steps(), name='t')\nstep(t)\ntry: t.throw(KeyError())\nexcept KeyError: mark('caught')",
    &["begin 1.0 t 0", "mark 0 one", "leave 1.0", "enter 1.0", "end 1.0", "mark 0 caught"]
)]
#[case::a_cancelled_task_may_go_on(
    "async def f():\n try: await once()\n except KeyError: mark('caught')\n await once()\n\
     t = task(f(), name='t')\nstep(t)\nt.throw(KeyError())\nstep(t)",
    &["begin 1.0 t 0", "leave 1.0", "enter 1.0", "mark 0 caught", "leave 1.0", "enter 1.0", "end 1.0"]
)]
#[case::a_closed_task_ends_inside_out(
    "async def f():\n with phase('p'): await once()\nt = task(f(), name='t')\nstep(t)\nt.close()",
    &[
        "begin 1.0 t 0", "begin 1.1 p 0", "leave 1.1", "leave 1.0", "enter 1.0", "enter 1.1", "end 1.1", "end 1.0",
    ]
)]
#[case::joined(
    "with request('r', 1) as r:\n r.context('000000000000000000000000000000ab', bytes(7) + b'\\x05')\n\
     \x20with phase('p'):\n  guestscope.context(bytes(15) + b'\\xcd', '0000000000000006')",
    &["request 1.0 r 1 0", "context 1.0 0 ab 5", "begin 1.1 p 0", "context 1.0 0 cd 6", "end 1.1", "end 1.0"]
)]
fn edges_of_a_python_program(#[case] program: &str, #[case] expected: &[&str]) {
    if python_is_missing() {
        return skipped("edges_of_a_python_program", "no python3");
    }
    match tracer::trace(&mut python(program)) {
        Ok(trace) => assert_eq!(wire::script(&trace.edges), expected, "{}", trace.output),
        Err(reason) => skipped("edges_of_a_python_program", &reason),
    }
}

/// Runs a program, without a tracer, that checks itself; `refuse_wiping` makes MADV_WIPEONFORK fail in it.
fn check(program: &str, library: bool, refuse_wiping: bool) {
    if python_is_missing() {
        return skipped("check", "no python3");
    }
    let mut python = python(program);
    if !library {
        python.env_remove("GUESTSCOPE_LIBRARY");
    }
    if refuse_wiping {
        // SAFETY: prctl is async-signal-safe, and the filter lives in the child's copy of this program.
        unsafe { python.pre_exec(refuse_wipe_on_fork) };
    }
    let output = python.output().expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// From here on `madvise(_, _, MADV_WIPEONFORK)` says EINVAL, as on kernels before 4.14.
fn refuse_wipe_on_fork() -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // In `struct seccomp_data` the number is at 0, the low half of the third argument at 32.
    let mut filters = [
        filter(LOAD, 0, 0, 0),
        filter(JUMP_IF_EQUAL, 0, 3, libc::SYS_madvise as u32),
        filter(LOAD, 0, 0, 32),
        filter(JUMP_IF_EQUAL, 0, 1, libc::MADV_WIPEONFORK as u32),
        filter(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        filter(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
    // SAFETY: both calls read `program` and the filters, which live to the end of this function.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

const FORK: &str = r#"
import os
def in_child(function):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(function()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reader, 1000).decode()
def header():
    with phase("p") as p:
        return p.traceparent
with request("r", 1) as r:
    assert in_child(guestscope.traceparent) == "None", "nothing is open in a child"
    of_child, of_other = in_child(header), in_child(header)
    own = r.traceparent
    assert guestscope.traceparent() == own
headers = (of_child, of_other, own, header())
assert len({text.split("-")[1] for text in headers}) == 4, headers
"#;

#[rstest]
#[case::page_is_cleared(false)]
#[case::process_number_is_compared(true)]
fn a_forked_child_starts_anew(#[case] refuse_wiping: bool) {
    check(FORK, true, refuse_wiping);
}

const TYPES: &str = r#"
import asyncio
def refuses(error, function, *arguments):
    try:
        function(*arguments)
    except error:
        return True
    return False
for name in (None, 1, b"bytes", ["list"]):
    assert refuses(TypeError, phase, name) and refuses(TypeError, request, name) and refuses(TypeError, mark, name)
assert refuses(TypeError, request, "r", "one") and refuses(TypeError, request, "r", 1, 2.5)
assert refuses(TypeError, phase("p"), 5), "not a function"
assert refuses(TypeError, phase("p").next, None) and refuses(TypeError, request("r", 1).next, b"bytes")
def generator():
    yield
assert refuses(TypeError, phase("p"), generator)
with request("r", 2**64 - 1):
    assert refuses(ValueError, guestscope.context, b"short", bytes(8))
async def f(x):
    await asyncio.sleep(0)
    return x
assert asyncio.run(task(f(4))) == 4 and asyncio.run(phase("p")(f)(5)) == 5
async def fails():
    await asyncio.wait_for(task(asyncio.sleep(60), name="slow"), 0.01)
assert refuses(asyncio.TimeoutError, asyncio.run, fails())
"#;

#[rstest]
#[case::with_the_library(true)]
#[case::without_it(false)]
fn wrong_types_are_refused_and_results_passed_on(#[case] library: bool) {
    check(TYPES, library, false);
}

#[test]
fn without_the_library_everything_does_nothing() {
    let program = "assert not guestscope.available\n\
                   with request('r', 1) as r:\n r.next('p')\n assert r.traceparent is None and r.token == 0\n\
                   f = lambda: 1\nassert phase('p')(f) is f\nassert guestscope.traceparent() is None";
    check(program, false, false);
}
