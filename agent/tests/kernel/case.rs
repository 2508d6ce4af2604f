//! A run of the test program that is to be made, as plain data.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use guestscope::loader::{Knowledge, LoadOptions};
use guestscope_contract::GPU_MAJORS;

use crate::clocks::Clocks;

/// When to stop observing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the program and all its descendants have ended.
    Ended,
    /// When the program has written this many lines; it is killed afterwards.
    Lines(usize),
}

/// A run to be made.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) options: LoadOptions,
    pub(crate) driver: Option<PathBuf>,
    pub(crate) until: Until,
    pub(crate) clocks: Clocks,
    /// One of 2 to the power of this is handed over, if not all are.
    pub(crate) halved: Option<u32>,
    /// Does not read the rings until the program has written this many lines.
    pub(crate) idle_until_lines: usize,
}

impl Case {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            arguments: Vec::new(),
            options: LoadOptions::default(),
            driver: None,
            until: Until::Ended,
            clocks: Clocks::OfThreads,
            halved: None,
            idle_until_lines: 0,
        }
    }

    pub(crate) fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// One of 2 to the power of this is handed over.
    pub(crate) fn thinned(mut self, halved: u32) -> Self {
        self.halved = Some(halved);
        self.options.thins = true;
        self
    }

    pub(crate) fn slots(mut self, slots: u32) -> Self {
        self.options.slots = slots;
        self
    }

    pub(crate) fn wait_threshold(mut self, threshold: Duration) -> Self {
        self.options.wait_threshold = threshold;
        self
    }

    /// With this BTF file, as if the kernel had no BTF.
    pub(crate) fn by_file(mut self, path: &str) -> Self {
        self.options.knowledge = Knowledge::File(path.into());
        self.options.visits = false;
        self
    }

    /// With the formats of tracepoints, as if there were no BTF at all.
    pub(crate) fn by_events(mut self) -> Self {
        self.options.knowledge = Knowledge::Formats;
        self
    }

    pub(crate) fn gpus(mut self, majors: [u32; GPU_MAJORS]) -> Self {
        self.options.gpus = Some(majors);
        self
    }

    /// With probes in this library of a graphics processor's driver, which the program gets as an argument.
    pub(crate) fn driver(mut self, library: PathBuf) -> Self {
        self.options.driver = true;
        self.arguments.push(library.clone().into());
        self.driver = Some(library);
        self
    }

    pub(crate) fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    pub(crate) fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    pub(crate) fn idle_until_lines(mut self, lines: usize) -> Self {
        self.idle_until_lines = lines;
        self
    }
}
