//! `guestscope doctor` as text: the platform with its evidence, and for each hook what can be observed.
//!
//! Formats [`Doctor`]'s findings.

use std::fmt::Write as _;

use crate::{
    health::{Fidelity, Outcome, Verdict},
    platform::Guest,
    privileges::Layer,
    restore::{RestoreSource, State},
    run::GpuRecord,
    sources::Report,
};

use super::{
    gpu,
    health_lines::{emphasis, fact, hooks},
    page::{Emphasis, Page, Piece, words},
    sources,
    style::Style,
    text::{left, width},
    units::{bytes, counted, duration},
};

/// The findings.
#[derive(Clone, Debug, PartialEq)]
pub struct Doctor {
    /// Version of the agent.
    pub version: String,
    /// The guest, with evidence.
    pub guest: Guest,
    /// Fidelity of an observation here.
    pub fidelity: Fidelity,
    /// Hook by hook.
    pub hooks: Vec<Verdict>,
    /// Possible sources of phases for a program that `run` starts.
    pub sources: Vec<Report>,
    /// Sources that detect restores and moves.
    pub signs: Vec<RestoreSource>,
    /// What the agent can give up here.
    pub layers: Vec<Layer>,
    /// Evidence of an NVIDIA driver, and its devices or why it does not list them.
    pub gpu: Option<(String, Result<GpuRecord, String>)>,
}

/// The findings as text.
pub fn render_doctor(doctor: &Doctor, style: Style) -> String {
    let mut page = Page::new(style);
    let guest = &doctor.guest;
    page.sentence(
        &format!("{}: {}", page.safe(guest.scenario()), page.safe(described(guest))),
        Emphasis::Strong,
    );
    let (fidelity, hooks) = (doctor.fidelity.name(), hooks(&doctor.hooks));
    page.sentence(
        &format!("fidelity {fidelity}: {}; {hooks} in place", meaning(doctor.fidelity)),
        Emphasis::Strong,
    );
    page.sentence(&wanting(&doctor.hooks), Emphasis::None);
    page.blank();
    render_hooks(&mut page, &doctor.hooks);
    page.blank();
    sources::possible(&mut page, &doctor.sources);
    page.blank();
    render_signs(&mut page, &doctor.signs);
    page.blank();
    render_layers(&mut page, &doctor.layers);
    page.blank();
    render_evidence(&mut page, guest);
    page.blank();
    render_host(&mut page, doctor);
    page.finish()
}

/// `microVM (Firecracker on KVM), no container`.
pub(super) fn described(guest: &Guest) -> String {
    let maker = guest.machine.hypervisor.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let container = match (&guest.container.runtime, guest.container.is_container) {
        (Some(runtime), true) => format!("in a container ({runtime})"),
        (None, true) => "in a container".to_owned(),
        (_, false) => "no container".to_owned(),
    };
    format!("{}{maker}, {container}", guest.machine.kind.name())
}

const fn meaning(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Full => "all accounts, to the nanosecond",
        Fidelity::Raw => {
            "all accounts, to the nanosecond, by a supplied BTF file; `attach` needs the kernel's own"
        }
        Fidelity::Tracepoint => "cpu, runq, other (no BTF; all with --btf FILE)",
        Fidelity::Procfs => "phases of marked programs under `run`, as cpu, runq and other",
        Fidelity::None => "nothing can be observed here",
    }
}

/// Missing hooks, in one line.
fn wanting(hooks: &[Verdict]) -> String {
    let of = |outcome: Outcome| hooks.iter().filter(|hook| hook.outcome == outcome).count() as u64;
    let (broken, unsupported) = (of(Outcome::Broken), of(Outcome::Unsupported));
    match (broken, unsupported) {
        _ if hooks.is_empty() => "no hook was tried".to_owned(),
        (0, 0) => "nothing is missing".to_owned(),
        (0, _) => format!("{} not supported by this kernel", counted(unsupported, "hook is", "hooks are")),
        (_, 0) => format!("{} broken", counted(broken, "hook is", "hooks are")),
        (..) => {
            let broken = counted(broken, "hook is", "hooks are");
            format!("{broken} broken, {unsupported} not supported by this kernel")
        }
    }
}

fn render_hooks(page: &mut Page, hooks: &[Verdict]) {
    let most = if page.style().is_narrow() { 24 } else { 40 };
    let columns = hooks.iter().map(|hook| width(&hook.hook)).max().unwrap_or(0).clamp(4, most);
    // After the name and the longest word for a state.
    let indent = columns + 2 + Outcome::Unsupported.name().len() + 2;
    let head = format!("{}  {}", left("hook", columns), left("state", indent - columns - 2));
    page.line(&[Piece::new(format!("{head}what it is for"), Emphasis::Faint)]);
    for hook in hooks {
        let name = format!("{}  ", left(&page.name(&hook.hook, columns), columns));
        let state = Piece::new(hook.outcome.name(), emphasis(hook.outcome));
        let consequence = page.safe(&hook.consequence);
        page.wrapped(&[Piece::from(name), state], indent, words(&consequence, Emphasis::None));
        if let Some(remedy) = &hook.remedy {
            let hint = format!("hint: {}", page.safe(remedy));
            page.wrapped(&[], indent, words(&hint, Emphasis::Warning));
        }
    }
}

