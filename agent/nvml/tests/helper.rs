//! The NVML process as a process, against the stub of NVML: its output when all is well, and that each
//! failure of a driver ends it, or does not, as the agent is told to expect.
//!
//! No time is asserted but generous limits; how deadlines are kept is tested where they are computed.

mod running;

use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::{fd::AsRawFd, unix::process::ExitStatusExt},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use guestscope_nvml::{
    Device, DeviceError, Hello, Message, PCIE_EVERY, ProcessMemory, ProcessUse, Sample, Virtualization,
};
use running::{HELPER, PERIOD_MS, Running, behave, command, end_of, stub, until};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// What the stub shows at a reading of a device, without the times.
fn expected(device: u32, reading: u32) -> Sample {
    // Each device has its turn once in ten readings, and they count from 1 in the stub.
    let pcie = |kilobytes: u64| {
        ((reading + PCIE_EVERY - 1) % PCIE_EVERY == device % PCIE_EVERY)
            .then_some(kilobytes * 1_000 * u64::from(device + 1))
    };
    let throttle_reasons = [0x1, 0x0, 0x4, 0x8 | 0x20 | 1 << 40][reading as usize % 4];
    Sample {
        device,
        utilization_percent: Some(40 + 30 * device + reading),
        memory_utilization_percent: Some(10 + 10 * device + reading),
        memory_used_bytes: Some(u64::from(device + 1) * GIB + u64::from(reading) * MIB),
        clock_sm_mhz: Some(1_400 + 100 * device + reading),
        clock_memory_mhz: Some(2_600 + 10 * device),
        power_mw: Some(300_000 + 50_000 * device + 1_000 * reading),
        temperature_celsius: Some(50 + 10 * device + reading),
        pcie_to_device_bytes_per_s: pcie(2_000),
        pcie_from_device_bytes_per_s: pcie(1_000),
        throttle_reasons: Some(throttle_reasons),
        ..Sample::default()
    }
}

fn timeless(sample: Sample) -> Sample {
    Sample { at_ns: 0, took_ns: 0, ..sample }
}

fn stub_device(index: u32, bus: &str, memory_bytes: u64, virtualization: Virtualization) -> Device {
    Device {
        index,
        name: Some(format!("Stub GPU {index}")),
        uuid: Some(format!("GPU-00000000-0000-4000-8000-00000000000{index}")),
        pci_bus_id: Some(format!("00000000:{bus}:00.0")),
        memory_bytes: Some(memory_bytes),
        clock_sm_max_mhz: Some(1_500 + 100 * index),
        virtualization: Some(virtualization),
    }
}

#[test]
fn hello_names_driver_and_devices() {
    let hello = Running::on_stub("").hello();
    assert_eq!(hello.driver.as_deref(), Some("550.54.15"));
    assert_eq!(hello.nvml.as_deref(), Some("12.550.54.15"));
    let devices = [
        stub_device(0, "3B", 16 * GIB, Virtualization::Passthrough),
        stub_device(1, "5E", 8 * GIB, Virtualization::Vgpu),
    ];
    assert_eq!(hello.devices, devices);
}

#[test]
fn each_period_reads_each_device_and_says_when() {
    let before_ns = monotonic_ns();
    let running = Running::on_stub("");
    running.hello();
    let mut last_ns = before_ns;
    for reading in 1..=5 {
        for device in [0, 1] {
            let sample = running.sample();
            assert_eq!(timeless(sample), expected(device, reading));
            assert!(sample.at_ns - sample.took_ns >= last_ns, "{last_ns} {sample:?}");
            last_ns = sample.at_ns;
        }
    }
    assert!(last_ns <= monotonic_ns());
}

/// The first numbers are of an interval that nobody knows: a driver's shortest.
#[test]
fn what_processes_used_is_said_once_with_its_interval() {
    let running = Running::on_stub("shared");
    running.hello();
    for (reading, over_ns) in [166_666_000, 200_000_000, 200_000_000].into_iter().enumerate() {
        for device in [0, 1] {
            let sample = running.sample();
            let told = running.processes();
            assert_eq!((told.device, told.over_ns), (device, over_ns));
            assert_eq!(told.list[0], ProcessUse { pid: 1, sm_percent: 60 });
            assert!(told.list[1..].iter().all(|one| one.sm_percent == 30), "{told:?}");
            assert!(told.at_ns >= sample.at_ns, "{told:?} {sample:?}");
            if reading == device as usize {
                running.message();
            }
        }
    }
}

