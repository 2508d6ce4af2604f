//! Every way in which a stall can fail, with the message for people and the hint at what to do next.

use std::{io, path::PathBuf};

use crate::cuda::CudaError;

#[derive(Debug, thiserror::Error)]
pub enum StallError {
    #[error("the size of `{kind}` is {expected}: {given}")]
    Unit { kind: &'static str, expected: &'static str, given: String },
    #[error("a request's work is {expected}: {given}")]
    Work { expected: String, given: String },
    #[error("the size of `{kind}` goes from {least} to {most}: {given}")]
    OutOfRange { kind: &'static str, least: String, most: String, given: String },
    #[error("a kind can hit a request only once: {kind}")]
    Twice { kind: &'static str },
    #[error("`{kind}` needs two CPUs, and this process may use: {found}")]
    Cpus { kind: &'static str, found: usize },
    #[error("`{kind}` may not have a thread of real-time priority ({source})")]
    RealTime { kind: &'static str, source: io::Error },
    #[error("no cpu controller is mounted: cgroup v1 or v2")]
    NoCpuController,
    #[error("cannot {action} cgroup: {path} ({source})")]
    Group { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the kernel did not throttle the group within 10 s: {path}")]
    NeverThrottled { path: PathBuf },
    #[error("cannot {action} file: {path} ({source})")]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{kind}` needs a file on a disk, and this folder is in memory: {folder}")]
    NotADisk { kind: &'static str, folder: PathBuf },
    #[error("cannot write log: {path} ({source})")]
    Log { path: PathBuf, source: io::Error },
    #[error("cannot start thread: {name} ({source})")]
    Thread { name: &'static str, source: io::Error },
    #[error("a thread of the stall ended too early: {name}")]
    PartnerGone { name: String },
    #[error("system call failed: {name} ({source})")]
    Call { name: &'static str, source: io::Error },
    #[error("nobody stops this machine: GUESTSCOPE_STOPPER is not set")]
    NoStopper,
    #[error("cannot have a network namespace ({source})")]
    NetworkNamespace { source: io::Error },
    #[error("cannot run {tool} ({source})")]
    NoTool { tool: &'static str, source: io::Error },
    #[error("{tool} failed: {said}")]
    Tool { tool: &'static str, said: String },
    #[error("the link was too fast: {ns} ns instead of {asked_ns}")]
    NotShaped { ns: u64, asked_ns: u64 },
    #[error("this program has no libgomp to wait in")]
    NoOpenmp,
    #[error("libgomp's threads sleep instead of waiting busily: OMP_WAIT_POLICY is not active")]
    WaitPolicy,
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("the other process on the GPU ended too early: {said}")]
    GpuNeighbour { said: String },
    #[error("stopped by a signal after so many requests: {requests}")]
    Interrupted { requests: u64 },
}

impl StallError {
    /// Converts an error of the system call `name`, for `map_err`.
    pub fn call<E: Into<io::Error>>(name: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Call { name, source: source.into() }
    }

    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unit { .. } | Self::Work { .. } | Self::OutOfRange { .. } => {
                "`guestscope-workloads list` shows the unit of each kind; times look like 20ms, 1.5s, 300us"
            }
            Self::Twice { .. } => "make its --size larger, or leave the second one out",
            Self::Cpus { .. } => {
                "give this process another CPU (taskset, cpuset, --cpus), or choose another kind"
            }
            Self::RealTime { .. } => {
                "run as root or with CAP_SYS_NICE, in a group whose cpu.rt_runtime_us is not 0 where that file exists"
            }
            Self::NoCpuController => "mount the cpu controller, or choose another kind",
            Self::Group { .. } => {
                "run as root where cgroups can be written, in a group that has no CPU quota yet"
            }
            Self::NeverThrottled { .. } => "the kernel needs CONFIG_CFS_BANDWIDTH",
            Self::File { .. } | Self::NotADisk { .. } => "name a folder on a disk with --folder",
            Self::Log { .. } => "name a file that can be written with --log",
            Self::Thread { .. } | Self::PartnerGone { .. } | Self::Call { .. } => {
                "see whether threads and memory are limited here: ulimit -a, pids.max, memory.max"
            }
            Self::NoStopper => "run it in the guest `stopped` of `cargo xtask vm`, or choose another kind",
            Self::NetworkNamespace { .. } => "run as root or with CAP_SYS_ADMIN, or choose `slow-peer`",
            Self::NoTool { .. } => "install iproute2, which has `ip` and `tc`, or choose `slow-peer`",
            Self::Tool { .. } | Self::NotShaped { .. } => {
                "the kernel needs CONFIG_VETH and CONFIG_NET_SCH_TBF; without them choose `slow-peer`"
            }
            Self::NoOpenmp => "use the build with libtorch, which brings one, or the kind `spin`",
            Self::WaitPolicy => "set OMP_WAIT_POLICY=active",
            Self::Cuda(error) => error.hint(),
            Self::GpuNeighbour { .. } => {
                "see by `nvidia-smi` whether the GPU lets two processes in: its compute mode"
            }
            Self::Interrupted { .. } => "what was injected until then stands in the log",
        }
    }
}
