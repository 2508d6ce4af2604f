//! The summary of a run: the answer in three lines, phases, slowest requests, then facts about the run and
//! the agent.
//!
//! Yields text. It states what was not observed, and names a next step only if there is one.

use std::{cmp::Reverse, fmt::Write as _};

use guestscope_contract::Account;

use crate::untrusted::Shown as _;
use crate::{
    analyze::{Cause, ENOUGH_REQUESTS, Group, Headline, Summary},
    health::{Fidelity, Health, Outcome},
    phase::Metric,
    probes::cpu,
    sources::{Kind, Report},
};

use super::{
    accounts::means,
    facts::{Exit, RunFacts},
    findings::{count_of, headline_of, mean, numbers},
    gpu, gpu_work,
    health_lines::{INDENT, cost, duration_of, export, fact, hooks, lost, missing_hooks},
    helpers, hidden, hints, inside, limits,
    page::{Emphasis, Page, Piece},
    restored,
    slowest::{notes, slowest},
    sources, starved,
    style::Style,
    tables::{phases, processes, sums_of},
    text::{plain, quoted},
    threads,
    units::{bytes, counted, duration, duration_of_sum, hex, mean as mean_count, thousands},
    unseen,
};

/// Longest command line shown, columns.
const COMMAND: usize = 160;

/// Most kinds of requests with a table; the others share a line.
const SHOWN: usize = 8;

/// One line for the start of a run, on stderr.
pub fn render_banner(facts: &RunFacts, health: &Health, style: Style) -> String {
    let kernel = facts.kernel.as_deref().map(|kernel| format!("kernel {}, ", plain(kernel, style.unicode)));
    format!(
        "guestscope {}  {}  fidelity {}  ({}{}, attached in {})\n",
        plain(&facts.version, style.unicode),
        plain(&facts.scenario, style.unicode),
        health.fidelity.name(),
        kernel.unwrap_or_default(),
        hooks(&health.hooks),
        duration_of(health.cost.attach),
    )
}

/// The whole summary.
pub fn render_summary(summary: &Summary, health: &Health, facts: &RunFacts, style: Style) -> String {
    let mut page = Page::new(style);
    hidden::lines(&mut page, &facts.hidden, true);
    for (index, group) in summary.groups.iter().take(SHOWN).enumerate() {
        if index > 0 {
            page.blank();
        }
        // A program's own request needs no name, unless there are several kinds.
        let is_named = summary.groups.len() > 1 || health.sources.iter().any(makes_requests);
        render_group(&mut page, group, facts, health, is_named);
    }
    if summary.groups.is_empty() {
        render_no_requests(&mut page, summary, facts);
    }
    page.blank();
    gpu_work::tables(&mut page, facts.gpu_work.as_ref());
    render_more(&mut page, summary);
    render_facts(&mut page, summary, health, facts);
    page.finish()
}

/// One line for names with less time than those with tables.
fn render_more(page: &mut Page, summary: &Summary) {
    let Some(more) = summary.groups.get(SHOWN..).filter(|more| !more.is_empty()) else { return };
    let unicode = page.style().unicode;
    let of =
        |group: &Group| format!("{} {}", plain(group.name.stored(), unicode), thousands(group.latency.count));
    let names: Vec<String> = more.iter().map(of).collect();
    let kinds = counted(more.len() as u64, "kind", "kinds");
    fact(page, "more", &format!("{kinds} of requests: {}", names.join(", ")), Emphasis::None);
}

/// Whether requests came from this source, and not from the program's own marks.
fn makes_requests(report: &Report) -> bool {
    report.kind != Kind::Marker && report.made.requests > 0
}

fn render_group(page: &mut Page, group: &Group, facts: &RunFacts, health: &Health, is_named: bool) {
    let unicode = page.style().unicode;
    let name = if is_named { format!("{}: ", page.name(&group.name, 64)) } else { String::new() };
    page.sentence(&format!("{name}{}", numbers(group)), Emphasis::Strong);
    let emphasis = match group.headline {
        Headline::Cause { .. } | Headline::Shared { .. } => Emphasis::Warning,
        Headline::Mixed { .. } | Headline::TooFew { .. } | Headline::Alike { .. } => Emphasis::None,
    };
    page.sentence(&headline_of(group, &group.headline, facts.cpu_quota.as_ref(), unicode), emphasis);
    page.sentence(&mean(group), Emphasis::None);
    let recorded = facts.gpu_work.as_ref();
    starved::line(page, group, gpu_work::busy_percent(group, recorded, facts.gpu.serving_percent()));
    gpu_work::line(page, group, recorded);
    limits::lines(page, group, &facts.limits);
    page.blank();
    phases(page, group);
    page.blank();
    let before = page.length();
    if group.latency.count > 1 {
        slowest(page, group);
    }
    notes(page, group);
    if page.length() > before {
        page.blank();
    }
    per_request(page, group, health.fidelity);
    let is_ours = |hook: &str| cpu::HOOKS.iter().any(|ours| ours.id == hook);
    let is_sampled =
        health.hooks.iter().any(|verdict| verdict.outcome == Outcome::Ok && is_ours(&verdict.hook));
    inside::cpu(page, group, is_sampled, facts);
    if health.fidelity.sees_scheduling() {
        helpers::line(page, group);
    }
}

