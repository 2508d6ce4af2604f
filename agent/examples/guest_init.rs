//! The first program of a virtual machine of `cargo xtask vm`: prepares the guest, runs what `/job.json`
//! says, turns off.
//!
//! Each step's output goes to the second serial port line by line, as `NAME| line` (stdout) or `NAME! line`
//! (stderr), and `NAME= how it ended`; what it has to say itself stands behind `guest:`. It judges nothing:
//! that is the other side's.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Read, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    mount::{MsFlags, mount, umount},
    sys::{
        signal::{Signal, killpg},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork},
};
use serde::Deserialize;

/// Port of the answers. The log of the kernel has the first port, which on arm64 is not one of these.
const ANSWERS: &str = if cfg!(target_arch = "aarch64") { "/dev/ttyS0" } else { "/dev/ttyS1" };
/// A device may need a moment after its module is there.
const DISK_PATIENCE: Duration = Duration::from_secs(20);

/// The whole job.
#[derive(Deserialize)]
struct Job {
    /// The disk with the programs, by its serial number, and where it goes.
    disk: Option<(String, PathBuf)>,
    /// A disk for what is to be kept, and where it goes.
    results: Option<(String, PathBuf)>,
    /// A disk that is only read, and where it goes.
    shared: Option<(String, PathBuf)>,
    /// Whether to hide the kernel's BTF.
    hide_btf: bool,
    steps: Vec<Step>,
    /// Take further work from the port, an [`Order`] on each line, after these steps.
    waits: bool,
}

/// Further work.
#[derive(Deserialize)]
struct Order {
    /// Files to write first: path and content.
    files: Vec<(PathBuf, String)>,
    steps: Vec<Step>,
}

/// One program to run.
#[derive(Deserialize)]
struct Step {
    name: String,
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    /// Both user and group; root if there is none.
    user: Option<u32>,
    limit_s: u64,
}

/// The serial port, written line by line.
struct Answers(Mutex<File>);

impl Answers {
    fn say(&self, line: &str) {
        let mut port = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Nobody is left to tell if this fails.
        let _ = writeln!(port, "{line}");
    }

    /// Waits until the port has sent everything: turning off throws away what it still holds.
    fn drain(&self) {
        let port = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: an open descriptor; the call waits and touches no memory.
        unsafe { libc::tcdrain(port.as_raw_fd()) };
    }
}

fn main() {
    if let Err(error) = mounts() {
        println(&format!("guest: not prepared: {error:#}"));
        turn_off();
    }
    let Ok(port) = OpenOptions::new().write(true).open(ANSWERS) else {
        println("guest: no second serial port");
        turn_off();
    };
    let answers = Answers(Mutex::new(port));
    // The first process adopts all orphans: it only collects them, and a second one works. SAFETY: this
    // process has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let outcome = work(&answers);
            answers.say(
                &outcome
                    .map_or_else(|error| format!("guest: failed: {error:#}"), |()| "guest: done".to_owned()),
            );
            answers.drain();
        }
        Ok(ForkResult::Parent { child }) => {
            while !matches!(waitpid(None, None), Ok(status) if status.pid() == Some(child)) {}
            turn_off();
        }
        Err(error) => {
            answers.say(&format!("guest: failed: fork: {error}"));
            turn_off();
        }
    }
}

/// To the log of the kernel.
fn println(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn turn_off() -> ! {
    // SAFETY: writes what is cached and turns the machine off; nothing of this program is needed any more.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        thread::park();
    }
}

/// File systems that every program expects; what this kernel does not have is left out, except for the first
/// three.
fn mounts() -> anyhow::Result<()> {
    for (kind, place, needed) in [
        ("proc", "/proc", true),
        ("sysfs", "/sys", true),
        ("devtmpfs", "/dev", true),
        ("tmpfs", "/tmp", false),
        ("tracefs", "/sys/kernel/tracing", false),
        ("bpf", "/sys/fs/bpf", false),
        ("cgroup2", "/sys/fs/cgroup", false),
    ] {
        let _ = fs::create_dir_all(place);
        let done = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>);
        if let Err(error) = done.with_context(|| format!("{kind} on {place}")) {
            anyhow::ensure!(!needed, "{error:#}");
            println(&format!("guest: {error:#}"));
        }
    }
    for controller in ["cpu", "cpuset", "io", "memory", "pids"] {
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", format!("+{controller}"));
    }
    Ok(())
}

fn work(answers: &Answers) -> anyhow::Result<()> {
    let job: Job = serde_json::from_slice(&fs::read("/job.json").context("/job.json")?)?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let up_s = fs::read_to_string("/proc/uptime")?;
    let up_s = up_s.split(' ').next().unwrap_or_default();
    answers.say(&format!("guest: up {up_s} {}", release.trim()));
    loopback_up().context("lo")?;
    modules(answers);
    if let Some((disk, place)) = &job.disk {
        mount_disk(disk, place, MsFlags::empty())?;
        // Where programs look for a folder that is on a disk.
        let on_disk = place.join("var-tmp");
        fs::create_dir_all(&on_disk)?;
        std::os::unix::fs::symlink(on_disk, "/var/tmp").context("/var/tmp")?;
    }
    if let Some((disk, place)) = &job.shared {
        mount_disk(disk, place, MsFlags::MS_RDONLY)?;
    }
    if job.hide_btf {
        let nothing = Some("tmpfs");
        mount(nothing, "/sys/kernel/btf", nothing, MsFlags::empty(), None::<&str>)
            .context("hiding /sys/kernel/btf")?;
    }
    if !job.steps.is_empty() {
        steps(&job, &job.steps, answers)?;
    }
    if job.waits { orders(&job, answers) } else { Ok(()) }
}

