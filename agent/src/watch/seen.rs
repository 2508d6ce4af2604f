//! How many requests are looked at: what the governor wants, and what the kernel side counted.
//!
//! The thread that reads the kernel's records and the one that keeps rows share it.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// Numbers that both threads see.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// One of 2 to the power of this is to be looked at.
    wanted: AtomicU32,
    /// Requests so far that were not looked at.
    unseen: AtomicU64,
    /// Time so far that it took to read and to pair, ns.
    pairing_ns: AtomicU64,
}

impl Seen {
    pub(super) fn want(&self, halved: u32) {
        self.wanted.store(halved, Ordering::Relaxed);
    }

    pub(super) fn wanted(&self) -> u32 {
        self.wanted.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&self, unseen: u64, pairing: Duration) {
        let ns = u64::try_from(pairing.as_nanos()).unwrap_or(u64::MAX);
        self.unseen.store(unseen, Ordering::Relaxed);
        self.pairing_ns.store(ns, Ordering::Relaxed);
    }

    pub(super) fn unseen(&self) -> u64 {
        self.unseen.load(Ordering::Relaxed)
    }

    pub(super) fn pairing_ns(&self) -> u64 {
        self.pairing_ns.load(Ordering::Relaxed)
    }
}