/// Each device has its turn, as with PCIe traffic; where nobody holds any, nothing is said.
#[test]
fn what_processes_hold_of_the_memory_is_said_in_turns() {
    let running = Running::on_stub("shared");
    running.hello();
    let (mut held, mut readings, mut sampled_ns) = (Vec::new(), [0; 2], 0);
    while held.len() < 4 {
        let message = running.message();
        if let Message::Sample(sample) = &message {
            readings[sample.device as usize] += 1;
            sampled_ns = sample.at_ns;
        }
        // Who computes is left out where the driver has nothing new since the last reading.
        if matches!(message, Message::Sample(_) | Message::Processes(_)) {
            continue;
        }
        let Message::Memory(told) = message else { panic!("neither: {message:?}") };
        assert_eq!((readings[told.device as usize] - 1) % PCIE_EVERY, told.device);
        assert_eq!(told.list[0], ProcessMemory { pid: 1, bytes: 900 * MIB });
        assert!(told.list[1..].iter().all(|one| one.bytes == 100 * MIB), "{told:?}");
        assert!(told.at_ns >= sampled_ns, "{told:?} {sampled_ns}");
        held.push(told.device);
    }
    assert_eq!(held, [0, 1, 0, 1]);
}

#[test]
fn an_error_of_a_device_is_said_once() {
    let running = Running::on_stub("xid-after:2");
    running.hello();
    for reading in 1..=3 {
        let samples = [running.sample(), running.sample()];
        if reading == 2 {
            let Message::Error(error) = running.message() else { panic!("no error") };
            assert_eq!(DeviceError { at_ns: 0, ..error }, DeviceError { at_ns: 0, device: 0, xid: Some(79) });
            assert!(error.at_ns >= samples[1].at_ns);
        }
    }
}

#[test]
fn clocks_that_are_held_down_are_seen() {
    let running = Running::on_stub("held");
    running.hello();
    let sample = running.sample();
    assert_eq!((sample.clock_sm_mhz, sample.throttle_reasons), (Some(700), Some(0x4)));
}

#[test]
fn a_hang_is_silence() {
    Running::on_stub("hang-init").hangs();

    let running = Running::on_stub("hang-after:4");
    running.hello();
    for (device, reading) in [(0, 1), (1, 1), (0, 2)] {
        assert_eq!(timeless(running.sample()), expected(device, reading));
    }
    running.hangs();
}

#[test]
fn a_crash_is_a_signal() {
    assert_eq!(Running::on_stub("crash-init").end().signal(), Some(libc::SIGABRT));

    let running = Running::on_stub("crash-after:2");
    running.hello();
    assert_eq!(timeless(running.sample()), expected(0, 1));
    assert_eq!(running.end().signal(), Some(libc::SIGABRT));
}

#[test]
fn a_lost_device_is_said_once_and_the_other_goes_on() {
    let running = Running::on_stub("lost-after:3");
    assert_eq!(running.hello().devices.len(), 2);
    for (device, reading) in [(0, 1), (1, 1), (0, 2)] {
        assert_eq!(timeless(running.sample()), expected(device, reading));
    }
    let what = running.failed();
    assert!(what.starts_with("device 1: ") && what.contains("fell off the bus"), "{what}");
    for reading in 3..9 {
        assert_eq!(timeless(running.sample()), expected(0, reading));
    }
}

#[test]
fn a_device_that_is_lost_from_the_start_is_not_among_those_sampled() {
    let running = Running::on_stub("lost-after:0");
    let devices = running.hello().devices;
    assert_eq!(devices.iter().map(|device| device.index).collect::<Vec<_>>(), [0]);
    assert!(running.failed().starts_with("device 1: "));
    assert_eq!(timeless(running.sample()), expected(0, 1));
    assert_eq!(timeless(running.sample()), expected(0, 2));
}

#[test]
fn no_devices_are_said_and_end_it() {
    let running = Running::on_stub("no-devices");
    let Hello { driver, nvml: _, devices } = running.hello();
    assert_eq!((driver.as_deref(), devices.len()), (Some("550.54.15"), 0));
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn what_is_not_supported_is_left_out_and_ends_nothing() {
    let running = Running::on_stub("unsupported");
    let nothing = |index| Device { index, ..Device::default() };
    assert_eq!(running.hello().devices, [nothing(0), nothing(1)]);
    for device in [0, 1, 0, 1, 0, 1] {
        assert_eq!(timeless(running.sample()), Sample { device, ..Sample::default() });
    }
}

#[test]
fn an_old_driver_tells_its_memory_with_what_it_reserves() {
    let running = Running::on_stub("old-driver");
    let memory: Vec<_> = running.hello().devices.iter().map(|device| device.memory_bytes).collect();
    assert_eq!(memory, [Some(16 * GIB), Some(8 * GIB)]);
    assert_eq!(running.sample().memory_used_bytes, Some(GIB + 257 * MIB));
}

#[test]
fn without_a_driver_or_a_library_it_says_why_and_ends() {
    let running = Running::on_stub("no-driver");
    let what = running.failed();
    assert!(what.starts_with("initialising NVML: ") && what.contains("driver is not loaded"), "{what}");
    assert_eq!(running.end().code(), Some(1));

    for library in ["/nonexistent/libnvidia-ml.so.1", env!("CARGO_MANIFEST_PATH")] {
        let mut command = Command::new(HELPER);
        command.arg(library).arg(PERIOD_MS);
        let running = Running::start(command);
        let what = running.failed();
        assert!(what.starts_with("initialising NVML: ") && what.contains(library), "{what}");
        assert_eq!(running.end().code(), Some(1));
    }
}

#[test]
fn called_wrongly_it_says_how_and_nothing_else() {
    let mut command = Command::new(HELPER);
    command.arg(stub()).arg("soon");
    let done = command.output().expect("the helper starts");
    assert_eq!(done.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "usage: guestscope-nvml LIBRARY PERIOD_MS\n");
}

/// The longest period there is, so it is not the next line that finds the pipe closed.
#[test]
fn a_closed_pipe_ends_it_at_once() {
    let mut command = Command::new(HELPER);
    command.arg(stub()).arg("3600000").stdout(Stdio::piped());
    behave(&mut command, "");
    let mut child = command.spawn().expect("the helper starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    for _ in ["hello", "sample", "sample"] {
        lines.next().expect("a line").expect("it can be read");
    }
    assert_eq!(child.try_wait().expect("it can be asked for"), None);
    drop(lines);
    assert_eq!(end_of(&mut child).code(), Some(0));
}

/// The state after a parent that died before the NVML process could request the signal. The NVML process must
/// not even begin to initialise.
#[test]
fn a_pipe_closed_from_the_start_ends_it_before_it_can_hang() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut child = command("hang-init").stdout(writer).spawn().expect("the helper starts");
    assert_eq!(end_of(&mut child).code(), Some(0));
}

