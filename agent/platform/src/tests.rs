//! Guests as recorded trees, and the expected findings.
//!
//! Trees lie in `tests/data/platform`; small variations are written here. Only the last test looks at the
//! real guest, and asserts what is true of every guest.

use std::{fs, path::Path};

use insta::assert_debug_snapshot;
use rstest::rstest;
use tempfile::TempDir;

use super::{samples::unpack, *};

fn recorded(name: &str) -> TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/platform").join(format!("{name}.tree"));
    unpack(&fs::read_to_string(path).unwrap())
}

/// CPUID's answer: nothing (no x86), `none`, or names.
fn cpuid(says: &str) -> Option<Cpuid> {
    match says {
        "" => None,
        "none" => Some(Cpuid::default()),
        names => Some(Cpuid { hypervisor: true, vendors: names.split('|').map(str::to_owned).collect() }),
    }
}

fn read(tree: &TempDir, says: &str) -> Guest {
    Guest::read(&Root::at(tree.path()), cpuid(says).as_ref(), Subject::Own)
}

#[rstest]
#[case::firecracker("firecracker", "KVMKVMKVM", "MVM/2/VNL/CPU", Some("Firecracker on KVM"), None)]
#[case::docker_on_metal("docker-on-metal", "none", "CN/4/VNL/CPU", None, Some("docker"))]
#[case::ec2_metal_arm("ec2-metal-arm", "", "BM/64/VNL/CPU", None, None)]
#[case::ec2_vm_arm("ec2-vm-arm", "", "VM/16/VNL/CPU", Some("Amazon EC2"), None)]
#[case::ec2_metal_x86("ec2-metal-x86", "none", "BM/96/VNL/CPU", None, None)]
#[case::ec2_vm_x86("ec2-vm-x86", "KVMKVMKVM", "VM/4/VNL/CPU", Some("Amazon EC2 on KVM"), None)]
#[case::stray_file("qemu-stray-dockerenv", "KVMKVMKVM", "VM/4/PIN/CPU", Some("QEMU on KVM"), None)]
#[case::pod(
    "pod-in-vm",
    "KVMKVMKVM",
    "VMCN/1.5/VNL/CPU",
    Some("Google Compute Engine on KVM"),
    Some("kubernetes")
)]
#[case::runc("runc-in-firecracker", "KVMKVMKVM", "MVMCN/1/PIN/CPU", Some("Firecracker on KVM"), None)]
#[case::podman("podman-in-firecracker", "KVMKVMKVM", "MVMCN/1/VNL/CPU", Some("KVM"), Some("podman"))]
#[case::docker("docker-in-firecracker", "KVMKVMKVM", "MVMCN/1/VNL/CPU", Some("KVM"), Some("docker"))]
fn a_recorded_guest_is_told(
    #[case] name: &str,
    #[case] says: &str,
    #[case] scenario: &str,
    #[case] hypervisor: Option<&str>,
    #[case] runtime: Option<&str>,
) {
    let guest = read(&recorded(name), says);
    assert_eq!(guest.scenario(), scenario, "{:#?}", guest.evidence);
    assert_eq!(guest.machine.hypervisor.as_deref(), hypervisor);
    assert_eq!(guest.container.runtime.as_deref(), runtime);
    assert_eq!(guest.container.is_container, guest.platform().ends_with("CN"));
}

#[rstest]
#[case::tcg_not_kvm("TCGTCGTCGTCG", "VM", "QEMU on TCG")]
#[case::speaks_two_languages("Microsoft Hv|KVMKVMKVM", "VM", "QEMU on KVM")]
#[case::only_the_foreign_one("Microsoft Hv", "VM", "QEMU")]
#[case::a_name_nobody_knows("ZZZZ", "VM", "QEMU on ZZZZ")]
#[case::the_bit_is_hidden("none", "VM", "QEMU")]
#[case::no_such_instruction("", "VM", "QEMU")]
fn a_qemu_guest_stays_one_whatever_cpuid_says(
    #[case] says: &str,
    #[case] platform: &str,
    #[case] hypervisor: &str,
) {
    let guest = read(&recorded("qemu-stray-dockerenv"), says);
    assert_eq!((guest.platform(), guest.machine.hypervisor.as_deref()), (platform, Some(hypervisor)));
}

