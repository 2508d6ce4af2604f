//! The columns of every table of a run folder, each written once: name, type, help, and its way out of a row
//! and back. Accounts and counts come from the lists that define them, so a new one needs no edit here.
//!
//! Ids of traces and spans are lower-case hexadecimal text: Jaeger shows it, people paste it into a `WHERE`,
//! and DuckDB and pandas take it without a conversion (fixed-size binary would arrive there as BLOB and
//! `bytes`). Dictionaries and zstd give most of the doubled size back. Opens no file.

use std::sync::LazyLock;

use guestscope_contract::{Account, Source, metrics::Quantity};

use super::{
    cells::{NO_WORD, integer, ledger, metric, thread_id},
    gpu,
    limits::NAME_BYTES,
    sample::Sample,
    table::{Access, Column, Table, Width, each},
};
use crate::phase::{
    Accounts, Counts, Ending, Helpers, Holder, Mark, Phase, PhaseKind, Thread, ThreadId, TraceIds,
};
use crate::untrusted::Untrusted;

/// A word that is known only when the run is over.
macro_rules! label {
    ($name:literal, $help:literal, $field:ident) => {
        Column {
            at_close: true,
            ..optional_name!(PhaseRow: $name, $help, $field)
        }
    };
}

/// The column of the ids of traces.
pub(super) const TRACE_ID: &str = "trace_id";

/// A row of `phases`: a phase and what is known beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// The phase.
    pub phase: Phase,
    /// Its request is kept, and left out of statistics.
    pub warmup: bool,
    /// What explains most of its excess over the baseline; only in a closed folder.
    pub cause: Option<Untrusted>,
    /// The highest of p50, p90, p99, p99.9 that it reaches; only in a closed folder.
    pub tail: Option<Untrusted>,
}

/// `phases`: a row per phase; the rows of a request lie together, the outermost first.
pub(super) static PHASES: LazyLock<Table<PhaseRow>> = LazyLock::new(|| Table {
    name: "phases",
    columns: identity().into_iter().chain(interval()).chain(circumstances()).collect(),
    blank: || PhaseRow {
        phase: Phase {
            id: 0,
            parent: None,
            root: 0,
            kind: PhaseKind::Phase,
            name: NO_WORD.clone(),
            name_damaged: false,
            source: Source::Marker,
            status: None,
            request: 0,
            thread: ThreadId::default(),
            comm: NO_WORD.clone(),
            start_ns: 0,
            duration_ns: 0,
            suspended_ns: 0,
            accounts: Accounts::default(),
            counts: Counts::default(),
            helpers: Helpers::default(),
            trace: TraceIds::default(),
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        },
        warmup: false,
        cause: None,
        tail: None,
    },
});

/// `threads`: a row per thread that ended, or was last seen.
pub(super) static THREADS: LazyLock<Table<Thread>> = LazyLock::new(|| {
    let mut columns = thread_id(|row: &Thread| &row.id, |row| &mut row.id);
    columns.push(name!(Thread: "comm", "name at the end", comm));
    columns.push(integer!(Thread: "end_ns", "CLOCK_MONOTONIC at the end of tracking", end_ns));
    columns.extend(ledger(
        |row: &Thread| (&row.accounts, &row.counts),
        |row| (&mut row.accounts, &mut row.counts),
    ));
    columns.extend(Account::ALL.into_iter().map(|account| {
        let column = integer(
            "",
            "time in this account inside marked phases",
            move |row: &Thread| row.inside.get(account),
            move |row, value| row.inside.0[account as usize] = value,
        );
        Column { name: format!("inside_{}_ns", account.name()).into(), may_lack: true, ..column }
    }));
    columns.push(integer!(Thread: "phases", "marked phases that it began", phases));
    columns.push(flag!(Thread: "exited", "it ended by itself, else observation stopped before", exited));
    let blank = || Thread {
        id: ThreadId::default(),
        comm: NO_WORD.clone(),
        end_ns: 0,
        accounts: Accounts::default(),
        inside: Accounts::default(),
        counts: Counts::default(),
        phases: 0,
        exited: false,
    };
    Table { name: "threads", columns, blank }
});

