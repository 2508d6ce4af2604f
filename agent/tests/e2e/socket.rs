//! The agent's socket: it listens only to processes under observation. Messages of others change no result
//! and count as no fault of a hook; a socket that cannot be opened is reported before the program starts.
//!
//! The flood has a fixed size and ends with its test. No test depends on the machine's speed.

use std::{
    io::Read as _,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use insta::assert_snapshot;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rstest::rstest;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, subject},
    refusals::refusal,
    running::{Done, Running, Start},
};

const ENDED: &str = "request:ended work:ended rest:ended";
/// Most connections of the flood.
const MOST: u64 = 200_000;
/// CAP_SYS_RESOURCE.
const SYS_RESOURCE: u32 = 24;

/// A program that marks its second half after the test's signal, and the address of its socket.
fn begun(ground: &Ground) -> (Running, PathBuf) {
    let script = "echo \"$GUESTSCOPE_NOTIFY\" > address.tmp; mv address.tmp address; \
                  until [ -e go ]; do sleep 0.01; done; \"$0\" requests 3; \"$0\" requests 3";
    let run = ground.run().program("sh").words(&["-c", script]).word(subject()).spawn();
    let address = eventually("the address", || std::fs::read_to_string(ground.path("address")).ok());
    (run, PathBuf::from(address.trim()))
}

/// Connects and greets as the library does, again and again; the agent closes each connection without an
/// answer.
struct Flood {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Flood {
    fn begin(address: &Path) -> Self {
        let (is_over, came, answered) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (until, count, answers) = (Arc::clone(&is_over), Arc::clone(&came), Arc::clone(&answered));
        let address = address.to_owned();
        let flood = move || {
            for _ in 0..MOST {
                if until.load(Relaxed) {
                    return;
                }
                let Ok(mut stream) = UnixStream::connect(&address) else { continue };
                let greeted = std::io::Write::write_all(&mut stream, b"marker 1\n");
                count.fetch_add(1, Relaxed);
                let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(1)));
                if greeted.is_ok() && matches!(stream.read(&mut [0]), Ok(1)) {
                    answers.fetch_add(1, Relaxed);
                }
            }
        };
        Self { thread: Some(std::thread::spawn(flood)), is_over, came, answered }
    }

    fn end(mut self) -> (u64, u64) {
        self.is_over.store(true, Relaxed);
        self.thread.take().expect("it ends once").join().expect("it does not panic");
        (self.came.load(Relaxed), self.answered.load(Relaxed))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

fn check(done: &Done, requests: usize) -> Seen {
    let (summary, seen) = (done.summary(), done.seen());
    assert_eq!(
        (done.losses(), seen.endings()),
        (vec![], vec![ENDED.to_owned(); requests]),
        "{}",
        done.stderr
    );
    let broken: Vec<_> = seen.manifest.health.hooks.iter().filter(|hook| hook.outcome == "broken").collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert_eq!(summary["folder_error"], serde_json::Value::Null);
    assert_eq!(seen.manifest.state, guestscope::folder::State::Closed);
    seen
}

/// This process is root like the agent, and knows the address; it is a stranger all the same.
#[test]
fn a_process_of_the_same_user_that_is_not_observed_is_a_stranger() {
    let test = "socket::a_process_of_the_same_user_that_is_not_observed_is_a_stranger";
    let Some(ground) = Ground::new(test) else { return };
    let (run, address) = begun(&ground);
    let flood = Flood::begin(&address);
    eventually("some connections", || (flood.came.load(Relaxed) >= 50).then_some(()));
    std::fs::write(ground.path("go"), "").expect("the folder is ours");
    let done = run.finish().expect(0);
    let (came, answered) = flood.end();
    let seen = check(&done, 6);
    assert_eq!(answered, 0, "of {came}");
    let not_let_in = seen.manifest.health.not_let_in.expect("it is counted");
    assert!((1..=came).contains(&not_let_in), "{not_let_in} of {came}");
    assert_eq!(done.summary()["not_let_in"], not_let_in);
}

/// Another user sees the folder and the name to which the socket was bound, and cannot connect.
#[test]
fn another_user_cannot_come_to_the_socket() {
    let test = "socket::another_user_cannot_come_to_the_socket";
    let Some(ground) = Ground::new(test) else { return };
    let (run, address) = begun(&ground);
    let folder = address.parent().expect("it is in a folder").to_owned();
    let mode = std::fs::metadata(&folder).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o711);
    let name = address.file_name().expect("it has one").to_string_lossy().into_owned();
    let shown = std::fs::read_to_string("/proc/net/unix").expect("it can be read");
    let theirs: Vec<&str> =
        shown.split_whitespace().filter(|word| Path::new(word).starts_with(&folder)).collect();
    assert!(theirs.iter().all(|word| !word.ends_with(&name)), "{theirs:?}");
    for guess in theirs {
        assert!(UnixStream::connect(guess).is_err(), "{guess}");
    }
    std::fs::write(ground.path("go"), "").expect("the folder is ours");
    let done = run.finish().expect(0);
    let seen = check(&done, 6);
    assert_eq!(seen.manifest.health.not_let_in, None);
}