/// Runs one after the other. What they leave behind is on its disk afterwards, and nothing else.
fn steps(job: &Job, steps: &[Step], answers: &Answers) -> anyhow::Result<()> {
    if let Some((disk, place)) = &job.results {
        mount_disk(disk, place, MsFlags::empty())?;
        for left in fs::read_dir(place)?.flatten().filter(|entry| entry.file_name() != "lost+found") {
            fs::remove_dir_all(left.path()).with_context(|| left.path().display().to_string())?;
        }
    }
    for step in steps {
        let started = Instant::now();
        let end = match step.run(answers) {
            Ok((status, timed_out)) => ending(status, timed_out),
            Err(error) => format!("not started: {error:#}"),
        };
        answers.say(&format!("{}= {end}, {:.1} s", step.name, started.elapsed().as_secs_f64()));
    }
    if let Some((_, place)) = &job.results {
        // Without a journal only a file system that was taken down is whole.
        umount(place).with_context(|| format!("taking down {}", place.display()))?;
    }
    Ok(())
}

/// Carries out orders from the port, until it is closed.
fn orders(job: &Job, answers: &Answers) -> anyhow::Result<()> {
    let port = File::open(ANSWERS)?;
    as_it_is(&port).context("the port")?;
    let mut lines = BufReader::new(port).lines();
    loop {
        answers.say("guest: ready");
        let Some(line) = lines.next() else { return Ok(()) };
        let order: Order = serde_json::from_str(&line?).context("not an order")?;
        for (path, content) in order.files {
            let what = || path.display().to_string();
            fs::create_dir_all(path.parent().unwrap_or(&path)).with_context(what)?;
            fs::write(&path, content).with_context(what)?;
        }
        steps(job, &order.steps, answers)?;
    }
}

/// Lets a serial port neither repeat what it hears nor wait for a line's end: its lines could be 4,095 bytes
/// long at most.
fn as_it_is(port: &File) -> std::io::Result<()> {
    // SAFETY: all fields of the settings may be zero, and the calls get an open descriptor and these
    // settings.
    let done = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(port.as_raw_fd(), &raw mut settings);
        libc::cfmakeraw(&raw mut settings);
        libc::tcsetattr(port.as_raw_fd(), libc::TCSANOW, &raw const settings)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn mount_disk(serial: &str, place: &Path, flags: MsFlags) -> anyhow::Result<()> {
    let disk = wait_for(serial)?;
    fs::create_dir_all(place)?;
    mount(Some(&disk), place, Some("ext4"), flags, None::<&str>)
        .with_context(|| format!("ext4 of {} on {}", disk.display(), place.display()))
}

/// For people and for the other side: `status 0`, `signal 11`, `over its limit`.
fn ending(status: ExitStatus, timed_out: bool) -> String {
    match (status.code(), status.signal()) {
        _ if timed_out => "over its limit".to_owned(),
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// The disk that bears this serial number, whatever its name: that depends on the bus and on who was found
/// first.
fn wait_for(serial: &str) -> anyhow::Result<PathBuf> {
    let started = Instant::now();
    loop {
        for block in fs::read_dir("/sys/block")?.flatten() {
            let its = fs::read_to_string(block.path().join("serial")).unwrap_or_default();
            let device = Path::new("/dev").join(block.file_name());
            if its.trim() == serial && device.exists() {
                return Ok(device);
            }
        }
        anyhow::ensure!(started.elapsed() < DISK_PATIENCE, "no such disk: {serial}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Loads the modules that came along. Which one needs which differs between kernels, so those that are
/// refused are tried again after the others.
fn modules(answers: &Answers) {
    let mut left: Vec<PathBuf> =
        fs::read_dir("/modules").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    loop {
        let before = left.len();
        let mut refused = Vec::new();
        left.retain(|path| {
            load(path).map_err(|error| refused.push(format!("{}: {error}", path.display()))).is_err()
        });
        if left.is_empty() || left.len() == before {
            for complaint in refused {
                answers.say(&format!("guest: module {complaint}"));
            }
            return;
        }
    }
}

fn load(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: an open descriptor and an empty string that ends with a zero; no flags.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// What `ip link set lo up` does.
fn loopback_up() -> anyhow::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all fields of the request may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: an open socket and a whole request with a name that ends with a zero.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    anyhow::ensure!(done == 0, std::io::Error::last_os_error());
    Ok(())
}

impl Step {
    /// Runs it to its end; whether it had to be ended.
    fn run(&self, answers: &Answers) -> anyhow::Result<(ExitStatus, bool)> {
        let (program, arguments) = self.argv.split_first().context("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&self.environment).current_dir("/tmp");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().with_context(|| program.clone())?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let started = Instant::now();
        let limit = Duration::from_secs(self.limit_s);
        thread::scope(|scope| {
            scope.spawn(|| self.copy(out, '|', answers));
            scope.spawn(|| self.copy(err, '!', answers));
            let mut timed_out = false;
            let status = loop {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                if started.elapsed() > limit {
                    timed_out = true;
                    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
                }
                thread::sleep(Duration::from_millis(20));
            };
            // What it left running would hold its output open.
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
            Ok((status, timed_out))
        })
    }

    fn copy(&self, from: Option<impl Read>, mark: char, answers: &Answers) {
        let Some(from) = from else { return };
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            answers.say(&format!("{}{mark} {}", self.name, text.trim_end_matches(['\r', '\n'])));
            line.clear();
        }
    }
}
