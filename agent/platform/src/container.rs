//! The container axis: whether a process lives in namespaces of its own, and which engine made them.
//!
//! Yields [`Container`]. Namespaces decide, because a file can lie anywhere: a stray `/.dockerenv` in a
//! microVM makes systemd's detection say `docker`. Files and paths only name the engine once namespaces have
//! proved a container.

use std::path::Path;

use super::{
    cgroup::Cgroup,
    evidence::{About, Notes},
    root::{Root, Subject, clean},
};
use crate::{
    mounts::Mount,
    untrusted::{Shown as _, Untrusted},
};

/// Inode numbers of the initial namespaces, fixed since Linux 3.8 (include/linux/proc_ns.h; cgroup since
/// 4.6). Those of mount and network namespaces were not fixed before 6.18 and are not used.
const INITIAL: [(&str, &str); 5] = [
    ("pid", "pid:[4026531836]"),
    ("cgroup", "cgroup:[4026531835]"),
    ("user", "user:[4026531837]"),
    ("uts", "uts:[4026531838]"),
    ("ipc", "ipc:[4026531839]"),
];

/// Files that container engines leave in a container, and the engine.
const FILES: [(&str, &str); 4] = [
    ("/.dockerenv", "docker"),
    ("/run/.containerenv", "podman"),
    ("/run/host/container-manager", "systemd-nspawn"),
    ("/run/systemd/container", "container"),
];

/// Parts of paths of control groups and root file systems, and the engine.
const PATHS: [(&str, &str); 10] = [
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("containers/storage", "podman"),
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("io.containerd", "containerd"),
    ("crio", "cri-o"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
    ("buildkit", "buildkit"),
];

/// Length of a container id: 64 hexadecimal digits in all engines.
const ID_DIGITS: usize = 64;

/// The container axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Namespaces prove one.
    pub is_container: bool,
    /// The engine, as far as files and paths show it.
    pub runtime: Option<String>,
    /// The engine's id: 64 hexadecimal digits.
    pub id: Option<String>,
}

pub(super) fn detect(root: &Root, subject: Subject, cgroup: &Cgroup, notes: &mut Notes) -> Container {
    let mounts = root.bytes(&subject.file("mountinfo")).unwrap_or_default();
    let root_mount = Mount::all(&mounts).find(|mount| mount.at == Path::new("/"));
    let root_mount = root_mount.as_ref();
    let by_hostname = || Mount::all(&mounts).find_map(|mount| hostname_mount_id(&mount));
    let id = cgroup.path.as_deref().and_then(container_id).or_else(by_hostname);
    if is_gvisor(root) {
        notes.add(About::Container, "/proc/version", "the kernel is gVisor");
        return Container { is_container: true, runtime: Some("gVisor".to_owned()), id };
    }
    let Namespaces { own, initial } = namespaces(root, subject, notes);
    let names = names(root, subject, cgroup, root_mount);
    // One separate namespace is common for any sandboxed service (`unshare --pid`), and so are two without an
    // engine or a separate root file system (systemd's ProtectHostname and PrivateIPC).
    let is_made = id.is_some() || !names.is_empty() || has_own_root(root_mount);
    let by_namespaces = match own.as_slice() {
        ["pid"] => initial == 0 || is_made,
        [] | [_] => false,
        several => several.contains(&"pid") || is_made,
    };
    // With all namespaces shared (--pid=host and so on), the file system and the engine's cgroup remain.
    let by_mount_and_cgroup = !by_namespaces && id.is_some() && has_own_mounts(root, subject, notes);
    let is_container = by_namespaces || by_mount_and_cgroup;
    for (source, name) in &names {
        let ignored = if is_container { "" } else { ", ignored: no separate namespaces" };
        notes.add(About::Container, source.clone(), format!("{name}{ignored}"));
    }
    if !is_container {
        return Container::default();
    }
    Container { is_container, runtime: names.into_iter().next().map(|(_, name)| name), id }
}

/// gVisor's kernel reports a fixed version, and its command line names it.
pub(super) fn is_gvisor(root: &Root) -> bool {
    let says =
        |path: &str| root.text(path).is_some_and(|text| text.contains("gvisor") || text.contains("gVisor"));
    says("/proc/version") || says("/proc/sys/kernel/osrelease") || says("/proc/cmdline")
}

