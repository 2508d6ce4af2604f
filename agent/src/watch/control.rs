//! The control socket: status, the list of incidents, and a request for one, for root alone.
//!
//! One line of JSON in, one out. Peers are untrusted: who they are the kernel says, and what they say is
//! bounded in bytes and time.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use guestscope_base::json;
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt::PeerCredentials,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    shared::{Asked, Listed, Shared, Status},
    window::Row,
};
use crate::{clock, out, privileges};

/// Most bytes of a question.
const QUESTION_BYTES: u64 = 4096;
/// Time for a question, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after nobody could be let in, for instance because no descriptor is free: the next try would fail as
/// well, and a loop of them takes a whole CPU.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// What is said to a question of another version, in every version.
pub(crate) const NOT_A_QUESTION: &str = "not a question of this version";

/// What is asked of a resident agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Question {
    /// How it fares.
    Status,
    /// What it kept.
    Incidents,
    /// What ran in the last seconds.
    Top,
    /// To keep what was seen around now.
    Trigger,
    /// To keep what the recorder has of this time: wall times, ns since 1970.
    Keep(u64, u64),
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// How it fares.
    Status(Box<Status>),
    /// What it kept, the oldest first.
    Incidents(Vec<Listed>),
    /// What ran in the last ten seconds, the most time first.
    Top(Box<Status>, Vec<Row>),
    /// It will keep it.
    Triggered,
    /// It does not answer that.
    Refused(String),
}

/// Opens the socket, in a directory for root alone. One that an earlier agent left is replaced.
///
/// # Errors
/// It cannot be made; `AddrInUse`: somebody answers there, such as an agent with another directory, whose
/// lock is another one.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() && is_left(path)? => fs::remove_file(path)?,
        Ok(there) if there.file_type().is_socket() => return Err(io::ErrorKind::AddrInUse.into()),
        // Whatever it is, it is not an agent's.
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether nobody listens at a socket any more. Does not wait for an agent that does.
fn is_left(path: &Path) -> io::Result<bool> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let asking = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    Ok(connect(asking.as_raw_fd(), &UnixAddr::new(path)?) == Err(Errno::ECONNREFUSED))
}

