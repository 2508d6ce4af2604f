//! A parameter server and its workers as processes: synchronous steps are those of the mean gradient, and
//! nothing hangs when one of them dies. A test ends what it started, by its own handle.
#![cfg(feature = "torch")]

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use guestscope_workloads::{
    error::Error,
    progress::Progress,
    train::{
        Model, Settings, Share,
        batches::Source,
        distributed::{
            attendance::{Attendance, Gone},
            client::Client,
            messages::{Chunk, Join, MOST_BYTES, PROTOCOL, Row, Wanted},
            worker::seed_of,
        },
        learner,
        models::Network,
    },
};
use rstest::rstest;
use serde_json::Value;
use tonic::codegen::tokio_stream;

/// Far above what any of these takes, so that only a hang reaches it.
const LIMIT: Duration = Duration::from_mins(2);

/// A process of the program, killed at the end of its test.
struct Peer(Child, BufReader<ChildStderr>);

impl Peer {
    fn start(arguments: &[&str]) -> Self {
        Self::train("mnist", arguments)
    }

    fn train(model: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
        command.args(["train", model, "--threads", "1", "--seed", "3"]).args(arguments);
        command.env_remove("GUESTSCOPE_WORKLOAD_FILE").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("cargo built the binary for this test");
        let said = process.stderr.take().expect("it is piped");
        Self(process, BufReader::new(said))
    }

    /// A server and its address.
    fn server(arguments: &[&str]) -> (Self, String) {
        let common = ["--role", "ps", "--listen", "127.0.0.1:0", "--json"];
        let mut server = Self::start(&[&common, arguments].concat());
        let line = server.line();
        let address = line.strip_prefix("listening on ").expect("it says where it listens").to_owned();
        (server, address)
    }

    fn worker(address: &str, rank: &str, arguments: &[&str]) -> Self {
        let common = ["--role", "worker", "--server", address, "--rank", rank, "--batch", "4", "--json"];
        Self::start(&[&common, arguments].concat())
    }