/// Sources of restores are not counted as hooks: most hypervisors offer none.
fn render_signs(page: &mut Page, signs: &[RestoreSource]) {
    let columns = signs.iter().map(|sign| sign.source.name().len()).max().unwrap_or(0).max(6);
    let indent = columns + 2 + State::Unsupported.name().len() + 2;
    let head = format!("{}  {}", left("source", columns), left("state", indent - columns - 2));
    page.line(&[Piece::new(format!("{head}what it shows"), Emphasis::Faint)]);
    for sign in signs {
        let name = format!("{}  ", left(sign.source.name(), columns));
        let emphasis = match sign.state {
            State::Present => Emphasis::Good,
            State::Absent => Emphasis::Faint,
            State::Unsupported | State::Refused => Emphasis::Warning,
        };
        let state = Piece::new(sign.state.name(), emphasis);
        let consequence = page.safe(&sign.consequence);
        page.wrapped(&[Piece::from(name), state], indent, words(&consequence, Emphasis::None));
        if let Some(remedy) = &sign.remedy {
            let hint = format!("hint: {}", page.safe(remedy));
            page.wrapped(&[], indent, words(&hint, Emphasis::Warning));
        }
    }
}

/// What keeps an agent that was taken over from doing harm.
fn render_layers(page: &mut Page, layers: &[Layer]) {
    let columns = layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0).max("limit".len());
    let indent = columns + 2 + "present".len() + 2;
    let head = format!("{}  present  what it means for the agent", left("limit", columns));
    page.line(&[Piece::new(head, Emphasis::Faint)]);
    for layer in layers {
        let name = format!("{}  ", left(layer.name, columns));
        let state = if layer.is_there {
            Piece::new("yes", Emphasis::Good)
        } else {
            Piece::new("no", Emphasis::Warning)
        };
        page.wrapped(
            &[Piece::from(name), state],
            indent,
            words(&page.safe(&layer.consequence), Emphasis::None),
        );
    }
}

fn render_evidence(page: &mut Page, guest: &Guest) {
    let sources = guest.evidence.iter().map(|evidence| width(&page.safe(&evidence.source)));
    // In a narrow terminal the evidence follows its source directly.
    let columns = if page.style().is_narrow() { 0 } else { sources.max().unwrap_or(0).min(44) };
    page.line(&[Piece::new("evidence", Emphasis::Faint)]);
    let mut previous = None;
    for evidence in &guest.evidence {
        let about = if previous == Some(evidence.about) { "" } else { evidence.about.name() };
        previous = Some(evidence.about);
        let (source, says) = (page.safe(&evidence.source), page.safe(&evidence.says));
        let about = format!("  {}", left(about, 11));
        if columns == 0 {
            page.wrapped(&[Piece::from(about)], 13, words(&format!("{source}: {says}"), Emphasis::None));
        } else {
            let heading = format!("{about}{}  ", left(&page.fit(&source, columns), columns));
            page.wrapped(&[Piece::from(heading)], 13 + columns + 2, words(&says, Emphasis::None));
        }
    }
}

fn render_host(page: &mut Page, doctor: &Doctor) {
    let (host, cgroup) = (&doctor.guest.host, &doctor.guest.cgroup);
    let mut known = Vec::new();
    if let Some(name) = &host.os_name {
        known
            .push(format!("{name} {}", host.os_version.as_deref().unwrap_or_default()).trim_end().to_owned());
    }
    known.extend(host.kernel_release.as_ref().map(|kernel| format!("kernel {kernel}")));
    known.extend(host.cpu_model.clone());
    known.push(counted(u64::from(host.logical_cpus), "CPU", "CPUs"));
    known.extend(host.memory_bytes.map(bytes));
    known.push(host.arch.to_owned());
    fact(page, "host", &page.safe(known.join(", ")), Emphasis::None);
    gpu::doctor(page, doctor.gpu.as_ref());
    let mut limits = String::new();
    if let Some(quota) = &cgroup.cpu {
        let (quota_ns, period_ns) = (duration(quota.quota_ns), duration(quota.period_ns));
        let _ = write!(limits, "{quota_ns} of CPU per {period_ns} in {}, ", quota.group);
    }
    if let Some(limit) = cgroup.memory_bytes {
        let _ = write!(limits, "{} of memory, ", bytes(limit));
    }
    let cores = &doctor.guest.cores;
    if cores.host_ratio() < 1.0 {
        let _ = write!(limits, "{} of {} CPUs", cores.usable_text(), cores.online.count());
        if let Some(ratio) = doctor.guest.host_core_ratio() {
            let _ = write!(limits, " (container-host core ratio {ratio:.2})");
        }
    }
    let limits = limits.trim_end_matches(", ");
    fact(
        page,
        "limits",
        &page.safe(if limits.is_empty() { "none that are visible" } else { limits }),
        Emphasis::None,
    );
    let (path, version) = (cgroup.path.as_deref().unwrap_or("unknown"), cgroup.version);
    let version = version.map(|version| format!(" (version {version})")).unwrap_or_default();
    fact(page, "cgroup", &format!("{}{version}", page.safe(path)), Emphasis::None);
    fact(page, "agent", &format!("guestscope {}", page.safe(&doctor.version)), Emphasis::None);
}
