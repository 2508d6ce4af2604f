//! Each kind of stall does what it says: the kernel's own accounts, read here and not by the injector, agree
//! with it. Only lower bounds, which hold on a machine that is as busy as it likes.

use std::{
    ffi::CStr,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::fd::{FromRawFd as _, OwnedFd},
    path::PathBuf,
    sync::Mutex,
};

use guestscope_workloads::stall::{
    Fault, Injected, Peer, Setup, Wait,
    error::StallError,
    find,
    machine::{
        clock::{Faults, monotonic_ns, thread_cpu_ns},
        cpus,
        hierarchy::Hierarchy,
        work::{Amount, Work},
    },
};
use nix::sys::resource::{UsageWho, getrusage};
use rstest::rstest;

const MS: u64 = 1_000_000;

fn setup() -> Setup {
    let cpus = cpus::allowed().expect("the call cannot fail");
    Setup {
        cpu: *cpus.last().expect("this runs on one"),
        cpus,
        seed: 1,
        work: Work::new(Amount::Rounds(100_000)),
        largest: 64,
        folder: PathBuf::from("/var/tmp"),
        wait: Wait::Spin,
        peer: Peer::Socket,
    }
}

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(kind: &str, reason: &str) {
    println!("skipped: stall.{kind}: {reason}");
}

