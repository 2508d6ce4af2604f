//! Programs without marks: their threads are grouped by name and role, each group with its accounts, compared
//! with what the threads measured themselves.

use serde_json::Value;

use crate::{
    ground::{Ground, file, python, skipped},
    running::Done,
};

/// A Python thread that only waits for the GIL looks like a pool's thread.
const WORKERS: [&str; 2] = ["worker", "pool"];

/// The group with this name and one of these roles.
#[track_caller]
fn group(summary: &Value, name: &str, roles: &[&str]) -> Value {
    let groups = summary["threads"]["groups"].as_array().expect("groups are a list");
    let found =
        groups.iter().find(|group| group["name"] == name && roles.iter().any(|role| group["role"] == *role));
    found.unwrap_or_else(|| panic!("no {name} {roles:?} in {groups:#?}")).clone()
}

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a time in ns: {value}"))
}

/// Runs the program; returns what each kind of thread measured of itself.
fn run(ground: &Ground, test: &str, words: &[&str]) -> Option<(Done, impl Fn(&str) -> u64)> {
    let python = python(test)?;
    let script = file("tests/data/e2e/thread_groups.py");
    let done = ground.run().program(python).word(script).words(words).finish().expect(0);
    let book = ground.book();
    let truth = move |kind: &str| {
        let line = book.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
        line.and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {kind} in {book}"))
    };
    Some((done, truth))
}

/// Time on a CPU as the BPF programs see it is at least the thread's own CPU time: it includes what a
/// hypervisor took.
#[test]
fn threads_of_a_program_without_marks_stand_in_groups() {
    let test = "thread_groups::threads_of_a_program_without_marks_stand_in_groups";
    let Some(ground) = Ground::new(test) else { return };
    let Some((done, truth)) = run(&ground, test, &[]) else { return };
    let summary = done.summary();
    assert_eq!(summary["groups"].as_array().map(Vec::len), Some(0), "no request");
    let workers = group(&summary, "grpc_*", &WORKERS);
    assert_eq!(workers["threads"], 3);
    assert!(ns(&workers["time"]["cpu_ns"]) >= truth("grpc"), "{workers:#} and {}", truth("grpc"));
    let watch = group(&summary, "net-watch", &["loop"]);
    assert_eq!(watch["threads"], 1);
    assert!(ns(&watch["time"]["poll_ns"]) > ns(&watch["active_ns"]), "{watch:#}");
    let groups = summary["threads"]["groups"].as_array().expect("groups are a list");
    let main = groups.iter().filter(|group| group["role"] == "main");
    let mains_ns: u64 = main.map(|group| ns(&group["time"]["cpu_ns"])).sum();
    assert!(mains_ns >= truth("main"), "{groups:#?} and {}", truth("main"));
    assert_eq!(summary["threads"]["active_inside_phases_ns"], 0);
}

/// A program with a request: its time is in its phases, the workers' time is outside.
#[test]
fn what_threads_did_outside_phases_is_told_beside_them() {
    let test = "thread_groups::what_threads_did_outside_phases_is_told_beside_them";
    let Some(ground) = Ground::new(test) else { return };
    let Some((done, truth)) = run(&ground, test, &["marked"]) else { return };
    let summary = done.summary();
    let seen = done.seen();
    let request = seen.only("classify").root();
    let inside_ns = ns(&summary["threads"]["active_inside_phases_ns"]);
    assert!(inside_ns >= truth("main"), "{inside_ns} and {}", truth("main"));
    assert!(inside_ns <= request.duration_ns, "{inside_ns} and {}", request.duration_ns);
    let workers = group(&summary, "grpc_*", &WORKERS);
    assert!(ns(&workers["time"]["cpu_ns"]) >= truth("grpc"), "{workers:#} and {}", truth("grpc"));
}

/// All threads have the program's name: OpenMP's are recognised by the call that they wait in.
#[test]
fn the_pool_of_openmp_is_told_from_the_main_thread() {
    let test = "thread_groups::the_pool_of_openmp_is_told_from_the_main_thread";
    let Some(ground) = Ground::new(test) else { return };
    let Ok(compiler) = guestscope::child::resolve("cc") else { return skipped(test, "no C compiler") };
    let source = "#include <unistd.h>\nint main(void) {\n  double sum = 0;\n  for (int round = 0; round < 20; round++) {\n\
                  #pragma omp parallel for reduction(+ : sum)\n    for (int i = 0; i < 2000000; i++)\n      \
                  sum += i * 0.5;\n    usleep(2000);\n  }\n  return sum < 0;\n}\n";
    std::fs::write(ground.path("omp.c"), source).expect("the folder is ours");
    let compile = std::process::Command::new(compiler)
        .args(["-fopenmp", "-o"])
        .args([ground.path("omp"), ground.path("omp.c")])
        .output()
        .expect("the compiler can be run");
    if !compile.status.success() {
        return skipped(test, "the C compiler knows no OpenMP");
    }
    for policy in ["active", "passive"] {
        let start = ground.run().program(ground.path("omp")).environment("OMP_NUM_THREADS", "3");
        let done = start.environment("OMP_WAIT_POLICY", policy).finish().expect(0);
        let summary = done.summary();
        assert_eq!(summary["threads"]["seen"], 3, "{policy}: {summary:#}");
        assert_eq!(group(&summary, "omp", &["main"])["threads"], 1, "{policy}");
        assert_eq!(group(&summary, "omp", &["pool"])["threads"], 2, "{policy}");
    }
}