const HOST: &str =
    "== file /sys/devices/system/cpu/online\n0-3\n== file /proc/self/status\nCpus_allowed_list:\t0-3\n";
const INITIAL: &str =
    "== link /proc/self/ns/pid\npid:[4026531836]\n== link /proc/self/ns/cgroup\ncgroup:[4026531835]\n";
const ACPI: &str = "4453445424000000020042 4f43485320";

#[rstest]
#[case::bare_metal("none", "", "BM", None)]
#[case::old_firecracker(
    "KVMKVMKVM",
    "== file /proc/cmdline\nreboot=k panic=1 pci=off virtio_mmio.device=4K@0xd0000000:5\n",
    "MVM",
    Some("Firecracker on KVM")
)]
#[case::cloud_hypervisor(
    "KVMKVMKVM",
    "== file /sys/class/dmi/id/sys_vendor\nCloud Hypervisor\n== file /sys/class/dmi/id/product_name\ncloud-hypervisor\n",
    "MVM",
    Some("Cloud Hypervisor on KVM")
)]
#[case::nameless_microvm("KVMKVMKVM", "", "MVM", Some("KVM"))]
#[case::kata_on_qemu(
    "KVMKVMKVM",
    "== file /sys/class/dmi/id/sys_vendor\nQEMU\n== file /proc/cmdline\nsystemd.unit=kata-containers.target agent.log=debug\n",
    "MVM",
    Some("Kata, QEMU on KVM")
)]
#[case::wsl(
    "Microsoft Hv",
    "== file /proc/sys/kernel/osrelease\n6.6.87.2-microsoft-standard-WSL2\n",
    "VM",
    Some("WSL 2 on Hyper-V")
)]
#[case::azure(
    "Microsoft Hv",
    "== file /sys/class/dmi/id/sys_vendor\nMicrosoft Corporation\n== file /sys/class/dmi/id/product_name\nVirtual Machine\n",
    "VM",
    Some("Hyper-V")
)]
#[case::surface_laptop(
    "none",
    "== file /sys/class/dmi/id/sys_vendor\nMicrosoft Corporation\n== file /sys/class/dmi/id/product_name\nSurface\n",
    "BM",
    None
)]
#[case::xen_guest("XenVMMXenVMM", "== file /sys/hypervisor/type\nxen\n", "VM", Some("Xen"))]
#[case::xen_control_domain(
    "XenVMMXenVMM",
    "== file /sys/hypervisor/type\nxen\n== file /proc/xen/capabilities\ncontrol_d\n",
    "BM",
    None
)]
#[case::arm_firecracker(
    "",
    "== file /proc/device-tree/compatible\nlinux,dummy-virt\0\n",
    "MVM",
    Some("Firecracker")
)]
#[case::arm_qemu(
    "",
    "== file /proc/device-tree/compatible\nlinux,dummy-virt\0\n== file /proc/device-tree/fw-cfg@9020000/reg\n0\n",
    "VM",
    None
)]
#[case::arm_board(
    "",
    "== file /proc/device-tree/compatible\nraspberrypi,5-model-b\0brcm,bcm2712\0\n",
    "BM",
    None
)]
#[case::oracle_server("none", "== file /sys/class/dmi/id/sys_vendor\nOracle Corporation\n", "BM", None)]
fn a_machine_is_told(
    #[case] says: &str,
    #[case] files: &str,
    #[case] platform: &str,
    #[case] hypervisor: Option<&str>,
) {
    let guest = read(&unpack(&format!("{HOST}{INITIAL}{files}")), says);
    assert_eq!((guest.platform(), guest.machine.hypervisor.as_deref()), (platform, hypervisor));
}

