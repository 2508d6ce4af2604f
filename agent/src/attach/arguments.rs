//! What `attach` takes.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args};

use crate::{session::Observation, values::duration};

/// Arguments of `attach`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup", "container"])))]
#[command(after_help = "\
Observes all threads of the target, and all threads and processes that they start from now on, until
the last one ends, until Ctrl-C or SIGTERM, or until --duration has passed. Existing child processes
are not included: name them with --pid too, or use --cgroup. The target keeps running, and nothing
stays behind in it. A phase that is open when the observation starts or stops is cut there. A control
group without processes is waited for.

Examples:
  sudo guestscope attach --pid 4711                          one process
  sudo guestscope attach --pid 4711,4712 --duration 30s      two processes, for 30 seconds
  sudo guestscope attach --cgroup system.slice/web.service   a service and processes that join it
  sudo guestscope attach --container web                     a container

Exit codes: 0 success, 1 nothing observed, 2 failure.")]
pub struct AttachArguments {
    /// Process IDs, as seen in guestscope's own PID namespace; separated by commas.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// All processes of a control group and its descendants: a directory, or a path below the cgroup mount.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// All processes of a container (Docker, podman, containerd, CRI-O, runc, crun): ID, name, or a prefix.
    #[arg(long, value_name = "ID-OR-NAME")]
    pub container: Option<String>,
    /// Stop after this time, for example 30s, 5m or 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Options shared with `run`.
    #[command(flatten)]
    pub observation: Observation,
}