    /// The next line of its standard error.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("all that is said is UTF-8");
        line.trim_end().to_owned()
    }

    /// Stops it: it lives, and does nothing any more.
    fn stop(&self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it is a child");
    }

    /// Its exit status, standard output and standard error.
    fn end(mut self) -> (ExitStatus, String, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("it is a child") {
                break status;
            }
            assert!(start.elapsed() < LIMIT, "it hangs");
            sleep(Duration::from_millis(10));
        };
        let (mut out, mut error) = (String::new(), String::new());
        let printed = self.0.stdout.as_mut().expect("it is piped").read_to_string(&mut out);
        let said = self.1.read_to_string(&mut error);
        printed.and(said).expect("all that is printed and said is UTF-8");
        (status, out, error)
    }

    fn fails(self, says: &[&str]) {
        let (status, out, error) = self.end();
        assert_eq!((status.code(), out.as_str()), (Some(2), ""), "{error}");
        assert!(says.iter().all(|text| error.contains(text)), "{error}");
    }

    fn json(self) -> Value {
        let (status, out, error) = self.end();
        assert!(status.success(), "{error}");
        serde_json::from_str(&out).expect("one line of JSON")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The work of two workers and a server, in one process by libtorch alone: gradients of each batch from the
/// same parameters, their mean, and a step by plain arithmetic.
fn mean_gradient_reference(steps: u64) -> Result<Vec<f32>, Error> {
    tch::set_num_threads(1);
    let model = Model::find("mnist").expect("it is one of them");
    let settings = |rank| Settings {
        model,
        batch: 4,
        steps,
        warmup: 0,
        threads: 1,
        seed: 3,
        learning_rate: 0.1,
        data: None,
        loaders: 1,
        drop_caches: false,
        share: Share { rank, of: 2 },
        progress: Progress::Hidden,
    };
    let network = Network::seeded(model, 3)?;
    let mut jobs = [(settings(0), Source::open(&settings(0))?), (settings(1), Source::open(&settings(1))?)];
    let variables = network.store.trainable_variables();
    for step in 0..steps {
        let mut sums: Vec<tch::Tensor> = variables.iter().map(tch::Tensor::zeros_like).collect();
        for (settings, source) in &mut jobs {
            for variable in &variables {
                let mut gradient = variable.grad();
                if gradient.defined() {
                    let _ = gradient.zero_();
                }
            }
            let batch = source.next_batch()?;
            tch::manual_seed(seed_of(settings, step).cast_signed());
            learner::loss(&network, &batch)?.backward();
            sums = sums.iter().zip(&variables).map(|(sum, variable)| sum + variable.grad()).collect();
        }
        tch::no_grad(|| {
            for (mut variable, sum) in network.store.trainable_variables().into_iter().zip(sums) {
                let updated = &variable - (sum / 2.0) * 0.1;
                variable.copy_(&updated);
            }
        });
    }
    learner::parameters(&network.store)
}

/// Exact: the server adds in rank order, and each step seeds its dropout by its own number.
#[test]
fn synchronous_steps_are_those_of_the_mean_gradient() {
    let words = ["--workers", "2", "--batch", "4", "--steps", "5", "--warmup", "1", "--json"];
    let report = Peer::start(&[&words[..], &["--learning-rate", "0.1"]].concat()).json();
    let reference = mean_gradient_reference(6).unwrap();
    let first = Network::seeded(Model::find("mnist").unwrap(), 3).unwrap();
    assert_ne!(learner::parameters(&first.store).unwrap(), reference, "something was learned");
    assert_eq!(report["parameters_hash"], learner::hash(&reference).to_string());
    let workers = report["worker_reports"].as_array().unwrap();
    for (rank, worker) in workers.iter().enumerate() {
        assert_eq!(worker["parameters_hash"], report["parameters_hash"], "worker {rank}");
        assert_eq!((worker["rank"].as_u64(), worker["steps"].as_u64()), (Some(rank as u64), Some(5)));
        for phase in ["pull", "data", "forward", "backward", "push"] {
            assert!(worker["phases_ns"][phase]["p50"].as_u64().unwrap() > 0, "{phase}");
        }
    }
    assert_ne!(workers[0]["output_hash"], workers[1]["output_hash"], "each has images of its own");
    let server = &report["server_report"];
    assert_eq!((server["updates"].as_u64(), server["gradients"].as_u64()), (Some(6), Some(12)));
    assert_eq!(server["received_bytes"].as_u64(), Some(12 * 4 * 1_199_882));
}

/// Statistics of batch normalisation are each worker's own, and part of the output. At this rate no parameter
/// changes, so that it does not matter who computes the update.
#[test]
fn a_worker_leaves_what_the_same_steps_alone_leave() {
    let words = ["--batch", "2", "--steps", "1", "--warmup", "0", "--learning-rate", "1e-30", "--json"];
    let report = Peer::train("resnet50", &[&["--workers", "1"], &words[..]].concat()).json();
    let alone = Peer::train("resnet50", &words).json();
    assert!(alone["output_hash"].is_string(), "{alone}");
    assert_eq!(report["worker_reports"][0]["output_hash"], alone["output_hash"]);
}

#[test]
fn asynchronous_gradients_are_applied_as_they_come() {
    let words =
        ["--workers", "2", "--asynchronous", "--batch", "4", "--steps", "6", "--warmup", "0", "--json"];
    let report = Peer::start(&words).json();
    let server = &report["server_report"];
    assert_eq!((server["updates"].as_u64(), server["gradients"].as_u64()), (Some(12), Some(12)));
    let (sum, most) = (server["staleness_sum"].as_u64().unwrap(), server["staleness_most"].as_u64().unwrap());
    assert!(most <= sum && sum <= 12 * most, "{sum} {most}");
    for worker in report["worker_reports"].as_array().unwrap() {
        assert_eq!(worker["asynchronous"], true);
        assert!(worker["last_loss"].as_f64().unwrap().is_finite());
    }
}

/// Each part is started through another program, which is told the part's number.
#[test]
fn parts_are_started_through_a_command() {
    let common = ["--workers", "2", "--batch", "4", "--steps", "1", "--warmup", "0", "--json", "--through"];
    let shell = r#"sh -c 'test "$4" = --threads && exec "$0" "$@"'"#;
    let report = Peer::start(&[&common[..], &[shell]].concat()).json();
    assert_eq!(report["worker_reports"].as_array().map(Vec::len), Some(2));
    // The server is part 0, the first worker part 1.
    let only_the_server = r#"sh -c 'test {} = 0 && exec "$0" "$@"; exit 4{}'"#;
    let words = [&common[..], &[only_the_server, "--peer-timeout", "2s"]].concat();
    Peer::start(&words).fails(&["worker ", "ended too early: exit code 4"]);
    Peer::start(&[&common[..], &["no-such-program"]].concat())
        .fails(&["the parameter server", "looked for in PATH"]);
}

const LONG: [&str; 2] = ["--steps", "1000000"];

#[test]
fn a_worker_that_is_killed_ends_the_job() {
    let (mut server, address) = Peer::server(&["--workers", "2"]);
    let mut victim = Peer::worker(&address, "1", &LONG);
    assert_eq!(server.line(), "worker 1 joined");
    let other = Peer::worker(&address, "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    victim.0.kill().unwrap();
    other.fails(&[
        "error: the parameter server ended the job: worker 1 is gone: ",
        "hint: see what the worker",
    ]);
    server.fails(&["error: worker 1 is gone: "]);
}

/// A proxy to `address` for one connection: the next is refused.
fn way_for_one(address: String) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let way = listener.local_addr()?.to_string();
    thread::spawn(move || -> io::Result<()> {
        let (near, far) = (listener.accept()?.0, TcpStream::connect(address)?);
        drop(listener);
        for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            thread::spawn(move || io::copy(&mut from, &mut to).and_then(|_| to.shutdown(Shutdown::Both)));
        }
        Ok(())
    });
    Ok(way)
}

