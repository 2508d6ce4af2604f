//! A case in which this program keeps every CPU busy: time that a hypervisor steals is stolen from it.

use std::{sync::Barrier, thread, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::{Case, Subject, helpers::stolen_ns, spin};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("all_busy", all_busy)];

/// Some hundred ticks of /proc/stat, of which a shared machine loses some.
const LASTS: Duration = Duration::from_secs(3);

/// One thread on each CPU, pinned to it, with a request of its own.
fn all_busy(subject: &Subject) {
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).expect("the kernel tells");
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let ready = Barrier::new(cpus.len() + 1);
    let before_ns = thread::scope(|scope| {
        for (place, cpu) in cpus.iter().enumerate() {
            let ready = &ready;
            scope.spawn(move || {
                let mut only = CpuSet::new();
                only.set(*cpu).expect("it came out of such a set");
                ready.wait();
                sched_setaffinity(own, &only).expect("it is among those that are allowed");
                let request = guestscope_marker::request("busy", place as u64 + 1);
                spin(LASTS);
                request.end();
            });
        }
        let before_ns = stolen_ns();
        ready.wait();
        before_ns
    });
    subject.fact("stolen_ns", stolen_ns().saturating_sub(before_ns));
    subject.fact("cpus", cpus.len() as u64);
}
