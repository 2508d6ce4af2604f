//! What a second job of this program calls its requests, so that guestscope, which tells requests apart by name, counts them
//! apart from those of the job that is measured. Yields names; warm-up stays warm-up, which no statistics have.

use std::{borrow::Cow, sync::OnceLock};

/// Says that this process is such a job, in the environment.
pub const MARK: &str = "GUESTSCOPE_WORKLOADS_BESIDE";
/// In front of a request's own name.
const PREFIX: &str = "beside ";
/// Name of the requests that all statistics leave out.
pub const WARMUP: &str = "warmup";

/// What this process calls requests of that name.
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