/// `samples`: a row per look at the guest and the agent, and at a graphics processor.
pub(super) static SAMPLES: LazyLock<Table<Sample>> = LazyLock::new(|| {
    let mut columns = vec![
        integer!(Sample: "time_ns", "CLOCK_MONOTONIC", time_ns),
        integer!(Sample: "agent_cpu_ns", "CPU time of the agent so far", agent_cpu_ns),
        integer!(Sample: "agent_rss_bytes", "resident set of the agent", agent_rss_bytes),
        optional!(Sample: "psi_cpu_some_ns", "CPU pressure so far", psi_cpu_some_ns),
        optional!(Sample: "psi_memory_some_ns", "memory pressure so far", psi_memory_some_ns),
        optional!(Sample: "psi_io_some_ns", "I/O pressure so far", psi_io_some_ns),
        optional!(Sample: "steal_ns", "stolen by the hypervisor so far, all CPUs", steal_ns),
        integer!(Sample: "edges_read", "edges that the agent has read so far", edges_read),
    ];
    columns.extend(gpu::columns());
    Table { name: "samples", columns, blank: Sample::default }
});

/// `marks`: a row per marked point in time.
pub(super) static MARKS: LazyLock<Table<Mark>> = LazyLock::new(|| {
    let mut columns = thread_id(|row: &Mark| &row.thread, |row| &mut row.thread);
    columns.push(name!(Mark: "name", "as the program gave it", name));
    columns.push(integer!(Mark: "time_ns", "CLOCK_MONOTONIC", time_ns));
    columns.push(optional!(Mark: "phase", "`id` of the phase that was innermost there", phase));
    let blank = || Mark { thread: ThreadId::default(), name: NO_WORD.clone(), time_ns: 0, phase: None };
    Table { name: "marks", columns, blank }
});

fn identity() -> Vec<Column<PhaseRow>> {
    vec![
        integer!(PhaseRow: "id", "unique in the run, from 1", phase.id),
        optional!(PhaseRow: "parent", "`id` of the phase around it", phase.parent),
        integer!(PhaseRow: "root", "`id` of its request", phase.root),
        Column::new(
            "kind",
            "request, phase, queue or process",
            Access::Word {
                get: Box::new(|row: &PhaseRow| Some(row.phase.kind.name())),
                set: Box::new(|row, word| kind(word.stored()).map(|kind| row.phase.kind = kind).is_some()),
                optional: false,
            },
        ),
        Column::new(
            "name",
            "as the program gave it",
            Access::Word {
                get: Box::new(|row: &PhaseRow| Some(row.phase.name.stored())),
                set: Box::new(|row, word| {
                    row.phase.name = word.clone();
                    word.stored().len() as u64 <= NAME_BYTES.most
                }),
                optional: false,
            },
        ),
        Column::new(
            "request",
            "number that the program gave to the request",
            Access::Integer {
                width: Width::Unsigned,
                get: Box::new(|row: &PhaseRow| row.phase.request),
                set: each(|row: &mut PhaseRow, value| row.phase.request = value),
            },
        ),
    ]
}

fn interval() -> Vec<Column<PhaseRow>> {
    let mut columns = thread_id(|row: &PhaseRow| &row.phase.thread, |row| &mut row.phase.thread);
    let comm =
        name!(PhaseRow: "comm", "name that the thread had at `start_ns`, empty if unknown", phase.comm);
    columns.push(Column { may_lack: true, ..comm });
    columns.push(integer!(PhaseRow: "start_ns", "CLOCK_MONOTONIC", phase.start_ns));
    columns.push(integer!(PhaseRow: "duration_ns", "begin to end", phase.duration_ns));
    columns.extend(Quantity::all().map(|quantity| {
        metric(
            quantity.row(),
            move |row: &PhaseRow| row.phase.get(quantity),
            move |row, value| row.phase.set(quantity, value),
        )
    }));
    let shared = flag!(PhaseRow: "helper_shared", "other requests were in flight: an equal share", phase.helpers.shared);
    let partial = flag!(PhaseRow: "helper_partial", "some helpers are in no sum", phase.helpers.partial);
    columns.extend(
        [shared, partial].into_iter().chain(holder()).map(|column| Column { may_lack: true, ..column }),
    );
    columns
}

/// What its thread did for the longest time while it was suspended; set together or not at all.
fn holder() -> [Column<PhaseRow>; 3] {
    fn of(row: &mut PhaseRow) -> &mut Holder {
        row.phase.holder.get_or_insert_with(|| Box::new(Holder { request: 0, phase: None, ns: 0 }))
    }
    let number = |name, help, get: fn(&Holder) -> u64, set: fn(&mut Holder, u64)| {
        let get = Box::new(move |row: &PhaseRow| row.phase.holder.as_deref().map(get));
        Column::new(
            name,
            help,
            Access::OptionalInteger { get, set: Box::new(move |row, ns| set(of(row), ns)) },
        )
    };
    let phase = Access::Word {
        get: Box::new(|row: &PhaseRow| Some(row.phase.holder.as_deref()?.phase.as_ref()?.stored())),
        set: Box::new(|row, word| {
            of(row).phase = Some(word.clone());
            word.stored().len() as u64 <= NAME_BYTES.most
        }),
        optional: true,
    };
    [
        Column::new(
            "held_by_request",
            "request whose phase had the thread for the longest time while this one was suspended; 0 for none",
            Access::Integer {
                width: Width::Unsigned,
                get: Box::new(|row: &PhaseRow| {
                    row.phase.holder.as_deref().map_or(0, |holder| holder.request)
                }),
                set: each(|row: &mut PhaseRow, number| {
                    if number != 0 {
                        of(row).request = number;
                    }
                }),
            },
        ),
        Column::new("held_by_phase", "that phase; none for code outside of phases", phase),
        number("held_by_ns", "its time there meanwhile, ns", |holder| holder.ns, |holder, ns| holder.ns = ns),
    ]
}

