//! The run's facts for the manifest and for the resource of its traces, from the guest and the command line.

use std::{borrow::Cow, collections::BTreeMap, ffi::OsString, path::Path, time::Duration};

use guestscope_kernel::attach::Target;

use super::{arguments::Observation, own_pid};
use crate::{
    analyze::{Called, Hidden},
    clock::ClockPair,
    folder::{self, Child, GpuRecord, Limits, Manifest},
    health::Fidelity,
    limits::{Kind, Limit},
    percent,
    phase::Restored,
    platform::{Cgroup, CpuQuota, Guest},
    secrets,
    sinks::{
        otlp::{AnyValue, ArrayValue, Value},
        terminal::{Exit, RunFacts},
    },
    untrusted::{self, Shown as _},
};

/// Identity of a run.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// 16 random bytes.
    pub(crate) run_id: [u8; 16],
    /// Name of the run and of the service.
    pub(crate) name: String,
    /// The program and its arguments, or the target, for people: always UTF-8, with secrets masked.
    pub(crate) command: Vec<String>,
    /// The program's file, if a single program is observed.
    pub(crate) executable: Option<String>,
    /// PID, if a single program is observed.
    pub(crate) pid: Option<u32>,
}

impl Identity {
    /// Identity of a launched program, named by the option or after the program's file.
    pub(crate) fn new(observation: &Observation, command: &[OsString]) -> std::io::Result<Self> {
        let program = command.first().map(Path::new).and_then(Path::file_name);
        let name = program.map(|name| name.shown().stored().to_owned()).unwrap_or_default();
        let command: Vec<String> = command.iter().map(|word| word.shown().stored().to_owned()).collect();
        Self::of(observation, &name, &command, command.first(), None)
    }

    /// Identity of a target, named by the option or after the target.
    pub(crate) fn of_target(
        observation: &Observation,
        target: &Target,
        pid: Option<u32>,
    ) -> std::io::Result<Self> {
        Self::of(observation, &target.name, &target.words, target.executable.as_ref(), pid)
    }

    /// Masks secrets in the command line before anything keeps it.
    fn of(
        observation: &Observation,
        name: &str,
        words: &[String],
        executable: Option<&String>,
        pid: Option<u32>,
    ) -> std::io::Result<Self> {
        let of_otel = service_of(Some(variable("OTEL_SERVICE_NAME")), &variable("OTEL_RESOURCE_ATTRIBUTES"));
        let asked = observation.name.as_deref().or(of_otel.as_deref()).filter(|name| !name.is_empty());
        let name = asked.map_or_else(|| secrets::masked_text(name), str::to_owned);
        // The words of a target that is not one program come from the caller: they are no arguments.
        let kept = if observation.no_args && executable.is_some() { 1 } else { words.len() };
        let command = bounded(secrets::masked(&words[..kept.min(words.len())]));
        let executable = executable.map(|path| secrets::masked_text(path));
        Ok(Self { run_id: random_bytes()?, name, command, executable, pid })
    }

    /// The run id as text.
    pub(crate) fn run_id_text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.run_id))
    }
}

/// A command line may have 2 MB; what identifies a run comes first. Adds a note on what is left out.
fn bounded(mut words: Vec<String>) -> Vec<String> {
    const WORD: usize = 4096;
    const ALL: usize = 64 << 10;
    let (mut room, all) = (ALL, words.len());
    let mut kept = 0;
    for word in &mut words {
        if word.len() > WORD {
            let end = (0..=WORD).rev().find(|&at| word.is_char_boundary(at)).unwrap_or(0);
            *word = format!("{}... ({} more bytes)", &word[..end], word.len() - end);
        }
        let Some(left) = room.checked_sub(word.len() + 1) else { break };
        room = left;
        kept += 1;
    }
    words.truncate(kept);
    if kept < all {
        words.push(format!("... ({} more words)", all - kept));
    }
    words
}

