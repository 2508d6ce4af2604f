//! Runs the agent once on a folder, under resource limits, and reports forbidden behaviour.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Limit of resident memory for every verb.
const MOST_RSS_BYTES: u64 = 300 << 20;
/// Limit of written files: a page or a trace of a folder has a few MB.
const MOST_FILE_BYTES: u64 = 256 << 20;
/// Limit of address space, so that a fault costs the machine no more memory than this.
const MOST_ADDRESS_BYTES: u64 = 4 << 30;
/// Limit of CPU time. The largest folder made here takes a tenth of it, without optimisation.
const MOST_CPU_S: u64 = 60;
/// Limit of elapsed time: a process that waits uses no CPU time.
const MOST_WALL: Duration = Duration::from_mins(4);

/// Result of a process.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Forbidden behaviour; none if the process behaved.
    pub(crate) fault: Option<String>,
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// Its largest resident set, bytes.
    pub(crate) rss_bytes: u64,
    /// Its standard error.
    pub(crate) said: String,
}

/// The verbs by name.
pub(crate) const VERBS: [&str; 8] = [
    "explain",
    "explain --json",
    "compare",
    "report",
    "export otlp-json",
    "export perfetto",
    "ranks",
    "ranks --json",
];

/// Runs a verb on a folder; `good` is a valid folder for comparisons.
pub(crate) fn observe(binary: &Path, verb: &str, folder: &Path, good: &Path, scratch: &Path) -> Outcome {
    let mut command = Command::new(binary);
    let page = scratch.join("page.html");
    drop(fs::remove_file(&page));
    match verb {
        "explain" => command.arg("explain").arg(folder),
        "explain --json" => command.arg("explain").arg(folder).arg("--json"),
        "compare" => command.arg("compare").arg("--json").arg("--allow-unequal-work").args([good, folder]),
        "report" => command.arg("report").arg(folder).arg("--output").arg(&page),
        "export otlp-json" => command.arg("export").arg(folder).args(["--to", "otlp-json"]),
        "export perfetto" => command.arg("export").arg(folder).args(["--to", "perfetto"]),
        "ranks" => command.arg("ranks").arg(folder),
        "ranks --json" => command.arg("ranks").arg(folder).arg("--json"),
        _ => panic!("no such verb: {verb}"),
    };
    watch(command, scratch)
}

/// Runs a command.
pub(crate) fn watch(mut command: Command, scratch: &Path) -> Outcome {
    let (out, said) = (scratch.join("out"), scratch.join("said"));
    let file = |path: &Path| Stdio::from(File::create(path).expect("a file can be made"));
    command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&said)).env_remove("COLUMNS");
    // SAFETY: setrlimit alone is called between fork and exec.
    unsafe { command.pre_exec(limited) };
    let mut child = command.spawn().expect("the agent can be started");
    let (status, rss_bytes, is_late) = wait(child.id().cast_signed());
    // The process has been waited for; this only updates the library's state.
    drop(child.try_wait());
    let said = String::from_utf8_lossy(&fs::read(&said).unwrap_or_default()).into_owned();
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let fault = fault(code, status, rss_bytes, is_late, &said);
    Outcome { fault, code, rss_bytes, said }
}

fn fault(code: Option<i32>, status: i32, rss_bytes: u64, is_late: bool, said: &str) -> Option<String> {
    if is_late {
        return Some("it did not end".to_owned());
    }
    if said.contains("panicked at") {
        return Some("it panicked".to_owned());
    }
    match code {
        None => return Some(format!("ended by signal {}", libc::WTERMSIG(status))),
        Some(0 | 1) => {}
        Some(2) if said.contains("error: ") && said.contains("\nhint: ") => {}
        Some(2) => return Some("an error without words or hint".to_owned()),
        Some(code) => return Some(format!("exit code {code}")),
    }
    (rss_bytes > MOST_RSS_BYTES).then(|| format!("{} MiB of memory", rss_bytes >> 20))
}

fn limited() -> std::io::Result<()> {
    let limits = [
        (libc::RLIMIT_CPU, MOST_CPU_S),
        (libc::RLIMIT_FSIZE, MOST_FILE_BYTES),
        (libc::RLIMIT_AS, MOST_ADDRESS_BYTES),
        (libc::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the structure is complete, and outlives the call.
        if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Peak resident set so far. The kernel's value at the end would include that of the parent before exec.
fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Status, largest resident set, and whether it had to be killed.
fn wait(pid: i32) -> (i32, u64, bool) {
    let begun = Instant::now();
    let (mut is_late, mut rss_bytes) = (false, 0);
    loop {
        let mut status = 0;
        // SAFETY: the number outlives the call; the process is a child that only this test waits for.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return (status, rss_bytes, is_late);
        }
        rss_bytes = rss_bytes.max(peak(pid));
        if begun.elapsed() > MOST_WALL && !is_late {
            is_late = true;
            // SAFETY: the child has not been waited for, so no other process has its ID.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
