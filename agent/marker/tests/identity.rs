//! Identity: `traceparent` headers, joined traces, forked children; and that none of it touches the caller's
//! errno.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod breakpoint;
mod wire;

use std::{
    collections::HashSet,
    ffi::CString,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::OsStringExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::PathBuf,
};

use breakpoint::{edges, edges_of};
use guestscope_marker::{call, context, mark, phase, request, traceparent};
use rstest::rstest;
use wire::{Edge, script};

const TRACE: [u8; 16] = *b"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c";
const PARENT: [u8; 8] = *b"\xb7\xad\x6b\x71\x69\x20\x33\x31";

/// Trace id and span id of a header, which must be well formed.
fn parse(header: &str) -> (u128, u64) {
    let parts: Vec<&str> = header.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("four parts: {header}") };
    assert_eq!((version, flags, header.len(), trace.len(), span.len()), ("00", "01", 55, 32, 16));
    assert!(!header.chars().any(|letter| letter.is_ascii_uppercase()));
    let (trace, span) = (u128::from_str_radix(trace, 16), u64::from_str_radix(span, 16));
    let (trace, span) = (trace.expect("hexadecimal"), span.expect("hexadecimal"));
    assert!(trace != 0 && span != 0);
    (trace, span)
}

/// Trace id and span id that an IDENTITY edge tells the agent.
fn told(edge: &Edge) -> (u128, u64) {
    assert_eq!(edge.operation(), 7);
    (u128::from(edge.arguments[2]) << 64 | u128::from(edge.arguments[3]), edge.arguments[4])
}

#[test]
fn a_request_and_its_phases_share_a_trace_and_are_told_once() {
    let mut headers = Vec::new();
    let edges = edges(|| {
        let request = request("r", 1);
        let child = phase("c");
        headers = vec![request.traceparent(), child.traceparent(), child.traceparent()];
        headers.extend(traceparent());
    });
    let [root, child, again, current] = &headers[..] else { panic!("four headers") };
    assert_eq!((child, root), (again, current));
    assert_eq!(script(&edges)[2..4], ["identity 1.0", "identity 1.1"]);
    assert_eq!((told(&edges[2]), told(&edges[3])), (parse(root), parse(child)));
    assert_eq!(parse(root).0, parse(child).0);
    assert_ne!(parse(root).1, parse(child).1);
    assert_eq!(edges.len(), 6, "two beginnings, two identities, two ends");
}

#[test]
fn ids_do_not_repeat() {
    let mut ids = HashSet::new();
    for number in 0..1000 {
        let request = request("r", number);
        let child = phase("c");
        let (root, child) = (parse(&request.traceparent()), parse(&child.traceparent()));
        assert!(ids.insert(root.0) && ids.insert(root.1.into()) && ids.insert(child.1.into()));
    }
}

#[test]
fn a_joined_trace_is_the_one_in_the_header_until_its_request_ends() {
    let expected = u128::from_be_bytes(TRACE);
    let edges = edges(|| {
        let first = request("r", 1);
        let derived = parse(&first.traceparent());
        first.context(TRACE, PARENT);
        let joined = parse(&first.traceparent());
        assert_eq!(joined, (expected, derived.1));
        let child = phase("c");
        assert_eq!(parse(&child.traceparent()).0, expected);
        let other = request("other", 2);
        assert_ne!(parse(&other.traceparent()).0, expected);
        let token = first.token();
        drop((other, child, first));
        let header = call::traceparent(token).map(|header| header.map(char::from).iter().collect::<String>());
        assert_eq!(header.map(|header| parse(&header)), Some(derived));
    });
    let lines = script(&edges);
    let context = "context 1.0 af7651916cd43dd 8448eb211c80319c b7ad6b7169203331";
    assert_eq!(lines[1..6], ["identity 1.0", context, "identity 1.0", "begin 1.1 c 0", "identity 1.1"]);
    assert_eq!(told(&edges[3]).0, expected);
}

#[test]
fn outside_of_all_requests_there_is_no_header() {
    assert_eq!(edges(|| assert_eq!(traceparent(), None)), []);
}

/// Runs `program` in a forked child and returns the child's edges. The child leaves at once, without a test
/// harness.
fn in_forked_child(program: impl FnOnce()) -> Vec<Edge> {
    // SAFETY: the child is the only thread of its process; it calls the library, libc's environment
    // functions, which other tests leave alone, and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        program();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ends well");
    edges_of(child)
}

