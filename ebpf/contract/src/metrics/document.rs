//! `docs/metrics.md` is the table, written out: this test keeps them equal. `INSTA_UPDATE=always` writes the
//! file.

use std::{collections::HashSet, env, fmt::Write as _, fs, path::Path};

use super::{Account, Class, FilledBy, Metric, Quantity, Row, Unit, WaitsFor};

const HEAD: &str = "\
# Metrics

The quantities of a phase, beside its start and its duration. They come from one table (`ebpf/contract/src/metrics/`
and, for accounts, `ebpf/contract/src/account.rs`). The name of a quantity is the same everywhere: `count.block.read_bytes` is the column `count_block_read_bytes` of
a folder's Parquet files, the attribute `guestscope.count.block.read_bytes` of a span, and the key
`block.read_bytes` of the JSON object `count`. Times are nanoseconds, sizes are bytes.
";

const fn about(class: Class) -> &'static str {
    match class {
        Class::Time => {
            "## time\n\nParts of the duration, exact and exclusive: they add up to it, to the nanosecond. Accounts \
             are time of the phase's threads. With fidelity `tracepoint` or \
             `procfs` fewer are told apart: the time is then in the account of the column \"or in\". Summaries as \
             JSON have two more parts: `queue_ns` (from a request's scheduled arrival to its start) and \
             `handoff_ns` (of a connection's request, on an unknown thread or on none).\n"
        }
        Class::Helper => {
            "## helper\n\nThe process's other threads meanwhile, outside phases of their own. With several requests \
             in flight each gets an equal share.\n"
        }
        Class::HelperWait => {
            "## helper_wait\n\nHow long at least one of the helpers had work and could not run, by long waits \
             alone: an estimate.\n"
        }
        Class::Overlay => {
            "## overlay\n\nParts of the times above that are known from elsewhere. They are never added to them. \
             Summaries, explanations and reports make four more of samples (`count.sample.*`, 499 per second of \
             CPU time), as parts of `cpu`: `cpu.fault`, `cpu.syscall`, `cpu.spin` and `cpu.irq`.\n"
        }
        Class::Operation => {
            "## operation\n\nDurations of operations, added up. Operations overlap, so a sum may exceed the phase's \
             duration; divide it by the count of the same name.\n"
        }
        Class::Count => "## count\n\nEvents and bytes of the phase's threads.\n",
    }
}

const fn source(filled_by: FilledBy) -> &'static str {
    match filled_by {
        FilledBy::Switches => "switches",
        FilledBy::Scheduler => "wake-ups, CPUs of switches",
        FilledBy::Faults => "the kernel's counters of faults",
        FilledBy::Throttle => "throttle clocks of control groups",
        FilledBy::Hypervisor => "the hypervisor's steal clock",
        FilledBy::Beats => "late beats of all CPUs",
        FilledBy::Sampler => "samples",
        FilledBy::BlockLayer => "block layer",
        FilledBy::Sockets => "socket calls, TCP",
        FilledBy::Driver => "functions of graphics processors' drivers",
        FilledBy::LongWaits => "long waits",
        FilledBy::Marks => "marks",
        FilledBy::Ledger => "the ledger",
    }
}

const fn waits_for(waits_for: WaitsFor) -> &'static str {
    match waits_for {
        WaitsFor::Nothing => "nothing",
        WaitsFor::Cpu => "a CPU",
        WaitsFor::Device => "a device",
        WaitsFor::Thread => "a thread",
        WaitsFor::Peer => "a thread, a machine, a timer",
        WaitsFor::Timer => "a timer",
        WaitsFor::Unknown => "anything",
    }
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    let mut class = None;
    for row in Quantity::all().map(Quantity::row) {
        if class != Some(row.class) {
            class = Some(row.class);
            let columns = if row.class == Class::Time {
                "| name | waits for | or in | from | what |\n|---|---|---|---|---|"
            } else {
                "| name | from | what |\n|---|---|---|"
            };
            let _ = write!(text, "\n{}\n{columns}\n", about(row.class));
        }
        let account = Account::ALL.iter().find(|account| account.name() == row.name);
        let of_time = || match account {
            Some(account) => format!(" {} | `{}` |", waits_for(account.waits_for()), account.coarse().name()),
            None => " | |".to_owned(),
        };
        let more = if row.class == Class::Time { of_time() } else { String::new() };
        let _ = writeln!(text, "| `{}` |{more} {} | {} |", row.key, source(row.filled_by), row.help.trim());
    }
    text
}

#[test]
fn the_document_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let made = document();
    if env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        fs::write(&path, &made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "docs/metrics.md differs from the table: run with INSTA_UPDATE=always\n{made}");
}

#[test]
fn names_are_unique_and_follow_the_rule() {
    let mut columns = HashSet::new();
    for row in Quantity::all().map(Quantity::row) {
        let &Row { class, name, unit, key, attribute, help, .. } = row;
        assert!(columns.insert(row.column()), "twice: {attribute}");
        let suffix = match unit {
            Unit::Events => "",
            Unit::Ns => "_ns",
            Unit::Bytes => "_bytes",
        };
        assert_eq!(key, format!("{name}{suffix}"));
        let word = name.split('.').all(|word| {
            !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
        });
        assert!(word && help.trim().ends_with('.'), "{attribute}: {help}");
        // What is counted is a count, what is measured in time is not.
        assert!(unit != Unit::Ns || class != Class::Count, "{attribute}");
    }
    assert!(Metric::ALL.iter().enumerate().all(|(index, metric)| *metric as usize == index));
}