#[test]
fn qemu_microvm_has_acpi_and_no_dmi() {
    let acpi = ACPI.replace(' ', "") + "42585043";
    let tree = unpack(&format!("{HOST}{INITIAL}== hex /sys/firmware/acpi/tables/DSDT\n{acpi}\n"));
    assert_eq!(read(&tree, "TCGTCGTCGTCG").machine.hypervisor.as_deref(), Some("QEMU microvm on TCG"));
    assert_eq!(read(&tree, "TCGTCGTCGTCG").platform(), "MVM");
}

#[rstest]
#[case::initial(INITIAL, false)]
#[case::nothing_readable("", false)]
#[case::one_other_is_a_sandboxed_service("== link /proc/self/ns/uts\nuts:[4026532999]\n", false)]
#[case::two_others(
    "== link /proc/self/ns/uts\nuts:[4026532999]\n== link /proc/self/ns/ipc\nipc:[4026532998]\n",
    false
)]
#[case::two_others_on_layers(
    "== link /proc/self/ns/uts\nuts:[4026532999]\n== link /proc/self/ns/ipc\nipc:[4026532998]\n\
     == file /proc/self/mountinfo\n30 23 0:26 / / rw - overlay overlay rw\n",
    true
)]
#[case::processes_alone(
    "== link /proc/self/ns/pid\npid:[4026532997]\n== link /proc/self/ns/uts\nuts:[4026531838]\n",
    false
)]
#[case::processes_and_another(
    "== link /proc/self/ns/pid\npid:[4026532997]\n== link /proc/self/ns/uts\nuts:[4026532999]\n\
     == link /proc/self/ns/ipc\nipc:[4026531839]\n",
    true
)]
#[case::processes_and_a_file(
    "== link /proc/self/ns/pid\npid:[4026532997]\n== link /proc/self/ns/uts\nuts:[4026531838]\n\
     == file /.dockerenv\n",
    true
)]
#[case::own_processes("== link /proc/self/ns/pid\npid:[4026532997]\n", true)]
#[case::seen_from_outside("== file /proc/self/status\nNSpid:\t4711\t1\nCpus_allowed_list:\t0-3\n", true)]
#[case::files_alone(
    "== file /.dockerenv\n== file /run/.containerenv\n== file /run/systemd/container\ndocker\n",
    false
)]
#[case::gvisor("== file /proc/cmdline\nBOOT_IMAGE=/vmlinuz-4.4.0-gvisor quiet\n", true)]
#[case::shares_all_but_mounts(
    "== link /proc/self/ns/mnt\nmnt:[4026532001]\n== link /proc/1/ns/mnt\nmnt:[4026531841]\n\
     == file /proc/self/cgroup\n0::/system.slice/docker-aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd.scope\n\
     == file /proc/self/mountinfo\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    true
)]
fn only_namespaces_prove_a_container(#[case] files: &str, #[case] expected: bool) {
    let tree = unpack(&format!("{HOST}{files}"));
    let guest = read(&tree, "none");
    assert_eq!(guest.container.is_container, expected, "{:#?}", guest.evidence);
}

/// gVisor shows no firmware, on whatever machine.
#[test]
fn gvisor_makes_no_microvm_of_a_machine() {
    let tree = unpack(&format!("{HOST}== file /proc/cmdline\nBOOT_IMAGE=/vmlinuz-4.4.0-gvisor quiet\n"));
    assert_eq!(read(&tree, "KVMKVMKVM").platform(), "VMCN");
}

#[test]
fn a_stray_file_is_shown_and_said_to_be_ignored() {
    let guest = read(&recorded("firecracker"), "KVMKVMKVM");
    let stray = guest.evidence.iter().find(|evidence| evidence.source == "/.dockerenv").unwrap();
    assert_eq!(stray.says, "docker, ignored: no separate namespaces");
}

