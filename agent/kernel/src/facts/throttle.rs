//! Which throttle clock this kernel has.
//!
//! Yields a [`ThrottleMode`] from BTF: all members of a variant or none, since a missing member would be read
//! at offset 0.

use guestscope_contract::ThrottleMode;

use super::btf::Btf;

/// Members that every form needs.
const COMMON: [&str; 5] = [
    "task_struct.se.cfs_rq",
    "task_struct.sched_task_group",
    "task_group.cfs_rq",
    "cfs_rq.throttle_count",
    "cfs_rq.rq",
];

/// Members of each form beside those, the best form first: as in `ebpf/contract/src/fields.rs`, where the
/// first path that exists is taken, so that a kernel with several forms gets all members of the first.
const FORMS: [(ThrottleMode, &[&str]); 3] = [
    (ThrottleMode::Own, &["cfs_rq.throttled_clock_self", "cfs_rq.throttled_clock_self_time", "rq.clock"]),
    (
        ThrottleMode::Pelt,
        &[
            "cfs_rq.throttled_clock_pelt",
            "cfs_rq.throttled_clock_pelt_time",
            "rq.clock_pelt",
            "rq.lost_idle_time",
        ],
    ),
    (
        ThrottleMode::Task,
        &["cfs_rq.throttled_clock_task", "cfs_rq.throttled_clock_task_time", "rq.clock_task"],
    ),
];

/// The form of this kernel.
pub fn mode(btf: &Btf) -> ThrottleMode {
    mode_by(|path| btf.offset(path).is_some())
}

fn mode_by(has: impl Fn(&str) -> bool) -> ThrottleMode {
    let has_all = |paths: &[&str]| paths.iter().all(|path| has(path));
    // A kernel that has the first member of a form takes that form, or none.
    let form = FORMS.iter().find(|(_, paths)| has(paths[0]));
    match form {
        Some((mode, paths)) if has_all(paths) && has_all(&COMMON) => *mode,
        _ => ThrottleMode::Absent,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NEWEST: usize = 0;
    const MIDDLE: usize = 1;
    const OLDEST: usize = 2;

    #[rstest]
    #[case::of_6_18_which_has_two_forms(&[NEWEST, MIDDLE], ThrottleMode::Own)]
    #[case::of_6_1(&[MIDDLE], ThrottleMode::Pelt)]
    #[case::of_5_10(&[OLDEST], ThrottleMode::Task)]
    #[case::without_quotas(&[], ThrottleMode::Absent)]
    fn a_kernel_has_the_clock_of_its_age(#[case] forms: &[usize], #[case] mode: ThrottleMode) {
        let mut members: Vec<&str> = COMMON.to_vec();
        members.extend(forms.iter().flat_map(|&form| FORMS[form].1));
        assert_eq!(mode_by(|path| members.contains(&path)), mode);
        for gone in members.iter().filter(|gone| COMMON.contains(gone)) {
            let others = |path: &str| path != *gone && members.contains(&path);
            assert_eq!(mode_by(others), ThrottleMode::Absent, "without {gone}");
        }
    }
}
