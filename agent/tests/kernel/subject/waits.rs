//! Cases that wait: for time, for another thread, for a pipe, for a socket, for a descriptor.
//!
//! If the program can measure its calls itself, it notes `calls_ns`, which contains the waits.

use std::{
    fs::File,
    io::Read as _,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, RawFd},
        unix::net::UnixStream,
    },
    ptr,
    sync::{Condvar, Mutex},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::signal,
};

use crate::{Case, Subject, clerk::now_ns};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("sleep", sleep),
    ("sleepers", sleepers),
    ("lock", lock),
    ("pipe", pipe),
    ("recv", sockets),
    ("read", |subject| sockets_as_files(subject, 0)),
    // The last four of a small table of files, and a large table.
    ("read_60", |subject| sockets_as_files(subject, 60)),
    ("read_200", |subject| sockets_as_files(subject, 200)),
    ("pipe_200", |subject| pipe_from(subject, 200)),
    ("accept", accept),
    ("poll", |subject| timeouts(subject, poll)),
    ("ppoll", |subject| timeouts(subject, ppoll)),
    ("select", |subject| timeouts(subject, select)),
    ("epoll", |subject| timeouts(subject, epoll)),
    ("device", device),
    ("flock", |subject| file_lock(subject, flock)),
    ("record_lock", |subject| file_lock(subject, record_lock)),
    ("semaphore", semaphore),
];

/// Number of waits with a timeout, and the length of each.
const TIMEOUTS: u64 = 40;
pub(crate) const TIMEOUT: Duration = Duration::from_millis(10);
/// Number of round trips.
const ROUNDS: usize = 3000;

/// Notes a phase with `TIMEOUTS` calls, their measured time, and the requested time.
pub(crate) fn timeouts(subject: &Subject, call: impl Fn()) {
    subject.clerk(|clerk| {
        call();
        let calls_ns = clerk.book("wait", 1, || {
            let start_ns = now_ns();
            (0..TIMEOUTS).for_each(|_| call());
            now_ns() - start_ns
        });
        clerk.fact("calls_ns", calls_ns);
        clerk.fact("asked_ns", TIMEOUTS * TIMEOUT.as_nanos() as u64);
        clerk.fact("calls", TIMEOUTS);
    });
}

fn sleep(subject: &Subject) {
    timeouts(subject, || thread::sleep(TIMEOUT));
}

/// More long waits than their ring can hold while nobody reads.
fn sleepers(subject: &Subject) {
    const THREADS: usize = 8;
    const CALLS: u64 = 3_000;
    const CALL: Duration = Duration::from_micros(200);
    subject.clerks(THREADS, |thread, clerk| {
        clerk.book("work", thread as u64 + 1, || (0..CALLS).for_each(|_| thread::sleep(CALL)));
        clerk.fact("calls", CALLS);
    });
}

fn poll() {
    // SAFETY: no descriptors are passed.
    unsafe { libc::poll(ptr::null_mut(), 0, TIMEOUT.as_millis() as i32) };
}

fn ppoll() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(TIMEOUT.subsec_nanos()) };
    // SAFETY: no descriptors and no mask are passed; the time lives across the call.
    unsafe { libc::ppoll(ptr::null_mut(), 0, &raw const time, ptr::null()) };
}

fn select() {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: i64::from(TIMEOUT.subsec_micros()) };
    // SAFETY: no descriptors are passed; the time lives across the call.
    unsafe { libc::select(0, ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &raw mut time) };
}

fn epoll() {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: the descriptor is made and closed here; the event lives across the call.
    unsafe {
        let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        libc::epoll_wait(set, &raw mut event, 1, TIMEOUT.as_millis() as i32);
        libc::close(set);
    }
}

/// Calls that would wait longer, interrupted by a timer's signal.
pub(crate) fn cut_short(subject: &Subject, call: impl Fn()) {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = signal::SigAction::new(
        signal::SigHandler::Handler(nothing),
        signal::SaFlags::empty(),
        signal::SigSet::empty(),
    );
    // SAFETY: the handler does nothing at all.
    unsafe { signal::sigaction(signal::Signal::SIGALRM, &action) }.expect("the signal has no handler yet");
    timeouts(subject, || {
        let timer = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: 0, tv_usec: TIMEOUT.as_micros() as i64 },
        };
        // SAFETY: the timer lives across the call.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
        call();
    });
}

/// Waits for an event of a virtual terminal.
fn device(subject: &Subject) {
    /// Request number from <linux/vt.h>; libc lacks it.
    const VT_WAITEVENT: libc::Ioctl = 0x560e;
    let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty0") else {
        return subject.fact("refused", 1);
    };
    cut_short(subject, || {
        // The event's number and three more, of which the kernel writes some.
        let mut event = [0_u32; 4];
        // SAFETY: the event is as large as the call wants it.
        unsafe { libc::ioctl(terminal.as_raw_fd(), VT_WAITEVENT, event.as_mut_ptr()) };
    });
}

