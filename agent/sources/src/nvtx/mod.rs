//! NVTX ranges, which CUDA programs and NVIDIA's libraries contain. At its first call each copy of NVTX in a
//! program loads the library that a variable names (`agent/marker/inject`).

use std::path::Path;

use super::{Inherited, Kind, Source, Unpacked, Variable, injection};

/// The NVTX source.
#[derive(Debug)]
pub(super) struct Nvtx;

impl Source for Nvtx {
    fn kind(&self) -> Kind {
        Kind::Nvtx
    }

    fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        Ok(vec![injection::file()?])
    }

    fn environment(&self, folder: &Path, inherited: Inherited<'_>) -> Result<Vec<Variable>, String> {
        Ok(vec![injection::variable("NVTX_INJECTION64_PATH", folder, inherited)?])
    }
}
