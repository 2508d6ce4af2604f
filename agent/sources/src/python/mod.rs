//! Wrappers around functions of Python packages: requests of web servers, steps of training, inferences.
//!
//! A `sitecustomize` in the folder of the marker's module watches imports, and wraps functions by a table
//! (`agent/marker/python/guestscope_sources`). A Python that ignores the environment has none of it.

use std::{ffi::OsString, path::Path};

use super::{Inherited, Kind, Source, Unpacked, Variable, Wishes, marker};

include!(concat!(env!("OUT_DIR"), "/python.rs"));

/// The Python source.
#[derive(Debug)]
pub(super) struct Python {
    marked: String,
    routes: bool,
}

impl Python {
    pub(super) fn new(wishes: &Wishes) -> Self {
        Self { marked: wishes.marked.join(","), routes: wishes.routes }
    }
}

impl Source for Python {
    fn kind(&self) -> Kind {
        Kind::Python
    }

    fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        let file = |(path, bytes): &(&str, &'static [u8])| Unpacked {
            path: format!("{}/{path}", marker::PYTHON).into(),
            bytes: (*bytes).into(),
            is_library: false,
        };
        Ok(FILES.iter().map(file).collect())
    }

    fn environment(&self, _: &Path, _: Inherited<'_>) -> Result<Vec<Variable>, String> {
        let mut variables = vec![("GUESTSCOPE_PYTHON", OsString::from("auto"))];
        if !self.marked.is_empty() {
            variables.push(("GUESTSCOPE_MARK", self.marked.clone().into()));
        }
        if !self.routes {
            variables.push(("GUESTSCOPE_ROUTES", "off".into()));
        }
        Ok(variables)
    }
}
