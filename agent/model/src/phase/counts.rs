//! Events of a thread: one table of what is counted, from which everything that lists counts is made.
//!
//! Columns, attributes and reports follow its order. It counts nothing itself.

/// How a count is kept where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// 32 bits, which wrap.
    Bits32,
    /// 64 bits, which never do.
    Bits64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident: $width:ident = $name:literal,)*) => {
        /// Events of a thread, counted.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])* pub $field: u64,)* }

        /// The names of [`Counts`], as attributes and columns spell them (columns with underscores).
        pub const COUNT_NAMES: [&str; [$($name),*].len()] = [$($name),*];

        const WIDTHS: [Width; COUNT_NAMES.len()] = [$(Width::$width),*];

        impl Counts {
            /// In the order of [`COUNT_NAMES`].
            pub fn to_array(self) -> [u64; COUNT_NAMES.len()] {
                [$(self.$field),*]
            }

            /// From the order of [`COUNT_NAMES`].
            pub fn from_array(values: [u64; COUNT_NAMES.len()]) -> Self {
                let [$($field),*] = values;
                Self { $($field),* }
            }
        }
    };
}

counts! {
    /// Times it blocked.
    switch_voluntary: Bits32 = "switch.voluntary",
    /// Times it left the CPU while it could run.
    switch_involuntary: Bits32 = "switch.involuntary",
    /// Wake-ups that ended a block.
    wakeup: Bits32 = "wakeup",
    /// From the start of each wake-up until the thread was queued, ns: part of `runq`. An interrupt to
    /// another CPU and, in a virtual machine, that CPU's way out of its halt.
    wakeup_delay_ns: Bits64 = "wakeup.delay_ns",
    /// Part of `poll` in which it waited for a socket, by what it read next, ns: an estimate.
    poll_net_ns: Bits64 = "poll.net_ns",
    /// Part of `cpu` in which the hypervisor ran somebody else, ns.
    steal_ns: Bits64 = "steal_ns",
    /// Waits for a CPU in which its group was out of quota.
    throttle: Bits32 = "throttle",
    /// Times it ran on another hardware thread of the core that it ran on before.
    migrate_smt: Bits32 = "migrate.smt",
    /// Times it ran on another core than before, one that shares the last level of cache.
    migrate_llc: Bits32 = "migrate.llc",
    /// Times it ran on a core of another last level of cache than before, in the same memory node.
    migrate_node: Bits32 = "migrate.node",
    /// Times it ran in another memory node than before.
    migrate_remote: Bits32 = "migrate.remote",
    /// Minor faults.
    fault_minor: Bits64 = "fault.minor",
    /// Major faults.
    fault_major: Bits64 = "fault.major",
    /// Reads that it submitted to block devices.
    block_read: Bits32 = "block.read",
    /// Their bytes.
    block_read_bytes: Bits64 = "block.read_bytes",
    /// Writes that it submitted to block devices.
    block_write: Bits32 = "block.write",
    /// Their bytes.
    block_write_bytes: Bits64 = "block.write_bytes",
    /// I/Os that block devices have done for it; what is submitted may be split or merged on the way.
    block_io: Bits64 = "block.io",
    /// From their submission until a device had them, ns, added up. I/Os overlap: this is no account, and may
    /// be more than the phase.
    block_queue_ns: Bits64 = "block.queue_ns",
    /// From then until they were done, ns, added up in the same way.
    block_device_ns: Bits64 = "block.device_ns",
    /// Calls that received over sockets.
    net_recv: Bits32 = "net.recv",
    /// Their bytes.
    net_recv_bytes: Bits64 = "net.recv_bytes",
    /// Calls that sent over sockets.
    net_send: Bits32 = "net.send",
    /// Their bytes.
    net_send_bytes: Bits64 = "net.send_bytes",
    /// First receives after a send on the same TCP socket, by the same thread, in the same outermost phase.
    net_answer: Bits32 = "net.answer",
    /// From those sends to those receives, ns, added up: no account, since waits for several sockets overlap.
    net_answer_ns: Bits64 = "net.answer_ns",
    /// The shortest round trip that TCP had lately seen on their sockets, ns, once for each answer: the least
    /// time that the network took of them.
    net_round_trip_ns: Bits64 = "net.round_trip_ns",
    /// Times TCP sent something again that the thread had sent.
    net_retransmit: Bits32 = "net.retransmit",
    /// Samples on a CPU in the program's own code. There are [`guestscope_contract::SAMPLES_PER_S`] of all kinds.
    sample_user: Bits32 = "sample.user",
    /// Samples in the kernel outside any system call: page faults.
    sample_fault: Bits32 = "sample.fault",
    /// Samples in system calls.
    sample_syscall: Bits32 = "sample.syscall",
    /// Samples in code of a library that busy-waits for other threads: libgomp and its like.
    sample_spin: Bits32 = "sample.spin",
    /// Samples in softirqs, for any thread.
    sample_irq: Bits32 = "sample.irq",
    /// Switches that the hook missed.
    switch_missed: Bits32 = "switch.missed",
}

impl Counts {
    /// Adds another interval.
    pub fn add(&mut self, other: &Counts) {
        let mut sum = self.to_array();
        for (mine, theirs) in sum.iter_mut().zip(other.to_array()) {
            *mine = mine.saturating_add(theirs);
        }
        *self = Self::from_array(sum);
    }

    /// What was counted since an earlier reading of the same thread.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let mut difference = self.to_array();
        for ((now, before), width) in difference.iter_mut().zip(earlier.to_array()).zip(WIDTHS) {
            *now = match width {
                Width::Bits32 => u64::from((*now as u32).wrapping_sub(before as u32)),
                Width::Bits64 => now.saturating_sub(before),
            };
        }
        Self::from_array(difference)
    }
}
