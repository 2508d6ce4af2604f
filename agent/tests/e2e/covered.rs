//! Jobs that are no row of the workloads' list, under the agent: with several processes, in an open loop, on
//! pictures from a disk, beside another job. Each of their requests lies inside its phases, as in the rows of
//! the list.
//!
//! Sizes are such that the shortest request takes milliseconds: an edge may take 5 us on a busy virtual
//! machine, and its time before a phase begins is outside of that phase. One thread each: with more,
//! libtorch's threads busy-wait beside other load.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    path::PathBuf,
    process::Command,
};

use guestscope::phase::{Ending, PhaseKind, Request};
use rstest::rstest;

use crate::{
    coverage,
    folder::Seen,
    ground::{Ground, skipped, variable},
    running::Start,
};

/// Phase that an open loop adds in front of a request.
const QUEUE: &str = "queue";

/// Requests of one name.
struct Group {
    name: &'static str,
    phases: &'static [&'static str],
    /// Number of the requests; none if the end of another job decides it.
    count: Option<usize>,
    processes: usize,
}

impl Group {
    /// The message if too many of the requests that ended have too little time inside their phases.
    fn poor(&self, seen: &Seen) -> Option<String> {
        let mut requests = seen.named(self.name);
        requests.retain(|request| request.root().ending == Ending::Ended);
        self.check(&requests);
        coverage::poor(self.name, &requests)
    }

    /// Checks that hold however busy the machine is.
    fn check(&self, requests: &[&Request]) {
        let Self { name, phases, count, processes } = self;
        assert_eq!(requests.len(), count.unwrap_or(requests.len()), "{name}");
        let found: BTreeSet<u32> = requests.iter().map(|request| request.root().thread.tgid).collect();
        assert_eq!(found.len(), *processes, "{name}");
        for request in requests {
            let names: Vec<&str> = request.phases[1..].iter().map(|phase| phase.name.stored()).collect();
            assert_eq!(names, *phases, "{name}");
        }
    }
}

/// Runs a workload, again if the machine disturbed it; `look` checks what holds in each run.
fn judge(test: &str, words: &[&OsStr], groups: &[Group], look: impl Fn(&Seen)) {
    let Some(workloads) = program(test) else { return };
    for attempt in 1..=coverage::ATTEMPTS {
        let Some(ground) = Ground::new(test) else { return };
        let start = ground.run().environment("OMP_WAIT_POLICY", "passive").program(&workloads);
        let done = words.iter().fold(start, Start::word).finish();
        if done.code() == 2 && done.stderr.contains("this build has no libtorch") {
            return skipped(test, "the workloads were built without libtorch");
        }
        let seen = done.expect(0).seen();
        look(&seen);
        let poor: Vec<String> = groups.iter().filter_map(|group| group.poor(&seen)).collect();
        if poor.is_empty() {
            return;
        }
        assert!(attempt < coverage::ATTEMPTS, "{poor:#?}");
    }
}

fn program(test: &str) -> Option<OsString> {
    let found = variable("GUESTSCOPE_WORKLOADS_BIN");
    if found.is_none() {
        skipped(test, "GUESTSCOPE_WORKLOADS_BIN is not set");
    }
    found
}

fn words(line: &str) -> Vec<&OsStr> {
    line.split(' ').map(OsStr::new).collect()
}

const ALONE: &[&str] = &["data", "forward", "backward", "optimizer"];
const WORKER: &[&str] = &["pull", "data", "forward", "backward", "push"];

/// The steps of both workers, and the parameter server's requests for them.
#[rstest]
#[case::synchronous("covered::a_job_of_several_processes", &[])]
#[case::asynchronous("covered::a_job_of_several_processes, asynchronous", &["--asynchronous"])]
fn a_job_of_several_processes(#[case] test: &str, #[case] more: &[&str]) {
    let (workers, steps, warmups) = (2, 10, 1);
    let line = "train mnist --workers 2 --threads 1 --batch 64 --steps 10 --warmup 1 --json";
    let more = more.iter().map(OsStr::new);
    let all = workers * (steps + warmups);
    let group = |name, phases, count, processes| Group { name, phases, count: Some(count), processes };
    let groups = [
        group("step", WORKER, workers * steps, workers),
        group("warmup", WORKER, workers * warmups, workers),
        // Each worker pulls once more at its end.
        group("pull", &["wait", "copy", "send"], all + workers, 1),
        group("push", &["receive", "optimizer"], all, 1),
    ];
    judge(test, &words(line).into_iter().chain(more).collect::<Vec<_>>(), &groups, |seen| {
        let total: usize = groups.iter().map(|group| group.count.unwrap_or(0)).sum();
        assert_eq!(seen.requests.len(), total, "and nothing else");
    });
}