/// The fault, ready, on this thread; none if this machine does not allow it.
fn ready(name: &'static str, setup: &Setup) -> Option<Box<dyn Fault>> {
    let kind = find(name).expect("tests name kinds that exist");
    let mut fault = match (kind.make)(setup) {
        Ok(fault) => fault,
        Err(
            error @ (StallError::Cpus { .. }
            | StallError::RealTime { .. }
            | StallError::NoCpuController
            | StallError::Group { .. }
            | StallError::File { .. }
            | StallError::NotADisk { .. }
            | StallError::NetworkNamespace { .. }
            | StallError::NoTool { .. }
            | StallError::Tool { .. }),
        ) => {
            skipped(name, &error.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    if kind.bound {
        cpus::bind(0, setup.cpu).expect("it is one of those allowed");
    }
    fault.begin().expect("it was made for this thread");
    Some(fault)
}

fn inject(fault: &mut dyn Fault, size: u64) -> Injected {
    fault.arm(size).expect("it works once it is ready");
    fault.inject(size).expect("it works once it is ready")
}

/// How long this thread waited for a CPU, from its schedstat.
fn run_delay_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("kernels with BTF have it");
    let delay = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    delay.expect("the second of three numbers")
}

/// How often this thread gave its CPU up by itself, and how often it was made to.
fn switches() -> (u64, u64) {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("the call cannot fail");
    (usage.voluntary_context_switches() as u64, usage.involuntary_context_switches() as u64)
}

#[rstest]
#[case::sleep("sleep", Peer::Socket, Wait::Spin)]
#[case::lock("lock", Peer::Socket, Wait::Spin)]
#[case::socket("slow-peer", Peer::Socket, Wait::Spin)]
#[case::pipe("slow-peer", Peer::Pipe, Wait::Spin)]
#[case::helper("helper-late", Peer::Socket, Wait::Sleep)]
fn the_request_sleeps_for_at_least_the_size(
    #[case] name: &'static str,
    #[case] peer: Peer,
    #[case] wait: Wait,
) {
    let Some(mut fault) = ready(name, &Setup { peer, wait, ..setup() }) else { return };
    let mut slept = false;
    for size in [2, 5, 10].into_iter().cycle().take(12).map(|size| size * MS) {
        fault.spare().unwrap();
        fault.arm(size).unwrap();
        let (start_ns, (voluntary, _)) = (monotonic_ns(), switches());
        let Injected { ns, count } = fault.inject(size).unwrap();
        let passed_ns = monotonic_ns() - start_ns;
        assert!(size <= ns && ns <= passed_ns, "{size} {ns} {passed_ns}");
        assert_eq!(count, None);
        // A busy machine may keep this thread from its CPU until what it would have waited for is over.
        slept |= switches().0 > voluntary;
    }
    assert!(slept, "it never left its CPU by itself");
}

#[rstest]
#[case::partner("spin")]
#[case::helper("helper-late")]
fn the_request_waits_for_at_least_the_size(#[case] name: &'static str) {
    let Some(mut fault) = ready(name, &setup()) else { return };
    for size in [2 * MS, 10 * MS] {
        fault.spare().unwrap();
        let start_ns = monotonic_ns();
        let Injected { ns, count } = inject(&mut *fault, size);
        assert!(size <= ns && ns <= monotonic_ns() - start_ns);
        assert_eq!(count, None);
    }
}

#[test]
fn a_neighbour_keeps_the_request_in_the_run_queue() {
    let Some(mut fault) = ready("spin-neighbour", &setup()) else { return };
    for size in [2 * MS, 10 * MS] {
        let (delay_ns, (_, forced)) = (run_delay_ns(), switches());
        let Injected { ns, .. } = inject(&mut *fault, size);
        let waited_ns = run_delay_ns() - delay_ns;
        assert!(ns >= size);
        // The neighbour's CPU time and the queue's clock are two clocks of the kernel: 5 % are for that.
        assert!(waited_ns >= ns / 20 * 19, "{waited_ns} {ns}");
        assert!(switches().1 > forced, "it was preempted");
    }
}

#[test]
fn a_neighbour_follows_the_request() {
    let setup = setup();
    let Some(mut fault) = ready("spin-neighbour", &setup) else { return };
    for cpu in &setup.cpus {
        cpus::bind(0, *cpu).unwrap();
        let delay_ns = run_delay_ns();
        inject(&mut *fault, 5 * MS);
        assert!(run_delay_ns() - delay_ns >= 4 * MS, "on CPU {cpu}");
    }
}

/// On cgroup v2 a group takes the whole process in, so there is one at a time.
static ONE_GROUP: Mutex<()> = Mutex::new(());

#[test]
fn the_kernel_throttles_and_the_group_goes_away() {
    let _alone = ONE_GROUP.lock();
    let Some(mut fault) = ready("quota", &setup()) else { return };
    let own = format!("guestscope-stall-{}-", std::process::id());
    let hierarchy = Hierarchy::find().unwrap();
    let groups = || -> Vec<String> {
        let parents = [&hierarchy.home, &hierarchy.mount].map(|parent| fs::read_dir(parent).unwrap());
        let names = parents.into_iter().flatten().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(&own)).collect()
    };
    assert!(!groups().is_empty());
    for size in [5 * MS, 20 * MS] {
        let start_ns = monotonic_ns();
        let Injected { ns, count } = inject(&mut *fault, size);
        assert!(ns > size / 2 && ns <= monotonic_ns() - start_ns, "{ns} of {size}");
        assert!(count >= Some(1), "{count:?}");
    }
    drop(fault);
    assert!(groups().is_empty(), "{:?}", groups());
}

/// A folder like that of a killed process; no process has its number any more.
#[test]
fn groups_of_dead_processes_are_swept_away() {
    let _alone = ONE_GROUP.lock();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let left = Hierarchy::find().map(|found| found.home.join(format!("guestscope-stall-{dead}-0")));
    let left = match left.map(|left| fs::create_dir(&left).map(|()| left)) {
        Ok(Ok(left)) => left,
        Ok(Err(error)) => return skipped("quota", &error.to_string()),
        Err(error) => return skipped("quota", &error.to_string()),
    };
    let fault = ready("quota", &setup());
    // On v2 groups are made at the root, and this one lay where the process is.
    let swept = !left.exists();
    let _ = fs::remove_dir(&left);
    let v1 = Hierarchy::find().is_ok_and(|found| found.home.join("tasks").exists());
    assert!(fault.is_none() || swept || !v1);
}

#[test]
fn the_request_moves_exactly_so_often() {
    let Some(mut fault) = ready("bounce", &setup()) else { return };
    // Not every kernel shows it.
    let migrations = || -> Option<u64> {
        let text = fs::read_to_string("/proc/thread-self/sched").ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("se.nr_migrations")?.split(':').nth(1)?.trim().parse().ok())
    };
    for size in [1, 2, 7, 50] {
        let (before, cpu) = (migrations(), cpus::current().unwrap());
        let Injected { count, .. } = inject(&mut *fault, size);
        assert_eq!(count, Some(size));
        assert_eq!(migrations().zip(before).map_or(size, |(after, before)| after - before), size);
        if size == 1 {
            assert_ne!(cpus::current().unwrap(), cpu);
        }
    }
}

