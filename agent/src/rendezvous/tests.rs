//! Programs that may and may not meet the agent, over a real socket.

use std::time::Duration;

use super::*;

fn socket(rendezvous: &Rendezvous) -> OsString {
    let (_, socket) = rendezvous.environment().swap_remove(0);
    socket
}

/// A rendezvous whose program is this process.
fn open() -> Rendezvous {
    let rendezvous = Rendezvous::open(None, &[]).expect("a folder can be made");
    rendezvous.expect(std::process::id());
    rendezvous
}

fn greet(rendezvous: &Rendezvous) -> net::UnixStream {
    let mut program = net::UnixStream::connect(socket(rendezvous)).expect("the agent listens");
    program.write_all(b"marker 1\n").expect("the agent listens");
    program
}

/// One is answered in time, one has gone on by then, one is connected at the end, one waits in line.
#[tokio::test]
async fn whoever_goes_on_without_an_answer_is_counted() {
    let mut rendezvous = open();
    assert_eq!(rendezvous.unanswered(), 0);
    let _in_time = greet(&rendezvous);
    rendezvous.next().await.expect("it has greeted").let_go().await;
    assert_eq!(rendezvous.unanswered(), 0);
    let late = greet(&rendezvous);
    let peer = rendezvous.next().await.expect("it has greeted");
    drop(late);
    peer.let_go().await;
    assert_eq!(rendezvous.unanswered(), 1);
    let _with_the_agent = greet(&rendezvous);
    let _peer = rendezvous.next().await.expect("it has greeted");
    assert_eq!(rendezvous.unanswered(), 2);
    // The task that accepts does not run before the next await.
    let _in_line = greet(&rendezvous);
    assert_eq!([rendezvous.unanswered(), rendezvous.unanswered()], [3, 3]);
}

#[tokio::test]
async fn who_says_nothing_is_turned_away_and_nobody_who_was_not_answered() {
    let mut rendezvous = open();
    drop(net::UnixStream::connect(socket(&rendezvous)).expect("the agent listens"));
    let _behind_it = greet(&rendezvous);
    rendezvous.next().await.expect("it has greeted").let_go().await;
    assert_eq!((rendezvous.not_let_in(), rendezvous.unanswered()), (1, 0));
}

/// Its connection ends at once, without a line, and a program behind it is met.
#[tokio::test]
async fn a_process_that_is_not_observed_is_closed_at_once() {
    use std::io::Read as _;
    let mut rendezvous = open();
    rendezvous.welcome().expect(i32::MAX);
    let mut stranger = net::UnixStream::connect(socket(&rendezvous)).expect("the agent listens");
    tokio::time::timeout(Duration::from_mins(1), async {
        while rendezvous.not_let_in() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it was looked at");
    assert_eq!(stranger.read(&mut [0]).expect("it was closed"), 0);
    rendezvous.expect(std::process::id());
    let _behind_it = greet(&rendezvous);
    rendezvous.next().await.expect("it has greeted").let_go().await;
    assert_eq!((rendezvous.not_let_in(), rendezvous.unanswered()), (1, 0));
}

/// Each holds a place until it is answered; the others wait in line, and none is lost.
#[tokio::test]
async fn a_bounded_number_is_with_the_agent_at_once() {
    let mut rendezvous = open();
    let _all: Vec<_> = (0..74).map(|_| greet(&rendezvous)).collect();
    let mut with_it = Vec::new();
    for _ in 0..64 {
        with_it.push(rendezvous.next().await.expect("it has greeted"));
    }
    let more = tokio::time::timeout(Duration::from_millis(200), rendezvous.next()).await;
    assert!(more.is_err(), "no place is free");
    for peer in with_it {
        peer.let_go().await;
    }
    for _ in 0..10 {
        rendezvous.next().await.expect("it has greeted").let_go().await;
    }
    assert_eq!((rendezvous.not_let_in(), rendezvous.unanswered()), (0, 0));
}

/// Connections that send nothing hold a place for two seconds each: a process has one, however many it makes.
#[tokio::test]
async fn a_process_that_says_nothing_holds_one_place() {
    let mut rendezvous = open();
    let silent = || net::UnixStream::connect(socket(&rendezvous)).expect("the agent listens");
    let _silent: Vec<_> = (0..200).map(|_| silent()).collect();
    tokio::time::timeout(Duration::from_mins(1), async {
        while rendezvous.not_let_in() < 199 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("all but the first were closed");
    // The places are free, though the silent one's time is not over.
    let _behind_them = greet(&rendezvous);
    rendezvous.next().await.expect("it has greeted").let_go().await;
    assert_eq!(rendezvous.not_let_in(), 199);
}

#[tokio::test]
async fn nobody_can_tell_the_address_from_what_all_may_see() {
    let rendezvous = open();
    let shown = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let address = PathBuf::from(socket(&rendezvous));
    let name = address.file_name().expect("it has one").to_str().expect("it is text");
    assert!(name.len() > place::SOCKET.len() + 16 && !shown.contains(name), "{name}");
    let mode = std::fs::metadata(&rendezvous.folder).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o711, "nobody else may list it");
}