#[test]
fn a_forked_child_starts_anew() {
    let mut child = Vec::new();
    let parent = edges(|| {
        let outer = request("outer", 1);
        outer.traceparent();
        child = in_forked_child(|| {
            let inner = phase("inner");
            inner.traceparent();
            inner.end();
        });
        phase("of outer").traceparent();
        request("next", 2).traceparent();
    });
    // No phase is open in the child, and its first edge is number 1.
    assert_eq!(script(&child), ["begin 1.0 inner 0", "identity 1.0", "end 1.0"]);
    assert_eq!(child.iter().map(Edge::number).collect::<Vec<_>>(), [1, 2, 3]);
    // The same token in parent and child has different ids.
    let next = parent.iter().rev().find(|edge| edge.operation() == 7).expect("the last header was told");
    assert_eq!(next.token(), child[0].token());
    assert_ne!(told(next), told(&child[1]));
    // The parent goes on where it was.
    assert_eq!(script(&parent)[2], "begin 1.1 of outer 0");
    assert_eq!(parent.iter().map(Edge::number).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
}

fn every_call() {
    let request = request("r", 1);
    request.context(TRACE, PARENT);
    context(TRACE, PARENT);
    let child = phase("c");
    call::leave(child.token());
    call::enter(child.token());
    mark("m");
    child.traceparent();
}

/// The peer at the other end of GUESTSCOPE_NOTIFY.
#[derive(Clone, Copy)]
enum Peer {
    Unset,
    Path(&'static str),
    /// Listens, and closes what it accepts.
    HangsUp,
    /// Listens, and never accepts.
    Silent,
    /// Listens for nobody more: connecting blocks.
    Full,
}

/// Sets the peer up; what is returned keeps it there.
fn listen(peer: Peer, directory: &std::path::Path) -> (Option<PathBuf>, Vec<OwnedFd>) {
    let path = directory.join("notify.sock");
    let bind = || UnixListener::bind(&path).expect("the directory is ours");
    match peer {
        Peer::Unset => (None, Vec::new()),
        Peer::Path(path) => (Some(path.into()), Vec::new()),
        Peer::HangsUp => {
            let listener = bind();
            std::thread::spawn(move || drop(listener.accept()));
            (Some(path), Vec::new())
        }
        Peer::Silent => (Some(path.clone()), vec![bind().into()]),
        Peer::Full => {
            let listener = bind();
            // SAFETY: a second listen on a listening socket sets its backlog; 0 admits one connection.
            assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
            let only = UnixStream::connect(&path).expect("the first is admitted");
            (Some(path.clone()), vec![listener.into(), only.into()])
        }
    }
}

const LONG: &str = concat!(
    "/tmp/",
    "0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/",
    "0123456789/0123456789/x"
);

#[rstest]
#[case::nobody_to_meet(Peer::Unset)]
#[case::empty_path(Peer::Path(""))]
#[case::socket_that_is_not_there(Peer::Path("/nonexistent/guestscope.sock"))]
#[case::path_that_is_no_socket(Peer::Path("/dev/null"))]
#[case::path_that_is_too_long(Peer::Path(LONG))]
#[case::peer_that_hangs_up(Peer::HangsUp)]
#[case::peer_that_never_answers(Peer::Silent)]
#[case::peer_that_admits_nobody(Peer::Full)]
fn whoever_is_met_edges_fire_and_errno_is_the_callers(#[case] peer: Peer) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (path, _kept) = listen(peer, directory.path());
    let path = path.map(|path| CString::new(path.into_os_string().into_vec()).expect("no NUL in it"));
    let mut child = Vec::new();
    edges(|| {
        child = in_forked_child(|| {
            // SAFETY: the child is alone with its environment and its errno.
            unsafe {
                if let Some(path) = &path {
                    libc::setenv(c"GUESTSCOPE_NOTIFY".as_ptr(), path.as_ptr(), 1);
                }
                guestscope_marker::load::again();
                *libc::__errno_location() = 4711;
                every_call();
                every_call();
                libc::_exit(i32::from(*libc::__errno_location() != 4711));
            }
        });
    });
    assert_eq!(child.len(), 2 * 10);
}
