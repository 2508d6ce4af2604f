//! The NVML process: started from memory, read line by line, given up when it falls silent.
//!
//! It runs as `nobody`, without any capability, ends with this process, and its lines are as untrusted as any
//! program's.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsString},
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use guestscope_nvml::{
    DeviceError, Failed, MOST_DEVICES, MOST_PROCESSES, Memory, Message, Processes, Sample,
};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::SigSet,
    },
    time::clock_getcpuclockid,
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::Receiver,
    time::{Instant, timeout_at},
};

use super::{
    Driver,
    news::{News, cleaned},
    user::{self, User},
};
use crate::{
    carried, guarded,
    phase::{GpuError, GpuMemory, GpuProcesses, GpuReading},
    privileges,
};

/// Limit for the first line: drivers wake a sleeping device, which takes some seconds for each.
const FIRST: Duration = Duration::from_secs(30);
/// Time limit between two lines: a driver that needs longer for one device hangs.
const SILENCE: Duration = Duration::from_secs(10);
/// If this process wakes up so much later than planned, it has not run, and perhaps the NVML process has not
/// either.
const LATE: Duration = Duration::from_secs(1);
/// Time limit from the end of its output to its exit.
const GONE: Duration = Duration::from_secs(1);
/// Longest interval that numbers of processes are of: that of the driver's own samples, ns.
const LONGEST_INTERVAL_NS: u64 = 1_000_000_000;
/// Most troubles that are reported.
const MOST_TROUBLES: usize = 8;
/// Longest line: one with 64 devices has some 20 kB.
const LONGEST_LINE: usize = 256 << 10;
/// Maximum length of a text of the NVML process, characters.
const TEXT: usize = 300;

/// A running NVML process.
#[derive(Debug)]
pub(super) struct NvmlProcess {
    child: Child,
    pipe: Receiver,
    read: Vec<u8>,
    /// Deadline of its next line.
    due: Instant,
    /// The last trouble that it reported.
    trouble: Option<String>,
    /// Numbers of the devices that it named; none before its hello.
    devices: Option<BTreeSet<u32>>,
    /// Count of reported troubles.
    troubles: usize,
    /// Deadline of its exit, once its output is closed.
    gone_by: Option<Instant>,
    /// CPU time that it had used by then.
    cpu_at_end: Option<Duration>,
}

impl NvmlProcess {
    /// Starts the NVML process for this driver, with this period of readings. The error is for people.
    pub(super) fn start(driver: &Driver, period: Duration) -> Result<Self, String> {
        let program = carried::program().map_err(|error| format!("it cannot be unpacked: {error}"))?;
        let program = program.ok_or("this build of guestscope carries none")?;
        let file = in_memory(&program).map_err(|error| format!("it cannot be put into memory: {error}"))?;
        let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = Path::new(&driver.library);
        // Where other users may not read the path, the NVML process inherits the open file.
        let file = if user::may_read(path) { None } else { guarded::open_file(path).ok() };
        let inherited = file.as_ref().map(|file| inherited(file.as_fd())).transpose();
        let inherited = inherited.map_err(|error| format!("its library cannot be handed to it: {error}"))?;
        let path = inherited.map_or_else(|| driver.library.clone(), OsString::from);
        command.arg0("guestscope-nvml").arg(path).arg(period.as_millis().to_string());
        let user = user::for_library(
            Path::new("/"),
            Path::new(&driver.library),
            user::of_devices(Path::new("/dev")),
        );
        Self::spawn(command, user, FIRST)
    }

    /// Starts a shell script in its place, with this limit for the first line.
    #[cfg(test)]
    pub(super) fn of_script(script: &Path, patience: Duration) -> Result<Self, String> {
        let mut shell = Command::new("sh");
        shell.arg(script);
        // `nobody` may not read the files of a test.
        Self::spawn(shell, User::Own, patience)
    }

    fn spawn(mut command: Command, user: User, patience: Duration) -> Result<Self, String> {
        // Messages of the driver's library on standard error must not appear between the program's lines.
        // Nothing is ever written to the NVML process's standard input: the kernel kills it when this end is
        // closed, however this process ends.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C is for the program; the agent passes it on.
        command.process_group(0);
        let become_other = move || {
            // The agent blocks signals to read them from a descriptor.
            SigSet::empty().thread_set_mask()?;
            match &user {
                User::Nobody(groups) => privileges::become_nobody(groups),
                User::Own => privileges::drop_all(),
            }
        };
        // SAFETY: between fork and exec only system calls are made, and no memory is allocated.
        unsafe { command.pre_exec(become_other) };
        let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let pipe = child.stdout.take().map(OwnedFd::from).ok_or("it has no output")?;
        let pipe = Receiver::from_owned_fd(pipe).map_err(|error| format!("it cannot be read: {error}"))?;
        Ok(Self {
            child,
            pipe,
            read: Vec::new(),
            due: Instant::now() + patience,
            trouble: None,
            devices: None,
            troubles: 0,
            gone_by: None,
            cpu_at_end: None,
        })
    }