fn circumstances() -> Vec<Column<PhaseRow>> {
    vec![
        hex(TRACE_ID, "of the request", |row| &mut row.phase.trace.trace_id, |row| &row.phase.trace.trace_id),
        hex("span_id", "of the phase", |row| &mut row.phase.trace.span_id, |row| &row.phase.trace.span_id),
        Column::new(
            "parent_span_id",
            "of the phase around it, or of the program's own span",
            Access::Hex {
                get: Box::new(|row: &PhaseRow| {
                    row.phase.trace.parent_span_id.as_ref().map(<[u8; 8]>::as_slice)
                }),
                set: Box::new(|row, id| {
                    id.try_into().map(|id| row.phase.trace.parent_span_id = Some(id)).is_ok()
                }),
                optional: true,
            },
        ),
        flag!(PhaseRow: "parent_is_remote", "the parent is the program's own span", phase.trace.parent_is_remote),
        Column::new(
            "ending",
            "ended, thread_exited, exec, lost or observation_stopped",
            Access::Word {
                get: Box::new(|row: &PhaseRow| Some(row.phase.ending.name())),
                set: Box::new(|row, word| {
                    Ending::by_name(word.stored()).map(|ending| row.phase.ending = ending).is_some()
                }),
                optional: false,
            },
        ),
        flag!(PhaseRow: "name_damaged", "the name was cut, unreadable or repaired", phase.name_damaged),
        Column { may_lack: true, ..source() },
        Column { may_lack: true, ..status_code() },
        integer!(PhaseRow: "edges_lost", "edges lost inside it: nested phases may be missing", phase.edges_lost),
        flag!(PhaseRow: "warmup", "its request is left out of statistics", warmup),
        label!("cause", "what explains most of its excess over the baseline", cause),
        label!("tail", "highest of p50, p90, p99, p99.9 that it reaches", tail),
    ]
}

fn source() -> Column<PhaseRow> {
    static HELP: LazyLock<String> = LazyLock::new(|| {
        let [before @ .., last] = Source::ALL.map(Source::name);
        format!("who said that it begins: {} or {last}", before.join(", "))
    });
    Column::new(
        "source",
        HELP.as_str(),
        Access::Word {
            get: Box::new(|row: &PhaseRow| Some(row.phase.source.name())),
            set: Box::new(|row, word| {
                Source::by_name(word.stored()).map(|source| row.phase.source = source).is_some()
            }),
            optional: false,
        },
    )
}

fn status_code() -> Column<PhaseRow> {
    Column::new(
        "status_code",
        "how a request that came over a network was answered, by its protocol's number",
        Access::OptionalInteger {
            get: Box::new(|row: &PhaseRow| row.phase.status.map(u64::from)),
            set: Box::new(|row, value| row.phase.status = u32::try_from(value).ok()),
        },
    )
}

fn hex<const BYTES: usize>(
    name: &'static str,
    help: &'static str,
    write: fn(&mut PhaseRow) -> &mut [u8; BYTES],
    read: fn(&PhaseRow) -> &[u8; BYTES],
) -> Column<PhaseRow> {
    let access = Access::Hex {
        get: Box::new(move |row| Some(read(row))),
        set: Box::new(move |row, id| id.try_into().map(|id| *write(row) = id).is_ok()),
        optional: false,
    };
    Column::new(name, help, access)
}

/// The kind of this name. The chain names every variant, or it does not compile.
fn kind(word: &str) -> Option<PhaseKind> {
    let next = |kind: &PhaseKind| match kind {
        PhaseKind::Request => Some(PhaseKind::Phase),
        PhaseKind::Phase => Some(PhaseKind::Queue),
        PhaseKind::Queue => Some(PhaseKind::Process),
        PhaseKind::Process => None,
    };
    std::iter::successors(Some(PhaseKind::Request), next).find(|kind| kind.name() == word)
}
