//! Two rows of work side by side, where the machine has room for both: what one row leaves idle, as while a
//! program is linked by one thread, the other takes.
//!
//! Yields [`beside`] and whether this machine has the room.

use std::{fs, panic, thread};

/// What two builds take at once at their worst, with room for a system: two programs are linked.
const MEMORY_KB: u64 = 5 << 20;

/// Whether two rows of work get along on this machine: it has two CPUs, and memory for two builds.
pub(crate) fn room() -> bool {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    has_room(cpus, &fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn has_room(cpus: usize, meminfo: &str) -> bool {
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kb = available.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    cpus > 1 && kb.is_some_and(|kb| kb >= MEMORY_KB)
}

/// Runs both to their ends, at once if there is room, and gives what both yielded. Even if one panics, the
/// other comes to its end.
pub(crate) fn beside<A: Send, B>(
    room: bool,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if !room {
        return (first(), second());
    }
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| panic::resume_unwind(panic)), second)
    })
}

#[cfg(test)]
mod tests {
    use std::{panic, sync::mpsc, thread, time::Duration};

    use rstest::rstest;

    use super::{beside, has_room};

    #[rstest]
    #[case::two_cpus_and_8_gb(2, "MemTotal: 8131000 kB\nMemAvailable:    6800000 kB\n", true)]
    #[case::one_cpu(1, "MemAvailable:   16800000 kB\n", false)]
    #[case::little_memory(2, "MemTotal:  8131000 kB\nMemAvailable:    3100000 kB\n", false)]
    #[case::nobody_knows(8, "", false)]
    fn two_rows_want_two_cpus_and_memory(#[case] cpus: usize, #[case] meminfo: &str, #[case] room: bool) {
        assert_eq!(has_room(cpus, meminfo), room);
    }

    /// Each waits for a word of the other one.
    #[test]
    fn with_room_both_run_at_once() {
        let ((to_second, of_first), (to_first, of_second)) = (mpsc::channel(), mpsc::channel());
        let limit = Duration::from_mins(1);
        let first = move || {
            to_second.send("first").unwrap();
            of_second.recv_timeout(limit)
        };
        let second = move || {
            to_first.send("second").unwrap();
            of_first.recv_timeout(limit)
        };
        assert_eq!(beside(true, first, second), (Ok("second"), Ok("first")));
    }

    #[test]
    fn without_room_they_run_in_their_order_on_one_thread() {
        let here = thread::current().id();
        let ran = std::sync::Mutex::new(Vec::new());
        let run = |name| {
            ran.lock().unwrap().push(name);
            thread::current().id()
        };
        assert_eq!(beside(false, || run("first"), || run("second")), (here, here));
        assert_eq!(*ran.lock().unwrap(), ["first", "second"]);
    }

    #[test]
    fn a_panic_of_one_lets_the_other_end() {
        let mut has_ended = false;
        let both = || beside(true, || panic!("first"), || has_ended = true);
        let caught = panic::catch_unwind(panic::AssertUnwindSafe(both));
        assert!(caught.is_err() && has_ended);
    }
}