fn per_request(page: &mut Page, group: &Group, fidelity: Fidelity) {
    let mean = |metric: Metric| mean_count(count_of(group, metric), group.latency.count);
    let (voluntary, forced) = (mean(Metric::SwitchVoluntary), mean(Metric::SwitchInvoluntary));
    let mut texts = vec![format!("switches {voluntary} voluntary, {forced} forced")];
    if fidelity.sees_scheduling() {
        texts.extend([wakeups(group), migrations(group)]);
    }
    if fidelity.sees_faults() {
        texts.push(format!("faults {} minor, {} major", mean(Metric::FaultMinor), mean(Metric::FaultMajor)));
    }
    let stolen_ns = count_of(group, Metric::Steal) / u128::from(group.latency.count.max(1));
    if stolen_ns > 0 {
        texts.push(format!("stolen by the hypervisor {} of cpu", duration_of_sum(stolen_ns)));
    }
    let paused_ns = group.sums.pause / u128::from(group.latency.count.max(1));
    if paused_ns > 0 {
        texts.push(format!("the whole guest stopped for {}", duration_of_sum(paused_ns)));
    }
    texts.extend(traffic(group));
    texts.extend(driver(group));
    let throttled = mean(Metric::Throttle);
    if throttled != "0" {
        texts.push(format!("throttled {throttled} x"));
    }
    let missed = mean(Metric::SwitchMissed);
    if missed != "0" {
        texts.push(format!("switches that no hook saw {missed}"));
    }
    let apart = texts.into_iter().map(|text| Piece::from(format!("{text} "))).collect();
    page.wrapped(&[Piece::new("per request", Emphasis::Faint)], INDENT, apart);
}

/// Calls of a graphics processor's driver, if any.
fn driver(group: &Group) -> Vec<String> {
    let requests = u128::from(group.latency.count.max(1));
    let (waits, copies) = (count_of(group, Metric::GpuWait), count_of(group, Metric::GpuCopy));
    let each = |metric: Metric| count_of(group, metric) / requests;
    let mut texts = Vec::new();
    if waits > 0 {
        texts.push(format!("waits for the GPU {}", mean_count(waits, group.latency.count)));
    }
    if copies > 0 {
        let blocking = mean_count(count_of(group, Metric::GpuCopyBlocking), group.latency.count);
        // Of some copies neither way nor bytes are known.
        let ways = [(Metric::GpuToDevice, "to it"), (Metric::GpuFromDevice, "from it")];
        let ways = ways.into_iter().filter(|&(metric, _)| each(metric) > 0).map(|(metric, way)| {
            format!(", {} {way}", bytes(u64::try_from(each(metric)).unwrap_or(u64::MAX)))
        });
        let copies = mean_count(copies, group.latency.count);
        texts.push(format!("GPU copies {copies} ({blocking} blocking{})", ways.collect::<String>()));
    }
    let on_cpu_ns = each(Metric::CpuGpu);
    if on_cpu_ns > 0 {
        texts.push(format!("inside the GPU's driver {} of cpu", duration_of_sum(on_cpu_ns)));
    }
    texts
}

/// Traffic of block devices and sockets, if any.
fn traffic(group: &Group) -> Vec<String> {
    let requests = u128::from(group.latency.count.max(1));
    let one = |what: &str, count: Metric, sum: Metric| {
        let (count, sum) = (count_of(group, count), count_of(group, sum));
        let each = bytes(u64::try_from(sum / requests).unwrap_or(u64::MAX));
        (count > 0).then(|| format!("{what} {} ({each})", mean_count(count, group.latency.count)))
    };
    let kinds = [
        ("disk reads", Metric::BlockRead, Metric::BlockReadBytes),
        ("disk writes", Metric::BlockWrite, Metric::BlockWriteBytes),
        ("received", Metric::NetRecv, Metric::NetRecvBytes),
        ("sent", Metric::NetSend, Metric::NetSendBytes),
    ];
    kinds.into_iter().filter_map(|(what, count, sum)| one(what, count, sum)).collect()
}

