//! Names of attributes, for those who read spans back: times, helpers' times and counts of a phase.

use guestscope_contract::ACCOUNTS;

pub use self::{
    COUNT_KEYS as COUNT, HELPER_KEYS as HELPER, HELPER_WAIT_KEYS as HELPER_WAIT,
    HELPER_WAIT_ON_CPU_KEYS as HELPER_WAIT_ON_CPU, TIME_KEYS as TIME,
};
pub use super::spans::AROUND_KEY as AROUND;
use crate::phase::{COUNT_NAMES, KEPT};

/// Attribute keys by account, in the order of [`guestscope_contract::Account::ALL`].
pub const TIME_KEYS: [&str; ACCOUNTS] = [
    "guestscope.time.cpu_ns",
    "guestscope.time.runq_ns",
    "guestscope.time.throttled_ns",
    "guestscope.time.block_io_ns",
    "guestscope.time.net_ns",
    "guestscope.time.poll_ns",
    "guestscope.time.lock_ns",
    "guestscope.time.gpu_ns",
    "guestscope.time.fault_ns",
    "guestscope.time.sleep_ns",
    "guestscope.time.other_ns",
];

/// Attribute keys of helpers' time by account, in the same order.
pub const HELPER_KEYS: [&str; ACCOUNTS] = [
    "guestscope.helper.cpu_ns",
    "guestscope.helper.runq_ns",
    "guestscope.helper.throttled_ns",
    "guestscope.helper.block_io_ns",
    "guestscope.helper.net_ns",
    "guestscope.helper.poll_ns",
    "guestscope.helper.lock_ns",
    "guestscope.helper.gpu_ns",
    "guestscope.helper.fault_ns",
    "guestscope.helper.sleep_ns",
    "guestscope.helper.other_ns",
];

/// Attribute keys of helpers' waits to run by account, in the order of [`KEPT`].
pub const HELPER_WAIT_KEYS: [&str; KEPT.len()] = [
    "guestscope.helper_wait.runq_ns",
    "guestscope.helper_wait.throttled_ns",
    "guestscope.helper_wait.block_io_ns",
    "guestscope.helper_wait.fault_ns",
];

/// Attribute keys of the part of these waits while the phase's own thread was on a CPU.
pub const HELPER_WAIT_ON_CPU_KEYS: [&str; KEPT.len()] = [
    "guestscope.helper_wait.on_cpu.runq_ns",
    "guestscope.helper_wait.on_cpu.throttled_ns",
    "guestscope.helper_wait.on_cpu.block_io_ns",
    "guestscope.helper_wait.on_cpu.fault_ns",
];

/// Attribute keys of counts, in the order of [`COUNT_NAMES`].
pub const COUNT_KEYS: [&str; COUNT_NAMES.len()] = [
    "guestscope.count.switch.voluntary",
    "guestscope.count.switch.involuntary",
    "guestscope.count.wakeup",
    "guestscope.count.wakeup.delay_ns",
    "guestscope.count.poll.net_ns",
    "guestscope.count.steal_ns",
    "guestscope.count.throttle",
    "guestscope.count.migrate.smt",
    "guestscope.count.migrate.llc",
    "guestscope.count.migrate.node",
    "guestscope.count.migrate.remote",
    "guestscope.count.fault.minor",
    "guestscope.count.fault.major",
    "guestscope.count.block.read",
    "guestscope.count.block.read_bytes",
    "guestscope.count.block.write",
    "guestscope.count.block.write_bytes",
    "guestscope.count.block.io",
    "guestscope.count.block.queue_ns",
    "guestscope.count.block.device_ns",
    "guestscope.count.net.recv",
    "guestscope.count.net.recv_bytes",
    "guestscope.count.net.send",
    "guestscope.count.net.send_bytes",
    "guestscope.count.net.answer",
    "guestscope.count.net.answer_ns",
    "guestscope.count.net.round_trip_ns",
    "guestscope.count.net.retransmit",
    "guestscope.count.sample.user",
    "guestscope.count.sample.fault",
    "guestscope.count.sample.syscall",
    "guestscope.count.sample.spin",
    "guestscope.count.sample.irq",
    "guestscope.count.switch.missed",
];
