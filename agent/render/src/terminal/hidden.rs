//! The first lines of a summary and of an explanation, where there is something that their numbers do not
//! contain: requests without an end, and marks of threads that were not tracked.
//!
//! Yields lines on a page, and the same for JSON. A run without such things has no line.

use guestscope_contract::Account;
use serde::Serialize;

use crate::{
    analyze::{Hidden, Openly, Openness, Untracked},
    phase::{Doing, Fate, OpenWait, Others, Stopper, Unfinished},
    untrusted::Untrusted,
};

use super::{
    explain::syscalls,
    findings::path_name,
    health_lines,
    page::{Emphasis, Page},
    style::Style,
    units::{counted, duration, thousands},
    waits_for,
};

/// Columns of a name.
const NAME: usize = 64;

/// The lines, and an empty one behind them. `same_syscalls`: numbers of system calls mean the same here.
pub(super) fn lines(page: &mut Page, hidden: &Hidden, same_syscalls: bool) {
    let before = page.length();
    for openness in Openness::ALL {
        let Some(those) = hidden.of(openness) else { continue };
        // One request or another is always in flight while the program runs.
        if (openness, those.longest.fate) == (Openness::InFlight, Fate::Open) {
            continue;
        }
        let emphasis = if openness == Openness::InFlight { Emphasis::None } else { Emphasis::Bad };
        page.sentence(&sentence(page, openness, &those, same_syscalls), emphasis);
        if let Some(advice) = openness.advice(those.longest) {
            health_lines::advice(page, "advice", &advice.text, &advice.source);
        }
    }
    if let Some(text) = untracked(&hidden.untracked) {
        page.sentence(&text, Emphasis::Bad);
    }
    if page.length() > before {
        page.blank();
    }
}

/// The lines alone; nothing where nothing is hidden.
pub fn render_hidden(hidden: &Hidden, same_syscalls: bool, style: Style) -> String {
    let mut page = Page::new(style);
    lines(&mut page, hidden, same_syscalls);
    page.finish()
}

/// `1 request is still open: serve 1, for 13.8 s in tokenize, waiting in futex (lock) for 13.7 s; ...`
fn sentence(page: &Page, openness: Openness, those: &Openly<'_>, same_syscalls: bool) -> String {
    let (one, is_one) = (those.longest, those.count == 1);
    let subject = counted(those.count, "request", "requests");
    let state = match (openness, one.fate, is_one) {
        (Openness::Ended, ..) => "did not end",
        (Openness::InFlight, _, true) => "was in flight at the end",
        (Openness::InFlight, _, false) => "were in flight at the end",
        (Openness::Hung, Fate::Open, true) => "is still open",
        (Openness::Hung, Fate::Open, false) => "are still open",
        (Openness::Hung, _, true) => "was still open at the end",
        (Openness::Hung, _, false) => "were still open at the end",
    };
    let which = match (is_one, openness) {
        (true, _) => "",
        (false, Openness::Ended) => ", the longest",
        (false, Openness::Hung | Openness::InFlight) => ", the oldest",
    };
    let unicode = page.style().unicode;
    let place = if one.path.is_empty() {
        "outside its phases".to_owned()
    } else {
        format!("in {}", page.fit(&path_name(&one.path, unicode), NAME))
    };
    let age = duration(one.age_ns());
    let mut text = format!(
        "{subject} {state}{which}: {} {} (pid {}), for {age} {place}",
        page.name(&one.name, NAME),
        one.request,
        one.thread.tgid
    );
    if openness == Openness::InFlight {
        return text;
    }
    text.push_str(&doing(page, one, same_syscalls));
    text.push_str(match one.fate {
        Fate::Open | Fate::Stopped => "",
        Fate::ThreadEnded => ", until its thread ended",
        Fate::ProcessEnded => ", until its process ended",
        Fate::Replaced => ", until its process executed another program",
    });
    if let (Doing::Waits(wait), Some(others)) = (&one.doing, one.others)
        && wait.account == Account::Lock
    {
        text.push_str(&wakers(wait, others, one.fate == Fate::Open));
    }
    text
}

fn doing(page: &Page, one: &Unfinished, same_syscalls: bool) -> String {
    let since = |since_ns: u64| duration(one.until_ns.saturating_sub(since_ns));
    match &one.doing {
        Doing::Unknown => String::new(),
        Doing::Runs => ", running".to_owned(),
        Doing::Queued { since_ns } => format!(", runnable without a CPU for {}", since(*since_ns)),
        Doing::Suspended { since_ns } => format!(", on no thread for {}", since(*since_ns)),
        Doing::Waits(wait) if let Some(by) = wait.stopped_by => {
            format!(", {} for {}", waits_for::stopped(by, None), since(wait.since_ns))
        }
        Doing::Waits(wait) => {
            let call = wait.syscall.filter(|_| same_syscalls).and_then(syscalls::name);
            let call = call.map(|call| format!(" in {call}")).unwrap_or_default();
            let object = wait.object.as_ref().map(|object| format!(" of {}", page.name(object, NAME)));
            let (account, object) = (wait.account.name(), object.unwrap_or_default());
            format!(", waiting{call} ({account}){object} for {}", since(wait.since_ns))
        }
    }
}

