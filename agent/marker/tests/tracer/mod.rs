//! A small agent without privileges: it answers the library's greeting, puts a breakpoint on the probe point
//! of the greeting process by ptrace, and collects the edges of all its threads and forked children.
//! Yields edges in the order in which the process fired them, and what the program printed.
//! It deliberately does what the real agent does with a uprobe, rendezvous included, so a program under it is
//! unmodified.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::FileExt,
        io::AsRawFd,
        net::{UnixListener, UnixStream},
        process::ExitStatusExt,
    },
    path::Path,
    process::{Command, ExitStatus, Stdio},
    ptr,
    sync::mpsc,
    time::Duration,
};

use libc::{c_void, pid_t};

use crate::{library::probes, wire::Edge};

/// What a traced program did.
#[allow(dead_code, reason = "each test reads what it is about")]
pub(crate) struct Trace {
    pub(crate) edges: Vec<Edge>,
    pub(crate) output: String,
    /// How many processes greeted.
    pub(crate) greetings: usize,
}

/// A greeting on its way to the tracing thread, and the way back of "attached".
struct Greeting {
    process: pid_t,
    attached: mpsc::Sender<()>,
}

/// Runs `command` to its end under the tracer. Err: tracing is refused here, with the reason.
#[expect(clippy::zombie_processes, reason = "the tracer waits for the program, as for every other thread")]
pub(crate) fn trace(command: &mut Command) -> Result<Trace, String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("notify.sock");
    let listener = UnixListener::bind(&socket).expect("the directory is ours");
    let (sender, receiver) = mpsc::channel();
    let stop = listener.try_clone().expect("a descriptor is left");
    let acceptor = std::thread::spawn(move || accept(&listener, &sender));
    command.env("GUESTSCOPE_NOTIFY", &socket).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdout = child.stdout.take().expect("piped above");
    let output = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("the program prints UTF-8");
        text
    });
    let first = receiver.recv_timeout(Duration::from_mins(1)).expect("the program greets");
    assert_eq!(first.process, child.id() as pid_t, "the program itself greets first");
    let mut tracer = Tracer { points: Vec::new(), edges: Vec::new() };
    let attached = tracer.attach(first.process);
    first.attached.send(()).expect("the acceptor waits");
    if let Err(reason) = attached {
        child.kill().expect("the program is ours");
        child.wait().expect("the program is ours");
        return Err(reason);
    }
    let status = tracer.follow(first.process);
    // SAFETY: shuts a socket down that this function owns; the acceptor's `accept` then fails and it ends.
    unsafe { libc::shutdown(stop.as_raw_fd(), libc::SHUT_RDWR) };
    let greetings = acceptor.join().expect("the acceptor does not panic");
    let output = output.join().expect("the reader does not panic");
    assert!(status.success(), "the program ends well: {status}\n{output}");
    Ok(Trace { edges: tracer.edges, output, greetings })
}

/// Answers greetings until the listener is shut down: the first when the tracer has attached, later ones (of
/// forked children, which inherit the breakpoint) at once.
fn accept(listener: &UnixListener, attach: &mpsc::Sender<Greeting>) -> usize {
    let mut greetings = 0;
    while let Ok((mut stream, _)) = listener.accept() {
        let mut line = [0; 9];
        stream.read_exact(&mut line).expect("nine bytes of greeting");
        assert_eq!(&line, b"marker 1\n");
        if greetings == 0 {
            let (attached, wait) = mpsc::channel();
            attach.send(Greeting { process: peer(&stream), attached }).expect("the tracer waits");
            wait.recv().expect("the tracer answers");
        }
        greetings += 1;
        stream.write_all(b"1").expect("the library waits for one byte");
    }
    greetings
}

fn peer(stream: &UnixStream) -> pid_t {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of_val(&peer) as libc::socklen_t;
    let to = (&raw mut peer).cast::<c_void>();
    // SAFETY: the kernel writes at most `bytes` bytes to `peer`.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut bytes)
    };
    assert_eq!(result, 0);
    peer.pid
}

struct Tracer {
    /// Addresses of the breakpoints; forked children have the same.
    points: Vec<u64>,
    edges: Vec<Edge>,
}

fn ptrace(request: libc::c_uint, thread: pid_t, data: u64) -> Result<(), String> {
    // SAFETY: the requests used here take a number, or, for GETREGS, a pointer to a live block of registers.
    let result = unsafe { libc::ptrace(request, thread, ptr::null_mut::<c_void>(), data as *mut c_void) };
    if result == -1 { Err(format!("ptrace {request}: {}", std::io::Error::last_os_error())) } else { Ok(()) }
}