/// Random bytes from the kernel.
pub(crate) fn random_bytes() -> std::io::Result<[u8; 16]> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The manifest as the run begins.
pub(crate) fn manifest(
    identity: &Identity,
    guest: &Guest,
    fidelity: Fidelity,
    start: ClockPair,
    child: Option<Child>,
) -> Manifest {
    let host = &guest.host;
    let mut manifest = Manifest {
        command: identity.command.clone(),
        boot_id: host.boot_id.clone().unwrap_or_default(),
        scenario: guest.scenario(),
        platform: guest.platform().to_owned(),
        hypervisor: guest.machine.hypervisor.clone().unwrap_or_default(),
        container_runtime: guest.container.runtime.clone().unwrap_or_default(),
        host_core_ratio: guest.host_core_ratio(),
        fidelity: fidelity.name().to_owned(),
        kernel: host.kernel_release.clone().unwrap_or_default(),
        cpu_model: host.cpu_model.clone().unwrap_or_default(),
        logical_cpus: host.logical_cpus,
        memory_bytes: host.memory_bytes.unwrap_or(0),
        limits: Limits { cpus: Some(guest.cores.allowed.count()), ..Limits::default() },
        agent_pid: own_pid::initial(),
        child,
        ..Manifest::new(identity.run_id, &identity.name, pair(start))
    };
    limit(&mut manifest, guest);
    manifest
}

/// Notes the quota and the limit of memory.
pub(crate) fn limit(manifest: &mut Manifest, guest: &Guest) {
    let quota = guest.cgroup.cpu.as_ref();
    manifest.limits.cpu_quota_ns = quota.map(|quota| quota.quota_ns);
    manifest.limits.cpu_period_ns = quota.map(|quota| quota.period_ns);
    manifest.limits.memory_bytes = guest.cgroup.memory_bytes;
    manifest.cpu_quota_group = quota.map(|quota| quota.group.clone()).unwrap_or_default();
}

/// The observed processes may be in other groups than the agent: of their quotas the one that ran out most
/// often counts, else the tightest, and of their limits of memory the tightest.
pub(crate) fn limited(cgroup: &mut Cgroup, limits: &[Limit]) {
    let of = |kind: Kind| limits.iter().filter(move |limit| limit.kind == kind);
    let tightest =
        |a: &&Limit, b: &&Limit| b.hits.cmp(&a.hits).then_with(|| a.quota_cpus().total_cmp(&b.quota_cpus()));
    if let Some(Limit { value, period_ns, group, .. }) = of(Kind::Quota).min_by(tightest) {
        cgroup.cpu = Some(CpuQuota { quota_ns: *value, period_ns: *period_ns, group: group.clone() });
    }
    if let Some(bytes) = of(Kind::Memory).map(|limit| limit.value).min() {
        cgroup.memory_bytes = Some(bytes);
    }
}

