//! The options of a job of several processes: names, defaults, help. Yields the part that this process takes,
//! or an error for options that exclude each other.

use std::{ffi::OsString, str::FromStr, time::Duration};

use clap::{Args, ValueEnum, value_parser};

use super::{Server, Worker, error::DistributedError, launch::All};
use crate::{load::options::Time, platform};

const PEER_LIMIT: Duration = Duration::from_secs(30);
/// A step of AlexNet with 512 images takes a minute on two cores, and a guest may be ten times slower.
const WORKER_LIMIT: Duration = Duration::from_mins(10);
/// Where the server of a job that is all on this machine listens, on a port of the kernel's choice.
const HERE: &str = "127.0.0.1:0";

/// Reason to refuse an option that the server decides for all workers.
pub const OF_SERVER: &str = "with --role worker: the server says it";

/// Which part of a job this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Parameter server: hands out parameters, takes gradients
    Ps,
    /// Computes gradients from its share of the batches
    Worker,
}

/// Options of a job of several processes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several processes")]
pub struct PeerOptions {
    /// Be one part of a job; without it and with --workers all parts are started here
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// How many workers there are
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=256))]
    workers: Option<u32>,
    /// Apply each gradient as it comes, instead of the mean of all workers'
    #[arg(long)]
    asynchronous: bool,
    /// Parameter server: where it listens, like 0.0.0.0:7070 (port 0: any; it says which)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// All parts from here: start each by this command, which is given the part's own; {} in it is the part's
    /// number, 0 for the parameter server
    #[arg(long, value_name = "COMMAND")]
    through: Option<Through>,
    /// Worker: where the parameter server listens, like 10.0.0.1:7070
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// Worker: which one it is, from 0
    #[arg(long, value_name = "R", value_parser = value_parser!(u32).range(0..=255))]
    rank: Option<u32>,
    /// End the job when a peer has not come, or has said nothing, for so long [default: 30s]
    #[arg(long, value_name = "TIME")]
    peer_timeout: Option<Time>,
    /// Parameter server: end the job when a worker that lives has pushed no gradient for so long [default:
    /// 600s]
    #[arg(long, value_name = "TIME")]
    worker_timeout: Option<Time>,
    /// Worker: say on standard error how many steps are done; used by the process that starts all
    /// parts and draws a progress bar
    #[arg(long, hide = true)]
    tell_steps: bool,
}

/// Words in front of a command.
#[derive(Clone, Debug)]
struct Through(Vec<OsString>);

impl FromStr for Through {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = platform::words(text).ok_or("a quotation mark is never closed")?;
        if words.is_empty() { Err("it is empty".to_owned()) } else { Ok(Self(words)) }
    }
}

/// The part of a job that this process takes.
#[derive(Clone, Debug)]
pub enum Way {
    /// All of it, without a parameter server.
    Alone,
    Serve(Server),
    Work(Worker),
    /// Starts all parts as processes on this machine.
    Launch(All),
}

impl PeerOptions {
    /// Whether this worker is to say how many steps are done.
    pub fn tells_steps(&self) -> bool {
        self.tell_steps
    }

    /// The part of a job that this process takes.
    pub fn way(&self) -> Result<Way, DistributedError> {
        let Self { role, workers, asynchronous, listen, through, server, rank, .. } = self;
        let Self { peer_timeout, worker_timeout, tell_steps, .. } = self;
        let limit = limit("--peer-timeout", *peer_timeout, PEER_LIMIT)?;
        let worker_limit = self::limit("--worker-timeout", *worker_timeout, WORKER_LIMIT)?;
        let asynchronous = *asynchronous;
        let is_through = ("--through", through.is_some());
        let is_told = ("--tell-steps", *tell_steps);
        match (role, workers) {
            (None, workers) => {
                let alone = [
                    ("--listen", listen.is_some()),
                    is_through,
                    ("--asynchronous", asynchronous),
                    ("--peer-timeout", peer_timeout.is_some()),
                    ("--worker-timeout", worker_timeout.is_some()),
                ];
                let others = [("--server", server.is_some()), ("--rank", rank.is_some()), is_told];
                refuse("without --role", &others)?;
                match workers {
                    Some(workers) => Ok(Way::Launch(All {
                        workers: *workers,
                        asynchronous,
                        listen: listen.clone().unwrap_or_else(|| HERE.to_owned()),
                        through: through.clone().map(|Through(words)| words).unwrap_or_default(),
                        limit,
                        worker_limit,
                    })),
                    None => refuse("without --workers", &alone).map(|()| Way::Alone),
                }
            }
            (Some(Role::Ps), Some(workers)) => {
                let others =
                    [("--server", server.is_some()), ("--rank", rank.is_some()), is_through, is_told];
                refuse("with --role ps", &others)?;
                let listen =
                    listen.clone().ok_or(DistributedError::Needs { what: "--listen", role: "ps" })?;
                Ok(Way::Serve(Server { listen, workers: *workers, asynchronous, limit, worker_limit }))
            }
            (Some(Role::Ps), None) => Err(DistributedError::Needs { what: "--workers", role: "ps" }),
            (Some(Role::Worker), workers) => {
                let others = [
                    ("--workers", workers.is_some()),
                    ("--asynchronous", asynchronous),
                    ("--listen", listen.is_some()),
                    is_through,
                    ("--worker-timeout", worker_timeout.is_some()),
                ];
                refuse(OF_SERVER, &others)?;
                let needs = |what| DistributedError::Needs { what, role: "worker" };
                let server = server.clone().ok_or_else(|| needs("--server"))?;
                Ok(Way::Work(Worker { server, rank: rank.ok_or_else(|| needs("--rank"))?, limit }))
            }
        }
    }
}

