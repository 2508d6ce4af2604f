//! Runs requests that take turns as tokio tasks; README.md says what they do and print.
//! It deliberately measures its own CPU time by the thread's clock, so that a test has something to compare
//! with.
#![expect(clippy::print_stdout, reason = "the lines on stdout are what this program is for")]

use std::time::{Duration, Instant};

use guestscope_marker::{in_phase, in_request, mark, traceparent};
use serde_json::{Value, json};

struct Options {
    requests: u64,
    work: Duration,
    wait: Duration,
    threads: u64,
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and lives to the end of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Burns that much CPU time of this thread and returns how much it was.
fn work(duration: Duration) -> Duration {
    let start = thread_time();
    while thread_time().saturating_sub(start) < duration {
        std::hint::spin_loop();
    }
    thread_time().saturating_sub(start)
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn phase_line(name: &str, busy: Duration, wait: Duration) -> Value {
    json!({ "name": name, "busy_ns": nanoseconds(busy), "await_ns": nanoseconds(wait) })
}

async fn fetch(wait: Duration) -> Value {
    tokio::time::sleep(wait).await;
    phase_line("fetch", Duration::ZERO, wait)
}

async fn finish(duration: Duration, wait: Duration) -> Value {
    let mut busy = work(duration / 2);
    tokio::time::sleep(wait / 2).await;
    busy += work(duration / 2);
    phase_line("finish", busy, wait / 2)
}

async fn handle(number: u64, duration: Duration, wait: Duration) {
    let start = Instant::now();
    mark("started");
    let header = traceparent();
    let phases = [
        in_phase("prepare", async { phase_line("prepare", work(duration), Duration::ZERO) }).await,
        in_phase("fetch", fetch(wait)).await,
        in_phase("finish", finish(duration, wait)).await,
    ];
    let sum = |field: &str| phases.iter().filter_map(|phase| phase[field].as_u64()).sum::<u64>();
    let line = json!({
        "program": "interleaved_tokio", "request": number, "traceparent": header,
        "wall_ns": nanoseconds(start.elapsed()), "busy_ns": sum("busy_ns"), "await_ns": sum("await_ns"),
        "phases": phases,
    });
    println!("{line}");
}

async fn all(options: Options) {
    let Options { requests, work, wait, threads: _ } = options;
    let spawn = |number| tokio::spawn(in_request("request", number, handle(number, work, wait)));
    for task in (1..=requests).map(spawn).collect::<Vec<_>>() {
        if let Err(error) = task.await {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

fn options() -> Result<Options, String> {
    let milliseconds = Duration::from_millis;
    let mut options = Options { requests: 4, work: milliseconds(10), wait: milliseconds(40), threads: 2 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("no value: {name}"))?;
        let value: u64 = value.parse().map_err(|_| format!("no number: {value}"))?;
        match name.as_str() {
            "--requests" => options.requests = value,
            "--work-ms" => options.work = milliseconds(value),
            "--await-ms" => options.wait = milliseconds(value),
            "--threads" => options.threads = value,
            _ => return Err(format!("unknown option: {name}")),
        }
    }
    Ok(options)
}

fn main() -> Result<(), String> {
    let options = options()?;
    let mut builder = match options.threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        threads => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads as usize);
            builder
        }
    };
    let runtime = builder.enable_time().build().map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(all(options));
    Ok(())
}