/// 400 arrivals a second, of which two workers can serve half: waiting is in the phase `queue`, the rest in
/// the other phases.
#[test]
fn an_open_loop() {
    let test = "covered::an_open_loop";
    let line =
        "infer loop --scenario server --work 10ms --qps 400 --requests 60 --warmup 2 --workers 2 --json";
    let group = |name, phases, count| Group { name, phases, count: Some(count), processes: 1 };
    let groups = [
        group("request", &[QUEUE, "preprocess", "inference", "postprocess"], 60),
        group("warmup", &["preprocess", "inference", "postprocess"], 4),
    ];
    judge(test, &words(line), &groups, |seen| {
        let (mut queued_ns, mut served_ns) = (0, 0);
        for request in seen.named("request") {
            let (root, queue) = (request.root(), &request.phases[1]);
            assert_eq!((queue.kind, queue.name.stored()), (PhaseKind::Queue, QUEUE));
            // No gap between the queue and the request.
            assert_eq!(queue.start_ns + queue.duration_ns, root.start_ns, "{request:#?}");
            assert!(coverage::is_whole(request), "{request:#?}");
            queued_ns += queue.duration_ns;
            served_ns += root.duration_ns;
        }
        assert!(queued_ns > served_ns, "{queued_ns} ns before {served_ns} ns of service");
    });
}

/// Pictures that loader threads read and prepare while the step before is computed.
#[rstest]
#[case::folder("covered::training_from_a_disk, folder", None)]
#[case::tfrecord("covered::training_from_a_disk, tfrecord", Some("tfrecord"))]
#[case::tar("covered::training_from_a_disk, tar", Some("tar"))]
fn training_from_a_disk(#[case] test: &str, #[case] shards: Option<&str>) {
    let (Some(workloads), Some(ground)) = (program(test), Ground::new(test)) else { return };
    let Some(mut data) = pictures(&ground, &workloads) else {
        return skipped(test, "the workloads were built without libtorch");
    };
    if let Some(format) = shards {
        let out = ground.path(format);
        let mut pack = Command::new(&workloads);
        pack.args(["shards", "--per-shard", "16", "--format", format, "--data"]).arg(&data);
        let packed = pack.arg("--output").arg(&out).output().expect("GUESTSCOPE_WORKLOADS_BIN can be run");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        data = out;
    }
    let line =
        "train resnet50 --loaders 2 --drop-caches --threads 1 --batch 2 --steps 6 --warmup 1 --json --data";
    let mut words = words(line);
    words.push(data.as_os_str());
    let group = |name, count| Group { name, phases: ALONE, count: Some(count), processes: 1 };
    judge(test, &words, &[group("step", 6), group("warmup", 1)], |seen| {
        let workload = seen.manifest.workload.as_ref().expect("it describes itself");
        assert_eq!(
            (&workload["data"], &workload["loaders"]),
            (&shards.unwrap_or("folder").into(), &2.into())
        );
        let loaders =
            seen.threads.iter().filter(|thread| thread.comm.stored().starts_with("loader-")).count();
        assert_eq!(loaders, 2, "{:#?}", seen.threads);
    });
}

/// A folder of JPEG files, made by `infer ic`. None if that cannot be run here.
fn pictures(ground: &Ground, workloads: &OsStr) -> Option<PathBuf> {
    let cache = ground.path("cache");
    let mut make = Command::new(workloads);
    make.args(["infer", "ic", "--smoke", "--requests", "1", "--warmup", "0", "--threads", "1"]);
    let made = make.env("XDG_CACHE_HOME", &cache).output().expect("GUESTSCOPE_WORKLOADS_BIN can be run");
    let said = String::from_utf8_lossy(&made.stderr);
    if said.contains("this build has no libtorch") {
        return None;
    }
    assert!(made.status.success(), "{said}");
    let folders = fs::read_dir(cache.join("guestscope")).expect("it keeps what it makes");
    let mut folders = folders.map(|entry| entry.expect("it can be listed").path());
    folders.find(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"images-")))
}

/// The second job is ended in the middle of a step; that step is not checked.
#[test]
fn a_job_beside_another() {
    let line = "train mnist --threads 1 --batch 64 --steps 30 --warmup 2 --json --beside";
    let mut words = words(line);
    words.push(OsStr::new("train mnist --threads 1 --batch 64 --steps 1000000 --warmup 1"));
    let group = |name, count, processes| Group { name, phases: ALONE, count, processes };
    let groups = [group("step", Some(30), 1), group("beside step", None, 1), group("warmup", Some(3), 2)];
    judge("covered::a_job_beside_another", &words, &groups, |seen| {
        let process = |name: &str| seen.named(name)[0].root().thread.tgid;
        assert_ne!(process("step"), process("beside step"));
        assert!(seen.named("beside step").len() > 10, "{}", seen.named("beside step").len());
    });
}