/// Answers questions on a thread of its own.
///
/// # Errors
/// There can be no thread.
pub(super) fn serve(listener: UnixListener, shared: Arc<Shared>) -> io::Result<()> {
    let body = move || {
        if let Err(error) = privileges::drop_all() {
            out::say(&format!("warning: the thread of the control socket keeps its privileges: {error}\n"));
        }
        for stream in listener.incoming() {
            match stream {
                // Whoever asks learns of a failure by the connection's end.
                Ok(stream) => drop(answer(&stream, &shared)),
                Err(_) => thread::sleep(AFTER_FAILURE),
            }
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(body)?;
    Ok(())
}

fn answer(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = getsockopt(stream, PeerCredentials)?;
    let own = nix::unistd::geteuid().as_raw();
    let answer = if peer.uid() == 0 || peer.uid() == own {
        let mut line = String::new();
        BufReader::new(stream.take(QUESTION_BYTES)).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(question) => to(question, shared),
            Err(_) => Answer::Refused(NOT_A_QUESTION.to_owned()),
        }
    } else {
        Answer::Refused("only root may ask".to_owned())
    };
    let mut stream = stream;
    let line = json::line(&answer).map_err(io::Error::other)?;
    stream.write_all(format!("{line}\n").as_bytes())
}

fn to(question: Question, shared: &Shared) -> Answer {
    match question {
        Question::Status => Answer::Status(Box::new(shared.status().clone())),
        Question::Incidents => Answer::Incidents(shared.list().incidents.iter().cloned().collect()),
        Question::Top => {
            let rows = shared.window().rows(clock::now_ns());
            Answer::Top(Box::new(shared.status().clone()), rows)
        }
        Question::Trigger | Question::Keep(..) if !shared.config().recorder.rows => {
            Answer::Refused("recorder.rows is false: nothing is kept".to_owned())
        }
        Question::Trigger => {
            if shared.ask(Asked::Now) {
                Answer::Triggered
            } else {
                busy()
            }
        }
        Question::Keep(from_ns, to_ns) if from_ns >= to_ns => {
            Answer::Refused("the end is not after the begin".to_owned())
        }
        Question::Keep(from_ns, to_ns) => {
            if shared.ask(Asked::Stretch(from_ns, to_ns)) {
                Answer::Triggered
            } else {
                busy()
            }
        }
    }
}

fn busy() -> Answer {
    Answer::Refused("too many ask at once".to_owned())
}

/// Asks a resident agent.
///
/// # Errors
/// None answers at this socket; `InvalidData`: the answer is not one of this version.
pub(crate) fn ask(path: &Path, question: Question) -> io::Result<Answer> {
    /// Most bytes of an answer.
    const ANSWER_BYTES: u64 = 16 << 20;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE * 2))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = json::line(&question).map_err(io::Error::other)?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut text = String::new();
    BufReader::new(stream.take(ANSWER_BYTES)).read_line(&mut text)?;
    if text.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{shared::List, tables::Config};

    #[test]
    fn a_socket_at_which_somebody_answers_stays() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let path = place.path().join("watch.sock");
        let first = listen(&path).expect("it can be made");
        let error = listen(&path).expect_err("it is another one's");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "the first one is asked as before");
        drop(first);
        assert!(listen(&path).is_ok(), "nobody is there any more");
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let text = "[recorder]\nrows = false\n";
        let config: Config = toml::from_str(text).expect("it is a table");
        let shared = Shared::new(config, Status::default(), List::default());
        for question in [Question::Trigger, Question::Keep(1, 2)] {
            let Answer::Refused(why) = to(question, &shared) else { panic!("it promises an incident") };
            assert!(why.contains("rows is false"), "{why}");
        }
        assert_eq!(shared.asked(), []);
    }

    #[test]
    fn questions_are_answered_and_nonsense_is_refused() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let path = place.path().join("run/watch.sock");
        let status = Status { name: "guest".to_owned(), ..Status::default() };
        let shared = Shared::new(Config::default(), status.clone(), List::default());
        fs::write(place.path().join("file"), "kept").expect("the place is ours");
        assert!(listen(&place.path().join("file")).is_err());
        assert!(place.path().join("file").is_file(), "a file that is no socket stays");
        // An earlier agent's.
        drop(listen(&path).expect("it can be made"));
        let listener = listen(&path).expect("it can be made again");
        let theirs = Arc::clone(&shared);
        let answers = thread::spawn(move || {
            for _ in 0..7 {
                let (stream, _) = listener.accept().expect("somebody comes");
                let _ = answer(&stream, &theirs);
            }
        });
        let asked = |question| ask(&path, question).expect("it answers");
        assert_eq!(asked(Question::Status), Answer::Status(Box::new(status)));
        assert_eq!(asked(Question::Incidents), Answer::Incidents(Vec::new()));
        assert_eq!(shared.asked(), []);
        assert_eq!(asked(Question::Trigger), Answer::Triggered);
        assert_eq!(asked(Question::Keep(1, 2)), Answer::Triggered);
        assert!(matches!(asked(Question::Keep(2, 2)), Answer::Refused(_)));
        assert_eq!(shared.asked(), [Asked::Now, Asked::Stretch(1, 2)]);
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(b"{\"go\": 1}\n").expect("it reads");
        let mut text = String::new();
        BufReader::new(&stream).read_line(&mut text).expect("it answers");
        assert_eq!(text, "{\"refused\":\"not a question of this version\"}\n");
        // One that says nothing is given up.
        let silent = UnixStream::connect(&path).expect("it listens");
        answers.join().expect("it ends");
        drop(silent);
    }
}