impl Tracer {
    /// Takes all threads of the process under trace and sets the breakpoints while they stand.
    fn attach(&mut self, process: pid_t) -> Result<(), String> {
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process waits for the answer");
        let number = |task: std::io::Result<fs::DirEntry>| task.ok()?.file_name().to_str()?.parse().ok();
        let threads: Vec<pid_t> = tasks.filter_map(number).collect();
        for thread in &threads {
            ptrace(libc::PTRACE_SEIZE, *thread, options as u64)?;
            ptrace(libc::PTRACE_INTERRUPT, *thread, 0)?;
            // SAFETY: waits for a thread that this one traces; no status is asked for.
            assert_eq!(unsafe { libc::waitpid(*thread, ptr::null_mut(), libc::__WALL) }, *thread);
        }
        self.points = points(process);
        assert!(!self.points.is_empty(), "a file with the marker is mapped");
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{process}/mem"));
        let memory = memory.map_err(|error| format!("/proc/{process}/mem: {error}"))?;
        for point in &self.points {
            let mut body = [0; 7];
            memory.read_exact_at(&mut body, *point).expect("the point is mapped");
            assert_eq!(body, [0x90, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3], "nop, nop5, ret");
            memory.write_all_at(&[0xcc], *point).map_err(|error| format!("a breakpoint: {error}"))?;
        }
        threads.iter().try_for_each(|thread| ptrace(libc::PTRACE_CONT, *thread, 0))
    }

    /// Lets everything run to its end; returns how the process ended.
    fn follow(&mut self, process: pid_t) -> ExitStatus {
        let mut ended = None;
        loop {
            let mut status = 0;
            // SAFETY: waits for any thread that this one traces, and for its children, which is the process.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if thread == -1 {
                return ended.expect("the process was waited for");
            }
            if !libc::WIFSTOPPED(status) {
                if thread == process {
                    ended = Some(ExitStatus::from_raw(status));
                }
                continue;
            }
            let event = status >> 16;
            let signal = libc::WSTOPSIG(status);
            let pass = event == 0 && !(signal == libc::SIGTRAP && self.record(thread));
            // A thread that was killed meanwhile cannot go on, and is waited for next.
            let _ = ptrace(libc::PTRACE_CONT, thread, if pass { signal as u64 } else { 0 });
        }
    }

    /// Records the edge at whose breakpoint the thread stands; false where it stands elsewhere.
    fn record(&mut self, thread: pid_t) -> bool {
        // SAFETY: all bits zero is a block of registers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        if ptrace(libc::PTRACE_GETREGS, thread, &raw mut registers as u64).is_err()
            || !self.points.contains(&(registers.rip - 1))
        {
            return false;
        }
        let libc::user_regs_struct { rdi, rsi, rdx, rcx, r8, r9, .. } = registers;
        let bytes = if matches!(rdi & 0xff, 1 | 2 | 8..=10) { (rcx & 0xffff_ffff).min(64) } else { 0 };
        let mut name = vec![0; bytes as usize];
        let memory = fs::File::open(format!("/proc/{thread}/mem")).expect("the thread is under trace");
        memory.read_exact_at(&mut name, rdx).expect("the name is mapped");
        let name = String::from_utf8_lossy(&name).into_owned();
        // Read through /proc, which brings a page in, so residence cannot be told.
        self.edges.push(Edge { thread, arguments: [rdi, rsi, rdx, rcx, r8, r9], name, name_resident: true });
        true
    }
}

/// Where the probe points of all mapped files are.
fn points(process: pid_t) -> Vec<u64> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("the process stands");
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let mut fields = line.split_whitespace();
        let (Some(range), Some(offset), Some(path)) = (fields.next(), fields.nth(1), fields.nth(2)) else {
            continue;
        };
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let (start, end) = range.split_once('-').expect("a range");
        let (start, end, offset) = (hexadecimal(start), hexadecimal(end), hexadecimal(offset));
        let in_mapping =
            |at: u64| (offset..offset + (end - start)).contains(&at).then(|| start + (at - offset));
        if path.starts_with('/') {
            found.extend(probes(Path::new(path)).iter().filter_map(|probe| in_mapping(probe.file_offset)));
        }
    }
    found
}