/// An error that names the first of the options that were given.
pub fn refuse(when: &'static str, given: &[(&'static str, bool)]) -> Result<(), DistributedError> {
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(DistributedError::NoMeaning { option, when }),
        None => Ok(()),
    }
}

/// The duration that the user gave, else `usual`.
fn limit(option: &'static str, typed: Option<Time>, usual: Duration) -> Result<Duration, DistributedError> {
    let limit = typed.map_or(usual, |time| Duration::from_nanos(time.ns));
    if limit < Duration::from_secs(1) { Err(DistributedError::Limit(option)) } else { Ok(limit) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::Parser;
    use rstest::rstest;

    use super::{PeerOptions, Way};

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        peers: PeerOptions,
    }

    fn way(arguments: &[&str]) -> Result<Way, String> {
        let typed = Typed::try_parse_from([&["x"], arguments].concat()).unwrap();
        typed.peers.way().map_err(|error| error.to_string())
    }

    #[test]
    fn a_part_is_taken() {
        assert!(matches!(way(&[]), Ok(Way::Alone)));
        let all = |arguments: &[&str]| match way(arguments) {
            Ok(Way::Launch(all)) => (all.workers, all.listen, all.through.join(OsStr::new("|"))),
            other => panic!("{other:?}"),
        };
        assert_eq!(all(&["--workers", "3"]), (3, "127.0.0.1:0".to_owned(), "".into()));
        let through =
            ["--workers", "3", "--listen", "10.0.0.1:0", "--through", "nsenter '--net=/run/a b/{}'"];
        assert_eq!(all(&through), (3, "10.0.0.1:0".to_owned(), "nsenter|--net=/run/a b/{}".into()));
        let served = way(&["--role", "ps", "--workers", "2", "--listen", ":0", "--asynchronous"]);
        assert!(matches!(served, Ok(Way::Serve(server)) if server.asynchronous && server.workers == 2));
        let worked = way(&["--role", "worker", "--server", "a:1", "--rank", "1", "--peer-timeout", "2s"]);
        assert!(matches!(worked, Ok(Way::Work(worker)) if worker.rank == 1 && worker.limit.as_secs() == 2));
    }

    #[rstest]
    #[case(&["--role", "ps", "--listen", ":0"], "--role ps needs --workers")]
    #[case(&["--role", "ps", "--workers", "2"], "--role ps needs --listen")]
    #[case(&["--role", "worker", "--rank", "0"], "--role worker needs --server")]
    #[case(&["--role", "worker", "--server", "a:1"], "--role worker needs --rank")]
    #[case(&["--role", "worker", "--server", "a:1", "--rank", "0", "--asynchronous"], "--asynchronous has no meaning with --role worker: the server says it")]
    #[case(&["--role", "ps", "--workers", "2", "--listen", ":0", "--rank", "1"], "--rank has no meaning with --role ps")]
    #[case(&["--rank", "1"], "--rank has no meaning without --role")]
    #[case(&["--listen", "a:1"], "--listen has no meaning without --workers")]
    #[case(&["--through", "ssh"], "--through has no meaning without --workers")]
    #[case(&["--role", "ps", "--workers", "2", "--listen", ":0", "--through", "ssh"], "--through has no meaning with --role ps")]
    #[case(&["--workers", "2", "--tell-steps"], "--tell-steps has no meaning without --role")]
    #[case(&["--role", "ps", "--workers", "2", "--listen", ":0", "--tell-steps"], "--tell-steps has no meaning with --role ps")]
    #[case(&["--asynchronous"], "--asynchronous has no meaning without --workers")]
    #[case(&["--workers", "2", "--worker-timeout", "1ms"], "--worker-timeout is less than 1s")]
    #[case(&["--role", "worker", "--server", "a:1", "--rank", "0", "--worker-timeout", "2s"], "--worker-timeout has no meaning with --role worker: the server says it")]
    #[case(&["--workers", "2", "--peer-timeout", "1ms"], "--peer-timeout is less than 1s")]
    fn what_does_not_go_together_is_refused(#[case] arguments: &[&str], #[case] expected: &str) {
        assert_eq!(way(arguments).unwrap_err(), expected);
    }
}