/// Attributes of the traces' resource, by the semantic conventions where there are any.
pub(crate) fn resource(
    identity: &Identity,
    guest: &Guest,
    fidelity: Fidelity,
) -> Vec<(Cow<'static, str>, Value)> {
    let host = &guest.host;
    let optional = [
        ("host.name", host.host_name.clone()),
        ("host.id", host.machine_id.clone()),
        ("host.cpu.model.name", host.cpu_model.clone()),
        ("os.name", host.os_name.clone()),
        ("os.version", host.os_version.clone()),
        ("os.description", host.kernel_release.clone()),
        ("container.id", guest.container.id.clone()),
        ("container.runtime.name", guest.container.runtime.clone()),
        ("process.executable.path", identity.executable.clone()),
    ];
    let fixed = [
        ("host.arch", host.arch.to_owned()),
        ("os.type", "linux".to_owned()),
        ("guestscope.scenario", guest.scenario()),
        ("guestscope.platform", guest.platform().to_owned()),
        ("guestscope.fidelity", fidelity.name().to_owned()),
        ("guestscope.run.id", identity.run_id_text()),
    ];
    let known = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let texts = fixed.into_iter().chain(known);
    let mut attributes: Vec<(Cow<'static, str>, Value)> =
        texts.map(|(key, value)| (key.into(), Value::StringValue(value))).collect();
    attributes.extend(identity.pid.map(|pid| ("process.pid".into(), Value::IntValue(pid.into()))));
    attributes.extend(of_run(&identity.run_id_text(), &identity.command));
    attributes
}

/// Attributes of a live export and of one from a folder: the run, its command line, OTEL_RESOURCE_ATTRIBUTES.
pub(crate) fn of_run(run_id: &str, command: &[String]) -> Vec<(Cow<'static, str>, Value)> {
    let words = command.iter().map(|word| any(Value::StringValue(word.clone()))).collect();
    let own = variable("OTEL_RESOURCE_ATTRIBUTES");
    let own = given(&own).filter(|(key, _)| key != SERVICE_NAME);
    let own = own.map(|(key, value)| (Cow::from(key), Value::StringValue(value)));
    let command = Value::ArrayValue(ArrayValue { values: words });
    let instance = instance(run_id).map(|id| (Cow::from("service.instance.id"), Value::StringValue(id)));
    [(Cow::from("process.command_args"), command)].into_iter().chain(instance).chain(own).collect()
}

/// The service's name has options of its own.
const SERVICE_NAME: &str = "service.name";

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

/// A run's id in the form of a UUID, as the semantic conventions want it; none of a damaged id.
fn instance(run_id: &str) -> Option<String> {
    let is_id = run_id.len() == 32 && run_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = || [&run_id[..8], &run_id[8..12], &run_id[12..16], &run_id[16..20], &run_id[20..]];
    is_id.then(|| parts().join("-"))
}

/// Attributes in the form of OTEL_RESOURCE_ATTRIBUTES (`key=value,key=value`, values percent-encoded). What
/// has another form, or is not UTF-8, is left out, and so are our own keys.
fn given(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim(), percent::decoded_text(value.trim())?);
        let is_free = !key.is_empty() && !key.starts_with("guestscope.");
        is_free.then(|| (key.to_owned(), value))
    })
}

/// The name that the environment gives to the service: OTEL_SERVICE_NAME, else the attribute `service.name`.
fn service_of(name: Option<String>, attributes: &str) -> Option<String> {
    let of_attributes = || given(attributes).find(|(key, _)| key == SERVICE_NAME).map(|(_, value)| value);
    let name = name.filter(|name| !name.is_empty()).or_else(of_attributes)?;
    Some(untrusted::plain(&name).into_owned())
}

/// An environment variable as text; empty where it is not set, or no UTF-8.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// A clock pair in the manifest's form.
pub(crate) fn pair(clock: ClockPair) -> folder::ClockPair {
    folder::ClockPair { monotonic_ns: clock.monotonic_ns, wall_ns: clock.wall_ns }
}

