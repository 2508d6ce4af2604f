//! Cases over TCP on the loopback device: questions and answers, and lost segments. The notes have the
//! kernel's numbers for the socket (`TCP_INFO`).

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd as _,
    thread,
    time::Duration,
};

use crate::{Case, Subject, clerk::now_ns};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("tcp_asks", asks), ("tcp_loses", loses), ("tcp_is_cut_off", is_cut_off)];

/// Questions in the first phase.
const QUESTIONS: u64 = 100;
/// Time that the other side takes to answer.
const THINKING: Duration = Duration::from_millis(2);
/// Number of retransmissions.
const LOST: u32 = 2;
/// Number of expired retransmission timers while there is no network.
const FAILED: u8 = 2;

/// The numbers of `struct tcp_info` that matter here.
struct Info {
    retransmits: u32,
    /// Retransmission timers that expired in a row, whether or not anything could be sent.
    timeouts: u8,
    /// Shortest round trip, us.
    round_trip_us: u32,
}

impl Info {
    fn of(socket: &TcpStream) -> Self {
        // <linux/tcp.h>: eight bytes and 24 numbers, four of 64 bits, four more numbers.
        let mut info = [0_u32; 64];
        let mut bytes = size_of_val(&info) as libc::socklen_t;
        // SAFETY: the buffer is as long as is said, and lives across the call.
        let got = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        assert!(got == 0 && bytes >= 152, "the kernel knows it");
        let [_, _, timeouts, _] = info[0].to_ne_bytes();
        Self { retransmits: info[25], timeouts, round_trip_us: info[37] }
    }
}

/// Both ends of a connection.
fn connection() -> [TcpStream; 2] {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback device is up");
    let own = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("somebody listens");
    let (theirs, _) = listener.accept().expect("it came");
    for end in [&own, &theirs] {
        end.set_nodelay(true).expect("it is TCP");
    }
    [own, theirs]
}

/// Answers each question, of eight bytes, after a while, with the time of the answer.
fn answer(mut socket: TcpStream) {
    let mut question = [0; 8];
    while socket.read_exact(&mut question).is_ok() {
        thread::sleep(THINKING);
        if socket.write_all(&now_ns().to_ne_bytes()).is_err() {
            return;
        }
    }
}

/// Questions and answers; then a phase that asks, and another one that receives the answer.
fn asks(subject: &Subject) {
    let [mut own, theirs] = connection();
    thread::scope(|scope| {
        scope.spawn(move || answer(theirs));
        subject.clerk(|clerk| {
            let mut number = [0; 8];
            // The longest and the shortest time that answers can have taken, with the round trips around
            // them.
            let (mut longest_ns, mut shortest_ns, mut most_ns, mut least_ns) = (0, 0, 0, 0);
            clerk.book("asks", 1, || {
                for _ in 0..QUESTIONS {
                    most_ns += u64::from(Info::of(&own).round_trip_us) * 1000;
                    let before_ns = now_ns();
                    own.write_all(&number).expect("the other end is open");
                    let sent_ns = now_ns();
                    own.read_exact(&mut number).expect("the other end is open");
                    longest_ns += now_ns() - before_ns;
                    shortest_ns += u64::from_ne_bytes(number).saturating_sub(sent_ns);
                    least_ns += u64::from(Info::of(&own).round_trip_us) * 1000;
                }
            });
            clerk.book("asks", 2, || own.write_all(&number).expect("the other end is open"));
            clerk.book("is answered", 3, || own.read_exact(&mut number).expect("the other end is open"));
            clerk.fact("answers", QUESTIONS);
            for (name, ns) in
                [("longest", longest_ns), ("shortest", shortest_ns), ("most", most_ns), ("least", least_ns)]
            {
                clerk.fact(name, ns);
            }
        });
        drop(own);
    });
}

/// While `is_deaf`, the kernel drops what arrives for this socket.
fn deaf(socket: &TcpStream, is_deaf: bool) {
    // Returns 0: nothing of the segment is kept.
    let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    let option = if is_deaf { libc::SO_ATTACH_FILTER } else { libc::SO_DETACH_FILTER };
    // SAFETY: the program and its only instruction live across the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "anybody may do that");
}

/// What this end sends is lost until `happens` is over; `happens` gets the number of earlier retransmissions,
/// and the notes get the number during it.
fn lost(subject: &Subject, name: &'static str, happens: impl FnOnce(&TcpStream, u32)) {
    let [mut own, theirs] = connection();
    let ears = theirs.try_clone().expect("descriptors are left");
    thread::scope(|scope| {
        scope.spawn(move || answer(theirs));
        subject.clerk(|clerk| {
            let mut number = [0; 8];
            let before = Info::of(&own).retransmits;
            deaf(&ears, true);
            clerk.book(name, 1, || {
                own.write_all(&number).expect("it is taken, and lost");
                happens(&own, before);
                deaf(&ears, false);
                own.read_exact(&mut number).expect("the other end is open");
            });
            clerk.fact("retransmits", u64::from(Info::of(&own).retransmits - before));
        });
        // The other end closes with this one, and its thread ends.
        drop(own);
    });
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// The other side receives nothing until the kernel's timers have retransmitted a few times.
fn loses(subject: &Subject) {
    lost(subject, "loses", |own, before| {
        wait_until(|| Info::of(own).retransmits - before >= LOST);
    });
}

/// Brings up the loopback device of this network namespace, with or without an address.
fn loopback(address: Ipv4Addr) {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket needs no device");
    // SAFETY: all zeros are a value of both, and what is handed over lives across the calls.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        assert_eq!(
            libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request),
            0,
            "it is ours"
        );
        let mut own: libc::sockaddr_in = std::mem::zeroed();
        own.sin_family = libc::AF_INET as libc::sa_family_t;
        own.sin_addr.s_addr = u32::from(address).to_be();
        (&raw mut request.ifr_ifru.ifru_addr).cast::<libc::sockaddr_in>().write_unaligned(own);
        assert_eq!(
            libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const request),
            0,
            "it is ours"
        );
    }
}

/// There is no network when the kernel retransmits, so that fails until the network is back.
fn is_cut_off(subject: &Subject) {
    // SAFETY: changes only the network of this thread and of those that it starts.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return subject.fact("refused", 1);
    }
    loopback(Ipv4Addr::LOCALHOST);
    lost(subject, "is cut off", |own, _| {
        loopback(Ipv4Addr::UNSPECIFIED);
        wait_until(|| Info::of(own).timeouts >= FAILED);
        loopback(Ipv4Addr::LOCALHOST);
    });
}