/// Who could end a wait for a lock.
fn wakers(wait: &OpenWait, others: Others, is_now: bool) -> String {
    let Others { alive, locked, .. } = others;
    let (is, can) = if is_now { ("is", "can") } else { ("was", "could") };
    let forked = others.forked_from.map(|pid| format!(", forked from process {pid},"));
    let forked = forked.unwrap_or_default();
    match (alive, wait.is_private) {
        (0, Some(true)) => {
            format!("; no other thread of its process{forked} {is} alive: nobody {can} wake it")
        }
        (0, Some(false)) => {
            format!(
                "; no other thread of its process{forked} {is} alive: another process or a time limit may \
                 wake it"
            )
        }
        (0, None) => format!("; no other thread of its process{forked} {is} alive to wake it"),
        (1, _) if locked == 1 => {
            let waits = if is_now { "waits" } else { "waited" };
            format!("; the other thread of its process {waits} for a lock as well")
        }
        (1, _) => format!("; the other thread of its process {can} wake it"),
        (alive, _) if locked >= alive => {
            let wait = if is_now { "wait" } else { "waited" };
            format!("; all {} other threads of its process {wait} for locks as well", thousands(alive.into()))
        }
        (alive, _) if locked > 0 => {
            let waits = match (locked, is_now) {
                (1, true) => "waits for a lock",
                (_, true) => "wait for locks",
                (1, false) => "waited for a lock",
                (_, false) => "waited for locks",
            };
            let (locked, alive) = (thousands(locked.into()), thousands(alive.into()));
            format!("; {locked} of {alive} other threads of its process {waits} as well")
        }
        (alive, _) => format!("; {} other threads of its process {can} wake it", thousands(alive.into())),
    }
}

fn untracked(untracked: &Untracked) -> Option<String> {
    let Untracked { marks, requests, for_want_of_room, max_threads } = *untracked;
    if marks == 0 {
        return None;
    }
    let requests = match requests {
        0 => String::new(),
        _ => format!(" ({})", counted(requests, "request", "requests")),
    };
    let now = max_threads.map(|most| format!(" (now {})", thousands(most.into()))).unwrap_or_default();
    let remedy = if for_want_of_room { format!(": raise --max-threads{now}") } else { String::new() };
    let marks = counted(marks, "mark", "marks");
    Some(format!("{marks}{requests} came from threads that were not tracked{remedy}"))
}

/// A request without an end.
#[derive(Serialize)]
pub(super) struct OpenJson<'a> {
    kind: &'static str,
    fate: &'static str,
    name: &'a Untrusted,
    request: u64,
    path: &'a [Untrusted],
    pid: u32,
    tid: u32,
    start_ns: u64,
    open_ns: u64,
    phase_open_ns: u64,
    state: &'static str,
    account: Option<&'static str>,
    syscall: Option<u32>,
    stopped_by: Option<&'static str>,
    state_ns: Option<u64>,
    object: Option<&'a Untrusted>,
    is_private: Option<bool>,
    other_threads: Option<u32>,
    other_threads_locked: Option<u32>,
    forked_from: Option<u32>,
    advice: Option<String>,
    advice_source: Option<String>,
}

/// The listed requests without an end, the longest first.
pub(super) fn open_json(hidden: &Hidden) -> Vec<OpenJson<'_>> {
    hidden.requests.iter().map(|(openness, one)| of(*openness, one)).collect()
}

fn of(openness: Openness, one: &Unfinished) -> OpenJson<'_> {
    let (state, since_ns, wait) = match &one.doing {
        Doing::Unknown => ("unknown", None, None),
        Doing::Runs => ("running", None, None),
        Doing::Queued { since_ns } => ("runnable", Some(*since_ns), None),
        Doing::Suspended { since_ns } => ("suspended", Some(*since_ns), None),
        Doing::Waits(wait) => ("waiting", Some(wait.since_ns), Some(wait)),
    };
    let (advice, advice_source) = openness.advice(one).map(|advice| (advice.text, advice.source)).unzip();
    OpenJson {
        kind: openness.name(),
        fate: one.fate.name(),
        name: &one.name,
        request: one.request,
        path: &one.path,
        pid: one.thread.tgid,
        tid: one.thread.tid,
        start_ns: one.start_ns,
        open_ns: one.age_ns(),
        phase_open_ns: one.until_ns.saturating_sub(one.phase_start_ns),
        state,
        account: wait.map(|wait| wait.account.name()),
        syscall: wait.and_then(|wait| wait.syscall),
        stopped_by: wait.and_then(|wait| wait.stopped_by).map(Stopper::name),
        state_ns: since_ns.map(|since_ns| one.until_ns.saturating_sub(since_ns)),
        object: wait.and_then(|wait| wait.object.as_ref()),
        is_private: wait.and_then(|wait| wait.is_private),
        other_threads: one.others.map(|others| others.alive),
        other_threads_locked: one.others.map(|others| others.locked),
        forked_from: one.others.and_then(|others| others.forked_from),
        advice,
        advice_source,
    }
}
