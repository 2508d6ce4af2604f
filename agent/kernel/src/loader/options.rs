//! What is asked of loading, as plain data.

use std::{path::PathBuf, time::Duration};

use guestscope_contract::{GPU_MAJORS, SLOTS};

use crate::watched::Watched;

/// Options of loading.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct LoadOptions {
    /// Threads that can be tracked at once.
    pub slots: u32,
    /// Keep the kernel side's log messages, for [`Loaded::logger`].
    pub log: bool,
    /// Hand over waits of at least this length, up to 4.29 s; zero for none.
    pub wait_threshold: Duration,
    /// Prepare to find threads that run already: [`Loaded::visit`].
    pub visits: bool,
    /// Source of the programs' knowledge of this kernel.
    pub knowledge: Knowledge,
    /// Prepare to follow calls of functions: [`Loaded::functions`].
    pub functions: bool,
    /// Prepare to follow calls of graphics processors' drivers: [`Loaded::driver`].
    pub driver: bool,
    /// Major numbers of devices that count as graphics processors; none for those of this kernel's drivers.
    pub gpus: Option<[u32; GPU_MAJORS]>,
    /// Ports and paths whose requests shall be known by their sockets.
    pub requests: Vec<Watched>,
    /// Requests that a source marks begin when they arrived.
    pub arrivals: bool,
    /// Tell of programs that other processes execute: [`Loaded::starts`].
    pub starts: bool,
    /// Requests may be left out: [`Loaded::thin`].
    pub thins: bool,
}

/// Source of the programs' knowledge of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// The kernel's own BTF; where it has none, the formats of its tracepoints.
    #[default]
    Own,
    /// This BTF file, as if the kernel had no BTF.
    File(PathBuf),
    /// The formats of the kernel's tracepoints, as if it had no BTF.
    Formats,
}

impl From<Option<PathBuf>> for Knowledge {
    fn from(file: Option<PathBuf>) -> Self {
        file.map_or(Knowledge::Own, Knowledge::File)
    }
}

/// Shorter waits explain nothing that a person would look at, and are many.
pub const WAIT_THRESHOLD: Duration = Duration::from_micros(100);

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            slots: SLOTS,
            log: false,
            wait_threshold: WAIT_THRESHOLD,
            visits: true,
            knowledge: Knowledge::Own,
            functions: false,
            driver: false,
            gpus: None,
            requests: Vec::new(),
            arrivals: false,
            starts: false,
            thins: false,
        }
    }
}
