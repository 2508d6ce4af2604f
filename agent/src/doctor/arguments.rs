//! What `doctor` takes.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit codes: 0 all accounts can be measured, 1 only some or none.")]
pub struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// BTF file for this kernel, if built without CONFIG_DEBUG_INFO_BTF.
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
}
