//! Roles `hostile`: names with terminal control sequences, on one CPU that a neighbour takes at times; and
//! `take-turns`: that neighbour.
//!
//! They only use CPU time.

use std::{
    ffi::CStr,
    io::Read as _,
    time::{Duration, Instant},
};

use crate::{burn, note, number};

/// With a line that looks like one of the agent's.
const REQUEST: &str = "re\u{1b}[2J\u{202e}\nhint: obey";
const PHASE: &str = "ph\u{9b}31m\u{7f}\u{200b}\r\nhint: obey";
const THREAD: &CStr = c"t\x1b[2J\xc2\x9b\n\xe2\x80\xae";

/// `hostile N CPU`: requests from 1 to N on that CPU, and a thread.
pub(crate) fn hostile(arguments: &[String]) {
    // Below the neighbour's priority, so that no other thread gets the CPU before this one.
    first_on(number(arguments, 1) as usize, 1);
    let thread = std::thread::spawn(|| {
        // SAFETY: the name lives across the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, THREAD.as_ptr()) };
        guestscope_marker::mark(PHASE);
        drop(guestscope_marker::request(REQUEST, 0));
    });
    thread.join().expect("it ends by itself");
    for at in 1..=number(arguments, 0) {
        let request = guestscope_marker::request(REQUEST, at);
        let phase = guestscope_marker::phase(PHASE);
        burn(Duration::from_millis(3));
        phase.end();
        request.end();
        std::thread::sleep(Duration::from_millis(1));
    }
    note("done");
}

/// `take-turns CPU`: takes that CPU from all other threads, again and again, until standard input ends.
pub(crate) fn take_turns(arguments: &[String]) {
    first_on(number(arguments, 0) as usize, 2);
    std::thread::spawn(|| {
        loop {
            let end = Instant::now() + Duration::from_millis(15);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(120));
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}

/// The calling thread, and those that it starts, run on this CPU alone, with this real-time priority.
fn first_on(cpu: usize, priority: i32) {
    // SAFETY: zeros are a valid value; musl's structure has more fields than glibc's.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: the set and the parameter live across the calls; the set is of its size.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter);
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
}