/// A process that a shell leaves behind has another parent, and is observed all the same.
#[rstest]
#[case::with_a_kernel_side(&[])]
#[case::without(&["--fidelity", "procfs"])]
fn a_process_that_was_left_behind_is_met(#[case] options: &[&str]) {
    let test = "socket::a_process_that_was_left_behind_is_met";
    let Some(ground) = Ground::new(test) else { return };
    let script = "(sh -c 'sleep 0.2; \"$0\" requests 3; touch done' \"$0\" &) ; until [ -e done ]; do sleep 0.01; done";
    let run = ground.run().words(options).program("setsid").words(&["sh", "-c", script]).word(subject());
    let seen = run.finish().expect(0).seen();
    assert_eq!(seen.endings(), [ENDED; 3]);
    assert_eq!(seen.manifest.health.not_let_in, None);
}

/// Root may exceed the hard limit, and the agent does; the program gets the limit that it would have without
/// the agent. Root in a container may not; the agent reports that before the program starts.
#[rstest]
#[case::soft(64, None)]
#[case::hard(256, Some(256))]
#[case::lower(64, Some(64))]
fn a_low_limit_of_open_files_costs_no_phase(#[case] soft: u64, #[case] hard: Option<u64>) {
    let test = "socket::a_low_limit_of_open_files_costs_no_phase";
    let Some(ground) = Ground::new(test) else { return };
    let is_too_low = hard.is_some_and(|hard| hard < 256) && !may_raise();
    let (_, usual) = getrlimit(Resource::RLIMIT_NOFILE).expect("it can be asked for");
    let hard = hard.unwrap_or(usual);
    let script = format!("test $(ulimit -Sn) = {soft} && exec \"$0\" requests 20");
    let run = ground.run().program("sh").words(&["-c", &script]).word(subject());
    let run = run.before(move || Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?));
    if is_too_low {
        let text = refusal(&ground, run);
        assert!(text.starts_with(&format!("error: too few open files are allowed: {hard}")), "{text}");
        return;
    }
    check(&run.finish().expect(0), 20);
}

/// Whether this process may exceed a hard limit.
fn may_raise() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("it is shown");
    u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set >> SYS_RESOURCE & 1 == 1)
}

fn without_the_right_to_more(start: Start, allowed: u64) -> Start {
    start.before(move || {
        setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed)?;
        // SAFETY: takes no pointers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(SYS_RESOURCE)) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    })
}

/// Where the agent may not exceed it, it refuses before the program starts.
#[rstest]
#[case::low(150)]
#[case::lower(100)]
#[case::lowest(32)]
fn a_limit_that_is_too_low_is_refused_before_the_start(#[case] allowed: u64) {
    let Some(ground) = Ground::new("socket::a_limit_that_is_too_low_is_refused_before_the_start") else {
        return;
    };
    let run = ground.run().program(subject()).words(&["requests", "3"]);
    let text = refusal(&ground, without_the_right_to_more(run, allowed));
    let (words, hint) = text.split_once(", and ").expect("it says how many are needed");
    assert_eq!(words, format!("error: too few open files are allowed: {allowed}"));
    let hint: String = hint.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    insta::allow_duplicates! {
        assert_snapshot!(hint, @r"
         are needed

        hint: raise the hard limit: `ulimit -n NUMBER` as root, `LimitNOFILE=NUMBER` in a unit of systemd's, `--ulimit nofile=NUMBER` of a container
        ");
    }
}

/// Without BPF programs 64 open files are enough.
#[test]
fn without_a_kernel_side_few_open_files_do() {
    let Some(ground) = Ground::new("socket::without_a_kernel_side_few_open_files_do") else { return };
    let run = ground.run().words(&["--fidelity", "procfs"]).program(subject()).words(&["requests", "20"]);
    let done = without_the_right_to_more(run, 64).finish().expect(0);
    assert_eq!(done.seen().endings(), [ENDED; 20]);
}
