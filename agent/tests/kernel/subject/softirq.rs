//! A case with much softirq work: datagrams over loopback are received during their sender's time, on another
//! stack than its own.

use std::{fs, net::UdpSocket};

use crate::{
    Case, Subject,
    clerk::clock_ns,
    switches::{cpus, pin},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("datagrams", datagrams)];

/// CPU time of the case.
const CPU_NS: u64 = 1_500_000_000;
/// Datagrams between two readings of the clock.
const BURST: usize = 64;

/// ns of softirqs on a CPU since boot, by the kernel's ticks: the seventh number of its line in /proc/stat.
fn softirq_ns(cpu: usize) -> u64 {
    let text = fs::read_to_string("/proc/stat").expect("/proc is there");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let ticks = line.and_then(|line| line.split_whitespace().nth(6)?.parse::<u64>().ok());
    ticks.expect("the CPU has a line") * 10_000_000
}

fn datagrams(subject: &Subject) {
    let cpu = cpus()[0];
    pin(cpu);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    socket.connect(socket.local_addr().expect("it is bound")).expect("loopback is reached");
    subject.clerk(|clerk| {
        let before_ns = softirq_ns(cpu);
        clerk.book("work", 1, || {
            let start_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_ns < CPU_NS {
                // Nobody reads them: datagrams without room are dropped after the same work.
                (0..BURST).for_each(|_| drop(socket.send(&[0; 1024])));
            }
        });
        clerk.fact("softirq_ns", softirq_ns(cpu) - before_ns);
    });
}