/// Migrations per request, and those to a CPU without a shared cache.
fn migrations(group: &Group) -> String {
    let mean = |metrics: &[Metric]| {
        let sum = metrics.iter().map(|&metric| count_of(group, metric)).sum();
        mean_count(sum, group.latency.count)
    };
    let all = mean(&[Metric::MigrateSmt, Metric::MigrateLlc, Metric::MigrateNode, Metric::MigrateRemote]);
    match mean(&[Metric::MigrateNode, Metric::MigrateRemote]) {
        far if far == "0" => format!("migrations {all}"),
        far => format!("migrations {all} ({far} to another cache)"),
    }
}

/// Wake-ups per request, and the delay to the run queue if it is long enough for an interrupt to another CPU.
fn wakeups(group: &Group) -> String {
    /// Least delay taken for an interrupt: on the waker's own CPU it is below 1 us.
    const INTERRUPT_NS: u128 = 3_000;
    let wakeups = count_of(group, Metric::Wakeup);
    let text = format!("wake-ups {}", mean_count(wakeups, group.latency.count));
    match count_of(group, Metric::WakeupDelay).checked_div(wakeups) {
        Some(each_ns) if each_ns >= INTERRUPT_NS => {
            format!("{text} ({} of runq each)", duration(u64::try_from(each_ns).unwrap_or(u64::MAX)))
        }
        Some(_) | None => text,
    }
}

fn render_no_requests(page: &mut Page, summary: &Summary, facts: &RunFacts) {
    let left_out = summary.left_out.warmups + summary.left_out.unfinished + summary.left_out.damaged;
    let is_marked = left_out > 0 || facts.hidden.has_requests();
    let why = if is_marked { "no request counts" } else { "no request was marked" };
    let wall = duration_of(facts.wall);
    // Ranked by CPU time: a shell that waits for its child lives longest and tells least.
    let cpu = Cause::Account(Account::Cpu);
    let Some(busiest) = summary.processes.iter().max_by_key(|one| (one.split.get(cpu), Reverse(one.id)))
    else {
        page.sentence(
            &format!("nothing was observed: {why}, and no process was seen, in {wall}"),
            Emphasis::Strong,
        );
        return;
    };
    let seen = counted(summary.processes_seen, "process was", "processes were");
    page.sentence(&format!("{why}; {seen} observed for {wall}"), Emphasis::Strong);
    let (name, parts) =
        (page.name(&busiest.name, 48), means(&sums_of(busiest), busiest.counts.poll_net_ns.into(), 1));
    let parts = parts.join(", ");
    let spent = duration(busiest.wall_ns);
    let most = format!("{name} (pid {}) used the CPU most, in {spent}: {parts}", busiest.pid);
    let (most, whole) = match threads::most_active(page, &summary.threads) {
        Some(group) => (group, "threads"),
        None => (most, "processes by their main threads"),
    };
    page.sentence(&most, Emphasis::None);
    let remedy = if is_marked { "" } else { ": mark requests to see phases" };
    page.sentence(&format!("these are whole {whole}{remedy}"), Emphasis::None);
    page.blank();
    let has_groups = !summary.threads.groups.is_empty();
    if has_groups {
        threads::table(page, &summary.threads);
    }
    if has_groups && summary.processes_seen > 1 {
        page.blank();
    }
    if !has_groups || summary.processes_seen > 1 {
        processes(page, &summary.processes, summary.processes_seen, !has_groups);
    }
}

