//! What the pairing yields, as aligned text for snapshots: zeros and what is as expected are left out.

use std::fmt::Write as _;

use guestscope_contract::Source;

use crate::phase::{
    Accounts, Counts, Ending, Helpers, Holder, KEPT, Metric, Phase, PhaseKind, Request, ThreadId, Wait,
    pairing::{Output, Pairing},
};

/// Every output in its order, then what is still open, then the losses.
pub(super) fn outputs(outputs: &[Output], pairing: &Pairing) -> String {
    let mut rows = Vec::new();
    for output in outputs {
        match output {
            Output::Request(request) => rows.extend(request.phases.iter().map(|phase| row(phase, request))),
            Output::Thread(thread) => {
                let end = if thread.exited { "exited" } else { "last seen" };
                let details = [
                    accounts(&thread.accounts),
                    counts(&thread.counts),
                    note("phases", thread.phases),
                    end.to_owned(),
                ];
                let span = format!("{}..{}", thread.id.born_ns, thread.end_ns);
                rows.push([format!("thread {}", thread.comm), on(thread.id), span, join(&details)]);
            }
            Output::Mark(mark) => {
                let of = mark.phase.map_or_else(|| "outside".to_owned(), |id| format!("in phase {id}"));
                rows.push([format!("mark {}", mark.name), on(mark.thread), mark.time_ns.to_string(), of]);
            }
            Output::Wait(wait) => rows.push(waited(wait)),
            Output::GpuWork(work) => {
                let of = work.phase.map_or_else(|| "outside".to_owned(), |id| format!("in phase {id}"));
                let span = format!("{}..{}", work.start_ns, work.end_ns);
                rows.push([format!("{} {}", work.kind.name(), work.name), work.thread.to_string(), span, of]);
            }
            Output::Pause(_) => unreachable!("pairing knows no pauses"),
        }
    }
    let widths: Vec<usize> =
        (0..3).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for [what, on, span, details] in rows {
        let (what_width, on_width, span_width) = (widths[0], widths[1], widths[2]);
        let line = format!("{what:<what_width$}  {on:<on_width$}  {span:<span_width$}  {details}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if !pairing.open.is_empty() {
        let _ = writeln!(text, "still open: {}", pairing.open.len());
    }
    let lost = losses(pairing);
    if !lost.is_empty() {
        let _ = writeln!(text, "losses: {lost}");
    }
    text
}

fn waited(wait: &Wait) -> [String; 4] {
    let of = match (wait.phase, wait.root) {
        (Some(phase), Some(root)) => format!("in phase {phase} of {root}"),
        _ => "outside".to_owned(),
    };
    let name = wait.waker_comm.as_ref().map_or(String::new(), |comm| format!(" ({comm})"));
    let woken = wait.waker_tid.map_or(String::new(), |tid| format!("woken by {tid}{name}"));
    let blocked = note(wait.account.name(), wait.blocked_ns);
    let (runq, throttled) = (note("runq", wait.runq_ns()), note("throttled", wait.throttled_ns));
    let blame = wait.blame.map_or(String::new(), |blame| {
        format!("for {} in {} {}, {} away", blame.tid, blame.account.name(), blame.ns, blame.depth)
    });
    let io = wait.io.as_ref().map_or(String::new(), |io| {
        let held = if io.is_held { ", held back" } else { "" };
        let in_flight =
            io.in_flight.map_or(String::new(), |most| format!(", in flight {}+{}", most.reads, most.writes));
        format!("{} {}{held}{in_flight}", io.direction(), io.device)
    });
    let inside = wait.ns_tid.map_or(String::new(), |tid| format!("thread {tid} in its namespace"));
    let group = wait.cgroup_number.map_or(String::new(), |number| format!("group {number}"));
    let stopped = wait.stopped_by.map_or(String::new(), |by| format!("stopped by {}", by.name()));
    let details = [of, blocked, runq, throttled, stopped, woken, blame, io, inside, group];
    let span = format!("{}..{}", wait.start_ns, wait.start_ns + wait.duration_ns);
    [format!("wait behind {}", wait.ran_before_comm), on(wait.thread), span, join(&details)]
}

fn row(phase: &Phase, request: &Request) -> [String; 4] {
    let mut depth = 0;
    let mut around = phase.parent;
    while let Some(id) = around {
        depth += 1;
        around = request.phases.iter().find(|phase| phase.id == id).and_then(|phase| phase.parent);
    }
    let number = if phase.request == 0 { String::new() } else { format!(" #{}", phase.request) };
    let what = format!("{}{} {}{number}", "  ".repeat(depth), phase.kind.name(), phase.name);
    let details = [
        accounts(&phase.accounts),
        note("suspended", phase.suspended_ns),
        counts(&phase.counts),
        helpers(&phase.helpers),
        note("edges lost", phase.edges_lost),
        if phase.ending == Ending::Ended { String::new() } else { phase.ending.name().to_owned() },
        if phase.name_damaged { "name damaged".to_owned() } else { String::new() },
        if phase.source == Source::Marker { String::new() } else { format!("from {}", phase.source.name()) },
        phase.status.map_or_else(String::new, |status| format!("status {status}")),
        phase.holder.as_deref().map_or_else(String::new, |Holder { request, phase, ns }| match phase {
            Some(name) => format!("held by {name} #{request} {ns}"),
            None => format!("held from outside {ns}"),
        }),
    ];
    let end_ns = phase.start_ns + phase.duration_ns;
    let span = format!("{}..{end_ns}", phase.start_ns);
    if phase.kind == PhaseKind::Queue {
        return [what, String::new(), span, join(&details)];
    }
    [what, on(phase.thread), span, join(&details)]
}

fn helpers(helpers: &Helpers) -> String {
    let mut text = accounts(&helpers.accounts);
    if !text.is_empty() {
        text = format!("{} helpers: {text}", helpers.threads);
    }
    let flag = |is: bool, word: &str| if is { word.to_owned() } else { String::new() };
    let waits: Vec<String> = KEPT
        .iter()
        .enumerate()
        .flat_map(|(kept, account)| {
            let word = |how: &str| format!("helper's {} {how}", account.name());
            [
                note(&word("while on cpu"), helpers.wait.on_cpu[kept]),
                note(&word("while waiting"), helpers.wait.waiting[kept]),
            ]
        })
        .collect();
    join(&[text, flag(helpers.shared, "shared"), flag(helpers.partial, "partial"), join(&waits)])
}

fn on(thread: ThreadId) -> String {
    format!("{}/{}", thread.tgid, thread.tid)
}

fn note(what: &str, amount: u64) -> String {
    if amount == 0 { String::new() } else { format!("{what} {amount}") }
}

fn join(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn accounts(accounts: &Accounts) -> String {
    let parts: Vec<String> = accounts.iter().map(|(account, ns)| note(account.name(), ns)).collect();
    join(&parts)
}

fn counts(counts: &Counts) -> String {
    let parts: Vec<String> =
        Metric::ALL.into_iter().map(|metric| note(metric.row().key, counts.get(metric))).collect();
    join(&parts)
}

fn losses(pairing: &Pairing) -> String {
    let losses = &pairing.losses;
    join(&[
        note("edges lost", losses.edges_lost),
        note("edges before", losses.edges_before),
        note("unmatched ends", losses.unmatched_ends),
        note("unended phases", losses.unended_phases),
        note("damaged names", losses.damaged_names),
        note("unknown edges", losses.unknown_edges),
        note("torn edges", losses.torn_edges),
        note("late I/Os", losses.late_ios),
        note("phases left out", losses.phases_left_out),
        note("requests cut", losses.requests_cut),
        note("names left out", losses.names_left_out),
    ])
}
