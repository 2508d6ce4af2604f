//! The verb `build`: the agent and the workloads, or the workloads for a GPU.
//!
//! Yields where they are. It runs nothing of them.

use std::path::PathBuf;

use anyhow::Result;

use crate::{Xtask, artifact, libtorch::Libtorch, pytorch::Pytorch, toolchain::Toolchain};

/// What the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    /// The agent, and the workloads with the pinned libtorch, for the CPU.
    Cpu,
    /// The workloads alone, against the PyTorch of this Python; none: of the one on PATH.
    Cuda { python: Option<PathBuf> },
}

/// The verb. What it cannot build is an error.
pub(crate) fn verb(xtask: &Xtask, options: Options) -> Result<bool> {
    match options {
        Options::Cpu => {
            let toolchain = Toolchain::ensure(xtask)?;
            let libtorch = Libtorch::ensure(xtask)?;
            let agent = artifact::agent(xtask, &toolchain)?;
            let workloads = artifact::workloads(xtask, Some(&libtorch))?;
            xtask.progress.say("");
            xtask.progress.present("agent", agent.display());
            xtask.progress.present("workloads", workloads.display());
        }
        Options::Cuda { python } => {
            let pytorch = Pytorch::find(python)?;
            xtask.progress.present("libtorch", pytorch.text());
            let workloads = artifact::cuda_workloads(xtask, &pytorch)?;
            xtask.progress.say("");
            xtask.progress.present("workloads", workloads.display());
            let words = "infer ic --device cuda --smoke";
            xtask.progress.say(&format!("\nnext  {} {words}", workloads.display()));
        }
    }
    Ok(true)
}
