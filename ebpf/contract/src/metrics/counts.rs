//! What is counted of a thread, and times of it beside its accounts: the rows of the table that are read at
//! edges, each with the place where it is read.
//!
//! A new count is a field where the programs count it, and a row here.

use crate::{
    Activity::{Fault, Irq, Spin, Syscall, User},
    Beside,
    Distance::{Cache, Node, Remote, Smt},
    ledger::Ledger,
    row::{Class, FilledBy, Row, Unit},
};

/// What an edge or the end of a task holds of its thread.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Its ledger.
    pub ledger: &'a Ledger,
    /// The data beside the ledger.
    pub beside: &'a Beside,
    /// Minor faults since its birth.
    pub minor_faults: u64,
    /// Major faults since its birth.
    pub major_faults: u64,
}

/// How a count is kept where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// 32 bits, which wrap.
    Bits32,
    /// 64 bits, which never do.
    Bits64,
}

/// The place of a row in a [`Reading`]; 0 for what the agent adds later.
macro_rules! read {
    ($reading:ident,) => {
        0
    };
    ($reading:ident, $($place:tt)+) => {
        u64::from($reading.$($place)+)
    };
}

/// The same where there is a ledger alone: other places keep an earlier value.
macro_rules! read_ledger {
    ($ledger:ident, $earlier:expr, ledger $($place:tt)+) => {
        u64::from($ledger $($place)+)
    };
    ($ledger:ident, $earlier:expr, $($place:tt)*) => {
        $earlier
    };
}

/// A row by the words for its class and unit.
macro_rules! metric_row {
    (overlay $name:literal ns $($rest:tt)*) => { row!(Overlay "overlay" $name Ns "_ns" $($rest)*) };
    (operation $name:literal ns $($rest:tt)*) => { row!(Operation "operation" $name Ns "_ns" $($rest)*) };
    (count $name:literal events $($rest:tt)*) => { row!(Count "count" $name Events "" $($rest)*) };
    (count $name:literal bytes $($rest:tt)*) => { row!(Count "count" $name Bytes "_bytes" $($rest)*) };
}

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $metric:ident $field:ident = $class:ident $name:literal $unit:ident,
        $filled_by:ident, $width:ident($($place:tt)*);)*) => {
        /// A row of the table that is read at edges.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Metric { $($(#[doc = $help])+ $metric,)* }

        /// Number of metrics in [`Counts`].
        pub const COUNTS: usize = [$($name),*].len();

        /// Values of all [`Metric`]s of a thread or a phase.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[doc = $help])+ pub $field: u64,)* }

        static ROWS: [Row; COUNTS] = [$(metric_row!($class $name $unit, $filled_by, concat!($($help),+)),)*];
        static WIDTHS: [Width; COUNTS] = [$(Width::$width),*];

        impl Metric {
            /// All of them, in the order of [`Counts::to_array`].
            pub const ALL: [Metric; COUNTS] = [$(Metric::$metric),*];
        }

        impl Counts {
            /// In the order of [`Metric::ALL`].
            #[must_use]
            pub const fn to_array(self) -> [u64; COUNTS] {
                [$(self.$field),*]
            }

            /// From the order of [`Metric::ALL`].
            #[must_use]
            pub const fn from_array(values: [u64; COUNTS]) -> Self {
                let [$($field),*] = values;
                Self { $($field),* }
            }

            /// Value of one metric.
            #[must_use]
            pub const fn get(&self, metric: Metric) -> u64 {
                match metric { $(Metric::$metric => self.$field,)* }
            }

            /// The same, to be changed.
            pub const fn get_mut(&mut self, metric: Metric) -> &mut u64 {
                match metric { $(Metric::$metric => &mut self.$field,)* }
            }

            /// Counts of a thread since its tracking began (faults: since its birth).
            #[must_use]
            pub fn read(reading: &Reading<'_>) -> Self {
                Self { $($field: read!(reading, $($place)*),)* }
            }

            /// The same of a ledger without the data beside it, which stay as they were.
            #[must_use]
            pub fn with_ledger(&self, ledger: &Ledger) -> Self {
                Self { $($field: read_ledger!(ledger, self.$field, $($place)*),)* }
            }
        }
    };
}

