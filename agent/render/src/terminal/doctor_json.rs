//! The doctor's findings as JSON.
//!
//! Yields one JSON object under the same rules as the summary's.

use serde::Serialize;

use crate::{privileges::Layer, restore::RestoreSource, run::GpuRecord};

use super::{
    doctor::Doctor,
    json::{FORMAT, HookJson, hook, print},
    sources::SourceJson,
};

#[derive(Serialize)]
struct DoctorJson<'a> {
    format: u32,
    version: &'a str,
    scenario: String,
    platform: &'static str,
    machine: &'static str,
    hypervisor: Option<&'a str>,
    container: bool,
    container_runtime: Option<&'a str>,
    container_id: Option<&'a str>,
    cores_usable: f64,
    cores_allowed: u32,
    cores_online: u32,
    host_core_ratio: Option<f64>,
    pinned: bool,
    cgroup: CgroupJson<'a>,
    host: HostJson<'a>,
    fidelity: &'static str,
    hooks: Vec<HookJson<'a>>,
    sources: Vec<SourceJson>,
    signs: Vec<SignJson<'a>>,
    layers: Vec<LayerJson<'a>>,
    gpu: Option<GpuJson<'a>>,
    evidence: Vec<EvidenceJson<'a>>,
}

#[derive(Serialize)]
struct GpuJson<'a> {
    source: &'a str,
    #[serde(flatten)]
    record: Option<&'a GpuRecord>,
    failed: Option<&'a str>,
}

#[derive(Serialize)]
struct SignJson<'a> {
    source: &'static str,
    state: &'static str,
    consequence: &'a str,
    remedy: Option<&'a str>,
}

#[derive(Serialize)]
struct LayerJson<'a> {
    name: &'static str,
    is_there: bool,
    consequence: &'a str,
}

#[derive(Serialize)]
struct CgroupJson<'a> {
    path: Option<&'a str>,
    version: Option<u8>,
    cpu_quota_ns: Option<u64>,
    cpu_period_ns: Option<u64>,
    cpu_quota_group: Option<&'a str>,
    cpuset: Option<&'a str>,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct HostJson<'a> {
    kernel_release: Option<&'a str>,
    kernel_version: Option<&'a str>,
    arch: &'a str,
    cpu_model: Option<&'a str>,
    logical_cpus: u32,
    memory_bytes: Option<u64>,
    name: Option<&'a str>,
    machine_id: Option<&'a str>,
    boot_id: Option<&'a str>,
    os_id: Option<&'a str>,
    os_name: Option<&'a str>,
    os_version: Option<&'a str>,
}

#[derive(Serialize)]
struct EvidenceJson<'a> {
    about: &'static str,
    source: &'a str,
    says: &'a str,
}

fn sign(sign: &RestoreSource) -> SignJson<'_> {
    let RestoreSource { source, state, consequence, remedy } = sign;
    SignJson { source: source.name(), state: state.name(), consequence, remedy: remedy.as_deref() }
}

fn layer(layer: &Layer) -> LayerJson<'_> {
    let Layer { name, is_there, consequence } = layer;
    LayerJson { name, is_there: *is_there, consequence }
}

/// The doctor's findings as one JSON object, with a line end.
pub fn render_doctor_json(doctor: &Doctor) -> String {
    let Doctor { version, guest, fidelity, hooks, sources, signs, layers, gpu } = doctor;
    let (cores, cgroup, host) = (&guest.cores, &guest.cgroup, &guest.host);
    let evidence = guest.evidence.iter().map(|one| EvidenceJson {
        about: one.about.name(),
        source: &one.source,
        says: &one.says,
    });
    print(&DoctorJson {
        format: FORMAT,
        version,
        scenario: guest.scenario(),
        platform: guest.platform(),
        machine: guest.machine.kind.name(),
        hypervisor: guest.machine.hypervisor.as_deref(),
        container: guest.container.is_container,
        container_runtime: guest.container.runtime.as_deref(),
        container_id: guest.container.id.as_deref(),
        cores_usable: cores.usable(),
        cores_allowed: cores.allowed.count(),
        cores_online: cores.online.count(),
        host_core_ratio: guest.host_core_ratio(),
        pinned: cores.pinned,
        cgroup: CgroupJson {
            path: cgroup.path.as_deref(),
            version: cgroup.version,
            cpu_quota_ns: cgroup.cpu.as_ref().map(|cpu| cpu.quota_ns),
            cpu_period_ns: cgroup.cpu.as_ref().map(|cpu| cpu.period_ns),
            cpu_quota_group: cgroup.cpu.as_ref().map(|cpu| cpu.group.as_str()),
            cpuset: cgroup.cpuset.as_deref(),
            memory_bytes: cgroup.memory_bytes,
        },
        host: HostJson {
            kernel_release: host.kernel_release.as_deref(),
            kernel_version: host.kernel_version.as_deref(),
            arch: host.arch,
            cpu_model: host.cpu_model.as_deref(),
            logical_cpus: host.logical_cpus,
            memory_bytes: host.memory_bytes,
            name: host.host_name.as_deref(),
            machine_id: host.machine_id.as_deref(),
            boot_id: host.boot_id.as_deref(),
            os_id: host.os_id.as_deref(),
            os_name: host.os_name.as_deref(),
            os_version: host.os_version.as_deref(),
        },
        fidelity: fidelity.name(),
        hooks: hooks.iter().map(hook).collect(),
        sources: super::sources::json(sources),
        signs: signs.iter().map(sign).collect(),
        layers: layers.iter().map(layer).collect(),
        gpu: gpu.as_ref().map(|(source, told)| GpuJson {
            source,
            record: told.as_ref().ok(),
            failed: told.as_ref().err().map(String::as_str),
        }),
        evidence: evidence.collect(),
    })
}
