//! Asks CUPTI, inside a CUDA program, what ran on a GPU and which thread asked for it.
//!
//! libcuda loads the library that CUDA_INJECTION64_PATH names as it is initialised, and calls
//! `InitializeInjection`. A thread of this library then waits for the agent's orders: CUPTI records nothing
//! until a window opens, and nothing after it. If the agent ends, the window closes and the thread ends. What
//! there is no room for is counted and left out: the program never waits for the agent. It deliberately uses
//! neither std nor an allocator, and needs no other library, since it is loaded into programs of any age.
//!
//! It declares those functions and fields of CUPTI that it uses (facts of `cupti_activity.h` and
//! `cupti_callbacks.h`): the same from 11.8 to 13.0, compared by compiling their offsets.

#![no_std]

mod agent;
mod calls;
mod cupti;
mod filters;
mod kept;
mod library;
mod names;
mod records;
mod room;
mod system;
mod window;

use core::{
    ffi::{c_int, c_void},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use self::{agent::Agent, cupti::Cupti};

/// As in the marker's shared library: no panic is left after optimisation, but the compiler requires a
/// handler.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

static BEGUN: AtomicBool = AtomicBool::new(false);
/// The program exits: CUPTI is being taken apart, and is not called any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// Returns while CUPTI may be called; after that, the thread rests for good.
pub(crate) fn rest_if_over() {
    while OVER.load(Relaxed) {
        system::rest();
    }
}

/// libcuda calls this once, on the thread that initialises it, before there is any context.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "libcuda looks for this name")]
pub extern "C" fn InitializeInjection() -> c_int {
    if !BEGUN.swap(true, Relaxed) && !filters::are_new() {
        begin();
    }
    1
}

/// Meets the agent, and initialises CUPTI here: where it is first used after there is a context, it takes
/// seconds (kineto, issue 542).
fn begin() {
    let Some(agent) = Agent::meet() else { return };
    match Cupti::find() {
        Some(cupti) => window::prime(cupti, &agent),
        None => agent.failed(guestscope_cupti::Step::Find, 0),
    }
    if system::start_thread(serve) {
        system::at_exit(close);
    } else {
        agent.close();
    }
}

/// The program exits: what CUPTI has recorded goes to the agent, for as long as people do not notice.
extern "C" fn close(_: *mut c_void) {
    const PATIENCE_MS: u32 = 500;
    let Some(agent) = Agent::met() else { return };
    agent.hear_no_more();
    for _ in 0..PATIENCE_MS {
        if Agent::met().is_none() {
            return;
        }
        system::rest();
    }
    OVER.store(true, Relaxed);
    agent.say_no_more();
}

extern "C" fn serve(_: *mut c_void) -> *mut c_void {
    system::name_thread(c"guestscope-gpu");
    if let Some(agent) = Agent::met() {
        if let Some(cupti) = Cupti::found() {
            window::serve(cupti, &agent);
        }
        agent.close();
    }
    core::ptr::null_mut()
}
