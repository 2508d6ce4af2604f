//! CUPTI's numbers in words.

use guestscope_cupti::Step;

/// Which way a copy went, by CUPTI's `CUpti_ActivityMemcpyKind`.
pub(super) const fn way(kind: u8) -> &'static str {
    match kind {
        1 | 3 => "host to device",
        2 | 4 => "device to host",
        5..=8 => "device to device",
        9 => "host to host",
        10 => "device to another device",
        _ => "memory",
    }
}

/// A failed step: what is missing, and why.
pub(super) fn failure(step: Step, result: u32) -> String {
    let what = match step {
        Step::Find => "no CUPTI was found",
        Step::Subscribe | Step::Register => "CUPTI cannot be used",
        Step::Kernels => "CUPTI records no kernels",
        Step::Calls => "CUPTI records no calls: work is charged to no phase",
        Step::Copies => "CUPTI records no copies",
        Step::Graphs => "CUPTI records no CUDA graphs as such",
        Step::Flush => "CUPTI hands over no records",
    };
    match (step, result) {
        (Step::Find, _) => {
            format!("{what}: name libcupti.so by GUESTSCOPE_CUPTI, or by LD_LIBRARY_PATH")
        }
        (_, 0) => format!("{what}: there is no memory"),
        (_, result) => reason(result).map_or_else(
            || format!("{what}: its error {result}"),
            |reason| format!("{what}: {reason} (its error {result})"),
        ),
    }
}

/// The reason, by CUPTI's `CUptiResult` (its documentation, 13.0).
const fn reason(result: u32) -> Option<&'static str> {
    Some(match result {
        12 | 39 => "another profiler uses it in this program",
        14 => "it does not fit this driver",
        15 => "it could not be initialised",
        27 => "it does not support this device",
        31 => "not under MPS",
        33 | 40 => "not on this virtual GPU: its host must permit profiling",
        35 => {
            "the driver permits it to root alone: NVreg_RestrictProfilingToAdminUsers=0 permits it to all users"
        }
        36 | 38 => "an older profiler uses the device",
        41 => "not in confidential mode",
        42 => "not on a mining card",
        43 => "not on a MIG device",
        45 => "not under WSL",
        999 => "this version is too old, or it failed inside",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_what_is_missing_and_why() {
        for (step, result, text) in [
            (
                Step::Find,
                0,
                "no CUPTI was found: name libcupti.so by GUESTSCOPE_CUPTI, or by LD_LIBRARY_PATH",
            ),
            (
                Step::Subscribe,
                39,
                "CUPTI cannot be used: another profiler uses it in this program (its error 39)",
            ),
            (Step::Kernels, 43, "CUPTI records no kernels: not on a MIG device (its error 43)"),
            (Step::Flush, 7, "CUPTI hands over no records: its error 7"),
            (Step::Register, 0, "CUPTI cannot be used: there is no memory"),
        ] {
            assert_eq!(failure(step, result), text);
        }
    }
}
