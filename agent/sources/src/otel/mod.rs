//! Spans of the program's own OpenTelemetry. In Python the wrappers add a span processor to each tracer
//! provider that the program sets; a Rust program uses the marker crate's `tracing` layer, and needs no files
//! beside it.

use std::path::Path;

use super::{Inherited, Kind, Source, Unpacked, Variable};

/// The OpenTelemetry source.
#[derive(Debug)]
pub(super) struct Otel;

impl Source for Otel {
    fn kind(&self) -> Kind {
        Kind::Otel
    }

    fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        Ok(Vec::new())
    }

    fn environment(&self, _: &Path, _: Inherited<'_>) -> Result<Vec<Variable>, String> {
        Ok(vec![("GUESTSCOPE_OTEL", "auto".into())])
    }
}
