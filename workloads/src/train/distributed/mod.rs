//! Training by several processes: one parameter server and its workers, over gRPC, on any machines. Yields a
//! report of each. A worker's step is a request with the phases `pull`, `data`, `forward`, `backward` and
//! `push`; the server's requests `pull` and `push` for it are in the trace of that step.
//!
//! `parameters` is the arithmetic and knows no network, `messages`, `service` and `sending` are the protocol,
//! `members` tracks who takes part, `turns` who keeps the others waiting, `server` and `worker` are the
//! roles, `attendance` notices a lost peer, `launch` starts all on one machine, `pace` draws its bar.

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

/// Phases of a worker's step, in order. The server runs the optimizer.
pub const PHASES: &[&str] = &["pull", "data", "forward", "backward", "push"];
/// Phases of a worker's step if the network lives on a device.
pub const DEVICE_PHASES: &[&str] = &["pull", "data", "h2d", "forward", "backward", "push"];

/// Settings of the parameter server beside the model and its seed.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen on, like `0.0.0.0:7070`.
    pub listen: String,
    /// Number of workers.
    pub workers: u32,
    /// Whether each gradient is applied as it comes, instead of the mean of all workers' gradients.
    pub asynchronous: bool,
    /// Time after which a peer that has not come, or has said nothing, is gone.
    pub limit: Duration,
    /// Time after which a worker that has parameters and has pushed no gradient is late.
    pub worker_limit: Duration,
}

/// Settings of a worker beside its part of the work.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Address of the server, like `10.0.0.1:7070`.
    pub server: String,
    /// Rank of this worker, from 0.
    pub rank: u32,
    /// Time after which a server that cannot be reached, or has said nothing, is gone.
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