/// Waits, by `wait`, for a lock on a file that another open file holds.
fn file_lock(subject: &Subject, wait: impl Fn(RawFd)) {
    // SAFETY: the name ends with a zero.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC)) };
    let other = File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let other = other.expect("it is our own");
    wait(file.as_raw_fd());
    cut_short(subject, || wait(other.as_raw_fd()));
}

fn flock(file: RawFd) {
    // SAFETY: takes integers only.
    unsafe { libc::flock(file, libc::LOCK_EX) };
}

fn record_lock(file: RawFd) {
    // SAFETY: all zeros is a lock; it lives across the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        libc::fcntl(file, libc::F_OFD_SETLKW, &raw const lock);
    }
}

/// Waits for a semaphore of System V that nobody ever raises.
fn semaphore(subject: &Subject) {
    // SAFETY: takes integers only.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    timeouts(subject, || {
        let mut lower = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(TIMEOUT.subsec_nanos()) };
        // SAFETY: the operation and the time live across the call.
        unsafe { libc::syscall(libc::SYS_semtimedop, set, &raw mut lower, 1, &raw const time) };
    });
    // SAFETY: takes integers only; it is ours.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

/// Two threads pass a turn to each other under a mutex, by a condition variable.
fn lock(subject: &Subject) {
    let (turn, bell) = (Mutex::new(0), Condvar::new());
    subject.clerks(2, |player, clerk| {
        clerk.book("wait", player as u64 + 1, || {
            for _ in 0..ROUNDS {
                let mut turn = turn.lock().expect("no player panics");
                while *turn != player {
                    turn = bell.wait(turn).expect("no player panics");
                }
                *turn = 1 - player;
                bell.notify_one();
            }
        });
    });
}

/// Two threads send a byte to and fro: each reads its own end and writes the other's. The first one starts.
fn ping_pong(subject: &Subject, ends: [(impl std::io::Read + Send, impl std::io::Write + Send); 2]) {
    let ends = ends.map(|end| Mutex::new(Some(end)));
    subject.clerks(2, |player, clerk| {
        let (mut from, mut to) = ends[player].lock().expect("nobody panics").take().expect("taken once");
        clerk.book("wait", player as u64 + 1, || {
            let mut byte = [0];
            for _ in 0..ROUNDS {
                if player == 0 {
                    to.write_all(&byte).expect("the other end is open");
                }
                from.read_exact(&mut byte).expect("the other end is open");
                if player == 1 {
                    to.write_all(&byte).expect("the other end is open");
                }
            }
        });
        if player == 0 {
            clerk.fact("balls", ROUNDS as u64);
            clerk.fact("ball_bytes", 1);
        }
    });
}

fn pipe(subject: &Subject) {
    pipe_from(subject, 0);
}

/// Ping-pong over pipes with descriptors from this number on.
fn pipe_from(subject: &Subject, lowest: RawFd) {
    let pipes = [std::io::pipe(), std::io::pipe()].map(|pipe| pipe.expect("descriptors are left"));
    let [(first_reads, second_writes), (second_reads, first_writes)] = pipes;
    let (first, second) = (from(&first_reads, lowest), from(&second_reads, lowest));
    ping_pong(subject, [(first, from(&first_writes, lowest)), (second, from(&second_writes, lowest))]);
}

/// A copy of a descriptor as a file, with the lowest free number from `lowest` on.
fn from(fd: &impl AsFd, lowest: RawFd) -> File {
    let copy = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(lowest)).expect("descriptors are left");
    assert!(copy >= lowest);
    // SAFETY: it was made a moment ago, for this.
    unsafe { File::from_raw_fd(copy) }
}

/// Ping-pong over a pair of sockets, by recv.
fn sockets(subject: &Subject) {
    let (first, second) = UnixStream::pair().expect("descriptors are left");
    let clone = |socket: &UnixStream| socket.try_clone().expect("descriptors are left");
    ping_pong(subject, [(clone(&first), clone(&first)), (clone(&second), clone(&second))]);
}

/// Ping-pong over a pair of sockets by read: only the descriptor shows that it is no file.
fn sockets_as_files(subject: &Subject, lowest: RawFd) {
    let (first, second) = UnixStream::pair().expect("descriptors are left");
    let file = |socket: &UnixStream| from(socket, lowest);
    ping_pong(subject, [(file(&first), file(&first)), (file(&second), file(&second))]);
}

/// Accepts connections that come late, and reads until the peer is gone.
fn accept(subject: &Subject) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback device is up");
    let address = listener.local_addr().expect("it is bound");
    let connecting = thread::spawn(move || {
        for _ in 0..TIMEOUTS {
            thread::sleep(TIMEOUT / 2);
            drop(TcpStream::connect(address).expect("somebody listens"));
        }
    });
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for _ in 0..TIMEOUTS {
                let (mut stream, _) = listener.accept().expect("a connection comes");
                let mut rest = [0; 8];
                assert_eq!(stream.read(&mut rest).expect("the peer closes"), 0);
            }
        });
        clerk.fact("descriptor", listener.as_raw_fd() as u64);
    });
    connecting.join().expect("it does not panic");
}
