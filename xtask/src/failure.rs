//! An error with a next action: what went wrong, and the hint that is printed under it.
//!
//! Yields [`Failure`], which travels inside `anyhow::Error`, and [`print`], the one place that shows an
//! error. It does not decide the exit status: `main` does.

use std::fmt;

/// What went wrong (`what: value`, lower case, no full stop), and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    hint: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

/// An error that carries a hint.
pub(crate) fn failure(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Failure { what: what.into(), hint: hint.into() }.into()
}

/// The next action, where one was given.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| cause.downcast_ref()).map(|Failure { what: _, hint }| hint.as_str())
}

/// The error as people see it: the chain on one line each, then the hint.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    lines.extend(error.chain().skip(1).map(|cause| format!("  because: {cause}")));
    if let Some(hint) = hint(error) {
        lines.extend([String::new(), format!("hint: {hint}")]);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::{failure, render};

    #[test]
    fn an_error_names_the_value_its_causes_and_the_next_action() {
        let error =
            Err::<(), _>(failure("no C compiler: `cc`", "apt-get install gcc")).context("agent").unwrap_err();
        assert_eq!(
            render(&error),
            "error: agent\n  because: no C compiler: `cc`\n\nhint: apt-get install gcc"
        );
    }
}