/// The readable namespaces of a process.
struct Namespaces {
    /// Kinds in which it is not in the initial one.
    own: Vec<&'static str>,
    /// Number of kinds that it shares with the machine.
    initial: usize,
}

fn namespaces(root: &Root, subject: Subject, notes: &mut Notes) -> Namespaces {
    let read = |name: &str| root.link(&subject.file(&format!("ns/{name}")));
    let known: Vec<(&str, bool)> =
        INITIAL.iter().filter_map(|&(name, initial)| Some((name, read(name)? == initial))).collect();
    let list = |initial: bool| {
        let names = known.iter().filter(|&&(_, is)| is == initial).map(|&(name, _)| name);
        names.collect::<Vec<&str>>()
    };
    let (initial, mut own) = (list(true), list(false));
    let source = subject.file("ns");
    match (initial.is_empty(), own.is_empty()) {
        (true, true) => notes.add(About::Container, source, "unreadable"),
        (false, true) => notes.add(About::Container, source, format!("initial: {}", initial.join(", "))),
        (true, false) => notes.add(About::Container, source, format!("own: {}", own.join(", "))),
        (false, false) => {
            let says = format!("own: {}; initial: {}", own.join(", "), initial.join(", "));
            notes.add(About::Container, source, says);
        }
    }
    let numbers = root.text(&subject.file("status")).unwrap_or_default();
    let depth = super::root::field(&numbers, "NSpid", ':').map_or(0, |pids| pids.split_whitespace().count());
    if depth > 1 {
        notes.add(About::Container, subject.file("status"), format!("NSpid: {depth} process numbers"));
        if !own.contains(&"pid") {
            own.push("pid");
        }
    }
    Namespaces { own, initial: initial.len() }
}

/// Engines use overlay file systems for `/`; machines seldom do.
fn has_own_root(root_mount: Option<&Mount<'_>>) -> bool {
    const KINDS: [&[u8]; 3] = [b"overlay", b"fuse.fuse-overlayfs", b"aufs"];
    root_mount.is_some_and(|mount| KINDS.contains(&mount.kind))
}

fn has_own_mounts(root: &Root, subject: Subject, notes: &mut Notes) -> bool {
    let (own, init) = (root.link(&subject.file("ns/mnt")), root.link("/proc/1/ns/mnt"));
    let differs = own.is_some() && init.is_some() && own != init;
    if differs {
        notes.add(
            About::Container,
            subject.file("ns/mnt"),
            "not that of process 1, and the cgroup is an engine's",
        );
    }
    differs
}

/// Evidence and the engine that it names: paths first.
fn names(
    root: &Root,
    subject: Subject,
    cgroup: &Cgroup,
    root_mount: Option<&Mount<'_>>,
) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let cgroup_path = cgroup.path.clone().unwrap_or_default();
    let root_mount = Untrusted::of_bytes(root_mount.map_or(&[], |mount| mount.line));
    for (text, source) in [(cgroup_path.as_str(), "cgroup"), (root_mount.stored(), "mountinfo")] {
        if let Some((_, name)) = PATHS.iter().find(|(part, _)| text.contains(part)) {
            found.push((subject.file(source), (*name).to_owned()));
        }
    }
    // The files are those of the agent's own root; another process may have another root.
    let files = if subject == Subject::Own { &FILES[..] } else { &[] };
    for (file, name) in files {
        if root.has(file) {
            let says = if *name == "container" { root.value(file).as_deref().and_then(word) } else { None };
            found.push(((*file).to_owned(), says.unwrap_or_else(|| (*name).to_owned())));
        }
    }
    found
}

/// The first plain word of a file that the container may have written itself.
fn word(text: &str) -> Option<String> {
    let plain = text.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c));
    clean(&plain.take(32).collect::<String>())
}

/// The last run of 64 hexadecimal digits in a path.
fn container_id(path: &str) -> Option<String> {
    path.split(|c: char| !c.is_ascii_hexdigit()).rfind(|run| run.len() == ID_DIGITS).map(str::to_owned)
}

/// The id from `/etc/hostname`, which engines mount from a directory named after the container.
fn hostname_mount_id(mount: &Mount<'_>) -> Option<String> {
    (mount.at == Path::new("/etc/hostname")).then(|| container_id(mount.root.shown().stored())).flatten()
}
