//! A worker's heartbeat thread: it tells the server that the worker lives, also during a long step, and
//! notices when the server does not. Yields the server's welcome, later why the job is over. It moves no
//! parameters.

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime::Builder,
    sync::{mpsc as channel, watch},
    time::{Instant, interval, timeout, timeout_at},
};
use tonic::{Code, Status, Streaming, codegen::tokio_stream::wrappers::ReceiverStream};

use super::{
    client::Client,
    error::DistributedError,
    messages::{Join, Leave, Presence, Welcome, Word},
};

/// Time between heartbeats: a quarter of a server's shortest limit, so that a late one is not taken for
/// silence.
const WORD_EVERY: Duration = Duration::from_millis(250);

/// Reason why the server does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The server ended the job, with this reason.
    Ended(String),
    /// The server refused this worker, with this reason.
    Refused(String),
    /// The server is not there any more.
    Lost(String),
}

impl Gone {
    /// The reason, from the status that came instead of an answer.
    pub fn of(status: &Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::Aborted => Self::Ended(message),
            Code::FailedPrecondition | Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => {
                Self::Refused(message)
            }
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
            | Code::Unauthenticated => Self::Lost(message),
        }
    }

    /// Error for people; `address` is the server's.
    pub fn error(self, address: &str) -> DistributedError {
        match self {
            Self::Ended(reason) => DistributedError::Ended(reason),
            Self::Refused(reason) => DistributedError::Refused(reason),
            Self::Lost(reason) => DistributedError::ServerGone { address: address.to_owned(), reason },
        }
    }
}

/// The heartbeat thread.
pub struct Attendance {
    /// The server's first answer.
    pub welcome: Welcome,
    /// Why the job is over, once it is.
    pub gone: watch::Receiver<Option<Gone>>,
    leave: channel::UnboundedSender<Leave>,
    thread: Option<JoinHandle<()>>,
}

impl Attendance {
    /// Joins; returns once the server has accepted or refused.
    pub fn start(address: &str, join: Join, limit: Duration) -> Result<Self, DistributedError> {
        let (said, first) = mpsc::channel();
        let (leave, leaving) = channel::unbounded_channel();
        let (over, gone) = watch::channel(None);
        let address = address.to_owned();
        let attend = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(said.send(Err(DistributedError::Runtime(error)))),
            };
            runtime.block_on(async {
                match enter(&address, join, limit).await {
                    Ok((welcome, present)) => {
                        // `start` waits for this.
                        let _ = said.send(Ok(welcome));
                        over.send_replace(present.stay(leaving, limit).await.err());
                    }
                    Err(error) => drop(said.send(Err(error))),
                }
            });
        };
        let thread = thread::Builder::new().name("attendance".to_owned()).spawn(attend);
        let thread = Some(thread.map_err(DistributedError::Runtime)?);
        let ended = || DistributedError::Runtime(std::io::Error::other("the thread ended too early"));
        let welcome = first.recv().map_err(|_| ended())??;
        Ok(Self { welcome, gone, leave, thread })
    }

    /// Says that this worker is done, or why it does not go on, and waits until the server has heard it.
    pub fn leave(mut self, error: Option<String>) {
        // A thread that has ended has no receiver any more, and knows the end already.
        let _ = self.leave.send(Leave { error });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The stream of heartbeats and the stream of answers.
struct Present {
    words: channel::Sender<Word>,
    answers: Streaming<Presence>,
}

async fn enter(address: &str, join: Join, limit: Duration) -> Result<(Welcome, Present), DistributedError> {
    let mut client = Client::connect(address, limit).await?;
    let (words, stream) = channel::channel(4);
    // The channel is empty, so there is room.
    let _ = words.try_send(Word { join: Some(join), leave: None });
    let gone = |status: Status| Gone::of(&status).error(address);
    let silent = || DistributedError::ServerGone {
        address: address.to_owned(),
        reason: format!("it has said nothing for {} s", limit.as_secs()),
    };
    let attending = timeout(limit, client.attend(ReceiverStream::new(stream)));
    let mut answers = attending.await.map_err(|_| silent())?.map_err(gone)?;
    let first = timeout(limit, answers.message()).await.map_err(|_| silent())?.map_err(gone)?;
    match first.and_then(|presence| presence.welcome) {
        Some(welcome) => Ok((welcome, Present { words, answers })),
        None => Err(gone(Status::unavailable("it said no welcome"))),
    }
}

impl Present {
    /// Keeps the connection until this worker leaves, or the server is gone.
    async fn stay(
        mut self,
        mut leaving: channel::UnboundedReceiver<Leave>,
        limit: Duration,
    ) -> Result<(), Gone> {
        let mut turn = interval(WORD_EVERY);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                _ = turn.tick() => {
                    // A full channel means a server that takes nothing; the missing answer shows that too.
                    let _ = self.words.try_send(Word::default());
                }
                leave = leaving.recv() => {
                    let word = Word { join: None, leave };
                    let _ = timeout(limit, self.words.send(word)).await;
                    // The server closes the stream once it has read this.
                    let _ = timeout(limit, async { while let Ok(Some(_)) = self.answers.message().await {} }).await;
                    return Ok(());
                }
                answer = timeout_at(heard + limit, self.answers.message()) => {
                    match answer {
                        Ok(Ok(Some(_))) => heard = Instant::now(),
                        Ok(Ok(None)) => return Err(Gone::Lost("it hung up".to_owned())),
                        Ok(Err(status)) => return Err(Gone::of(&status)),
                        Err(_) => {
                            return Err(Gone::Lost(format!("it has said nothing for {} s", limit.as_secs())));
                        }
                    }
                }
            }
        }
    }
}