// Help; metric and field; class, name and unit; where it comes from; width and place in a `Reading`.
metrics! {
    /// Times it blocked.
    SwitchVoluntary switch_voluntary = count "switch.voluntary" events, Switches, Bits32(ledger.voluntary);
    /// Times it left the CPU while it could run.
    SwitchInvoluntary switch_involuntary = count "switch.involuntary" events, Switches,
        Bits32(ledger.involuntary);
    /// Wake-ups that ended a block.
    Wakeup wakeup = count "wakeup" events, Scheduler, Bits32(ledger.wakeups);
    /// From the start of each wake-up until the thread was queued: a part of `runq`. An interrupt to another
    /// CPU and, in a virtual machine, that CPU's way out of its halt.
    WakeupDelay wakeup_delay_ns = overlay "runq.wakeup" ns, Scheduler, Bits64(ledger.wakeup_delay_ns);
    /// It waited for a socket, by what it read next: a part of `poll`, an estimate.
    PollNet poll_net_ns = overlay "poll.net" ns, Sockets, Bits64(beside.poll_net_ns);
    /// It waited for the lock of its address space (`mmap_lock`), in waits long enough to be recorded: a part
    /// of `fault` and of `other`.
    AddressSpace address_space_ns = overlay "address_space" ns, Scheduler, Bits64();
    /// A signal, a debugger or the freezer kept it from running, in waits long enough to be recorded: a part
    /// of `other`.
    Stopped stopped_ns = overlay "stopped" ns, Scheduler, Bits64();
    /// Meanwhile the thread on which it continued ran other requests, or code outside of phases: a part of
    /// `suspended`, at least.
    SuspendedHeld suspended_held_ns = overlay "suspended.held" ns, Marks, Bits64();
    /// A hypervisor ran somebody else: a part of `cpu`.
    Steal steal_ns = overlay "steal" ns, Hypervisor, Bits64(ledger.stolen_ns);
    /// Waits for a CPU in which its group was out of quota.
    Throttle throttle = count "throttle" events, Throttle, Bits32(ledger.throttles);
    /// Times it ran on another hardware thread of the core that it ran on before.
    MigrateSmt migrate_smt = count "migrate.smt" events, Scheduler, Bits32(ledger.migrations[Smt as usize]);
    /// Times it ran on another core than before, one that shares the last level of cache.
    MigrateLlc migrate_llc = count "migrate.llc" events, Scheduler, Bits32(ledger.migrations[Cache as usize]);
    /// Times it ran on a core of another last level of cache than before, in the same memory node.
    MigrateNode migrate_node = count "migrate.node" events, Scheduler, Bits32(ledger.migrations[Node as usize]);
    /// Times it ran in another memory node than before.
    MigrateRemote migrate_remote = count "migrate.remote" events, Scheduler,
        Bits32(ledger.migrations[Remote as usize]);
    /// Minor faults.
    FaultMinor fault_minor = count "fault.minor" events, Faults, Bits64(minor_faults);
    /// Major faults.
    FaultMajor fault_major = count "fault.major" events, Faults, Bits64(major_faults);
    /// Reads that it submitted to block devices.
    BlockRead block_read = count "block.read" events, BlockLayer, Bits32(ledger.block_reads);
    /// Their bytes.
    BlockReadBytes block_read_bytes = count "block.read" bytes, BlockLayer, Bits64(ledger.block_read_bytes);
    /// Writes that it submitted to block devices.
    BlockWrite block_write = count "block.write" events, BlockLayer, Bits32(ledger.block_writes);
    /// Their bytes.
    BlockWriteBytes block_write_bytes = count "block.write" bytes, BlockLayer, Bits64(ledger.block_write_bytes);
    /// I/Os that block devices have done for it; what is submitted may be split or merged on the way.
    BlockIo block_io = count "block.io" events, BlockLayer, Bits64();
    /// From the submission of each I/O until a device had it.
    BlockQueue block_queue_ns = operation "block.queue" ns, BlockLayer, Bits64();
    /// From then until it was done.
    BlockDevice block_device_ns = operation "block.device" ns, BlockLayer, Bits64();
    /// Calls that received over sockets.
    NetRecv net_recv = count "net.recv" events, Sockets, Bits32(ledger.net_recvs);
    /// Their bytes.
    NetRecvBytes net_recv_bytes = count "net.recv" bytes, Sockets, Bits64(ledger.net_recv_bytes);
    /// Calls that sent over sockets.
    NetSend net_send = count "net.send" events, Sockets, Bits32(ledger.net_sends);
    /// Their bytes.
    NetSendBytes net_send_bytes = count "net.send" bytes, Sockets, Bits64(ledger.net_send_bytes);
    /// First receives after a send over the same socket, by the same thread, in the same outermost phase.
    NetResponse net_response = count "net.response" events, Sockets, Bits32(beside.traffic.responses);
    /// From the sends to the receives of `count.net.response`.
    NetResponseTime net_response_ns = operation "net.response" ns, Sockets, Bits64(beside.traffic.response_ns);
    /// The shortest round trip that TCP had lately seen on their sockets, once for each response: the least
    /// time that the network took of them.
    NetRoundTrip net_round_trip_ns = operation "net.round_trip" ns, Sockets, Bits64(beside.traffic.round_trip_ns);
    /// Times TCP sent something again that the thread had sent.
    NetRetransmit net_retransmit = count "net.retransmit" events, Sockets, Bits32(beside.traffic.retransmits);
    /// In functions of a graphics processor's driver that wait or copy: a part of `cpu`. It spun, or copied.
    CpuGpu cpu_gpu_ns = overlay "cpu.gpu" ns, Driver, Bits64(beside.driver.cpu_ns);
    /// Calls of such functions that wait for the device.
    GpuWait gpu_wait = count "gpu.wait" events, Driver, Bits32(beside.driver.waits);
    /// From the entry to the return of each, whatever the thread did meanwhile.
    GpuWaitTime gpu_wait_ns = operation "gpu.wait" ns, Driver, Bits64(beside.driver.waited_ns);
    /// Calls of such functions that copy memory to, from or on the device.
    GpuCopy gpu_copy = count "gpu.copy" events, Driver, Bits32(beside.driver.copies);
    /// Those of them that kept the thread for 50 us or longer.
    GpuCopyBlocking gpu_copy_blocking = count "gpu.copy.blocking" events, Driver,
        Bits32(beside.driver.copies_blocking);
    /// From the entry to the return of each copy.
    GpuCopyTime gpu_copy_ns = operation "gpu.copy" ns, Driver, Bits64(beside.driver.copied_ns);
    /// Bytes that it asked the driver to copy to the device, by functions that copy this way alone.
    GpuToDevice gpu_to_device_bytes = count "gpu.to_device" bytes, Driver,
        Bits64(beside.driver.to_device_bytes);
    /// Bytes that it asked the driver to copy from the device, by functions that copy this way alone.
    GpuFromDevice gpu_from_device_bytes = count "gpu.from_device" bytes, Driver,
        Bits64(beside.driver.from_device_bytes);
    /// Calls of both kinds that ended without a return: the thread ended inside or began another program, or
    /// it jumped out; each is counted when that is noticed.
    GpuUnreturned gpu_unreturned = count "gpu.unreturned" events, Driver, Bits32(beside.driver.unreturned);
    /// Samples on a CPU in the program's own code.
    SampleUser sample_user = count "sample.user" events, Sampler, Bits32(beside.samples[User as usize]);
    /// Samples in the kernel outside any system call: page faults.
    SampleFault sample_fault = count "sample.fault" events, Sampler, Bits32(beside.samples[Fault as usize]);
    /// Samples in system calls.
    SampleSyscall sample_syscall = count "sample.syscall" events, Sampler,
        Bits32(beside.samples[Syscall as usize]);
    /// Samples in code of a library that busy-waits for other threads: libgomp and its like.
    SampleSpin sample_spin = count "sample.spin" events, Sampler, Bits32(beside.samples[Spin as usize]);
    /// Samples in softirqs, for any thread.
    SampleIrq sample_irq = count "sample.irq" events, Sampler, Bits32(beside.samples[Irq as usize]);
    /// Switches that the hook missed.
    SwitchMissed switch_missed = count "switch.missed" events, Ledger, Bits32(ledger.missed);
}

impl Metric {
    /// Its row of the table.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
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
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
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
