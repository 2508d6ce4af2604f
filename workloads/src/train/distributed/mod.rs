//! Training by several processes: one parameter server and its workers, over gRPC, each wherever its address is. Yields a
//! report of each. A worker's step is a request with the phases `pull`, `data`, `forward`, `backward` and `push`; what the
//! server does for it, requests `pull` and `push` of the server, is in the trace of that step.
//!
//! `parameters` is the arithmetic and knows no network, `messages`, `service` and `sending` what is said, `members` who takes part, `turns`
//! who keeps the others waiting, `server` and `worker` the two roles, `attendance` how each notices that the other is gone,
//! `launch` all on one machine, and `pace` a bar for that.

#[cfg(feature = "torch")]
pub mod attendance;
#[cfg(feature = "torch")]
pub mod client;
pub mod error;
pub mod launch;
#[cfg(feature = "torch")]
pub mod members;
#[cfg(feature = "torch")]
pub mod messages;
pub mod options;
pub mod pace;
pub mod parameters;
pub mod report;
#[cfg(feature = "torch")]
pub mod sending;
#[cfg(feature = "torch")]
pub mod server;
#[cfg(feature = "torch")]
pub mod service;
pub mod trace;
pub mod turns;
#[cfg(feature = "torch")]
pub mod worker;

use std::time::Duration;

use super::{Settings, report::Report};
use crate::error::Error;

/// The phases of a worker's step, in order. The optimizer is the server's.
pub const PHASES: &[&str] = &["pull", "data", "forward", "backward", "push"];
/// As `PHASES`, where the network lives on a device.
pub const DEVICE_PHASES: &[&str] = &["pull", "data", "h2d", "forward", "backward", "push"];

/// What the parameter server is told beside the model and its seed.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens, like `0.0.0.0:7070`.
    pub listen: String,
    /// How many workers there will be.
    pub workers: u32,
    /// Whether each gradient is applied as it comes, instead of the mean of all workers'.
    pub asynchronous: bool,
    /// A peer that has not come, or has said nothing, for so long is gone.
    pub limit: Duration,
    /// A worker that has had parameters, and pushed no gradient, for so long is late.
    pub worker_limit: Duration,
}

/// What a worker is told beside its part of the work.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Where the server listens, like `10.0.0.1:7070`.
    pub server: String,
    /// Which one it is, from 0.
    pub rank: u32,
    /// A server that cannot be reached, or has said nothing, for so long is gone.
    pub limit: Duration,
}

/// Serves parameters until all workers have left.
#[cfg(feature = "torch")]
pub fn serve(settings: &Settings, server: &Server) -> Result<report::Served, Error> {
    server::run(settings, server)
}

/// Serves parameters until all workers have left.
#[cfg(not(feature = "torch"))]
pub fn serve(_: &Settings, _: &Server) -> Result<report::Served, Error> {
    Err(Error::NoTorch { workload: "train --role ps" })
}

/// Trains with a parameter server.
#[cfg(feature = "torch")]
pub fn work(settings: &Settings, worker: &Worker) -> Result<Report, Error> {
    worker::run(settings, worker)
}

/// Trains with a parameter server.
#[cfg(not(feature = "torch"))]
pub fn work(_: &Settings, _: &Worker) -> Result<Report, Error> {
    Err(Error::NoTorch { workload: "train --role worker" })
}
