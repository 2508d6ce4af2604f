//! ITT tasks and frames, which oneDNN, PyTorch and Intel's libraries contain. At its first call each of them
//! loads the library that a variable names (`agent/marker/inject`). Kinds of tasks that take less than 20 us
//! are left out there, unless `itt:all` is asked for.

use std::path::Path;

use super::{Inherited, Kind, Source, Unpacked, Variable, Wishes, injection};

/// The ITT source.
#[derive(Debug)]
pub(super) struct Itt {
    shows_all: bool,
}

impl Itt {
    pub(super) fn new(wishes: &Wishes) -> Self {
        let own = wishes.sources.iter().flatten().find(|wish| wish.kind == Kind::Itt);
        Self { shows_all: own.and_then(|wish| wish.detail.as_deref()) == Some("all") }
    }
}

impl Source for Itt {
    fn kind(&self) -> Kind {
        Kind::Itt
    }

    fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        Ok(vec![injection::file()?])
    }

    fn environment(&self, folder: &Path, inherited: Inherited<'_>) -> Result<Vec<Variable>, String> {
        let mut variables = vec![injection::variable("INTEL_LIBITTNOTIFY64", folder, inherited)?];
        if self.shows_all {
            variables.push(("GUESTSCOPE_ITT", "all".into()));
        }
        Ok(variables)
    }
}
