//! What the agent can give up here, by this kernel and by the rights that it was started with: found by
//! asking, without giving up anything.

use std::ptr;

use super::capabilities::missing_for_probes;

/// `LANDLOCK_CREATE_RULESET_VERSION`: asks for the version, creates nothing.
const VERSION: libc::c_ulong = 1;

/// One layer of the agent's limits on itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// `capabilities`, `seccomp` or `landlock`.
    pub name: &'static str,
    /// Whether it is possible here.
    pub is_there: bool,
    /// What it keeps the agent from, or what follows from its absence.
    pub consequence: String,
}

/// All layers.
pub fn layers() -> Vec<Layer> {
    vec![capabilities(), seccomp(), landlock()]
}

fn capabilities() -> Layer {
    let missing = missing_for_probes().unwrap_or_default();
    let is_there = missing.is_empty();
    let consequence = if is_there {
        "once probes are in place, all are given up but CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE and \
         CAP_DAC_READ_SEARCH"
            .to_owned()
    } else {
        format!("probes need {}, which this process lacks", missing.join(", "))
    };
    Layer { name: "capabilities", is_there, consequence }
}

fn seccomp() -> Layer {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    let flags: libc::c_ulong = 0;
    // SAFETY: the action lives across the call, which reads it.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, flags, &raw const action) };
    let is_there = answer == 0;
    let consequence = if is_there {
        "no thread can start a program, trace, mount, or load further BPF programs"
    } else {
        "this kernel filters no system calls: all that root may call can be called"
    };
    Layer { name: "seccomp", is_there, consequence: consequence.to_owned() }
}

fn landlock() -> Layer {
    let (nothing, bytes): (*const u8, libc::size_t) = (ptr::null(), 0);
    // SAFETY: with this flag the kernel takes no attributes and creates no ruleset.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, bytes, VERSION) };
    let is_there = version > 0;
    let consequence = if is_there {
        format!("threads of `watch` that write change files below its directory alone (version {version})")
    } else {
        "this kernel has none, or it is off: threads of `watch` that write could change any file of root"
            .to_owned()
    };
    Layer { name: "landlock", is_there, consequence }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::privileges::change_only_below;

    /// As the kernel itself tells it elsewhere, or as it is when it is tried.
    #[test]
    fn each_layer_is_there_if_it_can_be_put_on() {
        let [capabilities, seccomp, landlock] = layers().try_into().expect("three layers");
        let status = fs::read_to_string("/proc/thread-self/status").expect("the kernel tells");
        let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t"));
        let permitted = u64::from_str_radix(permitted.expect("its capabilities"), 16).expect("a number");
        let needed = [2, 19, 21, 38, 39].iter().all(|capability| permitted >> capability & 1 == 1);
        assert_eq!(capabilities.is_there, needed, "{capabilities:?}");
        let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
        assert_eq!(seccomp.is_there, actions.split_whitespace().any(|action| action == "errno"));
        // A thread of its own: what it gives up it never gets back.
        let tried = std::thread::spawn(|| change_only_below(Path::new("/")).expect("the kernel answers"));
        assert_eq!(landlock.is_there, tried.join().expect("it does not panic"), "{landlock:?}");
    }
}
