//! The table of situations: what is true of each.
//!
//! Patterns are texts with `*` for anything between, and `{name}` for a fact that the program noted. A row
//! keeps what is true where the agent does not say it yet.

/// What has to be said.
#[derive(Clone, Copy)]
pub(super) enum Expect {
    /// The first cause, who is to blame, and the key of the first advice: one of each list.
    Cause {
        causes: &'static [&'static str],
        culprits: &'static [&'static str],
        advice: &'static [&'static str],
    },
    /// All of these sentences of the summary and of `explain`.
    Said { summary: &'static [&'static str], explain: &'static [&'static str] },
}

/// A row.
#[expect(clippy::struct_excessive_bools, reason = "each is said of a row by itself")]
pub(super) struct Kind {
    /// The name of the row, and of the kind that the program is asked for.
    pub(super) name: &'static str,
    /// Least and largest size, ms.
    pub(super) ms: (u32, u32),
    pub(super) expect: Expect,
    /// What must not be said.
    pub(super) never: &'static [&'static str],
    /// Options of `guestscope run`.
    pub(super) options: &'static [&'static str],
    /// Whether a stranger takes part.
    pub(super) is_beside: bool,
    /// Whether the program calls a stub of CUDA's library.
    pub(super) has_driver: bool,
    /// How the stub of NVML behaves where there is the fault, and where there is none.
    pub(super) card: [&'static str; 2],
    /// Whether the fault is partly work of the program's own.
    pub(super) has_own_work: bool,
    /// Whether it is judged with all other end-to-end tests.
    pub(super) is_quick: bool,
}

type Texts = &'static [&'static str];

const fn kind(name: &'static str, causes: Texts, culprits: Texts, advice: Texts) -> Kind {
    Kind::of(name, Expect::Cause { causes, culprits, advice })
}

const fn said(name: &'static str, summary: Texts, explain: Texts) -> Kind {
    Kind::of(name, Expect::Said { summary, explain })
}

impl Kind {
    const fn of(name: &'static str, expect: Expect) -> Self {
        Self {
            name,
            ms: (20, 40),
            expect,
            never: &[],
            options: &[],
            is_beside: false,
            has_driver: false,
            card: ["", ""],
            has_own_work: false,
            is_quick: false,
        }
    }

    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    /// So large that twenty samples, 40 ms of CPU time, lie in it: fewer are not spoken of.
    const fn sampled(self) -> Self {
        Self { ms: (60, 100), ..self }
    }

    /// The fault is work of the program's own as well: that nothing else explains this is true.
    const fn own_too(self) -> Self {
        Self { has_own_work: true, ..self }
    }

    const fn beside(self) -> Self {
        Self { is_beside: true, ..self }
    }

    const fn with_driver(self) -> Self {
        Self { has_driver: true, ..self }
    }

    /// With a stub of NVML that behaves so where there is the fault, and where there is none.
    const fn with_card(self, fault: &'static str, control: &'static str) -> Self {
        Self { has_driver: true, card: [fault, control], ..self }
    }

    const fn never(self, never: Texts) -> Self {
        Self { never, ..self }
    }

    const fn with(self, options: Texts) -> Self {
        Self { options, ..self }
    }
}

const ALONE: &str = "serve 41 (pid *), for * in tokenize, waiting in futex (lock)*no other thread of its process, \
                     forked from process *, was alive*advice A fork copies one thread alone";
const LOCKED: &str = "serve 41 (pid *), for * in insert, waiting in futex (lock)*waited for a lock as well";

const LAUNCHES: &str = "launch-bound: the GPU was busy for 0 % of the time in which requests ran, and these \
                        computed or launched, without waiting for it, for * % of theirs";
const INPUT: &str = "input-bound: the GPU was busy for 0 % of the time in which requests ran, and these waited \
                     in data for * % of theirs";

const SHARED: &str =
    "cpu.gpu: another process, * (pid 1), had GPU 0 for * % of the time in which requests ran";
const HELD: &str =
    "clocks of GPU 0 were held down (sw_power_cap) to * of 1,500 MHz, * % below that on average";

/// What a stop by a signal is blamed on, and the thread that sent SIGCONT is not.
const STOPPED: &str = "stopped by a signal, continued by thread {stopper_pid} (stopper)";
const ON_STOPPER: &str = "for thread {stopper_pid}";

/// The port of situations/served.py.
const SERVED: Texts = &["--requests", "port:21481"];

