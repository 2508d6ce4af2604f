//! Programs of the configuration that ended before anybody looked at them.
//!
//! Processes are looked for once a second. The kernel side tells of every program that is executed, so those
//! that are gone by then are counted, as far as the path of the program alone tells that they were meant.

use std::path::PathBuf;

use guestscope_base::wildcard;
use guestscope_kernel::loader::{Loaded, Started};

use super::tables::Program;

/// What was missed so far.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    programs: u64,
    /// Executed programs that the kernel side had no room for: any of them may have been meant.
    untold: u64,
}

impl Unseen {
    /// Counts those that have ended since the last look.
    pub(super) fn look(&mut self, loaded: &mut Loaded, programs: &[Program]) {
        let (started, untold) = loaded.starts();
        let is_gone = |one: &&Started| !PathBuf::from(format!("/proc/{}", one.pid)).exists();
        let is_meant = |one: &&Started| programs.iter().any(|program| is_by_path(program, &one.file));
        self.programs += started.iter().filter(is_meant).filter(is_gone).count() as u64;
        self.untold = untold;
    }

    /// Counts by what they are of, without zeros.
    pub(super) fn counts(&self) -> impl Iterator<Item = (String, u64)> + use<> {
        let counts = [("programs_ended_unseen", self.programs), ("programs_untold", self.untold)];
        counts.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| (what.to_owned(), count))
    }
}

/// Whether the path alone tells that this program is meant.
fn is_by_path(program: &Program, file: &[u8]) -> bool {
    let Program { executable, command, cgroup, container, port, marked } = program;
    let is_alone = command.is_none() && cgroup.is_none() && container.is_none() && port.is_none() && !marked;
    is_alone && executable.as_ref().is_some_and(|pattern| wildcard::matches(pattern, file))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("executable = '/usr/bin/*'", "/usr/bin/true", true)]
    #[case("executable = '*/true'", "/usr/bin/true", true)]
    #[case("executable = '/usr/bin/*'", "/bin/true", false)]
    #[case("executable = '/usr/bin/*'\nport = 80", "/usr/bin/true", false)]
    #[case("executable = '/usr/bin/*'\nmarked = true", "/usr/bin/true", false)]
    #[case("command = '*true*'", "/usr/bin/true", false)]
    fn only_what_the_path_alone_tells_is_counted(#[case] rule: &str, #[case] file: &str, #[case] is: bool) {
        let program: Program = toml::from_str(rule).expect("it is a table");
        assert_eq!(is_by_path(&program, file.as_bytes()), is);
    }
}
