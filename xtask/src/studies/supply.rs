//! Making of the files that rows read, by the workloads.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{data::Data, plan};
use crate::{cache::remove_folder, command};

impl Data {
    /// Makes what the row reads, if it is missing.
    pub(super) fn ensure(&mut self, workloads: &Path, name: &str, full: bool) -> Result<()> {
        if name == plan::PARSE && !self.has_flights {
            let generate = plan::of(plan::GENERATE, full, None, self).words;
            command::output(Command::new(workloads).args(generate)).context("could not make flights")?;
            self.has_flights = true;
        }
        let wanted = plan::pictures(name, full);
        if wanted > self.pictures {
            remove_folder(&self.shards)?;
            let mut command = Command::new(workloads);
            command.arg("shards").arg("--output").arg(&self.shards);
            command::output(command.args(["--generate", &wanted.to_string()]))
                .context("could not make pictures")?;
            self.pictures = wanted;
        }
        Ok(())
    }
}