pub(super) const KINDS: &[Kind] = &[
    // Locks, and threads that have the work.
    kind("mutex", &["lock"], &["thread {holder_tid} (holder)"], &["lock"]).quick(),
    kind("mutex-busy", &["lock"], &["thread {holder_tid} (holder)"], &["lock"]),
    kind("mutex-timeout", &["lock"], &["thread {holder_tid} (holder)", "time limit"], &["lock"]),
    kind("gil-sleep", &["lock"], &["thread {c-caller_tid} (c-caller)"], &["lock.interpreter"]),
    kind("gil-sort", &["lock"], &["thread {sorter_tid} (sorter)"], &["lock.interpreter"]),
    kind("queue", &["lock"], &["thread {producer_tid} (producer)"], &["lock"]).quick(),
    kind("future", &["lock"], &["(embedder)"], &["lock"]),
    kind("condition", &["lock"], &["thread {scheduler_tid} (scheduler)"], &["lock"]),
    kind("semaphore", &["lock"], &["{holder_pid} (holder)"], &["lock"]),
    kind("flock", &["lock"], &["{holder_pid} (holder)"], &["lock"]).quick(),
    kind("record-lock", &["lock"], &["{holder_pid} (holder)"], &["lock"]),
    kind("join", &["lock"], &["(loader)"], &["lock"]),
    kind("barrier", &["lock"], &["thread {late_tid} (late)"], &["lock"]).never(&["(early), which slept"]),
    // Time, children and peers.
    kind("sleep", &["sleep"], &["clock_nanosleep"], &["sleep"]).quick(),
    kind("back-off", &["sleep"], &["clock_nanosleep"], &["sleep"]),
    kind("wait-child", &["sleep"], &["(exporter)"], &["sleep"]),
    kind("run-program", &["sleep"], &["(sleep)"], &["sleep"]),
    kind("signal-wait", &["sleep"], &["rt_sigtimedwait"], &["sleep"]),
    kind("pipe", &["other"], &["{tokenizer_pid} (tokenizer)"], &["other.thread"]),
    kind("poll-child", &["poll"], &["{tokenizer_pid} (tokenizer)"], &["poll"]).quick(),
    kind("full-pipe", &["other"], &["{logger_pid} (logger)"], &["other.thread"]),
    kind("peer", &["net"], &["{reranker_pid} (reranker)"], &["net"]).quick(),
    kind("unix-peer", &["net"], &["{reranker_pid} (reranker)"], &["net"]),
    kind("full-socket", &["net"], &["{gateway_pid} (gateway)"], &["net"]),
    kind("stranger-peer", &["net"], &["{beside_pid} (reranker)"], &["net"]).beside(),
    kind("udp-timeout", &["poll"], &["time limit"], &["poll"]).quick(),
    kind("socket-timeout", &["net"], &["time limit", "recvfrom"], &["net"]),
    kind("loop-sleeps", &["poll"], &["time limit"], &["poll"]),
    kind("stopped", &["stopped"], &[STOPPED], &["stopped.signal"]).never(&[ON_STOPPER]).quick(),
    kind("stopped-in-call", &["stopped"], &[STOPPED], &["stopped.signal"]).never(&[ON_STOPPER, "in write"]),
    kind(
        "frozen",
        &["stopped"],
        &["freezer of its control group, thawed by thread {pauser_pid} (pauser)"],
        &["stopped.freezer"],
    )
    .never(&["for thread {pauser_pid}"]),
    kind(
        "stopped-peer",
        &["net"],
        &["{reranker_pid} (reranker), which was stopped by a signal"],
        &["stopped.signal"],
    ),
    kind(
        "small-writes",
        &["net"],
        &["{features_pid} (features), which waited for a socket"],
        &["net.both_wait"],
    ),
    kind("event", &["other"], &["{scorer_tid} (scorer)"], &["other.thread"]),
    kind("messages", &["other"], &["{ranker_pid} (ranker)"], &["other.thread"]),
    // Disks.
    kind("busy-disk", &["block_io"], &["reading from {device}"], &["block_io.queued"]),
    kind("cold-read", &["block_io"], &["reading from {device}"], &["block_io"]),
    kind("direct-read", &["block_io"], &["reading from {device}"], &["block_io"]),
    // The pages are read, and then put in place: either may take longer.
    kind("cold-map", &["fault", "cpu.fault"], &["reading from {device}"], &["fault"]),
    kind("fsync", &["block_io"], &["{device}", "fsync"], &["block_io.write", "block_io.queued"]),
    kind("synced-write", &["block_io"], &["{device}"], &["block_io.write", "block_io.queued"]),
    // On a fast disk the calls and the faults of the pages that they protect take as long as the disk does.
    kind(
        "msync",
        &["block_io", "cpu.syscall", "cpu.fault"],
        &["{device}", "msync"],
        &["block_io.write", "block_io.queued", "cpu.syscall", "cpu.fault"],
    ),
    kind("io-uring", &["poll"], &["reads of {device}"], &["poll.in_flight"]),
    // Its own work, and who has the CPUs.
    kind("more-work", &["cpu"], &["own code"], &["cpu"]).never(&["page faults as always"]).sampled().quick(),
    kind("more-work-in-c", &["cpu"], &["own code"], &["cpu"]).sampled(),
    kind("collector", &["cpu"], &["work/garbage collection"], &["cpu.collector"]).quick(),
    kind("touch", &["cpu.fault"], &["page faults instead of"], &["cpu.fault"]).quick(),
    kind("unmap", &["cpu.syscall"], &["munmap"], &["cpu.syscall"]).sampled(),
    kind("calls", &["cpu.syscall"], &["newfstatat"], &["cpu.syscall"]).own_too(),
    kind("big-call", &["cpu.syscall"], &["getrandom"], &["cpu.syscall"]).sampled(),
    kind("yield", &["cpu.syscall"], &["sched_yield"], &["cpu.syscall.yield"]).own_too(),
    kind("own-pool", &["runq"], &["its own thread"], &["runq.own"]).quick(),
    kind("siblings", &["runq"], &["behind indexer (pid", "processes (indexer"], &["runq.sibling"]),
    kind("nice", &["runq"], &["behind indexer (pid", "processes (indexer"], &["runq.sibling"]),
    kind("strangers", &["runq"], &["behind compiler (pid"], &["runq"]).beside(),
    kind("pinned", &["runq"], &["augmenter (pid", "processes (augmenter"], &["limit.mask"]),
    // Graphics processors, by a stub.
    kind("gpu-spins", &["cpu.gpu"], &["inside the driver"], &["cpu.gpu"]).with_driver().quick(),
    kind("gpu-blocks", &["gpu"], &["waits in the driver", "wait in the driver", "gpu:"], &["gpu"])
        .never(&["ended by"])
        .with_driver()
        .quick(),
    kind("gpu-copies", &["cpu.gpu"], &["copies that blocked"], &["cpu.gpu"]).with_driver(),
    said("gpu-launches", &[LAUNCHES], &[LAUNCHES, "advice The GPU is idle for most of each request"])
        .never(&["input-bound"])
        .with_card("idle", "idle")
        .quick(),
    said("gpu-input", &[INPUT], &[INPUT, "advice The GPU is idle while requests wait for their input"])
        .never(&["launch-bound"])
        .with_card("idle", "idle"),
    said("gpu-shared", &[SHARED], &[SHARED, "advice", "Another process uses the GPU as well"])
        .never(&["were held down"])
        .with_card("shared", "")
        .quick(),
    said("gpu-clock", &[HELD], &[HELD, "advice", "The GPU's clocks are held down"])
        .never(&["another process, "])
        .with_card("held", ""),
    // Limits of control groups.
    kind("quota", &["throttled"], &["{group}"], &["limit.quota"]).quick(),
    kind("quota-above", &["throttled"], &["{group}"], &["limit.quota"]),
    kind("memory-limit", &["fault", "block_io"], &["{group}"], &["limit.memory"]),
    kind("io-limit", &["block_io"], &["{group}"], &["limit.io", "block_io.held_back"]),
    kind("cpu-set", &["runq"], &["augmenter (pid", "processes (augmenter"], &["limit.cpus"]),
    // What the numbers do not contain, and what shares a thread.
    said("hung-after-fork", &[ALONE], &[ALONE]),
    said("deadlock", &[LOCKED], &[LOCKED]).never(&["could wake it"]),
    said(
        "untracked",
        &["(40 requests) came from threads that were not tracked: raise --max-threads"],
        &["not tracked"],
    )
    .with(&["--max-threads", "8"]),
    // One loop serves several clients: most of its waits end as another one asks.
    kind("loop-worker", &["poll"], &["(embedder), which had the work and slept"], &["sleep"])
        .never(&["(client) ("])
        .with(SERVED)
        .quick(),
    kind("loop-peer", &["poll"], &["{reranker_pid} (reranker)"], &["poll"])
        .never(&["(client) ("])
        .with(SERVED),
    kind("loop-blocked", &["suspended"], &["rerank"], &["suspended.held"]),
    kind("fork-large", &["address_space", "lock"], &["{forker_tid} (forker)"], &["address_space"])
        .never(&["read back from"]),
];
