//! Programs that block their observer: the agent continues, reports it, and ends on a signal.

use std::{
    ffi::{CStr, OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::Read as _,
    os::{
        fd::{AsRawFd as _, FromRawFd as _},
        unix::{ffi::OsStrExt as _, fs::PermissionsExt},
    },
};

use nix::sys::signal::Signal;

use crate::ground::{Ground, eventually, subject};

/// A terminal that this test reads all the time; gives the path by which a program opens it.
fn terminal() -> OsString {
    let mut name = [0; 64];
    // SAFETY: a descriptor of our own, and a buffer as long as is said.
    let mut line = unsafe {
        let line = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(line >= 0 && libc::grantpt(line) == 0 && libc::unlockpt(line) == 0, "there are terminals");
        assert_eq!(libc::ptsname_r(line, name.as_mut_ptr(), name.len()), 0, "they have names");
        File::from_raw_fd(line)
    };
    // SAFETY: the buffer holds a string that ends with a zero.
    let path = unsafe { CStr::from_ptr(name.as_ptr()) };
    let path = OsStr::from_bytes(path.to_bytes()).to_owned();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // Reads until every other descriptor of it is closed.
        while line.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
    path
}

fn open(terminal: &OsStr) -> File {
    OpenOptions::new().read(true).write(true).open(terminal).expect("it is there")
}

/// If the terminal stops processes that write from the background, the agent, which draws its progress line
/// there, would be stopped with everything that it observes.
#[test]
fn a_program_in_front_of_the_terminal_stops_nobody() {
    let Some(ground) = Ground::new("held_up::a_program_in_front_of_the_terminal_stops_nobody") else {
        return;
    };
    let terminal = terminal();
    // A shell's job: the kernel does not stop a process group that has no shell to continue it.
    let shell = ["setsid", "--ctty", "--wait", "sh", "-c", "set -m; \"$@\"", "sh"];
    let start = ground.command(&["run", "--output", "runs"]).through(&shell);
    let start = start.environment("E2E_BOOK", ground.path("book")).environment("TERM", "xterm");
    let start = start.stdin(open(&terminal)).stderr(open(&terminal));
    let done = start.program(subject()).words(&["in-front", "2000"]).finish().expect(0);
    assert!(done.stdout.contains("exited with 0"), "{}", done.stdout);
    assert_eq!(done.seen().requests.len(), 1);
}

/// A process that alone has a file open for writing may hold a lease on it (fcntl(2)): executing the file
/// waits for that process.
fn leased(path: &std::path::Path) -> File {
    const F_SETSIG: i32 = 10;
    let file = OpenOptions::new().write(true).open(path).expect("the folder is ours");
    // The kernel announces the break of a lease by a signal, which must not end this process.
    for (command, value) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, libc::F_WRLCK)] {
        // SAFETY: no pointers are passed.
        let set = unsafe { libc::fcntl(file.as_raw_fd(), command, value) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
    file
}

#[test]
fn a_start_that_is_held_up_can_be_ended() {
    let Some(ground) = Ground::new("held_up::a_start_that_is_held_up_can_be_ended") else { return };
    let (interpreter, script) = (ground.path("interpreter"), ground.path("script"));
    fs::copy("/bin/sh", &interpreter).expect("there is a shell");
    fs::write(&script, format!("#!{}\nexit 7\n", interpreter.display())).expect("the folder is ours");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let lease = leased(&interpreter);
    let run = ground.run().program(&script).spawn();
    let waits = |pid: &str| {
        let channel = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        channel.contains("lease").then_some(())
    };
    eventually("the program waits for its interpreter", || {
        let children = format!("/proc/{0}/task/{0}/children", run.pid());
        fs::read_to_string(children).ok()?.split_whitespace().find_map(waits)
    });
    run.signal(Signal::SIGTERM);
    let done = run.finish();
    assert_eq!(done.code(), 1000 + libc::SIGTERM, "{}", done.stderr);
    drop(lease);
}
