//! The library that NVTX and ITT load as their tool: one for both, so that a program with both meets the
//! agent once.

use std::{ffi::OsString, io, path::Path};

use super::{Inherited, Unpacked, Variable};
use crate::carried;

/// Its soname.
const NAME: &str = "libguestscope-inject.so";

/// The file.
///
/// # Errors
/// The agent's binary is damaged.
pub(super) fn file() -> io::Result<Unpacked> {
    Ok(Unpacked { path: NAME.into(), bytes: carried::injection()?.into(), is_library: true })
}

/// The variable that names an interface's tool.
///
/// # Errors
/// It names another tool; an empty value names none.
pub(super) fn variable(
    name: &'static str,
    folder: &Path,
    inherited: Inherited<'_>,
) -> Result<Variable, String> {
    if inherited(name).is_some_and(|value| !value.is_empty()) {
        return Err(format!("another tool holds the injection ({name} is set)"));
    }
    Ok((name, OsString::from(folder.join(NAME))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::variable;

    #[rstest]
    #[case::free(None, true)]
    #[case::empty(Some(""), true)]
    #[case::held(Some("/opt/nsight/libToolsInjection64.so"), false)]
    fn a_variable_of_another_tool_stays(#[case] theirs: Option<&str>, #[case] is_taken: bool) {
        let inherited = |_: &str| theirs.map(Into::into);
        let taken = variable("NVTX_INJECTION64_PATH", Path::new("/files"), &inherited);
        assert_eq!(taken.is_ok(), is_taken);
        assert!(
            taken.is_err() || taken == Ok(("NVTX_INJECTION64_PATH", "/files/libguestscope-inject.so".into()))
        );
    }
}