#[test]
fn limits_are_the_tightest_on_the_way_up() {
    let guest = read(&recorded("pod-in-vm"), "KVMKVMKVM");
    let quota = guest.cgroup.cpu.unwrap();
    assert_eq!((quota.quota_ns, quota.period_ns), (150_000_000, 100_000_000));
    assert_eq!(quota.group, "/kubepods.slice/kubepods-pod1.slice");
    assert_eq!(guest.cgroup.memory_bytes, Some(2_147_483_648));
    assert_eq!(guest.cgroup.cpuset.as_deref(), Some("0-7"));
    let limits = guest.evidence.iter().filter(|evidence| evidence.about == About::Limits);
    let limits: Vec<_> = limits.map(|evidence| (evidence.source.as_str(), evidence.says.as_str())).collect();
    assert_debug_snapshot!(limits);
    assert_eq!(guest.cgroup.version, Some(2));
    // A quota of 1.5 CPUs: the studies' container-host core ratio.
    let online = f64::from(guest.cores.online.count());
    assert_eq!((guest.cores.usable(), guest.cores.host_ratio()), (1.5, 1.5 / online));
    assert_eq!(guest.container.id.as_deref().map(str::len), Some(64));
}

#[test]
fn version_1_is_read_controller_by_controller() {
    let tree = recorded("firecracker");
    let cpu = tree.path().join("sys/fs/cgroup/cpu/lab/ic");
    fs::create_dir_all(&cpu).unwrap();
    fs::write(cpu.join("cpu.cfs_quota_us"), "50000\n").unwrap();
    fs::write(cpu.join("cpu.cfs_period_us"), "100000\n").unwrap();
    let groups = fs::read_to_string(tree.path().join("proc/self/cgroup")).unwrap();
    fs::write(tree.path().join("proc/self/cgroup"), groups.replace("1:cpu:/\n", "1:cpu:/lab/ic\n")).unwrap();
    let guest = read(&tree, "KVMKVMKVM");
    assert_eq!((guest.cgroup.version, guest.cgroup.path.as_deref()), (Some(1), Some("/lab/ic")));
    assert_eq!(guest.scenario(), "MVM/0.5/VNL/CPU");
    assert_eq!(guest.cgroup.memory_bytes, None, "version 1 says no limit by a large number");
}

#[test]
fn a_mount_from_within_a_group_shows_only_what_is_below_it() {
    let tree = unpack(&format!(
        "{HOST}== file /proc/self/cgroup\n3:cpu,cpuacct:/docker/abc/inner\n\
         == file /proc/self/mountinfo\n\
         40 23 0:30 /docker/ab /else ro - cgroup cgroup rw,memory\n\
         41 23 0:31 /docker/abc /sys/fs/my\\040cgroup ro - cgroup cgroup rw,cpu,cpuacct\n\
         == file /sys/fs/my cgroup/inner/cpu.cfs_quota_us\n-1\n== file /sys/fs/my cgroup/inner/cpu.cfs_period_us\n100000\n\
         == file /sys/fs/my cgroup/cpu.cfs_quota_us\n200000\n== file /sys/fs/my cgroup/cpu.cfs_period_us\n100000\n"
    ));
    let quota = read(&tree, "none").cgroup.cpu.unwrap();
    assert_eq!((quota.cpus(), quota.group.as_str()), (2.0, "/"));
}

/// Docker mounts its container's own groups first, and the machine's `/sys`, which a user had asked for, over
/// them; podman does it the other way round.
#[rstest]
#[case("docker-in-firecracker", 64 + "/docker/".len())]
#[case("podman-in-firecracker", "/".len())]
fn what_was_mounted_last_is_what_a_place_shows(#[case] name: &str, #[case] group: usize) {
    let quota = read(&recorded(name), "KVMKVMKVM").cgroup.cpu.unwrap();
    assert_eq!((quota.cpus(), quota.group.len()), (1.0, group));
}

