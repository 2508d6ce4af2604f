//! What takes a run folder's contents in the order of their times.

use std::{borrow::Cow, io, sync::Arc};

use crate::{
    folder::Manifest,
    phase::{GpuReading, GpuWork, Request, Restored, Wait},
    session::facts,
    sinks::otlp::{LiveVerdict, Value},
};

/// Receiver of a folder's traces, in order of their ends, each wait before its request.
pub(super) trait Taker {
    /// A wait whose request is still to come.
    fn wait(&mut self, wait: Wait);
    /// The guest was restored or moved, inside of requests that are still to come.
    fn restored(&mut self, restored: Restored);
    /// A GPU reading from before the end of requests that are still to come.
    fn gpu(&mut self, reading: GpuReading);
    /// Work of a GPU whose request is still to come.
    fn gpu_work(&mut self, work: GpuWork);
    /// A request whose wall times are shifted by `wall_offset_ns`.
    fn request(&mut self, request: Arc<Request>, verdict: LiveVerdict, wall_offset_ns: i64)
    -> io::Result<()>;
}

/// Resource attributes from the manifest.
pub(super) fn resource(manifest: &Manifest) -> Vec<(Cow<'static, str>, Value)> {
    // OpenTelemetry's `host.arch` values.
    let arch = match manifest.arch.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let work_hash = manifest.workload.as_ref().and_then(|workload| workload.get("work_hash")?.as_str());
    let all = [
        ("guestscope.work.hash", work_hash.unwrap_or_default()),
        ("host.arch", arch),
        ("host.cpu.model.name", &manifest.cpu_model),
        ("os.type", "linux"),
        ("os.description", &manifest.kernel),
        ("guestscope.scenario", &manifest.scenario),
        ("guestscope.platform", &manifest.platform),
        ("guestscope.fidelity", &manifest.fidelity),
        ("guestscope.run.id", &manifest.run_id),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: Vec<(Cow<'static, str>, Value)> =
        known.map(|(key, value)| (Cow::from(key), Value::StringValue(value.to_owned()))).collect();
    attributes.extend(facts::of_run(&manifest.run_id, &manifest.command));
    attributes
}