/// The job ends when the worker has joined without a data connection: it reports the server's reason.
#[test]
fn a_worker_that_still_connects_hears_that_the_job_is_over() {
    let (mut server, address) = Peer::server(&["--workers", "2"]);
    let victim = Peer::worker(&address, "1", &LONG);
    assert_eq!(server.line(), "worker 1 joined");
    let other = Peer::worker(&way_for_one(address).unwrap(), "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    drop(victim);
    other.fails(&["error: the parameter server ended the job: worker 1 is gone: "]);
    server.fails(&["error: worker 1 is gone: "]);
}

#[test]
fn a_server_that_is_killed_ends_its_workers() {
    let (mut server, address) = Peer::server(&["--workers", "1"]);
    let worker = Peer::worker(&address, "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    server.0.kill().unwrap();
    worker.fails(&["error: the parameter server is gone: 127.0.0.1:"]);
}

/// A process that is stopped keeps its connections: only its silence tells.
#[test]
fn a_worker_that_says_nothing_any_more_ends_the_job() {
    // A worker that has to load libtorch from a busy disk must come within it.
    let (mut server, address) = Peer::server(&["--workers", "1", "--peer-timeout", "8s"]);
    let worker = Peer::worker(&address, "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    worker.stop();
    server.fails(&["error: worker 0 is gone: it has said nothing for 8 s"]);
}

/// The same for the server: data on its way to it is given up as well.
#[test]
fn a_server_that_says_nothing_any_more_ends_its_workers() {
    let (mut server, address) = Peer::server(&["--workers", "2"]);
    let words = [&LONG[..], &["--peer-timeout", "5s"]].concat();
    let workers = ["0", "1"].map(|rank| {
        let worker = Peer::worker(&address, rank, &words);
        assert_eq!(server.line(), format!("worker {rank} joined"));
        worker
    });
    server.stop();
    for worker in workers {
        let says = format!("error: the parameter server is gone: {address} (it has said nothing for 5 s)");
        worker.fails(&[&says]);
    }
}

/// It sends signs of life, like the thread beside a computation that never ends.
#[test]
fn a_worker_that_lives_and_pushes_nothing_ends_the_job() {
    let (mut server, address) = Peer::server(&["--workers", "1", "--worker-timeout", "2s"]);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let model = "mnist".to_owned();
    let join = Join { protocol: PROTOCOL, version, model, seed: 3, rank: 0, steps: 5, batch: 4 };
    let attendance = Attendance::start(&address, join, LIMIT).unwrap();
    assert_eq!(server.line(), "worker 0 joined");
    let says = "worker 0 is late: it lives, and has pushed no gradient for 2 s";
    server.fails(&[&format!("error: {says}"), "hint: see what that worker does"]);
    let start = Instant::now();
    let told = || attendance.gone.borrow().clone();
    while told().is_none() && start.elapsed() < LIMIT {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(told(), Some(Gone::Ended(says.to_owned())));
}

#[test]
fn a_worker_that_fails_says_why() {
    let words = ["--workers", "2", "--learning-rate", "1e30", "--batch", "4", "--steps", "20"];
    Peer::start(&words).fails(&["error: ", " ended too early: ", "training broke down: the loss of "]);
}

#[test]
fn workers_that_do_not_come_are_not_waited_for() {
    let (mut server, address) = Peer::server(&["--workers", "2", "--peer-timeout", "3s"]);
    let worker = Peer::worker(&address, "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    let says = "workers did not come within 3 s: 1 of 2 are here";
    worker.fails(&[says]);
    server.fails(&[&format!("error: {says}")]);
}

#[test]
fn a_server_that_is_not_there_is_not_waited_for() {
    // A port that was free a moment ago, and that the kernel will not soon hand out again.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let worker = Peer::worker(&free, "0", &["--peer-timeout", "1s"]);
    worker.fails(&["error: cannot reach the parameter server within 1 s: 127.0.0.1:", "Connection refused"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let server = Peer::start(&["--role", "ps", "--workers", "1", "--listen", &address]);
    server.fails(&[&format!("error: cannot listen for workers: {address} (Address already in use")]);
}

#[rstest]
#[case::seed(&["--seed", "4"], "seed 4 instead of 3")]
#[case::rank(&["--rank", "9"], "rank 9, and there are 1 workers, from 0")]
fn another_kind_of_worker_is_refused(#[case] arguments: &[&str], #[case] says: &str) {
    let (mut server, address) = Peer::server(&["--workers", "1"]);
    let mut words = vec!["train", "mnist", "--threads", "1", "--role", "worker", "--server", &address];
    for default in [["--seed", "3"], ["--rank", "0"]] {
        if default[0] != arguments[0] {
            words.extend(default);
        }
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_guestscope-workloads")).args(words).args(arguments).output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(error.starts_with(&format!("error: refused by the parameter server: {says}")), "{error}");
    // And the server goes on.
    let worker = Peer::worker(&address, "0", &["--steps", "1", "--warmup", "0"]);
    assert_eq!(server.line(), "worker 0 joined");
    worker.json();
    server.json();
}

/// Rows of another length and messages longer than any chunk are refused before they fill the memory; a peer
/// that has not joined gets nothing.
#[test]
fn what_is_too_large_is_refused() {
    let (mut server, address) = Peer::server(&["--workers", "1"]);
    let worker = Peer::worker(&address, "0", &LONG);
    assert_eq!(server.line(), "worker 0 joined");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::connect(&address, LIMIT).await.unwrap();
        let row = Row::new(1).unwrap();
        let refused = client.pull(Wanted { rank: 7, version: 0 }, row, "").await.unwrap_err();
        assert_eq!(refused.message(), "rank 7 has not joined");
        let huge = Chunk { rank: 0, version: 0, values: vec![0; MOST_BYTES].into() };
        let refused = client.push_chunks(tokio_stream::iter([huge]), "").await.unwrap_err();
        assert!(refused.message().contains("message length too large"), "{refused}");
    });
    drop((worker, server));
}
