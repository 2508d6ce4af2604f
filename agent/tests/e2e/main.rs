//! Complete runs of the static agent as root, judged by their results: folder, standard output, Jaeger, the
//! program, the machine. They need what `cargo xtask test` sets up; feature `e2e-tests`.
//!
//! The observed programs are the example `e2e_subject`, those of the marker's tests, Python scripts in
//! tests/data/e2e and the workloads. No test depends on the machine's speed; every wait has a limit.
#![cfg(target_os = "linux")]

mod attach;
mod awaited;
mod beside;
mod bounded;
mod btf;
mod collector;
mod compared;
mod compared_traces;
#[path = "../../examples/soak/collector.rs"]
mod counting;
mod coverage;
mod covered;
mod crash;
mod devices;
mod disk;
mod drivers;
mod engines;
mod evidence;
mod exported;
mod filter;
mod folder;
mod functions;
mod goroutine_requests;
mod goroutines;
mod gpu_work;
mod ground;
mod groups;
mod held_up;
mod hidden;
mod hints;
mod hostile_files;
mod hostile_marks;
mod hostile_names;
mod http;
mod hygiene;
mod injected;
mod interleaved;
mod jaeger;
mod joined;
mod kept;
mod late;
mod limited;
mod listed;
mod lives;
mod main_job;
mod markers;
mod mounts;
mod native;
mod natives;
mod outage;
mod pauses;
mod person;
mod privileges;
mod proxy;
mod python_auto;
mod python_servers;
mod ranks;
mod refusals;
mod requests;
mod resident;
mod resident_faults;
mod resident_metrics;
mod resident_spans;
mod running;
mod situations;
mod socket;
mod surroundings;
mod texts;
mod thread_groups;
mod truth;
mod under_sudo;
mod unprivileged;
mod waits;
mod watching;
mod whereabouts;