/// Facts about the run for the terminal.
pub(crate) fn for_terminal(
    identity: &Identity,
    guest: &Guest,
    folder: &Path,
    wall: Duration,
    exit: Exit,
    restored: &[(Duration, Restored)],
) -> RunFacts {
    RunFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: guest.scenario(),
        kernel: guest.host.kernel_release.clone(),
        service: identity.name.clone(),
        command: identity.command.clone(),
        wall,
        exit,
        cpu_quota: guest.cgroup.cpu.clone(),
        folder: Some(folder.to_owned()),
        restored: restored.to_vec(),
        gpu: GpuRecord::default(),
        gpu_work: None,
        limits: Vec::new(),
        hidden: Hidden::default(),
        hints: Vec::new(),
        kept: None,
        called: Called::default(),
        spun: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rstest::rstest;

    use super::*;
    use crate::{
        cli::{Cli, Command},
        platform::{Root, Subject},
    };

    fn observation(options: &[&str]) -> Observation {
        let words = ["guestscope", "run"].iter().chain(options).chain(&["--", "true"]);
        let Command::Run(arguments) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is `run`")
        };
        arguments.observation
    }

    #[rstest]
    #[case::masked(&[], &["/bin/serve", "--port", "80", "--token", "***"], "serve")]
    #[case::without(&["--no-args"], &["/bin/serve"], "serve")]
    #[case::named(&["--name", "web"], &["/bin/serve", "--port", "80", "--token", "***"], "web")]
    fn a_command_is_kept_without_its_secrets(
        #[case] options: &[&str],
        #[case] kept: &[&str],
        #[case] name: &str,
    ) {
        let command = ["/bin/serve", "--port", "80", "--token", "abc"].map(OsString::from);
        let identity = Identity::new(&observation(options), &command).unwrap();
        assert_eq!((&*identity.name, identity.executable.as_deref()), (name, Some("/bin/serve")));
        assert_eq!(identity.command, kept);
    }

    #[test]
    fn a_long_command_is_cut_and_says_so() {
        let short = vec!["serve".to_owned(), "x".repeat(4096)];
        assert_eq!(bounded(short.clone()), short);
        let long = bounded(vec![format!("{}{}", "x".repeat(4095), "ä".repeat(10))]);
        assert_eq!(long, [format!("{}... (20 more bytes)", "x".repeat(4095))]);
        let many = bounded(vec!["1234567".to_owned(); 100_000]);
        assert_eq!((many.len(), many.last().map(String::as_str)), (8193, Some("... (91808 more words)")));
    }

    #[rstest]
    #[case(Fidelity::Full, "full")]
    #[case(Fidelity::Raw, "raw")]
    #[case(Fidelity::Tracepoint, "tracepoint")]
    fn the_fidelity_stands_in_the_manifest_and_in_the_resource(
        #[case] fidelity: Fidelity,
        #[case] word: &'static str,
    ) {
        let identity = Identity::new(&observation(&[]), &["true".into()]).unwrap();
        let nowhere = tempfile::tempdir().unwrap();
        let guest = Guest::read(&Root::at(nowhere.path()), None, Subject::Own);
        assert_eq!(manifest(&identity, &guest, fidelity, ClockPair::now(), None).fidelity, word);
        let resource = resource(&identity, &guest, fidelity);
        let told = resource.iter().find(|(key, _)| key == "guestscope.fidelity").map(|(_, value)| value);
        assert_eq!(told, Some(&Value::StringValue(word.to_owned())));
    }

    #[rstest]
    #[case::several("deployment.environment=prod, team=a%20b%2Cc ,x=", &[("deployment.environment", "prod"), ("team", "a b,c"), ("x", "")])]
    #[case::none("", &[])]
    #[case::broken("a,=b,e=%ff,g=1", &[("g", "1")])]
    #[case::no_escapes("a=100%,b=%zz", &[("a", "100%"), ("b", "%zz")])]
    #[case::ours("guestscope.run.id=1,x=1", &[("x", "1")])]
    fn resource_attributes_of_the_environment(#[case] text: &str, #[case] expected: &[(&str, &str)]) {
        let found: Vec<(String, String)> = given(text).collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case("a", "service.name=b", Some("a"))]
    #[case("", "x=1,service.name=b", Some("b"))]
    #[case("", "x=1", None)]
    #[case("a\u{1b}[2J", "", Some("a\u{fffd}[2J"))]
    fn the_environment_names_the_service(
        #[case] name: &str,
        #[case] attributes: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(service_of(Some(name.to_owned()), attributes).as_deref(), expected);
    }

    #[test]
    fn the_group_with_the_quota_that_ran_out_is_told_and_not_the_child() {
        let quota = |group: &str, value, hits| Limit {
            kind: Kind::Quota,
            group: group.to_owned(),
            value,
            period_ns: 100,
            hits,
            ..Limit::default()
        };
        let told = |limits: &[Limit]| {
            let mut cgroup = Cgroup { memory_bytes: Some(9), ..Cgroup::default() };
            limited(&mut cgroup, limits);
            (cgroup.cpu.map(|quota| quota.group), cgroup.memory_bytes)
        };
        let one = |group: &str| Some(group.to_owned());
        assert_eq!(told(&[quota("/p/c", 40, 0), quota("/p", 50, 7)]), (one("/p"), Some(9)));
        assert_eq!(told(&[quota("/p/c", 40, 0), quota("/p", 50, 0)]), (one("/p/c"), Some(9)));
        assert_eq!(told(&[Limit { value: 5, ..Limit::default() }]), (None, Some(5)));
        assert_eq!(told(&[]), (None, Some(9)), "what the agent sees of itself stands");
    }

    #[test]
    fn an_instance_is_a_uuid() {
        let id = instance(&"1f".repeat(16));
        assert_eq!(id.as_deref(), Some("1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f"));
        assert_eq!((instance("1f"), instance(&"\u{e9}".repeat(16))), (None, None));
    }
}
