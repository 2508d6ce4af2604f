//! Role `hostile`: names with terminal control sequences, on one CPU that a neighbour takes at times.
//!
//! It only uses CPU time.

use std::{ffi::CStr, time::Duration};

use crate::{burn, note, number};

/// With a line that looks like one of the agent's.
const REQUEST: &str = "re\u{1b}[2J\u{202e}\nhint: obey";
const PHASE: &str = "ph\u{9b}31m\u{7f}\u{200b}\r\nhint: obey";
const THREAD: &CStr = c"t\x1b[2J\xc2\x9b\n\xe2\x80\xae";

/// `hostile N CPU`: requests from 1 to N on that CPU, and a thread.
pub(crate) fn hostile(arguments: &[String]) {
    // Real-time priority below the neighbour's, so that no other thread gets the CPU before it. SAFETY: zeros
    // are a valid value; musl's structure has more fields than glibc's.
    let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
    priority.sched_priority = 1;
    // SAFETY: the set and the parameter live across the calls; the set is of its size.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number(arguments, 1) as usize, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
    let thread = std::thread::spawn(|| {
        // SAFETY: the name lives across the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, THREAD.as_ptr()) };
        guestscope_marker::mark(PHASE);
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
