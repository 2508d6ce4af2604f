//! Windows: CUPTI records from the agent's order until its time is over.

use core::{
    ffi::{c_int, c_void},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use guestscope_cupti::{Hello, Message, Step};

use super::{
    agent::{Agent, Next},
    cupti::{Cupti, Outcome, kind},
    kept, rest_if_over, system,
};

/// Interval between flushes of a long window: what the buffers have room for.
const FLUSH_NS: u64 = 200_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// What is recorded, and the step that fails without it. Kernels come first: without them there is no window.
const KINDS: [(u32, Step); 7] = [
    (kind::CONCURRENT_KERNEL, Step::Kernels),
    (kind::MEMCPY, Step::Copies),
    (kind::MEMCPY_PEER, Step::Copies),
    (kind::MEMSET, Step::Copies),
    (kind::GRAPH, Step::Graphs),
    (kind::RUNTIME, Step::Calls),
    (kind::DRIVER, Step::Calls),
];

/// Bits of steps whose failure was told.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// An open window.
struct Window {
    subscriber: *mut c_void,
    begin_ns: u64,
    until_ns: u64,
    /// CPU time of this thread when it began, ns.
    cpu_ns: u64,
}

/// Initialises CUPTI before there is a context, and tells what was found.
pub(crate) fn prime(cupti: &Cupti, agent: &Agent) {
    if !kept::make() {
        return agent.failed(Step::Register, 0);
    }
    let hello = Hello { version: cupti.version(), library: cupti.name().to_bytes() };
    if !agent.tell(&Message::Hello(hello)) {
        return;
    }
    // Nothing is registered, and nothing flushed: the program waits for this.
    match cupti.subscribe() {
        Ok(subscriber) => {
            let enabled = cupti.enable(kind::CONCURRENT_KERNEL);
            cupti.disable(kind::CONCURRENT_KERNEL);
            cupti.unsubscribe(subscriber);
            enabled.unwrap_or_else(|outcome| agent.failed(Step::Kernels, outcome));
        }
        Err(outcome) => agent.failed(Step::Subscribe, outcome),
    }
}

/// Obeys the agent until it is gone.
pub(crate) fn serve(cupti: &Cupti, agent: &Agent) {
    let mut window: Option<Window> = None;
    loop {
        let left = window.as_ref().map_or(-1, left_ms);
        match agent.order(left) {
            Next::Gone => {
                // The program ends, and the agent may still read; or the agent has ended.
                if let Some(window) = &mut window {
                    hand_over(cupti, agent, window, true);
                }
                return;
            }
            Next::Order(order) => {
                let until_ns = system::now_ns().saturating_add(u64::from(order.open_ms) * NS_PER_MS);
                match &mut window {
                    Some(window) => window.until_ns = until_ns,
                    None if order.open_ms == 0 => {}
                    None => match open(cupti, agent, until_ns) {
                        Ok(opened) => window = Some(opened),
                        Err((step, outcome)) => agent.failed(step, outcome),
                    },
                }
            }
            Next::Nothing => {}
        }
        let Some(open) = &mut window else { continue };
        let now_ns = system::now_ns();
        let is_over = now_ns >= open.until_ns;
        if !is_over && now_ns < open.begin_ns.saturating_add(FLUSH_NS) {
            continue;
        }
        if !hand_over(cupti, agent, open, is_over) {
            rest_if_over();
            if !is_over {
                stop(cupti, open);
            }
            return;
        }
        if is_over {
            window = None;
        }
    }
}

/// Milliseconds until the next flush or the end.
fn left_ms(window: &Window) -> c_int {
    let due_ns = window.until_ns.min(window.begin_ns.saturating_add(FLUSH_NS));
    let left_ns = due_ns.saturating_sub(system::now_ns());
    c_int::try_from(left_ns.div_ceil(NS_PER_MS)).unwrap_or(c_int::MAX)
}

fn open(cupti: &Cupti, agent: &Agent, until_ns: u64) -> Result<Window, (Step, Outcome)> {
    rest_if_over();
    let cpu_ns = system::thread_cpu_ns();
    let subscriber = cupti.subscribe().map_err(|outcome| (Step::Subscribe, outcome))?;
    let mut window = Window { subscriber, begin_ns: 0, until_ns, cpu_ns };
    if let Err(outcome) = cupti.register(kept::request, kept::complete) {
        cupti.set_back();
        cupti.unsubscribe(subscriber);
        return Err((Step::Register, outcome));
    }
    for (kind, step) in KINDS {
        let Err(outcome) = cupti.enable(kind) else { continue };
        if step == Step::Kernels {
            cupti.set_back();
            cupti.unsubscribe(subscriber);
            return Err((step, outcome));
        }
        let bit = 1 << step as u32;
        if TOLD.fetch_or(bit, Relaxed) & bit == 0 {
            agent.failed(step, outcome);
        }
    }
    window.begin_ns = system::now_ns();
    Ok(window)
}

/// Sends what was recorded; `is_over`: the last time.
fn hand_over(cupti: &Cupti, agent: &Agent, window: &mut Window, is_over: bool) -> bool {
    rest_if_over();
    let end_ns = system::now_ns();
    let flushed = if is_over {
        stop(cupti, window);
        Ok(())
    } else {
        cupti.flush(false)
    };
    if let Err(outcome) = flushed {
        agent.failed(Step::Flush, outcome);
    }
    let cpu_ns = system::thread_cpu_ns();
    let spent_ns = cpu_ns.saturating_sub(window.cpu_ns);
    let is_taken = kept::send(agent, (window.begin_ns, end_ns), spent_ns, is_over);
    (window.begin_ns, window.cpu_ns) = (end_ns, cpu_ns);
    is_taken
}

/// CUPTI records no more, and hands over all that it has.
fn stop(cupti: &Cupti, window: &Window) {
    for (kind, _) in KINDS {
        cupti.disable(kind);
    }
    rest_if_over();
    // What it refuses now is lost, and counted as dropped by the next window.
    let _ = cupti.flush(true);
    rest_if_over();
    cupti.set_back();
    cupti.unsubscribe(window.subscriber);
}