fn render_facts(page: &mut Page, summary: &Summary, health: &Health, facts: &RunFacts) {
    if !summary.groups.is_empty() {
        threads::outside(page, &summary.threads);
    }
    if !facts.command.is_empty() {
        let (command, wall) = (page.name(facts.command.join(" "), COMMAND), duration_of(facts.wall));
        let (exit, emphasis) = match facts.exit {
            Exit::Code(0) => (format!("exited with 0 after {wall}"), Emphasis::None),
            Exit::Code(code) => (format!("exited with {code} after {wall}"), Emphasis::Warning),
            Exit::Signal(signal) => (format!("killed by signal {signal} after {wall}"), Emphasis::Warning),
            Exit::Ended => (format!("ended after {wall}"), Emphasis::None),
            Exit::Running => (format!("still running after {wall}"), Emphasis::None),
        };
        fact(page, "program", &format!("{command}: {exit}"), emphasis);
    }
    let mut guest = page.safe(&facts.scenario);
    if let Some(kernel) = &facts.kernel {
        let _ = write!(guest, ", kernel {}", page.safe(kernel));
    }
    let _ = write!(guest, ", fidelity {}, {}", health.fidelity.name(), hooks(&health.hooks));
    fact(page, "guest", &guest, Emphasis::None);
    if let Some(kept) = &facts.kept {
        fact(page, "kept", kept, Emphasis::Warning);
    }
    restored::line(page, facts);
    gpu::lines(page, facts);
    if let Some(unseen) = unseen::words(health.fidelity) {
        fact(page, "not seen", &unseen, Emphasis::Warning);
    }
    missing_hooks(page, health);
    sources::sources(page, &health.sources);
    cost(page, &health.cost);
    lost(page, health, summary);
    if let Some(folder) = &facts.folder {
        let folder = page.safe(folder.shown());
        fact(page, "folder", &folder, Emphasis::None);
    }
    if let Some(error) = &health.folder_error {
        let error = page.name(error, 300);
        fact(page, "", &format!("incomplete: {error}"), Emphasis::Bad);
    }
    export(page, &health.export);
    hints::lines(page, &facts.hints);
    for step in next_steps(summary, health, facts, page) {
        fact(page, "next", &step, Emphasis::Strong);
    }
}

/// Next steps that help most. Only existing commands.
fn next_steps(summary: &Summary, health: &Health, facts: &RunFacts, page: &Page) -> Vec<String> {
    let mut steps = Vec::new();
    let missing = |outcome: Outcome| matches!(outcome, Outcome::Unsupported | Outcome::Broken);
    if health.hooks.iter().any(|hook| missing(hook.outcome))
        || (summary.groups.is_empty() && summary.processes.is_empty())
    {
        steps.push("guestscope doctor".to_owned());
    }
    let most = summary.groups.iter().map(|group| group.latency.count).max().unwrap_or(0);
    let Some(group) = summary.groups.first() else { return steps };
    // More requests would say nothing of one that hangs.
    let has_hung = facts.hidden.hung_ns() > 0;
    match most {
        _ if has_hung => {}
        ..ENOUGH_REQUESTS => {
            let why = format!("the same with more requests: {ENOUGH_REQUESTS} for causes, 100 for p99");
            steps.push(why);
        }
        ENOUGH_REQUESTS..100 => steps.push("the same with 100 requests or more, for p99".to_owned()),
        _ => {}
    }
    if let Some(folder) = &facts.folder {
        let folder = quoted(&page.safe(folder.shown()));
        steps.push(format!("guestscope explain {folder}"));
    }
    if health.export.traces_sent > 0
        && let Some(slow) = group.slowest.first()
    {
        let (service, trace) = (page.name(&facts.service, 48), hex(&slow.trace_id));
        steps.push(format!("in Jaeger: service {service}, trace {trace} (the slowest, #{})", slow.request));
    }
    steps
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::{
        analyze::samples::{inference, renamed},
        terminal::{Style, tests::fixtures::text_of},
    };

    /// The eight kinds with most time have tables; the others share a line.
    #[test]
    fn many_kinds_of_requests() {
        let kinds = (0..11).flat_map(|kind| {
            let requests = inference(30 - kind).into_iter();
            requests.map(move |request| renamed(request, &format!("GET /{kind}")))
        });
        let text = text_of(&kinds.collect::<Vec<_>>(), Style::PLAIN);
        let more = text.lines().filter(|line| line.starts_with("GET /") || line.starts_with("more "));
        assert_snapshot!(more.collect::<Vec<_>>().join("\n"), @"
        GET /0: 30 requests, p50 61.1 ms, p90 62.2 ms, max 107 ms, 15.7/s
        GET /1: 29 requests, p50 61.2 ms, p90 62.4 ms, max 107 ms, 15.7/s
        GET /2: 28 requests, p50 61.2 ms, p90 62.4 ms, max 107 ms, 15.7/s
        GET /3: 27 requests, p50 61.2 ms, p90 62.4 ms, max 107 ms, 15.7/s
        GET /4: 26 requests, p50 61.2 ms, p90 62.4 ms, max 107 ms, 15.6/s
        GET /5: 25 requests, p50 61.2 ms, p90 62.4 ms, max 107 ms, 15.6/s
        GET /6: 24 requests, p50 61.2 ms, p90 62.2 ms, max 107 ms, 15.6/s
        GET /7: 23 requests, p50 61.2 ms, p90 62.2 ms, max 107 ms, 15.6/s
        more          3 kinds of requests: GET /8 22, GET /9 21, GET /10 20
        ");
    }
}
