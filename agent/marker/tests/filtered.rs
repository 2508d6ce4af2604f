//! Programs that give up their system calls: the filter kills for every call of the library's that is not
//! made as it is loaded.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;

use std::{
    collections::HashSet,
    io::{Read as _, Write as _},
    os::unix::{net::UnixListener, process::ExitStatusExt as _},
    process::Command,
    thread,
};

use rstest::rstest;

/// How many filters this process is under, as an agent tells it to the program that it starts.
fn filters() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc is mounted");
    let of = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    of("Seccomp_filters:")
        .or_else(|| of("Seccomp:").map(|mode| if mode == "0" { "0" } else { "1" }))
        .unwrap_or("0")
        .to_owned()
}

/// Counts greetings, and answers them.
fn agent(listener: UnixListener) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let mut greetings = 0;
        while let Ok((mut stream, _)) = listener.accept() {
            let mut line = [0; 9];
            if stream.read_exact(&mut line).is_err() {
                // The test itself, at the end.
                return greetings;
            }
            greetings += 1;
            stream.write_all(b"1").expect("it waits for one byte");
        }
        greetings
    })
}

#[rstest]
#[case::first_mark_after_the_filter("before", 1, 10)]
#[case::a_child_that_is_forked_after_it("fork", 1, 30)]
#[case::a_thread_that_was_there("thread", 1, 20)]
#[case::loaded_after_the_filter("after", 0, 10)]
fn a_program_that_gave_up_its_system_calls_marks_and_lives(
    #[case] how: &str,
    #[case] greetings: usize,
    #[case] headers: usize,
) {
    let Some(program) = library::c_program("filtered.c") else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("notify.sock");
    let agent = agent(UnixListener::bind(&socket).expect("the directory is ours"));
    let mut command = Command::new(&program);
    command.arg(library::shared_library()).arg(how);
    command.env("GUESTSCOPE_NOTIFY", &socket).env("GUESTSCOPE_FILTERS", filters());
    let output = command.output().expect("the program starts");
    let _ = std::fs::remove_file(program);
    let end = std::os::unix::net::UnixStream::connect(&socket);
    drop(end.expect("the agent listens"));
    let met = agent.join().expect("the agent does not panic");
    assert_eq!(output.status.signal(), None, "killed by its filter");
    if output.status.code() == Some(77) {
        let _ = writeln!(std::io::stdout(), "skipped: filtered {how}: this kernel has no such filters");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "it got to its end");
    assert_eq!(met, greetings);
    let text = String::from_utf8(output.stdout).expect("headers");
    let ids: HashSet<&str> = text.lines().map(|line| &line[3..35]).collect();
    assert_eq!((text.lines().count(), ids.len()), (headers, headers), "each request has ids of its own");
}
