//! A thread of another process in /proc: its times, switches and faults, its name.
//!
//! The kernel's numbers are up to a tick old for a running thread; for a waiting one, or a zombie, they are
//! exact. A missing file yields no reading.

use guestscope_contract::COMM_BYTES;

use super::edge::Reading;
use crate::tasks;

/// The thread's name, ended by a zero byte; none if there is no such thread.
pub(super) fn comm(tgid: u32, tid: u32) -> Option<[u8; COMM_BYTES]> {
    let text = std::fs::read(format!("/proc/{tgid}/task/{tid}/comm")).ok()?;
    let mut comm = [0; COMM_BYTES];
    for (byte, known) in comm[..COMM_BYTES - 1].iter_mut().zip(text.trim_ascii_end()) {
        *byte = *known;
    }
    Some(comm)
}

/// The numbers of a process, from our PID namespace down to its own.
pub(super) fn numbers(pid: u32) -> Option<Vec<u32>> {
    let status = tasks::status(format!("/proc/{pid}").as_ref()).ok()?;
    let numbers = tasks::field(&status, "NSpid")?;
    Some(numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// Whether the process exists, zombies included.
pub(super) fn is_there(tgid: u32) -> bool {
    std::fs::exists(format!("/proc/{tgid}")).unwrap_or(true)
}

/// Whether the thread exists. A main thread that has ended does as long as its process.
pub(super) fn is_thread_there(tgid: u32, tid: u32) -> bool {
    std::fs::exists(format!("/proc/{tgid}/task/{tid}")).unwrap_or(true)
}

/// The thread's reading at `time_ns`, which is now.
pub(super) fn reading(tgid: u32, tid: u32, time_ns: u64) -> Option<Reading> {
    let place = format!("/proc/{tgid}/task/{tid}");
    let status = tasks::status(place.as_ref()).ok()?;
    let stat = std::fs::read(format!("{place}/stat")).ok()?;
    let field = |name: &str| tasks::field(&status, name)?.parse::<u64>().ok();
    let schedstat = std::fs::read_to_string(format!("{place}/schedstat")).ok();
    let schedstat = schedstat.and_then(|text| self::schedstat(&text));
    // After the name, which may hold any bytes, brackets too.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let numbers: Vec<&str> = std::str::from_utf8(&stat[end + 1..]).ok()?.split_whitespace().collect();
    let number = |index: usize| numbers.get(index)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)?;
    Some(Reading {
        time_ns,
        // Hundredths of a second where there is nothing better.
        cpu_ns: schedstat.map_or(ticks.saturating_mul(10_000_000), |(cpu_ns, _)| cpu_ns),
        run_delay_ns: schedstat.map(|(_, run_delay_ns)| run_delay_ns),
        voluntary: field("voluntary_ctxt_switches").unwrap_or(0) as u32,
        involuntary: field("nonvoluntary_ctxt_switches").unwrap_or(0) as u32,
        minor_faults: number(7)?,
        major_faults: number(9)?,
    })
}

/// Time on a CPU and time waiting for one, ns.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
