//! The marker library and its Python module, for programs that mark their phases themselves. Every other
//! source inside a program calls this library.

use std::path::Path;

use super::{Inherited, Kind, Source, Unpacked, Variable};

/// The shared library, for programs that do not link it.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"));
/// The Python module.
static MODULE: &[u8] = include_bytes!("../../../marker/python/guestscope.py");
/// The soname: programs linked against it find it by LD_LIBRARY_PATH too.
const SONAME: &str = "libguestscope.so.1";
/// Folder on PYTHONPATH. All may list it, because Python lists such folders.
pub(super) const PYTHON: &str = "python";

/// The marker source.
#[derive(Debug)]
pub(super) struct Marker;

impl Source for Marker {
    fn kind(&self) -> Kind {
        Kind::Marker
    }

    fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        let library = Unpacked { path: SONAME.into(), bytes: LIBRARY.into(), is_library: true };
        let module = format!("{PYTHON}/guestscope.py");
        Ok(vec![library, Unpacked { path: module.into(), bytes: MODULE.into(), is_library: false }])
    }

    fn environment(&self, folder: &Path, inherited: Inherited<'_>) -> Result<Vec<Variable>, String> {
        let mut python = folder.join(PYTHON).into_os_string();
        if let Some(path) = inherited("PYTHONPATH").filter(|path| !path.is_empty()) {
            python.push(":");
            python.push(path);
        }
        Ok(vec![("GUESTSCOPE_LIBRARY", folder.join(SONAME).into()), ("PYTHONPATH", python)])
    }
}
