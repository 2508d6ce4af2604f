//! The programs of the studies, as a library for the binary and its tests: seeded data, models, the loop that
//! runs requests and marks their phases. Yields latencies, hashes of work and outputs. It does not observe
//! the kernel: `guestscope run` does so from outside.

pub mod beside;
pub mod catalog;
pub mod child;
pub mod cli;
pub mod cuda;
pub mod data;
pub mod digest;
pub mod error;
pub mod h2o;
pub mod infer;
#[cfg(feature = "torch")]
pub mod libtorch;
pub mod load;
pub mod memory;
pub mod numbers;
pub mod output;
pub mod pin;
pub mod platform;
pub mod progress;
pub mod report;
pub mod stall;
pub mod started;
pub mod steps;
pub mod suggest;
pub mod train;