    /// Number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time that it has used, until it closed its output.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.cpu_at_end.or_else(|| self.clock())
    }

    /// None once the process has been waited for.
    fn clock(&self) -> Option<Duration> {
        let clock = clock_getcpuclockid(Pid::from_raw(self.child.id().cast_signed())).ok()?;
        clock.now().ok().map(Duration::from)
    }

    /// The next news of the NVML process.
    pub(super) async fn next(&mut self) -> News {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                self.due = Instant::now() + SILENCE;
                let Some(news) = self.news(&line) else { continue };
                return news;
            }
            if let Some(by) = self.gone_by {
                return News::Over(self.ended(by).await);
            }
            if self.read.len() > LONGEST_LINE {
                return over("what it said makes no sense");
            }
            match timeout_at(self.due, self.pipe.read_buf(&mut self.read)).await {
                Ok(Ok(0)) => {
                    self.cpu_at_end = self.clock();
                    self.gone_by = Some(Instant::now() + GONE);
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return over(&format!("it cannot be read: {error}")),
                // This process could not run either: the machine was short of CPUs, or was stopped.
                Err(_) if self.due.elapsed() > LATE => self.due = Instant::now() + SILENCE,
                Err(_) => return over("it said nothing any more: the driver seems to hang"),
            }
        }
    }

    /// The news of a line, unless it is a repetition or about no known device.
    fn news(&mut self, line: &[u8]) -> Option<News> {
        match serde_json::from_slice(line) {
            Ok(Message::Hello(hello)) if self.devices.is_none() => {
                let devices = hello.devices.iter().take(MOST_DEVICES as usize).map(|device| device.index);
                self.devices = Some(devices.collect());
                Some(News::Known(hello))
            }
            Ok(Message::Hello(_)) => None,
            Ok(Message::Sample(sample)) => {
                self.is_known(sample.device).then(|| News::Reading(reading(&sample)))
            }
            Ok(Message::Processes(told)) => {
                self.is_known(told.device).then(|| News::Processes(processes(&told)))
            }
            Ok(Message::Memory(told)) => self.is_known(told.device).then(|| News::Memory(memory(&told))),
            Ok(Message::Error(DeviceError { at_ns, device, xid })) => {
                let error = GpuError { time_ns: at_ns, device, xid };
                self.is_known(device).then_some(News::Error(error))
            }
            Ok(Message::Failed(Failed { what })) => {
                let what = cleaned(&what, TEXT);
                self.trouble = Some(what.clone());
                // Before its hello this is the reason for its end, and is reported then.
                self.devices.as_ref()?;
                self.troubles += 1;
                (self.troubles <= MOST_TROUBLES).then_some(News::Trouble(what))
            }
            Err(_) => Some(over("what it said makes no sense")),
        }
    }

    fn is_known(&self, device: u32) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.contains(&device))
    }

    /// How it ended; none if it ended normally. Its output is closed, so this takes no time unless the driver
    /// holds it.
    async fn ended(&mut self, by: Instant) -> Option<String> {
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return match (status.signal(), self.trouble.take(), status.code()) {
                    (Some(signal), ..) => {
                        Some(format!("it was ended by signal {signal}, inside the driver's library"))
                    }
                    (None, Some(trouble), _) => Some(trouble),
                    (None, None, Some(0)) => None,
                    // The loader reports the reason on standard error, which is not read, and in the guest's
                    // language.
                    (None, None, _) if self.devices.is_none() => {
                        Some(format!("it does not start here ({status}): it needs glibc 2.34"))
                    }
                    (None, None, _) => Some(format!("it exited ({status})")),
                };
            }
            if Instant::now() >= by {
                return Some("it closed its output and does not end: the driver seems to hang".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for NvmlProcess {
    /// An NVML process that hangs in the driver cannot be waited for: its next parent reaps it.
    fn drop(&mut self) {
        // This ends the NVML process, whatever its user; another program in its place has to be killed.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

fn over(why: &str) -> News {
    News::Over(Some(why.to_owned()))
}

/// The path by which the NVML process opens a file that is open here: it inherits the descriptor.
fn inherited(file: BorrowedFd<'_>) -> io::Result<String> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file in memory with this content and without a name.
fn in_memory(program: &[u8]) -> io::Result<File> {
    /// The file may be executed. Kernels from 6.3 on want the flag; older ones refuse it.
    const MFD_EXEC: u32 = 0x10;
    let name = CString::from(c"guestscope-nvml");
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::from_bits_retain(MFD_EXEC);
    let file = memfd_create(name.as_c_str(), flags)
        .or_else(|_| memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC))?;
    let mut file = File::from(file);
    file.write_all(program)?;
    Ok(file)
}

fn processes(told: &Processes) -> GpuProcesses {
    let used = told.list.iter().take(MOST_PROCESSES);
    GpuProcesses {
        time_ns: told.at_ns,
        over_ns: told.over_ns.min(LONGEST_INTERVAL_NS),
        device: told.device,
        list: used.map(|one| (one.pid, u64::from(one.sm_percent.min(100)))).collect(),
    }
}

fn memory(told: &Memory) -> GpuMemory {
    let held = told.list.iter().take(MOST_PROCESSES);
    GpuMemory { device: told.device, list: held.map(|one| (one.pid, one.bytes)).collect() }
}

fn reading(sample: &Sample) -> GpuReading {
    GpuReading {
        time_ns: sample.at_ns,
        device: sample.device,
        utilization_percent: sample.utilization_percent.map(u64::from),
        memory_utilization_percent: sample.memory_utilization_percent.map(u64::from),
        memory_used_bytes: sample.memory_used_bytes,
        clock_sm_mhz: sample.clock_sm_mhz.map(u64::from),
        clock_memory_mhz: sample.clock_memory_mhz.map(u64::from),
        power_mw: sample.power_mw.map(u64::from),
        temperature_celsius: sample.temperature_celsius.map(u64::from),
        pcie_to_device_bytes_per_s: sample.pcie_to_device_bytes_per_s,
        pcie_from_device_bytes_per_s: sample.pcie_from_device_bytes_per_s,
        throttle_reasons: sample.throttle_reasons,
    }
}