#[test]
fn the_parents_death_kills_it_even_while_it_hangs() {
    for behaviour in ["", "hang-init"] {
        let mut shell = Command::new("sh");
        // The pipe stays open in this process, so it is not the pipe that ends the NVML process.
        shell.args(["-c", r#""$0" "$1" "$2" & echo $!; wait"#, HELPER]).arg(stub()).arg(PERIOD_MS);
        behave(&mut shell, behaviour);
        let mut shell = shell.stdout(Stdio::piped()).spawn().expect("a shell starts");
        let mut lines = BufReader::new(shell.stdout.take().expect("its output is a pipe")).lines();
        let pid = lines.next().expect("a line").expect("it can be read");
        let pid: u32 = pid.parse().expect("a process id comes first");
        // Not before it has requested the signal, which it does before it sets this flag.
        until("the helper is tied", || status(pid, "NoNewPrivs").as_deref() == Some("1"));
        shell.kill().expect("the shell can be killed");
        assert_eq!(end_of(&mut shell).signal(), Some(libc::SIGKILL));
        // Its new parent may leave it as a zombie.
        until("the helper dies", || {
            status(pid, "State").is_none_or(|state| state.starts_with('Z') || state.starts_with('X'))
        });
    }
}

/// A field of /proc/PID/status; None when the process is gone.
fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[test]
fn it_can_gain_no_privileges() {
    let running = Running::on_stub("");
    running.hello();
    assert_eq!(status(running.child.id(), "NoNewPrivs").as_deref(), Some("1"));
}

/// Meanwhile the NVML process waits inside a write. It does not catch up on missed readings: each begins at a
/// deadline of its own, so between two readings lie at least the periods between them, however slow this
/// machine is.
#[test]
fn a_reader_that_pauses_loses_no_line_and_gets_no_burst() {
    const PERIOD_NS: u64 = 5_000_000;
    let mut command = Command::new(HELPER);
    command.arg(stub()).arg("5").stdout(Stdio::piped());
    behave(&mut command, "");
    let mut child = command.spawn().expect("the helper starts");
    let stdout = child.stdout.take().expect("its output is a pipe");
    // A page is the smallest pipe: full after a dozen lines.
    // SAFETY: the descriptor is open, and the command takes one number.
    assert!(unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, 4_096) } > 0);
    let mut lines = BufReader::with_capacity(256, stdout).lines();
    lines.next().expect("a line").expect("it can be read");
    thread::sleep(Duration::from_millis(300));
    let mut begun_ns = Vec::new();
    for reading in 1..=80 {
        for device in [0, 1] {
            let line = lines.next().expect("a line").expect("it can be read");
            let sample = match serde_json::from_str(&line).expect("a line is a message") {
                Message::Sample(sample) => sample,
                other @ (Message::Hello(_)
                | Message::Processes(_)
                | Message::Memory(_)
                | Message::Error(_)
                | Message::Failed(_)) => {
                    panic!("no sample: {other:?}")
                }
            };
            assert_eq!(timeless(sample), expected(device, reading % 20));
            if device == 0 {
                begun_ns.push(sample.at_ns - sample.took_ns);
            }
        }
    }
    drop(lines);
    assert_eq!(end_of(&mut child).code(), Some(0));
    for (first, first_ns) in begun_ns.iter().enumerate() {
        for (periods, later_ns) in (0..).zip(&begun_ns[first + 1..]) {
            assert!(later_ns - first_ns >= periods * PERIOD_NS, "{first} {periods} {begun_ns:?}");
        }
    }
}
