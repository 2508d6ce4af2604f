//! A row of the table of metrics: what a quantity is called everywhere, and what it is.

#[cfg(not(target_arch = "bpf"))]
extern crate alloc;

#[cfg(not(target_arch = "bpf"))]
use alloc::string::String;

/// A row of a class: `row!(Count "count" "block.read" Bytes "_bytes", BlockLayer, "help")`.
macro_rules! row {
    ($class:ident $class_name:literal $name:literal $unit:ident $suffix:literal, $filled_by:ident, $help:expr) => {
        Row {
            class: Class::$class,
            name: $name,
            unit: Unit::$unit,
            filled_by: FilledBy::$filled_by,
            help: $help,
            path: concat!($class_name, ".", $name),
            key: concat!($name, $suffix),
            attribute: concat!("guestscope.", $class_name, ".", $name, $suffix),
        }
    };
}

/// What a quantity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A part of the duration. All of them add up to it.
    Time,
    /// Time of the process's other threads meanwhile, outside phases of their own.
    Helper,
    /// How long at least one of these threads was kept from running.
    HelperWait,
    /// A part of one of the times above that is known from elsewhere. It is never added to them.
    Overlay,
    /// Durations of operations, added up. Operations overlap, so the sum may exceed the duration.
    Operation,
    /// Events, or bytes.
    Count,
}

/// What a quantity is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of events.
    Events,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
}

/// Where a quantity comes from, which decides at what fidelity there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledBy {
    /// Switches between threads: every fidelity has them.
    Switches,
    /// Wake-ups and the CPUs that threads run on.
    Scheduler,
    /// The kernel's counters of page faults.
    Faults,
    /// Throttle clocks of control groups.
    Throttle,
    /// The hypervisor's account of stolen time.
    Hypervisor,
    /// Late beats of all CPUs.
    Beats,
    /// The sampler of running threads.
    Sampler,
    /// Tracepoints of the block layer.
    BlockLayer,
    /// Calls that receive and send over sockets, and TCP.
    Sockets,
    /// Calls of graphics processors' drivers.
    Driver,
    /// Long waits of the process's other threads.
    LongWaits,
    /// Marks of a program: phases that leave a thread.
    Marks,
    /// The ledger, about itself.
    Ledger,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub class: Class,
    /// Its name within the class, words divided by points.
    pub name: &'static str,
    /// What it is measured in.
    pub unit: Unit,
    /// Where it comes from.
    pub filled_by: FilledBy,
    /// What it says, in a sentence or two.
    pub help: &'static str,
    /// Class and name: what texts call it.
    pub path: &'static str,
    /// The name with its unit: the key in the JSON object of its class.
    pub key: &'static str,
    /// The key of a span's attribute.
    pub attribute: &'static str,
}

impl Row {
    /// Class, name and unit: what it is called in JSON outside the object of its class.
    #[must_use]
    pub fn full_name(&self) -> &'static str {
        self.attribute.trim_start_matches("guestscope.")
    }

    /// The name of its column in Parquet: SQL needs no quotes around it.
    #[cfg(not(target_arch = "bpf"))]
    #[must_use]
    pub fn column(&self) -> String {
        self.full_name().replace('.', "_")
    }
}