#[test]
fn a_process_is_read_by_its_number() {
    let tree = unpack(&format!(
        "{HOST}{INITIAL}== file /proc/4711/status\nNSpid:\t4711\t1\nCpus_allowed_list:\t1\n\
         == link /proc/4711/ns/pid\npid:[4026532997]\n== file /proc/4711/cgroup\n0::/app\n\
         == file /proc/self/mountinfo\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    ));
    let root = Root::at(tree.path());
    let guest = Guest::read(&root, cpuid("none").as_ref(), Subject::Process(4711));
    assert_eq!(guest.scenario(), "CN/1/PIN/CPU");
    assert_eq!(Guest::read(&root, cpuid("none").as_ref(), Subject::Own).scenario(), "BM/4/VNL/CPU");
}

#[rstest]
#[case("0-3,8,10-11", Some((7, "0-3,8,10-11")))]
#[case("3,1,2,2-5", Some((5, "1-5")))]
#[case("", Some((0, "")))]
#[case("0-4294967295", None)]
#[case("5-2", None)]
#[case("a-b", None)]
#[case("-1", None)]
fn cpu_lists(#[case] text: &str, #[case] expected: Option<(u32, &str)>) {
    let list = CpuList::parse(text);
    assert_eq!(
        list.as_ref().map(|list| (list.count(), list.text())),
        expected.map(|(n, t)| (n, t.to_owned()))
    );
}

#[test]
fn an_empty_root_is_survived() {
    let tree = unpack("");
    let guest = read(&tree, "");
    assert_eq!(guest.scenario(), "BM/0/VNL/CPU");
    assert_eq!(guest.host, Host { arch: guest.host.arch, ..Host::default() });
}

#[test]
fn hostile_files_cost_bounded_time_and_are_cleaned() {
    let tree = unpack(&format!("{HOST}{INITIAL}== file /proc/self/cgroup\n0::/../../../etc\n"));
    let at = |path: &str| tree.path().join(path);
    fs::write(at("proc/self/mountinfo"), "30 23 0:26 / / rw - cgroup2 cgroup2 rw\n".repeat(100_000)).unwrap();
    fs::create_dir_all(at("proc/sys/kernel")).unwrap();
    fs::write(at("proc/sys/kernel/hostname"), format!("\x1b[31mname{}", "x".repeat(5_000_000))).unwrap();
    fs::create_dir_all(at("etc")).unwrap();
    nix::unistd::mkfifo(&at("etc/machine-id"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir_all(at("etc/os-release")).unwrap();
    let guest = read(&tree, "none");
    let name = guest.host.host_name.unwrap();
    assert!(name.starts_with("[31mname") && name.chars().count() <= 256, "{name}");
    assert_eq!((guest.host.machine_id, guest.host.os_id), (None, None));
    assert_eq!(guest.cgroup.path.as_deref(), Some("/../../../etc"));
}

#[test]
fn facts_of_the_recorded_host() {
    let host = read(&recorded("firecracker"), "KVMKVMKVM").host;
    let expected = Host {
        kernel_release: Some("6.18.44".to_owned()),
        kernel_version: Some("#1 SMP PREEMPT_DYNAMIC".to_owned()),
        arch: host.arch,
        cpu_model: Some("Intel(R) Xeon(R) Processor".to_owned()),
        logical_cpus: 2,
        memory_bytes: Some(24_684_096 * 1024),
        host_name: Some("guest".to_owned()),
        machine_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
        boot_id: Some("00000000-0000-4000-8000-000000000001".to_owned()),
        os_id: Some("debian".to_owned()),
        os_name: Some("Debian GNU/Linux".to_owned()),
        os_version: Some("12".to_owned()),
    };
    assert_eq!(host, expected);
}

#[test]
fn this_guest_is_read_without_fail() {
    let guest = Guest::here();
    assert!(guest.cores.allowed.count() >= 1 && guest.cores.usable() > 0.0);
    assert!(guest.host.kernel_release.is_some() && guest.host.memory_bytes > Some(1 << 20));
    assert!(guest.scenario().starts_with(guest.platform()));
    let about_machine = guest.evidence.iter().any(|evidence| evidence.about == About::Machine);
    assert!(about_machine, "{:#?}", guest.evidence);
}