#[test]
fn each_page_is_a_minor_fault() {
    let mut fault = ready("touch", &setup()).unwrap();
    for size in [1, 100, 3000] {
        let (faults, cpu_ns) = (Faults::now().minor, thread_cpu_ns());
        let Injected { ns, count } = inject(&mut *fault, size);
        assert!(count >= Some(size), "{count:?}");
        assert!(Some(Faults::now().minor - faults) >= count);
        assert!(thread_cpu_ns() - cpu_ns >= ns);
    }
}

#[test]
fn each_page_is_a_major_fault() {
    let Some(mut fault) = ready("fault", &setup()) else { return };
    for size in [1, 16, 64] {
        let faults = Faults::now().major;
        let Injected { count, .. } = inject(&mut *fault, size);
        // A machine short of memory may not forget every page at once, nor keep each until it is touched.
        assert!(count > Some(size / 2), "{count:?} of {size}");
        assert!(Some(Faults::now().major - faults) >= count);
    }
}

#[test]
fn reads_come_from_the_disk() {
    let Some(mut fault) = ready("disk", &setup()) else { return };
    let read_bytes = || -> Option<u64> {
        let text = fs::read_to_string("/proc/thread-self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    };
    for size in [MS, 5 * MS] {
        let before = read_bytes();
        let Injected { ns, count } = inject(&mut *fault, size);
        assert!(ns >= size);
        // One of them at least is large where there is time for it.
        let large = if size > 4 * MS { (1 << 20) - (16 << 10) } else { 0 };
        let least = count.unwrap() * (16 << 10) + large;
        assert!(least > 0 && read_bytes().zip(before).is_none_or(|(after, before)| after - before >= least));
    }
}

#[test]
fn bytes_take_their_time_on_a_slow_link_that_nobody_else_sees() {
    let Some(mut fault) = ready("shaped-net", &setup()) else { return };
    let mut slept = false;
    for size in [5 * MS, 20 * MS, 5 * MS] {
        let (start_ns, (voluntary, _)) = (monotonic_ns(), switches());
        let Injected { ns, count } = inject(&mut *fault, size);
        // The bucket may hold a frame or two more than what it takes at once.
        assert!(ns >= size / 20 * 19 && ns <= monotonic_ns() - start_ns, "{ns} of {size}");
        assert!(count >= Some(size / MS * 11_900), "bytes: {count:?}");
        slept |= switches().0 > voluntary;
    }
    assert!(slept, "it never left its CPU by itself");
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    assert!(!devices.contains("near:") && !devices.contains("far:"), "{devices}");
}

#[test]
fn system_calls_take_cpu_time() {
    let mut fault = ready("syscalls", &setup()).unwrap();
    let cpu_ns = thread_cpu_ns();
    let Injected { ns, count } = inject(&mut *fault, 5 * MS);
    assert!(ns >= 5 * MS && thread_cpu_ns() - cpu_ns >= ns);
    assert!(count >= Some(1));
}

/// The test plays the operator at the other end of a terminal: it stops nothing, and reports a length.
#[test]
fn pause_tells_what_the_other_side_measured() {
    let (mut master, mut slave, mut path) = (-1, -1, [0_u8; 64]);
    // SAFETY: two numbers to be written, a buffer that is larger than any terminal's name, and no settings.
    let opened = unsafe {
        let (nothing, no_size) = (std::ptr::null(), std::ptr::null());
        libc::openpty(&raw mut master, &raw mut slave, path.as_mut_ptr().cast(), nothing, no_size)
    };
    assert_eq!(opened, 0, "a terminal can be had");
    // SAFETY: both were just opened, and nobody else has them.
    let (mut master, _slave) = unsafe { (fs::File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let path = CStr::from_bytes_until_nul(&path).expect("a name ends").to_str().expect("and is text");
    // SAFETY: no other test of this program looks at the environment.
    unsafe { std::env::set_var("GUESTSCOPE_STOPPER", path) };
    let mut fault = ready("pause", &setup()).expect("a terminal is all that it needs");
    let stopper = std::thread::spawn(move || {
        let mut asked = String::new();
        BufReader::new(&master).read_line(&mut asked).expect("a question comes");
        master.write_all(b"stopped 12345678\n").expect("somebody waits for it");
        (asked, master)
    });
    assert_eq!(inject(&mut *fault, 20 * MS), Injected { ns: 12_345_678, count: None });
    assert_eq!(stopper.join().expect("it has answered").0, "stop 20000000\n");
}
