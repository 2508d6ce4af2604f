//! What `ranks` takes.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::values::duration;

/// Arguments of `ranks`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
All processes of a distributed training (its ranks) call the same collectives in the same order, and
wait for the one that comes last. Observe every process, with one folder for each guest or process,
or with one folder for several; this command puts the folders together. Collectives are phases named
all_reduce, all_gather, reduce_scatter, broadcast and reduce: `--phase nccl` makes them of calls of
NCCL, `--phase all_reduce=LIB:SYMBOL` of those of another library. Steps are the other requests of
the same processes; marked steps tell why a rank is late.

A rank is named if it came last to three quarters of at least 20 calls, and the next one came 2 % of
the time between two calls and 50 us earlier, in the median. A call asks for a collective: what the
device did then is not known from it. Folders of one boot share a clock; wall clocks of guests can
differ, and a rank that is late by less than --clocks is not named.

Examples:
  sudo guestscope run --phase nccl -- torchrun --nproc-per-node 4 train.py
                                                     observe all processes of a guest
  guestscope ranks runs/FOLDER                       several processes in one folder
  guestscope ranks guest-1/FOLDER guest-2/FOLDER     one folder for each guest
  guestscope ranks guest-*/FOLDER --clocks 200us     guests whose clocks PTP keeps together
  guestscope ranks runs/FOLDER --json | jq .straggler

Exit codes: 0 success, whether a rank is named or not, 2 failure.")]
pub struct RanksArguments {
    /// Run folders of one training, or directories of such folders.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// How far the wall clocks of two guests can be apart.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
    pub clocks: Duration,
    /// Print JSON, with all ranks.
    #[arg(long)]
    pub json: bool,
}
