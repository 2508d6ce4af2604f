//! Stock tracers, which know nothing of guestscope, find the probe by its note and count exactly the edges
//! that a program fires. Needs root, and the tools: `bpftrace`, `perf`. Attaches to copies of the library, so
//! that nobody else's programs are counted, and takes its events away again.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

const REQUESTS: u64 = 5;

/// Edges by operation of `embed --requests 5`, from what tests/programs/README.md says it does: three phases
/// a request, two suspensions of phase and request, every second request joined. Phases of the others end
/// where the next one begins, or with the request.
fn expected() -> BTreeMap<u64, u64> {
    let n = REQUESTS;
    let ends = n + 3 * (n / 2);
    BTreeMap::from([(1, 3 * n), (2, n), (3, ends), (4, 4 * n), (5, 4 * n), (6, n / 2), (7, n), (8, n)])
}

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}

/// What stands in the way of a tracer, if anything does.
fn obstacle(tool: &str) -> Option<String> {
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("not root".to_owned());
    }
    let runs = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if runs { None } else { Some(format!("no {tool}")) }
}

/// A copy of the library that nobody else has loaded, and the C program that will load it.
struct Setting {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Setting {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let program = library::c_program("embed.c")?;
        std::fs::copy(library::shared_library(), directory.path().join("libguestscope.so.1"))
            .expect("just built");
        Some(Self { directory, program })
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("libguestscope.so.1")
    }

    /// Lets `command` run the program on this copy: a library that is there already is not looked for.
    fn run_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let preload = format!("LD_PRELOAD={}", self.library().display());
        command.args(["env", &preload]).arg(&self.program);
        command.args(["--requests", &REQUESTS.to_string(), "--work-ms", "1", "--await-ms", "5"])
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn bpftrace_counts_every_edge_and_reads_names() {
    let name = "bpftrace_counts_every_edge_and_reads_names";
    if let Some(obstacle) = obstacle("bpftrace") {
        return skipped(name, &obstacle);
    }
    let Some(setting) = Setting::new() else { return skipped(name, "no C compiler") };
    // The tick comes a second after everything is attached.
    let script = format!(
        "usdt:{}:guestscope:edge {{ @operations[arg0 & 255] = count(); \
         if ((arg0 & 255) == 1) {{ @names[str(arg2, arg3)] = count(); }} }} \
         interval:s:1 {{ printf(\"tick\\n\"); }}",
        setting.library().display()
    );
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-f", "json", "-e", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut bpftrace = bpftrace.spawn().expect("it runs, as seen above");
    let mut lines = BufReader::new(bpftrace.stdout.take().expect("piped above"));
    let mut line = String::new();
    while !line.contains("tick") {
        line.clear();
        if lines.read_line(&mut line).expect("UTF-8") == 0 {
            bpftrace.wait().expect("it is ours");
            return skipped(name, "bpftrace does not attach in this kernel");
        }
    }
    output(setting.run_by(&mut Command::new("env")));
    // SAFETY: signals a child that was not waited for, so its number is still its own.
    unsafe { libc::kill(bpftrace.id() as i32, libc::SIGINT) };
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("UTF-8");
    bpftrace.wait().expect("it is ours");

    let maps = rest.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let maps: Vec<Value> =
        maps.filter(|line| line["type"] == "map").map(|mut line| line["data"].take()).collect();
    let find =
        |map: &str| maps.iter().find_map(|data| data.get(map)?.as_object()).expect("the map has entries");
    let number =
        |(key, count): (&String, &Value)| (key.parse().expect("a number"), count.as_u64().expect("a number"));
    assert_eq!(find("@operations").iter().map(number).collect::<BTreeMap<u64, u64>>(), expected());
    let names: BTreeMap<&str, u64> = find("@names")
        .iter()
        .map(|(name, count)| (name.as_str(), count.as_u64().expect("a number")))
        .collect();
    assert_eq!(names, BTreeMap::from([("fetch", REQUESTS), ("finish", REQUESTS), ("prepare", REQUESTS)]));
}

/// perf with a build-id cache of its own: the user's stays as it is.
fn perf(cache: &Path) -> Command {
    let mut perf = Command::new("perf");
    perf.arg("--buildid-dir").arg(cache);
    perf
}

#[test]
fn perf_records_every_edge() {
    let name = "perf_records_every_edge";
    if let Some(obstacle) = obstacle("perf") {
        return skipped(name, &obstacle);
    }
    if !Path::new("/sys/kernel/tracing/uprobe_events").exists() {
        return skipped(name, "no uprobe_events: tracefs is not mounted, or the kernel has no uprobes");
    }
    let Some(setting) = Setting::new() else { return skipped(name, "no C compiler") };
    let (cache, data) = (setting.directory.path().join("cache"), setting.directory.path().join("perf.data"));
    output(perf(&cache).arg("buildid-cache").arg("--add").arg(setting.library()));
    let before = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").expect("seen above");
    if before.contains(":sdt_guestscope/") {
        return skipped(name, "somebody has a probe of this name");
    }
    output(perf(&cache).args(["probe", "--quiet", "sdt_guestscope:edge"]));
    let mut record = perf(&cache);
    record.args(["record", "--quiet", "-e", "sdt_guestscope:edge", "-o"]).arg(&data).arg("--");
    let recorded = setting.run_by(&mut record).output();
    output(perf(&cache).args(["probe", "--quiet", "--del", "sdt_guestscope:edge"]));
    assert!(recorded.expect("perf runs").status.success());

    let script = output(perf(&cache).arg("script").args(["-F", "event,trace", "-i"]).arg(&data));
    let mut operations = BTreeMap::new();
    for line in script.lines().filter(|line| line.contains("sdt_guestscope:edge")) {
        let head = line
            .split_whitespace()
            .find_map(|field| field.strip_prefix("arg1="))
            .expect("the first argument");
        *operations.entry(head.parse::<u64>().expect("a number") & 0xff).or_default() += 1;
    }
    assert_eq!(operations, expected());
}
