//! Holds BPF programs in place while a command runs, and tells what they cost: the inner half of `cargo xtask
//! bench`.
//!
//! `hooks empty|ledger|none [--track] [--unsampled] [--stats] -- CMD...` runs the command once under the
//! empty programs, the real ones (without the sampler, if that is to be left out), or none, and prints one
//! line of JSON: wall time and, with `--stats`, runs and ns of each program by the kernel's own statistics
//! (which cost about 35 ns a run themselves, so wall time is measured without them).
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, bail, ensure};
use aya::{
    Ebpf, EbpfLoader,
    programs::{BtfTracePoint, Program, UProbe, uprobe::UProbeScope},
    sys::Stats,
};
use guestscope::{
    child,
    loader::{self, LoadOptions, Loaded},
    phase::pairing::Pairing,
    probes::phase,
    pump::Pump,
};
use guestscope_kernel::EMPTY;

struct Arguments {
    programs: String,
    track: bool,
    unsampled: bool,
    stats: bool,
    marker: Option<PathBuf>,
    command: Vec<std::ffi::OsString>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut words = std::env::args().skip(1);
    let programs = words.next().context("which programs: empty, ledger or none")?;
    let mut arguments = Arguments {
        programs,
        track: false,
        unsampled: false,
        stats: false,
        marker: None,
        command: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--track" => arguments.track = true,
            "--unsampled" => arguments.unsampled = true,
            "--stats" => arguments.stats = true,
            "--marker" => arguments.marker = words.next().map(PathBuf::from),
            "--" => arguments.command = words.by_ref().map(Into::into).collect(),
            other => bail!("unknown argument: {other}"),
        }
    }
    ensure!(!arguments.command.is_empty(), "no command after --");
    Ok(arguments)
}

fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let statistics = arguments.stats.then(|| aya::sys::enable_stats(Stats::RunTime)).transpose()?;
    let (wall_ns, programs) = match arguments.programs.as_str() {
        "none" => (run(&arguments)?, BTreeMap::new()),
        "empty" => {
            let ebpf = load_empty(arguments.marker.as_deref())?;
            let wall_ns = run(&arguments)?;
            (wall_ns, costs(ebpf.programs()))
        }
        "ledger" => ledger(&arguments)?,
        other => bail!("unknown programs: {other}"),
    };
    drop(statistics);
    println!("{}", serde_json::json!({ "wall_ns": wall_ns, "programs": programs }));
    Ok(())
}

fn run(arguments: &Arguments) -> anyhow::Result<u64> {
    let start = Instant::now();
    let output = Command::new(&arguments.command[0]).args(&arguments.command[1..]).output()?;
    let wall_ns = start.elapsed().as_nanos() as u64;
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    ensure!(
        output.status.success(),
        "{}: {}",
        arguments.command[0].display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(wall_ns)
}

fn load_empty(marker: Option<&std::path::Path>) -> anyhow::Result<Ebpf> {
    let mut ebpf = EbpfLoader::new().load(EMPTY)?;
    let btf = aya::Btf::from_sys_fs()?;
    for (name, program) in ebpf.programs_mut() {
        if let Program::BtfTracePoint(program) = program {
            attach_tracepoint(program, name, &btf)?;
        } else if let Program::UProbe(program) = program {
            attach_marker(program, marker)?;
        }
    }
    Ok(ebpf)
}

fn attach_tracepoint(program: &mut BtfTracePoint, name: &str, btf: &aya::Btf) -> anyhow::Result<()> {
    program.load(name, btf)?;
    program.attach()?;
    Ok(())
}

fn attach_marker(program: &mut UProbe, marker: Option<&std::path::Path>) -> anyhow::Result<()> {
    program.load()?;
    if let Some(file) = marker {
        let offset = phase::find(file)?.context("no marker in the file")?;
        program.attach(offset, file, UProbeScope::AllProcesses)?;
    }
    Ok(())
}

/// The real programs; with `--track` the command runs adopted, and what it emits is read and paired.
fn ledger(arguments: &Arguments) -> anyhow::Result<(u64, BTreeMap<String, [u64; 2]>)> {
    let mut loaded = loader::load(&LoadOptions::default())?;
    if let Some(file) = &arguments.marker {
        loaded.marks.attach(&std::fs::File::open(file)?)?;
    }
    let wall_ns = if arguments.track { tracked(arguments, &mut loaded)? } else { run(arguments)? };
    Ok((wall_ns, costs(loaded.programs())))
}

fn tracked(arguments: &Arguments, loaded: &mut Loaded) -> anyhow::Result<u64> {
    let mut pump = Pump::new(loaded.take_rings()?);
    let mut pairing = Pairing::new([1; 16]);
    let start = Instant::now();
    ensure!(arguments.unsampled || loaded.sample_children(), "the program cannot be sampled");
    let mut child = child::spawn(&arguments.command, &[], Some(loaded.adopt_program()?.as_fd()), None)?;
    let status = loop {
        pump.drain(&mut pairing);
        pairing.take();
        loaded.keep_sampling();
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let wall_ns = start.elapsed().as_nanos() as u64;
    ensure!(status.success(), "{}: {status}", arguments.command[0].display());
    Ok(wall_ns)
}

/// Runs and ns by program, from the kernel's statistics.
fn costs<'a>(programs: impl Iterator<Item = (&'a str, &'a Program)>) -> BTreeMap<String, [u64; 2]> {
    let read = |program: &Program| -> Option<[u64; 2]> {
        let fd = program.fd().ok()?.as_fd().as_raw_fd();
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim_start_matches(':').trim().parse().ok())
        };
        Some([value("run_cnt")?, value("run_time_ns")?])
    };
    programs.filter_map(|(name, program)| Some((name.to_owned(), read(program)?))).collect()
}
