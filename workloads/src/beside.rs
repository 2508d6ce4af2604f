//! Request names of a second job of this program, so that guestscope, which groups requests by name, counts
//! them apart from those of the measured job. Yields names; warm-up keeps its name, which no statistics
//! include.

use std::{borrow::Cow, sync::OnceLock};

/// Environment variable that marks this process as the second job.
pub const MARK: &str = "GUESTSCOPE_WORKLOADS_BESIDE";
/// Prefix of its request names.
const PREFIX: &str = "beside ";
/// Name of the requests that all statistics leave out.
pub const WARMUP: &str = "warmup";

/// The name of such requests in this process.
pub fn name(own: &str) -> Cow<'_, str> {
    static IS_BESIDE: OnceLock<bool> = OnceLock::new();
    named(own, *IS_BESIDE.get_or_init(|| std::env::var_os(MARK).is_some()))
}

fn named(own: &str, is_beside: bool) -> Cow<'_, str> {
    if is_beside && own != WARMUP { Cow::Owned(format!("{PREFIX}{own}")) } else { Cow::Borrowed(own) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::named;

    #[rstest]
    #[case("step", false, "step")]
    #[case("step", true, "beside step")]
    #[case("warmup", true, "warmup")]
    fn requests_of_two_jobs_have_two_names(
        #[case] own: &str,
        #[case] is_beside: bool,
        #[case] expected: &str,
    ) {
        assert_eq!(named(own, is_beside), expected);
    }
}
